"""The public names, on which other people's programs rely: a change here is a change for them."""

from __future__ import annotations

import inspect

import kprobe
import kprobe_sim
import kprobe_vm

KPROBE = [
    "AlreadyExists", "AmbiguousSymbol", "Busy", "DefinitionError", "Event", "FilterRefused", "Handle", "KprobeError",
    "LocalTracefs", "Lost", "NoSuchProcess", "NotABoundary", "NotPermitted", "Parser", "Place", "Probe", "Refused",
    "StackTrace", "Stream", "Trace", "Tracefs", "TracefsMissing", "Tracer", "UndoFailed", "UnknownBackend",
    "UnknownSymbol", "Unparsed", "Unsupported", "find_tracefs", "open_tracefs", "parse",
]  # fmt: skip


def test_kprobe() -> None:
    assert sorted(kprobe.__all__) == KPROBE
    for name in KPROBE:
        assert getattr(kprobe, name).__name__ == name


def test_kprobe_sim() -> None:
    assert sorted(kprobe_sim.__all__) == ["SimulatedKernel", "Task"]


def test_kprobe_vm() -> None:
    assert sorted(kprobe_vm.__all__) == ["Machine", "MachineDied", "MachineError", "NotReady"]


def test_tracefs() -> None:
    """Every implementation has these, with these parameters."""
    methods = {name: str(inspect.signature(value)) for name, value in vars(kprobe.Tracefs).items() if name[0] != "_"}
    assert methods == {
        "read": "(self, path: 'str') -> 'bytes'",
        "write": "(self, path: 'str', data: 'bytes', *, truncate: 'bool' = False) -> 'None'",
        "listdir": "(self, path: 'str') -> 'list[str]'",
        "exists": "(self, path: 'str') -> 'bool'",
        "mkdir": "(self, path: 'str') -> 'None'",
        "rmdir": "(self, path: 'str') -> 'None'",
        "stream": "(self, path: 'str') -> 'Stream'",
    }


def test_call() -> None:
    """What a simulated machine can be told to do."""
    assert list(inspect.signature(kprobe_sim.SimulatedKernel.call).parameters) == [
        "self", "function", "task", "args", "returns", "caller", "registers", "memory", "stack", "offset", "cpu", "at",
        "duration", "within",
    ]  # fmt: skip


def test_what_a_trace_event_has() -> None:
    names = {"task", "pid", "cpu", "flags", "timestamp", "name", "fields", "complete", "guessed"}
    assert names <= set(dir(kprobe.Event))
