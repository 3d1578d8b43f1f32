"""The symbols of one kernel: where its functions are, and where a probe may stand.

The table is a recorded file (`symbols.bin` of a profile, written by `kprobe-vm record`), mapped into memory and
searched in place: opening it reads nothing but its directory.  Functions that the recorded kernel doesn't have can be
added, so that an activity may speak of another era's names.

Rules and their source: symbol search and sizes as kernel/kallsyms.c and kernel/module/kallsyms.c do; notrace as
`within_notrace_func` of kernel/trace/trace_kprobe.c; the order of refusals as `check_kprobe_address_safe` and
`arch_prepare_kprobe` (kernel/kprobes.c, arch/x86/kernel/kprobes/core.c), held to answers of the recorded kernel.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kprobe_sim.builds.packed import Ascending, Numbers, Texts, open_sections

MAGIC = b"kprobsym"
HIGH = 0xFFFF_FFFF_8000_0000  # image and modules live above it: recorded addresses are 32-bit offsets of it
LOW = 0x100_0000  # smaller offsets are absolute addresses (per-CPU symbols of kernels before 6.15)
CHUNK = 8192  # bytes of the bitmap of instruction starts, and of kinds, that are compressed together
BLOCK = 128  # symbols whose names are compressed together
SYNTHETIC = 0xFFFF_FFFF_B000_0000  # an address range that neither image nor modules use: functions that were added
SYNTHETIC_MODULE = 0xFFFF_FFFF_D000_0000  # the same for functions of added modules
ENDBR = 4  # bytes of the instruction that a function starts with on kernels with IBT; its ftrace location follows
FENTRY = 5  # bytes of the call to __fentry__, a nop while nobody traces


class Symbol(NamedTuple):
    """A symbol as /proc/kallsyms has it; `size` is the distance in bytes to the next different address."""

    name: str
    address: int
    size: int
    type: str  # the letter of /proc/kallsyms
    module: str = ""  # "" for the kernel's image
    traceable: bool = False  # its entry is an ftrace location
    blacklisted: bool = False  # its entry lies in the kprobe blacklist


class Placement(Enum):
    """Whether the kernel can put a kprobe on an address, and if not, what stands against it, in the kernel's order."""

    OK = "ok"
    NOTRACE = "notrace"  # the function that covers it has no ftrace location: EINVAL before registration
    NO_SYMBOL = "no symbol"  # no symbol covers it
    NOT_TEXT = "not text"  # data, or init code that was freed: EINVAL
    BLACKLISTED = "blacklisted"  # EINVAL
    RESERVED = "reserved"  # jump label, static call or BUG instruction: EINVAL
    NOT_BOUNDARY = "not boundary"  # EILSEQ
    INT3 = "int3"  # a breakpoint instruction in the code itself (padding): EINVAL up to 6.1
    NOT_COPIED = "not copied"  # can't be single-stepped elsewhere: EINVAL
    UNSUPPORTED = "unsupported"  # far or memory-indirect branch, iret: EOPNOTSUPP since int3 single-stepping (5.13)


# What the recorder writes as the kind of a special range.
KINDS = {
    1: Placement.RESERVED,
    2: Placement.INT3,
    3: Placement.NOT_COPIED,
    4: Placement.UNSUPPORTED,
}


class _Added(NamedTuple):
    symbol: Symbol
    boundaries: frozenset[int] | None  # offsets; None: all but those inside the fentry call


class SymbolTable:
    """The symbols of a recorded kernel, plus what was added."""

    def __init__(self, path: Path) -> None:
        sections = open_sections(path, MAGIC)
        self._address = Ascending(sections["address"])
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
        self._locations = Ascending(sections["ftrace"])
        self._endbr = Ascending(sections.get("endbr", memoryview(bytes(8))))
        self._shows_lost = "weak" in sections
        modules = ["", *bytes(sections["modules"]).decode().split()]
        self._kind_table = [
            (letter, modules[int(module)], bool(int(flags) & 1), bool(int(flags) & 2))
            for letter, module, flags in (line.split() for line in bytes(sections["kindtab"]).decode().splitlines())
        ]
        regions = sections["regions"].cast("I").tolist()
        self._regions = [(regions[i], regions[i + 1], regions[i + 2]) for i in range(0, len(regions), 3)]
        text = sections["text"].cast("I").tolist()
        self._text = [(text[i], text[i + 1], text[i + 2]) for i in range(0, len(text), 3)]
        self._modules = set(modules[1:])
        self._added: dict[str, list[_Added]] = {}
        self._added_at: list[tuple[int, int, str]] = []  # (address, position in the list of that name, name)

    def __len__(self) -> int:
        return len(self._address) + len(self._added_at)

    def __iter__(self) -> Iterator[Symbol]:
        """Yield all symbols in the order of /proc/kallsyms (by address), then the added ones."""
        for index in range(len(self._address)):
            yield self._symbol(index)
        for symbols in self._added.values():
            for added in symbols:
                yield added.symbol

    def kallsyms(self) -> bytes:
        """Return the text of /proc/kallsyms, in a tenth of the time that making all symbols takes."""
        tails = [
            (f" {kind[0]} ".encode(), f"\t[{kind[1]}]\n".encode() if kind[1] else b"\n") for kind in self._kind_table
        ]
        lines = []
        for index, offset in enumerate(self._address):
            letter, tail = tails[self._kinds[index // CHUNK][index % CHUNK]]
            lines.append(
                b"%016x%b%b%b" % (offset if offset < LOW else HIGH + offset, letter, self._name_at(index), tail)
            )
        for one in (added.symbol for symbols in self._added.values() for added in symbols):
            tail = f"\t[{one.module}]\n".encode() if one.module else b"\n"
            lines.append(f"{one.address:016x} {one.type} {one.name}".encode() + tail)
        return b"".join(lines)

    def lookup(self, name: str) -> list[Symbol]:
        """Return all symbols of that name: the image's by address, then modules', then added ones; [] if unknown."""
        found = [self._symbol(index) for index in self.positions(name)]
        return found + [added.symbol for added in self._added.get(name, ())]

    def positions(self, name: str) -> list[int]:
        """Return the positions of all recorded symbols of that name in the table, ascending."""
        wanted = name.encode()
        if not self._heads:
            self._heads = bytes(self._heads_text).split(b"\n")
        found = []
        for block in range(max(bisect_left(self._heads, wanted) - 1, 0), len(self._heads)):
            names = self._block(block)
            place = bisect_left(names, wanted)
            while place < len(names) and names[place] == wanted:
                found.append(self._order[block * BLOCK + place])
                place += 1
            if place < len(names):
                break
        return found

    def at(self, address: int) -> Symbol | None:
        """Return the symbol that covers an address, of aliases the first, as the kernel's `%pS` would name it."""
        added = self._added_covering(address)
        if added is not None:
            return added.symbol
        index = self._covering(address)
        return None if index is None else self._symbol(index)

    def modules(self) -> frozenset[str]:
        """Return the names of the loaded modules."""
        return frozenset(self._modules)

    def traceable_names(self) -> Iterator[str]:
        """Yield the lines of available_filter_functions, in its order (by address; modules and added ones last)."""
        return (name for _, name in self.traceable_places())

    def traceable_places(self) -> Iterator[tuple[int, str]]:
        """Yield the same with the address where ftrace's call is."""
        addresses = self._address
        for offset in self._locations:
            start = addresses[addresses.right(offset) - 1]
            index = addresses.left(start)
            _, module, _, _ = self._kind(index)
            if offset - start > ENDBR and not self._shows_lost:
                # a weak function that another replaced (FTRACE_INVALID_FUNCTION, kernel/trace/ftrace.c, 6.1)
                name = f"__ftrace_invalid_address___{offset - start}"
            elif module:
                name = f"{self._name_at(index).decode()} [{module}]"
            else:
                name = self._name_at(index).decode()
            yield HIGH + offset, name
        for symbols in self._added.values():
            for symbol, _ in symbols:
                if symbol.traceable:
                    yield symbol.address, f"{symbol.name} [{symbol.module}]" if symbol.module else symbol.name

    # --------------------------------------------------------------------------------------------------- placement

    def is_boundary(self, address: int) -> bool:
        """Return whether an instruction starts at an address, counted from the symbol that covers it."""
        added = self._added_covering(address)
        if added is not None:
            offset = address - added.symbol.address
            if added.boundaries is not None:
                return offset in added.boundaries
            return not 0 < offset < FENTRY
        offset = address - HIGH
        for start, length, base in self._text:
            if start <= offset < start + length:
                bit = offset - start
                return bool(self._bitmap(base + (bit >> 3)) >> (bit & 7) & 1)
        return False

    def is_text(self, address: int) -> bool:
        """Return whether an address is in the kernel's or a module's text (freed init text isn't)."""
        if self._added_covering(address) is not None:
            return True
        offset = address - HIGH
        return any(start <= offset < start + length for start, length, _ in self._text)

    def is_traceable(self, address: int) -> bool:
        """Return whether an address is an ftrace location."""
        added = self._added_covering(address)
        if added is not None:
            return added.symbol.traceable and added.symbol.address == address
        return _holds(self._locations, address - HIGH, address - HIGH + 1)

    def is_notrace(self, address: int) -> bool:
        """Return whether the function around an address has no ftrace location (so that no kprobe event may be there).

        False where no symbol covers the address.  For `name.suffix` the function `name` counts as well.
        """
        added = self._added_covering(address)
        if added is not None:
            return not added.symbol.traceable
        index = self._covering(address)
        if index is None or self._traced(index):
            return False
        return not any(self._traced(base) for base in self._unsuffixed(index))

    def is_blacklisted(self, address: int) -> bool:
        """Return whether an address is in the kprobe blacklist; for `name.suffix`, also whether `name` is."""
        added = self._added_covering(address)
        if added is not None:
            return added.symbol.blacklisted
        if self._in_blacklist(address - HIGH):
            return True
        index = self._covering(address)
        if index is None:
            return False
        return any(self._in_blacklist(self._address[base]) for base in self._unsuffixed(index))

    def has_endbr(self, entry: int) -> bool:
        """Return whether a function starts with ENDBR; its ftrace location, if it has one, comes after it."""
        return self.is_traceable(entry + ENDBR) or _holds(self._endbr, entry - HIGH, entry - HIGH + 1)

    def placement(self, address: int) -> Placement:
        """Return what the kernel finds when a kprobe event is to stand on an address."""
        if self._added_covering(address) is None and self._covering(address) is None:
            return Placement.NO_SYMBOL
        if self.is_notrace(address):
            return Placement.NOTRACE
        if not self.is_text(address):
            return Placement.NOT_TEXT
        if self.is_blacklisted(address):
            return Placement.BLACKLISTED
        special = self._special_at(address)
        if special is Placement.RESERVED:
            return special
        if self.is_traceable(address):
            return Placement.OK
        if not self.is_boundary(address):
            return Placement.NOT_BOUNDARY
        return special or Placement.OK

    # ------------------------------------------------------------------------------------------------------ adding

    def add(
        self,
        name: str,
        address: int | None = None,
        size: int = 0x100,
        module: str = "",
        *,
        type: str = "t",
        traceable: bool = True,
        blacklisted: bool = False,
        boundaries: Iterable[int] | None = None,
    ) -> Symbol:
        """Add a function that the recorded kernel doesn't have; return its symbol.

        Without `address` it gets one in a range that nothing else uses.  `boundaries` are the offsets at which
        instructions start; by default any offset but +1 to +4, the inside of the call to __fentry__.
        """
        if size <= 0:
            raise ValueError(f"size {size} of {name!r} isn't positive")
        if address is None:
            address = SYNTHETIC_MODULE if module else SYNTHETIC
            for start, position, other in self._added_at:
                end = start + self._added[other][position].symbol.size
                if (start >= SYNTHETIC_MODULE) == bool(module) and end > address:
                    address = (end + 15) & ~15
        if module:
            self._modules.add(module)
        symbol = Symbol(name, address, size, type, module, traceable, blacklisted)
        known = self._added.setdefault(name, [])
        insort(self._added_at, (address, len(known), name))
        known.append(_Added(symbol, None if boundaries is None else frozenset(boundaries) | {0}))
        return symbol

    def add_module(self, name: str) -> None:
        """Have a module loaded; its functions come with `add(..., module=name)`."""
        self._modules.add(name)

    def _name_at(self, index: int) -> bytes:
        rank = self._rank[index]
        return self._block(rank // BLOCK)[rank % BLOCK]

    def _block(self, number: int) -> list[bytes]:
        names = self._names.get(number)
        if names is None:
            names = self._names[number] = self._packed_names[number].split(b"\n")
        return names

    def _kind(self, index: int) -> tuple[str, str, bool, bool]:
        """Return letter, module, and whether the entry is an ftrace location and blacklisted."""
        return self._kind_table[self._kinds[index // CHUNK][index % CHUNK]]

    def _symbol(self, index: int) -> Symbol:
        offset = self._address[index]
        letter, module, traceable, blacklisted = self._kind(index)
        return Symbol(
            self._name_at(index).decode(),
            offset if offset < LOW else HIGH + offset,
            self._end(index) - offset,
            letter,
            module,
            traceable,
            blacklisted,
        )

    def _end(self, index: int) -> int:
        """Return the offset where a symbol ends: the next different address, or its region's end."""
        offset = self._address[index]
        limit = next((end for start, end, _ in self._regions if start <= offset < end), HIGH)
        following = self._address.right(offset)
        if following < len(self._address) and self._kind(following)[1] == self._kind(index)[1]:
            return min(self._address[following], limit)
        return offset if limit == HIGH else limit

    def _covering(self, address: int) -> int | None:
        offset = address - HIGH
        for start, end, _ in self._regions:
            if start <= offset < end:
                break
        else:
            return None
        index = self._address.right(offset) - 1
        if index < 0 or self._address[index] < start:
            return None
        return self._address.left(self._address[index])

    def _added_covering(self, address: int) -> _Added | None:
        if not self._added_at:
            return None
        place = bisect_right(self._added_at, address, key=lambda entry: entry[0]) - 1
        if place < 0:
            return None
        start, position, name = self._added_at[place]
        added = self._added[name][position]
        return added if address < start + added.symbol.size else None

    def _unsuffixed(self, index: int) -> Iterator[int]:
        """Yield the symbol `name` for one called `name.suffix`: the first of that name, as the kernel looks it up."""
        stem, dot, _ = self._name_at(index).decode().partition(".")
        if dot:
            yield from self.positions(stem)[:1]

    def _traced(self, index: int) -> bool:
        return _holds(self._locations, self._address[index], self._end(index))

    def _in_blacklist(self, offset: int) -> bool:
        """The list holds starts and ends by turns; ranges don't overlap (the recorder merges them)."""
        return bool(bisect_right(self._black, offset) & 1) if offset >= 0 else False

    def _bitmap(self, place: int) -> int:
        """Return a byte of the bitmap of instruction starts; it is stored in compressed chunks."""
        number, within = divmod(place, CHUNK)
        return self._bits[number][within]

    def _special_at(self, address: int) -> Placement | None:
        if self._added_covering(address) is not None:
            return None
        offset = address - HIGH
        place = self._special.right(offset) - 1 if offset >= 0 else -1
        if place >= 0:
            length, kind = divmod(self._special_kind[place], 8)
            if offset < self._special[place] + length:
                return KINDS[kind]
        return None


def _holds(numbers: Ascending, start: int, end: int) -> bool:
    place = numbers.left(start) if start >= 0 else 0
    return place < len(numbers) and numbers[place] < end
