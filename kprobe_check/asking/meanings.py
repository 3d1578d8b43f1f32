"""How a kernel understands a statement that it accepts, where other kernels or the text suggest something else.

The rule.  The event's name, the fields with their type, size and sign, and how they are printed should be those of most
kernels that take it, or of the newest in a tie.  By itself, a definition means something else where

- its function has a successor that took over its work (`do_sys_open`, `do_sys_openat2`), and the kernel has both;
- it reads registers or `$argN` at the entry of a wrapper of a system call, `__x64_sys_*`: that has one argument, `%di`,
  the address of the caller's registers, which hold the caller's arguments;
- it reads a register or `$argN` at a function's entry whose parameter is elsewhere on the newest kernel, or vice versa,
  or which isn't a parameter, where another kernel has one more (as far as kernels have BTF, which tells);
- it names a function of a module that isn't loaded: the kernel takes it, and waits for the module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kprobe.kernel.symbols import SUCCESSORS
from kprobe_check.asking.asked_kernel import Answer, AskedKernel
from kprobe_check.sources.openings import LOST
from kprobe_check.statement import DEFINITION, TRUNCATING, Statement

REGISTERS = ("di", "si", "dx", "cx", "r8", "r9")  # of a function's first six arguments, System V ABI for x86-64
WRAPPERS = ("__x64_sys_", "__ia32_sys_", "__x64_compat_sys_", "__ia32_compat_sys_")
_PLACE = re.compile(r"\s*([pr])\d*(?::\S+)?\s+(?:([\w-]+):)?([A-Za-z_][\w.]*)((?:[+-]\w+)?)(%return)?(?=\s|$)")


class Spot:
    """The probe point of a kprobe's definition, as far as its text tells."""

    __slots__ = ("arguments", "is_entry", "is_return", "module", "symbol")

    def __init__(self, found: re.Match[str]) -> None:
        self.is_return = found[1] == "r" or bool(found[5])
        self.module = found[2] or ""
        self.symbol = found[3]
        self.is_entry = not self.is_return and not found[4].strip("+-0")
        self.arguments = found.string[found.end() :]


def spot(statement: Statement) -> Spot | None:
    """Return the probe point of a kprobe's definition; None for other statements, and for addresses."""
    if statement.kind != DEFINITION or statement.file != "kprobe_events":
        return None
    found = _PLACE.match(statement.text)
    return Spot(found) if found else None


def remarks(statement: Statement, kernel: AskedKernel) -> tuple[str, ...]:
    """Return what a statement means on a kernel that takes it, beyond what its text says."""
    if statement.kind == TRUNCATING:
        return (LOST,)
    where = spot(statement)
    if where is None:
        return ()
    found = []
    newer = [name for name in SUCCESSORS.get(where.symbol, ()) if kernel.has_function(name)]
    if newer:
        found.append(f"{newer[0]} took over from {where.symbol}, which is rarely called")
    if where.symbol.startswith(WRAPPERS) and where.is_entry:
        wrong = taken_for_arguments(where.arguments)
        if wrong:
            found.append(
                f"{wrong} is no argument of the system call: {where.symbol} is a wrapper, whose one argument (%di) is "
                "the address of the caller's registers"
            )
    if where.module and where.module not in kernel.functions().get(where.symbol, ()):
        found.append(f"module {where.module} isn't loaded: it is taken unseen, and waits for it")
    return tuple(found)


def taken_for_arguments(arguments: str) -> str:
    """Return the first register or $argN that isn't an argument of a wrapper, "" if there is none."""
    for word in arguments.split():
        value = word.partition("=")[2] if re.match(r"\w+=", word) else word
        found = re.search(r"(%(?:si|dx|cx|r8|r9|r10)|\$arg[2-9])\b", value)
        found = found or re.match(r"(?:\+0\()?(%di|\$arg1)\b", value) or re.search(r"\(\+0\((%di|\$arg1)\)", value)
        if found:
            return found[1]
    return ""


def moved(statement: Statement, kernels: Sequence[AskedKernel]) -> list[tuple[str, ...]]:
    """Return for each kernel, oldest first, which registers and $argN hold other parameters than elsewhere."""
    where = spot(statement)
    words = {} if where is None or not where.is_entry or where.module else _positions(where.arguments)
    if where is None or not words:
        return [()] * len(kernels)
    known = [kernel.parameters(where.symbol) for kernel in kernels]
    newest = next(filter(None, reversed(known)), [])
    most = max(map(len, known), default=0)
    return [
        tuple(
            said
            for word, index in words.items()
            if names and index < most and (said := _moved(word, index, names, newest))
        )
        for names in known
    ]


def _positions(arguments: str) -> dict[str, int]:
    """Return the registers of the calling convention and the $argN in a definition's arguments, with their numbers."""
    found: dict[str, int] = {}
    for word in re.findall(r"%(?:di|si|dx|cx|r8|r9)\b|\$arg[1-6]\b", arguments):
        found[word] = REGISTERS.index(word[1:]) if word[0] == "%" else int(word[4:]) - 1
    return found


def _moved(word: str, index: int, names: Sequence[str], newest: Sequence[str]) -> str:
    if index >= len(names):
        return f"{word} is no argument: the function has {len(names)}, {', '.join(names)}"
    here, there = names[index], newest[index] if index < len(newest) else ""
    if here != there and here in newest:
        return f"{word} is {here}, which is {_place(newest.index(here))} on newer kernels"
    if here != there and there in names:
        return f"{word} is {here}; {there}, which it is on newer kernels, is {_place(names.index(there))}"
    return ""


def _place(index: int) -> str:
    return f"%{REGISTERS[index]}" if index < len(REGISTERS) else "on the stack"


def differences(answers: Sequence[Answer]) -> list[tuple[str, ...]]:
    """Return for each kernel's answer, oldest kernel first, how it differs from most kernels that take it."""
    taken = [answer for answer in answers if answer.is_taken]
    count = Counter(_meaning(answer) for answer in taken)
    if len(count) < 2:
        return [()] * len(answers)
    most = max(count.values())
    usual = next(answer for answer in reversed(taken) if count[_meaning(answer)] == most)
    return [_difference(answer, usual) if answer.is_taken else () for answer in answers]


def _meaning(answer: Answer) -> tuple[object, ...]:
    return (answer.event, tuple(_declared(answer).items()), _formats(answer.prints))


def _difference(answer: Answer, usual: Answer) -> tuple[str, ...]:
    found = []
    if answer.event != usual.event:
        found.append(f"the event is {answer.event}, elsewhere {usual.event}")
    mine, theirs = [_declared(one) for one in (answer, usual)]
    for name in dict.fromkeys((*mine, *theirs)):
        if mine.get(name) != theirs.get(name):
            found.append(f"field {name} is {mine.get(name, 'not there')}, elsewhere {theirs.get(name, 'not there')}")
    here, elsewhere = _formats(answer.prints), _formats(usual.prints)
    if here != elsewhere:
        found.append(f"it is printed as {here}, elsewhere {elsewhere}")
    return tuple(found)


def _declared(answer: Answer) -> dict[str, str]:
    """Return the fields by name: type, size and sign; an array's length shows only in its size.

    5.10 shows it in brackets, later kernels don't.
    """
    return {
        field.name: f"{field.type}{'' if field.length is None else '[]'} of {field.size} bytes, "
        f"{'signed' if field.signed else 'unsigned'}"
        for field in answer.fields
    }


def _formats(prints: str) -> str:
    """Return the format string of a print fmt, without its arguments."""
    found = re.match(r'"((?:[^"\\]|\\.)*)"', prints)
    return found[0] if found else prints
