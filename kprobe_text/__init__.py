"""What kernels print -> typed records: trace text of every layout, raw pages, trace.dat files, and output made of them.

    from kprobe_text import parse
    for record in parse(open("trace.txt").read()): ...

Uses nothing but the standard library; `kprobe_text.columns` takes the extra `bulk`.  A name is loaded when it is first
used.  README.md beside this file shows the rooms.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe_text.text import (
        FAULT,
        Event,
        Format,
        Header,
        Lost,
        Parser,
        Record,
        StackTrace,
        Unparsed,
        parse,
        parse_format,
    )

__all__ = [
    "FAULT",
    "Event",
    "Format",
    "Header",
    "Lost",
    "Parser",
    "Record",
    "StackTrace",
    "Unparsed",
    "parse",
    "parse_format",
]

if not TYPE_CHECKING:  # type checkers would learn that every name is there

    def __getattr__(name: str) -> object:
        """Import a name of `kprobe_text.text` when it is first used: the command starts without the text's readers."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module("kprobe_text.text"), name)
        return value
