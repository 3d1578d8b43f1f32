"""The functions that ftrace can stop in, numbered from 0 in the order of available_filter_functions.

The recorded functions are the same for all kernels of a build: a number or a name is looked up in the mapped file, and
the list of all is made when it is first needed.  Names are the kernel's bytes read as latin-1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cached_property

from kprobe_sim.builds.recorded import HIGH, LOST, RecordedSymbols
from kprobe_sim.builds.symbol import with_module

_FEW = 64  # up to this many functions are looked up one by one, without making the names of all
FtraceLocations = Callable[[], Iterable[tuple[int, str]]]


class Functions:
    """Functions in the order of `locations`: the address of ftrace's call, and the line of the list."""

    def __init__(self, locations: FtraceLocations) -> None:
        self._locations = locations

    def __len__(self) -> int:
        return len(self.names)

    def name(self, number: int) -> str:
        """Return the name of a function."""
        return self.names[number]

    def some_lines(self, numbers: Collection[int]) -> list[bytes]:
        """Return the lines of some functions."""
        return [self.lines[number] for number in numbers]

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return the numbers of all functions of that name, ascending."""
        return tuple(self._by_name.get(name, ()))

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        by_name: dict[str, list[int]] = {}
        for number, name in enumerate(self.names):
            by_name.setdefault(name, []).append(number)
        return by_name

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple([line[:-1].partition(b" ")[0].decode("latin-1") for line in self.lines])

    def named(self, name: str) -> frozenset[int]:
        """Return the numbers of the functions that a word without wildcards means."""
        return frozenset() if name.startswith(LOST) else frozenset(self.numbers(name))

    @cached_property
    def lost(self) -> frozenset[int]:
        """The weak functions that others replaced: they are listed, but no word can mean them."""
        return frozenset([number for number, name in enumerate(self.names) if name.startswith(LOST)])

    def is_of_module(self, number: int) -> bool:
        """Return whether a function belongs to a module."""
        return self.lines[number].endswith(b"]\n")

    @cached_property
    def lines(self) -> tuple[bytes, ...]:
        """The lines of available_filter_functions."""
        return tuple([b"%b\n" % line.encode() for _, line in self._locations()])

    @cached_property
    def addressed_lines(self) -> tuple[bytes, ...]:
        """The lines of available_filter_functions_addrs."""
        return tuple([f"{address:016x} {line}\n".encode() for address, line in self._locations()])


class RecordedFunctions(Functions):
    """The functions that are recorded of a build."""

    def __init__(self, recorded: RecordedSymbols, locations: FtraceLocations) -> None:
        super().__init__(locations)
        self._recorded = recorded

    def __len__(self) -> int:
        return len(self._recorded.locations)

    def name(self, number: int) -> str:
        return self._line(number).partition(" ")[0]

    @cached_property
    def addressed_lines(self) -> tuple[bytes, ...]:
        located = zip(self._recorded.locations.unpacked(), self.lines, strict=True)
        return tuple([b"%016x %b" % (HIGH + offset, line) for offset, line in located])

    def some_lines(self, numbers: Collection[int]) -> list[bytes]:
        if len(numbers) > _FEW:
            return super().some_lines(numbers)
        return [self._line(number).encode("latin-1") + b"\n" for number in numbers]

    def _line(self, number: int) -> str:
        recorded = self._recorded
        offset = recorded.locations[number]
        start = recorded.addresses[recorded.addresses.right(offset) - 1]
        if lost := recorded.lost_name(offset - start):
            return lost
        position = recorded.addresses.left(start)
        name, module = recorded.name(position).decode("latin-1"), recorded.kind(position)[1]
        return with_module(name, module)

    def numbers(self, name: str) -> tuple[int, ...]:
        if name.startswith(LOST) or not name.isascii():
            return super().numbers(name)
        recorded = self._recorded
        addresses, locations = recorded.addresses, recorded.locations
        numbers: list[int] = []
        for position in recorded.positions(name):
            start = addresses[position]
            if addresses.left(start) != position:
                continue  # an alias: the list shows the first one
            following = addresses.right(start)
            first = locations.left(start)
            last = locations.left(addresses[following]) if following < len(addresses) else len(locations)
            numbers += [number for number in range(first, last) if not recorded.lost_name(locations[number] - start)]
        return tuple(sorted(numbers))
