"""The existing dynamic events: whether each is armed and hit, and whether anything holds its hits back."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kprobe.doctor.diagnosis import NOTE, STOPS, Diagnosis, Fact
from kprobe.doctor.facts import Facts
from kprobe.doctor.instances import name_of
from kprobe.errors import KprobeError
from kprobe.events.dynamic import OTHER, TOP, DynamicEvent, Overview
from kprobe.kernel.dialect import switch
from kprobe.kernel.listing import Line

LIST = "/sys/kernel/debug/kprobes/list"
MODULES = "/proc/modules"
PROFILE = "kprobe_profile"
ROW = re.compile(r"[0-9a-f]+ +([kro]) +(\S+)\+0x([0-9a-f]+)(.*)")
ENDBR = 4  # bytes, where the kernel is built with IBT
KINDS = "pr"  # letters of probes whose hits are counted


def overview(facts: Facts) -> tuple[DynamicEvent, ...]:
    """Return the dynamic events; none if they can't be listed."""
    try:
        return tuple(Overview(facts.tracefs).events)
    except (KprobeError, OSError):
        return ()


def of_events(facts: Facts, events: tuple[DynamicEvent, ...]) -> Iterator[Diagnosis]:
    """Yield findings about all dynamic events."""
    armed = _armed(facts)
    modules = _modules(facts)
    something = max((event.hits or 0 for event in events), default=0)
    for event in events:
        line = Line(event.definition)
        module = line.place.rpartition(":")[0]
        if module and modules is not None and module not in modules:
            what = f"{event.event} is in a module that isn't loaded: {module}"
            facts_of = (Fact(facts.typed("kprobe_events"), event.definition), Fact(MODULES, f"no {module}"))
            yield Diagnosis(STOPS, "module", what, facts_of, f"modprobe {module}")
        elif event.enabled and "[DISABLED]" in (row := _row(armed, line.place)):
            what = f"{event.event} is enabled, but the kernel has its probe switched off"
            yield Diagnosis(STOPS, "probe", what, (Fact(LIST, " ".join(row.split())),), _again(facts, event))
        elif event.enabled and not event.hits and event.hits is not None and something and not event.missed:
            what = f"{event.event} is enabled but was never hit, while others were"
            yield Diagnosis(NOTE, "hits", what, (Fact(facts.typed(PROFILE), f"{_name(event)} 0 0"),), _doctor(line))
        if event.missed:
            more = "; a return probe with more instances misses fewer" if event.definition.startswith("r") else ""
            what = f"the kernel missed {event.missed} hits of {event.event}{more}"
            says = f"{_name(event)} {event.hits} {event.missed}"
            helps = f"r100:{_name(event)} {line.place} in place of r:" if more else ""
            yield Diagnosis(NOTE, "missed", what, (Fact(facts.typed(PROFILE), says),), helps)
        if event.owner == OTHER:
            yield from _held_back(facts, event)
    if any("[GONE]" in row for row in (facts.machine.text(LIST) or "").splitlines()):
        gone = next(row for row in (facts.machine.text(LIST) or "").splitlines() if "[GONE]" in row)
        what = "a probe is in code that is gone, because its module was unloaded"
        yield Diagnosis(STOPS, "module", what, (Fact(LIST, " ".join(gone.split())),), "load the module again")


def of_function(facts: Facts, events: tuple[DynamicEvent, ...], symbol: str) -> Iterator[Diagnosis]:
    """Yield the events on a function that aren't enabled."""
    for event in events:
        place = Line(event.definition).place.rpartition(":")[2].partition("+")[0]
        if place == symbol and event.definition[:1] in KINDS and not event.enabled and event.owner == OTHER:
            path = facts.typed(f"events/{event.event}/{switch(facts.tracefs, event.event)}")
            what = f"{event.event} is on {symbol}, but isn't enabled"
            yield Diagnosis(NOTE, "enable", what, (Fact(path, "0"),), f"echo 1 > {path}")


def _held_back(facts: Facts, event: DynamicEvent) -> Iterator[Diagnosis]:
    for where in event.enabled:
        place = "" if where == TOP else f"{where}/"
        path = f"{place}events/{event.event}/filter"
        text = facts.text(path)
        if text not in (None, "", "none"):
            what = f"a filter of {event.event} is set at {name_of(place)}: only what it passes is recorded"
            yield Diagnosis(
                NOTE, "filter", what, (Fact(facts.typed(path), str(text)),), f"echo 0 > {facts.typed(path)}"
            )
        path = f"{place}events/{event.event}/trigger"
        for line in (facts.text(path) or "").splitlines():
            if line.startswith("traceoff"):
                what = f"a hit of {event.event} switches recording off at {name_of(place)}"
                helps = f"echo '!{line.partition(':')[0]}' > {facts.typed(path)}"
                yield Diagnosis(NOTE, "trigger", what, (Fact(facts.typed(path), line),), helps)


def _armed(facts: Facts) -> dict[tuple[str, int], str]:
    """Return rows of kprobes/list by symbol and offset; of several, the armed one."""
    rows: dict[tuple[str, int], str] = {}
    for row in (facts.machine.text(LIST) or "").splitlines():
        found = ROW.match(row)
        if found is not None:
            key = found[2], int(found[3], 16)
            if key not in rows or "[DISABLED]" in rows[key]:
                rows[key] = row
    return rows


def _modules(facts: Facts) -> set[str] | None:
    text = facts.machine.text(MODULES)
    return None if text is None else {line.partition(" ")[0] for line in text.splitlines()}


def _row(armed: dict[tuple[str, int], str], place: str) -> str:
    """Return the row of kprobes/list for a probe point, "" if none; a probe at the entry sits after an endbr."""
    symbol, _, text = place.rpartition(":")[2].partition("+")
    offset = int(text) if text.isdigit() else 0
    return armed.get((symbol, offset), "") or ("" if offset else armed.get((symbol, ENDBR), ""))


def _name(event: DynamicEvent) -> str:
    return event.event.rpartition("/")[2]


def _again(facts: Facts, event: DynamicEvent) -> str:
    path = facts.typed(f"events/{event.event}/enable")
    return f"echo 0 > {path}; echo 1 > {path}"


def _doctor(line: Line) -> str:
    symbol = line.place.rpartition(":")[2].partition("+")[0]
    return f"kprobe doctor {symbol}" if symbol and not symbol.startswith("0x") else ""
