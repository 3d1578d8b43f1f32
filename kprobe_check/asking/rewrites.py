"""Other ways to write a statement, each for a reason: candidates, which may be wrong until they are tried."""

from __future__ import annotations

import re
from contextlib import suppress

from kprobe.definitions.definition import parse
from kprobe.definitions.foreign import meant
from kprobe.definitions.spellings import from_saved
from kprobe.errors import DefinitionError
from kprobe.kernel.symbols import successors
from kprobe_check.asking.meanings import REGISTERS, WRAPPERS, spot, taken_for_arguments
from kprobe_check.statement import DEFINITION, FILTER, Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kprobe_check.asking.asked_kernel import Answer, AskedKernel

    _Rule = Callable[[list[str], Statement], Iterator[tuple[list[str], str]]]

_OPEN_HOW = (("%dx", "+0(%dx)"), ("%cx", "+8(%dx)"), ("$arg3", "+0($arg3)"), ("$arg4", "+8($arg3)"))
_SUCCESSOR_ARGUMENTS = {  # struct open_how has flags, mode and resolve, 64 bits each (include/uapi/linux/openat2.h)
    ("do_sys_open", "do_sys_openat2"): dict(_OPEN_HOW),
}
_OLD_WORD = re.compile(r"((?:\w+=)?)(rv|sa|s\d+|a\d+)")
# Arguments that are addresses in user memory, by their number
USER_MEMORY = {
    **dict.fromkeys(("do_sys_open", "do_sys_openat2", "vfs_read", "vfs_write", "ksys_read", "ksys_write"), 2),
    **dict.fromkeys(("getname", "getname_flags"), 1),
}
_NAMED = re.compile(r"(\w+)=(.*)")


def rewrites(
    statement: Statement, answers: Sequence[Answer], asked: Sequence[AskedKernel]
) -> Iterator[tuple[str, str]]:
    """Yield texts that may mean the same, each with what was done, the likeliest first."""
    if statement.kind != DEFINITION:
        yield from _conditions(statement)
        return
    words = statement.text.partition("#")[0].split()
    yield from _foreign(statement.text)
    if len(words) < 2 or statement.file not in ("kprobe_events", "dynamic_events"):
        return
    for rule in _RULES:
        for rewritten, because in rule(list(words), statement):
            yield " ".join(rewritten), because
    for rewritten, because in (*_typed(words, answers), *_by_names(words, statement, asked)):
        yield " ".join(rewritten), because
    for answer, kernel in zip(answers, asked, strict=True):
        if answer.errno:
            yield from kernel.corrections(" ".join(words))


def _foreign(text: str) -> Iterator[tuple[str, str]]:
    """Yield the meaning of a line in another tool's spelling, as written to a tracefs."""
    try:
        probe = parse(text)
    except DefinitionError:
        other = meant(text)
        for line in other.definitions if other is not None else ():
            with suppress(DefinitionError):
                yield str(parse(line)), f"{other.by}'s spelling" if other and other.by else "as a definition is written"
        return
    if re.match(r"\s*[pr]:\w+\s+\w+:\w", text) and ":" in "".join(probe.args[:1]):  # FUNCTION PARAMETER:TYPE
        yield str(probe), "perf probe's spelling"


def user_string(statement: Statement) -> str:
    """Return a definition that reads user memory by `ustring` where it is read by `string`; "" if nothing is."""
    where = spot(statement)
    number = USER_MEMORY.get(where.symbol) if where and where.is_entry else None
    if number is None:
        return ""
    source = rf"(\+0\((?:%{REGISTERS[number - 1]}|\$arg{number})\):)string\b"
    text = re.sub(source, r"\1ustring", statement.text)
    return text if text != statement.text else ""


# ------------------------------------------------------------------------------------------------ places and heads


def _successor(words: list[str], statement: Statement) -> Iterator[tuple[list[str], str]]:
    where = spot(statement)
    if where is None or where.module or any(_OLD_WORD.fullmatch(word) for word in words[2:]):
        return
    for new in successors(where.symbol):
        arguments = words[2:]
        if new.startswith(WRAPPERS):
            arguments = [_from_saved(argument) for argument in arguments] if not where.is_return else arguments
        else:
            table = _SUCCESSOR_ARGUMENTS.get((where.symbol, new), {})
            if (
                table and "%ax" in where.arguments
            ):  # of the 32-bit convention, where other registers hold other arguments
                continue
            arguments = [_mapped(argument, table) for argument in arguments]
        rewritten = [words[0], words[1].replace(where.symbol, new, 1), *arguments]
        yield rewritten, f"{new} for {where.symbol}"


def _wrapper(words: list[str], statement: Statement) -> Iterator[tuple[list[str], str]]:
    where = spot(statement)
    if where is not None and where.symbol.startswith(WRAPPERS) and where.is_entry:
        arguments = [_from_saved(argument) for argument in words[2:]]
        if arguments != words[2:]:
            yield [*words[:2], *arguments], "arguments from the caller's registers, which %di points to"


def _from_saved(argument: str) -> str:
    """Return an argument that reads the caller's saved register, for one that names the register itself."""
    return from_saved(argument) if taken_for_arguments(argument) else argument


def _mapped(argument: str, table: dict[str, str]) -> str:
    return re.sub(r"[%$]\w+", lambda found: table.get(found[0], found[0]), argument)


def _name(words: list[str], statement: Statement) -> Iterator[tuple[list[str], str]]:
    """Name an event whose name the kernel would make, or change a name to one that all kernels take."""
    head, colon, name = words[0].partition(":")
    if not colon:
        where = spot(statement)
        if where is not None:
            made = re.sub(r"\W", "_", where.symbol) + ("_return" if where.is_return else "")
            yield [f"{head}:{made}", *words[1:]], "a name for the event, which kernels make otherwise"
        return
    if "." in name and "/" not in name:
        yield [f"{head}:{name.replace('.', '/', 1)}", *words[1:]], "a slash between group and event"
    group, slash, event = name.rpartition("/")
    clean = group + slash + re.sub(r"\W", "_", event)
    if clean != name:
        yield [f"{head}:{clean}", *words[1:]], "a name of letters, digits and _"


def _kind(words: list[str], statement: Statement) -> Iterator[tuple[list[str], str]]:
    head, colon, name = words[0].partition(":")
    kind, number = head[:1], head[1:]
    is_return = words[1].endswith("%return")
    if kind == "f":
        yield _as_kprobe(words, "r" if is_return else "p", name), "a kprobe, which older kernels have too"
    elif kind == "p" and is_return:
        yield [f"r{number}{colon}{name}", words[1].removesuffix("%return"), *words[2:]], "r: for %return"
    elif kind == "p" and any("$retval" in word for word in words[2:]):
        yield [f"r{colon}{name}", *words[1:]], "r:, as $retval is there when the function returns"
    if kind == "p" and number:
        yield [f"p{colon}{name}", *words[1:]], "no number of instances, which is for returns"


def _as_kprobe(words: list[str], kind: str, name: str) -> list[str]:
    symbol = words[1].removesuffix("%return")
    return [f"{kind}:{name or symbol}", symbol, *words[2:]]


# ------------------------------------------------------------------------------------------------ arguments


def _registers(words: list[str], statement: Statement) -> Iterator[tuple[list[str], str]]:
    by_register = [_each(word, lambda number: f"%{REGISTERS[number - 1]}") for word in words[2:]]
    if by_register != words[2:] and words[0][:1] == "p":
        yield [*words[:2], *by_register], "registers of the calling convention for $argN"


def _each(word: str, register: Callable[[int], str]) -> str:
    return re.sub(r"\$arg([1-6])\b", lambda found: register(int(found[1])), word)


def _typed(words: list[str], answers: Sequence[Answer]) -> Iterator[tuple[list[str], str]]:
    """Add the newest kernel's type where kernels without BTF assume another."""
    fields = [answer.fields for answer in answers if answer.is_taken and len(answer.fields) == len(words) - 2]
    if not fields:
        return
    new = list(words)
    for index, same in enumerate(zip(*fields, strict=True), 2):
        if len({field.type for field in same}) > 1 and re.search(r":\w+(\[\d+\])?$", words[index]) is None:
            new[index] = f"{words[index]}:{same[-1].type}"
    if new != words:
        yield new, "the type that newer kernels know by BTF"


def _first_words(words: list[str], statement: Statement) -> Iterator[tuple[list[str], str]]:
    """Translate fetch arguments of the patches before the merge (Linux 2.6.33)."""

    def today(found: re.Match[str]) -> str:
        word = found[2]
        new = {"rv": "$retval", "sa": "$stack"}.get(word) or (
            f"$stack{word[1:]}" if word[0] == "s" else f"$arg{int(word[1:]) + 1}"
        )
        return found[1] + new

    new = [today(found) if (found := _OLD_WORD.fullmatch(word)) else word for word in words[2:]]
    if new != words[2:]:
        yield [*words[:2], *new], "$argN, $stackN and $retval for a0, s0 and rv"


def _by_names(words: list[str], statement: Statement, asked: Sequence[AskedKernel]) -> Iterator[tuple[list[str], str]]:
    """Replace parameter names, which need BTF, and $arg* by $argN."""
    where = spot(statement)
    if where is None or not where.is_entry or where.module or not re.search(r"[A-Za-z_]", where.arguments):
        return
    names = next(filter(None, (kernel.parameters(where.symbol) for kernel in reversed(asked))), [])[: len(REGISTERS)]
    if not names:
        return
    new = [one for word in words[2:] for one in _numbered(word, names)]
    if new != words[2:]:
        yield [*words[:2], *new], "$argN for the names of parameters, which need BTF"


def _numbered(word: str, names: list[str]) -> list[str]:
    if word == "$arg*":
        return [f"{name}=$arg{number}" for number, name in enumerate(names, 1)]
    named = _NAMED.fullmatch(word)
    own, value = (named[1], named[2]) if named else ("", word)
    new = re.sub(
        r"(?<![\w%$@>.:=])([A-Za-z_]\w*)(?![\w(]|->)",
        lambda found: f"$arg{names.index(found[1]) + 1}" if found[1] in names else found[0],
        value,
    )
    if new == value:
        return [word]
    return [f"{own or re.sub(r'[^A-Za-z0-9_].*', '', value)}={new}" if own or value[:1].isalpha() else new]


_RULES: tuple[_Rule, ...] = (_successor, _wrapper, _name, _kind, _first_words, _registers)


# ------------------------------------------------------------------------------------------------ filters, triggers

_CONDITION_RULES = (
    (r"(?<![=!<>~&])=(?!=)", "==", "== compares"),
    (r"(\b\w+\s*(?:==|!=|~)\s*)(?![\"'\d\s-]|0x|CPUS)([^\s()&|]+)", r'\1"\2"', "quotes around a string"),
    (r"\bpid\b", "common_pid", "common_pid, which every event has"),
)
_TRIGGER_RULES = (
    (r"\bcommon_cpu\b", "cpu", "cpu, as older kernels call it"),
    (r"\bcpu\b", "common_cpu", "common_cpu, as newer kernels call it"),
    (r"\bcommon_stacktrace\b", "stacktrace", "stacktrace, as older kernels call it"),
    (r"(?<=[=,])stacktrace\b", "common_stacktrace", "common_stacktrace, as newer kernels call it"),
    (r"(?<=[=,])pid\b", "common_pid", "common_pid, which every event has"),
    (r"\.buckets=\d+", ".log2", "log2, as older kernels have no buckets"),
    (r":nohitcount\b|:NOHC\b", "", "without nohitcount, which older kernels haven't"),
)


def _conditions(statement: Statement) -> Iterator[tuple[str, str]]:
    for pattern, new, because in _CONDITION_RULES if statement.kind == FILTER else _TRIGGER_RULES:
        text = re.sub(pattern, new, statement.text)
        if text != statement.text:
            yield text, because
