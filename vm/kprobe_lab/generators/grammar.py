"""Random probe definitions: from the grammar of kprobe_events, and near misses."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kprobe_lab.generators.vocabulary import (
    DEREFS,
    EVENTS,
    FIELDS,
    GROUPS,
    IMMEDIATES,
    KINDS,
    KNOWN,
    LENGTHS,
    NAMES,
    NUMBERS,
    ODD,
    OFFSETS,
    PER_CPU,
    QUIET,
    REGISTERS,
    STRUCTS,
    TYPES,
    VARIABLES,
)
from kprobe_lab.operations.symbols import Symbols


def is_of_kprobes(data: bytes) -> bool:
    """True for lines that dynamic_events passes to kprobes; other kinds of events have their own cases."""
    for line in data.splitlines():
        words = line.partition(b"#")[0].split()
        if words and (words[0][:1] not in b"pr-!" or b"/" in b"".join(words[1:2])):
            return False
    return True


class Definitions:
    """Random lines for kprobe_events."""

    def __init__(self, random: Random, symbols: Symbols) -> None:
        self._random = random
        self._symbols = symbols

    def _pick(self, words: Sequence[str], usual: int) -> str:
        """Choose mostly one of the first `usual` words, otherwise any word."""
        return self._random.choice(words[:usual] if self._random.random() < 0.85 else words)

    def line(self) -> bytes:
        """Return a definition, good or nearly so."""
        random = self._random
        words = [self.head(), self.probe_point()]
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
        texts: tuple[str, ...] = ("$comm", "\\5:u8", '\\"text"')
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
        kind = self._pick(KINDS, 2)
        if random.random() < 0.25:
            return kind
        if random.random() < 0.35:
            return f"{kind}:{self._pick(GROUPS, 4)}{random.choice('///.')}{self._pick(EVENTS, 6)}"
        return f"{kind}:{self._pick(EVENTS, 6)}"

    def probe_point(self) -> str:
        """Return the second word."""
        random = self._random
        roll = random.random()
        if roll < 0.35:
            symbol = self._pick(KNOWN, len(KNOWN))
        elif roll < 0.6:
            symbol = random.choice(self._symbols.text)[0]
        elif roll < 0.65:
            symbol = random.choice(self._symbols.data)[0]
        elif roll < 0.75:
            symbol = random.choice(ODD)
        elif roll < 0.85:
            return random.choice(NUMBERS)
        else:
            _, address = random.choice(self._symbols.text if random.random() < 0.9 else self._symbols.data)
            address += random.choice((0, 0, 0, 1, 3, 4, 5, 9, random.randrange(64)))
            return f"{address}" if random.random() < 0.2 else f"0x{address:x}"
        roll = random.random()
        if roll < 0.2:
            symbol += f"+{random.choice((4, 5, 9, 11, 20, random.randrange(200), random.randrange(4000)))}"
        elif roll < 0.3:
            symbol += random.choice(OFFSETS)
        if random.random() < 0.05:
            symbol += random.choice(("%return", "%return", "%ret", "%", "%return+0", "%returnx"))
        return symbol

    def expression(self, depth: int = 0) -> str:
        """Return an expression without its type."""
        random = self._random
        roll = random.random()
        if roll < 0.06:
            return self.cast(depth)
        if roll < 0.35:
            return "%" + self._pick(REGISTERS, 8)
        if roll < 0.5:
            return "$" + random.choice(VARIABLES)
        if roll < 0.8 and depth < 16:
            inner = self.expression(depth + 1)
            while random.random() < 0.02:
                inner = "+0(" * 6 + inner + ")" * 6
            close = ")" if random.random() < 0.95 else random.choice(("", "))", ")x", ") "))
            has_parentheses = random.random() < 0.97
            return self._pick(DEREFS, 6) + (f"({inner}{close}" if has_parentheses else inner)
        if roll < 0.88:
            name = random.choice((*KNOWN, "jiffies", "linux_banner", "nosuch", random.choice(self._symbols.data)[0]))
            if random.random() < 0.2:
                name = random.choice(self._symbols.text)[0]
            return "@" + name + (random.choice(OFFSETS) if random.random() < 0.3 else "")
        if roll < 0.92:
            return "@" + random.choice((*NUMBERS, "+0", "+0x10", "-1", ""))
        if roll < 0.98:
            return "\\" + random.choice(IMMEDIATES)
        return random.choice(("x", "", "di", "&x", "a->b", "(x)y", "%di%si"))

    def cast(self, depth: int) -> str:
        """Return an expression that 7.3 introduced, or one with names of C: fields, typecasts, per-CPU variables."""
        random = self._random
        fields = "".join(
            random.choice(("->", "->", "->", ".", "-")) + self._pick(FIELDS, 12)
            for _ in range(1 + (random.random() < 0.3))
        )
        roll = random.random()
        if roll < 0.25:
            return random.choice(("$current", "$current", "how", "file", "filename", "fd", "$retval", "$arg1")) + fields
        inner = self.expression(depth + 1)
        if roll < 0.45:
            return f"{self._pick(PER_CPU, 2)}({random.choice((inner, '@runqueues', '@current_task', '@cpu_number'))})"
        if random.random() < 0.5:
            inner = f"({inner})"
        option = "," + self._pick(FIELDS, 12) if random.random() < 0.2 else ""
        return f"({self._pick(STRUCTS, 6)}{option}){inner}{fields if random.random() < 0.95 else ''}"

    def argument(self) -> str:
        """Return a fetch argument."""
        random = self._random
        if random.random() < 0.3:
            text = self.good_expression()
        else:
            text = self.expression()
            if random.random() < 0.55:
                text += ":" + self._pick(TYPES, 18)
                if random.random() < 0.25:
                    text += self._pick(LENGTHS, 5)
        if random.random() < 0.5:
            text = self._pick(NAMES, 6) + ("=" if random.random() < 0.97 else "==") + text
        if random.random() < 0.005:
            text += "x" * random.choice((50, 60, 64, 300))
        return text

    def mutated(self, text: str) -> str:
        """Return the text with a few characters changed, doubled, dropped or moved."""
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
        """Return one write to kprobe_events: mostly one line, sometimes several, sometimes a delete."""
        random = self._random
        count = 1 if random.random() < 0.8 else random.choice((2, 3, 5))
        lines = [self.delete(events) if random.random() < 0.15 else self.line() for _ in range(count)]
        end = (
            b"\n" if random.random() < 0.7 else random.choice((b"", b"\n\n", b"\r\n", b"\n#", b"\n \n", b"\0", b"\n\0"))
        )
        if random.random() < 0.01:
            return lines[0].ljust(random.choice((4094, 4095, 4096, 5000)), b" ") + end
        return b"\n".join(lines) + end

    def delete(self, events: Sequence[str]) -> bytes:
        """Return a line that deletes one of the given events (GROUP/EVENT), in any of the accepted forms."""
        random = self._random
        group, _, event = random.choice(events or ["kprobes/a"]).partition("/")
        name = random.choice(
            (f"{group}/{event}", event, f"{group}/", f"{group}.{event}", group, "", "nosuch", "/" + event)
        )
        head = random.choice(("-:", "-:", "-:", "-:", "-", "-p:", " -:", "!", "-:x", "--:", "-r:", "!p:", "!:"))
        text = f"{head}{name}"
        if random.random() < 0.2:
            text += " " + random.choice((*KNOWN[:6], self.probe_point()))
            while random.random() < 0.4:
                text += " " + random.choice((self.argument(), "arg1=%di", "a0=%di"))
        return text.encode("utf-8", "surrogateescape")
