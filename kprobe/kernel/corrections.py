"""What a refused definition may have meant: lines that say it as a kernel has it, the likeliest first.

What is wrong is seen by the text and by what the kernel offers (its README, functions and prototypes), whatever the
kernel said; so one line corrects all that is wrong.  The tracer puts it in its hint, `kprobe check` tries it.
"""

from __future__ import annotations

import re

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
_BARE = re.compile(r"(?<![\w%$@.:>])[A-Za-z_]\w*(?![\w=(])")  # a name that may be a parameter's
WRAPPER = "__x64_sys_"


class KernelLanguage:
    """What a kernel offers to those who write definitions for it; each is read once, when it is asked for."""

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
        """Return a function's parameters; none where they aren't known."""
        prototype = known(self._tracefs).prototype(symbol)
        return prototype.parameters if prototype is not None else ()

    def is_void(self, symbol: str) -> bool:
        """Return whether a function is known to return nothing."""
        prototype = known(self._tracefs).prototype(symbol)
        return prototype is not None and prototype.returns.text == "void"

    def value(self, number: int) -> str:
        """Return how $argN is written for it."""
        if "$arg<N>" in self.readme or "$argN" in self.readme or number > len(spellings.REGISTERS):
            return f"$arg{number}"
        return spellings.REGISTERS[number - 1]


def corrections(text: str, language: KernelLanguage, *, guesses: bool = True) -> Iterator[tuple[str, str]]:
    """Yield lines for a definition as it is written to kprobe_events, each with what was corrected.

    With `guesses` a function that isn't there may be any with a similar name, which takes a while to find.
    """
    plain = " ".join(text.split())
    joined = _OFFSET.sub(r"\1\2\3", plain)
    found = _LINE.fullmatch(joined)
    if found is None or re.search(r"(?:^| )if ", found[7] or ""):
        return
    kind, event, module, symbol, offset, suffix, rest = (part or "" for part in found.groups())
    for name, called, moved, because in _places(event, module, symbol, offset, rest, language, guesses):
        reasons = [because] if because else []
        reasons += ["no blanks before an offset"] if joined != plain else []
        back, where = _end(kind[0] == "r" or bool(suffix), offset, moved, reasons)
        is_entry = not back and not where.strip("+-0x")
        arguments = _every(moved, name, language, reasons) if is_entry else moved
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
            head = f"r{kind[1:]}" if back and not suffix else kind
            line = f"{head}{':' if called else ''}{called} {module}{name}{where}{suffix} {arguments}".rstrip()
            yield line, "; ".join(dict.fromkeys(reasons))


def _end(back: bool, offset: str, arguments: str, reasons: list[str]) -> tuple[bool, str]:
    """Return whether a probe is one of the return, and its offset."""
    if back and offset:
        reasons.append("a return probe sits at a function, without an offset")
        return True, ""
    if not back and not offset.strip("+-0x") and _RETURNED.search(arguments):
        reasons.append("$retval is there when the function returns")
        return True, ""
    return back, offset


def _every(arguments: str, name: str, language: KernelLanguage, reasons: list[str]) -> str:
    """Return the arguments with a word for each parameter in place of one for all."""
    if not _ALL.search(arguments):
        return arguments
    each = [f"{one.name}={language.value(number)}" for number, one in enumerate(language.parameters(name), 1)]
    new = _ALL.sub(lambda _: "$arg*" if NAMES in language.readme else " ".join(each), arguments)
    reasons += ["all arguments"] if new not in (arguments, "") else []
    return new or arguments


def _places(
    event: str, module: str, symbol: str, offset: str, rest: str, language: KernelLanguage, guesses: bool
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the functions that may be meant, with event and arguments, and why it isn't the one that is named."""
    names = language.names
    if module or not names or symbol in names:
        yield symbol, event, rest, ""
        return
    first, _, others = rest.partition(" ")
    if first in names:  # p NAME FUNCTION
        yield first, symbol, others, f"{symbol} is the event's name, with a colon before it"
    stem = event.partition("/")[2] or event
    if stem in names and not offset:  # perf probe's: FUNCTION ARGUMENT ...
        yield stem, event, f"{symbol} {rest}".rstrip(), f"the function is {stem}, and {symbol} an argument"
    found = _OTHER_CALLS.fullmatch(symbol)
    near = [f"{WRAPPER}{found[1]}"] if found else []
    near += [*successors(symbol), symbol.partition(".")[0]]  # the compiler adds .isra.0, .constprop.0, .part.0
    near = [name for name in near if name in names] + (suggest(symbol, names) if guesses and len(symbol) > 3 else [])
    for name in dict.fromkeys(near):
        called = name.replace(".", "_") if event == symbol.replace(".", "_") else event
        yield name, called, rest, f"this kernel has no function {symbol}"
