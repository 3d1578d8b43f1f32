"""The names of events and values whose lines have none: text of 2009 shows only the address of a hit."""

from __future__ import annotations

from kprobe_text.text import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from kprobe.definitions.probe import Probe
    from kprobe_text.text import Record


class NamesByAddress:
    """Names events by their addresses, where only one of `probes` is at an address; others stay without a name.

    Values without names (revision 13 of the patch) get those of the event's format file and of filters: from arg0 on.
    """

    def __init__(self, probes: Iterable[Probe]) -> None:
        self._names: dict[tuple[str, int, bool], str] = {}
        self._names_values = False
        for probe in probes:
            key = (probe.place.symbol, probe.place.offset or 0, probe.is_return)
            self._names[key] = "" if key in self._names else probe.name
            self._names_values |= any("=" in arg for arg in probe.args)  # which revision 13 refuses

    def named(self, records: list[Record]) -> list[Record]:
        """Return the records, their events with names."""
        return [
            self._with_name(record) if isinstance(record, Event) and not record.name else record for record in records
        ]

    def _with_name(self, event: Event) -> Event:
        address = event.address
        if address is None:
            return event
        fields = event.fields
        if not self._names_values and "arg1" in fields:
            fields = {f"arg{number}": value for number, value in enumerate(fields.values())}
        # the line of a return has only the function's name
        name = self._names.get((address.symbol, address.offset or 0, event.caller is not None), "")
        return event._replace(name=name, fields=fields)
