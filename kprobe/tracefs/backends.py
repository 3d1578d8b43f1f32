"""Opens the tracefs that a backend spec names ("local", "sim:6.1", "vm:6.12")."""

from __future__ import annotations

import os

from kprobe.errors import UnknownBackend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe_text.entry_points import EntryPoint

    from .tracefs import Tracefs

GROUP = "kprobe.tracefs"
VARIABLE = "KPROBE_TRACEFS"


def chosen(spec: str | None = None) -> str:
    """Return the spec that `open_tracefs` would use."""
    return spec or os.environ.get(VARIABLE) or "local"


def open_tracefs(spec: str | None = None) -> Tracefs:
    """Open the tracefs that `spec` names; without one, that of $KPROBE_TRACEFS, else the machine's own.

    A spec is the name of a backend, and, after a colon, its argument.  A backend is an entry point of the group
    kprobe.tracefs: a function of the argument ("" if there is none).

    Raise `UnknownBackend`, or what the backend raises.
    """
    name, _, argument = chosen(spec).partition(":")
    if name == "local":  # always there: finding the others costs an import
        from .tracefs import open_local

        return open_local(argument)
    tracefs: Tracefs = _backend(name).load()(argument)
    return tracefs


def check_spec(spec: str) -> None:
    """Check a spec without opening it.

    The module of a backend may have a function `check` of the argument, which raises an error for a wrong one.
    Raise `UnknownBackend`, or what the backend raises (ValueError).
    """
    name, _, argument = spec.partition(":")
    if name == "local":
        return
    from importlib import import_module

    point = _backend(name)
    try:
        module = import_module(point.module)
    except ImportError:  # a missing dependency is reported when it is opened
        return
    getattr(module, "check", str)(argument)


def _backend(name: str) -> EntryPoint:
    from kprobe_text.entry_points import find, names

    point = find(GROUP, name)
    if point is None:
        raise UnknownBackend(name, sorted({"local", *names(GROUP)}))
    return point
