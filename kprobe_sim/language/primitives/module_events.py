"""Words of set_event for the events of a module that isn't loaded yet: kept, listed, and dropped again."""

from __future__ import annotations

from kprobe_sim.named_tuple import NamedTuple


class ModuleEvents(NamedTuple):
    """EVENTS:mod:MODULE; EVENTS is `match` if it has no colon, else `system` and `name`."""

    match: str
    system: str
    name: str
    module: str

    @staticmethod
    def read(pattern: str) -> ModuleEvents:
        """Read a word that has ":mod:" (__ftrace_set_clr_event() and ftrace_set_clr_event() of trace_events.c)."""
        events, _, module = pattern.partition(":mod:")
        first, colon, name = events.partition(":")
        first, name = ("" if word == "*" else word for word in (first, name))
        return ModuleEvents("", first, name, module) if colon else ModuleEvents(first, "", "", module)

    def line(self) -> bytes:
        """Return its line in set_event."""
        events = self.match or f"{self.system or '*'}:{self.name or '*'}"
        return f"{events}:mod:{self.module}\n".encode("latin-1")

    def means(self, kept: ModuleEvents) -> bool:
        """Return True if this word, with `!`, drops a kept one: what it leaves out matches anything."""
        return self.module == kept.module and all(
            not mine or mine == other for mine, other in zip(self[:3], kept[:3], strict=True)
        )
