"""One trace with its truth: the files of an entry and their contents."""

from __future__ import annotations

from hashlib import sha256

from kprobe_corpus.traces.record import are_texts, fault_of, is_number, is_text, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

ABOUT = "about.json"
TEXT = "trace.txt"
TRUTH = "truth.jsonl"
FILES = (TEXT, TRUTH, "formats", "kprobe_events", ABOUT)
"""What each entry's directory holds."""
DAT = "trace.dat"  # the same records as a trace.dat, in entries of the simulator
DAT_TRUTH = "trace.dat.jsonl"  # its truth: absolute times and full task names, whatever the options

# keys of about.json with a fixed form
_FORMS: tuple[tuple[tuple[str, ...], Callable[[object], bool], str], ...] = (
    (("clock", "source", "truth", "scenario"), is_text, "a string"),
    (("options", "defects"), are_texts, "a list of strings"),
    (("lines",), is_number, "a whole number"),
)
_HEADING = "== "


class CorpusError(Exception):
    """A corpus is missing or incomplete; the text says which file, and what to do."""


class Entry:
    """A trace as a kernel printed it, and what it says.

    ``kernel`` and ``name`` are those of its directory KERNEL/NAME; ``about`` describes its origin: the kernel's
    release, scenario, trace options, clock, source, origin of the truth, defects, link, lines, and the text's SHA-256.
    ``files`` are the bytes of its files by name.
    """

    __slots__ = ("about", "files", "kernel", "name", "place")

    def __init__(self, kernel: str, name: str, files: Mapping[str, bytes], place: str) -> None:
        """Make it of its files; raise `CorpusError` if one is missing or damaged, which `place` and its name tell."""
        self.kernel = kernel
        self.name = name
        self.files = files
        self.place = place
        for file in FILES:
            if file not in files:
                raise CorpusError(f"{place}: {kernel}/{name} has no {file}: the corpus isn't whole, install it again")
        self.about: dict[str, Any] = self._json(ABOUT, files[ABOUT])
        self._check_about()
        if sha256(self.text).hexdigest() != self.about.get("sha256"):
            raise CorpusError(f"{place}: {kernel}/{name}/{TEXT} is damaged: its SHA-256 isn't that of {ABOUT}")

    @property
    def text(self) -> bytes:
        """The trace, as the kernel printed it."""
        return self.files[TEXT]

    @property
    def truth_lines(self) -> bytes:
        """The truth as it is in its file: JSON Lines, in the order of the text."""
        return self.files[TRUTH]

    def truth(self) -> list[dict[str, Any]]:
        """Return the text's records, each a dictionary; bytes that aren't UTF-8 are lone surrogates."""
        return self._records(TRUTH)

    def dat_truth(self) -> list[dict[str, Any]]:
        """Return the contents of the trace.dat, in the same form; without such a file, those of the text."""
        return self._records(DAT_TRUTH if DAT_TRUTH in self.files else TRUTH)

    @property
    def format_files(self) -> dict[str, str]:
        """The events' format files by their paths, such as ``events/kprobes/myopen/format``."""
        text = self.files["formats"].decode("utf-8", "surrogateescape")
        parts = ("\n" + text).split("\n" + _HEADING)[1:]
        return {path: body.rstrip("\n") + "\n" for path, _, body in (part.partition("\n") for part in parts)}

    @property
    def formats(self) -> dict[str, str]:
        """The events' format files by the events' names; empty where they weren't recorded."""
        return {path.split("/")[-2]: text for path, text in self.format_files.items()}

    @property
    def definitions(self) -> list[str]:
        """The probes' definitions, one line of kprobe_events each; empty where they weren't recorded."""
        return self.files["kprobe_events"].decode("utf-8", "surrogateescape").splitlines()

    def __repr__(self) -> str:
        return f"Entry({self.kernel!r}, {self.name!r})"

    def _records(self, file: str) -> list[dict[str, Any]]:
        lines = self.files[file].splitlines()
        return [self._record(f"{file}, line {number}", line) for number, line in enumerate(lines, 1)]

    def _record(self, what: str, line: bytes) -> dict[str, Any]:
        record = self._json(what, line)
        if why := fault_of(record):
            raise CorpusError(f"{self.place}: {self.kernel}/{self.name}/{what}: {why}")
        return record

    def _check_about(self) -> None:
        for keys, fits, kind in _FORMS:
            for key in keys:
                if key in self.about and not fits(self.about[key]):
                    raise CorpusError(f"{self.place}: {self.kernel}/{self.name}/{ABOUT}: {key!r} isn't {kind}")

    def _json(self, what: str, data: bytes) -> dict[str, Any]:
        try:
            read = parsed(data)
        except ValueError as error:
            raise CorpusError(f"{self.place}: {self.kernel}/{self.name}/{what} isn't JSON: {error}") from error
        if not isinstance(read, dict):
            raise CorpusError(f"{self.place}: {self.kernel}/{self.name}/{what} isn't an object")
        return read
