"""Random histograms: valid and broken hist triggers, the calls that count in them, and what they then show."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from random import Random

from kprobe_lab.generators.filters import Filters
from kprobe_lab.generators.traces import MEMORY
from kprobe_lab.generators.ways import Ways
from kprobe_lab.operations.operation import Call, Make, Operation, Read, Write

_PROBES = (
    b'p:g/a ksys_fadvise64_64 a0=%si a1=%cx:u8 a2=%dx:s64 s=+0(%si):string d=\\"imm"\n'
    b"r:g/b ksys_fadvise64_64 a0=$retval:s32\n"
    b"p:g/c ksys_fadvise64_64 a0=%si a1=%cx:u8 arr=+0(%si):u8[4]"
)
# each list begins with valid words, then come near misses
_OWN = {"a": ("a0", "a1", "a2", "s", "a1"), "b": ("a0", "a0", "__probe_ret_ip"), "c": ("a0", "a1", "a1", "arr")}
_FIELDS = (
    *("common_pid", "common_cpu", "__probe_ip", "a0", "d", "common_type", "cpu", "comm"),
    *("nosuch", "", "$x", "$y", "$nosuch", "common_stacktrace", "stacktrace", "common_comm", "hitcount", "CPU", "COMM"),
    *("common_timestamp", "5", "g.b.$x", "a0 ", "common_flags", "__probe_ret_ip", "$", "-a0", "a0.", "g.a.a0", "*"),
)
_NUMBERS = ("a0", "a1", "a2", "arr", "common_cpu", "__probe_ip", "__probe_ret_ip", "common_type", "nosuch", "cpu")
_MODIFIERS = (
    *("", "", "", "", ".hex", ".sym", ".sym-offset", ".log2", ".buckets=10", ".buckets=3", ".syscall", ".execname"),
    *(
        ".usecs",
        ".percent",
        ".graph",
        ".stacktrace",
        ".nosuch",
        ".",
        ".hex.hex",
        ".buckets",
        ".buckets=0",
        ".buckets=x",
    ),
    *(".bucket=5", ".HEX", ".descending", ".sym-offsets", ".string", ".execname.hex", ".log", ".usecsx", ".percents"),
)
_EXPRESSIONS = (
    *("a1", "a2", "a1+a2", "a2-a1", "a1*2", "a2/a1", "5", "a0", "s", "a1+1-a2", "2*3", "a2/7", "a2*a1+5", "-(a1)"),
    *("$x", "$y", "$x+1", "$x-$y", "common_cpu", "common_timestamp.usecs", "common_timestamp.usecs-$t", "common_pid"),
    *("common_timestamp-$x", "nosuch", "a1+", "+a1", "a1++a2", "(a1+a2)", "-(a1+a2)", "-a1", "a1+a2+a1+a2+a1", "1/0"),
    *(
        "s+1",
        "a1.hex",
        "a1.log2",
        "$nosuch",
        "g.b.$x",
        "g.a.$x",
        "common_stacktrace",
        "0x10",
        "08",
        "1x",
        "a1 + a2",
        "d",
    ),
    *("$", "hitcount", "a1.buckets=3", "99999999999999999999", "a1/a2", "-5", "a1-(a2)", "common_comm", "a2*-1", "arr"),
)
_VARIABLES = ("x", "y", "z", "v", "t", "a1", "1x", "$x", "x.y", "", "keys ", "hitcount", "x" * 70)
_KNOWN_HEADS = ("key", "keys", "val", "vals", "values", "sort", "name", "clock", "size")
_COMMON_VALUES = ("common_cpu", "common_pid", "common_timestamp.usecs", "__probe_ip", "common_type")
_ACTIONS = (
    *(
        "onmax($x).save(a1)",
        "onmax($x).save(a1,a2)",
        "onchange($x).save(a1)",
        "onmatch(g.a).s1($x)",
        "onmax($x).snapshot()",
    ),
    *("onmatch(g.a).trace(s1,$x)", "onmatch(g.b).s1(a0)", "onmatch(g.a).s2($x,a1)", "onmatch(g.b).trace(s2,$x,$y)"),
    *(
        "onchange($x).snapshot()",
        "onmax($x).trace(s1,$x)",
        "onmax($x).s1(a1)",
        "onmatch(g.b).s2(a1,a2)",
        "onmax($y).save(s)",
    ),
    *("onmatch(g.a)", "onmatch(g).s1($x)", "onmatch(g.nosuch).s1($x)", "onmatch(g.a).nosuch($x)", "onmatch(g.a).s1()"),
    *(
        "onmatch(g.a).s1($x,$x)",
        "onmatch(g.a).save(a1)",
        "onmax(x).save(a1)",
        "onmax($nosuch).save(a1)",
        "onmax($x).save()",
    ),
    *(
        "onmax($x)",
        "onmax($x).nosuch(a1)",
        "onmax($x).save(nosuch)",
        "onmax($x.save(a1)",
        "onmax($x).save(a1",
        "onmax()",
    ),
    *("onmatch(g.a).s1($nosuch)", "onmatch(g.b).trace(nosuch,$x)", "onmatch($x).s1(a1)", "onnosuch"),
    *(
        "onmatch(g.a).s1(s)",
        "onmatch(g.a).s3(s)",
        "onmax($x).save(a1):onmax($x).save(a2)",
        "onmatch(g.c).s1(a1)",
        "onmax",
    ),
    *(
        "onmatch(synthetic.s1).s2(v,v)",
        "onmax($x).save(a1):onchange($x).snapshot()",
        "onmatch(g.a).s1($x).x",
        "onmax($a1).save(a1)",
    ),
)
_SORTS = (
    *(
        "a1",
        "hitcount",
        "a0",
        "a1.descending",
        "hitcount.descending",
        "a1,hitcount",
        "a2",
        "a0,a1",
        "a1.ascending",
        "s",
    ),
    *("nosuch", "", "a1,", ",a1", "a1.foo", "a1,a2,a0", "a1.hex", "a1,a1", "$x", "descending", "a1.", "common_pid"),
)
_SIZES = ("128", "256", "1000", "2048", "1", "0", "x", "131072", "131073", "-1", "0x100", "", "4294967296", "1 ", "127")
_WORDS = (
    "pause",
    "cont",
    "clear",
    "continue",
    "nohitcount",
    "NOHC",
    "Pause",
    "pausex",
    "clear=1",
    "",
    "nosuch",
    "keys",
)
_CLOCKS = ("mono", "global", "local", "nosuch", "boot", "x86-tsc", "", "counter")
_SYNTHETIC = (
    "s1 u64 v",
    "s2 u64 v; u8 w",
    "s3 char c[16]",
    "s2 s64 v; s32 w",
    "s3 char c[]",
    "s1 unsigned long v[]",
    "s1 u32 v",
)


class Hists:
    """A source of cases about hist triggers."""

    def __init__(self, random: Random, filters: Filters, ways: Ways) -> None:
        self._random = random
        self._filters = filters
        self._ways = ways
        self._set: list[str] = []

    def case(self) -> list[Operation]:
        """Return histograms set, counted in, changed, read and removed."""
        random = self._random
        self._set = []
        operations: list[Operation] = [Write("kprobe_events", _PROBES)]
        if random.random() < 0.5:
            operations += [Write("synthetic_events", random.choice(_SYNTHETIC).encode()) for _ in range(2)]
            operations += [Write("events/synthetic/enable", b"1")]
        prefix = ""
        if random.random() < 0.1:
            prefix = "instances/i1/"
            operations.append(Make("instances/i1"))
        events = [f"{prefix}events/g/{name}" for name in random.choice(("a", "ab", "abc"))]
        for _ in range(random.randrange(2, 14)):
            event = random.choice(events)
            roll = random.random()
            if roll < 0.55:
                operations += self._written(event, prefix)
            elif roll < 0.85:
                operations.append(self._call())
            elif roll < 0.88:
                operations.append(Write(f"{event}/trigger", b"", os.O_WRONLY | os.O_TRUNC))
            elif roll < 0.91:
                word = random.choice(("enable_hist:g:a", "disable_hist:g:a", "enable_hist:g:b:2", "!disable_hist:g:a"))
                operations.append(Write(f"{event}/trigger", word.encode()))
            elif roll < 0.94:
                operations.append(Write("synthetic_events", random.choice((*_SYNTHETIC, "!s1", "!s2", "!s3")).encode()))
            elif roll < 0.97:
                operations.append(Write("kprobe_events", random.choice((b"-:g/a", b"-:g/b", b"-:g/c"))))
            else:
                operations.append(Read(f"{event}/hist"))
        operations += [self._call(), self._call()]
        operations += [Read(f"{event}/{name}") for event in events for name in ("trigger", "hist", "enable")]
        return [*operations, *(Read(f"{prefix}{name}") for name in ("trace", "snapshot", "error_log", "tracing_on"))]

    def _call(self) -> Operation:
        random = self._random
        number = random.choice((0, 1, 5, 77, 5, -1, 4096, 2**40))
        data = random.choice((b"text\0\0\0\0", b"text\0\0\0\0", b"x\0\0\0\0\0", b"another text that is longer\0"))
        return Call("fadvise", (-2, MEMORY + random.choice((0, 0, 0, 1)), number, random.choice((0, 1, 2, 5)), data))

    def _pick(self, words: Sequence[str], usual: int, chance: float = 0.9) -> str:
        """Choose mostly one of the first `usual` words, otherwise any word."""
        return self._random.choice(words[:usual] if self._random.random() < chance else words)

    def _written(self, event: str, prefix: str) -> list[Operation]:
        random = self._random
        write = Write(f"{event}/trigger", self._trigger(event))
        read = Read(f"{event}/{random.choice(('trigger', 'trigger', 'hist'))}")
        return [write, read, Read(f"{prefix}error_log")] if random.random() < 0.3 else [write, read]

    def _fields(self, fields: Sequence[str], counts: Sequence[int], modifiers: int) -> list[str]:
        random = self._random
        chosen = []
        for _ in range(random.choice(counts)):
            field = random.choice(fields) if random.random() < 0.85 else self._pick(_FIELDS, 4, 0.8)
            # pids and times in other bases, or in sums, differ between machines
            plain = field.startswith(("common_pid", "common_timestamp"))
            usual = modifiers if field in ("a0", "a1", "a2") else 4
            modifier = "" if plain else self._pick(_MODIFIERS, usual, 0.97)
            if modifier.startswith((".log", ".bucket")) and field not in _NUMBERS:
                modifier = ""  # the key of a string is then garbage from the kernel's stack
            if modifier.startswith((".percent", ".graph")) and field not in _NUMBERS:
                modifier = ""  # the value of a string is its address, and shares of addresses differ between boots
            if modifier == ".stacktrace" or field == "stacktrace":
                modifier = ""  # 6.16 to 7.1 take any field for a call chain, and oops at a hit
            chosen.append(field + modifier)
        return chosen

    def _keys(self, fields: Sequence[str]) -> list[str]:
        keys = self._fields(fields, (1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4), 8)
        if not self._ways.keys_hashed or len(keys) == 1:
            return keys
        return [key for key in keys if not key.startswith("common_pid")] or ["a0"]  # its hash differs with the machine

    def _trigger(self, event: str) -> bytes:
        random = self._random
        if self._set and random.random() < 0.35:
            text = random.choice(self._set)
            roll = random.random()
            if roll < 0.4:
                text += f":{self._pick(_WORDS, 3)}"
            elif roll < 0.8:
                text = "!" + text
        else:
            text = self._line(_OWN[event[-1]])
            self._set.append(text)
        if self._ways.variables_oops:
            text = self._with_known(text, _OWN[event[-1]])
        if random.random() < 0.15:
            condition = self._filters.text(("a0", "a1", "s")) if random.random() < 0.4 else b"a1 == 5"
            text += " if " + condition.decode("latin-1")
        return (text + random.choice(("", "", "\n", " "))).encode("latin-1")

    @staticmethod
    def _with_known(text: str, fields: Sequence[str]) -> str:
        """Return a trigger whose variables are of fields that the event has."""
        known = {*fields, *_COMMON_VALUES, *(f"-({name})" for name in fields)} - {"s", "arr"}
        known |= {f"{one}{sign}{other}" for one in known & {*fields} for sign in "+-" for other in known & {*fields}}
        parts = text.split(":")
        for index, part in enumerate(parts):
            head, equals, _ = part.partition("=")
            if equals and head not in _KNOWN_HEADS:
                assigned = [one.partition("=") for one in part.split(",")]
                parts[index] = ",".join(f"{name}={value if value in known else 'a0'}" for name, _, value in assigned)
        return ":".join(parts)

    def _line(self, fields: Sequence[str]) -> str:
        random = self._random
        keys = self._keys(fields)
        parts = [f"{self._pick(('keys', 'key', 'Keys', 'keyss'), 2, 0.98)}={','.join(keys)}"]
        if random.random() < 0.4:
            values = ",".join(self._fields(fields, (1, 1, 1, 1, 2, 2, 2, 3), 5))
            parts.append(f"{self._pick(('vals', 'values', 'val', 'value'), 3, 0.98)}={values}")
        if random.random() < 0.4:
            parts.append(self._assignments(fields))
        if random.random() < 0.3:
            known = random.choice(keys).partition(".")[0] + random.choice(("", ".descending", ",hitcount"))
            parts.append(f"sort={known if random.random() < 0.6 else self._pick(_SORTS, 10)}")
        if random.random() < 0.15:
            parts.append(f"size={self._pick(_SIZES, 4)}")
        if random.random() < 0.08:
            parts.append(f"name={random.choice(('n', 'n', 'm', '', 'a b'))}")
        if random.random() < 0.05:
            parts.append(f"clock={self._pick(_CLOCKS, 2)}")
        if random.random() < 0.1:
            parts.append(self._pick(_WORDS, 5, 0.7))
        if random.random() < 0.25:
            parts = self._with_action(parts)
        if random.random() < 0.05:
            random.shuffle(parts)
        return ":".join([self._pick(("hist", "hist", "hist ", "hists"), 2, 0.99), *parts])

    def _assignments(self, fields: Sequence[str]) -> str:
        random = self._random
        names = random.sample(_VARIABLES[:4], random.choice((1, 1, 1, 2, 3)))
        if random.random() < 0.06:
            names = [random.choice(_VARIABLES) for _ in range(random.choice((1, 2, 17)))]
        plain = [text for text in _EXPRESSIONS[:14] if "a1" not in text or "a1" in fields]
        plain = [text for text in plain if "a2" not in text or "a2" in fields]
        assigned = [self._assigned(name, self._pick((*plain, *_EXPRESSIONS), len(plain), 0.85)) for name in names]
        return random.choice((",", ":")).join(assigned)

    def _with_action(self, parts: list[str]) -> list[str]:
        random = self._random
        if random.random() < 0.8:
            parts = [part for part in parts if not part.startswith(("x=", "y=", "z=", "v="))]
            parts.append(random.choice(("x=a0", "x=a0,y=a0", "x=s,y=a0", "x=$z", "x=a1,y=a0")))
        action = self._pick(_ACTIONS, 13, 0.8)
        if "onmax" in action:  # chance decides which of two strings has the higher address
            parts = [re.sub(r"\b([xy])=s\b", r"\1=a0", part) for part in parts]
        return [*parts, action]

    def _assigned(self, name: str, expression: str) -> str:
        # no other variable shows a value computed from a time or a pid
        return f"{'t' if 'common_timestamp' in expression or 'common_pid' in expression else name}={expression}"
