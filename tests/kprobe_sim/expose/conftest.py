"""Commands inside `kprobe-sim run`, and the reason where this machine doesn't allow it.

Nothing here ever mounts or opens the machine's own tracefs: whatever looks for one runs inside `kprobe-sim run`.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[3]
KPROBE_SIM = [sys.executable, "-m", "kprobe_sim.cli"]
TRACING = "/sys/kernel/tracing"

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Requires = Callable[..., None]
Lacks = Callable[..., NoReturn]


def load(path: Path) -> Any:
    """Import a module of another directory by its file."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where pyfakefs finds it
    spec.loader.exec_module(module)
    return module


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH") or str(ROOT)}


@pytest.fixture(scope="session")
def can_mount(requires: Requires) -> None:
    """Needs what `kprobe-sim run` needs."""
    requires("/dev/fuse", "user namespaces")


@pytest.fixture(scope="session")
def run(can_mount: None) -> Run:
    """Run a command inside `kprobe-sim run`: run(COMMAND, options=[...])."""

    def start(command: Sequence[str], options: Sequence[str] = ("--activity", "none"), timeout: float = 60) -> object:
        return subprocess.run(
            [*KPROBE_SIM, "run", *options, "--", *command],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment(),
        )

    return start  # type: ignore[return-value]


@pytest.fixture
def start(can_mount: None) -> Callable[..., subprocess.Popen[str]]:
    """Start a command inside `kprobe-sim run`, with pipes."""

    def start(command: Sequence[str], options: Sequence[str] = ("--activity", "none")) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*KPROBE_SIM, "run", *options, "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    return start


def interrupt(child: subprocess.Popen[str]) -> None:
    """Do what Ctrl-C does once the command's `cat trace_pipe` waits: all of the foreground group get SIGINT.

    But for the simulator, which lets a terminal's pass, and would send the command this one again, at any time.
    """
    (command,) = _below(child.pid)
    while not (waiting := [pid for pid in _below(command) if _waits_on_pipe(pid)]):
        assert child.poll() is None
    for pid in (command, *waiting):
        os.kill(pid, signal.SIGINT)


def _below(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _waits_on_pipe(pid: int) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return arguments[0] == b"cat" and arguments[1].endswith(b"trace_pipe")
    except (FileNotFoundError, ProcessLookupError):  # it ended before, or while, it was looked at
        return False
