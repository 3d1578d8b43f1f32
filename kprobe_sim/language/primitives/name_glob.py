"""The names that a pattern matches: functions of set_ftrace_filter, of the function graph, of fprobes.

Tens of thousands of names are compared in a few milliseconds: first with the plain text in the pattern, and only those
that contain it with a regular expression.  Patterns are the kernel's bytes, names are read as latin-1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kprobe_sim.builds.gates import FilterGates
from kprobe_sim.language.primitives.glob import PatternKind, Sign, classify, glob_signs


def matching(pattern: bytes, names: Sequence[str], gates: FilterGates) -> list[int]:
    """Return the numbers of the names that a pattern matches, as `compile_pattern` compares, with or without `!`."""
    kind, text = classify(pattern.removeprefix(b"!"))
    part = text.decode("latin-1")
    if kind is PatternKind.GLOB:
        return globbed(text, names, past_end=not gates.glob_class_stops and b"[!" in text)
    if kind is PatternKind.FULL:
        return [number for number, name in enumerate(names) if name == part]
    numbers = [number for number, name in enumerate(names) if part in name]
    if kind is PatternKind.FRONT:
        return [number for number in numbers if names[number].startswith(part)]
    return [number for number in numbers if names[number].endswith(part)] if kind is PatternKind.END else numbers


def globbed(pattern: bytes, names: Sequence[str], *, past_end: bool = False) -> list[int]:
    """Return the numbers of the names that a glob matches.

    `past_end`: a negated class takes the end of a name for a character, and the match goes on after it, as on kernels
    before 6.12.
    """
    # NULs follow a name, which neither `?` nor a star takes
    any_sign, tail = ("[^\\0]", "\0" * (pattern.count(b"[!") + 1)) if past_end else (".", "")
    pieces = glob_signs(pattern, any_sign.encode())
    search = _expression(pieces, any_sign, r"\Z" if not past_end else r"(?=\0)").search
    plain = max(_plain_runs(pieces), key=len).decode("latin-1")
    if past_end:
        return [number for number, name in enumerate(names) if plain in name and search(name + tail)]
    return [number for number, name in enumerate(names) if plain in name and search(name)]


def _expression(pieces: list[list[Sign]], any_sign: str, end: str) -> re.Pattern[str]:
    first, *others = [b"".join([sign.expression for sign in piece]).decode("latin-1") for piece in pieces]
    if not others:
        return re.compile(rf"\A{first}{end}", re.DOTALL)
    *inner, last = others
    if not first and inner:  # a search finds the first piece without a star
        start, *inner = inner
    else:
        start = rf"\A{first}"
    # only the last star need be tried again, so every earlier piece may keep its first match
    middle = "".join(f"(?>{any_sign}*?{piece})" for piece in inner)
    return re.compile(start + middle + (f"{any_sign}*{last}{end}" if last else ""), re.DOTALL)


def _plain_runs(pieces: list[list[Sign]]) -> list[bytes]:
    """Return the runs of plain characters in the pattern."""
    runs = [b""]
    for piece in pieces:
        runs.append(b"")
        for sign in piece:
            if sign.plain:
                runs[-1] += sign.plain
            else:
                runs.append(b"")
    return runs
