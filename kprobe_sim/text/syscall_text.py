"""The text of system call events, which doesn't come from their `print fmt` (kernel/trace/trace_syscalls.c).

Up to 6.17 `sys_openat(dfd: ffffff9c, filename: 7ffe…, flags: 0, mode: 0)`; 6.18 shows small numbers decimal and others
with 0x; 6.19 and later the user's strings and buffers, and openat in its own way.  Sources: the file named, of
6.1.190 and 7.2.13; fixtures/static; a trace of 6.18.15.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.event import StaticEvent
from kprobe_sim.records.field import Field
from kprobe_sim.text.print_fmt import dynamic, flags_text

_ARGUMENTS = 16  # their offset in the record
_USER = "_val"
# system calls whose event holds the user's buffer: the position of the argument that gives its size
SIZES: Mapping[str, int] = {"write": 2, "mq_timedsend": 2, "pwrite64": 2}
STRING_SIZES: Mapping[str, int] = {"setdomainname": 1, "sethostname": 1, "kexec_file_load": 3}
_ACCMODE, _CREAT, _TMPFILE = 0o3, 0o100, 0o20200000
_OPEN_FLAGS = (
    (_TMPFILE, b"O_TMPFILE"),
    (0o1, b"O_WRONLY"),
    (0o2, b"O_RDWR"),
    (_CREAT, b"O_CREAT"),
    (0o200, b"O_EXCL"),
    (0o400, b"O_NOCTTY"),
    (0o1000, b"O_TRUNC"),
    (0o2000, b"O_APPEND"),
    (0o4000, b"O_NONBLOCK"),
    (0o10000, b"O_DSYNC"),
    (0o40000, b"O_DIRECT"),
    (0o100000, b"O_LARGEFILE"),
    (0o200000, b"O_DIRECTORY"),
    (0o400000, b"O_NOFOLLOW"),
    (0o1000000, b"O_NOATIME"),
    (0o2000000, b"O_CLOEXEC"),
)


class _Call:
    """A system call's entry event: its arguments, and those whose user memory it holds."""

    def __init__(self, event: StaticEvent) -> None:
        self.name = event.name.removeprefix("sys_enter_")
        self.label = b"sys_" + self.name.encode()
        fields = event.filter_fields()[1:]  # without the number: __syscall_nr, or nr on older kernels
        self.user = {field.name[2 : -len(_USER)]: field for field in fields if field.type.startswith("__data_loc")}
        self.arguments: Sequence[Field] = [field for field in fields if not field.type.startswith("__data_loc")]
        self.unpack = struct.Struct(f"<{len(self.arguments)}Q").unpack_from


def exit_text(event: StaticEvent) -> Callable[[bytes], bytes]:
    """Return the function that shows the exit of a system call."""
    label = b"sys_" + event.name.removeprefix("sys_exit_").encode()
    return lambda record: b"%b -> 0x%x\n" % (label, struct.unpack_from("<Q", record, _ARGUMENTS)[0])


def enter_text(event: StaticEvent, gates: Gates, *, verbose: bool) -> Callable[[bytes], bytes]:
    """Return the function that shows the entry of a system call; `verbose`: with the types of its arguments."""
    call = _Call(event)
    types = [field.type.encode() + b" " if verbose else b"" for field in call.arguments]
    names = [field.name.encode() for field in call.arguments]
    if not gates.syscall_numbers_prefixed:
        template = (
            call.label + b"(" + b", ".join(b"%b%b: %%x" % pair for pair in zip(types, names, strict=True)) + b")\n"
        )
        return lambda record: template % call.unpack(record, _ARGUMENTS)
    if call.name == "openat" and gates.syscalls_show_user_memory and not verbose:
        return lambda record: _openat(call, record)

    def text(record: bytes) -> bytes:
        values: Sequence[int] = call.unpack(record, _ARGUMENTS)
        parts = []
        for kind, name, field, value in zip(types, names, call.arguments, values, strict=True):
            shown = b"%b%b: " % (kind, name) + (b"%d" % value if value < 10 else b"0x%x" % value)
            if field.name in call.user:
                shown += _user_memory(call, dynamic(call.user[field.name], record), values)
            parts.append(shown)
        return call.label + b"(" + b", ".join(parts) + b")\n"

    return text


def _openat(call: _Call, record: bytes) -> bytes:
    directory, name, flags, mode = call.unpack(record, _ARGUMENTS)
    flags &= 0xFFFFFFFF
    path = dynamic(call.user["filename"], record).split(b"\0", 1)[0] if "filename" in call.user else b""
    text = b'%b(dfd: %d, filename: %d "%b", flags: ' % (call.label, directory, name, path)
    if not flags & _ACCMODE:
        text += b"O_RDONLY|" if flags else b"O_RDONLY"
    if flags:
        # the kernel takes them as an int: the sign bit is extended
        text += flags_text(flags - (1 << 32) & 2**64 - 1 if flags >> 31 else flags, b"|", _OPEN_FLAGS)
    if flags & (_CREAT | _TMPFILE):
        text += b", mode: 0%03o" % (mode & 0xFFFFFFFF)
    return text + b")\n"


def _user_memory(call: _Call, data: bytes, values: Sequence[int]) -> bytes:
    if call.name not in SIZES:
        return b' "%b"' % data.split(b"\0", 1)[0]
    size = values[SIZES[call.name]]
    size = (size & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)  # an int
    more = len(data) < size
    text = b" (" + b":".join(b"%02x" % byte for byte in data) + (b", ..." if more else b"") + b")"
    if not any(32 <= byte < 127 for byte in data):
        return text
    shown = bytes(byte if 32 <= byte < 127 else ord(".") for byte in data)
    return text + b' "' + shown + (b'"...' if more else b'"')
