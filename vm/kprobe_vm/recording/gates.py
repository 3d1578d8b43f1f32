"""The questions that settle how a kernel differs from others, put to a guest; the simulator supplies the questions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kprobe_vm.errors import MachineError
from kprobe_vm.host.progress import Progress
from kprobe_vm.recording.guest import Guest
from kprobe_vm.recording.probe_points import probe_points
from kprobe_vm.recording.profilefile import json_bytes, version_of

GROUP = "kprobe.questions"
OPTIMIZATION = "proc/sys/debug/kprobes-optimization"  # a probe by breakpoint would soon become a jump


class UnknownAnswers(MachineError):
    """A kernel gave an answer that fits no known value of the row: the questions have to learn it."""


class Differences(Protocol):
    """What a kernel answered, by rows of the simulator's gate tables."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The values that go into the profile."""
        ...

    @property
    def contradicted(self) -> Mapping[str, tuple[Any, Any]]:
        """The rows for which the version predicted something else: the prediction, and the value."""
        ...

    @property
    def missing(self) -> Mapping[str, str]:
        """The rows whose question lacks something on this kernel, and what."""
        ...

    @property
    def unknown(self) -> Mapping[str, str]:
        """The answers that fit no value."""
        ...


class _Unasked(NamedTuple):
    """The `Differences` of a kernel too old for all questions."""

    values: Mapping[str, Any]
    contradicted: Mapping[str, tuple[Any, Any]]
    missing: Mapping[str, str]
    unknown: Mapping[str, str]


def ask(guest: Guest, banner: str, progress: Progress) -> Differences:
    """Ask a guest all questions; `banner` is its /proc/version.  Each contradiction is reported as progress."""
    if not guest.tracefs.exists("dynamic_events"):
        progress("it isn't asked how it differs from other kernels: it is older than 5.0, and its version tells")
        return _Unasked({}, {}, {}, {})
    progress("asking how it differs from other kernels")
    asked: Callable[[object, object, str, Mapping[str, str]], Differences] = next(
        iter(entry_points(group=GROUP, name="sim"))
    ).load()
    points = probe_points(guest)
    workload = guest.workload()
    try:
        with _breakpoints(guest):
            differences = asked(guest.tracefs, workload, version_of(banner), points)
    finally:
        workload.close()
    for row, (expected, value) in differences.contradicted.items():
        progress(f"{row} is {value!r}, not {expected!r} as its version says")
    for row, what in differences.missing.items():
        progress(f"{row} is as its version says: it lacks {what}")
    return differences


@contextlib.contextmanager
def _breakpoints(guest: Guest) -> Iterator[None]:
    """Keep the kernel from optimizing breakpoints into jumps until the context ends."""
    try:
        before = guest.read(OPTIMIZATION)
    except OSError:
        before = b"0"
    if before.strip() == b"0":
        yield
        return
    guest.write(OPTIMIZATION, b"0")
    try:
        yield
    finally:
        guest.write(OPTIMIZATION, before)


def check(differences: Differences) -> None:
    """Raise `UnknownAnswers` if there are answers that no value fits."""
    if differences.unknown:
        rows = "; ".join(f"{row}: {answer!r}" for row, answer in differences.unknown.items())
        raise UnknownAnswers(f"the profile is written, but has no value for what nobody has seen so far: {rows}")


def ask_again(guest: Guest, profile: Path, progress: Progress) -> Path:
    """Ask a guest all questions, renew the answers in its profile, and return the profile's directory.

    Raise `FileNotFoundError` if there is no profile, and `UnknownAnswers` once it is written.
    """
    file = profile / "profile.json"
    facts = json.loads(file.read_bytes())
    differences = ask(guest, facts["banner"], progress)
    file.write_bytes(json_bytes({**facts, "answers": dict(differences.values)}) + b"\n")
    check(differences)
    return profile
