"""`kprobe functions`: functions by name or pattern: whether each can be probed, its address and its prototype."""

from __future__ import annotations

from kprobe.errors import DefinitionError
from kprobe.functions.probeable import NO, FunctionList
from kprobe.kernel.prototype import register
from kprobe.kernel.prototypes import prototypes
from kprobe.tracing.tracer import Tracer
from kprobe_text.terminal.output import say
from kprobe_text.terminal.table import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.kernel.prototype import Prototype
    from kprobe.options.command_line import CommandLine
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

OK, NONE = 0, 1
HEAD = ("FUNCTION", "PROBE", "ADDRESS", "MODULE", "PROTOTYPE")


def run(tracefs: Tracefs, output: Output, signals: Signals, request: CommandLine) -> int:
    """Print a line for each function, below it why it can't be probed; return the exit status."""
    tracer = Tracer(tracefs)
    known = FunctionList(tracefs, lambda name: tracer.format(f"p:kprobe_functions {name}"))
    found = {}
    missing = []
    for pattern in request.words:
        if not pattern.isprintable() or not pattern or " " in pattern:
            raise DefinitionError("this is not a function's name, or a pattern", pattern, 0)
        functions = known.find(pattern)
        found.update({function.name: function for function in functions})
        if not functions:
            missing.append(pattern)
    rows, below = [list(HEAD)], [""]
    prototype_of, none = prototypes(tracefs)
    for function in found.values():
        prototype = prototype_of(function.name)
        addresses = [f"{address:0{8 if address >> 32 == 0 else 16}x}" for address in function.addresses if address]
        shown = prototype.declaring(function.name) if prototype is not None else "-"
        rows.append([function.name, function.answer, addresses[0] if addresses else "-", function.module or "-", shown])
        more = f"    {function.why}\n" if function.why else ""
        if request.view and prototype is not None:
            more += _parameters(prototype)
        below.append(more)
    lines = table(rows).splitlines(keepends=True)
    text = "".join(line + more for line, more in zip(lines, below, strict=True))
    output.tell(text, lambda: bool(signals.received))
    output.finish(lambda: bool(signals.received))
    for note in (*known.notes, *([none] if none else [])):
        say(f"NOTE: {note}")
    for pattern in missing:
        say(f"ERROR: no function is called {pattern}")
    return NONE if missing or all(function.answer == NO for function in found.values()) else OK


def _parameters(prototype: Prototype) -> str:
    """Return a line for each parameter: its word in a definition, and its position by the convention of x86-64."""
    text = ""
    for parameter, slots in zip(prototype.parameters, prototype.slots(), strict=True):
        where = " ".join(f"$arg{slot} {register(slot)}" for slot in slots) or "-"
        text += f"    {where:<12}  {parameter}\n"
    if prototype.returns.kind == "void":
        return text
    return text + f"    {'$retval %ax':<12}  {prototype.returns.text}\n"
