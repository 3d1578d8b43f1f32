"""The actions of a recording's tasks, and the probes that see them: fixed, so the text is known in advance."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kprobe_vm.guest.workload import AT_FDCWD, MEMORY, OPENAT, WorkloadTask
from kprobe_vm.recording.functions import NEWEST, Functions

# with the newest names of functions; `named` replaces them with a kernel's own
PROBES = (
    "p:ent do_sys_openat2 dfd=%di:s32 s=+0(%si):string how=%dx:x64",
    "r:ret do_sys_openat2 ret=$retval:s32 raw=$retval:x64",
)
LOST = "p:lost/ent do_sys_openat2 dfd=%di:s32 s=+0(%si):string"
"""A task's account gives all its values, for texts without raw pages."""
_FADVISE = NEWEST.advising
# a kernel that refuses one of them is recorded without it
TYPES = (
    f"p:t_numbers {_FADVISE} a=%dx:u8 b=%dx:u16 c=%dx:u32 d=%dx:u64 e=%dx:s8 f=%dx:s16 g=%dx:s32 h=%dx:s64",
    f"p:t_hex {_FADVISE} i=%dx:x8 j=%dx:x16 k=%dx:x32 l=%dx:x64 m=%dx n=%dx:b4@4/32 imm=\\42",
    f"p:t_arrays {_FADVISE} u=+u0(%si):u8[4] s=+u0(%si):s16[2] x=+u0(%si):x32[2]",
    f"p:t_two {_FADVISE} one=+u8(%si):ustring two=+u40(%si):ustring n=%cx:s32",
    f"p:t_last {_FADVISE} n=%cx:s32 s=+u8(%si):ustring",
    f"p:t_fault {_FADVISE} s=+u0(%cx):ustring n=%di:s32",
    f"p:t_place {_FADVISE} p=$stack0:symbol comm=$comm n=%di:s32",
    f"p:t_char {_FADVISE} c=+u0(%si):char cs=+u0(%si):char[4]",
    f"p:t_none {_FADVISE}",
    f"r:t_return {_FADVISE} $retval:s32",
)

# names of tasks: ordinary ones, and ones chosen to mislead parsers
NASTY = (
    b"plain", b"my app", b"a-b-1", b"x:y", b"(z)", b"a=b", b"<...>", b"[kw/0:1]", b"-", b"12345", b" lead", b"trail ",
    b"fifteen-chars-x", b"a-1 [000]", b"a: b: (c+0x1/0x", b"q\"uote'", b"tab\there", b"uml\xc3\xa4ut", b"\xff\xfe",
    b"back\\slash", b"=>", b"=> f+0x1/0x2", b"CPU:0 [LOST 5", b"#####", b"# tracer: nop", b"%s%n%p", b"a,b;c",
    b"<idle>", b"sh-1-2-3", b"", b"new\nline", b"cr\rx", b"x-7  [000] d..1",
)  # fmt: skip
PLAIN = (b"plain", b"my app", b"a-b-1")
_FORGED = b'             cat-1       [000] .....     1.000000: ent: (f+0x0/0x10) dfd=1 s="b'
_PATHS: tuple[bytes | int, ...] = (
    b"/tmp/with space", b'/tmp/q"uote\\', b"/tmp/new\nline", b"/tmp/\xc3\xa4\xff\x01", b"", b"/tmp/" + b"m" * 250,
    b"/x how=0x1 dfd=7", b'/x" how=0x1', b'/x" ret=1 s="y', b"(fault)", b"/x\n" + _FORGED, b"/tmp/end\n", 0, 0x7000,
)  # fmt: skip
# of t_two and t_last: the first, the second; the last ones hold what stands between the two
_STRINGS = (
    (b"one", b"two"), (b"", b"x"), (b'q"uote', b"new\nline"), (b"a two=b", b"c n=1"), (b'x" two="y', b'z" two="w'),
)  # fmt: skip
# events of system calls and their filters, as other tasks make such calls too; the workload's use no open file
CALLS = {
    "raw_syscalls/sys_enter": "id == 39 || id == 82 || id == 221",
    "raw_syscalls/sys_exit": "id == 39 || id == 82 || id == 221",
    "syscalls/sys_enter_openat": "", "syscalls/sys_exit_openat": "",
    "syscalls/sys_enter_fadvise64": "", "syscalls/sys_exit_fadvise64": "",
    "syscalls/sys_enter_rename": "", "syscalls/sys_exit_rename": "",
    "syscalls/sys_enter_getpid": "", "syscalls/sys_exit_getpid": "",
    "syscalls/sys_enter_write": "fd > 1000", "syscalls/sys_exit_write": "ret < 0",
}  # fmt: skip
_RENAMES = (
    (b"/tmp/none", b"/tmp/other"), (b"", b'q"uote'), (b"new\nline", b"\xc3\xa4\xff"), (b'a", newname: 0x1 "b', b"c"),
    (b"long" * 30, b")"),
)  # fmt: skip
_WRITTEN = (b"hello\n", b"", b'a"\0\xff%s', b"long " * 30)
_CREATED = 0o1102  # O_RDWR | O_CREAT | O_TRUNC
_NUMBERS = (0, 1, 127, 128, 255, 32768, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 0x123456789ABCDEF0)


class SystemCall(NamedTuple):
    """A call that a task makes: the system call's number, its arguments, and the data put at MEMORY before it."""

    number: int
    arguments: tuple[int, ...]
    data: bytes = b""
    path: bytes | None = None  # the path that an open sees; None if it can't be read


class Task(NamedTuple):
    """A task with its name, the CPU that it runs on, and what it does."""

    comm: bytes
    cpu: int
    acts: tuple[SystemCall, ...]


class Done(NamedTuple):
    """An act that was performed: by which task, and its result."""

    pid: int
    task: Task
    act: SystemCall
    result: int | None


BEGIN = SystemCall(OPENAT, (AT_FDCWD,), path=b"/dev/null")
"""What each task does before anybody asks it (guest/workload.c), on whichever CPU."""


class Start(Protocol):
    """Starts a task in the guest."""

    def __call__(self) -> WorkloadTask: ...


def named(definition: str, functions: Functions) -> str:
    """Return a definition with its functions' names on a kernel."""
    for newest, here in zip(NEWEST, functions, strict=True):
        definition = definition.replace(newest, here)
    return definition


def _open(path: bytes | int, dfd: int = AT_FDCWD) -> SystemCall:
    if isinstance(path, int):
        return SystemCall(OPENAT, (dfd, path, 0, 0))
    return SystemCall(OPENAT, (dfd, MEMORY, 0, 0), path + b"\0", path)


def opens(cpus: int, names: Sequence[bytes] = NASTY) -> list[Task]:
    """Return tasks with these names, on all CPUs in turn: each opens files that exist or not."""
    usual = (_open(b"/etc/hostname"), _open(b"/tmp/nonexistent"), _open(b"rel", -7))
    nasty = tuple(_open(path) for path in _PATHS) if len(names) > len(PLAIN) else ()
    some = usual if len(names) <= len(PLAIN) else usual[1:2]
    return [Task(name, at % cpus, some if at else usual + nasty) for at, name in enumerate(names)]


def many(cpus: int, count: int) -> list[Task]:
    """Return a task for each CPU that opens `count` files, none of which exists."""
    return [
        Task(f"par {cpu}".encode(), cpu, tuple(_open(f"/tmp/p{cpu}_{number}".encode()) for number in range(count)))
        for cpu in range(cpus)
    ]


def numbers() -> Task:
    """Return a task that calls fadvise64 with all kinds of numbers and strings, on no open file."""
    data = bytes([1, 255, 65, 34]) + struct.pack("<I", 0xFFFFFFFE)
    acts = [SystemCall(221, (-1, MEMORY, number, 99), data + b"s\0") for number in _NUMBERS]
    for first, second in _STRINGS:
        acts.append(SystemCall(221, (-1, MEMORY, 0, 99), data + first.ljust(32, b"\0") + second + b"\0"))
    return Task(b"numbers", 1, tuple(acts))


def calls(cpus: int) -> list[Task]:
    """Return tasks whose system calls have numbers, flags, strings and buffers of all kinds as arguments."""
    acts = list(opens(cpus)[0].acts) + list(numbers().acts[: len(_NUMBERS)])
    acts.append(SystemCall(OPENAT, (AT_FDCWD, MEMORY, _CREATED, 0o640), b"/nosuch/made\0", b"/nosuch/made"))
    acts.append(SystemCall(OPENAT, (AT_FDCWD, MEMORY, 0o20000000 | 0x1003, 0), b"/nosuch\0", b"/nosuch"))
    paths = b'/x", flags: O_RDONLY)', b'/y", flags: O_RDONLY, mode: 0777)\n'
    acts += [_open(path) for path in paths]
    for old, new in _RENAMES:
        acts.append(SystemCall(82, (MEMORY, MEMORY + 256), old.ljust(256, b"\0") + new + b"\0"))
    acts += [SystemCall(1, (-1, MEMORY, len(data)), data + b"\0") for data in _WRITTEN]
    acts.append(SystemCall(39, ()))
    return [Task(name, at % cpus, tuple(acts) if not at else tuple(acts[-3:])) for at, name in enumerate(PLAIN)]


def torn(cpus: int, *, nasty: bool) -> list[Task]:
    """Return a task for each CPU that opens missing files, some with names that contain a whole line."""
    names = [b"%d" % number for number in range(10)]
    names += [b"two\nlines", b'q" dfd=1', b"end\n", b"\n\n", b" [000] x: (y) a=1\n"] if nasty else []
    return [
        Task(f"tor {cpu}".encode(), cpu, tuple(_open(b"/tmp/p%d_%b" % (cpu, name)) for name in names))
        for cpu in range(cpus)
    ]


def arguments(act: SystemCall) -> dict[str, object]:
    """Return the values of the arguments of TYPES at a call of fadvise64, as far as the call determines them."""
    length, data = act.arguments[2], act.data
    first, second = data[8:40].partition(b"\0")[0], data[40:].partition(b"\0")[0]
    text = {"one": first, "two": second, "s": first}
    return {
        **{name: length & (1 << bits) - 1 for name, bits in zip("abcd", (8, 16, 32, 64), strict=True)},
        **{name: _signed(length, bits) for name, bits in zip("efgh", (8, 16, 32, 64), strict=True)},
        **{name: length & (1 << bits) - 1 for name, bits in zip("ijkl", (8, 16, 32, 64), strict=True)},
        **{name: value.decode("utf-8", "surrogateescape") for name, value in text.items()},
    }


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def perform(start: Start, tasks: Sequence[Task]) -> list[Done]:
    """Let tasks perform their acts, one task after another; return the account."""
    done = []
    for task in tasks:
        worker = start()
        try:
            worker.rename(task.comm)
            worker.call(203, (0, 8, MEMORY), (1 << task.cpu).to_bytes(8, "little"))  # sched_setaffinity
            done.append(Done(worker.pid, task, BEGIN, None))
            done += [Done(worker.pid, task, act, worker.call(act.number, act.arguments, act.data)) for act in task.acts]
        finally:
            worker.close()
    return done
