"""Whatever of `kprobe-sim run` and `mount` ends first, and however, no process and no mount is left.

All that a run starts has a mark in its environment, by which it is found in /proc wherever it went.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from .conftest import KPROBE_SIM, TRACING, environment
from .conftest import Run as Sh

ENDING = ("SIGTERM", "SIGKILL", "SIGINT", "SIGHUP")
SECONDS = 10.0  # for all to end; it takes a few milliseconds
# a daemon, a child that takes no signal, and the command itself; none of them ends because a file can't be read
COMMAND = f"""
(setsid sh -c 'echo >&3; exec 3>&-; while :; do sleep 0.1; cat {TRACING}/tracing_on; done' >/dev/null 2>&1 &)
sh -c 'trap "" TERM INT HUP; echo >&3; exec 3>&-; while :; do sleep 0.1; done' &
echo >&3
exec 3>&-
exec sleep 1000
"""
KEEPER = "sim-keeper"


class Marked:
    """Processes that have a mark in their environment."""

    def __init__(self) -> None:
        self.mark = f"MARK={uuid.uuid4()}"
        self.environment = environment() | dict([self.mark.split("=")])

    def pids(self) -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and self._has(name)]

    def named(self, comm: str) -> list[int]:
        return [pid for pid in self.pids() if _text(f"/proc/{pid}/comm") == f"{comm}\n"]

    def wait(self) -> list[int]:
        """Wait until none is left; return what is left all the same."""
        poller = select.poll()
        while pids := self.pids():
            handles = []
            for pid in pids:
                try:
                    handles.append(os.pidfd_open(pid))
                except ProcessLookupError:
                    continue
            try:
                for handle in handles:
                    poller.register(handle, select.POLLIN)
                    if not poller.poll(SECONDS * 1000):
                        return self.pids()
                    poller.unregister(handle)
            finally:
                for handle in handles:
                    os.close(handle)
        return []

    def kill(self) -> None:
        while pids := self.pids():
            for pid in pids:
                send(pid, signal.SIGKILL)

    def _has(self, pid: str) -> bool:
        return self.mark in _text(f"/proc/{pid}/environ").split("\0")


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def below(pid: int) -> list[int]:
    """Return the children of a process's first thread."""
    return [int(child) for child in _text(f"/proc/{pid}/task/{pid}/children").split()]


@pytest.fixture
def marked(can_mount: None) -> Iterator[Marked]:
    found = Marked()
    yield found
    found.kill()


class Run:
    """`kprobe-sim run` below a shell; the command, and all that it started, are there."""

    def __init__(self, marked: Marked) -> None:
        waits, told = os.pipe()
        argv = [*KPROBE_SIM, "run", "--activity", "none", "--", "bash", "-c", COMMAND]
        self.parent = started(marked, ["bash", "-c", 'exec 3>&"$0"; "$@"; :', str(told), *argv], told)
        os.close(told)
        with open(waits, "rb", buffering=0) as pipe:
            assert [pipe.read(1) for _ in range(3)] == [b"\n"] * 3
        (self.server,) = below(self.parent.pid)
        (self.command,) = below(self.server)[:1]
        self.marked = marked

    def role(self, name: str) -> int:
        if name == "keeper":
            return self.marked.named(KEEPER)[0]
        return {"parent": self.parent.pid, "server": self.server, "command": self.command}[name]


class Mount:
    """`kprobe-sim mount` below a shell in a mount namespace, which a process keeps that isn't marked."""

    def __init__(self, marked: Marked, directory: Path, *, waits: bool = True) -> None:
        self.directory = directory
        self.holder = subprocess.Popen(["unshare", "-Urm", "cat"], stdin=subprocess.PIPE)
        while "cat" not in _text(f"/proc/{self.holder.pid}/comm"):
            assert self.holder.poll() is None
        inside = ["nsenter", "-t", str(self.holder.pid), "-U", "-m", "--preserve-credentials"]
        argv = [*KPROBE_SIM, "mount", "--activity", "none", str(directory)]
        self.server = 0
        if not waits:
            self.parent = started(marked, [*inside, *argv])
            return
        self.parent = started(marked, [*inside, "sh", "-c", '"$@"; :', "sh", *argv])
        while not self.is_mounted():
            assert self.parent.poll() is None
        (self.server,) = below(self.parent.pid)

    def role(self, name: str) -> int:
        if name == "keeper":
            return below(self.server)[0]
        return {"parent": self.parent.pid, "server": self.server}[name]

    def is_mounted(self) -> bool:
        return f" {self.directory} fuse.tracefs " in _text(f"/proc/{self.holder.pid}/mounts")

    def end(self) -> None:
        self.holder.communicate()
        self.parent.wait()


def started(marked: Marked, argv: list[str], *kept: int) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, so that nobody but the victim gets a signal."""
    return subprocess.Popen(
        argv,
        env=marked.environment,
        pass_fds=kept,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def names(orders: Sequence[tuple[str, ...]]) -> list[object]:
    return [pytest.param(order, id="-".join(order)) for order in orders]


@pytest.mark.slow
@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("victim", ["command", "server"])
def test_what_ends_first_in_a_run(marked: Marked, victim: str, number: str) -> None:
    run = Run(marked)
    send(run.role(victim), getattr(signal, number))
    assert marked.wait() == []
    run.parent.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    names(
        [
            ("keeper", "server"),
            ("keeper", "command"),
            ("server", "command"),
            ("server", "keeper"),
            ("parent", "server"),
            ("parent", "keeper", "server"),
            ("parent", "command"),
        ]
    ),
)
def test_kills_of_a_run_in_order(marked: Marked, order: tuple[str, ...]) -> None:
    """One right after the other, so that nobody has time to hear of the first."""
    run = Run(marked)
    for pid in [run.role(name) for name in order]:
        send(pid, signal.SIGKILL)
    assert marked.wait() == []
    run.parent.wait()


def test_a_run_outlives_its_parent(marked: Marked) -> None:
    """As any command does; it ends with its own."""
    run = Run(marked)
    run.parent.kill()
    run.parent.wait()
    assert run.command in marked.pids()
    send(run.command, signal.SIGTERM)
    assert marked.wait() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.3])
def test_a_run_that_ends_while_it_begins(marked: Marked, delay: float, number: str) -> None:
    child = started(marked, [*KPROBE_SIM, "run", "--activity", "none", "--", "bash", "-c", f"exec 3>&2; {COMMAND}"])
    with pytest.raises(subprocess.TimeoutExpired):  # a moment, and not an event
        child.wait(delay)
    child.send_signal(getattr(signal, number))
    child.wait(SECONDS)
    assert marked.wait() == []


def test_what_the_command_leaves_behind_ends_with_it(marked: Marked) -> None:
    """A daemon as well; and its end is awaited."""
    argv = [*KPROBE_SIM, "run", "--activity", "none", "--", "sh", "-c", "(setsid sleep 1000 &); echo done"]
    done = subprocess.run(argv, env=marked.environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
    assert marked.pids() == []


def test_a_keeper_that_is_killed_is_replaced(marked: Marked) -> None:
    run = Run(marked)
    old = marked.named(KEEPER)
    assert len(old) == 2
    for _ in range(5):
        before = set(marked.named(KEEPER))
        for pid in before:
            send(pid, signal.SIGKILL)
        while len(set(marked.named(KEEPER)) - before) != 2:
            assert run.parent.poll() is None
    send(run.server, signal.SIGKILL)
    assert marked.wait() == []
    run.parent.wait()


def test_a_signal_that_comes_as_the_run_ends_changes_nothing(can_mount: None) -> None:
    script = """
import os, signal, sys
from kprobe_sim import SimulatedKernel
from kprobe_sim.expose.run import run

class Watch(run.Watch):
    def end(self):
        super().end()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)

run.Watch = Watch
sys.exit(run.run(SimulatedKernel("6.1"), ["sh", "-c", "exit 3"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), timeout=60)
    assert (done.returncode, done.stderr) == (3, "")


def test_orphans_are_reaped(run: Sh) -> None:
    """Where the first process of a container reaps nothing, they would stay."""
    script = "for i in 1 2 3; do (setsid true &); done; until ! grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null"
    assert run(["bash", "-c", f'{script} | xargs -r grep -l "^PPid:.$PPID$" | grep .; do :; done']).returncode == 0


@pytest.mark.parametrize("number", ENDING)
def test_what_ends_first_of_a_mount(marked: Marked, tmp_path: Path, number: str) -> None:
    mount = Mount(marked, tmp_path)
    send(mount.server, getattr(signal, number))
    assert marked.wait() == []
    assert not mount.is_mounted()
    mount.end()


@pytest.mark.parametrize(
    "order", names([("keeper", "server"), ("server", "keeper"), ("parent", "server"), ("parent", "keeper", "server")])
)
def test_kills_of_a_mount_in_order(marked: Marked, tmp_path: Path, order: tuple[str, ...]) -> None:
    mount = Mount(marked, tmp_path)
    for pid in [mount.role(name) for name in order]:
        send(pid, signal.SIGKILL)
    assert marked.wait() == []
    assert not mount.is_mounted()
    mount.end()


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.15, 0.25])
@pytest.mark.parametrize("number", ENDING)
def test_a_mount_that_ends_while_it_begins(marked: Marked, tmp_path: Path, delay: float, number: str) -> None:
    mount = Mount(marked, tmp_path, waits=False)
    with pytest.raises(subprocess.TimeoutExpired):  # a moment, and not an event
        mount.parent.wait(delay)
    mount.parent.send_signal(getattr(signal, number))
    assert marked.wait() == []
    assert not mount.is_mounted()
    mount.end()
