"""Cases of a campaign: short sequences of operations, each kind about one part of the tracefs."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from kprobe_lab.generators.buffers import Buffers
from kprobe_lab.generators.calls import Calls
from kprobe_lab.generators.controls import Controls
from kprobe_lab.generators.filters import Filters
from kprobe_lab.generators.grammar import Definitions, is_of_kprobes
from kprobe_lab.generators.hists import Hists
from kprobe_lab.generators.kinds import Kinds
from kprobe_lab.generators.pids import Pids
from kprobe_lab.generators.traces import MEMORY, Traces
from kprobe_lab.generators.triggers import Triggers
from kprobe_lab.generators.vocabulary import CONTROL_FILES, SWITCHES
from kprobe_lab.generators.ways import Ways
from kprobe_lab.operations.operation import Call, Handle, List, Make, Operation, Read, Remove, Sweep, Write
from kprobe_lab.operations.symbols import Symbols

_W, _RW = os.O_WRONLY, os.O_RDWR


class Case(NamedTuple):
    """A sequence of operations, to be run on a tracefs that was put back."""

    area: str
    operations: list[Operation]


class Cases:
    """A source of random cases."""

    def __init__(self, random: Random, symbols: Symbols, ways: Ways | None = None) -> None:
        ways = ways or Ways()
        self._random = random
        self._definitions = Definitions(random, symbols)
        self._filters = Filters(random)
        self.traces = Traces(random, self._filters, ways)
        self.triggers = Triggers(random, self._filters)
        self.kinds = Kinds(random, self._definitions, self._filters)
        self.hists = Hists(random, self._filters, ways)
        self.buffers = Buffers(random)
        self.controls = Controls(random)
        self.pids = Pids(random)
        self.calls = Calls(random, self._filters, (name for name, _ in symbols.text))

    def next(self, area: str = "") -> Case:
        """Return a case, of that area or of any."""
        names = list(AREAS)
        area = area or self._random.choices(names, [AREAS[name][0] for name in names])[0]
        return Case(area, AREAS[area][1](self))

    def _event(self) -> str:
        return f"{self._random.choice(('kprobes', 'g', 'my', 'sched'))}/{self._random.choice('abc')}"

    # areas

    def definitions(self) -> list[Operation]:
        """Lines for kprobe_events, most of them refused, and reads of the result."""
        random = self._random
        events = [f"{group}/{event}" for group in ("kprobes", "g", "my") for event in ("a", "b", "c")]
        operations: list[Operation] = []
        for _ in range(random.choice((1, 4, 8, 16))):
            data = self._definitions.lines(events)
            path = "dynamic_events" if random.random() < 0.15 and is_of_kprobes(data) else "kprobe_events"
            flags = random.choice(
                (_W,) * 12 + (_W | os.O_APPEND, _RW, _W | os.O_TRUNC, _W | os.O_CREAT, _RW | os.O_TRUNC)
            )
            operations.append(Write(path, data, flags))
            if random.random() < 0.3:
                operations.append(Read("error_log"))
        return [*operations, Sweep()]

    def lives(self) -> list[Operation]:
        """Good probes: siblings, deletes, enables, filters, reads."""
        random = self._random
        events: list[str] = []
        operations: list[Operation] = []
        for _ in range(random.randrange(2, 14)):
            roll = random.random()
            event = random.choice(events) if events and random.random() < 0.8 else self._event()
            if roll < 0.3 or not events:
                event = self._event() if random.random() < 0.7 or not events else event
                operations.append(Write("kprobe_events", self._definitions.known(event)))
                events.append(event)
            elif roll < 0.42:
                operations.append(Write("kprobe_events", self._definitions.delete(events)))
            elif roll < 0.58:
                operations.append(Write(f"events/{event}/enable", self._switch()))
            elif roll < 0.66:
                operations += self._group_switched(event.partition("/")[0])
            elif roll < 0.76:
                operations.append(self._set_event(events))
            elif roll < 0.8:
                path = random.choice(("kprobe_events", "dynamic_events"))
                operations.append(Write(path, random.choice((b"", b"-:" + event.encode())), _W | os.O_TRUNC))
            elif roll < 0.86:
                operations.append(Write("dynamic_events", self._definitions.delete(events)))
            elif roll < 0.93:
                operations.append(Call("fadvise", (-2, MEMORY, random.randrange(99), 0, b"text\0")))
            else:
                operations.append(random.choice((Read("trace"), Read("set_event"), Sweep(), Read("kprobe_profile"))))
        return [*operations, Sweep(), Read("trace")]

    def _group_switched(self, group: str) -> list[Operation]:
        return [] if group == "sched" else [Write(f"events/{group}/enable", self._switch())]

    def _switch(self) -> bytes:
        return self._random.choice(SWITCHES[:2] if self._random.random() < 0.8 else SWITCHES)

    def _set_event(self, events: list[str]) -> Operation:
        random = self._random
        words = []
        for _ in range(random.choice((1, 1, 2, 3))):
            group, _, event = random.choice(events).partition("/")
            if group == "sched" and random.random() < 0.9:
                group = "g"
            forms = [
                f"{group}:{event}",
                f"*:{event}",
                f":{event}",
                event,
                f"{group}:{event}:x",
                f"{group}/{event}",
                "nosuch",
            ]
            if group != "sched":
                forms += [f"{group}:*", group, f"{group}:", f" {group}:{event}", f"{group}:{event} "]
            words.append(random.choice(("", "", "!", "!!")) + random.choice(forms))
        data = random.choice((" ", "\n", "\t", "  ")).join(words) + random.choice(("\n", "", " ", "\n\n", "\0"))
        return Write("set_event", data.encode(), random.choice((_W, _W, _W, _W | os.O_APPEND, _W | os.O_TRUNC)))

    def filters(self) -> list[Operation]:
        """Filters on events with fields of all kinds, and on groups."""
        random = self._random
        operations: list[Operation] = []
        events = []
        for event in random.sample(("g/a", "g/b", "my/a", "my/b"), random.choice((1, 1, 2, 3))):
            operations.append(Write("kprobe_events", self._definitions.quiet(event, random.randrange(1, 5))))
            events.append(event)
        static, more = self._static_events()
        events += static
        fields = ("a0", "a1", "a2", "a3", *more)
        instance = ""
        if random.random() < 0.1:
            instance = "instances/i1/"
            operations.append(Make("instances/i1"))
        for _ in range(random.choice((3, 8, 20))):
            event = random.choice(events)
            if random.random() < 0.1:
                event = event.partition("/")[0]
                if event not in ("g", "my"):
                    continue
            path = f"{instance}events/{event}/filter"
            operations.append(Write(path, self._filters.text(fields)))
            operations.append(Read(path))
            if random.random() < 0.3:
                operations.append(Read(f"{instance}error_log"))
            if random.random() < 0.05:
                operations.append(Write(f"events/{random.choice(events)}/enable", b"0"))
        operations += [Read(f"{instance}events/{event}/filter") for event in events]
        operations += [Write(f"{instance}events/{event}/filter", b"0") for event in events]
        return [*operations, Sweep(instance)]

    def _static_events(self) -> tuple[list[str], list[str]]:
        """Choose static events, and names of fields that such events have."""
        random = self._random
        events: list[str] = []
        fields: list[str] = []
        if random.random() < 0.3:
            static = random.choice(("sched/sched_switch", "syscalls/sys_enter_openat", "skb/kfree_skb", "ftrace/print"))
            events.append(static)
            if static != "ftrace/print":
                fields += ("prev_comm", "next_pid", "filename", "flags", "skbaddr", "protocol")
        static = random.choice(
            ("timer/timer_start", "irq/irq_handler_entry", "task/task_newtask", "module/module_load")
        )
        if random.random() < 0.2:
            events.append(static)
            fields += ("name", "ret", "irq", "comm", "clone_flags", "taints", "timer", "now")
        return events, fields

    def instances(self) -> list[Operation]:
        """Instances made, used and removed."""
        random = self._random
        operations: list[Operation] = [Write("kprobe_events", self._definitions.known("g/a"))]
        names = ("i1", "i2", "a.b", "-x", "x" * 64)
        for _ in range(random.randrange(3, 12)):
            name = random.choice(names[:2] if random.random() < 0.8 else names)
            path = f"instances/{name}"
            operations.append(
                random.choice(
                    (
                        Make(path),
                        Make(path),
                        Remove(path),
                        List("instances"),
                        List(path),
                        Read(f"{path}/trace"),
                        Read(f"{path}/{random.choice(CONTROL_FILES)}"),
                        Read(
                            f"{path}/{random.choice(('kprobe_events', 'dynamic_events', 'available_events', 'nosuch'))}"
                        ),
                        Write(f"{path}/trace_marker", b"hello"),
                        Write(f"{path}/tracing_on", self._switch()),
                        Write(f"{path}/events/g/a/enable", self._switch()),
                        Write(f"{path}/events/g/a/filter", self._filters.text(("a0", "a1"))),
                        Write(f"{path}/events/g/enable", self._switch()),
                        Write(f"{path}/set_event", random.choice((b"g:a", b"!g:a", b"g", b"nosuch", b":a"))),
                        Write(
                            f"{path}/trace_options",
                            random.choice((b"stacktrace", b"sym-addr", b"nooverwrite", b"hash-ptr")),
                        ),
                        Write(f"{path}/buffer_size_kb", random.choice((b"1", b"100", b"0"))),
                        Write(f"{path}/kprobe_events", b"p:x ksys_fadvise64_64"),
                        Write("kprobe_events", random.choice((b"-:g/a", b"p:g/b ksys_fadvise64_64 %di", b"-:g/"))),
                        Write("events/g/a/enable", self._switch()),
                        Call("fadvise", (-2, MEMORY, 7, 0, b"text\0")),
                        Sweep(f"{path}/"),
                        Remove(f"{path}/options"),
                        Make(f"{path}/x"),
                        Make("x"),
                        Remove("instances"),
                        Remove("events"),
                        List(f"{path}/events/g"),
                        List(f"{path}/options"),
                        List(f"{path}/per_cpu/cpu0"),
                        Handle(
                            f"{path}/{random.choice(('trace', 'tracing_on', 'trace_pipe'))}",
                            os.O_RDONLY | os.O_NONBLOCK,
                            (Remove(path),),
                        ),
                    )
                )
            )
        return [*operations, List("instances"), Sweep()]

    def handles(self) -> list[Operation]:
        """Reads, writes and seeks on one open file."""
        random = self._random
        operations: list[Operation] = [
            Write("kprobe_events", b"\n".join(self._definitions.quiet(event) for event in ("g/a", "g/b", "my/c"))),
            Write("events/g/a/filter", self._filters.text(("a0",))),
        ]
        if random.random() < 0.5:
            operations.append(Write("trace_marker", b"one\ntwo"))
        for _ in range(random.randrange(1, 5)):
            paths = (*CONTROL_FILES, "kprobe_events", "dynamic_events", "events/g/a/filter", "events/g/a/enable")
            path = random.choice((*paths, "events/g/filter", "events/g/enable", "trace_marker", "trace_pipe"))
            flags = random.choice((os.O_RDONLY, os.O_RDONLY, _RW, _W, os.O_RDONLY | os.O_TRUNC)) | os.O_NONBLOCK
            steps: list[object] = []
            for _ in range(random.randrange(1, 8)):
                steps.append(self._step(path))
            operations.append(Handle(path, flags, tuple(steps)))
        return [*operations, Sweep()]

    def _step(self, path: str) -> object:
        random = self._random
        roll = random.random()
        if path in (
            "error_log",
            "trace",
            "trace_pipe",
            "per_cpu/cpu0/trace",
        ):  # parts of them differ, as they hold times
            return ("read", random.choice((0, 4096, 8192))) if roll < 0.6 else ("lseek", 0, random.choice((0, 1, 2, 3)))
        if path == "snapshot":
            return ("lseek", 0, random.choice((0, 1, 2, 3)))
        if roll < 0.5:
            return ("read", random.choice((0, 1, 2, 3, 7, 10, 50, 100, 1000, 4096, 8192)))
        if roll < 0.75:
            return (
                "lseek",
                random.choice((0, 0, 1, 2, 5, 20, 100, 5000, -1, -5)),
                random.choice((0, 0, 0, 1, 1, 2, 3)),
            )
        if roll < 0.9:
            return ("write", random.choice((b"0", b"1", b"", b"p:g/z ksys_fadvise64_64\n", b"-:g/b\n", b"x", b"a0==1")))
        return Write(
            "kprobe_events",
            random.choice((b"p:g/n ksys_fadvise64_64 %di", b"-:g/a", b"-:g/b", b"p:my/c ksys_fadvise64_64 $comm")),
        )


AREAS: dict[str, tuple[float, Callable[[Cases], list[Operation]]]] = {
    "definitions": (5, Cases.definitions),
    "lives": (3, Cases.lives),
    "filters": (3, Cases.filters),
    "controls": (3, lambda cases: cases.controls.case()),
    "instances": (1.5, Cases.instances),
    "handles": (2, Cases.handles),
    "traces": (2, lambda cases: cases.traces.case()),
    "triggers": (2, lambda cases: cases.triggers.case()),
    "kinds": (3, lambda cases: cases.kinds.case()),
    "hists": (3, lambda cases: cases.hists.case()),
    "buffers": (2, lambda cases: cases.buffers.case()),
    "pids": (1, lambda cases: cases.pids.case()),
    "calls": (2, lambda cases: cases.calls.case()),
}
