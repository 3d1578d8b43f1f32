"""The questions that a recorder asks a freshly booted guest: every answer by name, as bytes.

The order matters: the pristine tree is read before anything is written, and what can't be undone (the buffer that
expands when an event is first enabled) comes last.  Nothing here depends on the kernel's version: what a kernel
doesn't have is simply not in its answers.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Callable

from kprobe_vm.recording.functions import functions
from kprobe_vm.recording.guest import TRACING, Guest, Tree

# Reading these waits for events, or gives binary pages.
UNREAD = ("trace_pipe", "trace_pipe_raw", "snapshot_raw")
# The files that are read, out of the events' thousands; all others of their kind say the same.
SAMPLE_EVENTS = ("events/sched/sched_switch", "events/ftrace")
STAT = "-exec stat -c '%f %u %g %h %s %n' {} +"
SECTIONS = "find /sys/module/*/sections -type f -exec grep -H . {} + 2>/dev/null; true"
AT_PAGESZ = 6
LATENCY = "options/latency-format"


def ask(guest: Guest, progress: Callable[[str], None]) -> dict[str, bytes]:
    """Return all answers of a guest that has just booted.  Raises OSError where one that must be there isn't."""
    progress("reading the pristine tracefs")
    answers = {"tree": guest.shell(f"cd /{TRACING} && find . {STAT}")}
    _files(guest, answers, answers["tree"].decode(), "", "files/")
    progress("reading the formats of all events")
    answers["formats.list"] = guest.shell(f"cd /{TRACING} && find events -name format")
    answers["formats"] = guest.shell(f"cd /{TRACING} && find events -name format -exec cat {{}} +")
    progress("reading symbols, blacklist and BTF")
    answers["kallsyms"] = guest.read("proc/kallsyms")
    answers["blacklist"] = guest.read("sys/kernel/debug/kprobes/blacklist")
    for name in ("version", "cpuinfo", "modules", "cmdline"):
        answers[name] = guest.read(f"proc/{name}")
    with contextlib.suppress(OSError):
        answers["btf"] = guest.read("sys/kernel/btf/vmlinux")
    with contextlib.suppress(OSError):
        answers["config.gz"] = guest.read("proc/config.gz")
    answers["page_size"] = b"%d" % _auxv(guest.read("proc/self/auxv"), AT_PAGESZ)
    answers["tasks"] = guest.tasks()
    answers["sections"] = guest.shell(SECTIONS)
    progress("making a probe, an instance, an enabled event")
    _probe(guest, answers)
    _instance(guest, answers)
    _latency(guest, answers)
    _expand(guest, answers)
    return answers


def _files(guest: Guest, answers: dict[str, bytes], tree: str, below: str, prefix: str) -> None:
    """Read every small file of a tree that can be read; the errno of those that refuse is an answer too."""
    for line in tree.splitlines():
        mode, path = int(line.split(" ", 1)[0], 16), line.split(" ", 5)[5].removeprefix("./")
        name = path.rpartition("/")[2]
        if mode >> 12 == 4 or not mode & 0o444 or name in UNREAD:
            continue
        if path.count("/") > 1 and path.startswith("events/") and not path.startswith(SAMPLE_EVENTS):
            continue
        try:
            answers[prefix + path] = guest.read(f"{TRACING}/{below}{path}")
        except OSError as error:
            if not below:
                answers[f"errors/{path}"] = b"%d" % (error.errno or 0)


def _auxv(data: bytes, kind: int) -> int:
    pairs = struct.iter_unpack("<QQ", data[: len(data) // 16 * 16])
    return int(next(value for key, value in pairs if key == kind))


def _probe(guest: Guest, answers: dict[str, bytes]) -> None:
    sample = functions(answers["kallsyms"].decode()).opening
    events = f"{TRACING}/kprobe_events"
    for number in (1, 2):
        guest.write(events, f"p:recorded {sample}".encode())
        directory = f"{TRACING}/events/kprobes/recorded"
        answers[f"id{number}"] = guest.read(f"{directory}/id")
        if number == 1:
            tree = guest.shell(f"cd /{TRACING}/events/kprobes && find . {STAT}").replace(b"/recorded", b"/one")
            answers["kprobes.tree"] = tree
            for name in ("enable", "filter", "hist", "trigger", "format"):
                with contextlib.suppress(OSError):
                    answers[f"probe/{name}"] = guest.read(f"{directory}/{name}")
            for name in ("enable", "filter"):
                answers[f"group/{name}"] = guest.read(f"{TRACING}/events/kprobes/{name}")
        guest.write(events, b"-:recorded")
    # how a listing shows an absolute address: hashed, or as it is
    answers["hashed"] = b""
    with contextlib.suppress(OSError):
        guest.write(events, b"p:recorded 4096")
        answers["hashed"] = guest.read(events)
        guest.write(events, b"-:recorded")


def _instance(guest: Guest, answers: dict[str, bytes]) -> None:
    instance = f"{TRACING}/instances/recorded"
    guest.mkdir(instance)
    try:
        tree = guest.shell(f"cd /{instance} && find . -path './events/*' -prune -o {STAT}")
        answers["instance.tree"] = tree
        _files(guest, answers, tree.decode(), "instances/recorded/", "instance/")
    finally:
        guest.rmdir(instance)


def _latency(guest: Guest, answers: dict[str, bytes]) -> None:
    """The header of latency-format shows the preemption model, `(M:desktop VP:0, ...`, if there is an entry.

    The entry, a mark, also shows the address that the kernel names as the source of marks.
    """
    guest.write(f"{TRACING}/{LATENCY}", b"1")
    guest.write(f"{TRACING}/trace_marker", b"recorded")
    header = guest.read(f"{TRACING}/trace")
    guest.write(f"{TRACING}/{LATENCY}", b"0")
    model = re.search(rb"\(M:([^():]*) VP:", header)
    if model is None:
        raise ValueError(f"no preemption model in {header!r}")
    answers["preempt_model"] = model.group(1)
    guest.write(f"{TRACING}/options/sym-offset", b"1")
    offset = re.search(rb" tracing_mark_write\+0x([0-9a-f]+)/", guest.read(f"{TRACING}/trace"))
    guest.write(f"{TRACING}/options/sym-offset", b"0")
    answers["marker_offset"] = offset.group(1) if offset else b"0"


def _expand(guest: Guest, answers: dict[str, bytes]) -> None:
    switch = f"{TRACING}/events/sched/sched_switch/enable"
    guest.write(switch, b"1")
    guest.write(switch, b"0")
    for name in ("buffer_size_kb", "buffer_total_size_kb"):
        answers[f"expanded/{name}"] = guest.read(f"{TRACING}/{name}")


class Memory:
    """The guest kernel's memory by its virtual addresses, through /proc/kcore (an ELF core file).

    Raises OSError where that can't be opened, ValueError for another file.
    """

    def __init__(self, files: Tree) -> None:
        self._file = files.open("proc/kcore", os.O_RDONLY)
        head = self._file.read(4096)
        while len(head) < 4096:
            piece = self._file.read(4096 - len(head))
            if not piece:
                break
            head += piece
        if len(head) < 64:
            self.close()
            raise ValueError("/proc/kcore is no core file")
        start, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        self._segments = []
        for index in range(count):
            kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", head, start + size * index)
            if kind == 1:
                self._segments.append((address, length, offset))

    def read(self, address: int, size: int) -> bytes:
        """Return bytes at a virtual address; raises ValueError where /proc/kcore has none."""
        for start, length, offset in self._segments:
            if start <= address and address + size <= start + length:
                self._file.lseek(offset + address - start)
                data = bytearray()
                while len(data) < size:
                    piece = self._file.read(min(size - len(data), 1 << 19))
                    if not piece:
                        raise ValueError(f"/proc/kcore ends in {address:#x}+{size:#x}")
                    data += piece
                return bytes(data)
        raise ValueError(f"/proc/kcore doesn't have {address:#x}+{size:#x}")

    def close(self) -> None:
        """Close the file in the guest."""
        self._file.close()
