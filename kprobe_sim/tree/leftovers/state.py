"""What a program may leave changed in a tracefs, as values that can be compared: by the file and what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kprobe_sim.named_tuple import NamedTuple

from .texts import lines, names, read_each
from .values import FREED, LISTS, VALUES, value_of

PAGE = 4096
DEFINITIONS = ("kprobe_events", "uprobe_events", "synthetic_events")
_ALL_DEFINITIONS = "dynamic_events"  # since 5.0
# measured by the kernel itself
_MEASURED = ("tracing_max_latency", "stack_max_size")


class Thing(NamedTuple):
    """One thing: `what` of a path; `kind` is "trigger", "filter", "event", "definition", "instance" or "value"."""

    kind: str
    path: str
    what: str = ""


Standing = dict[Thing, str]


def state(tracefs: Any, touched: Iterable[str] = ()) -> Standing:
    """Return what stands in a tracefs; filters and triggers are those of its lists and of the `touched` paths.

    A thing that isn't there isn't in it: a definition, an instance, an event that is off, no filter and no trigger.
    """
    found = dict(_definitions(tracefs))
    instances = names(tracefs, "instances")
    found |= {Thing("instance", f"instances/{name}"): "" for name in instances}
    for place in ("", *(f"instances/{name}/" for name in instances)):
        found |= _values(tracefs, place)
    found |= _filters_and_triggers(tracefs, set(touched))
    return found


def is_expanded(before: str, now: str) -> bool:
    """True if a buffer's size is what it was to be once somebody used it: some kernels show a page more."""
    return before.isdigit() and now.isdigit() and int(before) <= int(now) <= int(before) + PAGE // 1024


def _definitions(tracefs: Any) -> Iterator[tuple[Thing, str]]:
    files = [_ALL_DEFINITIONS] if tracefs.exists(_ALL_DEFINITIONS) else DEFINITIONS
    for path, text in read_each(tracefs, files).items():
        for line in lines(text):
            yield Thing("definition", path, line), line


def _values(tracefs: Any, place: str) -> Standing:
    options = [f"{place}options/{name}" for name in names(tracefs, f"{place}options")]
    watched = [f"{place}{name}" for name in (*VALUES, *LISTS, "tracing_on") if name not in _MEASURED]
    found = {
        Thing("value", path): value_of(text).decode("utf-8", "replace")
        for path, text in read_each(tracefs, [*watched, *options]).items()
    }
    snapshot = f"{place}snapshot"
    if hasattr(tracefs, "open"):
        for text in read_each(tracefs, [snapshot], most=PAGE).values():
            found[Thing("value", snapshot)] = "0" if FREED in text else "allocated"
    enabled = f"{place}set_event"
    for text in read_each(tracefs, [enabled]).values():
        found |= {Thing("event", enabled, line): "1" for line in lines(text) if ":mod:" not in line}
    return found


def _filters_and_triggers(tracefs: Any, touched: set[str]) -> Standing:
    """Return those that are set."""
    listed = read_each(tracefs, ["show_event_filters", "show_event_triggers"])
    paths = {path for path in touched if path.endswith(("/filter", "/trigger"))}
    for name, text in listed.items():
        paths |= {
            f"events/{_event(line)}/{'filter' if name.endswith('filters') else 'trigger'}" for line in lines(text)
        }
    for path in sorted(paths):
        system = path.split("/events/")[-1].removeprefix("events/").split("/")
        if len(system) == 2:  # the filter of a system is that of each of its events
            directory = path.rpartition("/")[0]
            paths |= {f"{directory}/{event}/filter" for event in names(tracefs, directory)} - {path}
    found: Standing = {}
    for path, text in read_each(tracefs, sorted(paths)).items():
        for line in lines(text):
            if path.endswith("/trigger"):
                found[Thing("trigger", path, line)] = line
            elif line != "none":
                found[Thing("filter", path)] = line
    return found


def _event(line: str) -> str:
    return line.split()[0].replace(":", "/", 1)
