"""Random ring buffers: marks and calls, and all ways to read them, whole and piece by piece."""

from __future__ import annotations

import os
from random import Random

from kprobe_lab.generators.traces import MEMORY
from kprobe_lab.operations.operation import Call, Handle, List, Make, Operation, Read, Write

_MARKS = (b"one\ntwo", b"x", b"x\n", b"longer " * 20, b"y" * 500, b"z" * 1100, b"\xff\0a", b"a" * 4000)
_READERS = ("trace", "trace", "per_cpu/cpu0/trace", "snapshot", "per_cpu/cpu0/snapshot", "per_cpu/cpu0/stats")
_OPTIONS = (
    *("nocontext-info", "raw", "hex", "bin", "noraw", "nohex", "nobin", "context-info", "annotate", "noannotate"),
    *("sym-addr", "verbose", "latency-format", "nolatency-format", "noirq-info", "record-tgid", "noprintk-msg-only"),
    *("printk-msg-only", "fields", "nofields", "nooverwrite", "overwrite", "stacktrace", "nostacktrace"),
)
_CASES = ("trace_pipe", "per_cpu/cpu0/trace_pipe", "trace", "per_cpu/cpu0/trace", "snapshot")
_SIZES = (1, 3, 16, 60, 100, 1000, 4095, 4096, 8192, 65536)


class Buffers:
    """A source of cases about the ring buffer and its files."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def case(self) -> list[Operation]:
        """Return operations that record, and operations that read the records."""
        random = self._random
        operations: list[Operation] = [
            Write("kprobe_events", b"p:g/a ksys_fadvise64_64 a0=%si a1=%cx:u8 a2=+0(%si):string\n")
        ]
        prefix = ""
        if random.random() < 0.3:
            prefix = "instances/i1/"
            operations.append(Make("instances/i1"))
        operations.append(Write(f"{prefix}events/g/a/filter", b'comm == "workload"'))
        operations.append(Write(f"{prefix}events/g/a/enable", b"1"))
        plain = random.random() < 0.6  # without times and names, pieces of text can be compared
        if plain:
            operations.append(Write(f"{prefix}trace_options", b"nocontext-info"))
        for _ in range(random.randrange(2, 12)):
            operations.append(self._pick(prefix, plain))
        operations.append(Write(f"{prefix}events/g/a/enable", b"0"))
        operations += [Read(f"{prefix}{random.choice(_READERS)}") for _ in range(2)]
        return [*operations, Read(f"{prefix}trace"), Read(f"{prefix}per_cpu/cpu0/stats")]

    def _pick(self, prefix: str, plain: bool) -> Operation:
        random = self._random
        roll = random.random()
        if roll < 0.2:
            return Write(f"{prefix}trace_marker", random.choice(_MARKS))
        if roll < 0.4:
            text = random.choice((b"hello\0", b"\0", b"a\nb\0", b"\xff\xfe\0", b"w" * 200 + b"\0"))
            call = (-2, MEMORY, random.choice((0, 1, 5, 77)), random.choice((0, 1, 255)), text)
            return Call("fadvise", call)
        if roll < 0.5:
            return Write(f"{prefix}trace_options", self._option(plain).encode())
        if roll < 0.6:
            return Read(f"{prefix}{random.choice(_READERS)}")
        if roll < 0.7:
            path = random.choice(("snapshot", "snapshot", "per_cpu/cpu0/snapshot"))
            return Write(f"{prefix}{path}", random.choice((b"0", b"1", b"2", b"x", b"")))
        if roll < 0.75:
            return Write(f"{prefix}{random.choice(('trace', 'per_cpu/cpu0/trace'))}", b"", os.O_WRONLY | os.O_TRUNC)
        if roll < 0.8:
            path = random.choice(("buffer_size_kb", "per_cpu/cpu0/buffer_size_kb"))
            return Write(f"{prefix}{path}", random.choice((b"1", b"4", b"8", b"100", b"1408")))
        if roll < 0.83:
            return self._raw_mark(prefix, plain)
        if roll < 0.86:
            return List(f"{prefix}per_cpu/cpu0")
        return self._looked_at(prefix, plain)

    def _option(self, plain: bool) -> str:
        option = self._random.choice(_OPTIONS)
        if plain:
            return "nocontext-info" if option in ("context-info", "bin", "hex") else option
        return "sym-addr" if option in ("raw", "hex", "bin", "context-info") else option

    def _raw_mark(self, prefix: str, plain: bool) -> Operation:
        if plain:  # such a mark ends with old contents of the buffer
            return Write(f"{prefix}trace_marker", b"raw\n")
        marks = (b"abcd", b"abcdefgh", b"\1\0\0\0" + b"r" * 50)
        return Write(f"{prefix}trace_marker_raw", self._random.choice(marks))

    def _looked_at(self, prefix: str, plain: bool) -> Operation:
        random = self._random
        path = random.choice(_CASES)
        steps: list[tuple[object, ...]] = []
        for _ in range(random.randrange(1, 6)):
            size = random.choice(_SIZES) if plain else 1 << 16
            seek = plain and random.random() < 0.2 and not path.endswith("pipe")
            lseek = ("lseek", random.choice((0, 0, 1, 10, 100)), random.choice((0, 1)))
            steps.append(lseek if seek else ("read", size))
        return Handle(f"{prefix}{path}", os.O_RDONLY | os.O_NONBLOCK, tuple(steps))
