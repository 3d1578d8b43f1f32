"""The symbols of one kernel: where its functions are, and where a probe may be placed.

The table is a recorded file (`symbols.bin` of a profile, written by `kprobe-vm record`), mapped into memory and
searched in place: opening it reads nothing but its directory.  Functions that the recorded kernel doesn't have can be
added, so that an activity may speak of another era's names.

Rules and their source: symbol search and sizes as kernel/kallsyms.c and kernel/module/kallsyms.c do; notrace as
`within_notrace_func` of kernel/trace/trace_kprobe.c; the order of refusals as `check_kprobe_address_safe` and
`arch_prepare_kprobe` (kernel/kprobes.c, arch/x86/kernel/kprobes/core.c), held to answers of the recorded kernel.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

from kprobe_sim.builds.added import AddedSymbols
from kprobe_sim.builds.packed import Ascending, Numbers, Texts, open_sections
from kprobe_sim.builds.symbol import KINDS, Placement, Symbol

MAGIC = b"kprobsym"
HIGH = 0xFFFF_FFFF_8000_0000  # image and modules live above it: recorded addresses are 32-bit offsets of it
LOW = 0x100_0000  # smaller offsets are absolute addresses (per-CPU symbols of kernels before 6.15)
CHUNK = 8192  # bytes of the bitmap of instruction starts, and of kinds, that are compressed together
BLOCK = 128  # symbols whose names are compressed together
ENDBR = 4  # bytes of the instruction that a function starts with on kernels with IBT; its ftrace location follows
_FUNCTION_SIZE = 0x100  # bytes of a function that is added, where nobody says
_TEXT_TYPES = frozenset("tTwW")


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
        self._added = AddedSymbols()
        self._sizes: dict[int, int] = {}  # of what is smaller than recorded, by the offset where it begins
        self._moved: set[int] = set()  # positions of what is larger than recorded: it is among the added ones
        self.version = 0  # another whenever the same names or addresses may lead elsewhere

    def __len__(self) -> int:
        return len(self._address) - len(self._moved) + len(self._added)

    def __iter__(self) -> Iterator[Symbol]:
        """Yield all symbols in the order of /proc/kallsyms (by address), then the added ones."""
        for index in range(len(self._address)):
            if index not in self._moved:
                yield self._symbol(index)
        yield from self._added

    def kallsyms(self) -> bytes:
        """Return the text of /proc/kallsyms, in a tenth of the time that making all symbols takes."""
        tails = [
            (f" {kind[0]} ".encode(), f"\t[{kind[1]}]\n".encode() if kind[1] else b"\n") for kind in self._kind_table
        ]
        lines = []
        for index, offset in enumerate(self._address):
            if index in self._moved:
                continue
            letter, tail = tails[self._kinds[index // CHUNK][index % CHUNK]]
            lines.append(
                b"%016x%b%b%b" % (offset if offset < LOW else HIGH + offset, letter, self._name_at(index), tail)
            )
        for one in self._added:
            tail = f"\t[{one.module}]\n".encode() if one.module else b"\n"
            lines.append(f"{one.address:016x} {one.type} {one.name}".encode() + tail)
        return b"".join(lines)

    def lookup(self, name: str) -> list[Symbol]:
        """Return all symbols of that name: the image's by address, then modules', then added ones; [] if unknown."""
        found = [self._symbol(index) for index in self._present(name)]
        return found + self._added.lookup(name)

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
        added = self._added.covering(address)
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
            found = self._first(addresses.left(start))
            if found is None:
                continue
            index = found
            _, module, _, _ = self._kind(index)
            if offset - start > ENDBR and not self._shows_lost:
                # a weak function that another replaced (FTRACE_INVALID_FUNCTION, kernel/trace/ftrace.c, 6.1)
                name = f"__ftrace_invalid_address___{offset - start}"
            elif module:
                name = f"{self._name_at(index).decode()} [{module}]"
            else:
                name = self._name_at(index).decode()
            yield HIGH + offset, name
        for address, symbol in self._added.places():
            yield address, f"{symbol.name} [{symbol.module}]" if symbol.module else symbol.name

    # --------------------------------------------------------------------------------------------------- placement

    def is_boundary(self, address: int) -> bool:
        """Return whether an instruction starts at an address, counted from the symbol that covers it."""
        added = self._added.covering(address)
        if added is not None:
            return added.is_boundary(address)
        offset = address - HIGH
        for start, length, base in self._text:
            if start <= offset < start + length:
                bit = offset - start
                return bool(self._bitmap(base + (bit >> 3)) >> (bit & 7) & 1)
        return False

    def is_text(self, address: int) -> bool:
        """Return whether an address is in the kernel's or a module's text (freed init text isn't)."""
        if self._added.covering(address) is not None:
            return True
        offset = address - HIGH
        return any(start <= offset < start + length for start, length, _ in self._text)

    def is_traceable(self, address: int) -> bool:
        """Return whether an address is an ftrace location."""
        added = self._added.covering(address)
        if added is not None:
            return added.symbol.traceable and added.symbol.address + added.call == address
        return _holds(self._locations, address - HIGH, address - HIGH + 1)

    def is_notrace(self, address: int) -> bool:
        """Return whether the function around an address has no ftrace location (so that no kprobe event may be there).

        False where no symbol covers the address.  For `name.suffix` the function `name` counts as well.
        """
        added = self._added.covering(address)
        if added is not None:
            return not added.symbol.traceable
        index = self._covering(address)
        if index is None or self._traced(index):
            return False
        return not any(self._traced(base) for base in self._unsuffixed(index))

    def is_blacklisted(self, address: int) -> bool:
        """Return whether an address is in the kprobe blacklist; for `name.suffix`, also whether `name` is."""
        added = self._added.covering(address)
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
        if self._added.covering(address) is None and self._covering(address) is None:
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
        symbol = self._added.add(Symbol(name, address or 0, size, type, module, traceable, blacklisted), boundaries)
        if module:
            self._modules.add(module)
        self.version += 1
        return symbol

    def declare(self, name: str, size: int | None = None, module: str = "") -> Symbol:
        """Have a function of that name with that size in bytes; return its symbol.

        A function that is recorded keeps its address, unless it is to be larger than the room up to the next one: then
        it lies among the added ones, and nothing is at its place.  Without `size` it stays as it
        is, and a new one has 256 bytes.  `module` is a new one's, or tells which of that name is meant.

        Raises ValueError for a size that isn't positive.
        """
        if size is not None and size <= 0:
            raise ValueError(f"size {size} of {name!r} isn't positive")
        known = next((one for one in self.lookup(name) if _is_meant(one, module)), None)
        if known is None:
            return self.add(name, size=_FUNCTION_SIZE if size is None else size, module=module)
        if size is None or size == known.size:
            return known
        call = ENDBR if self.has_endbr(known.address) else 0
        traceable, blacklisted = not self.is_notrace(known.address), self.is_blacklisted(known.address)
        offset = known.address - HIGH
        position = next((one for one in self._present(name) if self._address[one] == offset), None)
        self.version += 1
        if position is not None and size <= self._end(position) - offset:
            self._sizes[offset] = size
            return self._symbol(position)
        if position is None:
            self._added.remove(known)
        else:
            self._moved.add(position)
        address = known.address if position is None and size < known.size else 0
        moved = Symbol(name, address, size, known.type, known.module, traceable, blacklisted)
        return self._added.add(moved, call=call)

    def is_moved(self, name: str, size: int, module: str = "") -> Symbol | None:
        """Return the symbol that would be at another address when it was declared to have that size, None if none."""
        known = next((one for one in self.lookup(name) if _is_meant(one, module)), None)
        if known is None or size == known.size:
            return None
        offset = known.address - HIGH
        rooms = (self._end(one) - offset for one in self._present(name) if self._address[one] == offset)
        return known if size > next(rooms, known.size) else None

    def add_module(self, name: str) -> None:
        """Have a module loaded; its functions come with `add(..., module=name)`."""
        self._modules.add(name)

    def _present(self, name: str) -> list[int]:
        return [index for index in self.positions(name) if index not in self._moved]

    def _first(self, index: int) -> int | None:
        """Return the first of the symbols at an address that hasn't moved, from the first of all on."""
        if not self._moved:
            return index
        start = self._address[index]
        return next((one for one in range(index, self._address.right(start)) if one not in self._moved), None)

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
            self._sizes.get(offset) or self._end(index) - offset,
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
        first = self._address[index]
        if self._sizes and offset - first >= self._sizes.get(first, offset):
            return None  # in the room that a function was declared not to fill
        return self._first(self._address.left(first))

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
        if self._added.covering(address) is not None:
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


def _is_meant(symbol: Symbol, module: str) -> bool:
    return symbol.type in _TEXT_TYPES and (not module or symbol.module == module)
