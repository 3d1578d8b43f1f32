"""The text of `kprobe -h` and of `kprobe VERB -h`, made from the table of options and verbs."""

from __future__ import annotations

from .table import OPTIONS, OWN, TRACE, options_of, verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .table import Option, Verb

WIDTH = 120
INDENT = 19  # where the explanation of an option begins
LEAD = "USAGE: "
PURPOSE = "Trace kernel probes, print what the kernel records, and leave nothing behind."
EACH = "VERB, in place of a definition; kprobe VERB --help has its options:\n"
LANGUAGE = """\
definition: p:FUNCTION or r:FUNCTION [ARGUMENT ...], or, to choose the event's name, p:NAME FUNCTION [ARGUMENT ...];
  also rN:, p:GROUP/NAME, MODULE:FUNCTION+OFFSET, an address, a pattern. p: probes the entry, r: the return.
  Where the kernel has them: f:FUNCTION[%return], t:TRACEPOINT, e:GROUP.EVENT, u:FILE:OFFSET[%return].
filter: the kernel's event filter, such as 'file ~ "*stat"'

  kprobe p:do_sys_openat2                                               opens
  kprobe 'p:do_sys_openat2 file=+0($arg2):ustring'                      with the second argument, a user-space string
  kprobe 'p:do_sys_openat2 file=+0($arg2):ustring' 'file ~ "*stat"'     files whose name ends in "stat"
  kprobe 'r:myopen do_sys_openat2 fd=$retval:s32'                       their return values, as event myopen
  kprobe -s p:tcp_retransmit_skb                                        with the kernel stack
  kprobe --tracefs sim:6.1 p:do_sys_openat2                             on a simulated kernel: no root, no risk

$arg1, $arg2, ... are a function's arguments; on kernels that don't know them: %di %si %dx %cx %r8 %r9. A string that
  one points to is +0($arg2):ustring in user memory, +0($arg2):string in kernel memory; old kernels have string for
  both. kprobe args FUNCTION prints what a kernel accepts; kprobe doctor FUNCTION says why a probe is silent.

The kernel's lines go to stdout unchanged, everything else to stderr.
Exit status: 0 done, also after Ctrl-C; 1 the kernel refused; 2 a wrong command line or definition; 3 no tracefs, no
permission, no such backend; 4 something could not be undone or removed; 128 plus its number: ended by a signal (129
SIGHUP, 131 SIGQUIT, 143 SIGTERM; 130 SIGINT before tracing); 141 nobody reads the output any more.
"""


def usage() -> str:
    """Return a line for each way to call the command."""
    lines = [
        f"kprobe {_of_a_trace()} definition ... [filter]",
        *(f"kprobe {verb.name} {_of(verb)}" for verb in verbs()),
    ]
    return LEAD + f"\n{' ' * len(LEAD)}".join(lines) + "\n"


def help_text() -> str:
    """Return the help of the command; each verb has its own."""
    options = [_entry(option.shown, option.help) for option in options_of(TRACE)]
    lines = [_entry(verb.name, verb.help) for verb in verbs()]
    return "\n".join((usage(), PURPOSE + "\n", "".join(options), EACH, "".join(lines), LANGUAGE))


def help_of(verb: Verb) -> str:
    """Return the help of a verb that doesn't parse its words itself."""
    options = [_entry(option.shown, option.help) for option in options_of(verb.name)]
    said = f"{verb.help[:1].upper()}{verb.help[1:]}."
    return "\n".join((f"{LEAD}kprobe {verb.name} {_of(verb)}\n", _filled("", said), "".join(options), verb.examples))


def _of_a_trace() -> str:
    short = [option for option in options_of(TRACE) if len(option.names[0]) == 2]
    letters = sorted(
        (option.names[0][1] for option in short if not option.metavar), key=lambda one: (one.lower(), one < "a")
    )
    values = [option for option in options_of(TRACE) if option.metavar and (option in short or OWN[0] in option.verbs)]
    return " ".join((f"[-{''.join(letters)}]", *map(_optional, values)))


def _of(verb: Verb) -> str:
    if verb.reads:
        return verb.usage
    shared = [option for option in options_of(verb.name) if TRACE in option.verbs and option.metavar]
    return " ".join(filter(None, (verb.words, *map(_optional, (*_own(verb), *shared)))))


def _own(verb: Verb) -> list[Option]:
    """Return the options that a verb doesn't share with traces."""
    return (
        [] if verb.reads else [option for option in OPTIONS if verb.name in option.verbs and TRACE not in option.verbs]
    )


def _optional(option: Option) -> str:
    return f"[{' '.join(filter(None, (option.names[0], option.metavar)))}]"


def _entry(name: str, text: str) -> str:
    """Return an option or verb and what it does, in as many lines as that takes."""
    return _filled(f"  {name:<{INDENT - 3}}", text, " " * (INDENT - 1))


def _filled(line: str, text: str, indent: str = "") -> str:
    lines = [line]
    for word in text.split(" "):
        if len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append(indent)
        lines[-1] += f" {word}" if lines[-1] else word
    return "".join(f"{line}\n" for line in lines)
