"""C prototypes of the traced kernel's functions.

A backend with a method `prototype` of a function's name answers itself: the parameters, each a name and its type (text,
kind, bytes, whether it has a sign), and the type returned; None if it has none.  One with `btf` gives the kernel's BTF.
"""

from __future__ import annotations

from kprobe.probing.prototype import CType, Parameter, Prototype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe.tracefs import Tracefs

    Told = tuple[str, str, int, bool]  # a type, as a backend tells it

BTF = "/sys/kernel/btf/vmlinux"


def prototypes(tracefs: Tracefs) -> tuple[Callable[[str], Prototype | None], str]:
    """Return a function that finds the prototype of a function or None; and why it finds none at all, else ""."""
    own = getattr(tracefs, "prototype", None)
    if own is not None:
        return lambda name: _taken(own(name)), ""
    try:
        data = getattr(tracefs, "btf", bytes)()
    except OSError as error:
        return lambda name: None, f"no prototypes: {error}"
    if not data:
        return lambda name: None, f"no prototypes: there is no {BTF}"
    from kprobe.probing.btf import Btf

    try:
        return Btf(data).prototype, ""
    except ValueError as error:
        return lambda name: None, f"no prototypes: {BTF}: {error}"


def _taken(found: tuple[list[tuple[str, Told]], Told] | None) -> Prototype | None:
    if found is None:
        return None
    parameters, returns = found
    return Prototype(tuple(Parameter(name, _c_type(*kind)) for name, kind in parameters), _c_type(*returns))


def _c_type(text: str, kind: str, size: int, signed: bool) -> CType:
    return CType(text.replace(" () *", " (*)()"), kind, size, signed)
