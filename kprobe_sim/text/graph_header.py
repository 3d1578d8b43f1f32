"""The `#` lines above the calls of function_graph (print_graph_headers_flags() in trace_functions_graph.c)."""

from __future__ import annotations

from kprobe_sim.events.instance import Instance
from kprobe_sim.named_tuple import NamedTuple


class _Column(NamedTuple):
    """A column: the option that shows it, its name, the strokes below, and how far it moves the irq-info."""

    option: str
    name: bytes
    strokes: bytes
    width: int


_BEFORE = (
    _Column("funcgraph-abstime", b"     TIME       ", b"      |         ", 16),
    _Column("funcgraph-cpu", b" CPU", b" |  ", 4),
    _Column("funcgraph-proc", b"  TASK/PID       ", b"   |    |        ", 17),
)
_DURATION = _Column("funcgraph-duration", b"  DURATION   ", b"   |   |      ", 0)
_CALLS = _Column("", b"               FUNCTION CALLS\n", b"               |   |   |   |\n", 0)
_LETTERS = (
    b"  _-----=> irqs-off        \n",
    b" / _----=> need-resched    \n",
    b"| / _---=> hardirq/softirq \n",
    b"|| / _--=> preempt-depth   \n",
    b"||| /                      \n",
)


def graph_columns(instance: Instance, *, latency: bool) -> bytes:
    """Return the lines that explain the columns; `latency`: those of the option latency-format."""
    options = instance.options
    columns = [column for column in _BEFORE if options[column.option]]
    legend = b""
    if latency:
        indent = b"#" + b" " * sum(column.width for column in columns)
        legend = b"".join(indent + letter for letter in _LETTERS)
        letters = b"||||   " if instance.machine.gates.graph_latency_apart else b"||||"
        columns.append(_Column("", letters, letters, 0))
    columns += [_DURATION] * options[_DURATION.option] + [_CALLS]
    names = b"".join(column.name for column in columns)
    return legend + b"#" + names + b"#" + b"".join(column.strokes for column in columns)
