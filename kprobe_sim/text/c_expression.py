"""C expressions in the `print fmt` of an event, compiled to closures over a record's bytes.

A value is an int, or bytes where C has a string or an array.  Only casts truncate integers: printing takes the bits
that it needs.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from kprobe_sim.text.c_value import Array, Compiled, CValue, PagePointer

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<character>'(?:[^'\\]|\\.)*')
    | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|[0-9]+[uUlL]*)
    | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<sign>->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:(){}\[\],.=;])
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}
_BINARY: tuple[Mapping[str, Callable[[int, int], int]], ...] = (
    {"||": lambda left, right: int(bool(left) or bool(right))},
    {"&&": lambda left, right: int(bool(left) and bool(right))},
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": lambda left, right: int(left == right), "!=": lambda left, right: int(left != right)},
    {
        "<": lambda left, right: int(left < right),
        ">": lambda left, right: int(left > right),
        "<=": lambda left, right: int(left <= right),
        ">=": lambda left, right: int(left >= right),
    },
    {"<<": lambda left, right: left << (right & 63), ">>": lambda left, right: left >> (right & 63)},
    {"+": operator.add, "-": operator.sub},
    {
        "*": operator.mul,
        "/": lambda left, right: _divide(left, right),
        "%": lambda left, right: left - right * _divide(left, right),
    },
)
_SIZES = {"char": 1, "short": 2, "int": 4, "long": 8, "bool": 1, "_Bool": 1, "void": 8}
_NAMED_SIZES = {"gfp_t": -4, "dev_t": -4, "size_t": -8, "ssize_t": 8, "pid_t": 4, "loff_t": 8, "sector_t": -8}
_TCP_STATES = (
    *("ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT"),
    *("LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV", "BOUND_INACTIVE"),
)
# names that the kernel leaves in a format, with the same value in all versions; the last is that without KASLR
_VARIABLES = {
    **{f"TCP_{name}": number for number, name in enumerate(_TCP_STATES, 1)},
    **{
        f"HRTIMER_MODE_{mode}{pinned}{where}": rel | pin | bits
        for rel, mode in enumerate(("ABS", "REL"))
        for pin, pinned in ((0, ""), (2, "_PINNED"))
        for bits, where in ((0, ""), (4, "_SOFT"), (8, "_HARD"))
    },
    **{f"IOPRIO_CLASS_{name}": number for number, name in enumerate(("NONE", "RT", "BE", "IDLE"))},
    "IOPRIO_CLASS_INVALID": 7,
    "vmemmap_base": 0xFFFFEA0000000000,
}
_PAGE_STRUCTURE = 64
_FIXED = re.compile(r"_*([us])(8|16|32|64)\Z")


class NotEvaluable(ValueError):
    """The expression needs what only the kernel's code has: a function, a structure, an enumerator's name."""


Braces = list["Braces | Compiled"]
CFunction = Callable[[Sequence["Compiled | Braces | str"]], Compiled]


def tokens(text: str) -> list[tuple[str, str]]:
    """Split C text into (kind, text) pairs.  Raises NotEvaluable for what isn't a token."""
    pairs = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotEvaluable(f"can't read {text[position : position + 20]!r}")
        assert match.lastgroup is not None
        pairs.append((match.lastgroup, match.group(match.lastgroup)))
        position = match.end()
    return pairs


def string_value(literal: str) -> str:
    """Return the string that a C literal, quotes included, stands for (one character per byte)."""

    def character(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        return _ESCAPES.get(code, code)

    return _ESCAPE.sub(character, literal[1:-1])


class Parser:
    """Reads expressions from tokens.

    `field` compiles REC->NAME, `functions` compile calls by their names.  A function gets its arguments compiled, names
    of fields (`__get_str(NAME)`) as str, and lists in braces as lists.
    """

    def __init__(
        self, tokens: list[tuple[str, str]], field: Callable[[str], Compiled], functions: Mapping[str, CFunction]
    ) -> None:
        self._tokens = [*tokens, ("end", "")]
        self._index = 0
        self._field = field
        self._functions = functions

    @property
    def at_end(self) -> bool:
        return self._tokens[self._index][0] == "end"

    def take(self, text: str) -> bool:
        """Consume a sign if it comes next."""
        if self._tokens[self._index] == ("sign", text):
            self._index += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Consume a sign that must come next."""
        if not self.take(text):
            raise NotEvaluable(f"expected {text!r}, not {self._tokens[self._index][1]!r}")

    def string(self) -> str | None:
        """Take adjacent string literals as one; None if there is none."""
        parts = []
        while self._tokens[self._index][0] == "string":
            parts.append(string_value(self._tokens[self._index][1]))
            self._index += 1
        return "".join(parts) if parts else None

    def expression(self) -> Compiled:
        """Read one expression, up to a comma."""
        condition = self._binary(0)
        if not self.take("?"):
            return condition
        if self.take(":"):
            yes = condition  # GNU's a ?: b
        else:
            yes = self.expression()
            self.expect(":")
        no = self.expression()
        return lambda record: yes(record) if condition(record) else no(record)

    def _binary(self, level: int) -> Compiled:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while self._tokens[self._index][0] == "sign":
            function = _BINARY[level].get(self._tokens[self._index][1])
            if function is None:
                break
            self._index += 1
            left = _combine(function, left, self._binary(level + 1))
        return left

    def _unary(self) -> Compiled:
        kind, text = self._tokens[self._index]
        if kind == "sign":
            if self.take("-"):
                return _apply(operator.neg, self._unary())
            if self.take("~"):
                return _apply(operator.invert, self._unary())
            if self.take("!"):
                return _apply(lambda value: int(not value), self._unary())
            if self.take("+"):
                return self._unary()
            if self.take("&"):
                return self._unary()  # of an array or of its first element: its bytes
            if self.take("*"):
                raise NotEvaluable("follows a pointer")
            if text == "(":
                words = self._cast()
                if words is not None:
                    return _cast(words, self._unary())
        return self._postfix()

    def _cast(self) -> list[str] | None:
        """Consume `(TYPE)` if that comes next; return its words."""
        index = self._index + 1
        words: list[str] = []
        while self._tokens[index][0] == "name" or (words and self._tokens[index] == ("sign", "*")):
            words.append(self._tokens[index][1])
            index += 1
        if not words or words[0] == "REC" or self._tokens[index] != ("sign", ")"):
            return None
        kind, text = self._tokens[index + 1]
        if kind in ("string", "number", "name", "character") or (kind == "sign" and text in ("(", "~", "-", "!", "&")):
            known = len(words) > 1 or _width(words) != 0
            if not known and not (kind != "sign" or text == "("):
                return None
            self._index = index + 1
            return words
        return None

    def _postfix(self) -> Compiled:
        kind, text = self._tokens[self._index]
        literal = self.string()
        if literal is not None:
            constant = literal.encode("latin-1")
            return lambda _: constant
        self._index += 1
        if kind == "number":
            return _constant(_number(text))
        if kind == "character":
            return _constant(ord(string_value(text)))
        if kind == "name":
            return self._indexed(self._named(text))
        if (kind, text) == ("sign", "("):
            inner = self.expression()
            self.expect(")")
            return self._indexed(inner)
        raise NotEvaluable(f"can't read {text!r}")

    def _named(self, name: str) -> Compiled:
        if name == "REC":
            self.expect("->")
            kind, field = self._tokens[self._index]
            if kind != "name":
                raise NotEvaluable("REC-> without a name")
            self._index += 1
            return self._field(field)
        if name in ("true", "false"):
            return _constant(int(name == "true"))
        if name in _VARIABLES:
            return _constant(_VARIABLES[name])
        if name == "sizeof":
            return _constant(self._size())
        if self._tokens[self._index] != ("sign", "("):
            raise NotEvaluable(f"{name} is a name in the kernel's code")
        if name not in self._functions:
            raise NotEvaluable(f"{name}() is a function of the kernel")
        return self._functions[name](self._arguments())

    def _size(self) -> int:
        self.expect("(")
        words = []
        while self._tokens[self._index][0] == "name":
            words.append(self._tokens[self._index][1])
            self._index += 1
        self.expect(")")
        size = abs(_width(words))
        if not size:
            raise NotEvaluable(f"sizeof({' '.join(words)})")
        return size

    def _arguments(self) -> list[Compiled | Braces | str]:
        self.expect("(")
        arguments: list[Compiled | Braces | str] = []
        while not self.take(")"):
            kind, text = self._tokens[self._index]
            if self.take("{"):
                arguments.append(self._braces())
            elif kind == "name" and text != "REC" and self._tokens[self._index + 1] in (("sign", ","), ("sign", ")")):
                self._index += 1
                arguments.append(text)
            else:
                arguments.append(self.expression())
            if not self.take(","):
                self.expect(")")
                break
        return arguments

    def _braces(self) -> Braces:
        values: Braces = []
        while not self.take("}"):
            values.append(self._braces() if self.take("{") else self.expression())
            if not self.take(","):
                self.expect("}")
                break
        return values

    def _indexed(self, value: Compiled) -> Compiled:
        kind, text = self._tokens[self._index]
        if kind == "sign" and text in ("->", "."):
            raise NotEvaluable("follows a pointer")
        if not self.take("["):
            return value
        index = self.expression()
        self.expect("]")
        width, signed = (value.width, value.signed) if isinstance(value, Array) else (1, False)

        def element(record: bytes) -> CValue:
            array, number = value(record), index(record)
            if isinstance(array, int) or isinstance(number, bytes):
                raise NotEvaluable("an index into a number")
            return int.from_bytes(array[number * width : (number + 1) * width], "little", signed=signed)

        return self._indexed(element)


def number(value: CValue) -> int:
    """Return a value as a number; bytes stand for a pointer that isn't NULL."""
    return value if isinstance(value, int) else int.from_bytes(value[:8], "little") or 1


def _number(text: str) -> int:
    digits = text.rstrip("uUlL")
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    return int(digits, 8) if digits[0] == "0" and len(digits) > 1 else int(digits)


def _constant(value: int) -> Compiled:
    return lambda _: value


def _apply(function: Callable[[int], int], operand: Compiled) -> Compiled:
    return lambda record: function(number(operand(record)))


def _combine(function: Callable[[int, int], int], left: Compiled, right: Compiled) -> Compiled:
    scale = _PAGE_STRUCTURE if isinstance(left, PagePointer) and function in (operator.add, operator.sub) else 1
    return lambda record: function(number(left(record)), number(right(record)) * scale)


def _divide(left: int, right: int) -> int:
    if not right:
        return 0
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient


def _width(words: Sequence[str]) -> int:
    """Return the size of an integer type in bytes, negated if it is unsigned; 0 for an unknown type."""
    if "*" in words:
        return -8
    plain = [word for word in words if word not in ("const", "volatile", "unsigned", "signed", "struct", "enum")]
    unsigned = "unsigned" in words
    if not plain:
        return -4 if unsigned else 4
    if words[0] == "enum":
        return -4
    match = _FIXED.match(plain[-1])
    if match:
        return int(match.group(2)) // (-8 if match.group(1) == "u" else 8)
    if plain[-1] in _NAMED_SIZES:
        return _NAMED_SIZES[plain[-1]]
    if not all(word in _SIZES for word in plain):
        return 0
    size = 8 if "long" in plain else 2 if "short" in plain else _SIZES[plain[-1]]
    return -size if unsigned or plain[-1] in ("bool", "_Bool", "void") else size


def _cast(words: Sequence[str], operand: Compiled) -> Compiled:
    width = _width(words)
    if list(words) == ["struct", "page", "*"]:
        return PagePointer(operand)
    if not width or "*" in words:
        return operand
    bits = 8 * abs(width)
    mask, sign = (1 << bits) - 1, (1 << bits - 1 if width > 0 else 0)

    def cut(record: bytes) -> CValue:
        value = operand(record)
        if isinstance(value, bytes):
            return value
        value &= mask
        return (value ^ sign) - sign

    return cut
