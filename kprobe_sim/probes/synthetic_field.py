"""The fields of a synthetic event: `TYPE NAME` read, sized and shown (trace_events_synth.c of 6.1.190 and 6.12.117).

Kernels before 5.10 read fields word by word, and hardly check them: __create_synth_event(), parse_synth_field() and
synth_field_size() in trace_events_hist.c of 5.4.273.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from kprobe_sim.language.primitives.kstrto import is_name, kstrtouint
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple

_MAX_STRING = 256  # STR_VAR_LEN_MAX
_WORD = 8
# a bad length is a negative errno, taken for an unsigned size
_BAD_LENGTH = (1 << 32) - errno.EINVAL
_MOST_DIGITS = 3
_NUMBERS = {
    **{f"{sign}{bits}": bits // 8 for sign in "su" for bits in (8, 16, 32, 64)},
    "char": 1,
    "unsigned char": 1,
    "int": 4,
    "unsigned int": 4,
    "long": 8,
    "unsigned long": 8,
    "bool": 1,
    "pid_t": 4,
    "gfp_t": 4,
}
_FORMATS = {
    "s64": "%lld",
    "u64": "%llu",
    "long": "%ld",
    "unsigned long": "%lu",
    "gfp_t": "%x",
    **dict.fromkeys(("u32", "u16", "u8", "unsigned char", "unsigned int"), "%u"),
    **dict.fromkeys(("s32", "s16", "s8", "char", "int", "bool", "pid_t"), "%d"),
}


class FieldFault(Exception):
    """A bad field: the id of the kernel's text, and the word under which its caret is."""

    def __init__(self, message: str, word: str) -> None:
        super().__init__(message, word)
        self.message = message
        self.word = word


class SyntheticField(NamedTuple):
    """A field: `type` as written, with the array's brackets; `size` in bytes as the format file has it.

    A string of fixed length takes `longest` bytes of the record; one of any length is dynamic, if the kernel has those.
    """

    type: str
    name: str
    size: int
    longest: int = _MAX_STRING
    can_be_dynamic: bool = False

    @property
    def is_string(self) -> bool:
        return "char[" in self.type

    @property
    def is_stack(self) -> bool:
        return "long[" in self.type and not self.is_string

    @property
    def is_dynamic(self) -> bool:
        """True if the data is after the fixed part of the record."""
        return self.can_be_dynamic and (self.is_stack or (self.is_string and _string_size(self.type) == 0))

    @property
    def declared(self) -> str:
        """The type as the format file shows it."""
        return f"__data_loc {self.type}" if self.is_dynamic else self.type

    @property
    def signed(self) -> bool:
        return not self.declared.startswith("u") and self.type != "gfp_t"

    @property
    def format(self) -> str:
        """What print fmt shows it with."""
        return "%s" if self.is_string or self.is_stack else _FORMATS.get(self.type, "%llu")

    @property
    def value(self) -> str:
        """The field as print fmt refers to it."""
        if self.is_string and self.is_dynamic:
            return f"__get_str({self.name})"
        return f"__get_stacktrace({self.name})" if self.is_stack else f"REC->{self.name}"

    @property
    def room(self) -> int:
        """The bytes from its start to that of the next field."""
        return self.longest if self.is_string and not self.is_dynamic else _WORD


def _string_size(kind: str) -> int | None:
    """Return the length in char[LENGTH], 0 if there is none, None if it is bad."""
    start = kind.index("char[") + len("char[")
    end = kind.find("]")
    if end < start or end + 1 != len(kind) or end - start > 3:
        return None
    if end == start:
        return 0
    try:
        size = kstrtouint(kind[start:end])
    except OSError:
        return None
    return size if size <= _MAX_STRING else None


def _size(kind: str) -> int | None:
    """Return the size of a type, 0 if it has no fixed size, None for a bad array."""
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    return _string_size(kind) if "char[" in kind else 0


def read_field(words: list[str]) -> tuple[SyntheticField, int]:
    """Read the field at the start of `words`; return it and how many words it took.  Raises FieldFault."""
    prefix, kind, used = "", words[0], 2
    if kind == "unsigned":
        if len(words) < 3:
            raise FieldFault("INCOMPLETE_TYPE", kind)
        prefix, kind, used = "unsigned ", words[1], 3
    if len(words) < used:
        raise FieldFault("INVALID_FIELD", kind)
    written = words[used - 1]
    name, bracket, rest = written.partition("[")
    if not is_name(name):
        raise FieldFault("BAD_NAME", written)
    field = SyntheticField(prefix + kind + bracket + rest, name, 0, can_be_dynamic=True)
    size = _size(field.type)
    if size is None:
        raise FieldFault("INVALID_ARRAY_SPEC", written) if bracket else FieldFault("INVALID_TYPE", kind)
    if not size and not field.is_string and not field.is_stack:
        raise FieldFault("INVALID_TYPE", kind)
    return field._replace(size=size or _WORD), used


def read_early_fields(words: Sequence[str], most: int, longest: int, *, keeps: bool) -> list[SyntheticField]:
    """Read the words after an event's name as fields, at most `most`; a string takes `longest` bytes.

    `keeps`: a semicolon after an array stays, as part of the type.  Raises OSError EINVAL.
    """
    fields: list[SyntheticField] = []
    index = 0
    while index < len(words) - 1:
        if words[index] == ";":
            index += 1
            continue
        if len(fields) == most:
            raise refuse(errno.EINVAL)
        field, used = _read_early(words[index:], longest, keeps=keeps)
        fields.append(field)
        index += used
    if index < len(words) and words[index] != ";":
        raise refuse(errno.EINVAL)
    return fields


def _read_early(words: Sequence[str], longest: int, *, keeps: bool) -> tuple[SyntheticField, int]:
    kind, written, used, prefix = words[0].removeprefix(";"), words[1], 2, ""
    if kind == "unsigned":
        if len(words) < 3:
            raise refuse(errno.EINVAL)
        prefix, kind, written, used = "unsigned ", words[1], words[2], 3
    name, bracket, rest = written.partition("[")
    if not bracket:
        name = name.removesuffix(";")
    elif not keeps:
        rest = rest.removesuffix(";")
    kind = prefix + kind.removeprefix(";") + bracket + rest
    size = _NUMBERS.get(kind, 0) if kind != "bool" else 0
    if "char[" in kind:
        size = _early_length(kind, longest)
    if not size:
        raise refuse(errno.EINVAL)
    return SyntheticField(kind, name, size, longest), used


def _early_length(kind: str, longest: int) -> int:
    start = kind.index("char[") + len("char[")
    end = kind.find("]")
    if not start <= end <= start + _MOST_DIGITS:
        return _BAD_LENGTH
    try:
        size = kstrtouint(kind[start:end])
    except OSError as error:
        return (1 << 32) - (error.errno or errno.EINVAL)
    return size if size <= longest else _BAD_LENGTH
