"""No pattern takes more than twice as long for twice as much text: each is tried on texts that its own parts make long.

What a repetition takes is put there many times, behind what leads to it and before what can't follow, and so is what
leads to it, as a search begins anew at each; in the ways in which its module uses the pattern.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import test_patterns as scan

names, reading = scan.names, scan.reading
METHODS = {"match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn"}
ALIKE = {"finditer": "findall", "subn": "sub"}
LONG = 64  # times: a repetition of fewer is none
LENGTH = 1000  # characters
FAST = 60e-9  # seconds for a character: what is as fast isn't measured again
RATIO = 3.0
FLOOR = 0.0004  # seconds for twice the length: less isn't told from noise
TRIES = 6
REPEATS = (names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT)
CATEGORIES = {
    names.CATEGORY_SPACE: " \n", names.CATEGORY_DIGIT: "07", names.CATEGORY_WORD: "aZ0_",
    names.CATEGORY_NOT_SPACE: "a(0", names.CATEGORY_NOT_DIGIT: "a (", names.CATEGORY_NOT_WORD: " (\n",
}  # fmt: skip
OTHERS = "a0 \n\t_(;:,\"'\\=[]{}<>-+.*/%$@#!x|&^~\x00\x7f\xe9"
ENDS = ("", "\n", "\x01", "a")


class Used(NamedTuple):
    """A pattern, where it stands, and how it is used."""

    where: str
    pattern: str | bytes
    flags: int
    methods: frozenset[str]
    is_given_lines: bool = False


class Text(NamedTuple):
    """A text as long as is wanted."""

    before: str
    again: str
    after: str

    def of(self, length: int, *, is_bytes: bool) -> Any:
        text = self.before + self.again * (length // len(self.again) + 1) + self.after
        return text.encode("latin-1", "replace") if is_bytes else text


def parts(operation: Any, argument: Any) -> list[Any]:
    """Give the patterns within a part of one."""
    if operation in REPEATS:
        return [argument[2]]
    if operation is names.SUBPATTERN:
        return [argument[-1]]
    if operation is names.BRANCH:
        return list(argument[1])
    if operation is names.ATOMIC_GROUP:
        return [argument]
    if operation is names.GROUPREF_EXISTS:
        return [part for part in argument[1:] if part is not None]
    return [argument[1]] if operation in (names.ASSERT, names.ASSERT_NOT) else []


def characters(items: Any) -> Iterator[str]:
    """Yield characters that a pattern tells apart."""
    for operation, argument in items:
        if operation in (names.LITERAL, names.NOT_LITERAL):
            yield chr(argument)
        elif operation is names.IN:
            for kind, value in argument:
                if kind is names.LITERAL:
                    yield chr(value)
                elif kind is names.RANGE:
                    yield from map(chr, value)
                elif kind is names.CATEGORY:
                    yield from CATEGORIES.get(value, "")
        for part in parts(operation, argument):
            yield from characters(part)


def takes(operation: Any, argument: Any, character: str) -> bool:
    """Say whether a part of one character takes one."""
    if operation is names.ANY:
        return character != "\n"
    if operation in (names.LITERAL, names.NOT_LITERAL):
        return (chr(argument) == character) == (operation is names.LITERAL)
    is_word = character.isalnum() or character == "_"
    of = {
        names.CATEGORY_SPACE: character.isspace(), names.CATEGORY_DIGIT: character.isdigit(),
        names.CATEGORY_WORD: is_word, names.CATEGORY_NOT_SPACE: not character.isspace(),
        names.CATEGORY_NOT_DIGIT: not character.isdigit(), names.CATEGORY_NOT_WORD: not is_word,
    }  # fmt: skip
    found = any(
        (kind is names.LITERAL and chr(value) == character)
        or (kind is names.RANGE and value[0] <= ord(character) <= value[1])
        or (kind is names.CATEGORY and of[value])
        for kind, value in argument
    )
    return found != any(kind is names.NEGATE for kind, _ in argument)


def sample(items: Any, pool: list[str]) -> str:
    """Give a short text that a pattern takes, or nearly."""
    text = ""
    for operation, argument in items:
        if operation in (names.LITERAL, names.NOT_LITERAL, names.ANY, names.IN):
            text += next((one for one in pool if takes(operation, argument, one)), "a")
        elif operation in REPEATS:
            text += sample(argument[2], pool) * min(argument[0], 300)
        elif operation not in (names.ASSERT, names.ASSERT_NOT):
            text += "".join(sample(part, pool) for part in parts(operation, argument)[:1])
    return text


def repetitions(items: Any, pool: list[str], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield of each long repetition what leads to it, and what it repeats."""
    for operation, argument in items:
        if operation in REPEATS and argument[1] > LONG:
            yield before, sample(argument[2], pool)
        for part in parts(operation, argument):
            yield from repetitions(part, pool, before)
        before += sample([(operation, argument)], pool)


def texts(pattern: str | bytes, flags: int) -> list[Text]:
    """Give the texts on which a pattern is tried."""
    parsed = reading.parse(pattern, flags)
    own = list(dict.fromkeys([*characters(parsed), *" \na0_"]))
    pool = list(dict.fromkeys([*"a0 ", *own, *OTHERS]))
    found = list(repetitions(parsed, pool))
    made: set[Text] = set()
    for before, body in found:
        for again in {*own[:30], body, before, before + body}:
            if again and len(again) < 100:
                made |= {Text(first, again, after) for first in {before, ""} for after in ENDS}
    for body in {body for _, body in found}:
        for one in own[:20]:
            made |= {Text(before, body + one, "\x01") for before in {"", *(before for before, _ in found[:4])}}
    whole = sample(parsed, pool)
    return sorted(made | ({Text("", whole, "\x01")} if found and whole else set()))


def tried(pattern: Any, method: str, text: Any, times: int) -> float:
    """Give the least time that a pattern takes for a text, in seconds."""
    function = getattr(pattern, method)
    given = (b"" if isinstance(text, bytes) else "", text) if method == "sub" else (text,)
    best = float("inf")
    for _ in range(times):
        start = time.thread_time_ns()
        function(*given)
        best = min(best, (time.thread_time_ns() - start) / 1e9)
    return best


def grows(used: Used) -> str:
    """Say on what a pattern takes more than twice as long for twice as much, and how long; "" if on nothing."""
    pattern = re.compile(used.pattern, used.flags)
    is_bytes = isinstance(used.pattern, bytes)
    for text in texts(used.pattern, used.flags):
        if used.is_given_lines and not text.after.endswith("\n"):
            continue
        for method in used.methods:
            once, twice = (text.of(length, is_bytes=is_bytes) for length in (LENGTH, 2 * LENGTH))
            if tried(pattern, method, once, 1) < FAST * LENGTH or tried(pattern, method, once, 3) < FAST * LENGTH:
                continue
            for _ in range(TRIES):
                first, second = tried(pattern, method, once, 3), tried(pattern, method, twice, 3)
                if second < max(RATIO * first, FLOOR):
                    break
            else:
                took = f"{first * 1e3:.1f} ms, then {second * 1e3:.1f} ms"
                return f"{used.where}: {method} {took}: {text} {used.pattern!r}"
    return ""


def uses(tree: ast.AST) -> dict[str, set[str]]:
    """Give by which methods each name in a module is used; those of names of its own functions are under ""."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            value = node.value
            name = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
            if name != "re":
                found.setdefault(name, set()).add(ALIKE.get(node.attr, node.attr))
                if not name.isupper() and not name.lstrip("_").isupper():
                    found.setdefault("", set()).add(ALIKE.get(node.attr, node.attr))
    return found


def everywhere(package: str) -> dict[str, set[str]]:
    """Give the methods by name, for patterns that another module uses."""
    found: dict[str, set[str]] = {}
    for path in scan.HOMES[package].rglob("*.py"):
        for name, methods in uses(ast.parse(path.read_bytes())).items():
            found.setdefault(name, set()).update(methods)
    return found


def called(tree: ast.AST, module: Any) -> Iterator[Used]:
    """Yield the patterns that stand in calls of functions of `re`."""
    own = uses(tree)
    positions = {"compile": 1, "split": 3, "sub": 4, "subn": 4}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute)):
            continue
        name = node.func.attr
        if name not in scan.FUNCTIONS or not isinstance(node.func.value, ast.Name) or node.func.value.id != "re":
            continue
        at = positions.get(name, 2)
        words = [node.args[0], *node.args[at : at + 1], *(one.value for one in node.keywords if one.arg == "flags")]
        try:
            pattern, *flags = (eval(compile(ast.Expression(word), "", "eval"), vars(module)) for word in words)
        except (NameError, TypeError):  # put together of what is known where it is used
            continue
        if isinstance(pattern, str | bytes):
            methods = {ALIKE.get(name, name)} if name != "compile" else own.get("", set()) or {"match"}
            yield Used(f"{module.__name__}:{node.lineno}", pattern, sum(flags), frozenset(methods))


@functools.cache
def collected(package: str) -> list[Used]:
    """Give every pattern of a package, once for each way in which it is used."""
    found: dict[tuple[Any, ...], Used] = {}
    others = everywhere(package)
    for module in scan.modules(package):
        tree = ast.parse(Path(module.__file__).read_bytes())
        own = uses(tree)
        source = Path(module.__file__).read_text("utf-8")
        named = {
            name: value
            for name, value in vars(module).items()
            if isinstance(value, re.Pattern) and re.search(rf"^{name}\b.*=", source, re.M)
        }
        known = {value.pattern for value in named.values()}
        each = [one for one in called(tree, module) if one.pattern not in known]
        for name, value in named.items():
            methods = own.get(name) or others.get(name) or {"match"}
            each.append(Used(f"{module.__name__}.{name}", value.pattern, value.flags & ~re.U, frozenset(methods)))
        found.update({(one.pattern, one.flags, one.methods): one for one in each})
    return list(found.values())


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(.*?)\s*\b(\w+)", "fullmatch"), (r"\s*field:(\w+)", "search"), (rb"^\s*(a|b)\s*:", "findall"),
        (r"\[(\S+)\]", "search"), (r"-[a-z]*a[a-z]*", "fullmatch"), (r"%[-0]*\d*d", "match"), (r"\w+=", "findall"),
        (r"(?:a|b)+c", "search"), (r"a(?=.*b)", "findall"),
    ],
)  # fmt: skip
def test_the_trial_finds_what_is_slow(pattern: str | bytes, method: str) -> None:
    flags = int(re.M) if isinstance(pattern, bytes) else 0
    assert grows(Used("here", pattern, flags, frozenset([method]))) != ""


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(\w+)=(\w+)", "match"), (r"\b(\w++)=", "findall"), (r"\[([^\[\]]+)\]", "search"),
        (rb"^(\d{1,9}) a", "findall"), (r"(?<! ) ++\d", "sub"), (r"%[-0]*+\d*+d", "findall"),
    ],
)  # fmt: skip
def test_the_trial_lets_pass_what_is_fast(pattern: str | bytes, method: str) -> None:
    assert grows(Used("here", pattern, 0, frozenset([method]))) == ""


@pytest.mark.parametrize(
    ("package", "most"),
    [("kprobe", 60), ("kprobe_text", 100), ("kprobe_check", 50), ("kprobe_sim", 60), ("kprobe_vm", 30)],
)
def test_all_patterns_are_collected(package: str, most: int) -> None:
    assert len(collected(package)) > most


ROOMS = sorted(
    {
        (package, *path.relative_to(home).parts[:1])
        for package, home in scan.HOMES.items()
        for path in home.rglob("*.py")
        if scan.CALLED.search(path.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize(("package", "room"), ROOMS, ids=lambda part: str(part).removesuffix(".py"))
def test_no_pattern_of_a_room_is_slow(package: str, room: str) -> None:
    name = f"{package}.{room.removesuffix('.py')}"
    every = [used for used in collected(package) if re.split("[.:]", used.where)[:2] == name.split(".")]
    assert [said for used in every if (said := grows(used))] == []


def test_no_pattern_that_is_put_together_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Used] = []
    compiled = re.compile

    def noted(pattern: Any, flags: Any = 0) -> Any:
        if isinstance(pattern, str | bytes):
            made.append(Used("put together", pattern, int(flags), frozenset(["match"]), is_given_lines=True))
        return compiled(pattern, flags)

    with monkeypatch.context() as patch:
        patch.setattr(re, "compile", noted)
        scan.put_together()
    assert len(made) > 10
    assert [said for used in dict.fromkeys(made) if (said := grows(used))] == []
