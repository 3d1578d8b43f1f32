"""A program's hygiene: what it left in a tracefs, what it removed that wasn't its own, and how to undo that."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.tree.files.operation import Operation
from kprobe_sim.tree.files.tracefs import Tracefs

from .events import as_written
from .state import DEFINITIONS, Thing, Things, is_expanded, state

ROOT = "/sys/kernel/tracing"
_ALL = (*DEFINITIONS, "dynamic_events", "set_event")
# files that enable the events of several programs at once
_SHARED = {"events/enable": "event", **{f"events/{group}/enable": f"event of group {group}" for group in (
    *("kprobes", "uprobes", "fprobes", "eprobes", "synthetic"),
)}}  # fmt: skip
_ORDER = ("trigger", "filter", "event", "definition", "instance", "value")


class Finding(NamedTuple):
    """One difference: where, how, by whom if that is known, and the shell line that undoes it."""

    path: str
    how: str
    who: str
    undo: str

    def __str__(self) -> str:
        by = f"  ({self.who})" if self.who else ""
        return f"{self.path}: {self.how}{by}" + (f"\n    undo: {self.undo}" if self.undo else "")


class Hygiene:
    """Compares a tracefs with its state at `begin`, which the constructor calls; give each change of it to `hear`."""

    def __init__(self, tracefs: Tracefs) -> None:
        self._tracefs = tracefs
        self._operations: list[Operation] = []
        self._before: Things = {}
        self.begin()

    def begin(self) -> None:
        """Take the present state as the one that must hold at the end."""
        self._before = state(self._tracefs, [operation.path for operation in self._operations])
        self._operations.clear()

    def hear(self, operation: Operation) -> None:
        """Note a change that a program makes."""
        self._operations.append(operation)

    def findings(self, touched: Iterable[str] = ()) -> list[Finding]:
        """Return what has changed since `begin`; `touched` are further paths that were written."""
        paths = [*(operation.path for operation in self._operations), *touched, *(key.path for key in self._before)]
        now = state(self._tracefs, paths)
        gone = {key.path for key in self._before.keys() - now.keys() if key.kind == "instance"}
        come = {key.path for key in now.keys() - self._before.keys() if key.kind == "instance"}
        findings: list[Finding] = []
        self._join_filters(now)
        for key in sorted({*self._before, *now}, key=lambda key: (_ORDER.index(key.kind), key.path, key.what)):
            if self._before.get(key) != now.get(key) and not _is_part(key, gone | come):
                findings += self._difference(key, self._before.get(key), now.get(key))
        return [*findings, *self._wiped()]

    def report(self, touched: Iterable[str] = ()) -> str:
        """Return the findings as the text of a failure; "" if there are none."""
        text = "".join(f"\n  {finding}" for finding in self.findings(touched))
        return text and f"the tracefs isn't as the test found it:{text}"

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
            yield Finding(path, f"removed, and wasn't its own: {what or path}", who, _restoration(key))
        else:
            yield Finding(path, f"left: {what or path}", who, _removal(key))

    def _join_filters(self, now: Things) -> None:
        """Replace the filters of events that were set through their system's filter by that one."""
        written = [operation for operation in self._operations if not operation.error]
        for path in {operation.path for operation in written if operation.path.endswith("/filter")}:
            directory = path.rpartition("/")[0]
            new = {key for key in now.keys() - self._before.keys() if key.kind == "filter" and key.path != path}
            under = {key for key in new if key.path.startswith(f"{directory}/")}
            if len({now[key] for key in under}) == 1 and len(under) > 1:
                now[Thing("filter", path)] = now[next(iter(under))]
                for key in under:
                    del now[key]

    def _wiped(self) -> Iterator[Finding]:
        """Yield the operations that would have affected other programs' events and definitions."""
        seen = set()
        for who, what, path, data, error in self._operations:
            how, data = "", data.strip()
            if what == "open" and path in _ALL:
                whose = "disables everybody's events" if path == "set_event" else "removes everybody's definitions"
                how = f"opened with O_TRUNC (>), which {whose}; O_APPEND (>>) adds to them"
            elif what == "write" and path in _SHARED and data == b"0":
                how = f"0 disables everybody's {_SHARED[path].replace('event', 'events', 1)}"
            elif what == "write" and path == "set_event" and data in (b"!*:*", b"!*"):
                how = f"{data.decode()} disables everybody's events"
            if how and (path, how) not in seen:
                seen.add((path, how))
                yield Finding(path, how + (" (it was refused here)" if error else ""), who, "")

    def _who(self, key: Thing) -> str:
        """Return who changed a thing last; "" if that isn't known."""
        changes = (each for each in reversed(self._operations) if not each.error and _is_about(each, key))
        return next((change.who for change in changes), "")


def _is_part(key: Thing, instances: set[str]) -> bool:
    """Return True for a part of an instance that was itself made or removed."""
    return key.kind != "instance" and any(key.path.startswith(f"{path}/") for path in instances)


def _is_about(operation: Operation, key: Thing) -> bool:
    path, text = operation.path, operation.data.decode("utf-8", "replace")
    if key.kind == "definition":
        name = key.what.split()[0].partition(":")[2].rpartition("/")[2]
        return path in _ALL and (operation.what == "open" or name in text)
    if key.kind == "event":
        directory, (system, _, event) = key.path.removesuffix("set_event"), key.what.partition(":")
        switches = (f"{system}/{event}/enable", f"{system}/enable", "enable")
        return path == key.path or path in [f"{directory}events/{switch}" for switch in switches]
    if "options/" in key.path and path == key.path.replace("options/", "\0").partition("\0")[0] + "trace_options":
        return key.path.rpartition("/")[2] in text
    return path == key.path or (key.kind == "filter" and path == f"{key.path.rsplit('/', 2)[0]}/filter")


def _removal(key: Thing) -> str:
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


def _restoration(key: Thing) -> str:
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
