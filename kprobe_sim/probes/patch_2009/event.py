"""The events of the patch of 2009: their format files, and their lines in the trace.

Sources: scenarios/replays/seeds, tracer-2009 and lwn-2009; revision 11 of the patch's trace_kprobe.c:
print_kprobe_event(), kprobe_event_show_format(); commit eca0d916f642, which gave the arguments names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.dyn_event import Symbolized
from kprobe_sim.language.fetch.argument import FetchArg
from kprobe_sim.machine.symbol_text import Covering
from kprobe_sim.probes.probe_event import EventTraits, ProbeEvent
from kprobe_sim.records.columns import Part, Rows, Shown
from kprobe_sim.records.field import Field

_FIRST = 16  # bytes before the first field that isn't common, in its format file
_COMMON = (
    ("unsigned short", "common_type", 0, 2),
    ("unsigned char", "common_flags", 2, 1),
    ("unsigned char", "common_preempt_count", 3, 1),
    ("int", "common_pid", 4, 4),
    ("int", "common_tgid", 8, 4),
)


class FirstEvent(ProbeEvent):
    """An event of the patch of 2009.

    Records are not laid out here as its format file says: they have no common_tgid and no nargs.  Nothing shows them
    raw.
    """

    __slots__ = ("_arguments", "_named")

    def __init__(
        self, name: str, system: str, arguments: Sequence[FetchArg], symbols: Covering, gates: Gates, *, is_return: bool
    ) -> None:
        super().__init__(system, name, arguments, symbols, gates, EventTraits(is_return))
        self._arguments = tuple(arguments)
        self._named = gates.first_names
        count = (self.start - 8) // 8
        head = [field._replace(name=name) for field, name in zip(self.fields, self._address_names, strict=False)]
        self.fields: tuple[Field, ...] = (*head, *self.fields[count:])

    @property
    def _address_names(self) -> tuple[str, ...]:
        return ("func", "ret_ip") if self.is_return else ("ip",)

    def format(self) -> bytes:
        """Return the text of the `format` file."""
        lines = [f"\tfield:{kind} {name};\toffset:{at};\tsize:{size};\n" for kind, name, at, size in _COMMON]
        lines.append("\n")
        offset = _FIRST
        fields = [*(("unsigned long", name, 8) for name in self._address_names), ("int", "nargs", 4)]
        fields += [("unsigned long", argument.name, 8) for argument in self._arguments]
        for kind, name, size in fields:
            lines.append(f"\tfield: {kind} {name};\toffset:{offset};tsize:{size};\n")
            offset += 8
        addresses = ", ".join(self._address_names)
        shown = " <- ".join(["%lx"] * len(self._address_names))
        if self._named:
            texts = "".join(f" {argument.name}=%lx" for argument in self._arguments)
            values = "".join(f", REC->{argument.name}" for argument in self._arguments)
        else:
            lines.append("\n")
            lines += [f"\talias: {argument.text};\toriginal: {argument.name};\n" for argument in self._arguments]
            texts = " 0x%lx" * len(self._arguments)
            values = "".join(f", {argument.name}" for argument in self._arguments)
        lines.append(f'\nprint fmt: "{shown}:{texts}", {addresses}{values}\n')
        return f"name: {self.name}\nID: {self.id}\nformat:\n{''.join(lines)}".encode("latin-1")

    def body(self, symbol: Symbolized) -> Shown:
        """Return what makes the lines that records have in the trace: from the address on, without the event's name."""
        places = self._places(symbol)
        unpack = struct.Struct(f"<{len(self._arguments)}Q").unpack_from
        before = [f" {each.name}=".encode("latin-1") if self._named else b" 0x" for each in self._arguments]

        def line(record: bytes) -> bytes:
            values = unpack(record, self.start)
            shown = [b"%b%x" % pair for pair in zip(before, values, strict=True)]
            return b"%b:%b\n" % (places[record[8 : self.start]], b"".join(shown))

        def many(rows: Rows) -> list[Part]:
            return [rows.spread(list(map(line, rows.rows)))]

        return Shown(line, many)

    def pieces(self, symbol: Symbolized) -> Callable[[bytes], list[bytes]]:
        """Return what makes the same line; nobody knows how the kernel cut one that was too long."""
        line = self.body(symbol).one
        return lambda data: [line(data)]
