"""Probe definitions at random: from the grammar of kprobe_events, and near misses of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

__all__ = ["Definitions", "Places"]

# Functions that nothing calls while a guest waits: an event there can be enabled and stays silent.
QUIET = ("ksys_fadvise64_64", "ksys_readahead", "__x64_sys_swapon", "__x64_sys_acct", "__x64_sys_fadvise64")
KNOWN = ("do_sys_openat2", "vfs_read", "vfs_write", "kernel_clone", *QUIET)
ODD = (
    *("nosuch", "", "_", "1x", "do_sys_openat2.x", "jiffies", "init_task", "linux_banner", "_stext", "_text", "_end"),
    *("do_int3", "get_kprobe", "memcpy", "entry_SYSCALL_64", "start_kernel", "t_show", "__fentry__", "native_read_msr"),
    *("nomod:fn", "virtio:nosuch", "virtio_ring:virtqueue_add_sgs", "virtio:virtio_device_ready", ":vfs_read", "a:b:c"),
    *("virtio_console:put_chars", "virtqueue_add_sgs", "ksys_fadvise64_64:x", "x/y:1", "a/b", "%return", "+4", "-4"),
)
OFFSETS = (
    *("+0", "+1", "+4", "+5", "+0x0", "+00", "+05", "+0x5", "+", "-0", "-1", "+-1", "++1", "+x", "+5x", "+ 5", "+9"),
    *("+4294967295", "+4294967296", "+18446744073709551615", "+99999999999999999999", "+0x7fffffff", "+100", "-0x10"),
)
NUMBERS = (
    *("0", "1", "-1", "08", "010", "0x", "0x10", "0X1F", "12345", "4095", "0xffffffffffffffff", "18446744073709551616"),
    *("0xfffffffffffff001", "0xfffffffffffff000", "0x7fffffffffff", "0xffff888000000000", "0xffffffff80000000", "1 "),
)
REGISTERS = (
    *("di", "si", "dx", "cx", "r8", "r9", "ax", "bx", "bp", "r10", "r11", "r12", "r15", "orig_ax", "ip", "cs", "ss"),
    *("flags", "sp", "rdi", "eax", "al", "ds", "es", "fs", "gs", "DI", "", "r16", "d", "dii"),
)
VARIABLES = (
    *("stack", "stack0", "stack1", "stack2048", "stack2049", "stack-1", "stack0x1", "stackx", "stack4294967296"),
    *("comm", "COMM", "Comm", "comm2", "retval", "retvalx", "ret", "arg1", "arg2", "arg0", "arg6", "arg7", "arg2048"),
    *(
        "arg2049",
        "argx",
        "arg",
        "arg01",
        "arg1x",
        "arg*",
        "argN",
        "current",
        "",
        "stack18446744073709551616",
        "stack+1",
    ),
)
TYPES = (
    *("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "x8", "x16", "x32", "x64", "string", "ustring", "symbol"),
    *("symstr", "char", "b4@0/8", "b1@7/8", "b8@4/32", "b63@1/64", "b0@0/8", "b9@0/8", "b4@5/8", "b4@0/7", "b4@", "b"),
    *(
        "b4",
        "b4@0",
        "b4@0/",
        "b0x4@0x4/0x10",
        "b4@0/8x",
        "b-1@0/8",
        "b4 @0/8",
        "b1@1/128",
        "u7",
        "U8",
        "",
        "str",
        "int",
    ),
    *("s", "x", "string8", "%pd", "%pD", "b4@0/64", "b32@32/64", "b010@010/040", "b4@0/ 8", "u64 ", "%p", "x64x"),
)
LENGTHS = (
    *(
        "[1]",
        "[2]",
        "[4]",
        "[63]",
        "[64]",
        "[65]",
        "[0]",
        "[]",
        "[-1]",
        "[x]",
        "[4",
        "[4]x",
        "[0x4]",
        "[010]",
        "[4][4]",
    ),
    *("[4294967297]", "4]", "[ 4]", "[4 ]", "[+4]", "]", "["),
)
NAMES = (
    *(
        "a",
        "b",
        "arg1",
        "arg2",
        "_x",
        "A1",
        "x" * 32,
        "x" * 33,
        "common_type",
        "common_pid",
        "common_flags",
        "1a",
        "a-b",
    ),
    *("a.b", "", "__probe_ip", "__probe_func", "__probe_ret_ip", "common_tgid", "common_preempt_count", "cpu", "comm"),
    *("common_x", "é", "stacktrace", "a:b", "filter"),
)
EVENTS = (
    *(
        "a",
        "b",
        "c",
        "_",
        "A",
        "e1",
        "x" * 63,
        "x" * 64,
        "1a",
        "a-b",
        "a.b",
        "",
        "enable",
        "filter",
        "a b",
        "é",
        "format",
    ),
    *("a:b", "sched_switch", "print", "common_pid", "a/b"),
)
GROUPS = (
    *("g", "kprobes", "my", "g2", "sched", "g-h", "-g", "1g", "", "x" * 63, "x" * 64, "g.h", "é", "events", "enable"),
    *("ftrace", "syscalls", "a b", "instances"),
)
IMMEDIATES = (
    *("5", "-5", "+5", "0x10", "0xffffffffffffffff", "18446744073709551616", "-9223372036854775808", "x", "", "08"),
    *('"abc"', '"abc', 'abc"', '"', '""', '"a"b"', "-", "+", "-0x10", "+-5", "-9223372036854775809", '"a:b"', '"a=b"'),
)
DEREFS = (
    *(
        "+0",
        "+8",
        "-8",
        "+0x10",
        "-0x10",
        "+u0",
        "-u8",
        "+u",
        "+",
        "-",
        "++8",
        "--8",
        "+-8",
        "-+8",
        "+x",
        "+8x",
        "+010",
    ),
    *(
        "+9223372036854775807",
        "+9223372036854775808",
        "-9223372036854775808",
        "+4294967296",
        "+uu0",
        "u0",
        "+ 0",
        "+u-8",
    ),
)
KINDS = (
    *(
        "p",
        "r",
        "p1",
        "r1",
        "r10",
        "r0",
        "r4096",
        "r4097",
        "r0x10",
        "r010",
        "r-1",
        "rx",
        "px",
        "r1x",
        "P",
        "R",
        "e",
        "-",
    ),
    *("", "x", "p-", "r4294967297", "r" + "0" * 64 + "1", "r+1", "s", "t", "f", "u", "pp", "rr", "p%", "r1%"),
)


class Places(NamedTuple):
    """What a kernel has: text symbols as (name, address, size or 0), and data symbols."""

    text: Sequence[tuple[str, int]]
    data: Sequence[tuple[str, int]]

    @classmethod
    def read(cls, kallsyms: bytes) -> Places:
        """Take them from /proc/kallsyms."""
        text: list[tuple[str, int]] = []
        data: list[tuple[str, int]] = []
        for line in kallsyms.decode().splitlines():
            address, kind, name = line.split()[:3]
            module = line.split()[3].strip("[]") + ":" if line.endswith("]") else ""
            if kind in "tTwW":
                text.append((module + name, int(address, 16)))
            elif kind in "dDbBrRA" and not module:
                data.append((name, int(address, 16)))
        return cls(text, data)


class Definitions:
    """Random lines for kprobe_events."""

    def __init__(self, random: Random, places: Places) -> None:
        self._random = random
        self._places = places

    def _pick(self, *choices: tuple[float, object]) -> object:
        return self._random.choices([value for _, value in choices], [weight for weight, _ in choices])[0]

    def _one(self, words: Sequence[str], usual: int) -> str:
        """One of the first `usual` words mostly, else any."""
        return self._random.choice(words[:usual] if self._random.random() < 0.85 else words)

    def line(self) -> bytes:
        """Return a definition, good or nearly so."""
        random = self._random
        words = [self.head(), self.place()]
        words += [self.argument() for _ in range(random.choice((0, 0, 1, 1, 2, 3, 5)))]
        if random.random() < 0.01:
            words += [f"a{number}=%di" for number in range(random.choice((125, 128, 129, 130)))]
        elif random.random() < 0.01:
            words += ["+0(%si):x64[64]"] * random.choice((5, 6, 7, 49))
        blank = " " if random.random() < 0.95 else random.choice(("  ", "\t", "\v", " \r", "\f "))
        text = blank.join(words)
        if random.random() < 0.04:
            text = random.choice(("# x", " ", "\t", "", "#")) + text
        if random.random() < 0.04:
            text += random.choice((" ", " # x", "#x", "\r", "\0", " \0x", "\n\n", " \\"))
        if random.random() < 0.12:
            text = self.mutated(text)
        return text.encode("utf-8", "surrogateescape")

    def quiet(self, event: str, arguments: int | None = None) -> bytes:
        """Return a good definition of `event` on a function that nothing calls; its arguments are of all kinds."""
        random = self._random
        kind = random.choice("pppr")
        words = [f"{kind}:{event}", random.choice(QUIET[:2])]
        for number in range(random.randrange(4) if arguments is None else arguments):
            words.append(f"a{number}={self.good_expression(kind == 'r')}")
        return " ".join(words).encode()

    def known(self, event: str) -> bytes:
        """Return a good definition of `event` whose arguments are known when the workload calls the function."""
        random = self._random
        kind = random.choice("pppr")
        texts = ("$comm", "\\5:u8", '\\"text"')
        texts += ("$retval", "$retval:s8") if kind == "r" else ("%di", "%si:x32", "%dx:s64", "+0(%si):string")
        words = [f"a{number}={random.choice(texts)}" for number in range(random.randrange(4))]
        return " ".join([f"{kind}:{event}", random.choice(QUIET[:2]), *words]).encode()

    def good_expression(self, is_return: bool = False) -> str:
        """Return an expression with its type that every kernel since 5.10 takes."""
        random = self._random
        base = random.choice(("%di", "%si", "%dx", "$stack0", "$retval" if is_return else "%cx"))
        integer = random.choice(TYPES[:12])
        return random.choice(
            (
                base,
                f"{base}:{integer}",
                f"+0(%si):{integer}",
                f"+0(%si):{integer}[{random.choice((1, 2, 3, 4, 8))}]",
                f"+8(+0(%si)):{integer}",
                "+0(%si):string",
                "+0(%si):ustring",
                "+u0(%si):string",
                f"+0(%si):string[{random.choice((1, 2, 4))}]",
                "$comm",
                f"{base}:symbol",
                f"{base}:b{random.randrange(1, 9)}@{random.randrange(8)}/{random.choice((16, 32, 64))}",
                "@linux_banner:string",
                "@jiffies:u32",
                f"\\{random.randrange(100)}",
                '\\"text"',
            )
        )

    def head(self) -> str:
        """Return the first word."""
        random = self._random
        kind = self._one(KINDS, 2)
        if random.random() < 0.25:
            return kind
        if random.random() < 0.35:
            return f"{kind}:{self._one(GROUPS, 4)}{random.choice('///.')}{self._one(EVENTS, 6)}"
        return f"{kind}:{self._one(EVENTS, 6)}"

    def place(self) -> str:
        """Return the second word."""
        random = self._random
        roll = random.random()
        if roll < 0.35:
            place = self._one(KNOWN, len(KNOWN))
        elif roll < 0.6:
            place = random.choice(self._places.text)[0]
        elif roll < 0.65:
            place = random.choice(self._places.data)[0]
        elif roll < 0.75:
            place = random.choice(ODD)
        elif roll < 0.85:
            return random.choice(NUMBERS)
        else:
            _, address = random.choice(self._places.text if random.random() < 0.9 else self._places.data)
            address += random.choice((0, 0, 0, 1, 3, 4, 5, 9, random.randrange(64)))
            return f"{address}" if random.random() < 0.2 else f"0x{address:x}"
        roll = random.random()
        if roll < 0.2:
            place += f"+{random.choice((5, 9, 11, random.randrange(200), random.randrange(4000)))}"
        elif roll < 0.3:
            place += random.choice(OFFSETS)
        if random.random() < 0.05:
            place += random.choice(("%return", "%return", "%ret", "%", "%return+0", "%returnx"))
        return place

    def expression(self, depth: int = 0) -> str:
        """Return an expression without its type."""
        random = self._random
        roll = random.random()
        if roll < 0.35:
            return "%" + self._one(REGISTERS, 8)
        if roll < 0.5:
            return "$" + random.choice(VARIABLES)
        if roll < 0.8 and depth < 16:
            inner = self.expression(depth + 1)
            while random.random() < 0.02:
                inner = "+0(" * 6 + inner + ")" * 6
            close = ")" if random.random() < 0.95 else random.choice(("", "))", ")x", ") "))
            return f"{self._one(DEREFS, 6)}({inner}{close}" if random.random() < 0.97 else self._one(DEREFS, 6) + inner
        if roll < 0.88:
            name = random.choice((*KNOWN, "jiffies", "linux_banner", "nosuch", random.choice(self._places.data)[0]))
            if random.random() < 0.2:
                name = random.choice(self._places.text)[0]
            return "@" + name + (random.choice(OFFSETS) if random.random() < 0.3 else "")
        if roll < 0.92:
            return "@" + random.choice((*NUMBERS, "+0", "+0x10", "-1", ""))
        if roll < 0.98:
            return "\\" + random.choice(IMMEDIATES)
        return random.choice(("x", "", "di", "&x", "a->b", "(x)y", "%di%si"))

    def argument(self) -> str:
        """Return a word behind the place."""
        random = self._random
        if random.random() < 0.3:
            text = self.good_expression()
        else:
            text = self.expression()
            if random.random() < 0.55:
                text += ":" + self._one(TYPES, 18)
                if random.random() < 0.25:
                    text += self._one(LENGTHS, 5)
        if random.random() < 0.5:
            text = self._one(NAMES, 6) + ("=" if random.random() < 0.97 else "==") + text
        if random.random() < 0.005:
            text += "x" * random.choice((50, 60, 64, 300))
        return text

    def mutated(self, text: str) -> str:
        """Return the text with a few characters changed, doubled, lost or moved."""
        random = self._random
        for _ in range(random.choice((1, 1, 2, 4))):
            at = random.randrange(len(text) + 1)
            other = random.choice("pr:/=+-@$%()[]{}\\\"'., \t\n\0#!~*x0159_\xa0é" + text)
            text = random.choice(
                (
                    text[:at] + text[at + 1 :],
                    text[:at] + other + text[at:],
                    text[:at] + other + text[at + 1 :],
                    text[:at],
                )
            )
        return text

    def lines(self, events: Sequence[str]) -> bytes:
        """Return one write to kprobe_events: one line mostly, sometimes several, sometimes a delete."""
        random = self._random
        count = 1 if random.random() < 0.8 else random.choice((2, 3, 5))
        lines = [self.delete(events) if random.random() < 0.15 else self.line() for _ in range(count)]
        end = (
            b"\n" if random.random() < 0.7 else random.choice((b"", b"\n\n", b"\r\n", b"\n#", b"\n \n", b"\0", b"\n\0"))
        )
        if random.random() < 0.01:
            return lines[0].ljust(random.choice((4094, 4095, 4096, 5000)), b" ") + end
        return b"\n".join(lines) + end

    def other(self) -> bytes:
        """Return a line for dynamic_events that is for another kind of event than a kprobe's, or for none."""
        random = self._random
        head = random.choice(("e", "e:a", "e:g/a", "s:a", "s:", "u:a", "p:a", "t:a", "f:a", "x", "foo", "P"))
        rest = random.choice(("s.c", "sched/sched_switch", "k", "0", "/bin/sh:0x10", "int a", "vfs_read"))
        return f"{head} {rest}".encode()

    def delete(self, events: Sequence[str]) -> bytes:
        """Return a delete of one of the events named (as GROUP/EVENT), in one of all forms."""
        random = self._random
        group, _, event = random.choice(events or ["kprobes/a"]).partition("/")
        name = random.choice(
            (f"{group}/{event}", event, f"{group}/", f"{group}.{event}", group, "", "nosuch", "/" + event)
        )
        head = random.choice(("-:", "-:", "-:", "-:", "-", "-p:", " -:", "!", "-:x", "--:", "-r:", "!p:", "!:"))
        text = f"{head}{name}"
        if random.random() < 0.2:
            text += " " + random.choice((*KNOWN[:6], self.place()))
            while random.random() < 0.4:
                text += " " + random.choice((self.argument(), "arg1=%di", "a0=%di"))
        return text.encode("utf-8", "surrogateescape")
