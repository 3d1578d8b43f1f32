"""Whether the sections of a profile file fit together: an index in one must be within the range of another.

Anyone can have written the file, and the readers of the mapped files check only what they are asked for.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kprobe_sim.builds.portable.sections import Sections, ascending_of, numbers_of, texts_of
from kprobe_sim.builds.prototypes import PROTOTYPES, TYPES
from kprobe_sim.builds.recorded import CHUNK
from kprobe_sim.builds.recorded_tracefs import FORMATS
from kprobe_sim.builds.symbol import KINDS

_DEEPEST, _LARGEST = 64, 4096  # of a type: pointers to arrays to typedefs, and anonymous members within each other
_MOST = 1 << 31
_TREE = ("", "events", "events/*/*", "options", "per_cpu/cpu0")
_OF_INSTANCES = ("instances/*",)  # where there are instances: not before 3.10
_TOP = {"README", "events", "kprobe_events"}
_FILES = ("README", "events/header_event", "events/header_page")
_KIND = re.compile(r"[A-Za-z?] (\d{1,4}) [0-3]")
_NUMBER = r"(\d{1,9})"
_TYPE = re.compile(  # a line of `types`; the number of what a type is made of comes first
    rf"0|[*cvr(]\t{_NUMBER}|t\t{_NUMBER}\t[^\t]*|\[\t{_NUMBER}\t\d{{1,10}}|i\t\d{{1,3}}\t\d{{1,2}}\t\d{{1,4}}\t[^\t]*|"
    r"[su]\t\d{1,9}\t[^\t]*(?:\t[^\t:]*:\d{1,9}:\d{1,10}(?::\d{1,3})?)*|[eE]\t\d{1,2}\t[01]\t[^\t]*|f\t[^\t]*|"
    r"n\t\d{1,2}\t[^\t]*",
    re.ASCII,
)
_PROTOTYPE = re.compile(r"\d{1,9}(?:\t[^\t:]*:\d{1,9})*", re.ASCII)
_STRUCT = re.compile(r"[^\t]*\t\d{1,9}", re.ASCII)
_FORMAT = re.compile(rb"name: \S+\nID: \d+\nformat:\n")


def check(files: Mapping[str, Sections]) -> None:
    """Raise ValueError where the loose sections of a profile's mapped files don't fit together."""
    checks = {"symbols.bin": _symbols, "tracefs.bin": _tracefs}
    for file, check_sections in checks.items():
        if file not in files:
            raise ValueError(f"lacks {file}")
        _check_file(file, check_sections, files[file])
    if "prototypes.bin" in files:
        symbols = files["symbols.bin"]["by"].count(b"\n") + 1
        _check_file("prototypes.bin", lambda sections: _prototypes(sections, symbols), files["prototypes.bin"])


def _check_file(file: str, check_sections: Callable[[Sections], None], sections: Sections) -> None:
    try:
        check_sections(sections)
    except KeyError as error:
        raise ValueError(f"{file} has no section {error.args[0]}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: {error}") from error


def _need(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _below(numbers: Sequence[int], limit: int, message: str) -> None:
    _need(not numbers or max(numbers) < limit, message)


# -------------------------------------------------------------------------------------------------------- symbols.bin


def _symbols(sections: Sections) -> None:
    sections["by"].decode()
    count = sections["by"].count(b"\n") + 1
    addresses = ascending_of(sections["address"])
    _need(len(addresses) == count, f"{count} names of {len(addresses)} symbols")
    kinds = texts_of(sections["kinds"])
    _need(_total_size(kinds) == count, f"{count} names of {_total_size(kinds)} symbols that have a kind")
    modules = len(sections["modules"].decode().split()) + 1
    lines = sections["kindtab"].decode().split("\n")
    for line in lines:
        kind_line = _KIND.fullmatch(line)
        _need(kind_line and int(kind_line[1]) < modules, f"{line!r} is no kind of symbol")
    _need(max(map(max, kinds)) < len(lines), "a symbol's kind isn't in the table")
    bits = _total_size(texts_of(sections["bits"]))
    for start, length, offset in _rows(sections["text"], "text"):
        _need(start + length < 1 << 32 and offset + (length + 7) // 8 <= bits, "text without its bitmap")
    _below([module for _, _, module in _rows(sections["regions"], "regions")], modules, "a region of no module")
    special, kind = ascending_of(sections["special"]), numbers_of(sections["speckind"])
    _need(len(special) == len(kind), f"{len(special)} ranges of {len(kind)} kinds")
    _need({number % 8 for number in kind} <= set(KINDS), "a range of an unknown kind")
    _need(len(sections["black"]) % 8 == 0, "half a blacklisted range")
    locations = ascending_of(sections["ftrace"])
    _need(not locations or locations[0] >= addresses[0], "an ftrace location before all symbols")
    if "endbr" in sections:
        ascending_of(sections["endbr"])


def _total_size(chunks: Sequence[bytes]) -> int:
    """Return the bytes of chunks that are all full but the last."""
    _need(chunks and all(len(chunk) == CHUNK for chunk in chunks[:-1]), "chunks that aren't full")
    _need(0 < len(chunks[-1]) <= CHUNK, "chunks that aren't full")
    return CHUNK * (len(chunks) - 1) + len(chunks[-1])


def _rows(data: bytes, name: str) -> list[tuple[int, int, int]]:
    _need(data and len(data) % 12 == 0, f"section {name} isn't rows of three numbers")
    numbers = array("I", data)
    return list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))


# ----------------------------------------------------------------------------------------------------- prototypes.bin


def _prototypes(sections: Sections, symbols: int) -> None:
    index = numbers_of(sections["index"])
    _need(len(index) == symbols, f"an index of {len(index)} for {symbols} symbols")
    _need(len(sections["chars"]) % 4 == 0, "section chars isn't numbers")
    lines = _lines(texts_of(sections["protos"]), PROTOTYPES)
    _below(index, len(lines) + 1, "a symbol's prototype isn't there")
    types = _Types(_lines(texts_of(sections["types"]), TYPES))
    for line in lines:
        _need(_PROTOTYPE.fullmatch(line), f"{line[:60]!r} is no prototype")
        for word in line.split("\t"):
            types.measure(int(word.rpartition(":")[2]))
    for line in "\n".join(_decoded(texts_of(sections.get("structs", bytes(4))))).splitlines():
        _need(_STRUCT.fullmatch(line), f"{line[:60]!r} is no struct")
        types.measure(int(line.partition("\t")[2]))
    types.measure_all()


def _decoded(chunks: Sequence[bytes]) -> list[str]:
    return [chunk.decode() for chunk in chunks]


def _lines(chunks: Sequence[bytes], each: int) -> list[str]:
    texts = _decoded(chunks)
    _need(all(text.count("\n") == each - 1 for text in texts[:-1]), "chunks that aren't full")
    _need(not texts or texts[-1].count("\n") < each, "a chunk that is too full")
    return "\n".join(texts).split("\n") if texts else []


class _Types:
    """The lines of `types`; the parts of each, without those behind a named struct, must come to an end."""

    def __init__(self, lines: Sequence[str]) -> None:
        _need(lines and lines[0] == "0", "the first type isn't void")
        self._lines = lines
        self._sizes: dict[int, int] = {}

    def measure_all(self) -> None:
        for number in range(len(self._lines)):
            self.measure(number)

    def measure(self, number: int, depth: int = 0) -> int:
        """Return how many types a type is made of."""
        size = self._sizes.get(number)
        if size is None:
            _need(number < len(self._lines), f"there is no type {number}")
            _need(depth < _DEEPEST, f"type {number} is made of itself, or too deep")
            size = 1 + sum([self.measure(part, depth + 1) for part in self._parts(number)])
            _need(size <= _LARGEST, f"type {number} is made of too many others")
            self._sizes[number] = size
        return size

    def _parts(self, number: int) -> list[int]:
        line = self._lines[number]
        _need(_TYPE.fullmatch(line), f"{line[:60]!r} is no type")
        words = line.split("\t")
        if words[0] not in "su":
            return [int(words[1])] if words[0] in "*cvr(t[" else []
        members = [word.split(":") for word in words[3:]]
        _below([int(member[1]) for member in members], len(self._lines), f"type {number} has a member of no type")
        return [int(member[1]) for member in members if not member[0]]


# -------------------------------------------------------------------------------------------------------- tracefs.bin


def _tracefs(sections: Sections) -> None:
    files = _named(sections["files"])
    for path in _FILES:
        _need(path in files, f"it has no text of {path}")
    tree = {path: _json(text) for path, text in _named(sections["tree"]).items()}
    for entries in tree.values():
        _entries(entries)
    top = {name for name, *_ in tree.get("", ())}
    for path in (*_TREE, *(_OF_INSTANCES if "instances" in top else ())):
        _need(tree.get(path), f"directory {path!r} is empty")
    _need(top >= _TOP, "the tracefs lacks files that every kernel has")
    has_triggers = any(name == "trigger" for name, *_ in tree["events/*/*"])
    _need(not has_triggers or "events/*/*/trigger" in files, "it has no text of events/*/*/trigger")
    kinds = _json(b"".join(texts_of(sections["kinds"])))
    _need(isinstance(kinds, list), "the kinds of events aren't a list")
    for kind in kinds:
        _need(isinstance(kind, list) and len(kind) == 2, "a malformed kind of event")
        _entries([["kind", *kind[0]]] if isinstance(kind[0], list) else None)
        _entries(kind[1])
    chunks = [chunk.split(b"\0") for chunk in texts_of(sections["formats"])]
    _need(all(len(texts) == FORMATS for texts in chunks[:-1]), "chunks of formats that aren't full")
    formats = [text for texts in chunks for text in texts]
    _need(all(map(_FORMAT.match, formats)), "a malformed format file")
    systems = _named(sections["events"])
    _need("ftrace" in list(systems)[1:-1], "system ftrace isn't between others")
    for name, system in systems.items():
        _need(_is_name(name), "a system without a name")
        _system(_json(system), len(kinds), len(formats))


def _system(system: Any, kinds: int, formats: int) -> None:
    """Check a system of events: its files, whether they come first, and the events."""
    _need(isinstance(system, list) and len(system) == 3 and isinstance(system[1], bool), "a malformed system")
    _entries(system[0])
    _need(isinstance(system[2], list) and system[2], "a system without events")
    for event in system[2]:
        _need(_is_row(event, 4) and _is_name(event[0]), "a malformed event")
        _need(event[1] < 1 << 16 and event[2] < kinds and event[3] < formats, f"event {event[0]} isn't there")


def _named(loose: bytes) -> dict[str, bytes]:
    names, *texts = texts_of(loose) or [b""]
    words = names.decode().split("\n")
    _need(len(words) == len(set(words)) == len(texts), f"{len(words)} names of {len(texts)} texts")
    return dict(zip(words, texts, strict=True))


def _json(text: bytes) -> Any:
    return json.loads(text)  # may raise ValueError


def _entries(entries: Any) -> None:
    """Check a directory: name, mode, uid, gid and links of each file."""
    _need(isinstance(entries, list), "a directory that isn't a list")
    for entry in entries:
        _need(_is_row(entry, 5) and _is_name(entry[0]) and entry[1] < 1 << 16, "a malformed file entry")


def _is_row(row: Any, length: int) -> bool:
    return isinstance(row, list) and len(row) == length and _are_numbers(row[1:])


def _are_numbers(values: Any) -> bool:
    return all(type(value) is int and 0 <= value < _MOST for value in values)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and "/" not in name and "\0" not in name
