"""Random dynamic events of all kinds: event probes, fprobes, tracepoint probes, uprobes and synthetic events."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random

from kprobe_lab.generators.filters import Filters
from kprobe_lab.generators.grammar import Definitions
from kprobe_lab.generators.traces import MEMORY
from kprobe_lab.operations.operation import Call, Operation, Read, Sweep, Write

# each list begins with valid words, then come near misses
_ATTACHED = (
    *(
        "syscalls/sys_enter_fadvise64",
        "syscalls.sys_enter_fadvise64",
        "syscalls/sys_exit_fadvise64",
        "g/f",
        "g/f",
        "g.f",
    ),
    *("module/module_load", "synthetic/s1", "syscalls/sys_enter_swapon", "sched/sched_switch", "sched.sched_switch"),
    *("g/a", "g/b", "my/c", "g/k", "nosuch/x", "sched/nosuch", "sched", "", "/", "g/", "/k", "g/f/x", "ftrace/print"),
    *("ftrace/function", "eprobes/k", "sched sched_switch", "uprobes/a", "g:k", "synthetic.s1", "synthetic/s2"),
)
_EVENT_FIELDS = (
    *("$offset", "$len", "$advice:u8", "$a0", "$a1:x8", "$comm", "+0($offset):string", "x=$fd:s32", "y=$offset:symbol"),
    *("$ret", "$ret:s64", "+0($a0):string", "$offset:x64", "+8($offset):u32", "$COMM", "$__syscall_nr", "$name", "$u"),
    *("$c", "$c:string", "$name:string", "$taints:x32", "$prev_comm", "$prev_comm:string", "$refcnt", "$ret:string"),
    *(
        "$a0:string",
        "$nosuch",
        "%di",
        "a0",
        "$retval",
        "$stack",
        "$stack0",
        "$arg1",
        "$common_pid",
        "@linux_banner",
        "$",
    ),
    *("\\5", '\\"t"', "$a0[2]", "$len:b4@0/8", "$offset:u8[2]", "+0(+0($a0)):string", "$current", "$common_cpu"),
    *("$__probe_ip", "$a0=5", "=$a0", "1x=$a0", "common_pid=$a0", "$a0:nosuch", "+u0($offset):ustring", "if", "$cpu"),
    *("(task_struct)offset->pid", "(file)$offset->f_flags", "offset", "len:u8", "+0($len):u8", "$offset.x", "$len+1"),
)
_FUNCTIONS = (
    *("ksys_fadvise64_64", "ksys_fadvise64_64", "ksys_readahead", "__x64_sys_swapon", "ksys_fadvise64_64%return"),
    *(
        "ksys_readahead%return",
        "vfs_read",
        "vfs_read%return",
        "nosuch",
        "",
        "ksys_fadv*",
        "!ksys_readahead",
        "vfs_rea?",
    ),
    *("do_int3", "ksys_fadvise64_64+0", "ksys_fadvise64_64+5", "vfs_read%", "vfs_read%ret", "jiffies", "*nosuch*"),
    *("virtio_ring:virtqueue_add_sgs", "virtqueue_add_sgs", "t_show", "vfs_read%return+4", "0xffffffff81000000", "_"),
)
_FUNCTION_ARGUMENTS = (
    *("$arg1", "$arg2:x32", "x=$arg3:s64", "+0($arg2):string", "$comm", "\\5:u8", "offset", "$arg*", "fd"),
    *("$retval", "$retval:s8", "%di", "$stack0", "nosuch", "$arg9", "@linux_banner:u32", "file->f_flags", "$arg0"),
    *("len:u8", "$retval:string", "$argx", "x=", "=x", "a.b=$arg1", "$arg1:nosuch", "@linux_banner:string", "$", "buf"),
)
_TRACEPOINTS = (
    *("module_load", "module_free", "module_get", "sched_switch", "sched_waking", "nosuch", "", "module_load%return"),
    *("sched/sched_switch", "sched:sched_switch", "module_*", "1x", "sys_enter", "module_load+4", "*", "kfree_skb"),
)
_TRACEPOINT_ARGUMENTS = (
    *("mod", "$arg1", "$arg1:x64", "$comm", "\\5", "$arg*", "$retval", "prev", "preempt", "next->pid", "$stack0"),
    *("%di", "$arg9", "nosuch", "$arg1:string", "+0($arg1):u64", "x=mod", "mod->name", "mod->state", "$retvalx"),
)
_FILES = (
    *(
        "/bin/busybox",
        "/bin/busybox",
        "/bin/sh",
        "/bin/busybox",
        "/bin",
        "/missing",  # not one that a call of the campaign may make
        "/dev/null",
        "/etc/../bin/busybox",
        "",
    ),
    *("/", "bin/busybox", "/bin//busybox", "/bin/../bin/busybox", "/bin/busybox/x", "/proc/version", "busybox", "./x"),
    *("/bin/busy:box", "/bin/" + "x" * 256, "/tmp"),
)
_OFFSETS = (
    *(":0x1000", ":0x1004", ":0x2000", ":4096", ":0x1000%return", ":0x1000(0x2000)", ":0x1000(2)", ":0", ":0x1001"),
    *(":", "", ":x", ":0x", ":-1", ":0x1000%", ":0x1000%ret", ":0x1000(", ":0x1000()", ":0x1000(1", ":0x1000(2)x"),
    *(":0x1000(x)", ":0x1000%return(2)", ":0x1000(2)%return", ":0x10000000000000000", ":0x7fffffffffffffff", ":08"),
    *(
        ":0xffffffffffffffff",
        ":0x1000(0x10000000000000000)",
        ":main",
        "+4",
        ":0x1000)",
        ":0x1000%return%return",
        ":1:2",
    ),
)
_USER_ARGUMENTS = (
    *("%di", "%si:x32", "$stack0", "+0(%si):string", "$comm", "\\5:u8", "$retval", "@+0x100", "@0x400000:u8", "%ip"),
    *("+u0(%di):ustring", "$stack", "%ax:b4@0/8", "+0(%si):u8[4]", "@main", "$arg1", "%di:symbol", "%di:symstr", "a"),
    *(
        "@+",
        "@+x",
        "@-1",
        "$stack0x1",
        "$comm:u8",
        "$current",
        "(task_struct)%di->pid",
        "this_cpu_ptr(%di)",
        "$retvalx",
    ),
    *("+0(%si):string[2]", '\\"t"', "%nosuch", "x=", "%di:nosuch", "$arg*", "+0($stack):u64", "@+0x10000000000000000"),
)
_FIELDS = (
    *("u64 lat", "pid_t pid", "char comm[16]", "int x", "unsigned long y", "s32 a", "char name[]", "bool b", "u8 c"),
    *("unsigned int z", "gfp_t g", "char u", "unsigned char v", "long w", "unsigned long st[]", "long[] st", "s64 d"),
    *("u64", "nosuch x", "u64 1x", "char x[0]", "char x[257]", "char x[256]", "char x[-1]", "char x[", "char[8] x"),
    *(
        "u64 x[4]",
        "unsigned",
        "unsigned x",
        "u64 lat lat2",
        "struct x y",
        "u64  two",
        "\tu64\ttab",
        "char *p",
        "u64 a,b",
    ),
    *("__data_loc char[] s", "unsigned  long q", "u64 x u64 y", "char x[08]", "char x[0x10]", "char x]", "int a-b", ""),
)
_NAMES = ("g/a", "g/b", "my/c", "g/f", "my/a", "g/k", "g/r", "synthetic/s1")
_ODD_NAMES = ("a", "", "g/", "/a", "g/1x", "1g/a", "g.a", "g-h/a", "g/" + "x" * 64, "g/a b", "my/a/b", "é")
_SYNTHETIC = ("s1", "s2", "s1", "e", "1x", "", "a-b", "synthetic/s1", "x/s1", "s1/", "x" * 64, "sched_switch")
_DELETES = (
    "-:{0}",
    "-:{0}",
    "-:{0} x",
    "-:{1}",
    "-:{2}",
    "-:{2}/",
    "-{0}",
    "!{1}",
    "!s:{1}",
    "- {0}",
    "-:",
    "-:nosuch",
)
_LISTS = ("dynamic_events", "uprobe_events", "synthetic_events", "kprobe_events")
_FILES_OF = {
    "e": _LISTS[:1],
    "f": _LISTS[:1],
    "t": _LISTS[:1],
    "u": _LISTS[:2],
    "s": ("dynamic_events", "synthetic_events"),
}
_TEXT = b"text".ljust(256, b"\0")  # then the old contents of the memory don't matter
_QUIET = ("fadvise64", "ksys_", "swapon", "g/", "g.", "module_", "busybox", "synthetic")  # only the campaign does these
_SILENT = "n"  # a group that nobody enables, for events that other tasks would fire


class Kinds:
    """A source of cases about dynamic events of all kinds, and what they have to do with each other."""

    def __init__(self, random: Random, definitions: Definitions, filters: Filters) -> None:
        self._random = random
        self._definitions = definitions
        self._filters = filters

    def case(self) -> list[Operation]:
        """Return events made, attached to each other, enabled, fired, read and deleted."""
        random = self._random
        operations: list[Operation] = [
            Write("kprobe_events", b"p:g/k ksys_fadvise64_64 a0=%si a1=%cx:u8\nr:g/r ksys_fadvise64_64 a0=$retval:s32"),
            Write("dynamic_events", b"f:g/f ksys_fadvise64_64 a0=$arg2 a1=$arg4:u8"),
        ]
        if random.random() < 0.3:
            operations.append(Write("dynamic_events", b"s:s1 u64 u; char c[16]"))
        for _ in range(random.randrange(3, 16)):
            roll = random.random()
            if roll < 0.55:
                operations.append(self._definition())
                if random.random() < 0.3:
                    operations.append(Read("error_log"))
            elif roll < 0.68:
                operations.append(self._delete())
            elif roll < 0.8:
                operations.append(self._switch())
            elif roll < 0.88:
                number = random.choice((0, 1, 5, 77))
                operations.append(Call("fadvise", (-2, MEMORY, number, random.choice((0, 1, 5)), _TEXT)))
            elif roll < 0.91:
                flags = os.O_TRUNC | random.choice((os.O_WRONLY, os.O_RDWR))
                operations.append(
                    Write(random.choice(_LISTS), random.choice((b"", b"", b"p:g/k ksys_readahead")), flags)
                )
            elif roll < 0.94:
                path = f"events/{random.choice(_NAMES)}/filter"
                operations += [Write(path, self._filters.text(("a0", "a1", "arg1", "u", "c"))), Read(path)]
            else:
                operations.append(random.choice((Read(random.choice(_LISTS)), Sweep(kinds=True), Read("trace"))))
        return [*operations, Sweep(kinds=True), Read("trace")]

    def _pick(self, words: Sequence[str], usual: int, chance: float = 0.8) -> str:
        """Choose mostly one of the first `usual` words, otherwise any word."""
        return self._random.choice(words[:usual] if self._random.random() < chance else words)

    def _definition(self) -> Operation:
        random = self._random
        kind = random.choice("eefttuuss" if random.random() < 0.5 else "eftus")
        lines = [self._line(kind) for _ in range(1 if random.random() < 0.9 else 2)]
        path = random.choice(_FILES_OF[kind] if random.random() < 0.93 else _LISTS)
        if path == "synthetic_events" and random.random() < 0.95:
            lines = [line.removeprefix("s:") for line in lines]
        text = "\n".join(lines) + random.choice(("", "\n", "\n", "\n\n", " ", " # x", "#x"))
        return Write(path, text.encode("utf-8", "surrogateescape"))

    def _line(self, kind: str) -> str:
        random = self._random
        if kind == "s":
            text = f"s:{self._pick(_SYNTHETIC, 3)} " + random.choice(("; ", ";", "; ", " ;")).join(
                self._some(_FIELDS, 16, 1)
            )
            text = (
                text.removesuffix(" ")
                if random.random() < 0.9
                else text.replace("s:", random.choice(("s", "s: ", "S:")))
            )
        elif kind == "e":
            text = f"{self._head('e')} {self._pick(_ATTACHED, 8)} {' '.join(self._some(_EVENT_FIELDS, 9))}"
            if random.random() < 0.2:
                text += " if " + self._filters.text(("offset", "a1", "len", "u")).decode("utf-8", "surrogateescape")
        elif kind == "f":
            head = self._head(random.choice(("f", "f", "f", "f", "f10", "f0", "fx", "f-1", "f4097")))
            text = f"{head} {self._pick(_FUNCTIONS, 6)} {' '.join(self._some(_FUNCTION_ARGUMENTS, 9))}"
        elif kind == "t":
            text = f"{self._head(random.choice(('t', 't', 't', 't', 't1', 'tx')))} "
            text += f"{self._pick(_TRACEPOINTS, 3)} {' '.join(self._some(_TRACEPOINT_ARGUMENTS, 6))}"
        else:
            head = self._head(random.choice(("p", "p", "p", "r", "r", "p1", "r1", "px", "P")))
            point = self._pick(_FILES, 4) + self._pick(_OFFSETS, 7)
            text = f"{head} {point} {' '.join(self._some(_USER_ARGUMENTS, 10))}"
        point = text.partition(" ")[2]
        if not any(quiet in point for quiet in _QUIET):
            text = text.replace(":g/", f":{_SILENT}/").replace(":my/", f":{_SILENT}/")
        return self._definitions.mutated(text) if random.random() < 0.08 else text.rstrip(" ")

    def _head(self, kind: str) -> str:
        roll = self._random.random()
        if roll < 0.1:
            return kind
        return f"{kind}:{self._random.choice(_NAMES[:6] if roll < 0.9 else _ODD_NAMES)}"

    def _some(self, words: Sequence[str], usual: int, least: int = 0) -> list[str]:
        count = max(least, self._random.choice((0, 1, 1, 2, 3)))
        if self._random.random() < 0.01:
            count = self._random.choice((63, 64, 65, 128, 129))
        return [self._pick(words, usual, 0.92) for _ in range(count)]

    def _delete(self) -> Operation:
        random = self._random
        name = random.choice(_NAMES if random.random() < 0.9 else _ODD_NAMES)
        group, _, event = name.partition("/")
        text = random.choice(_DELETES[:5] if random.random() < 0.8 else _DELETES).format(name, event, group)
        path = random.choice(_LISTS[:1] if random.random() < 0.7 else _LISTS)
        if path == "synthetic_events" and random.random() < 0.8:
            text = f"!{random.choice(_SYNTHETIC[:4])}"
        if random.random() < 0.1:
            text += " " + random.choice((*_ATTACHED[:4], *_FUNCTIONS[:3], "/bin/busybox:0x1000", "a0=%si", "u64 u"))
        return Write(path, text.encode("utf-8"))

    def _switch(self) -> Operation:
        random = self._random
        name = random.choice(_NAMES)
        if random.random() < 0.15:
            name = name.partition("/")[0]
        if random.random() < 0.2:
            word = random.choice(("", "", "!")) + random.choice(
                (name.replace("/", ":"), f"g:{name.partition('/')[2]}", "g:*")
            )
            return Write("set_event", word.encode())
        return Write(f"events/{name}/enable", random.choice((b"1", b"1", b"1", b"0", b"2")))
