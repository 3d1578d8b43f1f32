"""`kprobe args`: ready-made definitions for a function's entry and return, after asking the kernel to accept them."""

from __future__ import annotations

import os

from kprobe.definitions.definition import parse
from kprobe.errors import DefinitionError, Refused, Unsupported
from kprobe.functions.definitions import Offers, entry, leaving, value_of
from kprobe.kernel.dialect import has_groups, of_return, readme
from kprobe.kernel.prototypes import known
from kprobe.tracing.tracer import Tracer
from kprobe_text.terminal.output import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.options.command_line import CommandLine
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

OK, REFUSED = 0, 1
MACHINE = "x86_64"
WRAPPER = "__x64_sys_"
# Source: kernel 6.12, arch/x86/include/asm/ptrace.h: di, si, dx, r10, r8, r9 of struct pt_regs
IN_REGS = (112, 104, 96, 56, 72, 64)


def run(tracefs: Tracefs, output: Output, signals: Signals, request: CommandLine) -> int:
    """Print a definition for the entry and one for the return; return the exit status.

    Raise `DefinitionError`, `Unsupported`, or the kernel's refusal of the probe at the entry.
    """
    (function,) = request.words
    place = parse(f"p:{function}").place
    if not place.symbol or place.offset or place.returns or place.is_pattern:
        raise DefinitionError("this is not [MODULE:]FUNCTION", function, 0)
    offers = Offers(readme(tracefs), of_return(tracefs))
    if not offers.arguments and hasattr(tracefs, "root") and os.uname().machine != MACHINE:
        raise Unsupported("$argN", "by its README; and the registers of arguments are known for x86-64 only")
    find, follow, none = known(tracefs)
    prototype = find(place.symbol)
    tracer = Tracer(tracefs)
    status = OK
    lines = [_taken(tracer, entry(place, prototype, offers, follow))]
    try:
        lines.append(_taken(tracer, leaving(place, prototype, offers)))
    except Refused as error:
        say(f"ERROR: no probe at the return: {error}")
        status = REFUSED
    text = "".join(f"{line}\n" for line in lines)
    output.write(text.encode(errors="surrogateescape"), lambda: bool(signals.received))
    output.finish(lambda: bool(signals.received))
    if prototype is None:
        say(f"NOTE: {none or f'no prototype of {place.symbol}'}: these are the registers that arguments can be in")
    if place.symbol.startswith(WRAPPER):
        places = " ".join(f"+{offset}({value_of(1, offers)})" for offset in IN_REGS)
        say(f"NOTE: the arguments of the system call are in what the first points to: {places}")
    return status


def _taken(tracer: Tracer, line: str) -> str:
    """Return a line as the kernel takes it: if need be without names of arguments, which came late in 2009.

    Raise its refusal of the line.
    """
    try:
        tracer.format(line)
    except Refused:
        bare = " ".join(word.rpartition("=")[2] for word in line.split())
        if has_groups(tracer.tracefs) or bare == line:
            raise
        try:
            tracer.format(bare)
        except Refused:
            pass
        else:
            return bare
        raise
    return line
