"""Random real calls: system calls of the task that reach functions with arguments not known in advance."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from kprobe_lab.generators.filters import Filters
from kprobe_lab.generators.traces import MEMORY
from kprobe_lab.operations.operation import OURS, Observed, Operation, Read, Write
from kprobe_lab.operations.oracle import Path, after, before

# number and arguments of a system call, and functions on its way in one kernel or another
_CALLS: tuple[tuple[int, tuple[int, ...], tuple[str, ...]], ...] = (
    (257, (-100, MEMORY, 0, 0), ("do_sys_openat2", "do_filp_open", "getname_flags", "__x64_sys_openat", "vfs_open")),
    (257, (-100, MEMORY, 0o2100, 0o600), ("do_sys_openat2", "do_filp_open", "do_dentry_open", "alloc_empty_file")),
    (262, (-100, MEMORY, MEMORY + 0x1000, 0), ("vfs_statx", "vfs_fstatat", "filename_lookup", "vfs_getattr")),
    (79, (MEMORY + 0x1000, 100, 0, 0), ("__x64_sys_getcwd", "__do_sys_getcwd")),
    (157, (16, MEMORY + 0x1000, 0, 0), ("__x64_sys_prctl", "__do_sys_prctl", "security_task_prctl")),
    (63, (MEMORY + 0x1000, 0, 0, 0), ("__x64_sys_newuname", "__do_sys_newuname")),
    (21, (MEMORY, 4, 0, 0), ("do_faccessat", "__x64_sys_access", "user_path_at_empty", "prepare_creds")),
    (267, (-100, MEMORY, MEMORY + 0x1000, 99), ("do_readlinkat", "__x64_sys_readlinkat")),
    (258, (-100, MEMORY, 0o700, 0), ("do_mkdirat", "__x64_sys_mkdirat", "filename_create")),
    (32, (0, 0, 0, 0), ("__x64_sys_dup", "fget_raw", "get_unused_fd_flags")),
    (39, (0, 0, 0, 0), ("__x64_sys_getpid",)),
    (9, (0, 4096, 3, 0x22), ("vm_mmap_pgoff", "ksys_mmap_pgoff", "__x64_sys_mmap")),
    (221, (-2, MEMORY, 3, 1), ("ksys_fadvise64_64", "__x64_sys_fadvise64")),
)
_TEXTS = (b"/", b"/etc/hostname", b"/dev/null", b"/nosuch", b"", b"x" * 100, b"etc/../proc", b"/tmp/\xff\xfe", b"a\nb")
_POINTERS = (
    "di",
    "si",
    "dx",
    "cx",
    "di",
    "si",
    "dx",
    "cx",
    "sp",
)  # other registers may point at the tracer's own memory
_REGISTERS = ("di", "si", "dx", "cx", "r8", "r9", "bx", "bp", "ax", "r12", "sp")


class Calls:
    """A source of cases about calls that an oracle has to record."""

    def __init__(self, random: Random, filters: Filters, functions: Iterable[str]) -> None:
        self._random = random
        self._filters = filters
        self._there = frozenset(functions)

    def case(self) -> list[Operation]:
        """Return probes on a function, a call that reaches it, and reads of the result."""
        random = self._random
        number, arguments, functions = random.choice(_CALLS)
        there = [name for name in functions if name in self._there] or ["ksys_fadvise64_64"]
        function = random.choice(there)
        paths = [self._path() for _ in range(random.randrange(4))]
        operations = before(function)
        events = [f"e{index}" for index in range(random.choice((1, 2, 4)))]
        for event in events:
            kind = random.choice("pppr")
            words = [f"f{index}={self._fetched(kind, paths)}" for index in range(random.randrange(1, 6))]
            operations.append(Write("kprobe_events", f"{kind}:g/{event} {function} {' '.join(words)}".encode()))
        operations += after(function, paths)
        for event in events:
            operations.append(
                Write(f"events/g/{event}/filter", OURS[1])
            )  # the task that performs the operations has the same name
            if random.random() < 0.2:
                operations.append(Write(f"events/g/{event}/filter", OURS[1] + b" && " + self._condition()))
        if random.random() < 0.5:
            option = random.choice(("stacktrace", "sym-offset", "sym-addr", "stacktrace"))
            operations.append(Write("trace_options", option.encode()))
            if option == "stacktrace" and random.random() < 0.5:
                operations.append(Write("trace_options", b"sym-offset"))
        operations.append(Write("events/g/enable", b"1"))
        for _ in range(random.choice((1, 1, 2))):
            text = random.choice(_TEXTS) + b"\0"
            operations.append(Observed(function, number, arguments, text, tuple(paths)))
        return [*operations, Write("events/g/enable", b"0"), Read("trace")]

    def _condition(self) -> bytes:
        # a filter that every event accepts: a refused one would let other tasks' hits through
        return self._random.choice((b"cpu == 0", b"common_flags >= 0", b'comm != "x"', b"common_pid > 0", b"cpu != 0"))

    def _path(self) -> Path:
        random = self._random
        offsets = tuple(random.choice((0, 0, 8, 16, 24, 32, 64, 104, 128)) for _ in range(random.choice((1, 1, 2, 3))))
        return Path(random.choice(_POINTERS), offsets)

    def _fetched(self, kind: str, paths: list[Path]) -> str:
        random = self._random
        number = random.choice(("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "x8", "x16", "x32", "x64"))
        if kind == "r":
            register = random.choice(_REGISTERS)
            kept = (f"%{register}", f"%{register}:{number}", f"%{register}:symbol")
            return random.choice(("$retval", f"$retval:{number}", "$comm", "$retval:symbol", "\\7:u8", *kept))
        if paths and random.random() < 0.6:
            path = random.choice(paths)
            depth = random.randrange(1, len(path.offsets) + 1)
            types = (
                number,
                number,
                f"{number}[{random.choice((1, 2, 4, 8))}]",
                "symbol",
                "string",
                "ustring",
                "b4@2/16",
            )
            return f"{path.text(depth)}:{random.choice(types)}"
        register = random.choice(_REGISTERS)
        plain = (f"%{register}", f"%{register}:{number}", f"%{register}:symbol", f"$stack{random.randrange(12)}:symbol")
        return random.choice(
            (*plain, f"$arg{random.randrange(1, 7)}:{number}", "$stack0", "$comm", "%ip:symbol", "$stack")
        )
