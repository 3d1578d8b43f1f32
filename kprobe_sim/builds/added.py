"""Functions that a user declares for a kernel, besides those recorded from it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from kprobe_sim.builds.symbol import Symbol
from kprobe_sim.named_tuple import NamedTuple

SYNTHETIC = 0xFFFF_FFFF_B000_0000  # an address range that neither image nor modules use
SYNTHETIC_MODULE = 0xFFFF_FFFF_D000_0000  # the same for functions of modules
FENTRY_SIZE = 5  # bytes of the call to __fentry__, a nop while nobody traces


class Added(NamedTuple):
    """A function, and the offsets at which its instructions start (None means all but those inside the first).

    `call` is the offset of the call to __fentry__: what stands before it is one instruction, ENDBR.
    """

    symbol: Symbol
    boundaries: frozenset[int] | None
    call: int = 0

    def is_boundary(self, address: int) -> bool:
        """Return whether an instruction starts at an address."""
        offset = address - self.symbol.address
        if self.boundaries is not None:
            return offset in self.boundaries
        return not 0 < offset < self.call and not self.call < offset < self.call + FENTRY_SIZE


class AddedSymbols:
    """The added functions, by name in the order of adding, and by address."""

    __slots__ = ("_added", "_names", "_starts")

    def __init__(self) -> None:
        self._names: dict[str, list[Symbol]] = {}
        self._starts: list[int] = []
        self._added: list[Added] = []  # by address

    def __len__(self) -> int:
        return len(self._added)

    def __iter__(self) -> Iterator[Symbol]:
        for symbols in self._names.values():
            yield from symbols

    def lookup(self, name: str) -> list[Symbol]:
        """Return the functions of a name."""
        return list(self._names.get(name, ()))

    def covering(self, address: int) -> Added | None:
        """Return the function that covers an address."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        added = self._added[index]
        return added if address < added.symbol.address + added.symbol.size else None

    def ftrace_locations(self) -> Iterator[tuple[int, Symbol]]:
        """Yield the traceable ones, each with the address of its call to __fentry__, in the order of `__iter__`."""
        calls = {added.symbol: added.call for added in self._added}
        return ((symbol.address + calls[symbol], symbol) for symbol in self if symbol.traceable)

    def add(self, symbol: Symbol, boundaries: Iterable[int] | None = None, call: int = 0) -> Symbol:
        """Add a function, at address 0 where nothing else is; return its symbol.

        Raises ValueError for a size that isn't positive.
        """
        if symbol.size <= 0:
            raise ValueError(f"size {symbol.size} of {symbol.name!r} isn't positive")
        if not symbol.address:
            symbol = symbol._replace(address=self._free(bool(symbol.module)))
        index = bisect_right(self._starts, symbol.address)
        self._starts.insert(index, symbol.address)
        self._added.insert(index, Added(symbol, None if boundaries is None else frozenset(boundaries) | {0}, call))
        self._names.setdefault(symbol.name, []).append(symbol)
        return symbol

    def remove(self, symbol: Symbol) -> None:
        """Remove a function."""
        index = next(index for index, added in enumerate(self._added) if added.symbol == symbol)
        del self._starts[index], self._added[index]
        self._names[symbol.name].remove(symbol)

    def _free(self, in_module: bool) -> int:
        """Return an address after all that were added, of modules or of the image."""
        address = SYNTHETIC_MODULE if in_module else SYNTHETIC
        for symbol, _, _ in self._added:
            end = symbol.address + symbol.size
            if (symbol.address >= SYNTHETIC_MODULE) == in_module and end > address:
                address = (end + 15) & ~15
        return address
