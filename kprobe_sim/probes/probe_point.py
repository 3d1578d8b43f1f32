"""Probe points: names to addresses, and the checks at registration.

Sources: docs/kernel/places.md#order-at-registration; fixtures/definitions.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from kprobe_sim.builds.gates import Gates
from kprobe_sim.builds.page import STACK_SIZE
from kprobe_sim.builds.prototypes import PrototypeTable
from kprobe_sim.builds.recorded import ENDBR
from kprobe_sim.builds.symbol import Placement, Symbol
from kprobe_sim.builds.symbols import SymbolTable
from kprobe_sim.language.fetch.argument import FetchArg
from kprobe_sim.language.fetch.btf_arguments import Function
from kprobe_sim.language.fetch.expression import From, Source
from kprobe_sim.language.primitives.kstrto import ULONG_MAX, kstrtol
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple

MAX_ERRNO = 4095  # the highest addresses are error numbers when they are pointers
_MODULES = 0xFFFFFFFFA0000000  # where the kernel's image ends at the latest: Documentation/x86/x86_64/mm.txt
_DATA = frozenset("bBdDrR")  # letters of /proc/kallsyms
_NO_RETURN_PROBE = frozenset({"__switch_to"})  # the kernel's kretprobe_blacklist on x86


class ProbeLocation(NamedTuple):
    """The probe point of a definition: a symbol (maybe MODULE:NAME) and an offset, or, without a symbol, an address."""

    symbol: str | None
    offset: int
    address: int


class Spot(NamedTuple):
    """What a probe point leads to, looked up once for the reader of the line and for registration.

    `meanings` counts the symbols that its name can mean; `address` is None where the symbol isn't known or the address
    is 0; `symbol` covers the address.
    """

    point: ProbeLocation
    meanings: int
    address: int | None
    symbol: Symbol | None


class Registered(NamedTuple):
    """What registration found: the probe's address, and its arguments with symbols replaced by addresses."""

    address: int
    arguments: tuple[FetchArg, ...]


def split_offset(text: str) -> tuple[str, int]:
    """Split SYM+OFFS or SYM-OFFS.  Raises OSError (EINVAL, ERANGE) for a bad offset."""
    sign = min((position for position in (text.find("+"), text.find("-")) if position >= 0), default=-1)
    if sign < 0:
        return text, 0
    return text[:sign], kstrtol(text[sign:])


class ProbePoints:
    """The symbol table as the kprobe code uses it; `stack_size` is that of a kernel stack in bytes."""

    __slots__ = ("_gates", "_refusals", "_symbols", "_types", "stack_size")

    def __init__(
        self,
        symbols: SymbolTable,
        gates: Gates,
        types: Callable[[], PrototypeTable | None] = lambda: None,
        stack_size: int = STACK_SIZE,
    ) -> None:
        self.stack_size = stack_size
        self._symbols = symbols
        self._types = types
        self._gates = gates
        self._refusals = {
            Placement.NO_SYMBOL: errno.ENOENT if gates.looks_up_address else errno.EINVAL,
            Placement.NOT_BOUNDARY: errno.EILSEQ,
            Placement.INT3: gates.int3_errno,
            Placement.UNSUPPORTED: gates.unsupported_instruction_errno,
        }

    def _lookup(self, name: str) -> list[Symbol]:
        """Return the symbols that NAME or MODULE:NAME can mean."""
        module, colon, rest = name.partition(":")
        if not colon:
            return self._symbols.lookup(name)
        return [symbol for symbol in self._symbols.lookup(rest) if symbol.module == module and module]

    def address_of(self, name: str) -> int:
        """Return the address that the kernel finds for a symbol name, 0 for none."""
        found = self._lookup(name)
        return found[0].address if found else 0

    def find(self, point: ProbeLocation) -> Spot:
        """Look up what a probe point leads to."""
        if point.symbol is None:
            meanings, address = 0, point.address or None
        else:
            found = self._lookup(point.symbol)
            base = found[0].address if found else 0
            address = (base + point.offset) & ULONG_MAX if base else None
            if len(found) > 1 and self._gates.vmlinux_wins:
                found = [symbol for symbol in found if not symbol.module] or found
            meanings = len(found)
        return Spot(point, meanings, address, None if address is None else self._symbols.containing(address))

    @property
    def types(self) -> PrototypeTable | None:
        """What BTF says, None where the kernel doesn't use it."""
        return self._types() if self._gates.btf else None

    def anywhere(self) -> Function:
        """Return what BTF says without a function: its types."""
        return Function(self.types)

    def named(self, name: str) -> Function:
        """Return what BTF says about a function."""
        types = self.types
        return Function() if types is None else Function(types, types.signature(name))

    def function(self, point: ProbeLocation) -> Function:
        """Return what BTF says about the function that a probe point names."""
        types = self._types() if self._gates.btf else None
        if types is None or point.symbol is None:
            return Function(types)
        return Function(types, types.signature(point.symbol))

    def module_is_loaded(self, name: str) -> bool:
        """True when the module of MODULE:NAME is loaded."""
        return name.partition(":")[0] in self._symbols.modules()

    def _entry_size(self, entry: int) -> int:
        """Return how many bytes after a function's start a probe on its entry is placed: 4 with ENDBR."""
        return ENDBR if self._gates.endbr and self._symbols.has_endbr(entry) else 0

    def entry(self, function: int) -> int:
        """Return where the entry of a function is probed: after the ENDBR that it may start with."""
        return function + self._entry_size(function)

    def check_entry(self, spot: Spot) -> int:
        """Return 0 when the place is a function's entry, else an errno: ENOENT (nothing there) or EINVAL."""
        point, _, address, symbol = spot
        if address is None:
            return errno.EINVAL if point.symbol is None else errno.ENOENT
        if not self._gates.looks_up_address and address > ULONG_MAX - MAX_ERRNO:
            return ULONG_MAX + 1 - address  # taken for an error pointer
        if symbol is None:
            return 0 if self._gates.end_is_inside and address == self.address_of("_end") else errno.ENOENT
        offset = address - symbol.address
        return 0 if offset in (0, self._entry_size(symbol.address)) else errno.EINVAL

    def _not_an_entry(self, spot: Spot) -> int:
        """Return the errno of why a return probe can't be there, 0 if it can."""
        number = self.check_entry(spot)
        if not number or not self._gates.early:
            return number
        return errno.EINVAL if self._gates.returns_checked else 0  # for any fault of the probe point, or for none

    def resolve(self, argument: FetchArg) -> FetchArg:
        """Return the argument with @SYM replaced by its address.  Raises OSError: ENOENT, EINVAL or ERANGE."""
        source = argument.expression.source
        if source.kind is not From.SYMBOL:
            return argument
        name, offset = split_offset(source.text)
        base = self.address_of(name)
        if not base and not self._gates.early:
            raise refuse(errno.ENOENT)
        found = Source(From.IMMEDIATE, source.text, (base + offset) & ULONG_MAX if base else 0)
        return argument._replace(expression=argument.expression._replace(source=found))

    def _is_text(self, address: int) -> bool:
        return self.address_of("_stext") <= address < self.address_of("_etext")

    def is_untraced(self, spot: Spot) -> bool:
        """Return whether a symbol of the kernel covers the probe point, and ftrace knows no function there.

        Symbols cover all of the kernel's data, but not all of them need be known.
        """
        if spot.symbol is None:
            return 0 < self.address_of("_etext") <= (spot.address or 0) < _MODULES
        return self._symbols.is_notrace(spot.symbol.address)

    def register(self, spot: Spot, arguments: tuple[FetchArg, ...], *, is_return: bool) -> Registered:
        """Do all checks of registration.  Raises OSError with the errno that registration gives inside the kernel."""
        point, _, address, symbol = spot
        if address is not None and self._gates.notrace_checked and self._symbols.is_notrace(address):
            raise refuse(errno.EINVAL)
        resolved = tuple([self.resolve(argument) for argument in arguments])
        if is_return and (number := self._not_an_entry(spot)):
            raise refuse(number)
        if address is None:
            raise refuse(errno.EINVAL if point.symbol is None else errno.ENOENT)
        if not self._gates.looks_up_address and address > ULONG_MAX - MAX_ERRNO:
            raise refuse(ULONG_MAX + 1 - address)  # the address is taken for an error pointer
        if symbol is not None:
            if is_return and symbol.name in _NO_RETURN_PROBE:
                raise refuse(errno.EINVAL)
            if address == symbol.address:
                address += self._entry_size(address)
        if number := self._unplaceable(address, symbol):
            raise refuse(number)
        return Registered(address, resolved)

    def _unplaceable(self, address: int, symbol: Symbol | None) -> int:
        """Return the errno of why no probe can be at an address, 0 if one can."""
        found = self._symbols.placement(address)
        if self._gates.early and symbol is not None and symbol.type in _DATA:
            return errno.EINVAL  # 3.1 to 3.3 overlook this: a recorded 3.2 accepts such a probe point
        if self._gates.early and found is Placement.NO_SYMBOL and self._is_text(address):
            return errno.EILSEQ  # in a function whose symbol isn't known
        return 0 if found is Placement.OK else self._refusals.get(found, errno.EINVAL)
