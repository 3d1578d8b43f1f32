"""What tests leave at events: triggers, filters, events that are on, dynamic events; and how all of it is undone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

_ROUNDS = 12  # of undoing what holds something else: more than there are links in a chain that a test would build
_STATE = re.compile(rb" \[(?:active|paused|disabled)\]$")
_COUNT = re.compile(rb":unlimited|:count=| if ")
_UNIT = re.compile(rb"(\$\w+)\.usecs")  # shown of a variable of times, and refused where one is named
_FILTERS = "show_event_filters"


class Events:
    """The events of a tracefs, which had no trigger and no filter and were off when this was made."""

    def __init__(self, tracefs: Any) -> None:
        self._tracefs = tracefs

    def undo(self, touched: Sequence[str], filtered: Iterable[str]) -> list[str]:
        """Undo what was done at events, and return in words what can't be.

        `touched` are the paths that were written, the last one last, and `filtered` filters that are known to be set.
        Triggers and events that are on are found by set_event, which lists them all.
        """
        filters = dict.fromkeys([*(path for path in touched if path.endswith("/filter")), *filtered])
        for path in filters:
            self._try(path, b"0")
        before: object = None
        for _ in range(_ROUNDS):
            self._remove_triggers(touched)
            if self._text("set_event"):
                self._truncate("set_event")
            for path in touched:
                if path.endswith("/enable") and self._text(path) not in (b"", b"0\n"):
                    self._try(path, b"0")
            self._delete_events()
            after = self._left(touched, filters)
            if not after or after == before:
                break
            before = after
        return self._left(touched, filters)

    def _left(self, touched: Sequence[str], filters: Iterable[str]) -> list[str]:
        left = [f"{name} stays on" for name in self._lines("set_event")]
        left += [f"{line} stays in dynamic_events" for line in self._lines("dynamic_events")]
        left += [f"{path} stays {line}" for path in self._trigger_files(touched) for line in self._lines(path)]
        texts = {path: self._text(path) for path in filters}
        left += [
            f"{path} stays {text.decode('utf-8', 'replace').strip()}"
            for path, text in texts.items()
            if text not in (b"", b"none\n") and not text.startswith(b"### global filter")
        ]
        return left

    # triggers

    def _trigger_files(self, touched: Sequence[str]) -> list[str]:
        found = [path for path in reversed(touched) if path.endswith("/trigger")]
        for line in self._lines("set_event"):
            system, _, event = line.partition(":")
            if system:
                found.append(f"events/{system}/{event}/trigger")
        return list(dict.fromkeys(found))

    def _remove_triggers(self, touched: Sequence[str]) -> None:
        for path in self._trigger_files(touched):
            if not self._lines(path):
                continue
            self._truncate(path)  # removes the histograms, unless another refers to one of them, and no other trigger
            for line in self._text(path).splitlines():
                if not line.startswith(b"#"):
                    for text in dict.fromkeys((_as_written(line), _UNIT.sub(rb"\1", _as_written(line)))):
                        self._try(path, b"!" + text)

    # dynamic events

    def _delete_events(self) -> None:
        if not self._text("dynamic_events"):
            return
        self._truncate("dynamic_events")
        # one that is in use keeps them all; and what is attached to another goes before that
        for line in reversed(self._text("dynamic_events").splitlines()):
            self._try("dynamic_events", b"-:" + line.split()[0].partition(b":")[2])

    # filters

    def filtered(self) -> Iterator[str]:
        """Yield the paths of the filters that are set, of all events; slow where the kernel has no list of them."""
        tracefs = self._tracefs
        if tracefs.exists(_FILTERS):
            for line in self._lines(_FILTERS):
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

    def _lines(self, path: str) -> list[str]:
        lines = self._text(path).decode("utf-8", "surrogateescape").splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    def _try(self, path: str, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._tracefs.write(path, data)

    def _truncate(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self._tracefs.write(path, b"", truncate=True)


def _as_written(line: bytes) -> bytes:
    """Return the trigger that is shown thus, as it is removed: a histogram is found by all of it, others by name."""
    if line.startswith(b"hist:"):
        return _STATE.sub(b"", line)
    return _COUNT.split(line)[0]
