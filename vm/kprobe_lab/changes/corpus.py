"""The operations that compare kernels: those of corpus.txt, and reads of the files and events that both have."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

from kprobe_lab.changes.language import Mode, Step, parsed
from kprobe_lab.operations.operation import List, Read
from kprobe_vm.recording.functions import OPENING

FILES, FORMATS = "Files", "Static events"  # sections beside those of corpus.txt
# subsystems whose events are compared: those of tracing, and of what tasks do
SYSTEMS = (
    *("exceptions", "ftrace", "ipi", "irq", "osnoise", "preemptirq", "printk", "raw_syscalls", "sched", "signal"),
    *("syscalls", "task", "timer", "workqueue"),
)
_TEXTS = (
    *("README", "available_tracers", "buffer_percent", "buffer_subbuf_size_kb", "current_tracer", "error_log"),
    *("events/header_event", "events/header_page", "events/sched/sched_process_exec/trigger", "last_boot_info"),
    *("max_graph_depth", "saved_cmdlines_size", "set_event", "set_event_pid", "set_ftrace_filter", "snapshot"),
    *("stack_max_size", "synthetic_events", "syscall_user_buf_size", "trace", "trace_clock", "trace_options"),
    *("tracing_cpumask", "tracing_max_latency", "tracing_on", "tracing_thresh"),
)
_EVENT = "events/sched/sched_process_exec"
_DIRECTORIES = ("", "events", _EVENT, "options", "per_cpu/cpu0")


class Probing(NamedTuple):
    """An operation that compares kernels, and its section."""

    section: str
    steps: tuple[Step, ...]


def corpus(opening: str = OPENING[0]) -> Iterator[Probing]:
    """Return the operations of corpus.txt, with the function that opens a file on the kernels that are compared."""
    section = ""
    for line in files(__package__).joinpath("corpus.txt").read_text("utf-8").splitlines():
        if line.startswith("# "):
            section = line[2:]
        elif line:
            yield Probing(section, parsed(line.replace(OPENING[0], opening)))


def of_files(before: Any, after: Any) -> Iterator[Probing]:
    """Return operations that show which files and static events two tracefs have, and their contents."""
    for path in _DIRECTORIES:
        yield Probing(FILES, (List(path),))
    for path in _DIRECTORIES:
        for name in _common(before, after, path):
            yield Probing(FILES, (Mode(f"{path}/{name}".lstrip("/")),))
    for path in _TEXTS:
        if before.exists(path) and after.exists(path):
            yield Probing(FILES, (Read(path),))
    for system in (name for name in _common(before, after, "events") if name in SYSTEMS):
        yield Probing(FORMATS, (List(f"events/{system}"),))
        for event in _common(before, after, f"events/{system}"):
            path = f"events/{system}/{event}/format"
            if event not in ("enable", "filter") and before.exists(path) and after.exists(path):
                yield Probing(FORMATS, (Read(path),))


def _common(before: Any, after: Any, path: str) -> list[str]:
    """Return the names that a directory of both has."""
    there = set(after.listdir(path))
    return sorted(name for name in before.listdir(path) if name in there)
