"""Figures by the options that ask for them."""

from __future__ import annotations

from collections.abc import Mapping

from kprobe_text.figures.figure import Figure
from kprobe_text.figures.pairs import POINTER

VALUED = ("--hist", "--count")  # options that take a word
SWITCHES = ("--latency", "--stacks")


def figure_of(option: str, of: str, functions: Mapping[str, str] | None = None, pointer: str = POINTER) -> Figure:
    """Return the figure of an option with its value; `functions` are those of events by name, if known.

    `pointer` names their field with the stack pointer.
    """
    if option == "--latency":
        from kprobe_text.figures.latencies import Latencies

        return Latencies(functions, pointer)
    if option == "--stacks":
        from kprobe_text.figures.folded import Folded

        return Folded()
    if option == "--hist":
        from kprobe_text.figures.spreads import Spreads

        return Spreads(of)
    from kprobe_text.figures.frequencies import Frequencies

    return Frequencies(of)
