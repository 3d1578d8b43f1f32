"""Arguments by their C names: `filename`, `how->flags`, `$retval` with its type, `$arg*`.

Sources: kernel/trace/trace_probe.c and trace_btf.c of 6.12.117 and 7.2.13 (parse_btf_arg, parse_btf_field,
traceprobe_expand_meta_args); fixtures/definitions; docs/kernel/arguments.md#names-of-parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from kprobe_sim.builds.gates import Gates
from kprobe_sim.builds.prototypes import VOID, PrototypeTable, Signature
from kprobe_sim.language.primitives.kstrto import UINT_MAX, is_digit
from kprobe_sim.language.primitives.refusal import Refusal
from kprobe_sim.named_tuple import NamedTuple

LAST_SLOT = 15  # an argument compiles to at most 16 fetch instructions; the last only marks the end
_EXPANDED_SIZE = 128  # bytes for all expanded arguments, NULs included
_FIRST = 2  # the number of the first argument's token


class Function(NamedTuple):
    """What BTF says about the probed function: `signature` is None if it doesn't know the function."""

    types: PrototypeTable | None = None
    signature: Signature | None = None


class Path(NamedTuple):
    """A path of fields: the offset of each read of memory, the type at its end, and a bitfield's (width, position).

    `column` is that of the last field.
    """

    offsets: tuple[int, ...]
    type: int
    bits: tuple[int, int]
    column: int


class Variable(NamedTuple):
    """A variable of a function: the index of its `parameter` (None means the return value), and where its fields lead.

    `type` is None where BTF doesn't know the function.
    """

    parameter: int | None
    offsets: tuple[int, ...]
    type: int | None
    bits: tuple[int, int]
    column: int


def split_field(text: str, column: int) -> tuple[str, str | None, bool]:
    """Split NAME->REST or NAME.REST; return name, REST (None if none) and whether an arrow stood between."""
    end = min((position for position in (text.find("."), text.find("-")) if position >= 0), default=-1)
    if end < 0:
        return text, None, False
    if text.startswith("->", end):
        return text[:end], text[end + 2 :], True
    if text[end] == ".":
        return text[:end], text[end + 1 :], False
    raise Refusal("BAD_HYPHEN", column + end)


def split_variable(text: str, column: int) -> tuple[str, str | None, int]:
    """Split a variable from its fields; return the name, the fields (None if there are none) and their column."""
    name, rest, arrow = split_field(text, column)
    after = column + len(name) + (2 if arrow else 1)
    if rest is not None and not arrow:
        raise Refusal("NOSUP_DAT_ARG", after)
    return name, rest, after


def find_variable(text: str, function: Function, column: int, *, is_return: bool) -> Variable:
    """Find what NAME[->FIELD[.FIELD]..] or $retval[->FIELD..] means.  Raises Refusal."""
    name, rest, after = split_variable(text, column)
    types, signature = function
    index: int | None = None
    if is_return and name == "$retval":
        if types is None or signature is None:
            if rest is not None:
                raise Refusal("NO_BTF_ENTRY", after)
            return Variable(None, (), None, (0, 0), column)
        if signature.returns == VOID:
            raise Refusal("NO_RETVAL", column)
        kind = signature.returns
    else:
        if types is None or signature is None or not signature.parameters:
            raise Refusal("NO_BTF_ENTRY", column)
        names = [parameter for parameter, _ in signature.parameters]
        if name not in names:
            raise Refusal("NO_BTFARG", column)
        index = names.index(name)
        kind = signature.parameters[index][1]
    kind = types.resolve(kind)
    if rest is None:
        return Variable(index, (), kind, (0, 0), column)
    return Variable(index, *follow_fields(types, rest, after, pointer=kind))


def follow_fields(
    types: PrototypeTable,
    text: str,
    column: int,
    *,
    pointer: int = VOID,
    struct: int | None = None,
    room: int = LAST_SLOT,
) -> Path:
    """Follow FIELD[->FIELD|.FIELD].. from a pointer, or from a struct: each arrow is one read of memory.

    `room` is how many more instructions a fetch may have.  Raises Refusal.
    """
    rest: str | None = text
    offsets: list[int] = []
    bits = (0, 0)
    kind = pointer
    while rest is not None:
        pointed = types.pointed(kind) if struct is None else struct
        if pointed is None:
            raise Refusal("NO_PTR_STRCT", column)
        struct = None
        offset, kind, width, rest, column = find_field(types, pointed, rest, column)
        if len(offsets) + 1 >= room:
            raise Refusal("TOO_MANY_OPS", column)
        offsets.append(offset // 8)
        bits = (width, offset % 8)
    return Path(tuple(offsets), kind, bits, column)


def find_field(types: PrototypeTable, kind: int, text: str, column: int) -> tuple[int, int, int, str | None, int]:
    """Find FIELD[.FIELD].. in a struct, up to an arrow.

    Returns its offset in bits, its type, its width in bits if it is a bitfield, what follows the arrow (or None)
    and the column of that, or else of the last field.  Raises Refusal.
    """
    offset = 0
    while True:
        name, rest, arrow = split_field(text, column)
        if not types.is_struct(kind):
            raise Refusal("BAD_BTF_TID", column)
        member = types.member(kind, name)
        if member is None:
            raise Refusal("NO_BTF_FIELD", column)
        offset += member.offset
        kind = types.resolve(member.type)
        if rest is not None:
            column += len(name) + (2 if arrow else 1)
        if arrow or rest is None:
            return offset, kind, member.bits, rest, column
        text = rest


def type_name(types: PrototypeTable, kind: int) -> str | None:
    """Return the default fetch type of a variable, by its C type; None for x64."""
    letter = types.letter(kind)
    if letter in "eE*":
        return {"e": "s32", "E": "s64", "*": "x64"}[letter]
    number = types.integer(kind)
    if number is None:
        return None
    width, signed = number
    return f"{'s' if signed else 'u'}{width}" if width in (8, 16, 32, 64) else None


def _is_character(types: PrototypeTable, kind: int | None) -> bool:
    return kind is not None and types.integer(kind) == (8, False)


def is_characters(types: PrototypeTable, kind: int) -> bool:
    """Return whether a type is char[]."""
    return _is_character(types, types.element(kind))


def points_to_characters(types: PrototypeTable, kind: int) -> bool:
    """Return whether a type is char *."""
    return _is_character(types, types.pointed(kind)) or types.is_character_by_size(kind)


def expand_arguments(words: Sequence[str], function: Function, gates: Gates, *, reachable: bool) -> list[str] | None:
    """Expand $argN and $arg* where they have no name; return None if there are none.

    `reachable`: the probe is on a function's entry or return.  Raises Refusal with the token.
    """
    star = None
    has_any = False
    for position, word in enumerate(words):
        if not word.startswith("$arg"):
            continue
        if not reachable:
            raise Refusal("NOFENTRY_ARGS", 0, position + _FIRST)
        has_any = True
        if is_digit(word, 4):
            continue
        if word[4:5] != "*":
            raise Refusal("BAD_VAR", 0, position + _FIRST)
        if star is not None:
            raise Refusal("DOUBLE_ARGS", 0, position + _FIRST)
        star = position
    if not has_any:
        return None
    names = [name for name, _ in function.signature.parameters] if function.signature else []
    if not names:
        if star is not None:
            last = max(position for position, word in enumerate(words) if word.startswith("$arg"))
            raise Refusal("NOSUP_BTFARG_TYPES", 0, last + _FIRST)
        return None
    return _expanded(words, names, star, gates)


def _expanded(words: Sequence[str], names: Sequence[str], star: int | None, gates: Gates) -> list[str]:
    expanded: list[str] = []
    room = _EXPANDED_SIZE

    def take(index: int, suffix: str, token: int) -> None:
        nonlocal room
        if index >= len(names):
            raise Refusal("NO_BTFARG", 0, token)
        text = ("" if names[index] == "..." else names[index]) + suffix
        if len(text) >= room:
            raise Refusal("ARGS_2LONG", 0, token)
        room -= len(text) + 1
        expanded.append(text)

    for position, word in enumerate(words):
        token = position + _FIRST
        if position == star:
            for index in range(len(names)):
                take(index, "", token)
        elif word.startswith("$arg"):
            end = next((index for index in range(4, len(word)) if not is_digit(word, index)), len(word))
            number = int(word[4:end]) & UINT_MAX
            if word[end : end + 1] not in ("", ":"):
                raise Refusal("BAD_VAR_SUFFIX", 0, token)
            if not number:
                raise Refusal(gates.zero_argument, 0, token)
            take(number - 1, word[end:], token)
        else:
            expanded.append(word)
    return expanded
