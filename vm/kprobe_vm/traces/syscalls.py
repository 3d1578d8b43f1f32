"""The text of raw records of system calls, which the kernel prints in their own format."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from kprobe_vm.traces.pages import Event, RawRecord

SYSTEMS = ("syscalls", "raw_syscalls")
_FLAG = re.compile(r'\{ (0x[0-9a-f]+), "(\w+)" \}')
_ACCESS, _MAKES = 0o3, 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE
_END = re.compile('", \\w+: ')


def values_of(record: RawRecord, event: Event, options: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values that the text shows of a record, and the names of the ambiguous ones."""
    values: dict[str, Any] = {}
    for field in event.fields:
        if field.name.startswith("common_") or field.name == "__syscall_nr":
            continue
        if f"__print_dynamic_array({field.name}" in event.shown:
            location = int.from_bytes(record.data[field.offset : field.offset + 4], "little")
            values[field.name] = list(record.data[location & 0xFFFF :][: location >> 16])
        else:
            values[field.name] = field.value(record.data)
            if field.type.startswith("__data_loc"):
                values[field.name] = values[field.name] or ""
    if event.name == "sys_enter_openat" and "__filename_val" in values and "verbose" not in options:
        # flags are shown by name, and a mode only if the call may create a file
        flags = values["flags"] & 0xFFFFFFFF
        if not flags & _MAKES:
            del values["mode"]
        values["flags"] = _by_name(flags, event.shown)
        return values, []
    doubtful = [name for name, value in values.items() if isinstance(value, str) and _END.search(value + '"')]
    names = list(values)
    return values, names[names.index(doubtful[0]) :] if doubtful else []


def _by_name(value: int, shown: str) -> str:
    names = [] if value & _ACCESS else ["O_RDONLY"]
    for mask, name in _FLAG.findall(shown):
        if value & int(mask, 16) == int(mask, 16):
            names.append(name)
            value &= ~int(mask, 16)
    return "|".join([*names, f"0x{value:x}"] if value else names)
