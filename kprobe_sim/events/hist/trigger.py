"""The trigger that counts into a histogram, and its requests to the files around it."""

from __future__ import annotations

from typing import Protocol

from kprobe_sim.events.event_file import EventFile, Hit, Trigger
from kprobe_sim.events.hist.data import HistData, HistogramTrigger
from kprobe_sim.events.hist.fault import HistFault
from kprobe_sim.events.hist.field import Sample
from kprobe_sim.events.hist.synthetic import SyntheticTarget
from kprobe_sim.events.hist.text import trigger_line
from kprobe_sim.machine.clock import ns2usecs


class ErrorReporter(Protocol):
    """Who logs what is wrong with a trigger."""

    def complain(self, fault: HistFault, word: str) -> None: ...


class HistHost(Protocol):
    """What histograms need of the trigger files and their kernel."""

    def set_filter(self, trigger: Trigger, condition: str | None) -> None:
        """Give a trigger the filter that `if FILTER` means.  Raises OSError."""
        ...

    def target(self, name: str) -> SyntheticTarget | None:
        """Return the synthetic event of that name, or None."""
        ...

    def put(
        self, file: EventFile, parameters: str, *, removes: bool = False, outer: ErrorReporter | None = None
    ) -> None:
        """Take what follows `hist:` or `!hist:`; `outer` makes a trigger that needs this one.  Raises OSError."""
        ...

    def end(self, trigger: HistTrigger) -> None:
        """Release what a removed trigger held."""
        ...


class HistTrigger(HistogramTrigger):
    """A hist trigger of one event; several with one name share a histogram."""

    group = "hist"
    needs_record = True

    def __init__(self, file: EventFile, data: HistData, host: HistHost) -> None:
        super().__init__(file, "hist", None)
        self.data = data
        self.host = host

    def end(self) -> None:
        self.host.end(self)

    def line(self) -> str:
        return trigger_line(self.data, self.filter_text, paused=self.paused)

    def is_like(self, other: Trigger, *, with_filter: bool = True) -> bool:
        """Return True if two triggers describe the same histogram (hist_trigger_match)."""
        if not isinstance(other, HistTrigger) or (with_filter and self.filter_text != other.filter_text):
            return False
        return _match_key(self.data) == _match_key(other.data)

    def conflicts_with(self, other: Trigger) -> bool:
        return (
            isinstance(other, HistTrigger)
            and self.data.attributes.name == other.data.attributes.name
            and self.is_like(other)
        )

    def fire(self, hit: Hit, record: bytes) -> None:
        """Count a record."""
        clock = self.instance.clock
        sample = Sample(
            record,
            hit.cpu,
            hit.comm if record[4:8] != b"\0\0\0\0" else b"<idle>",
            hit.frames,
            lambda: clock.stamp(hit.timestamp),
            ns2usecs if clock.in_ns else int,
            [],
            hit.timestamp,
        )
        self.data.count(sample)


def _match_key(data: HistData) -> tuple[object, ...]:
    fields = [*data.values, *data.variables, *data.keys]
    return (
        len(data.values) + len(data.variables),
        tuple(field.match_key() for field in fields),
        tuple(data.sort),
        tuple(action.match_key() for action in data.actions),
    )
