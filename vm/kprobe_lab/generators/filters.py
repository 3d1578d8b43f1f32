"""Random event filters: from the filter language, and near misses."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "&", "~", "=", "!~", "===", "", "&&", "|", "=<", "=~", "!", "< =")
NUMBERS = (
    *("0", "1", "-1", "5", "255", "256", "0x10", "010", "4294967295", "18446744073709551615", "18446744073709551616"),
    *("-9223372036854775808", "9223372036854775808", "08", "0x", "1x", "+5", "5.0", "-", "--1", "1" * 23, "1" * 24),
    *("0xg", "-0x1", "1_000", "'5'", "A", "é", "1é"),
)
TEXTS = (
    *(
        '"x"',
        "'x'",
        '"*x"',
        '"x*"',
        '"*x*"',
        '"x*y"',
        '"?"',
        '"[a-c]"',
        '"[!a]"',
        '"\\\\x"',
        '""',
        "''",
        '"!x"',
        '"1*"',
    ),
    *('"x', "x'", "'x\"", '"a b"', '"' + "x" * 255 + '"', '"' + "x" * 256 + '"', '"("', '")"', '"&&"', '"é"', '"!*"'),
    *('"*"', '"**"', '"[a"', '"a]"', '"-"', '"\\"'),
)
JOINTS = ("&&", "||", " && ", " || ", " and ", "&", "|", ",", " ", "&& !", "||!", "&&&", "|| ||", " or ", "\n&&\t")
COMMON = (
    *("common_pid", "common_type", "common_flags", "common_preempt_count", "comm", "COMM", "cpu", "CPU", "common_cpu"),
    *("__probe_ip", "__probe_func", "__probe_ret_ip", "nosuch", "stacktrace", "common_comm", "Comm", "common_tgid"),
    *("", "1", "comm.ustring", "a0.ustring", "a0.function", "common_pid.ustring", "CPUS{0}", "é", "a0 ", "a0.x"),
)


class Filters:
    """Random texts for filter files."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def text(self, fields: Sequence[str]) -> bytes:
        """Return a filter over the fields named, good or nearly so."""
        random = self._random
        roll = random.random()
        if roll < 0.06:
            special = (
                "0",
                "0\n",
                " 0 ",
                "00",
                "",
                "\n",
                " ",
                "!",
                "()",
                "(())",
                "0 ",
                "\0",
                "0\0x",
                "&&",
                "||",
                "!0",
                "(0)",
            )
            return random.choice(special).encode()
        if roll < 0.07:
            return b"common_pid == 1".ljust(random.choice((4090, 4094, 4095, 4096, 4097)), random.choice((b" ", b"1")))
        text = self.expression(fields, 0)
        if random.random() < 0.2:
            for _ in range(random.choice((1, 1, 2))):
                at = random.randrange(len(text) + 1)
                other = random.choice("()!&|=<>~\"' \t\n\0{}01x.,_-+\xa0é")
                text = random.choice((text[:at] + text[at + 1 :], text[:at] + other + text[at:], text[:at]))
        if random.random() < 0.3:
            text += random.choice(("\n", " ", " \n", "\t", "&&", "||", " && ", "\0", "\n\n", ")", "("))
        while "||" in text and text.rstrip().endswith("&&"):
            # kernels that accept a dangling operator then read memory before their program (predicate_parse)
            text = text.rstrip()[:-2]
        return text.encode()

    def passed_alike(self, fields: Sequence[str]) -> bytes:
        """Return a filter that passes the same records on both sides: no pids, no event types, which differ."""
        while True:
            text = self.text(fields)
            if b"common_pid" not in text and b"common_type" not in text:
                return text

    def expression(self, fields: Sequence[str], depth: int) -> str:
        """Return terms joined and in parentheses."""
        random = self._random
        roll = random.random()
        if depth > 5 or roll < 0.55:
            return self.term(fields)
        if roll < 0.85:
            joint = random.choice(JOINTS[:4] if random.random() < 0.92 else JOINTS)
            return self.expression(fields, depth + 1) + joint + self.expression(fields, depth + 1)
        if roll < 0.95:
            return f"({self.expression(fields, depth + 1)})"
        return f"{random.choice(('!', '! ', '!!'))}({self.expression(fields, depth + 1)})"

    def term(self, fields: Sequence[str]) -> str:
        """Return FIELD OP VALUE."""
        random = self._random
        field = random.choice([*fields, *fields, *COMMON[:9]] if random.random() < 0.9 else COMMON)
        operator = random.choice(OPERATORS[:8] if random.random() < 0.93 else OPERATORS)
        usual = random.random() < 0.85
        if random.random() < 0.6:
            value = random.choice(NUMBERS[:8] if usual else NUMBERS)
        else:
            value = random.choice(TEXTS[:14] if usual else TEXTS)
        blank = random.choice(("", " ", " ", "  "))
        sign = "!" if random.random() < 0.08 else ""
        return f"{sign}{field}{blank}{operator}{blank}{value}"
