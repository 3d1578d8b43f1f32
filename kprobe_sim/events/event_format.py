"""The text of an event's `format` file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kprobe_sim.language.fetch.argument import FetchArg
from kprobe_sim.records.field import COMMON_FIELDS, Field


def field_line(field: Field, *, array_length: bool) -> str:
    """Return one field line; `array_length` says whether an array shows its length (up to 5.18) or just []."""
    kind, bracket, length = field.type.partition("[")
    if not bracket or kind.startswith("__data_loc"):
        declaration = f"{field.type} {field.name}"
    else:
        declaration = f"{kind} {field.name}[{length if array_length else ']'}"
    return f"\tfield:{declaration};\toffset:{field.offset};\tsize:{field.size};\tsigned:{int(field.signed)};\n"


_PADDED = 8  # bytes by which the field `padding` moves what follows
_COUNT = Field("int", "__probe_nargs", 0, 4, True)  # the number of arguments, in events before 2.6.35


def format_text(
    name: str, number: int, fields: Iterable[Field], print_fmt: str, *, array_length: bool, padding: str = ""
) -> bytes:
    """Return the whole file for an event with `fields` after the common ones.

    `padding` is the name of an unused field after the common ones, which records here don't have.
    """
    common = "".join(field_line(field, array_length=array_length) for field in COMMON_FIELDS)
    if padding:
        common += field_line(Field("int", padding, 8, 4, True), array_length=array_length)
        fields = [field._replace(offset=field.offset + _PADDED) for field in fields]
    specific = "".join(field_line(field, array_length=array_length) for field in fields)
    return f"name: {name}\nID: {number}\nformat:\n{common}\n{specific}\nprint fmt: {print_fmt}\n".encode("latin-1")


def counted(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return a probe event's fields with the number of arguments before them, as the first format files had it."""
    head = [field for field in fields if field.name in ("__probe_ip", "__probe_func", "__probe_ret_ip")]
    end = head[-1].offset + head[-1].size
    moved = [field._replace(offset=field.offset + 8) for field in fields[len(head) :]]
    return (*head, _COUNT._replace(offset=end), *moved)


def head_fields(size: int, *, is_return: bool) -> tuple[Field, ...]:
    """Return the fields that a probe event has before its arguments; an unsigned long has `size` bytes."""
    names = ("__probe_func", "__probe_ret_ip") if is_return else ("__probe_ip",)
    return tuple([Field("unsigned long", name, 8 + size * index, size, False) for index, name in enumerate(names)])


def argument_field(argument: FetchArg, start: int) -> Field:
    """Return the field of an argument; the arguments begin at byte `start` of the record."""
    kind = argument.type.field
    if argument.length:
        kind = f"{kind}[{argument.length}]"
    return Field(kind, argument.name, start + argument.offset, argument.size, argument.type.signed)


def print_format(arguments: Sequence[FetchArg], head: Sequence[Field]) -> str:
    """Return the `print fmt` of a probe event; `head` are the fields of its addresses, if any."""
    texts = [f"({' <- '.join(['%lx'] * len(head))})" if head else ""]
    values = [f"REC->{field.name}" for field in head]
    for argument in arguments:
        text = argument.type.text
        value = "__get_str({})" if argument.type.is_string else "REC->{}"
        if argument.length:
            text = "{" + ",".join([text] * argument.length) + "}"
            values += [value.format(f"{argument.name}[{index}]") for index in range(argument.length)]
        else:
            values.append(value.format(argument.name))
        texts.append(f"{argument.name}={text}")
    return ", ".join([f'"{" ".join(texts)}"', *values])
