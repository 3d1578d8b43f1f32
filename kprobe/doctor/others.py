"""Other users of the tracefs: sessions of kprobe, running or dead, and processes that read trace_pipe."""

from __future__ import annotations

from collections.abc import Iterator

from kprobe.definitions.probe import KPROBES as PATH
from kprobe.doctor.diagnosis import NOTE, Diagnosis, Fact
from kprobe.doctor.facts import Facts
from kprobe.errors import KprobeError
from kprobe.undo import leftovers
from kprobe.undo.instance import ROOM
from kprobe.undo.owners import read_session
from kprobe.undo.processes import PROC

PIPES = ("trace_pipe", "trace_pipe_raw")


def of_others(facts: Facts, proc: str = PROC) -> Iterator[Diagnosis]:
    """Yield sessions, and other readers of trace_pipe."""
    try:
        sessions = leftovers.find(facts.tracefs, proc)
    except (KprobeError, OSError):  # unreadable files are reported elsewhere
        sessions = []
    for session in sessions:
        path = facts.typed(session.directory or PATH)
        says = ", ".join(session.events) or "no events"
        if session.holder:
            what = f"another kprobe is tracing: {session.holder}"
            yield Diagnosis(NOTE, "sessions", what, (Fact(path, says),), f"kill {session.owner.pid}, to end it")
        else:
            what = f"a kprobe that was killed left something behind: process {session.owner.pid} is gone"
            yield Diagnosis(NOTE, "leftovers", what, (Fact(path, says),), "kprobe clean")
    yield from _readers(facts)


def _readers(facts: Facts) -> Iterator[Diagnosis]:
    machine = facts.machine
    for pid in sorted(int(name) for name in machine.names("/proc") if name.isdigit()):
        for descriptor in machine.names(f"/proc/{pid}/fd"):
            path = machine.link(f"/proc/{pid}/fd/{descriptor}")
            directory, _, name = path.rpartition("/")
            if name not in PIPES or "/trac" not in directory or _is_session(directory):
                continue
            comm = machine.text(f"/proc/{pid}/comm") or "?"
            what = f"process {pid} ({comm}) reads {name}: nobody else gets what it reads"
            fact = Fact(f"/proc/{pid}/fd/{descriptor}", path)
            yield Diagnosis(NOTE, "readers", what, (fact,), f"kill {pid}, if it isn't needed")


def _is_session(directory: str) -> bool:
    return any(read_session(name) is not None for name in directory.partition(f"/{ROOM}/")[2].split("/"))
