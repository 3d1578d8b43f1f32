"""A program's hygiene: what it left in a tracefs, what it took away that wasn't its own, and how that is undone."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.tree.files.operation import Operation

from .events import as_written
from .state import DEFINITIONS, Standing, Thing, is_expanded, state

__all__ = ["Finding", "Hygiene"]

ROOT = "/sys/kernel/tracing"
_ALL = (*DEFINITIONS, "dynamic_events", "set_event")
# switches of what several programs have events in
_SHARED = {"events/enable": "event", **{f"events/{group}/enable": f"event of group {group}" for group in (
    *("kprobes", "uprobes", "fprobes", "eprobes", "synthetic"),
)}}  # fmt: skip
_ORDER = ("trigger", "filter", "event", "definition", "instance", "value")


class Finding(NamedTuple):
    """One thing that isn't as it was: where, how, by whom as far as is known, and the shell line that undoes it."""

    path: str
    how: str
    who: str
    undo: str

    def __str__(self) -> str:
        by = f"  ({self.who})" if self.who else ""
        return f"{self.path}: {self.how}{by}" + (f"\n    undo: {self.undo}" if self.undo else "")


class Hygiene:
    """Compares a tracefs with what it was when this was made, or at `begin`; `hear` is told of what changes it."""

    def __init__(self, tracefs: Any) -> None:
        self._tracefs = tracefs
        self._heard: list[Operation] = []
        self._before: Standing = {}
        self.begin()

    def begin(self) -> None:
        """Take what is there now for what has to be there at the end."""
        self._before = state(self._tracefs, [one.path for one in self._heard])
        self._heard.clear()

    def hear(self, operation: Operation) -> None:
        """Note a change that a program makes."""
        self._heard.append(operation)

    def findings(self, touched: Iterable[str] = ()) -> list[Finding]:
        """Return what isn't as it was; `touched` are paths that were written and not heard of."""
        paths = [*(one.path for one in self._heard), *touched, *(key.path for key in self._before)]
        now = state(self._tracefs, paths)
        gone = {key.path for key in self._before.keys() - now.keys() if key.kind == "instance"}
        come = {key.path for key in now.keys() - self._before.keys() if key.kind == "instance"}
        found: list[Finding] = []
        self._join_filters(now)
        for key in sorted({*self._before, *now}, key=lambda key: (_ORDER.index(key.kind), key.path, key.what)):
            if self._before.get(key) != now.get(key) and not _is_part(key, gone | come):
                found += self._difference(key, self._before.get(key), now.get(key))
        return [*found, *self._wiped()]

    def told(self, touched: Iterable[str] = ()) -> str:
        """Return the findings as the text of a failure; "" if there are none."""
        found = "".join(f"\n  {finding}" for finding in self.findings(touched))
        return found and f"the tracefs isn't as the test found it:{found}"

    def _difference(self, key: Thing, before: str | None, now: str | None) -> Iterator[Finding]:
        who = self._who(key)
        kind, path, what = key
        if kind == "value":
            if (
                before is not None
                and now is not None
                and not (path.endswith("buffer_size_kb") and is_expanded(before, now))
            ):
                yield Finding(path, f"{_short(before)} -> {_short(now)}", who, _write_back(path, before))
        elif kind == "filter":
            how = f"left: {now}" if before is None else f"{before} -> {now or 'none'}"
            yield Finding(path, how, who, _echo(before or "0", ">", path))
        elif now is None:
            yield Finding(path, f"removed, and wasn't its own: {what or path}", who, _put_back(key))
        else:
            yield Finding(path, f"left: {what or path}", who, _take_away(key))

    def _join_filters(self, now: Standing) -> None:
        """Let filters that were set by that of their system stand there, once."""
        for path in {one.path for one in self._heard if one.path.endswith("/filter") and not one.error}:
            directory = path.rpartition("/")[0]
            own = {key for key in now.keys() - self._before.keys() if key.kind == "filter" and key.path != path}
            under = {key for key in own if key.path.startswith(f"{directory}/")}
            if len({now[key] for key in under}) == 1 and len(under) > 1:
                now[Thing("filter", path)] = now[next(iter(under))]
                for key in under:
                    del now[key]

    def _wiped(self) -> Iterator[Finding]:
        """Yield what was done to everybody's things, were there any."""
        seen = set()
        for one in self._heard:
            how = ""
            if one.what == "open" and one.path in _ALL:
                whose = "disables everybody's events" if one.path == "set_event" else "removes everybody's definitions"
                how = f"opened with O_TRUNC (>), which {whose}; O_APPEND (>>) adds to them"
            elif one.what == "write" and one.path in _SHARED and one.data.strip() == b"0":
                how = f"0 disables everybody's {_SHARED[one.path].replace('event', 'events', 1)}"
            elif one.what == "write" and one.path == "set_event" and one.data.strip() in (b"!*:*", b"!*"):
                how = f"{one.data.decode().strip()} disables everybody's events"
            if how and (one.path, how) not in seen:
                seen.add((one.path, how))
                yield Finding(one.path, how + (" (it was refused here)" if one.error else ""), one.who, "")

    def _who(self, key: Thing) -> str:
        """Return who changed a thing last, as far as was heard."""
        for one in reversed(self._heard):
            if not one.error and _is_about(one, key):
                return one.who
        return ""


def _is_part(key: Thing, instances: set[str]) -> bool:
    """True for what is in an instance that came or went as a whole."""
    return key.kind != "instance" and any(key.path.startswith(f"{path}/") for path in instances)


def _is_about(one: Operation, key: Thing) -> bool:
    text = one.data.decode("utf-8", "replace")
    if key.kind == "instance":
        return one.path == key.path
    if key.kind == "definition":
        name = key.what.split()[0].partition(":")[2].rpartition("/")[2]
        return one.path in _ALL and (one.what == "open" or name in text)
    if key.kind == "event":
        place, (system, _, event) = key.path.removesuffix("set_event"), key.what.partition(":")
        ways = (f"{system}/{event}/enable", f"{system}/enable", "enable")
        return one.path == key.path or one.path in [f"{place}events/{way}" for way in ways]
    if "options/" in key.path and one.path == key.path.replace("options/", "\0").partition("\0")[0] + "trace_options":
        return key.path.rpartition("/")[2] in text
    if key.kind == "filter":
        return one.path == key.path or one.path == f"{key.path.rsplit('/', 2)[0]}/filter"
    return one.path == key.path


def _take_away(key: Thing) -> str:
    kind, path, what = key
    if kind == "instance":
        return f"rmdir {ROOT}/{path}"
    if kind == "event":
        return _echo("0", ">", _enable(key))
    if kind == "trigger":
        return _echo(f"!{as_written(what.encode()).decode()}", ">>", path)
    if path == "synthetic_events":
        return _echo(f"!{what}", ">>", path)
    return _echo(f"-:{what.split()[0].partition(':')[2]}", ">>", path)


def _put_back(key: Thing) -> str:
    kind, path, what = key
    if kind == "instance":
        return f"mkdir {ROOT}/{path}"
    return _echo("1", ">", _enable(key)) if kind == "event" else _echo(what, ">>", path)


def _enable(key: Thing) -> str:
    return f"{key.path.removesuffix('set_event')}events/{key.what.replace(':', '/', 1)}/enable"


def _write_back(path: str, before: str) -> str:
    if not before or before.startswith("#") or before == "no pid":
        return f"echo > {ROOT}/{path}"
    return _echo(before, ">", path)


def _echo(text: str, how: str, path: str) -> str:
    return f"echo {shlex.quote(text)} {how} {ROOT}/{path}"


def _short(text: str) -> str:
    text = " ".join(text.split()) or "empty"
    return text if len(text) <= 60 else f"{text[:60]}..."
