"""Leftovers of tests in events (triggers, filters, enabled events, dynamic events), and how they are undone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kprobe_sim.named_tuple import NamedTuple

from .texts import lines, read_each

_ROUNDS = 12  # of undoing what holds something else: more than there are links in a chain that a test would build
_STATE = re.compile(rb" \[(?:active|paused|disabled)\]$")
_COUNT = re.compile(rb":unlimited|:count=| if ")
_UNIT = re.compile(rb"(\$\w+)\.usecs")  # shown of a variable of times, and refused where one is named
_FILTERS = "show_event_filters"
_OFF = (b"", b"0\n")


class _Found(NamedTuple):
    """What is at events: the texts of files by path, some of them triggers, switches, filters and lists of events."""

    texts: Mapping[str, bytes]
    triggers: Mapping[str, bytes]
    enables: Sequence[str]
    filters: Sequence[str]
    lists: Sequence[str]

    @property
    def is_anything(self) -> bool:
        return bool(self.left()) or any(self.texts.get(path, b"") not in _OFF for path in self.enables)

    def left(self) -> list[str]:
        """Say in words what is there, but for switches, as set_event has those of all events that are on."""
        texts = self.texts
        left = [f"{name} stays on" for name in lines(texts.get("set_event", b""))]
        left += [f"{line} stays in {name}" for name in self.lists for line in lines(texts.get(name, b""))]
        left += [f"{path} stays {line}" for path, text in self.triggers.items() for line in lines(text)]
        left += [
            f"{path} stays {texts[path].decode('utf-8', 'replace').strip()}"
            for path in self.filters
            if texts.get(path, b"") not in (b"", b"none\n") and not texts[path].startswith(b"### global filter")
        ]
        return left


class Events:
    """The events of a tracefs, which had no trigger and no filter and were off when this was made."""

    def __init__(self, tracefs: Any) -> None:
        self._tracefs = tracefs
        # dynamic_events has all of them, since 5.0
        several = ("dynamic_events",), ("synthetic_events", "uprobe_events", "kprobe_events")
        self.lists = [name for name in several[not tracefs.exists("dynamic_events")] if tracefs.exists(name)]

    def undo(self, touched: Sequence[str], filtered: Iterable[str]) -> list[str]:
        """Undo what was done at events, and return in words what can't be.

        `touched` are the paths that were written, the last one last, and `filtered` filters that are known to be set.
        Triggers and events that are on are found by set_event, which lists them all.
        """
        filters = list(dict.fromkeys([*(path for path in touched if path.endswith("/filter")), *filtered]))
        for path in filters:
            self._try(path, b"0")
        before: object = None
        found = self._look(touched, filters)
        for _ in range(_ROUNDS):
            if found == before or not found.is_anything:
                break
            self._remove_triggers(found.triggers)
            if found.texts.get("set_event"):
                self._truncate("set_event")
            for path, text in read_each(self._tracefs, found.enables).items():
                if text not in _OFF:
                    self._try(path, b"0")
            for name in self.lists:
                if found.texts.get(name):
                    self._delete_events(name)
            before, found = found, self._look(touched, filters)
        return found.left()

    def _look(self, touched: Sequence[str], filters: Sequence[str]) -> _Found:
        triggers = [path for path in reversed(touched) if path.endswith("/trigger")]
        enables = [path for path in touched if path.endswith("/enable")]
        texts = read_each(self._tracefs, ["set_event", *self.lists, *triggers, *enables, *filters])
        listed = []
        for line in lines(texts.get("set_event", b"")):
            system, _, event = line.partition(":")
            if system and (path := f"events/{system}/{event}/trigger") not in texts:
                listed.append(path)
        if listed:
            texts |= read_each(self._tracefs, listed)
        shown = {path: texts.get(path, b"") for path in (*triggers, *listed)}
        return _Found(texts, shown, enables, filters, self.lists)

    # triggers

    def _remove_triggers(self, triggers: Mapping[str, bytes]) -> None:
        for path, text in triggers.items():
            if not lines(text):
                continue
            self._truncate(path)  # removes the histograms, unless another refers to one of them, and no other trigger
            for line in self._text(path).splitlines():
                if not line.startswith(b"#"):
                    for words in dict.fromkeys((as_written(line), _UNIT.sub(rb"\1", as_written(line)))):
                        self._try(path, b"!" + words)

    # dynamic events

    def _delete_events(self, name: str) -> None:
        self._truncate(name)
        # one that is in use keeps them all; and what is attached to another goes before that
        for line in reversed(self._text(name).splitlines()):
            event = line.split()[0]
            self._try(name, b"!" + line if name == "synthetic_events" else b"-:" + event.partition(b":")[2])

    # filters

    def filtered(self) -> Iterator[str]:
        """Yield the paths of the filters that are set, of all events; slow where the kernel has no list of them."""
        tracefs = self._tracefs
        if tracefs.exists(_FILTERS):
            for line in lines(self._text(_FILTERS)):
                system, _, event = line.split()[0].partition(":")
                yield f"events/{system}/{event}/filter"
            return
        for system in tracefs.listdir("events"):
            with contextlib.suppress(NotADirectoryError):
                for event in tracefs.listdir(f"events/{system}"):
                    path = f"events/{system}/{event}/filter"
                    if self._text(path) not in (b"", b"none\n"):
                        yield path

    # the files

    def _text(self, path: str) -> bytes:
        """Return a file's text; b"" if it isn't there."""
        try:
            text: bytes = self._tracefs.read(path)
        except OSError:
            return b""
        return text

    def _try(self, path: str, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._tracefs.write(path, data)

    def _truncate(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self._tracefs.write(path, b"", truncate=True)


def as_written(line: bytes) -> bytes:
    """Return the trigger that is shown thus, as it is removed: a histogram is found by all of it, others by name."""
    if line.startswith(b"hist:"):
        return _STATE.sub(b"", line)
    return _COUNT.split(line)[0]
