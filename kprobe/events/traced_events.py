"""The events of a trace: added, filtered, enabled and disabled together, and each read back."""

from __future__ import annotations

from kprobe.definitions import filters
from kprobe.definitions.probe import KPROBES
from kprobe.errors import AlreadyExists, FilterRefused, Refused
from kprobe.kernel.dialect import switch
from kprobe.undo import markers
from kprobe.undo.undo import full

from . import refusal
from .registration import add_probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kprobe.definitions.probe import Probe
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.instance import Instance
    from kprobe.undo.undo import Step, Undo

    from .registration import Registration

NO_FIELD = "Field not found"


class TracedEvents:
    """The events of some probes in one instance."""

    def __init__(self, tracefs: Tracefs, undo: Undo, instance: Instance) -> None:
        self._tracefs = tracefs
        self._undo = undo
        self._instance = instance
        self._registrations: list[tuple[Probe, Registration]] = []
        self._events: set[str] = set()  # of all registrations, including those with only the undo left
        self._enabled: list[Step] = []
        self._unmarked: list[str] = []

    def add(self, probes: Iterable[Probe], optional: Collection[str]) -> list[str]:
        """Add the probes, in their order; one whose event is in `optional` is left out if the kernel refuses it.

        Return notices of that.  Raise the first refusal if none of those is taken.
        """
        left_out: list[Refused] = []
        names: list[str] = []
        taken = 0
        for probe in probes:
            try:
                registration = add_probe(self._tracefs, self._undo, probe, self._marking(probe), self._events)
            except Refused as error:
                if probe.event not in optional or isinstance(error, AlreadyExists):
                    raise
                left_out.append(error)
                names.append(str(probe.place))
                continue
            taken += probe.event in optional
            self._registrations.append((probe, registration))
            self._events.add(probe.event)
        if left_out and not taken:
            raise left_out[0]
        notices = [f"left out, as the kernel refuses a probe there: {', '.join(names)}"] if names else []
        return notices + [f"this kernel takes no marker: if we are killed, {event} stays" for event in self._unmarked]

    def _marking(self, probe: Probe) -> Callable[[], None] | None:
        """Return the function that marks an event in a group that the user named; None for the session's group."""
        return (lambda: self._mark(probe)) if probe.has_own_group and probe.group != self._instance.session else None

    def _mark(self, probe: Probe) -> None:
        tracefs = self._tracefs
        event = markers.free_event(tracefs, self._instance.session)
        self._undo.push(
            f"remove {event} from {KPROBES}",
            lambda: markers.remove(tracefs, event),
            command=lambda: f"echo '-:{event}' >> {full(tracefs, KPROBES)}",
            is_left=lambda: markers.is_there(tracefs, event),
        )
        top = {} if self._instance.is_own else {"t": ""}
        if not markers.add(tracefs, event, d=str(probe.with_args(())), **top):
            self._unmarked.append(probe.event)

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The probes that were added."""
        return tuple(probe for probe, _ in self._registrations)

    def set_filter(self, text: str, threads: str) -> list[str]:
        """Set both filters on each event, or only `threads` if it lacks a field of the other one.

        Return notices of that.  Raise `FilterRefused` if none of the events has the fields.
        """
        lacking: list[str] = []
        refused: FilterRefused | None = None
        for probe, _ in self._registrations:
            both = filters.both(text, threads)
            try:
                if both:
                    self._write_filter(probe, both)
            except FilterRefused as error:
                if error.says != NO_FIELD or len(self._registrations) == 1:
                    raise
                refused = refused or error
                lacking.append(probe.name)
                if threads:
                    self._write_filter(probe, threads)
        if refused is not None and len(lacking) == len(self._registrations):
            raise refused
        if not lacking:
            return []
        lack = "lacks" if len(lacking) == 1 else "lack"
        return [
            f"the filter isn't for {' and '.join(lacking)}, which {lack} one of its fields: all such hits are shown"
        ]

    def enable(self) -> None:
        """Enable the events."""
        for probe, _ in self._registrations:
            self._enable(probe)

    def disable(self) -> None:
        """Disable the events; the undo retries failures."""
        for step in reversed(self._enabled):
            self._undo.now(step)

    def verify(self) -> None:
        """Check that each event holds our probe, and no other.  Raise `AlreadyExists`."""
        for _, registration in self._registrations:
            registration.verify()

    def notices(self) -> list[str]:
        """Say whose hits were recorded, too."""
        return [
            f"hits of others' probes were recorded, too: {'; '.join(registration.joined)} joined {probe.event}"
            for probe, registration in self._registrations
            if registration.joined
        ]

    def _write_filter(self, probe: Probe, text: str) -> None:
        path = self._instance.path(f"events/{probe.event}/filter")
        try:
            self._tracefs.write(path, text.encode(errors="surrogateescape") + b"\n")
        except OSError as error:
            raise refusal.filter_refused(self._tracefs, path, text, error) from error

    def _enable(self, probe: Probe) -> None:
        path = self._instance.path(f"events/{probe.event}/{switch(self._tracefs, probe.event)}")
        step = self._undo.push(
            f"disable {probe.event}",
            lambda: self._tracefs.write(path, b"0\n"),
            command=lambda: f"echo 0 > {full(self._tracefs, path)}",
            is_left=lambda: self._tracefs.exists(path) and self._tracefs.read(path)[:1] == b"1",
            frees=True,
        )
        self._enabled.append(step)
        self._tracefs.write(path, b"1\n")
