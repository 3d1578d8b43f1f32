"""A guest's texts as entries of a corpus, which kprobe_corpus makes, writes and finds through entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from kprobe_vm.errors import NotReady
from kprobe_vm.host.progress import Progress
from kprobe_vm.traces.recorder import GuestText
from kprobe_vm.traces.recording import record

GROUP = "kprobe.entries"


class CorpusEntry(Protocol):
    """A trace with its truth."""

    @property
    def kernel(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> bytes: ...
    @property
    def about(self) -> dict[str, Any]: ...


def _offered(name: str) -> Any:
    for point in entry_points(group=GROUP, name=name):
        return point.load()
    raise NotReady(f"no installed package has an entry point {name!r} in the group {GROUP}")


def recorded(kernel: str, progress: Progress, *, modules: Path | None = None) -> Iterator[CorpusEntry]:
    """Boot a kernel and yield its texts as entries; raise `MachineError`."""
    made = _offered("made")
    for release, text in record(kernel, progress, modules=modules):
        yield made(
            f"{kernel}/{text.name}", text.text, text.truth, _about(kernel, release, text),
            formats=text.formats, definitions=text.definitions,
        )  # fmt: skip


def write_down(kernel: str, into: Path, progress: Progress, *, modules: Path | None = None) -> list[str]:
    """Boot a kernel and write its texts below a directory; return their names.  Raise `MachineError` and `OSError`."""
    write = _offered("write")
    names = []
    for entry in recorded(kernel, progress, modules=modules):
        write(entry, str(into))
        names.append(entry.name)
    return names


def entries_in(directory: Path | None) -> list[CorpusEntry]:
    """Return the entries of the corpus that is installed, or of a directory; raise `NotReady`."""
    entries = _offered("entries")
    try:
        read: list[CorpusEntry] = entries(directory=None if directory is None else str(directory))
    except Exception as error:  # the other package raises its own errors
        raise NotReady(str(error)) from error
    return read


def _about(kernel: str, release: str, text: GuestText) -> dict[str, Any]:
    return {
        "kernel": kernel,
        "release": release,
        "scenario": text.name.partition(".")[0],
        "options": list(text.options),
        "clock": text.clock,
        "source": "guest",
        "truth": "activity" if text.settled else "raw pages",
        "records": {"activity": text.settled, "raw pages": len(text.truth) - text.settled},
        "defects": list(text.defects),
        "link": None,
        **({"reads": list(text.reads)} if text.reads else {}),
        **({"lacks": list(text.lacks)} if text.lacks else {}),
    }
