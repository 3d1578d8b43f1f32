"""Random control files: valid and invalid values, options, clocks, marks, sizes."""

from __future__ import annotations

import os
from random import Random

from kprobe_lab.generators.vocabulary import CONTROL_FILES, OPTIONS, SWITCHES, VALUES
from kprobe_lab.operations.operation import Make, Operation, Read, Write

_W, _RW = os.O_WRONLY, os.O_RDWR
_CLOCKS = ("global", "local", "counter", "uptime", "perf", "mono", "mono_raw", "boot", "tai", "x86-tsc", "x")
_MARKS = (
    *(b"x", b"", b"x\n", b"x\n\n", b"a\nb", b"\n", b"\0", b"a\0b", b"y" * 1023, b"y" * 1024, b"y" * 1025),
    *(b"\xff", b"%s%n", b"abcdefg", b"abcdefgh", b"z" * 3000, b"z" * 5000),
)
_PID_LISTS = (b"1 2 3", b"3\n2\n1\n", b"999999", b" 7", b"5 5 5", b"4194304", b"1 x 2", b"0")
_READ_ONLY = ("set_event", "events/enable", "snapshot", "tracing_cpumask", "stack_max_size")  # not written here


class Controls:
    """A source of cases about control files."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def case(self) -> list[Operation]:
        """Return control files written and read, and reads of the result."""
        random = self._random
        operations: list[Operation] = []
        prefix = ""
        if random.random() < 0.3:
            prefix = "instances/i1/"
            operations.append(Make("instances/i1"))
        written = []
        for _ in range(random.randrange(2, 12)):
            roll = random.random()
            usual = random.choice(VALUES)
            flags = random.choice((_W, _W, _W, _W | os.O_TRUNC, _RW, _W | os.O_APPEND))
            path, data = self._value(roll, usual)
            if path in _READ_ONLY:
                operations.append(Read(prefix + path))
                continue
            written.append(path)
            operations.append(Write(prefix + path, data, flags))
            operations.append(Read(prefix + ("trace" if path in ("trace_marker", "trace_marker_raw") else path)))
        operations += [Read(prefix + path) for path in dict.fromkeys(written)]
        return [*operations, Read(prefix + "trace_options"), Read(prefix + "trace"), Read("per_cpu/cpu0/stats")]

    def _switch(self) -> bytes:
        return self._random.choice(SWITCHES[:2] if self._random.random() < 0.8 else SWITCHES)

    def _value(self, roll: float, usual: bytes) -> tuple[str, bytes]:
        """Choose a file and what is written to it: `usual` unless the file has special values."""
        random = self._random
        if roll < 0.25:
            word = random.choice(("", "no")) + random.choice(OPTIONS[:24] if random.random() < 0.9 else OPTIONS)
            return "trace_options", random.choice((b"%s", b"%s\n", b" %s ", b"%s x", b"%s\0x")) % word.encode()
        if roll < 0.4:
            return f"options/{random.choice(OPTIONS[:24])}", self._switch()
        if roll < 0.5:
            form = random.choice((b"%s", b"%s\n", b" %s\t", b"%s x", b"[%s]", b"%s\0x"))
            return "trace_clock", form % random.choice(_CLOCKS).encode()
        if roll < 0.6:
            path = random.choice(("tracing_on", "trace_marker", "trace_marker", "trace_marker_raw"))
            return path, usual if path == "tracing_on" else random.choice(_MARKS)
        if roll < 0.7:
            return random.choice(("buffer_size_kb", "per_cpu/cpu0/buffer_size_kb", "buffer_size_kb")), usual
        if roll < 0.8:
            path = random.choice(("set_event_pid", "set_event_notrace_pid"))
            return path, random.choice((usual, *_PID_LISTS))
        return "saved_cmdlines_size" if roll < 0.85 else random.choice(CONTROL_FILES), usual
