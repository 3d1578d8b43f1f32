"""Counting by the kernel itself: hist triggers on the events of a trace, and the contents of their tables."""

from __future__ import annotations

import re

from kprobe.undo.undo import full
from kprobe_text.text.format import parse_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.definitions.probe import Probe
    from kprobe.definitions.terms import Terms
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.instance import Instance
    from kprobe.undo.undo import Step, Undo

SIZE = 16384  # entries of a table; the kernel allocates all of them at once, so not its limit of 131072
SMALL = 128  # the fewest that it takes, of which one is enough to see that an event was hit
KEYS = {"pid": "common_pid", "cpu": "common_cpu"}  # keys that aren't fields of the event
_ENTRY = re.compile(rb"^\{ \w+: +([0-9]+) \} hitcount: +([0-9]+)$", re.M)
_DROPPED = re.compile(rb"^ +Dropped: ([0-9]+)$", re.M)
_BITS = 64


def count(
    tracefs: Tracefs, undo: Undo, instance: Instance, probes: tuple[Probe, ...], terms: Terms
) -> HistTriggers | None:
    """Have the kernel count the events if `terms` ask for it; None if they don't, or it can't."""
    if not terms.is_countable or (len(probes) > 1 and terms.filter):
        return None
    triggers = HistTriggers(tracefs, undo, instance, terms.count)
    return triggers if triggers.set(probes, terms.filter) else None


def count_hits(tracefs: Tracefs, undo: Undo, instance: Instance, probes: tuple[Probe, ...]) -> HistTriggers | None:
    """Have the kernel count how often events are hit from now on; None if it can't.

    A trigger without a filter also counts hits that the event's filter and set_event_pid keep from the buffer.  Source:
    guests of 6.1, 6.12 and 7.2 (tests/conformance/test_doctor.py).
    """
    triggers = HistTriggers(tracefs, undo, instance, "pid", size=SMALL)
    try:
        return triggers if triggers.set(probes, "") else None
    except OSError:
        return None


class HistTriggers:
    """The hist triggers of one trace, all by one key: a field that is a number, `pid` (of the thread) or `cpu`."""

    def __init__(self, tracefs: Tracefs, undo: Undo, instance: Instance, by: str, *, size: int = SIZE) -> None:
        self._size = size
        self._tracefs = tracefs
        self._undo = undo
        self._instance = instance
        self._by = by
        self._signed: dict[str, bool] = {}  # event -> whether its key is signed
        self._final: list[tuple[str, dict[int, int], int]] | None = None  # when it was over

    def set(self, probes: tuple[Probe, ...], filter: str) -> bool:
        """Let the kernel count the events; False if it can't count all of them by that key, and nothing was done."""
        keys = [self._key(probe) for probe in probes]
        if not all(keys):
            return False
        steps: list[Step] = []
        for probe, key in zip(probes, keys, strict=True):
            path = self._path(probe, "trigger")
            text = f"hist:keys={key}:size={self._size}"
            step = self._undo.push(
                f"remove the trigger of {probe.event}",
                lambda path=path, text=text: self._tracefs.write(path, f"!{text}\n".encode()),  # type: ignore[misc]
                command=lambda path=path, text=text: f"echo '!{text}' > {full(self._tracefs, path)}",  # type: ignore[misc]
                is_left=lambda path=path: self._tracefs.exists(path) and b"hist:" in self._tracefs.read(path),  # type: ignore[misc]
                frees=True,
            )
            try:
                line = text + (f" if {filter}" if filter else "")
                self._tracefs.write(path, line.encode(errors="surrogateescape") + b"\n")
            except OSError:  # the kernel has no triggers, or refuses the key: events do as well
                self._undo.drop(step)
                for done in reversed(steps):
                    self._undo.now(done)
                return False
            steps.append(step)
        return True

    def counted(self, probes: tuple[Probe, ...], *, is_over: bool) -> list[tuple[str, dict[int, int], int]]:
        """Return for each event its name, the count of each number, and how many events had no room in the table.

        Once the trace `is_over`, the counts stay: the kernel counts on until the triggers are removed.
        """
        if self._final is not None:
            return self._final
        tables = []
        for probe in probes:
            data = self._tracefs.read(self._path(probe, "hist"))
            numbers: dict[int, int] = {}
            for number, times in _ENTRY.findall(data):
                value = int(number)
                if self._signed.get(probe.name) and value >> _BITS - 1:
                    value -= 1 << _BITS
                numbers[value] = numbers.get(value, 0) + int(times)
            dropped = _DROPPED.search(data)
            tables.append((probe.name, numbers, 0 if dropped is None else int(dropped[1])))
        if is_over:
            self._final = tables
        return tables

    def hits(self, probes: tuple[Probe, ...]) -> int:
        """Return how often these events were hit, including hits that a filter or set_event_pid dropped."""
        counted = self.counted(probes, is_over=False)
        return sum(sum(numbers.values()) + dropped for _, numbers, dropped in counted)

    def _key(self, probe: Probe) -> str:
        """Return the key in the kernel's words; "" if its table would say less than the records."""
        text = self._tracefs.read(f"events/{probe.event}/format").decode(errors="surrogateescape")
        try:
            form = parse_format(text)
        except ValueError:
            return KEYS.get(self._by, "")
        for name, kind, length, _, size, is_signed in form.fields:
            if name == self._by and length is None and not name.startswith("__"):
                is_number = "[" not in kind and "char *" not in kind and size in (1, 2, 4, 8)
                # the record shows a symbol or a character, the table only its number
                is_plain = re.search(rf"\b{name}=(0x)?%L?[a-z]*[dux]\b", form.print_fmt) is not None
                self._signed[probe.name] = is_signed
                return name if is_number and is_plain else ""
        return KEYS.get(self._by, "")

    def _path(self, probe: Probe, name: str) -> str:
        return self._instance.path(f"events/{probe.event}/{name}")
