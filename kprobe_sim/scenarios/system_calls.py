"""The truth about the events of system calls: the values in their records that the text shows."""

from __future__ import annotations

import struct
from typing import Any

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.event import StaticEvent

SYSTEMS = ("syscalls", "raw_syscalls")
_FIRST = 16  # offset of the arguments, or of the result
_NUMBER = 8
_ACCMODE, _MAKES = 0o3, 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE


def call_values(event: StaticEvent, data: bytes, gates: Gates, *, verbose: bool) -> dict[str, Any]:
    """Return the values of a system call's event that its text shows."""
    if event.system == "raw_syscalls":
        (number,) = struct.unpack_from("<q", data, _NUMBER)
        if event.name == "sys_exit":
            return {"id": number, "ret": struct.unpack_from("<q", data, _FIRST)[0]}
        return {"id": number, "args": list(struct.unpack_from("<6Q", data, _FIRST))}
    if event.name.startswith("sys_exit_"):
        return {"ret": struct.unpack_from("<q", data, _FIRST)[0]}
    by_name = event.name == "sys_enter_openat" and gates.syscalls_show_user_memory and not verbose
    shown: dict[str, Any] = {}
    form = event.format().decode("latin-1")
    for field in event.filter_fields():
        number = int.from_bytes(data[field.offset : field.offset + field.size], "little")
        if field.type.startswith("__data_loc"):
            held = data[number & 0xFFFF :][: number >> 16]
            is_buffer = f"__print_dynamic_array({field.name}" in form
            shown[field.name] = list(held) if is_buffer else _text(held)
        elif field.name != "__syscall_nr":
            shown[field.name] = number
    if by_name:
        flags = shown["flags"] & 0xFFFFFFFF
        if not flags & _MAKES:
            del shown["mode"]
        shown["flags"] = _flags(form, flags)
    return shown


def _flags(form: str, value: int) -> str:
    """Return flags by the names in the print fmt, and those without a name in hexadecimal."""
    names = [] if value & _ACCMODE else ["O_RDONLY"]
    for part in form.partition("__print_flags(")[2].partition(") :")[0].split("{ ")[1:]:
        mask, _, name = part.partition(", ")
        if int(mask, 16) & value == int(mask, 16):
            names.append(name.split('"')[1])
            value &= ~int(mask, 16)
    return "|".join([*names, f"0x{value:x}"] if value else names)


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
