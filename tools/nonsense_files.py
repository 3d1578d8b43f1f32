"""Nonsense: values of every type, and files of TOML, JSON or lines in which some are others, missing, or too many."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple


class Raw(str):
    """A value that stands in the file as it is: a number of any length, brackets of any depth."""

    __slots__ = ()


class Tree(NamedTuple):
    """A value of a file's, and what can be set in its place."""

    inside: Any
    key: Any


# ------------------------------------------------------------------------------------------------------------ nonsense

NUMBERS = (
    *(
        0,
        1,
        -1,
        2,
        5,
        64,
        255,
        4096,
        8192,
        100_000,
        1_000_000,
        1 << 31,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
        1 << 64,
        10**40,
        -(10**40),
    ),
    *(0.0, -0.0, -0.5, 1.5, 1e-9, 1e308, -1e308, float("inf"), float("-inf"), float("nan")),
)
WORDS = (
    *(
        "",
        " ",
        "x",
        "0",
        "-1",
        "0x10",
        "1e9",
        "nan",
        "cat-1",
        "cat-99999999999",
        "cat-²",
        "6²",
        "٣",
        "é",
        "\ud800",
        "\0",
    ),
    *("a\nb", "\r", "/", "..", "../../x", "/dev/zero", "a/b", "vfs_read", "vfs_read+0x10", "vfs_read+010", "nosuch"),
    *(
        "sched/sched_switch",
        "sys_enter+0x1/0x2",
        "x" * 5000,
        "%s%n{}",
        "trace",
        "read",
        "local",
        "6.1",
        "[[call]]",
        "'",
    ),
    *("\ud800\udc00", "a" * 70_000, "1" * 4301, "0x" + "f" * 5000, "-", "#", "=", "\x1b[31m"),
)
DEEP = 3000
BEYOND = 1100  # of Python's own limit to nesting, by dots: reading them takes the square of their number
_STRING = json.JSONEncoder(ensure_ascii=False).encode
BOTH: tuple[Any, ...] = (
    *(True, False, [], {}, [[]], [{}], {"": {}}, {"x": []}, [1], ["x"], [True], [1.5], list(range(70)), ["x"] * 300),
    *({"hex": "00"}, {"hex": 1}, {"x": 1}, {"name": "x"}, {"comm": 1, "pid": "x"}, {"di": -1}, {"-1": "00"}),
    *(Raw("9" * 4301), Raw("-" + "9" * 4301)),
)
TOML: tuple[Any, ...] = (
    *(datetime.date(2024, 1, 1), datetime.time(1), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
    *(Raw("0x" + "f" * 5000), Raw("[" * DEEP + "]" * DEEP), Raw("{" + ".".join(["a"] * BEYOND) + "=1}"), Raw("1e9999")),
    Raw("0o7777"),
)
JSON: tuple[Any, ...] = (
    None,
    Raw("[" * 100_000 + "]" * 100_000),
    Raw("[" * 900 + "]" * 900),
    Raw("[" * 400 + "]" * 400),
    Raw('{"a":' * DEEP + "1" + "}" * DEEP),
    Raw("1e9999"),
)


def nonsense(random: Random, own: tuple[Any, ...]) -> Any:
    """Return a value of any type; `own` are those that only this form has."""
    return copied(random.choice(random.choice((NUMBERS, WORDS, BOTH, own))))


def places(tree: Any) -> Iterator[Tree]:
    """Yield where a value stands in a tree of tables and lists."""
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield Tree(tree, key)
        if isinstance(value, (dict, list)):
            yield from places(value)


def copied(tree: Any) -> Any:
    """Return a copy of tables and lists, as deep as they are."""
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}
    return [copied(value) for value in tree] if isinstance(tree, list) else tree


def damaged(tree: Any, random: Random, own: tuple[Any, ...]) -> Any:
    """Return a tree in which one to three values are nonsense, gone, more, elsewhere or there twice."""
    tree = copied(tree)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        found = list(places(tree))
        if not found:
            return tree
        inside, key = random.choice(found)
        match random.randrange(8):
            case 0:
                del inside[key]
            case 1 if isinstance(inside, dict):
                inside[random.choice(WORDS)] = nonsense(random, own)
            case 1 | 2 if isinstance(inside, list):
                inside.append(nonsense(random, own))
            case 3:
                inside[key] = [inside[key]]
            case 4:
                other = random.choice(found)
                inside[key] = (
                    copied(other.inside[other.key])
                    if other.key in range(len(other.inside))
                    or (isinstance(other.inside, dict) and other.key in other.inside)
                    else None
                    if None in own
                    else 0
                )
            case _:
                inside[key] = nonsense(random, own)
    return tree


def torn(data: bytes, random: Random) -> bytes:
    """Return a file's bytes, one time in ten cut off, or with other bytes somewhere."""
    if random.randrange(10):
        return data
    at = random.randrange(len(data) + 1)
    return (
        data[:at]
        + random.choice((b"", b"\xff", b"\0", b"\n", b"=", b"[", b"{", b'"'))
        + data[at + random.randrange(3) :]
    )


# --------------------------------------------------------------------------------------------------------------- forms


def toml_value(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _STRING(value).replace("\x7f", "\\u007f")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{toml_value(str(key))} = {toml_value(one)}' for key, one in value.items())}}}"
    return repr(value)


def toml(tree: dict[str, Any], random: Random) -> bytes:
    """Write a file of TOML, its lists of tables as [[KEY]] or on a line."""
    text, after = "", ""
    for key, value in tree.items():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value) and random.randrange(2):
            for one in value:
                lines = (f"{toml_value(str(name))} = {toml_value(two)}\n" for name, two in one.items())
                after += f"[[{toml_value(str(key))}]]\n{''.join(lines)}"
        else:
            text += f"{toml_value(str(key))} = {toml_value(value)}\n"
    return (text + after).encode("utf-8", "surrogatepass")


def json_text(tree: Any) -> bytes:
    """Write a file of JSON."""
    raws: list[str] = []

    def marked(value: Any) -> Any:
        if isinstance(value, Raw):
            raws.append(value)
            return f"@raw{len(raws) - 1}@"
        if isinstance(value, dict):
            return {key: marked(one) for key, one in value.items()}
        return [marked(one) for one in value] if isinstance(value, list) else value

    text = json.dumps(marked(tree), default=str)
    return re.sub(r'"@raw(\d+)@"', lambda found: raws[int(found[1])], text).encode()


# --------------------------------------------------------------------------------------------------------------- lines

TOKENS = (
    *("010", "08", "0", "-1", "+", "[0]", "[65]", "[999]", "u8[0]", ":b1@0/0", ":b" + "9" * 4400 + "@1/2", "9" * 4301),
    *("\\" + "9" * 4301, "\\0x" + "f" * 5000, "$arg" + "9" * 4301, "$stack" + "1" * 5000, "+" + "9" * 4400 + "(%di)"),
    *("+u", "0x" + "f" * 5000, "\udcff", "é", "²", "٣", "\0", "\t", ":", "=", "@", "%", "{", "}", "(", ")", '"', "\\"),
    *(":symbol", ":ustring", ":char[3]", "offset:" + "9" * 4301 + ";", "size:" + "9" * 4301 + ";", "[", "]", ";", ","),
    *(
        "ID: " + "9" * 4301,
        "print fmt: ",
        "%s",
        "%pS",
        "0x%x",
        "name: ",
        "field:",
        "__data_loc ",
        "x" * 5000,
        " " * 3000,
    ),
)


def mutated(line: str, random: Random) -> str:
    """Return a line with a token in place of a few characters, of a number, or of a word."""
    token = random.choice(TOKENS)
    spans = [found.span() for found in re.finditer(r"[0-9a-f]*[0-9][0-9a-f]*|\w+|[^\w\s]+", line)]
    if spans and random.randrange(3):
        start, end = random.choice(spans)
    else:
        start = random.randrange(len(line) + 1)
        end = start + random.choice((0, 0, 1, 4))
    return line[:start] + token + line[end:]
