"""`kprobe-sim record-local`: records the kernel of this machine, with code of the package kprobe_vm."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from kprobe_sim.releases import SUFFIX
from kprobe_sim.standard_files import say

_NOTHING_DONE, _REFUSED, _INTERRUPTED = 1, 2, 130


class Recording(Protocol):
    """What the entry point `local` of the group kprobe.recording returns."""

    cannot: list[str]
    tracing: list[str]
    plan: Mapping[str, list[str]]

    def record(self, into: Path, config: str | None, progress: Callable[[str], None]) -> tuple[Path, list[str]]: ...


def record_local(output: str, config: str, agreed: bool) -> int:
    """Record the running kernel's profile; return the exit status.

    `output` is a file (NAME.kprofile) or a directory, in which the profile gets a directory named after its release.
    `config` is the kernel's configuration file, "" for the one in /boot.  Unless `agreed`, the user is asked first.
    """
    recording = _recording()
    if recording is None:
        return _refuse(["no recorder is installed (the entry point local of kprobe.recording): kprobe_vm has one"])
    if troubles := recording.cannot + [f"somebody traces: {line}" for line in recording.tracing]:
        return _refuse(troubles)
    target = Path(output)
    directory = target.parent if target.suffix == SUFFIX else target
    try:
        text = Path(config).read_text("utf-8", "replace") if config else None
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".recording-") as scratch:
            for heading, lines in recording.plan.items():
                if lines:
                    print(f"{heading}:", *(f"  {line}" for line in lines), sep="\n", file=sys.stderr)
            if not agreed and not _agrees():
                return _NOTHING_DONE
            return _record(recording, target, Path(scratch) if target.suffix == SUFFIX else directory, text)
    except (OSError, ValueError) as error:
        return _refuse([f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)])


def _record(recording: Recording, target: Path, into: Path, config: str | None) -> int:
    try:
        profile, left = recording.record(into, config, _say)
    except (OSError, ValueError, KeyboardInterrupt, SystemExit) as error:
        ended = isinstance(error, (KeyboardInterrupt, SystemExit))
        for line in ("interrupted" if ended else f"the recording failed: {error}", *getattr(error, "__notes__", [])):
            _say(line)
        if isinstance(error, SystemExit):
            raise
        return _INTERRUPTED if ended else _NOTHING_DONE
    for line in left:
        _say(line)
    if target.suffix == SUFFIX:
        from kprobe_sim.builds.portable.file import packed

        target.write_bytes(packed(profile))
        profile = target
    print(profile, flush=True)
    return _NOTHING_DONE if left else 0


def _recording() -> Recording | None:
    from importlib.metadata import entry_points

    for point in entry_points(group="kprobe.recording", name="local"):
        recording: Recording = point.load()()
        return recording
    return None


def _agrees() -> bool:
    if not (sys.stdin and sys.stdin.isatty()):
        _say("nothing was done: --yes allows it")
        return False
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _refuse(lines: list[str]) -> int:
    for line in lines:
        _say(line)
    return _REFUSED


def _say(line: str) -> None:
    say(f"kprobe-sim: record-local: {line}")
