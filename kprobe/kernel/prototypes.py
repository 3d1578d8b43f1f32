"""C prototypes of the traced kernel's functions, and members of the structures that their parameters point to.

They come from the tracefs if it knows them (`Capabilities.prototype`, `member`), else from the kernel's BTF.
"""

from __future__ import annotations

from typing import NamedTuple

from kprobe.kernel.prototype import CType, Parameter, Prototype
from kprobe.tracefs.capabilities import Capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe.tracefs.capabilities import CTypeFields, PrototypeFields
    from kprobe.tracefs.tracefs import Tracefs

    # (function, number of a parameter from 0 on, path a.b.c) -> offsets in bytes from each pointer on, and the type
    Follow = Callable[[str, int, str], tuple[tuple[int, ...], CType] | None]

BTF = "/sys/kernel/btf/vmlinux"


class KernelTypes(NamedTuple):
    """Finds prototypes of functions, and members behind pointer parameters; `none` says why there are none."""

    prototype: Callable[[str], Prototype | None]
    follow: Follow
    none: str


def known(tracefs: Tracefs) -> KernelTypes:
    """Return the finder of prototypes and members."""
    offers = Capabilities(tracefs)
    if offers.prototype is not None:
        prototype, member = offers.prototype, offers.member or _nothing
        return KernelTypes(lambda name: _prototype(prototype(name)), lambda *path: _member(member(*path)), "")
    try:
        data = offers.btf()
    except OSError as error:
        return KernelTypes(_nothing, _nothing, f"no prototypes: {error}")
    if not data:
        return KernelTypes(_nothing, _nothing, f"no prototypes: there is no {BTF}")
    from kprobe.kernel.btf import Btf

    try:
        btf = Btf(data)
    except ValueError as error:
        return KernelTypes(_nothing, _nothing, f"no prototypes: {BTF}: {error}")
    return KernelTypes(btf.prototype, btf.follow, "")


def prototypes(tracefs: Tracefs) -> tuple[Callable[[str], Prototype | None], str]:
    """Return a function that returns a function's prototype or None, and why it knows none at all, else ""."""
    find, _, none = known(tracefs)
    return find, none


def _nothing(*_: object) -> None:
    return None


def _prototype(fields: PrototypeFields | None) -> Prototype | None:
    if fields is None:
        return None
    parameters, returns = fields
    return Prototype(tuple(Parameter(name, _c_type(*kind)) for name, kind in parameters), _c_type(*returns))


def _member(fields: tuple[tuple[int, ...], CTypeFields] | None) -> tuple[tuple[int, ...], CType] | None:
    return None if fields is None else (fields[0], _c_type(*fields[1]))


def _c_type(text: str, kind: str, size: int, signed: bool) -> CType:
    return CType(text.replace(" () *", " (*)()"), kind, size, signed)
