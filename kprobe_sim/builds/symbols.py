"""The symbols of one kernel: those recorded from its build, and functions added to it.

The recorded symbols are the same for all kernels of a build (`recorded`); a table holds only what changed on its
kernel: functions that the recorded kernel doesn't have, so that an activity can use names of another era, and functions
that were declared with another size.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from kprobe_sim.builds.added import Added, AddedSymbols
from kprobe_sim.builds.recorded import ENDBR, HIGH, LOW, RecordedSymbols, placement
from kprobe_sim.builds.symbol import FUNCTION_SIZE, Placement, Symbol, with_module

_TEXT_TYPES = frozenset("tTwW")


class SymbolTable:
    """The symbols of a recorded build, plus what was added."""

    def __init__(self, recorded: RecordedSymbols, *, word_size: int = 8) -> None:
        self.recorded = recorded
        self._word_size = word_size  # bytes of an address; one of 4 is sign-extended here, but not in texts
        self._modules = recorded.modules
        self._added = AddedSymbols()
        self._sizes: dict[int, int] = {}  # of functions that are smaller than recorded, by offset
        self._moved: set[int] = set()  # positions of larger functions, which are among the added
        self.version = 0  # changes whenever a name or address may mean something else; 0 means as recorded

    def __len__(self) -> int:
        return len(self.recorded) - len(self._moved) + len(self._added)

    def __iter__(self) -> Iterator[Symbol]:
        """Yield all symbols in the order of /proc/kallsyms (by address), then the added ones."""
        for position in range(len(self.recorded)):
            if position not in self._moved:
                yield self._symbol(position)
        yield from self._added

    def kallsyms(self) -> bytes:
        """Return the text of /proc/kallsyms, in a tenth of the time that making all symbols takes."""
        recorded, moved = self.recorded, self._moved
        lines = []
        for position, offset in enumerate(recorded.addresses):
            if position in moved:
                continue
            letter, module, _, _ = recorded.kind(position)
            tail = f"\t[{module}]\n" if module else "\n"
            lines.append(
                b"%016x %b %b%b"
                % (offset if offset < LOW else HIGH + offset, letter.encode(), recorded.name(position), tail.encode())
            )
        for symbol in self._added:
            tail = f"\t[{symbol.module}]\n" if symbol.module else "\n"
            lines.append(f"{symbol.address:016x} {symbol.type} {symbol.name}{tail}".encode())
        text = b"".join(lines)
        return text if self._word_size == 8 else re.sub(rb"^[0-9a-f]{8}", b"", text, flags=re.MULTILINE)

    def blacklist(self) -> bytes:
        """Return the text of debugfs' kprobes/blacklist, as far as functions were recorded to begin in it."""
        return "".join(
            f"0x{symbol.address:016x}-0x{symbol.address + symbol.size:016x}\t{symbol.name}\n"
            for symbol in self._blacklisted()
        ).encode()

    def _blacklisted(self) -> Iterator[Symbol]:
        for position in self.recorded.blacklisted():
            if position not in self._moved:
                yield self._symbol(position)
        yield from (symbol for symbol in self._added if symbol.blacklisted)

    def lookup(self, name: str) -> list[Symbol]:
        """Return all symbols of that name: the image's by address, then modules', then added ones; [] if unknown."""
        if not self.version:
            return list(self.recorded.lookup(name))
        return [self._symbol(position) for position in self._present(name)] + self._added.lookup(name)

    def containing(self, address: int) -> Symbol | None:
        """Return the symbol that covers an address, of aliases the first, as the kernel's `%pS` would name it."""
        if not self.version:
            return self.recorded.containing(address)
        added = self._added.covering(address)
        if added is not None:
            return added.symbol
        position = self._covering(address)
        return None if position is None else self._symbol(position)

    def modules(self) -> frozenset[str]:
        """Return the names of the loaded modules."""
        return self._modules

    def ftrace_locations(self) -> Iterator[tuple[int, str]]:
        """Yield the address of ftrace's call and the line of available_filter_functions, in the order of that file.

        They are ordered by address; modules and added functions come last.
        """
        recorded, names = self.recorded, self.recorded.names()
        kinds, modules = recorded.kinds()
        addresses = recorded.addresses.unpacked().tolist()
        after = 0  # the symbol after those at or below an offset; the first at its address is what the offset is in
        for offset in recorded.locations.unpacked():
            near = after + 16  # the next function is nearly always one of the next few symbols
            after = bisect_right(addresses, offset, after, near) if near < len(addresses) else near
            if after == near:
                after = bisect_right(addresses, offset)
            first, start = after - 1, addresses[after - 1]
            while first and addresses[first - 1] == start:
                first -= 1
            position = self._first(first) if self._moved else first
            if position is None:
                continue
            distance = offset - start
            lost = recorded.lost_name(distance) if distance > ENDBR else None
            module = modules[kinds[position]]
            yield HIGH + offset, lost or (with_module(names[position], module) if module else names[position])
        for address, symbol in self._added.ftrace_locations():
            yield address, with_module(symbol.name, symbol.module)

    # --------------------------------------------------------------------------------------------------- placement

    def covers(self, address: int) -> bool:
        """Return whether a symbol covers an address."""
        return self._added_at(address) is not None or self._covering(address) is not None

    def is_boundary(self, address: int) -> bool:
        """Return whether an instruction starts at an address, counted from the symbol that covers it."""
        added = self._added_at(address)
        return self.recorded.is_boundary(address) if added is None else added.is_boundary(address)

    def is_text(self, address: int) -> bool:
        """Return whether an address is in the kernel's or a module's text (freed init text isn't)."""
        return self._added_at(address) is not None or self.recorded.is_text(address)

    def is_traceable(self, address: int) -> bool:
        """Return whether an address is an ftrace location."""
        added = self._added.covering(address) if self.version else None
        if added is not None:
            return added.symbol.traceable and added.symbol.address + added.call == address
        return self.recorded.is_traceable(address)

    def is_notrace(self, address: int) -> bool:
        """Return whether the function around an address has no ftrace location (so that no kprobe event may be there).

        False where no symbol covers the address.  For `name.suffix` the function `name` counts as well.
        """
        if not self.version:
            return self.recorded.is_notrace(address)
        added = self._added.covering(address)
        if added is not None:
            return not added.symbol.traceable
        position = self._covering(address)
        return position is not None and self.recorded.is_untraced(position)

    def is_blacklisted(self, address: int) -> bool:
        """Return whether an address is in the kprobe blacklist; for `name.suffix`, also whether `name` is."""
        added = self._added_at(address)
        if added is not None:
            return added.symbol.blacklisted
        if self.recorded.in_blacklist(address):
            return True
        position = self._covering(address)
        return position is not None and self.recorded.stem_is_blacklisted(position)

    def has_endbr(self, entry: int) -> bool:
        """Return whether a function starts with ENDBR; its ftrace location, if it has one, comes after it."""
        if not self.version:
            return self.recorded.has_endbr(entry)
        return self.is_traceable(entry + ENDBR) or self.recorded.has_lone_endbr(entry)

    def special(self, address: int) -> Placement | None:
        """Return what a recorded range says of a probe in it."""
        return None if self._added_at(address) is not None else self.recorded.special(address)

    def placement(self, address: int) -> Placement:
        """Return what the kernel says of a kprobe event at an address."""
        return placement(self, address) if self.version else self.recorded.placement(address)

    # ------------------------------------------------------------------------------------------------------ adding

    def add(self, symbol: Symbol, boundaries: Iterable[int] | None = None) -> Symbol:
        """Add a function that the recorded kernel doesn't have; return its symbol.

        At address 0 it gets an address in a range that nothing else uses.  `boundaries` are the offsets at which
        instructions start; by default any offset but +1 to +4, the inside of the call to __fentry__.

        Raises ValueError for a size that isn't positive.
        """
        symbol = self._added.add(symbol, boundaries)
        if symbol.module:
            self.add_module(symbol.module)
        self.version += 1
        return symbol

    def declare(self, name: str, size: int | None = None, module: str = "") -> Symbol:
        """Make a function have a size in bytes, or add it; return its symbol.

        A recorded function keeps its address, unless it grows beyond the next one, or the kernel shows its address by
        another name: then it moves among the added ones, and its old range is empty.  Without `size` it stays as it
        is, and a new one has 256 bytes.  `module` is a new function's, or selects one of several of that name.

        Raises ValueError for a size that isn't positive.
        """
        if size is not None and size <= 0:
            raise ValueError(f"size {size} of {name!r} isn't positive")
        known = next((symbol for symbol in self.lookup(name) if _is_meant(symbol, module)), None)
        if known is None:
            return self.add(Symbol(name, size=FUNCTION_SIZE if size is None else size, module=module))
        shown = self.containing(known.address)
        is_alias = shown is not None and shown.name != name
        if size is None or (size == known.size and not is_alias):
            return known
        call = ENDBR if self.has_endbr(known.address) else 0
        traceable, blacklisted = not self.is_notrace(known.address), self.is_blacklisted(known.address)
        position = self._position(known)
        self.version += 1
        if position is not None:
            offset = self.recorded.addresses[position]
            if size <= self.recorded.end(position) - offset and not is_alias:
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
        """Return the symbol if declaring it with a size would move it, else None."""
        known = next((symbol for symbol in self.lookup(name) if _is_meant(symbol, module)), None)
        if known is None or size == known.size:
            return None
        position = self._position(known)
        room = known.size if position is None else self.recorded.end(position) - self.recorded.addresses[position]
        return known if size > room else None

    def add_module(self, name: str) -> None:
        """Load a module; `add(..., module=name)` adds its functions."""
        self._modules |= {name}

    def _added_at(self, address: int) -> Added | None:
        return self._added.covering(address) if self.version else None

    def _present(self, name: str) -> list[int]:
        return [position for position in self.recorded.positions(name) if position not in self._moved]

    def _position(self, symbol: Symbol) -> int | None:
        """Return the position of a symbol that is where it was recorded, None for an added one."""
        addresses, offset = self.recorded.addresses, symbol.address - HIGH
        return next((position for position in self._present(symbol.name) if addresses[position] == offset), None)

    def _first(self, position: int) -> int | None:
        """Return the first symbol at an address that hasn't moved; `position` is that of the first symbol there."""
        if not self._moved:
            return position
        addresses = self.recorded.addresses
        last = addresses.right(addresses[position])
        return next((index for index in range(position, last) if index not in self._moved), None)

    def _symbol(self, position: int) -> Symbol:
        symbol = self.recorded.symbol(position)
        size = self._sizes.get(self.recorded.addresses[position]) if self._sizes else None
        return symbol if size is None else symbol._replace(size=size)

    def _covering(self, address: int) -> int | None:
        position = self.recorded.covering(address)
        if position is None:
            return None
        if self._sizes:
            first = self.recorded.addresses[position]
            if address - HIGH - first >= self._sizes.get(first, address):
                return None  # behind a function that was declared to be smaller
        return self._first(position)


def _is_meant(symbol: Symbol, module: str) -> bool:
    return symbol.type in _TEXT_TYPES and (not module or symbol.module == module)
