"""The `trigger` file of an event: parses, sets, removes and lists triggers.

    [!]NAME[:COUNT][ if FILTER]      [!]enable_event:SYSTEM:EVENT[:COUNT][ if FILTER]      [!]hist:...

Sources: event_trigger_parse(), event_enable_trigger_parse() and what they call in kernel/trace/trace_events_trigger.c
of 6.1; fixtures/triggers.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from functools import partial

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.events.event_file import EventFile, Trigger
from kprobe_sim.events.hist.files import HistFiles
from kprobe_sim.events.trigger import EventSwitch, HistSwitch, Snapshot, StackTrace, TraceOff, TraceOn
from kprobe_sim.language.filters.errors import LOG_LOCATION, FilterRefused
from kprobe_sim.language.filters.predicate import compile_filter
from kprobe_sim.language.primitives.kstrto import is_digit, kstrtoul
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.tree.files.seqfile import LazyRecords
from kprobe_sim.tree.filtering import filter_context

_BLANKS = "\t\n\v\f\r \xa0"  # the kernel's isspace()
_COMMAND_END = re.compile("[: \t]")
_WORD_END = re.compile("[ \t]")
_PLAIN: dict[str, type[Trigger]] = {
    "traceon": TraceOn,
    "traceoff": TraceOff,
    "snapshot": Snapshot,
    "stacktrace": StackTrace,
}
_SWITCHES = {
    "enable_event": EventSwitch,
    "disable_event": EventSwitch,
    "enable_hist": HistSwitch,
    "disable_hist": HistSwitch,
}


class _Line(NamedTuple):
    """A parsed line of the file."""

    name: str
    removes: bool
    parameters: str | None  # after the name


def put_trigger(file: EventFile, data: bytes, available: bytes, hists: Callable[[], HistFiles]) -> int:
    """Take one write to the file; `available` is its text without triggers, which names the available ones.

    Raises OSError: EINVAL, EEXIST, the errno of the filter's compiler, and others for hist triggers.
    """
    if not data:
        return 0
    if len(data) >= PAGE_SIZE:
        raise refuse(errno.EINVAL)
    if file.freed:
        raise refuse(errno.ENODEV)
    keeps = file.instance.machine.gates.trigger_blanks_kept
    line = _read(data, keeps=keeps)
    if line.name not in available.decode("ascii").split()[3:]:
        raise refuse(errno.EINVAL)
    if line.name in _PLAIN:
        _put_plain(file, line, keeps=keeps)
    elif line.name in _SWITCHES:
        _put_switch(file, line, keeps=keeps)
    elif line.parameters is None or line.parameters[:1] in ("", *_BLANKS):
        raise refuse(errno.EINVAL)
    else:
        hists().put(file, line.parameters, removes=line.removes)
    return len(data)


def trigger_lines(file: EventFile, available: bytes) -> Sequence[bytes]:
    """Return the lines of the file."""
    if file.freed:
        raise refuse(errno.ENODEV)
    lines = [partial(_line, trigger) for trigger in file.triggers if trigger.group != "eprobe"]
    return LazyRecords(lines) if lines else [available]


def _line(trigger: Trigger) -> bytes:
    return f"{trigger.line()}\n".encode("latin-1")


def _read(data: bytes, *, keeps: bool) -> _Line:
    """Parse a line; `keeps`: blanks after the name count as part of the parameters, which makes these wrong."""
    text = data.decode("latin-1").partition("\0")[0].strip(_BLANKS)
    end = _COMMAND_END.search(text)
    name = text if end is None else text[: end.start()]
    parameters = None if end is None else _after(text[end.end() :], keeps=keeps)
    return _Line(name.removeprefix("!"), name.startswith("!"), parameters)


def _after(text: str, *, keeps: bool) -> str | None:
    return text if keeps else text.lstrip(_BLANKS) or None


def _put_plain(file: EventFile, line: _Line, *, keeps: bool) -> None:
    count, condition = None, line.parameters
    if line.parameters and is_digit(line.parameters, 0):
        count, condition = _split(line.parameters, keeps=keeps)
    if line.removes:
        _remove(file, _PLAIN[line.name](file, line.name, None))
        return
    trigger = _PLAIN[line.name](file, line.name, _count(count))
    set_filter(trigger, condition)
    trigger.prepare()
    _add(trigger)


def _put_switch(file: EventFile, line: _Line, *, keeps: bool) -> None:
    if line.parameters is None:
        raise refuse(errno.EINVAL)
    parameter, condition = _split(line.parameters, keeps=keeps)
    system, colon, name = parameter.partition(":")
    if not colon:
        raise refuse(errno.EINVAL)
    name, colon, count = name.partition(":")
    target = file.find(system, name)
    if target is None or not target.event.can_enable:
        raise refuse(errno.EINVAL)
    if line.removes:
        _remove(file, _SWITCHES[line.name](file, line.name, None, target))
        return
    trigger = _SWITCHES[line.name](file, line.name, _count(count if colon else None), target)
    set_filter(trigger, condition)
    target.enable(True, soft=True)
    try:
        _add(trigger)
    except OSError:
        target.enable(False, soft=True)
        raise


def _split(text: str, *, keeps: bool) -> tuple[str, str | None]:
    """Split off the first word; return it and the text after it, None if there is none."""
    end = _WORD_END.search(text)
    return (text, None) if end is None else (text[: end.start()], _after(text[end.end() :], keeps=keeps))


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    number = text.partition(":")[0]
    if not number:
        raise refuse(errno.EINVAL)
    return kstrtoul(number)


def set_filter(trigger: Trigger, condition: str | None) -> None:
    """Give a trigger the filter of `if FILTER`; None means no filter.  Raises OSError, and logs the fault."""
    if condition is None:
        return
    end = _WORD_END.search(condition)
    if end is None or condition[: end.start()] != "if":
        raise refuse(errno.EINVAL)
    file = trigger.file
    text = condition[end.end() :]
    context = filter_context(file.instance)
    try:
        trigger.filter = compile_filter(text.encode("latin-1"), tuple(file.event.filter_fields()), **context._asdict())
    except FilterRefused as refused:
        if context.gates.trigger_errors_logged:
            file.instance.error_log.log(LOG_LOCATION, refused.log_message, refused.command, refused.log_position)
        raise refuse(refused.errno or errno.EINVAL) from None
    trigger.filter_text = text


def _add(trigger: Trigger) -> None:
    if any(trigger.conflicts_with(other) for other in trigger.file.triggers):
        raise refuse(errno.EEXIST)
    trigger.file.add_trigger(trigger)


def _remove(file: EventFile, like: Trigger) -> None:
    """Remove the trigger of the same group and target, whatever its name; a missing one isn't an error."""
    for trigger in file.triggers:
        if trigger.conflicts_with(like):
            file.drop_trigger(trigger)
            return
