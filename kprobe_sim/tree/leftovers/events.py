"""What tests leave at events: triggers, filters, enabled events and dynamic events; and how to undo it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.tree.files.tracefs import Tracefs

from .texts import lines, read_each

_ROUNDS = 12  # one leftover may hold another: more rounds than a test's chain of them has links
_STATE = re.compile(rb" \[(?:active|paused|disabled)\]$")
_COUNT = re.compile(rb":unlimited|:count=| if ")
_UNIT = re.compile(rb"(\$\w+)\.usecs")  # the kernel shows it for a variable of times, and refuses it in a reference
_FILTERS = "show_event_filters"
_OFF = (b"", b"0\n")


class _EventState(NamedTuple):
    """The texts of the events' files by path, and the paths of those of each kind."""

    texts: Mapping[str, bytes]
    triggers: Mapping[str, bytes]
    enables: Sequence[str]
    filters: Sequence[str]
    lists: Sequence[str]

    @property
    def is_dirty(self) -> bool:
        return bool(self.left()) or any(self.texts.get(path, b"") not in _OFF for path in self.enables)

    def left(self) -> list[str]:
        """Say in words what is left, except for `enable` files: set_event lists every event that is on."""
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
    """The events of a tracefs; when this was made they had no triggers and no filters, and were off."""

    def __init__(self, tracefs: Tracefs) -> None:
        self._tracefs = tracefs
        # dynamic_events, since 5.0, lists all kinds
        kinds = ("dynamic_events",), ("synthetic_events", "uprobe_events", "kprobe_events")
        self.lists = [name for name in kinds[not tracefs.exists("dynamic_events")] if tracefs.exists(name)]

    def undo(self, touched: Sequence[str], filtered: Iterable[str]) -> list[str]:
        """Undo what was done at events; return in words what can't be undone.

        `touched` are the paths that were written, in that order, and `filtered` those of filters known to be set.
        set_event shows which events are on, and so which may have triggers.
        """
        filters = list(dict.fromkeys([*(path for path in touched if path.endswith("/filter")), *filtered]))
        for path in filters:
            self._try(path, b"0")
        before: object = None
        now = self._state(touched, filters)
        for _ in range(_ROUNDS):
            if now == before or not now.is_dirty:
                break
            self._remove_triggers(now.triggers)
            if now.texts.get("set_event"):
                self._truncate("set_event")
            for path, text in read_each(self._tracefs, now.enables).items():
                if text not in _OFF:
                    self._try(path, b"0")
            for name in self.lists:
                if now.texts.get(name):
                    self._delete_events(name)
            before, now = now, self._state(touched, filters)
        return now.left()

    def _state(self, touched: Sequence[str], filters: Sequence[str]) -> _EventState:
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
        return _EventState(texts, shown, enables, filters, self.lists)

    def _remove_triggers(self, triggers: Mapping[str, bytes]) -> None:
        for path, text in triggers.items():
            if not lines(text):
                continue
            self._truncate(path)  # removes histograms, unless another one refers to them, and no other trigger
            for line in self._text(path).splitlines():
                if not line.startswith(b"#"):
                    for definition in dict.fromkeys((as_written(line), _UNIT.sub(rb"\1", as_written(line)))):
                        self._try(path, b"!" + definition)

    def _delete_events(self, name: str) -> None:
        self._truncate(name)
        # a truncate removes none of them if one is in use; an event goes before the one that it is attached to
        for line in reversed(self._text(name).splitlines()):
            event = line.split()[0]
            self._try(name, b"!" + line if name == "synthetic_events" else b"-:" + event.partition(b":")[2])

    def filtered(self) -> Iterator[str]:
        """Yield the paths of all filters that are set; slow where the kernel has no list of them."""
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

    def _text(self, path: str) -> bytes:
        """Return a file's text; b"" if it can't be read."""
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
    """Return how to name a trigger to remove it: a histogram by all that its file shows, others by their name."""
    if line.startswith(b"hist:"):
        return _STATE.sub(b"", line)
    return _COUNT.split(line)[0]
