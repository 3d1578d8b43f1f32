"""An oracle: a probe that records the registers, stack and memory of a real call, so that a simulator can replay it.

The oracle's events are defined and enabled on both sides, so that everything that shows them is equal; only the
kernel's are read.  kprobe_vm.traces.pages decodes them, which shares no code with kprobe_text on purpose.  `zz_o/in` is
defined last, so that it runs first, before another probe has replaced a return address; `zz_o/out` is defined first.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kprobe_lab.operations.operation import PID, Hit, Make, Operation, Write
from kprobe_sim.tree.files.tracefs import OpenableTracefs
from kprobe_vm.traces.pages import PAGE, records

INSTANCE = "instances/zz_oracle"
REGISTERS = (
    *("di", "si", "dx", "cx", "r8", "r9", "ax", "bx", "bp", "r10", "r11", "r12", "r13", "r14", "r15"),
    *("flags", "sp", "cs", "ss"),
)
RETURNED = tuple(
    name for name in REGISTERS if name not in ("ax", "sp")
)  # both are known: the result, and the call's stack pointer + 8
STACK_WORDS = 40
STACK_SIZE = 16384  # bytes of a kernel stack, which is aligned to its size
WORDS = 32  # read at a pointer
_STACK_TYPE = 4


class Path(NamedTuple):
    """Where a fetch argument's memory lies: a register, then offsets, each added and dereferenced."""

    register: str
    offsets: tuple[int, ...]

    def text(self, count: int) -> str:
        """Return the expression of the first `count` dereferences."""
        expression = f"%{self.register}"
        for offset in self.offsets[:count]:
            expression = f"{offset:+d}({expression})"
        return expression


def before(function: str) -> list[Operation]:
    """Return the operation that defines the oracle's first event."""
    words = " ".join(f"{name}=%{name}:x64" for name in RETURNED)
    return [Write("kprobe_events", f"r:zz_o/out {function} v=$retval:x64 {words}".encode())]


def after(function: str, paths: Sequence[Path]) -> list[Operation]:
    """Return the operations that define its other event, and let both record the task's hits."""
    words = [f"{name}=%{name}:x64" for name in REGISTERS] + [f"stack=+0($stack):x64[{STACK_WORDS}]"]
    for number, (path, depth) in enumerate(_steps(paths)):
        words.append(f"p{number}={path.text(depth)}:x64[{WORDS}]")
        words.append(f"s{number}={path.text(depth)}:string")
    operations: list[Operation] = [
        Write("kprobe_events", f"p:zz_o/in {function} {' '.join(words)}".encode()),
        Make(INSTANCE),
        Write(f"{INSTANCE}/trace_options", b"stacktrace"),
    ]
    for name in ("in", "out"):
        operations.append(Write(f"{INSTANCE}/events/zz_o/{name}/filter", b"common_pid == " + PID))
        operations.append(Write(f"{INSTANCE}/events/zz_o/{name}/enable", b"1"))
    return operations


def _steps(paths: Sequence[Path]) -> list[tuple[Path, int]]:
    """Return every dereference of the paths once."""
    steps: dict[str, tuple[Path, int]] = {}
    for path in paths:
        for depth in range(1, len(path.offsets) + 1):
            steps.setdefault(path.text(depth), (path, depth))
    return list(steps.values())


class Oracle:
    """Reads what the events recorded in a guest."""

    def __init__(self, tracefs: OpenableTracefs) -> None:
        self._tracefs = tracefs

    def is_there(self) -> bool:
        """Return whether the kernel accepted its events."""
        return all(self._tracefs.exists(f"events/zz_o/{name}/id") for name in ("in", "out"))

    def hits(self, paths: Sequence[Path]) -> tuple[Hit, ...]:
        """Return the hits since the last call, without those whose return was lost."""
        ids = {name: int(self._tracefs.read(f"events/zz_o/{name}/id")) for name in ("in", "out")}
        hits: list[Hit] = []
        open_hits: list[Hit] = []
        last = 0
        for data in self._records():
            (kind,) = struct.unpack_from("<H", data)
            if kind == ids["in"]:
                open_hits.append(self._hit(data, paths))
            elif kind == _STACK_TYPE and last == ids["in"] and open_hits:
                size = struct.unpack_from("<I", data, 8)[0]
                chain = struct.unpack_from(f"<{min(size, (len(data) - 16) // 8)}Q", data, 16)
                open_hits[-1] = open_hits[-1]._replace(chain=tuple(chain[1:]))  # the first is the function's own
            elif kind == ids["out"] and open_hits:
                result, *returned = struct.unpack_from(f"<{1 + len(RETURNED)}Q", data, 24)
                registers = dict(zip(RETURNED, returned, strict=True))
                hits.append(open_hits.pop()._replace(returns=result, returned=registers))
            last = kind
        return tuple(hits)

    def _hit(self, data: bytes, paths: Sequence[Path]) -> Hit:
        count = len(REGISTERS)
        values = struct.unpack_from(f"<{count}Q", data, 16)
        registers = dict(zip(REGISTERS, values, strict=True))
        at = 16 + 8 * count
        pointer = registers["sp"]
        room = min(8 * STACK_WORDS, STACK_SIZE - pointer % STACK_SIZE)
        memory = {pointer: data[at : at + room]}
        at += 8 * STACK_WORDS
        pointers: dict[str, int] = {}
        is_complete = True
        for path, depth in _steps(paths):
            block = data[at : at + 8 * WORDS]
            location = int.from_bytes(data[at + 8 * WORDS : at + 8 * WORDS + 4], "little")
            at += 8 * WORDS + 4
            base = registers[path.register] if depth == 1 else pointers.get(path.text(depth - 1))
            if base is None or not location >> 16:
                is_complete = False  # the kernel couldn't read there
                continue
            address = (base + path.offsets[depth - 1]) & (2**64 - 1)
            if address // STACK_SIZE == pointer // STACK_SIZE:
                block = block[: STACK_SIZE - address % STACK_SIZE]
            pointers[path.text(depth)] = int.from_bytes(block[:8], "little")
            memory[address] = block
        return Hit(registers, _merged(memory), (), 0, is_complete)

    def _records(self) -> Iterator[bytes]:
        with self._tracefs.open(f"{INSTANCE}/per_cpu/cpu0/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK) as file:
            while True:
                try:
                    page = file.read(PAGE)
                except OSError as error:
                    if error.errno != errno.EAGAIN:
                        raise
                    return
                if not page:
                    return
                yield from (record.data for record in records(page, 0))


def _merged(blocks: dict[int, bytes]) -> dict[int, bytes]:
    """Return the same bytes in blocks that don't overlap."""
    merged: list[tuple[int, bytes]] = []
    for address in sorted(blocks):
        block = blocks[address]
        if merged and address <= merged[-1][0] + len(merged[-1][1]):
            start, joined = merged[-1]
            merged[-1] = start, joined + block[max(0, start + len(joined) - address) :]
        else:
            merged.append((address, block))
    return dict(merged)
