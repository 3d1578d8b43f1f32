"""The state of a tracefs: all that a program may leave changed, as values that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.tree.files.capabilities import Capabilities
from kprobe_sim.tree.files.tracefs import Tracefs

from .texts import lines, names, read_each
from .values import FREED, LISTS, VALUES, value_of

PAGE = 4096
DEFINITIONS = ("kprobe_events", "uprobe_events", "synthetic_events")
_ALL_DEFINITIONS = "dynamic_events"  # since 5.0
_MEASURED = ("tracing_max_latency", "stack_max_size")  # the kernel itself changes them


class Thing(NamedTuple):
    """One thing of a path: `kind` is "trigger", "filter", "event", "definition", "instance" or "value"."""

    kind: str
    path: str
    what: str = ""


Things = dict[Thing, str]  # what each thing is set to


def state(tracefs: Tracefs, touched: Iterable[str] = ()) -> Things:
    """Return the state of a tracefs; the filters and triggers are those in its lists and those at the `touched` paths.

    The state has no entry for an event that is off, nor for a filter or trigger that isn't set.
    """
    things = dict(_definitions(tracefs))
    instances = names(tracefs, "instances")
    things |= {Thing("instance", f"instances/{name}"): "" for name in instances}
    for directory in ("", *(f"instances/{name}/" for name in instances)):
        things |= _values(tracefs, directory)
    return things | _filters_and_triggers(tracefs, set(touched))


def is_expanded(before: str, now: str) -> bool:
    """Return True if a buffer only expanded to the size that it showed before; some kernels then show a page more."""
    return before.isdigit() and now.isdigit() and int(before) <= int(now) <= int(before) + PAGE // 1024


def _definitions(tracefs: Tracefs) -> Iterator[tuple[Thing, str]]:
    files = [_ALL_DEFINITIONS] if tracefs.exists(_ALL_DEFINITIONS) else DEFINITIONS
    for path, text in read_each(tracefs, files).items():
        for line in lines(text):
            yield Thing("definition", path, line), line


def _values(tracefs: Tracefs, directory: str) -> Things:
    options = [f"{directory}options/{name}" for name in names(tracefs, f"{directory}options")]
    watched = [f"{directory}{name}" for name in (*VALUES, *LISTS, "tracing_on") if name not in _MEASURED]
    things = {
        Thing("value", path): value_of(text).decode("utf-8", "replace")
        for path, text in read_each(tracefs, [*watched, *options]).items()
    }
    snapshot = f"{directory}snapshot"
    if Capabilities(tracefs).open is not None:
        for text in read_each(tracefs, [snapshot], most=PAGE).values():
            things[Thing("value", snapshot)] = "0" if FREED in text else "allocated"
    enabled = f"{directory}set_event"
    for text in read_each(tracefs, [enabled]).values():
        things |= {Thing("event", enabled, line): "1" for line in lines(text) if ":mod:" not in line}
    return things


def _filters_and_triggers(tracefs: Tracefs, touched: set[str]) -> Things:
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
    things: Things = {}
    for path, text in read_each(tracefs, sorted(paths)).items():
        for line in lines(text):
            if path.endswith("/trigger"):
                things[Thing("trigger", path, line)] = line
            elif line != "none":
                things[Thing("filter", path)] = line
    return things


def _event(line: str) -> str:
    return line.split()[0].replace(":", "/", 1)
