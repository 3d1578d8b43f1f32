"""Random pid filters: which tasks are traced, forks followed, names changed."""

from __future__ import annotations

import os
from random import Random

from kprobe_lab.generators.traces import MEMORY
from kprobe_lab.operations.operation import PID, Call, Make, Operation, Read, Write

_LISTS = (PID, PID, PID + b"\n", b"1", b"1 " + PID, PID + b" 7", b"", b"x", b"0", PID + b"\0", b"7\n8\n9")
_NAMES = (b"workload", b"other", b"two words", b"fifteen-letters", b"a:b", b"<x>", b"", b"x-1", b"\xff")


class Pids:
    """A source of cases about set_event_pid and names of tasks."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def case(self) -> list[Operation]:
        """Return lists of pids written, and calls and forks that they are about."""
        random = self._random
        operations: list[Operation] = [Write("kprobe_events", b"p:g/a ksys_fadvise64_64 a0=%si\np:g/f kernel_clone")]
        prefix = ""
        if random.random() < 0.3:
            prefix = "instances/i1/"
            operations.append(Make("instances/i1"))
        for name in ("a", "f"):
            operations.append(Write(f"{prefix}events/g/{name}/filter", b"common_pid == " + PID))
        operations.append(Write(f"{prefix}events/g/enable", b"1"))
        followed = random.random() < 0.3  # if so, a list keeps ended children until they are freed
        for _ in range(random.randrange(2, 10)):
            roll = random.random()
            if roll < 0.35:
                path = f"{prefix}{random.choice(('set_event_pid', 'set_event_pid', 'set_event_notrace_pid'))}"
                flags = random.choice((os.O_WRONLY, os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND))
                operations += [Write(path, random.choice(_LISTS), flags), Read("kprobe_events" if followed else path)]
            elif roll < 0.65:
                operations.append(Call("fadvise", (-2, MEMORY, random.choice((0, 1, 5)), 0, b"text\0")))
            elif roll < 0.75:
                operations.append(Call("fork", ()))
            elif roll < 0.85:
                choices = (b"record-tgid", b"norecord-cmd", b"record-cmd", b"noevent-fork")
                option = random.choice((b"event-fork", *choices) if followed else choices)
                operations.append(Write(f"{prefix}trace_options", option))
            elif roll < 0.92:
                operations.append(Call("rename", (random.choice(_NAMES),)))
            else:
                operations.append(Write(f"{prefix}events/g/enable", random.choice((b"0", b"1"))))
        operations.append(Write(f"{prefix}events/g/enable", b"0"))
        return [*operations, Read(f"{prefix}trace"), Call("rename", (b"workload",))]
