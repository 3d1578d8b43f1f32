"""Words of set_event about the events of a module that isn't loaded yet: kept, listed, and forgotten again."""

from __future__ import annotations

from kprobe_sim.named_tuple import NamedTuple


class ModuleEvents(NamedTuple):
    """EVENTS:mod:MODULE: a word without a colon before that is `match`, else there are `system` and `name`."""

    match: str
    system: str
    name: str
    module: str

    @staticmethod
    def read(pattern: str) -> ModuleEvents:
        """Read a word that has ":mod:" (__ftrace_set_clr_event() and ftrace_set_clr_event() of trace_events.c)."""
        events, _, module = pattern.partition(":mod:")
        first, colon, rest = events.partition(":")
        first, rest = ("" if word == "*" else word for word in (first, rest))
        return ModuleEvents("", first, rest, module) if colon else ModuleEvents(first, "", "", module)

    def line(self) -> bytes:
        """Return its line in set_event."""
        events = self.match or f"{self.system or '*'}:{self.name or '*'}"
        return f"{events}:mod:{self.module}\n".encode("latin-1")

    def means(self, kept: ModuleEvents) -> bool:
        """True if this word, with `!`, forgets what was kept: what it leaves open may be anything."""
        return self.module == kept.module and all(
            not mine or mine == other for mine, other in zip(self[:3], kept[:3], strict=True)
        )
