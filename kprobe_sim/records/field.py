"""One field of an event's record, as its `format` file shows it."""

from __future__ import annotations

from kprobe_sim.named_tuple import NamedTuple


class Field(NamedTuple):
    """A field of a trace record.

    `type` is the kernel's text of the type ("u64", "__data_loc char[]", "u8[4]" for an array, whose bracket `format`
    moves after the name); `offset` and `size` are in bytes, from the start of the record.
    """

    type: str
    name: str
    offset: int
    size: int
    signed: bool

    @property
    def is_string(self) -> bool:
        """True if a filter takes the field for a string."""
        return self.type.startswith("__data_loc char[]") or self.type.startswith("char[")


COMMON_FIELDS = (
    Field("unsigned short", "common_type", 0, 2, False),
    Field("unsigned char", "common_flags", 2, 1, False),
    Field("unsigned char", "common_preempt_count", 3, 1, False),
    Field("int", "common_pid", 4, 4, True),
)
