"""A symbol of a kernel, and why a probe on an address may be refused."""

from __future__ import annotations

from enum import Enum

from kprobe_sim.named_tuple import NamedTuple

FUNCTION_SIZE = 0x100  # bytes of an added function, by default


class Symbol(NamedTuple):
    """A symbol as /proc/kallsyms has it; `size` is the distance in bytes to the next different address."""

    name: str
    address: int = 0  # 0 for a function to add, which then gets a free address
    size: int = FUNCTION_SIZE
    type: str = "t"  # the letter in /proc/kallsyms
    module: str = ""  # "" for the kernel's image
    traceable: bool = True  # its entry is an ftrace location
    blacklisted: bool = False  # its entry lies in the kprobe blacklist


def with_module(text: str, module: str) -> str:
    """Return what names a symbol or an address, with " [MODULE]" where it is a module's."""
    return f"{text} [{module}]" if module else text


class Placement(Enum):
    """Whether the kernel can put a kprobe on an address, and if not, why, in the kernel's order."""

    OK = "ok"
    NO_SYMBOL = "no symbol"  # no symbol covers it
    NOT_TEXT = "not text"  # data, or init code that was freed: EINVAL
    BLACKLISTED = "blacklisted"  # EINVAL
    RESERVED = "reserved"  # jump label, static call or BUG instruction: EINVAL
    NOT_BOUNDARY = "not boundary"  # EILSEQ
    INT3 = "int3"  # a breakpoint instruction in the code itself (padding): EINVAL up to 6.1
    NOT_COPIED = "not copied"  # can't be single-stepped elsewhere: EINVAL
    UNSUPPORTED = "unsupported"  # far or memory-indirect branch, iret: EOPNOTSUPP since int3 single-stepping (5.13)


# What the recorder writes as the kind of a special range.
KINDS = {1: Placement.RESERVED, 2: Placement.INT3, 3: Placement.NOT_COPIED, 4: Placement.UNSUPPORTED}
