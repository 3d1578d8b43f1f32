"""Named tuples that are written like `typing.NamedTuple`, and created in less than half the time.

`typing` compiles the annotation of each field to look whether it is a type, though nothing here asks for that at run
time: of a command's start that was a twelfth.  Type checkers see `typing.NamedTuple` itself.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Maker(type):
        """Makes a named tuple of a class body: its annotations are the fields, what it sets to them the defaults."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            annotations = body.pop("__annotations__", {})
            defaults = [body.pop(field) for field in annotations if field in body]
            made = namedtuple(name, annotations, defaults=defaults, module=body.pop("__module__"))
            made.__annotations__ = annotations
            for key, value in body.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        """The base of a named tuple's class body."""
