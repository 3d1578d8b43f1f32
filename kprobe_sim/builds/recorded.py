"""The symbols of a build as they were recorded, shared by all its kernels: a mapped file, searched in place.

Opening it reads nothing but its directory; the chunks that a search needs are unpacked when it comes to them.  Nothing
here ever changes, so answers are remembered, the last `_REMEMBERED` of each kind, and any thread may ask.

Rules and their source: symbol search and sizes as kernel/kallsyms.c and kernel/module/kallsyms.c do; notrace as
`within_notrace_func` of kernel/trace/trace_kprobe.c; the order of refusals as `check_kprobe_address_safe` and
`arch_prepare_kprobe` (kernel/kprobes.c, arch/x86/kernel/kprobes/core.c), held to answers of the recorded kernel.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol

from kprobe_sim.builds.packed import Ascending, Numbers, Texts, open_sections
from kprobe_sim.builds.symbol import KINDS, Placement, Symbol

MAGIC = b"kprobsym"
HIGH = 0xFFFF_FFFF_8000_0000  # image and modules live above it: recorded addresses are 32-bit offsets of it
LOW = 0x100_0000  # smaller offsets are absolute addresses (per-CPU symbols of kernels before 6.15)
CHUNK = 8192  # bytes of the bitmap of instruction starts, and of kinds, that are compressed together
BLOCK = 128  # symbols whose names are compressed together
ENDBR = 4  # bytes of the instruction that a function starts with on kernels with IBT; its ftrace location follows
LOST = "__ftrace_invalid_address___"  # what a weak function is called that another replaced, with an offset after it
_REMEMBERED = 1 << 14  # answers of a kind: more than a test's probes


class Placing(Protocol):
    """What decides whether a probe can be placed."""

    def covers(self, address: int) -> bool: ...
    def is_text(self, address: int) -> bool: ...
    def is_blacklisted(self, address: int) -> bool: ...
    def special(self, address: int) -> Placement | None: ...
    def is_traceable(self, address: int) -> bool: ...
    def is_boundary(self, address: int) -> bool: ...


def placement(symbols: Placing, address: int) -> Placement:
    """Return what the kernel finds when a kprobe is put on an address; registration asks `is_notrace` first."""
    if not symbols.covers(address):
        return Placement.NO_SYMBOL
    if not symbols.is_text(address):
        return Placement.NOT_TEXT
    if symbols.is_blacklisted(address):
        return Placement.BLACKLISTED
    special = symbols.special(address)
    if special is Placement.RESERVED:
        return special
    if symbols.is_traceable(address):
        return Placement.OK
    if not symbols.is_boundary(address):
        return Placement.NOT_BOUNDARY
    return special or Placement.OK


class RecordedSymbols:
    """The recorded symbols of a build; a position is a symbol's place in the order of /proc/kallsyms.

    Remembered are `positions` (of all symbols of a name, ascending), `symbol` (of a position), `lookup` (the symbols of
    a name, by position), `covering` (the position of the symbol that covers an address, of aliases the first),
    `containing` (that symbol), `is_traceable` (an address is an ftrace location), `has_endbr` (a function starts with
    ENDBR; its ftrace location, if it has one, comes after it), `is_notrace` (the function around an address has no
    ftrace location; for `name.suffix` the function `name` counts as well) and `placement` of an address.
    """

    def __init__(self, path: Path) -> None:
        sections = open_sections(path, MAGIC)
        self.addresses = Ascending(sections["address"])  # offsets of HIGH, or below LOW, by position
        self.locations = Ascending(sections["ftrace"])  # offsets of HIGH where ftrace's calls are
        self._shows_lost = "weak" in sections  # a weak function that another replaced has the name of the one before it
        self._rank = Numbers(sections["rank"])
        self._heads_text = sections["heads"]
        self._heads: list[bytes] = []
        self._packed_names = Texts(sections["names"])
        self._names: dict[int, list[bytes]] = {}
        self._order = Numbers(sections["order"])
        self._kinds = Texts(sections["kinds"])
        self._bits = Texts(sections["bits"])
        self._special = Ascending(sections["special"])
        self._special_kind = Numbers(sections["speckind"])
        self._black = sections["black"].cast("I")
        self._endbr = Ascending(sections.get("endbr", memoryview(bytes(8))))
        modules = ["", *bytes(sections["modules"]).decode().split()]
        self.modules = frozenset(modules[1:])
        self._kind_table = [
            (letter, modules[int(module)], bool(int(flags) & 1), bool(int(flags) & 2))
            for letter, module, flags in (line.split() for line in bytes(sections["kindtab"]).decode().splitlines())
        ]
        regions = sections["regions"].cast("I").tolist()
        self._regions = [(regions[i], regions[i + 1], regions[i + 2]) for i in range(0, len(regions), 3)]
        text = sections["text"].cast("I").tolist()
        self._text = [(text[i], text[i + 1], text[i + 2]) for i in range(0, len(text), 3)]

        remember = lru_cache(_REMEMBERED)
        self.positions: Callable[[str], tuple[int, ...]] = remember(self._positions)
        self.symbol: Callable[[int], Symbol] = remember(self._symbol)
        self.lookup: Callable[[str], tuple[Symbol, ...]] = remember(self._lookup)
        self.covering: Callable[[int], int | None] = remember(self._covering)
        self.containing: Callable[[int], Symbol | None] = remember(self._containing)
        self.is_traceable: Callable[[int], bool] = remember(self._is_traceable)
        self.has_endbr: Callable[[int], bool] = remember(self._has_endbr)
        self.is_notrace: Callable[[int], bool] = remember(self._is_notrace)
        self.placement: Callable[[int], Placement] = remember(partial(placement, self))

    def __len__(self) -> int:
        return len(self.addresses)

    def kind(self, position: int) -> tuple[str, str, bool, bool]:
        """Return a symbol's letter, its module, and whether its entry is an ftrace location and blacklisted."""
        return self._kind_table[self._kinds[position // CHUNK][position % CHUNK]]

    def kinds(self) -> tuple[bytes, list[str]]:
        """Return a number for the kind of each symbol by position, and the modules of the kinds by number."""
        every = b"".join([self._kinds[number] for number in range(len(self._kinds))])
        return every, [module for _, module, _, _ in self._kind_table]

    def blacklisted(self) -> list[int]:
        """Return the positions of the symbols whose entry is blacklisted."""
        numbers = {number for number, (_, _, _, blacklisted) in enumerate(self._kind_table) if blacklisted}
        return [position for position, number in enumerate(self.kinds()[0]) if number in numbers]

    def name(self, position: int) -> bytes:
        """Return the name of a symbol."""
        rank = self._rank[position]
        return self._block(rank // BLOCK)[rank % BLOCK]

    def names(self) -> list[str]:
        """Return the names of all symbols by position, in a fifth of the time that asking for each takes."""
        blocks = [self._packed_names[number] for number in range(len(self._packed_names))]
        sorted_names = b"\n".join(blocks).decode().split("\n")
        return [sorted_names[rank] for rank in self._rank.unpacked()]

    def lost_name(self, distance: int) -> str | None:
        """Return the name of a function whose ftrace call is `distance` bytes after the symbol before it starts.

        None: that symbol's name.  Beyond an ENDBR it is a weak function that another replaced
        (FTRACE_INVALID_FUNCTION, kernel/trace/ftrace.c, 6.1).
        """
        return None if distance <= ENDBR or self._shows_lost else f"{LOST}{distance}"

    def end(self, position: int) -> int:
        """Return the offset where a symbol ends: the next different address, or its region's end."""
        addresses = self.addresses
        offset = addresses[position]
        limit = HIGH
        for start, end, _ in self._regions:
            if start <= offset < end:
                limit = end
                break
        following = addresses.right(offset)
        if following < len(addresses) and self.kind(following)[1] == self.kind(position)[1]:
            return min(addresses[following], limit)
        return offset if limit == HIGH else limit

    # ------------------------------------------------------------------------------------------------- of an address

    def covers(self, address: int) -> bool:
        """Return whether a symbol covers an address."""
        return self.covering(address) is not None

    def is_boundary(self, address: int) -> bool:
        """Return whether an instruction starts at an address, counted from the symbol that covers it."""
        offset = address - HIGH
        for start, length, base in self._text:
            if start <= offset < start + length:
                bit = offset - start
                number, within = divmod(base + (bit >> 3), CHUNK)
                return bool(self._bits[number][within] >> (bit & 7) & 1)
        return False

    def is_text(self, address: int) -> bool:
        """Return whether an address is in the kernel's or a module's text (freed init text isn't)."""
        offset = address - HIGH
        return any(start <= offset < start + length for start, length, _ in self._text)

    def is_blacklisted(self, address: int) -> bool:
        """Return whether an address is in the kprobe blacklist; for `name.suffix`, also whether `name` is."""
        if self.in_blacklist(address):
            return True
        position = self.covering(address)
        return position is not None and self.stem_is_blacklisted(position)

    def has_lone_endbr(self, entry: int) -> bool:
        """Return whether a function starts with ENDBR and has no ftrace location after it."""
        return _holds(self._endbr, entry - HIGH, entry - HIGH + 1)

    def in_blacklist(self, address: int) -> bool:
        """Return whether an address is in the blacklist, which holds starts and ends by turns, merged."""
        offset = address - HIGH
        return bool(bisect_right(self._black, offset) & 1) if offset >= 0 else False

    def stem_is_blacklisted(self, position: int) -> bool:
        """Return whether, for a symbol called `name.suffix`, `name` is blacklisted."""
        stem = self._stem(position)
        return stem is not None and self.in_blacklist(HIGH + self.addresses[stem])

    def is_untraced(self, position: int) -> bool:
        """Return whether a symbol has no ftrace location; for `name.suffix` the symbol `name` counts as well."""
        if self._traced(position):
            return False
        stem = self._stem(position)
        return stem is None or not self._traced(stem)

    def special(self, address: int) -> Placement | None:
        """Return what a recorded range says of a probe in it."""
        offset = address - HIGH
        index = self._special.right(offset) - 1 if offset >= 0 else -1
        if index >= 0:
            length, kind = divmod(self._special_kind[index], 8)
            if offset < self._special[index] + length:
                return KINDS[kind]
        return None

    # --------------------------------------------------------------------------------------------------- remembered

    def _positions(self, name: str) -> tuple[int, ...]:
        encoded = name.encode()
        if not self._heads:
            self._heads = bytes(self._heads_text).split(b"\n")
        positions = []
        for block in range(max(bisect_left(self._heads, encoded) - 1, 0), len(self._heads)):
            names = self._block(block)
            first = bisect_left(names, encoded)
            last = bisect_right(names, encoded, first)
            positions += [self._order[block * BLOCK + index] for index in range(first, last)]
            if last < len(names):
                break
        return tuple(positions)

    def _lookup(self, name: str) -> tuple[Symbol, ...]:
        return tuple([self.symbol(position) for position in self.positions(name)])

    def _symbol(self, position: int) -> Symbol:
        offset = self.addresses[position]
        letter, module, traceable, blacklisted = self.kind(position)
        address = offset if offset < LOW else HIGH + offset
        name = self.name(position).decode()
        return Symbol(name, address, self.end(position) - offset, letter, module, traceable, blacklisted)

    def _covering(self, address: int) -> int | None:
        offset = address - HIGH
        for start, end, _ in self._regions:
            if start <= offset < end:
                break
        else:
            return None
        position = self.addresses.right(offset) - 1
        if position < 0:
            return None
        first = self.addresses[position]
        return self.addresses.left(first) if first >= start else None

    def _containing(self, address: int) -> Symbol | None:
        position = self.covering(address)
        return None if position is None else self.symbol(position)

    def _is_traceable(self, address: int) -> bool:
        return _holds(self.locations, address - HIGH, address - HIGH + 1)

    def _has_endbr(self, entry: int) -> bool:
        return self.is_traceable(entry + ENDBR) or self.has_lone_endbr(entry)

    def _is_notrace(self, address: int) -> bool:
        position = self.covering(address)
        return position is not None and self.is_untraced(position)

    def _block(self, number: int) -> list[bytes]:
        names = self._names.get(number)
        if names is None:
            names = self._names[number] = self._packed_names[number].split(b"\n")
        return names

    def _stem(self, position: int) -> int | None:
        """Return the symbol `name` for one called `name.suffix`: the first of that name, as the kernel looks it up."""
        stem, dot, _ = self.name(position).decode().partition(".")
        positions = self.positions(stem) if dot else ()
        return positions[0] if positions else None

    def _traced(self, position: int) -> bool:
        return _holds(self.locations, self.addresses[position], self.end(position))


def _holds(numbers: Ascending, start: int, end: int) -> bool:
    index = numbers.left(start) if start >= 0 else 0
    return index < len(numbers) and numbers[index] < end
