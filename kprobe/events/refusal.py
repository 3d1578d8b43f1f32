"""The kernel's errno -> an error that explains itself."""

from __future__ import annotations

import errno

from kprobe.errors import (
    DMESG,
    AlreadyExists,
    AmbiguousSymbol,
    Busy,
    FilterRefused,
    KprobeError,
    NotABoundary,
    Refused,
    UnknownSymbol,
    caret,
)
from kprobe.kernel import dialect, symbols
from kprobe.kernel.denial import DENIED, denied
from kprobe.kernel.errorlog import KernelMessages, explain, parse_filter_error, read_log
from kprobe.undo.leftovers import whose
from kprobe.undo.owners import read_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.definitions.probe import Place, Probe
    from kprobe.tracefs.tracefs import Tracefs

BLACKLIST = "kernel's blacklist of kprobes (kprobes/blacklist in debugfs)"
FILTER_HINTS = {
    "Invalid operator": "numbers have == != < <= > >= &, strings have == != ~",
    "Invalid value (did you forget quotes)?": 'strings have quotes, and patterns a ~: comm == "cat", comm ~ "cat*"',
}
# The kernel's message is more reliable than the errno: 6.12 returns EINVAL where 6.1 has an errno for each.
BY_SENTENCE = {
    "Invalid probed address or symbol": UnknownSymbol,
    "The symbol is not unique": AmbiguousSymbol,
    "Probe point is not an instruction boundary": NotABoundary,
}
NO_VARIABLE = "Invalid $-variable specified"
NOT_INSERTED = "Could not insert probe(-22)"  # of a probe point, before 3.1
NO_BOUNDARY = " is not an instruction boundary."
BY_ERRNO = {
    errno.EADDRNOTAVAIL: AmbiguousSymbol,
    errno.EILSEQ: NotABoundary,
    errno.EEXIST: AlreadyExists,
    errno.EBUSY: Busy,
}
TOO_MANY = "Too many arguments are specified"
HINTS = {
    "Invalid fetch argument": "an argument is $arg1, $retval, $stack0, $comm, %di, @SYMBOL or +0(ARGUMENT), with :TYPE "
    "behind; kprobe args FUNCTION prints a function's; every line shows the pid, which is common_pid in a filter",
    TOO_MANY: "a probe takes at most 128 arguments",
    "This function returns 'void' type": "leave $retval out: there is no return value",
    "Invalid argument number": "arguments are $arg1, $arg2 and so on",
    "Array number is too big": "an array has at most 64 elements",
    "Invalid register name": "x86-64 registers are written %ax %bx %cx %dx %si %di %bp %sp %ip %r8 … %r15",
    "String accepts only memory argument": "strings and arrays are read from memory: +0(%si):string, not %si:string",
    "$retval is not available on probe": "$retval needs a return probe: r:…",
    "Retprobe address must be an function entry": "a return probe sits at a function, without an offset",
    "Probe type is different from existing probe": "the event already exists with the other kind of probe",
    "No argument expression": "an argument is NAME=EXPRESSION; a shell replaces a $word in double quotes: use single",
    "This argument name is already used": "give one of them another name: NAME=EXPRESSION",
    NO_VARIABLE: "the variables are $stack, $stackN, $retval, $comm, and on newer kernels $argN",
}


def probe_refused(tracefs: Tracefs, path: str, probe: Probe, error: OSError, messages: KernelMessages) -> KprobeError:
    """Return the error for a refused line of kprobe_events; `messages` has the kernel's messages since."""
    number = error.errno or errno.EIO
    if number in DENIED:
        return denied(tracefs, path, error)
    written = str(probe)
    entry = messages.explain(written)
    printed = [] if entry else messages.lines()
    says = entry.text if entry else ""
    shown, column = (entry.command, entry.column) if entry else ("", None)
    command = written
    if read_session(probe.group) is not None:  # show the user's words, without the group
        command, before = str(probe.in_default_group()), f"{probe.group}/"
        at = shown.find(before)
        if at >= 0:
            shown = shown.replace(before, "", 1)
            column = column if column is None or column <= at else max(at, column - len(before))
    kind = BY_SENTENCE.get(says) or BY_ERRNO.get(number)
    if any(line.endswith(NO_BOUNDARY) for line in printed):  # EINVAL for all others, before Linux 5.0
        kind = NotABoundary
    if kind is None:
        kind = UnknownSymbol if number == errno.ENOENT and not says else Refused
    return kind(
        str(error.filename or path),
        command,
        number,
        says=says or "\n".join(printed),
        source=entry.source if entry else DMESG if printed else "",
        shown=shown,
        column=column,
        hint=_group_hint(tracefs, probe)
        or dialect.hint(tracefs, probe.args)
        or _meant(tracefs, probe, kind, says)
        or (HINTS[TOO_MANY] if number == errno.E2BIG else "")
        or _hint(tracefs, probe, says)
        or _place_hint(tracefs, probe, kind, says)
        or (_unsaid(tracefs, probe, printed) if number == errno.EINVAL and not entry else ""),
    )


def _unsaid(tracefs: Tracefs, probe: Probe, printed: list[str]) -> str:
    """Return what is wrong with a line if an old kernel says little or nothing; "" if unknown."""
    hint = dialect.unsaid(probe.args, printed)
    place = probe.place
    if place.returns and probe.kind == "p" and not place.path and "%return" not in dialect.readme(tracefs):
        bare = " ".join((f"r:{probe.name}", str(place).removesuffix("%return"), *probe.args))
        return f"this kernel has no %return: '{bare}'"
    if hint or probe.kind not in ("p", "r") or not place.symbol or printed not in ([], [NOT_INSERTED]):
        return hint
    names = symbols.listed(tracefs)
    if names is not None and place.symbol not in names:
        return _unknown_symbol_hint(tracefs, probe)
    if place.offset:
        return f"perhaps no instruction starts at {place}; {place.symbol}+0 is one"
    return "" if dialect.has_groups(tracefs) else dialect.unnamed(probe.args)


def _group_hint(tracefs: Tracefs, probe: Probe) -> str:
    """Return what to do on a kernel whose events have no groups; "" elsewhere."""
    if not probe.has_own_group or probe.kind not in ("p", "r") or dialect.has_groups(tracefs):
        return ""
    return f"this kernel's events have no groups, which came with Linux 2.6.33: leave {probe.group}/ out"


def _meant(tracefs: Tracefs, probe: Probe, kind: type[Refused], says: str) -> str:
    """Return the line that may be meant, after the mistake; "" if none is known."""
    if kind in (AlreadyExists, AmbiguousSymbol, NotABoundary) or probe.kind not in ("p", "r"):
        return ""
    from kprobe.kernel.corrections import KernelLanguage, corrections

    shown = probe.in_default_group() if read_session(probe.group) is not None else probe
    line, because = next(corrections(str(shown), KernelLanguage(tracefs)), ("", ""))
    if not line:
        return ""
    if kind is UnknownSymbol and because.startswith("this kernel has no function"):
        because = _unknown_symbol_hint(tracefs, probe).rstrip("?")
    return f"{because}: '{line}'"


def _hint(tracefs: Tracefs, probe: Probe, says: str) -> str:
    """Return the meaning of the kernel's message; for variables of an event probe, the event's fields."""
    if says != NO_VARIABLE or probe.kind != "e":
        return HINTS.get(says, "")
    from kprobe_text.text.format import parse_format

    event = probe.place.symbol.replace(".", "/", 1)
    try:
        fields = parse_format(tracefs.read(f"events/{event}/format")).fields
    except (OSError, ValueError):
        return ""
    names = [f"${field.name}" for field in fields if not field.name.startswith("common_")]
    return f"the variables of an event probe are the fields of {event}: {' '.join(names)}"


def _place_hint(tracefs: Tracefs, probe: Probe, kind: type[Refused], says: str) -> str:
    place = probe.place
    if says == "Unknown type is specified":
        return _types(tracefs)
    if kind is NotABoundary:
        if place.address is not None:
            return f"no instruction starts at {place}; a disassembly shows where they start; a function's name is safer"
        return f"no instruction starts at {place}; {place.symbol}+0 is one, others are in its disassembly"
    if kind is AmbiguousSymbol:
        return f"several functions are called {place.symbol}; name the module (MODULE:SYMBOL) or give an address"
    if kind is AlreadyExists:
        known = whose(tracefs, probe.event) or of_tracepoint(probe)
        return known or f"choose another name, or {dialect.removal(tracefs, probe.event, probe.file)}"
    if place.path and kind is UnknownSymbol:
        return f"there is no file {place.path} on the traced machine"
    if probe.kind in ("t", "e", "u"):
        return ""
    if kind is UnknownSymbol and place.symbol:
        return _unknown_symbol_hint(tracefs, probe)
    if says == "Failed to register probe event" and place.symbol:
        return _not_probed_hint(tracefs, place)
    return ""


def of_tracepoint(probe: Probe) -> str:
    """Return how to name a tracepoint that was given with its event's group; "" for other probes."""
    if probe.kind != "t" or not probe.has_own_group:
        return ""
    if probe.group == "syscalls":
        from kprobe.definitions.foreign import events

        line = events(probe.group, probe.place.symbol)[0]
        return f"{probe.event} is an event without a tracepoint of its own; an event probe on it: '{line}'"
    return f"{probe.event} is the tracepoint's own event; a tracepoint has no group: 't:{probe.place.symbol}'"


def _unknown_symbol_hint(tracefs: Tracefs, probe: Probe) -> str:
    symbol = probe.place.symbol
    names = symbols.listed(tracefs)
    if names is not None and symbol in names and any("@" in arg for arg in probe.args):
        return f"{symbol} exists, so the symbol after @ doesn't"
    near = symbols.suggest(symbol, names)
    if not near:
        where = f"; {symbols.LIST} lists those it can probe" if tracefs.exists(symbols.LIST) else ""
        return f"this kernel has no function {symbol}{where}"
    return f"this kernel has no function {symbol}; did you mean {' or '.join(near)}?"


def _not_probed_hint(tracefs: Tracefs, place: Place) -> str:
    names = symbols.functions(tracefs)
    if names is not None and place.symbol not in names:
        return f"{place.symbol} is not in {symbols.LIST}: it is data, or code that can't be probed"
    if place.offset:
        return f"{place} is code that can't be probed: on the {BLACKLIST}, or patched while the kernel runs"
    return f"{place.symbol} can be traced, but not by a kprobe: it is on the {BLACKLIST}"


def _types(tracefs: Tracefs) -> str:
    """Return the types that this kernel's README lists for fetch arguments."""
    # "type: s8/16/32/64, u8/..." and its continuation lines, once for kprobes and uprobes together
    _, found, rest = dialect.readme(tracefs).partition("type: ")
    lines = []
    for line in rest.splitlines():
        lines.append(line.strip())
        if not line.rstrip().endswith(","):
            break
    return f"this kernel's types: {' '.join(lines)}" if found else ""


def filter_refused(tracefs: Tracefs, path: str, text: str, error: OSError) -> KprobeError:
    """Return the error for a refused filter, with the filter file's message and the event's fields."""
    number = error.errno or errno.EIO
    if number in (errno.EACCES, errno.EROFS):
        return denied(tracefs, path, error)
    try:
        content = tracefs.read(path)
    except OSError:
        content = b""
    says, column = parse_filter_error(content)
    if not says and len(text) >= 4095:
        hint = "a filter must be shorter than a page (4096 bytes)"
    else:
        hint = FILTER_HINTS.get(says, "a filter is FIELD OPERATOR VALUE, joined with && and ||" if not says else "")
        hint = "; ".join(filter(None, (hint, _fields(tracefs, path.rpartition("/")[0]))))
    *_, group, event, file = path.split("/")
    return FilterRefused(
        f"{file} of {event}" if read_session(group) is not None else f"{file} of {group}/{event}",
        text,
        number,
        says=says,
        source="event filter parse error" if says else "",
        column=column,
        hint=hint,
    )


def _fields(tracefs: Tracefs, event: str) -> str:
    """Return the fields that an event's filter can have; "" if they can't be read."""
    from kprobe_text.text.format import parse_format

    try:
        fields = parse_format(tracefs.read(f"{event}/format")).fields
    except (OSError, ValueError):
        return ""
    own = [field.name for field in fields if not field.name.startswith("common_")]
    common = [field.name for field in fields if field.name.startswith("common_")]
    return f"the event's fields: {' '.join([*own, *common])}"


def words(tracefs: Tracefs, path: str, command: str) -> str:
    """Return the kernel's message about a refused command, with its caret; "" if there is none."""
    entry = explain(b"", read_log(tracefs), command)
    if entry is not None:
        return f"{entry.source}: error: {entry.text}\n{caret(entry.command, entry.column, '  Command: ')}"
    if path.rpartition("/")[2] != "filter":
        return ""
    try:
        says, column = parse_filter_error(tracefs.read(path))
    except OSError:
        return ""
    return f"{says}\n{caret(command, column)}" if column is not None else says
