"""Random triggers, and the calls that fire them."""

from __future__ import annotations

from random import Random

from kprobe_lab.generators.filters import Filters
from kprobe_lab.generators.traces import MEMORY
from kprobe_lab.operations.operation import Call, Make, Operation, Read, Write

_COUNTS = ("", "", "", ":1", ":2", ":3", ":0", ":-1", ":x", ":", ":1:2", ":0x2", ": 1", ":18446744073709551616")
_NAMES = ("traceon", "traceoff", "snapshot", "stacktrace", "enable_event", "disable_event")
_ODD = ("hist", "enable_hist:g:b", "nosuch", "", "Traceon", "traceonx", "!", "!!traceon", " traceoff", "if", "eprobe")
_HISTS = (
    *("hist:keys=a0", "hist:key=a0.hex", "hist:keys=a0,a1:vals=a1", "hist:keys=common_pid:sort=hitcount.descending"),
    *("hist:keys=a0.log2:size=64", "hist:keys=nosuch", "hist:vals=a0", "hist:keys=stacktrace", "hist:keys=a0:pause"),
    *("hist:keys=a0:clear", "hist:keys=a0:cont", "hist:keys=a0:size=3", "hist:keys=a0:name=x", "hist:keys=a0.sym"),
)


class Triggers:
    """A source of cases about the trigger files."""

    def __init__(self, random: Random, filters: Filters) -> None:
        self._random = random
        self._filters = filters

    def case(self) -> list[Operation]:
        """Return triggers set, removed and fired, and what they leave behind."""
        random = self._random
        operations: list[Operation] = [
            Write("kprobe_events", b"p:g/a ksys_fadvise64_64 a0=%si a1=%cx:u8\nr:g/b ksys_fadvise64_64 a0=$retval:s32")
        ]
        prefix = ""
        if random.random() < 0.25:
            prefix = "instances/i1/"
            operations.append(Make("instances/i1"))
        events = [f"{prefix}events/g/{name}" for name in "ab"]
        for event in events:
            operations.append(Write(f"{event}/filter", b'comm == "workload"'))
        for _ in range(random.randrange(2, 14)):
            event = random.choice(events)
            roll = random.random()
            if roll < 0.5:
                operations.append(Write(f"{event}/trigger", self._text()))
                operations.append(Read(f"{event}/trigger"))
            elif roll < 0.6:
                operations.append(Write(f"{event}/enable", random.choice((b"1", b"0"))))
            elif roll < 0.8:
                call = (-2, MEMORY, random.choice((0, 1, 5, 77)), random.choice((0, 1, 5)), b"text\0")
                operations.append(Call("fadvise", call))
                operations.append(Read(f"{prefix}tracing_on"))
            elif roll < 0.85:
                operations.append(Read(f"{prefix}{random.choice(('snapshot', 'trace', 'error_log'))}"))
            elif roll < 0.9:
                operations.append(Write(f"{prefix}tracing_on", random.choice((b"1", b"0"))))
            elif roll < 0.95:
                operations.append(Write(f"{prefix}snapshot", random.choice((b"0", b"1", b"2"))))
            else:
                operations.append(Write("kprobe_events", random.choice((b"-:g/a", b"-:g/b", b"-:g/"))))
        operations += [Read(f"{event}/{name}") for event in events for name in ("trigger", "enable")]
        return [*operations, *(Read(f"{prefix}{name}") for name in ("tracing_on", "trace", "snapshot", "error_log"))]

    def _text(self) -> bytes:
        random = self._random
        roll = random.random()
        if roll < 0.06:
            text = random.choice(_ODD)
        elif roll < 0.12:
            text = random.choice(_HISTS)
        else:
            text = random.choice(_NAMES)
            if text.endswith("_event"):
                text += random.choice((":g:b", ":g:b", ":g:a", ":g:nosuch", ":g", "", ":g:b:", ":sched:nosuch", "::b"))
        is_hist = text.startswith("hist:")
        text += random.choice(_COUNTS) if not is_hist else ""
        if random.random() < 0.35:
            condition = (
                self._filters.passed_alike(("a0", "a1"))
                if random.random() < 0.6
                else random.choice((b"a0 > 4", b"a1 == 5"))
            )
            word = random.choice((" if ", " if ", " if ", "if ", " if", ":if ", " "))
            text += (" if " if is_hist else word) + condition.decode("latin-1")
        if random.random() < 0.3:
            text = "!" + text
        return (text + random.choice(("", "\n", " ", "\n\n"))).encode("latin-1")
