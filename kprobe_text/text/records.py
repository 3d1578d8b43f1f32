"""The records of a trace, as values.

Every record carries ``raw``, the bytes it was read from; the ``raw`` of all records, joined, is the input.
``complete`` is false for the last record of a text that ends without a newline: more may have followed.
Text is decoded as UTF-8 with ``surrogateescape``, so ``text.encode("utf-8", "surrogateescape")`` gives the bytes back.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias


class Fault(Enum):
    """The type of FAULT."""

    FAULT = "(fault)"

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return "FAULT"


FAULT: Final = Fault.FAULT
"""The value of an argument whose memory the kernel could not read: it prints ``(fault)``, without quotes."""


class CodeAddress(NamedTuple):
    """An address in code, as the kernel names it: ``do_sys_openat2+0x1/0x170 [module] <ffffffff813485a1>``.

    Parts that the kernel didn't print are None (module: empty). ``symbol`` is empty where only an address is known.
    """

    symbol: str
    offset: int | None
    size: int | None
    module: str
    address: int | None
    text: str

    def __str__(self) -> str:
        return self.text


Value: TypeAlias = "int | str | CodeAddress | Fault | tuple[Value, ...]"

NONE: Final[frozenset[str]] = frozenset()

Clock: TypeAlias = Literal["time", "count", "elapsed", "elapsed count"]
"""What a timestamp counts.

``time``: nanoseconds of the trace clock; the kernel prints whole microseconds (verbose: see Event).
``count``: ticks of a clock that isn't in nanoseconds (counter, uptime, x86-tsc).
``elapsed`` and ``elapsed count``: the same, since the start of the buffer (latency-format).
"""


def _seconds(timestamp: int, clock: Clock) -> float | None:
    return timestamp / 1_000_000_000 if clock in ("time", "elapsed") else None


class Header(NamedTuple):
    """A line of the block of ``#`` lines that opens a trace file."""

    raw: bytes


class Event(NamedTuple):
    """One hit of an event.

    ``task`` is the comm as printed, without leading blanks, ``<...>`` if the kernel forgot it. ``flags`` is the column
    as printed, empty where there is none (3.2, option noirq-info); in a verbose trace it is the two numbers of the
    flags and the preemption count. ``timestamp`` is an integer in the unit that ``clock`` names. ``address`` is the
    probed address, ``caller`` where a return probe returns to; both None if the event prints none. ``tgid`` is None
    without option record-tgid and where the kernel doesn't know it.

    ``complete`` says whether ``fields`` holds everything that the event says, decoded. It is false where the kernel
    broke the record off, where some text belongs to no argument, and where a value can't be decoded: then the value is
    its text as printed. ``guessed`` names the arguments that may have other values: those, what follows them, numbers
    that may be hexadecimal (up to 3.13, without the event's format), everything between two strings if the first could
    also end later, and all arguments of an event that isn't a probe's.

    ``forgeable`` says that a string could have written the same text: this may be part of a string that began in an
    earlier record, within the length of a record, or its own string may go on in what follows. It is false where that
    is settled (see Parser), and in raw pages. Other records have it, too.

    Only perf script names the ``group``, and only trace-cmd report of several instances the ``instance``. ``name`` is
    empty in text of 2009, whose events had no names.
    """

    task: str
    pid: int
    cpu: int
    flags: str
    timestamp: int
    name: str
    address: CodeAddress | None
    caller: CodeAddress | None
    fields: Mapping[str, Value]
    tgid: int | None
    clock: Clock
    raw: bytes
    complete: bool = True
    guessed: frozenset[str] = NONE
    group: str = ""
    instance: str = ""
    forgeable: bool = False

    @property
    def seconds(self) -> float | None:
        """The timestamp in seconds; None if the clock doesn't count time."""
        return _seconds(self.timestamp, self.clock)

    @property
    def text(self) -> str:
        """The text after the event's name; empty for an event of a raw page, which has no text."""
        mark = self.name.encode("utf-8", "surrogateescape") + b": "
        # a comm can contain the mark, so search after it
        start = 9 if self.clock.startswith("elapsed") else 17
        at = self.raw.find(mark, start)
        if at < 0:
            mark = b": "  # of a system call, whose name isn't printed
            at = self.raw.find(mark, start)
        if at < 0:
            return ""
        body = self.raw[at + len(mark) :]
        return body.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")


class Bare(NamedTuple):
    """One hit of an event in a trace without context (option nocontext-info).

    ``complete``, ``guessed`` and ``forgeable``: see Event.

    An event within a function_graph is one, too; the parts of its context that aren't shown are None.
    """

    name: str
    address: CodeAddress | None
    caller: CodeAddress | None
    fields: Mapping[str, Value]
    raw: bytes
    complete: bool = True
    guessed: frozenset[str] = NONE
    task: str | None = None
    pid: int | None = None
    cpu: int | None = None
    flags: str | None = None
    timestamp: int | None = None
    forgeable: bool = False


class Call(NamedTuple):
    """A line of a function_graph: ``entry`` of a function, its ``exit``, or ``leaf`` for both.

    ``function`` is empty where the exit doesn't name it, ``depth`` how many calls are around it, ``duration`` in
    nanoseconds, None at an entry. ``note`` is any other text, such as the value returned. The parts of the context
    that aren't shown are None.
    """

    kind: Literal["entry", "exit", "leaf"]
    function: str
    depth: int
    duration: int | None
    note: str
    task: str | None
    pid: int | None
    cpu: int | None
    flags: str | None
    timestamp: int | None
    raw: bytes
    forgeable: bool = False
    complete: bool = True


class Comment(NamedTuple):
    """Text within a function_graph that is neither a call nor an event, such as what was written to trace_marker."""

    text: str
    task: str | None
    pid: int | None
    cpu: int | None
    flags: str | None
    timestamp: int | None
    raw: bytes
    forgeable: bool = False
    complete: bool = True


class Switch(NamedTuple):
    """From here on, a CPU's lines of a function_graph belong to another task."""

    cpu: int
    previous_task: str
    previous_pid: int
    task: str
    pid: int
    raw: bytes
    forgeable: bool = False


class Coded(NamedTuple):
    """One hit of an event with option raw or hex: the kernel prints its number, and with context the other three."""

    pid: int | None
    cpu: int | None
    timestamp: int | None
    event_id: int
    raw: bytes
    complete: bool = True
    forgeable: bool = False


class Marker(NamedTuple):
    """What a program wrote to trace_marker; ``text`` is without the last newline.

    ``guessed`` names ``text`` if it is uncertain whether the lines after it belong to it.
    """

    task: str
    pid: int
    cpu: int
    flags: str
    timestamp: int
    text: str
    tgid: int | None
    clock: Clock
    raw: bytes
    forgeable: bool = False
    guessed: frozenset[str] = NONE
    complete: bool = True

    @property
    def seconds(self) -> float | None:
        """The timestamp in seconds; None if the clock doesn't count time."""
        return _seconds(self.timestamp, self.clock)


class RawMarker(NamedTuple):
    """What a program wrote to trace_marker_raw: an identifier and bytes (some kernels pad them with zeros)."""

    task: str
    pid: int
    cpu: int
    flags: str
    timestamp: int
    identifier: int
    data: bytes
    tgid: int | None
    clock: Clock
    raw: bytes
    forgeable: bool = False
    complete: bool = True


class StackTrace(NamedTuple):
    """A call stack, innermost frame first; ``user``: the program's, not the kernel's.

    It belongs to the event before it on the same CPU; an event of another CPU can stand between the two.
    """

    task: str
    pid: int
    cpu: int
    flags: str
    timestamp: int
    frames: tuple[CodeAddress, ...]
    user: bool
    tgid: int | None
    clock: Clock
    raw: bytes
    forgeable: bool = False
    complete: bool = True

    @property
    def seconds(self) -> float | None:
        """The timestamp in seconds; None if the clock doesn't count time."""
        return _seconds(self.timestamp, self.clock)


class BareMarker(NamedTuple):
    """What a program wrote to trace_marker, in a trace without context (option nocontext-info)."""

    text: str
    raw: bytes
    forgeable: bool = False
    guessed: frozenset[str] = NONE
    complete: bool = True


class BareRawMarker(NamedTuple):
    """What a program wrote to trace_marker_raw, in a trace without context."""

    identifier: int
    data: bytes
    raw: bytes
    forgeable: bool = False
    complete: bool = True


class BareStack(NamedTuple):
    """A call stack in a trace without context; it belongs to the event before it if there is one CPU."""

    frames: tuple[CodeAddress, ...]
    user: bool
    raw: bytes
    forgeable: bool = False
    complete: bool = True


class Function(NamedTuple):
    """One call that tracer function saw."""

    task: str
    pid: int
    cpu: int
    flags: str
    timestamp: int
    function: CodeAddress
    parent: CodeAddress
    tgid: int | None
    clock: Clock
    raw: bytes
    forgeable: bool = False
    complete: bool = True


class Unnamed(NamedTuple):
    """A hit of an event that no longer exists: the kernel prints ``Unknown type 922`` (seen on 3.13 to 4.19)."""

    task: str
    pid: int
    cpu: int
    flags: str
    timestamp: int
    event_id: int
    tgid: int | None
    clock: Clock
    raw: bytes
    forgeable: bool = False
    complete: bool = True


class Lost(NamedTuple):
    """The kernel overwrote events of a CPU before they were read; ``count`` is None where it doesn't know how many."""

    cpu: int
    count: int | None  # type: ignore[assignment]  # hides tuple.count, which is of no use on a record
    raw: bytes
    forgeable: bool = False


class BufferStarted(NamedTuple):
    """From here on the trace holds a CPU's events; earlier ones were overwritten."""

    cpu: int
    raw: bytes
    forgeable: bool = False


class Unparsed(NamedTuple):
    """A line that isn't understood."""

    raw: bytes


Record: TypeAlias = (
    Header
    | Event
    | Bare
    | BareMarker
    | BareRawMarker
    | BareStack
    | Call
    | Comment
    | Switch
    | Coded
    | Marker
    | RawMarker
    | StackTrace
    | Function
    | Unnamed
    | Lost
    | BufferStarted
    | Unparsed
)


def unfinished(record: Record) -> Record:
    """Mark a record whose last line had no newline (one was added to read it): its last value may go on."""
    raw = record.raw[:-1]
    if isinstance(record, (Event, Bare)):
        guessed = record.guessed | set(list(record.fields)[-1:])
        return record._replace(raw=raw, complete=False, guessed=guessed)
    if isinstance(record, (Header, Lost, BufferStarted, Switch, Unparsed)):
        return record._replace(raw=raw)  # they are complete, or have no values
    return record._replace(raw=raw, complete=False)
