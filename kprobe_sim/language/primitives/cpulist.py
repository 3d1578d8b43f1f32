"""Lists of CPUs as the kernel reads them: "0-3,8", "all", "0-15:2/4"."""

from __future__ import annotations

import re

_SEPARATOR = re.compile(r"[\s,\xa0]*", re.ASCII)
_NUMBER = "([0-9]+|N)"
_REGION = re.compile(rf"(?:(?i:(all))|{_NUMBER}(?:-{_NUMBER})?)(?::{_NUMBER}/{_NUMBER})?", re.ASCII)
_ENDS = frozenset("\t\n\v\f\r ,\xa0")
_UINT_MAX = (1 << 32) - 1


def parse_cpulist(text: str, cpus: int) -> frozenset[int] | None:
    """Return the CPUs of a list on a machine of `cpus` CPUs; None if the kernel refuses the list.

    "N" is the last CPU; "A-B:U/G" the first U of every G of the range.  A newline ends the list.
    Source: bitmap_parselist() in lib/bitmap-str.c of 6.12; fixtures/filters.
    """
    chosen: set[int] = set()
    position = 0
    while True:
        # The newline both separates and ends: it separates before a region and ends right after one.
        position = _after(_SEPARATOR, text, position)
        if position == len(text):
            return frozenset(chosen)
        region = _REGION.match(text, position)
        if region is None:
            return None
        everything, first, last, used, group = region.groups()
        if used and not (everything or last):
            return None  # a pattern needs a range
        position = region.end()
        if not used and position < len(text) and text[position] not in _ENDS:
            return None
        start = 0 if everything else _number(first, cpus)
        end = cpus - 1 if everything else _number(last or first, cpus)
        take = _number(used, cpus) if used else end + 1
        step = _number(group, cpus) if used else end + 1
        if max(start, end, take, step) > _UINT_MAX or start > end or step == 0 or take > step or end >= cpus:
            return None
        chosen.update(cpu for cpu in range(start, end + 1) if (cpu - start) % step < take)
        if not used and text[position : position + 1] == "\n":
            return frozenset(chosen)


def _after(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _number(text: str, cpus: int) -> int:
    return cpus - 1 if text == "N" else int(text)
