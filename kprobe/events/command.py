"""`kprobe list`: every dynamic event, its owner, where it is enabled, how often it was hit and missed."""

from __future__ import annotations

from kprobe.events.dynamic import ALIVE, DEAD, OTHER, Overview
from kprobe_text.terminal.output import say
from kprobe_text.terminal.table import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.events.dynamic import DynamicEvent
    from kprobe.options.command_line import CommandLine
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

OK = 0
HEAD = ("EVENT", "OWNER", "ENABLED", "HITS", "MISSED", "DEFINITION")


def run(tracefs: Tracefs, output: Output, signals: Signals, request: CommandLine) -> int:
    """Print the events, and what could not be read to stderr; return the exit status."""
    found = Overview(tracefs)
    text = "".join(map(_json, found.events)) if request.json else table([HEAD, *map(_row, found.events)])
    output.tell(text, lambda: bool(signals.received))
    output.finish(lambda: bool(signals.received))
    for note in found.notes:
        say(f"NOTE: {note}")
    return OK


def _row(event: DynamicEvent) -> list[str]:
    owner = {ALIVE: event.process, DEAD: f"process {event.pid}, dead", OTHER: "not kprobe's"}.get(event.owner, "?")
    counts = ["-" if count is None else str(count) for count in (event.hits, event.missed)]
    definition = f"(marker) {event.keeps}" if event.keeps else event.definition
    return [event.event, owner, ", ".join(event.enabled) or "-", *counts, definition]


def _json(event: DynamicEvent) -> str:
    import json

    line = {
        "event": event.event,
        "owner": event.owner,
        "pid": event.pid,
        "process": event.process or None,
        "enabled": event.enabled,
        "hits": event.hits,
        "missed": event.missed,
        "definition": event.definition,
        **({"keeps": event.keeps} if event.keeps else {}),
    }
    return json.dumps(line) + "\n"
