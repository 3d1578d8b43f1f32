"""A refused definition -> lines that it may mean, as a kernel takes them, the likeliest first.

Mistakes are found by the text and by what the kernel offers (its README, functions and prototypes), not by its message;
so one line corrects all mistakes.  The tracer puts it in its hint, `kprobe check` tries it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kprobe.definitions import spellings
from kprobe.kernel.dialect import readme
from kprobe.kernel.prototypes import known
from kprobe.kernel.symbols import functions, successors, suggest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from kprobe.kernel.prototype import Parameter
    from kprobe.tracefs.tracefs import Tracefs

_LINE = re.compile(r"([pr]\d*)(?::(\S+))?\s+((?:[\w-]+:)?)([A-Za-z_][\w.]*)((?:[+-]\w+)?)(%return)?(?:\s+(.*))?", re.S)
_OTHER_CALLS = re.compile(r"(?:__(?:arm64|x64|ia32|s390x?|riscv|se|do)_)?(?:compat_)?(?:sys|SyS)_(\w+)")
_OFFSET = re.compile(r"(^\S+ [A-Za-z_][\w.]*) ?([+-]) ?((?:0x)?[0-9a-fA-F]+)(?= |$)")
_ALL = re.compile(r"(?<!\S)(?:\$params|\$vars|\$args|\$?arg\*)(?!\S)")
NAMES = "<argname>"  # in the README of a kernel that knows parameters by their names
_RETURNED = re.compile(r"[$%]ret(?:val)?\b|\$rv\b|\$return\b")
_BARE = re.compile(r"(?<![\w%$@.:>])[A-Za-z_]\w*(?![\w=(])")  # a possible name of a parameter
WRAPPER = "__x64_sys_"


class KernelLanguage:
    """What a kernel offers to definitions; each part is read once, when needed."""

    def __init__(self, tracefs: Tracefs) -> None:
        self._tracefs = tracefs
        self._readme: str | None = None
        self._names: frozenset[str] | None = None

    @property
    def readme(self) -> str:
        """Its README, "" if it has none."""
        if self._readme is None:
            self._readme = readme(self._tracefs)
        return self._readme

    @property
    def names(self) -> frozenset[str]:
        """The functions that it lists; none if the list can't be read."""
        if self._names is None:
            self._names = functions(self._tracefs) or frozenset()
        return self._names

    def parameters(self, symbol: str) -> tuple[Parameter, ...]:
        """Return a function's parameters; none where unknown."""
        prototype = known(self._tracefs).prototype(symbol)
        return prototype.parameters if prototype is not None else ()

    def is_void(self, symbol: str) -> bool:
        """Return whether a function is known to return nothing."""
        prototype = known(self._tracefs).prototype(symbol)
        return prototype is not None and prototype.returns.text == "void"

    def value(self, number: int) -> str:
        """Return its spelling of $argN."""
        if "$arg<N>" in self.readme or "$argN" in self.readme or number > len(spellings.REGISTERS):
            return f"$arg{number}"
        return spellings.REGISTERS[number - 1]


class _Definition(NamedTuple):
    """The parts of a definition; "" for missing ones."""

    kind: str  # "p", "r100"
    event: str
    module: str  # with its colon
    symbol: str
    offset: str  # with its sign
    suffix: str  # "%return"
    arguments: str


def corrections(text: str, language: KernelLanguage, *, guesses: bool = True) -> Iterator[tuple[str, str]]:
    """Yield corrected lines for a definition written to kprobe_events, each with what was corrected.

    With `guesses` a function that doesn't exist may be any with a similar name, which takes a while to find.
    """
    plain = " ".join(text.split())
    joined = _OFFSET.sub(r"\1\2\3", plain)
    match = _LINE.fullmatch(joined)
    if match is None or re.search(r"(?:^| )if ", match[7] or ""):
        return
    written = _Definition(*(part or "" for part in match.groups()))
    for meant, because in _readings(written, language, guesses=guesses):
        name = meant.symbol
        reasons = [because] if because else []
        reasons += ["no blanks before an offset"] if joined != plain else []
        is_return = meant.kind[0] == "r" or bool(meant.suffix)
        back, offset = _end(is_return, meant.offset, meant.arguments, reasons)
        is_entry = not back and not offset.strip("+-0x")
        arguments = _every(meant.arguments, name, language, reasons) if is_entry else meant.arguments
        needs_names = is_entry and NAMES not in language.readme and _BARE.search(arguments)
        parameters = [one.name for one in language.parameters(name)] if needs_names else []
        arguments, more = spellings.corrected(arguments, language, parameters, is_return=back)
        reasons += more
        if back and "$retval" in arguments and language.is_void(name):
            arguments = " ".join(word for word in arguments.split() if "$retval" not in word)
            reasons.append(f"{name} returns nothing")
        if is_entry and name.startswith(WRAPPER) and because:
            arguments = " ".join(spellings.from_saved(word) for word in arguments.split())
        if reasons:
            head = f"r{meant.kind[1:]}" if back and not meant.suffix else meant.kind
            event = f":{meant.event}" if meant.event else ""
            line = f"{head}{event} {meant.module}{name}{offset}{meant.suffix} {arguments}".rstrip()
            yield line, "; ".join(dict.fromkeys(reasons))


def _end(back: bool, offset: str, arguments: str, reasons: list[str]) -> tuple[bool, str]:
    """Return whether a probe is a return probe, and its offset."""
    if back and offset:
        reasons.append("a return probe sits at a function, without an offset")
        return True, ""
    if not back and not offset.strip("+-0x") and _RETURNED.search(arguments):
        reasons.append("$retval is there when the function returns")
        return True, ""
    return back, offset


def _every(arguments: str, name: str, language: KernelLanguage, reasons: list[str]) -> str:
    """Return the arguments with a word for each parameter in place of $arg*."""
    if not _ALL.search(arguments):
        return arguments
    each = [f"{one.name}={language.value(number)}" for number, one in enumerate(language.parameters(name), 1)]
    new = _ALL.sub(lambda _: "$arg*" if NAMES in language.readme else " ".join(each), arguments)
    reasons += ["all arguments"] if new not in (arguments, "") else []
    return new or arguments


def _readings(written: _Definition, language: KernelLanguage, *, guesses: bool) -> Iterator[tuple[_Definition, str]]:
    """Yield what a definition may mean by the existing functions, and why its function isn't the one it names."""
    names, symbol, event = language.names, written.symbol, written.event
    if written.module or not names or symbol in names:
        yield written, ""
        return
    first, _, others = written.arguments.partition(" ")
    if first in names:  # p NAME FUNCTION
        because = f"{symbol} is the event's name, with a colon before it"
        yield written._replace(event=symbol, symbol=first, arguments=others), because
    stem = event.partition("/")[2] or event
    if stem in names and not written.offset:  # perf probe's: FUNCTION ARGUMENT ...
        arguments = f"{symbol} {written.arguments}".rstrip()
        yield written._replace(symbol=stem, arguments=arguments), f"the function is {stem}, and {symbol} an argument"
    call = _OTHER_CALLS.fullmatch(symbol)
    near = [f"{WRAPPER}{call[1]}"] if call else []
    near += [*successors(symbol), symbol.partition(".")[0]]  # the compiler adds .isra.0, .constprop.0, .part.0
    near = [name for name in near if name in names] + (suggest(symbol, names) if guesses and len(symbol) > 3 else [])
    for name in dict.fromkeys(near):
        called = name.replace(".", "_") if event == symbol.replace(".", "_") else event
        yield written._replace(event=called, symbol=name), f"this kernel has no function {symbol}"
