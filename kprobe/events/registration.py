"""The probe in kprobe_events or a similar file: appended as a line, read back, removed without harm to others."""

from __future__ import annotations

import errno

from kprobe.definitions.probe import GROUP, KPROBES
from kprobe.errors import AlreadyExists, Unsupported
from kprobe.kernel import kinds
from kprobe.kernel.dialect import readme, removal, switch
from kprobe.kernel.errorlog import KernelMessages
from kprobe.kernel.listing import Line, delete, find, guess, read_lines
from kprobe.tracefs.turn import Turn
from kprobe.undo.leftovers import whose
from kprobe.undo.owners import read_session
from kprobe.undo.undo import full

from . import refusal

APPENDS = "Create/append/"  # in the README since Linux 5.4; before, a probe replaces the event of its name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kprobe.definitions.probe import Probe
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.undo import Step, Undo


class Registration:
    """A probe of ours in its file.

    `line` is how the kernel shows it, None until it was read back; `is_written` is set once the kernel took it.
    `joined` are lines of others that feed the same event, `siblings` the events of the session, which are removed
    together where the kernel can only remove all.
    """

    def __init__(
        self, tracefs: Tracefs, undo: Undo, probe: Probe, before: list[Line], siblings: Collection[str] = ()
    ) -> None:
        self.joined: tuple[str, ...] = ()
        self.line: Line | None = None
        self.is_written = False
        self._by_hand = f"echo '-:{probe.event}' >> {full(tracefs, probe.file)}"
        self._tracefs = tracefs
        self._probe = probe
        self._before = {line.text for line in before}
        self._siblings = siblings
        self.step: Step = undo.push(
            f"remove {probe.event} from {probe.file}", self.remove, command=lambda: self._by_hand, is_left=self.is_left
        )

    def verify(self) -> None:
        """Check that the event holds our probe, and no other.

        Raise `AlreadyExists` if there is another, whose hits would look like ours.  The undo removes ours.
        """
        lines = self._lines()
        ours = self._ours(lines)
        if len(lines) == 1 and not ours and self._is_among(lines):
            ours = lines
        if len(ours) == 1:
            self.line = ours[0]
        others = [line.text for line in lines if line not in ours[:1]]
        if others:
            self.joined = tuple(others)
            hint = f"{self._probe.event} is fed by another probe, too: {'; '.join(others)}; ours is removed again"
            raise _exists(self._probe, hint)
        if not ours:
            raise Unsupported(f"event {self._probe.event}", f"{self._probe} is not in {self._probe.file}")

    def is_left(self) -> bool:
        """Return whether our probe still exists, under any name.  Raise `OSError`."""
        lines = self._lines()
        return bool(self._ours(lines) or self.renamed()) or self._is_among(lines)

    def remove(self) -> None:
        """Remove our probe, and no other of the event; do nothing if it is gone.  Raise `OSError`."""
        try:
            lines = self._lines()
        except OSError:
            command = guess(self._probe) if self.line is None else delete(self.line, [])
            if command is None:
                raise
        else:
            ours = self._ours(lines) or self.renamed()
            if not ours and not self._is_among(lines):
                return
            if switch(self._tracefs, (ours or lines)[0].event) == "enabled":
                self._clear((ours or lines)[0].event)
                return
            self.joined = tuple(line.text for line in lines if line not in ours[:1]) or self.joined
            command = self._delete(ours, lines)
        self._by_hand = f"echo '{command}' >> {full(self._tracefs, self._probe.file)}"
        self._tracefs.write(self._probe.file, f"{command}\n".encode(errors="surrogateescape"))

    def _clear(self, event: str) -> None:
        """Remove our probes from a kernel that can only remove all, if nobody else has any.  Raise `OSError`.

        `event` is the probe's.
        """
        ours = {event, *self._siblings}
        others = [line.text for line in _read(self._tracefs, self._probe.file) if line.event not in ours]
        self._by_hand = f"echo > {full(self._tracefs, self._probe.file)}"
        if others:
            self._tracefs.write(f"events/{event}/enabled", b"0\n")
            raise OSError(
                errno.EBUSY,
                f"this kernel can only remove all probes, and has others: {'; '.join(others)}",
                self._probe.file,
            )
        self._tracefs.write(self._probe.file, b"\n", truncate=True)

    def renamed(self) -> list[Line]:
        """Return our lines under a name that the kernel made: before Linux 4.12, from `r10:name`.

        That kernel's README doesn't have r[maxactive].
        """
        if self._probe.maxactive is None or "r[maxactive]" in readme(self._tracefs):
            return []
        new = [line for line in _read(self._tracefs, self._probe.file) if line.text not in self._before]
        return find([line for line in new if line.event.startswith(f"{GROUP}/r_")], self._probe)

    def _delete(self, ours: list[Line], lines: list[Line]) -> str:
        if len(ours) == 1 and len(lines) < 2:
            return f"-:{ours[0].event}"
        command = delete(ours[0], lines) if len(ours) == 1 else None
        if command is None:
            shown = "; ".join(line.text for line in lines)
            raise OSError(
                errno.EEXIST,
                f"others' probes feed the event, too, and can't be told apart from ours: {shown}",
                self._probe.file,
            )
        return command

    def _is_among(self, lines: list[Line]) -> bool:
        """True if a line must be ours, in an unknown form: nothing can have replaced it."""
        return self.line is None and self.is_written and bool(lines) and APPENDS in readme(self._tracefs)

    def _lines(self) -> list[Line]:
        return [line for line in _read(self._tracefs, self._probe.file) if line.event == self._probe.event]

    def _ours(self, lines: list[Line]) -> list[Line]:
        known = self.line
        return find(lines, self._probe) if known is None else [line for line in lines if line.is_same(known)]


def add_probe(
    tracefs: Tracefs, undo: Undo, probe: Probe, mark: Callable[[], None] | None = None, siblings: Collection[str] = ()
) -> Registration:
    """Append the probe to its file, with the undo that removes it, and read the result back.

    `mark` is called before, once the event is known not to exist.  `siblings` has the events of the same session,
    including later ones.

    Raise `AlreadyExists` if there is an event of that group and name, even one added at the same moment: the kernel
    adds a probe to an existing event, and each gets the other's hits.  Raise `Refused`, or `Unsupported` if the kernel
    has no such probes, or made another event of it (before Linux 4.12 it takes `r10:name` but doesn't know the 10).
    """
    kinds.check(tracefs, probe)
    with Turn(tracefs):
        messages = KernelMessages(tracefs)
        before = _read(tracefs, probe.file)
        there = [line.text for line in before if line.event == probe.event]
        if there or tracefs.exists(f"events/{probe.event}"):
            raise _exists(probe, _owned_by_others(tracefs, probe, there))
        if mark is not None:
            mark()
        registration = Registration(tracefs, undo, probe, before, siblings)
        try:
            tracefs.write(probe.file, str(probe).encode(errors="surrogateescape") + b"\n")
        except OSError as error:
            raise _refused(tracefs, undo, registration, probe, error, messages) from error
        registration.is_written = True
        if not tracefs.exists(f"events/{probe.event}"):
            made = " ".join(line.event for line in registration.renamed()) or "no event"
            late = f"the number in r{probe.maxactive}: came with Linux 4.12: leave it out"
            raise Unsupported(f"event {probe.event}", f"{probe} made {made} instead", late if probe.maxactive else "")
        registration.verify()
    return registration


def missed(tracefs: Tracefs, probe: Probe) -> int:
    """Return how many hits the kernel could not record; 0 if that can't be read."""
    return (profiled(tracefs, probe) or (0, 0))[1]


def profiled(tracefs: Tracefs, probe: Probe) -> tuple[int, int] | None:
    """Return the probe's hits and the hits that the kernel missed, by kprobe_profile; None if unknown.

    Its rows have no groups, but are in the order of kprobe_events.  If that changes meanwhile, all events of that name
    count.
    """
    if probe.file != KPROBES:
        return None
    try:
        text = tracefs.read("kprobe_profile").decode(errors="replace")
        events = [line.event for line in _read(tracefs, KPROBES)]
    except OSError:
        return None
    rows = [row for row in (line.split() for line in text.splitlines()) if len(row) == 3 and "".join(row[1:]).isdigit()]
    if [row[0] for row in rows] == [event.rpartition("/")[2] for event in events]:
        rows = [row for row, event in zip(rows, events, strict=True) if event == probe.event]
    else:
        rows = [row for row in rows if row[0] == probe.name]
    return sum(int(row[1]) for row in rows), sum(int(row[2]) for row in rows)


def _refused(
    tracefs: Tracefs, undo: Undo, registration: Registration, probe: Probe, error: OSError, messages: KernelMessages
) -> Exception:
    """Return the error for a write that reported one, and forget the undo only if the write had no effect.

    It had none if the kernel logged a refusal, or if the list has none of our lines.  In a group that the user named, a
    line like ours after EEXIST may be another user's: it stays, and the error says so.
    """
    refused = refusal.probe_refused(tracefs, probe.file, probe, error, messages)
    try:
        there = [line for line in _read(tracefs, probe.file) if line.event == probe.event]
    except OSError:
        there = None
    is_logged = messages.explain(str(probe)) is not None
    if error.errno == errno.EEXIST and read_session(probe.group) is None:  # everything in a session's group is its own
        undo.drop(registration.step)
        if there and isinstance(refused, AlreadyExists):
            hint = _owned_by_others(tracefs, probe, [line.text for line in there])
            return _exists(probe, hint, refused)
    elif is_logged or (there is not None and not find(there, probe)):
        undo.drop(registration.step)
    return refused


def _exists(probe: Probe, hint: str, refused: AlreadyExists | None = None) -> AlreadyExists:
    if refused is None:
        return AlreadyExists(probe.file, str(probe), errno.EEXIST, says="", hint=hint)
    return AlreadyExists(
        refused.path,
        refused.command,
        refused.errno,
        says=refused.says,
        source=refused.source,
        shown=refused.shown,
        column=refused.column,
        hint=hint,
    )


def _owned_by_others(tracefs: Tracefs, probe: Probe, lines: list[str]) -> str:
    known = whose(tracefs, probe.event) or refusal.of_tracepoint(probe)
    if known:
        return known
    if not lines:
        return f"events/{probe.event} is another event, which {probe.file} doesn't list: choose another name"
    are = f"{'; '.join(lines)} {'are' if len(lines) > 1 else 'is'} somebody's"
    return f"{are}; choose another name, or {removal(tracefs, probe.event, probe.file)}"


def _read(tracefs: Tracefs, file: str) -> list[Line]:
    return read_lines(tracefs.read(file).replace(b"\t", b" "))
