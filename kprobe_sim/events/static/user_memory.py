"""User memory in the event of a system call, since 6.19 (sys_fault_user() in trace_syscalls.c)."""

from __future__ import annotations

from collections.abc import Mapping

from kprobe_sim.text.syscall_text import SIZES, STRING_SIZES

_READ_MAX = 169  # SYSCALL_FAULT_ARG_SZ - 1
_SHOWN_MAX = 165  # SYSCALL_FAULT_USER_MAX
_MORE = b"...\0"


def user_value(
    name: str, arguments: Mapping[str, int], field: str, memory: Mapping[int, bytes], buffer_size: int
) -> bytes:
    """Return the bytes that an argument of system call `name` points to, as its event holds them; b"" for a fault.

    `buffer_size` is syscall_user_buf_size: the bytes of each argument.
    """
    data = _stretch(memory, arguments.get(field, 0))
    if name in SIZES or name in STRING_SIZES:
        position = SIZES.get(name, STRING_SIZES.get(name, 0))
        size = min(list(arguments.values())[position], _READ_MAX)
        return data[: min(size, buffer_size)] if len(data) >= size else b""
    text, ended, _ = data.partition(b"\0")
    if not data or (not ended and len(text) < _READ_MAX):
        return b""
    length = min(len(text), _READ_MAX)
    shown = bytes(byte if 32 <= byte < 127 else ord(".") for byte in text[:length])
    limit = min(buffer_size, _SHOWN_MAX)
    return shown[:limit] + _MORE if length > limit else shown + b"\0"


def _stretch(memory: Mapping[int, bytes], address: int) -> bytes:
    for start, block in memory.items():
        if start <= address < start + len(block):
            return block[address - start :]
    return b""
