"""The `#` lines at the top of `trace` (trace_default_header() and what it calls, in trace.c)."""

from __future__ import annotations

from kprobe_sim.events.instance import Instance
from kprobe_sim.events.options import TraceOptions
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.records.ring import RingBuffer


# The lines of function_graph: print_graph_headers_flags() in trace_functions_graph.c.
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


class _Legend(NamedTuple):
    """The explanation of the irq-info column, for a number of letters."""

    letters: tuple[bytes, ...]
    column: bytes
    strokes: bytes
    latency: bytes


_LEGENDS = {
    4: _Legend(
        letters=(
            b"  _-----=> irqs-off",
            b" / _----=> need-resched",
            b"| / _---=> hardirq/softirq",
            b"|| / _--=> preempt-depth",
            b"||| /     delay",
        ),
        column=b" CPU#  ||||   TIMESTAMP  FUNCTION",
        strokes=b"   |   ||||      |         |",
        latency=b"""\
#                    _------=> CPU#            
#                   / _-----=> irqs-off        
#                  | / _----=> need-resched    
#                  || / _---=> hardirq/softirq 
#                  ||| / _--=> preempt-depth   
#                  |||| /     delay            
#  cmd     pid     ||||| time  |   caller      
#     \\   /        |||||  \\    |   /         
""",  # noqa: W291 - the kernel prints these trailing blanks
    ),
    5: _Legend(
        letters=(
            b"  _-----=> irqs-off/BH-disabled",
            b" / _----=> need-resched",
            b"| / _---=> hardirq/softirq",
            b"|| / _--=> preempt-depth",
            b"||| / _-=> migrate-disable",
            b"|||| /     delay",
        ),
        column=b" CPU#  |||||  TIMESTAMP  FUNCTION",
        strokes=b"   |   |||||     |         |",
        latency=b"""\
#                    _------=> CPU#            
#                   / _-----=> irqs-off/BH-disabled
#                  | / _----=> need-resched    
#                  || / _---=> hardirq/softirq 
#                  ||| / _--=> preempt-depth   
#                  |||| / _-=> migrate-disable 
#                  ||||| /     delay           
#  cmd     pid     |||||| time  |   caller     
#     \\   /        ||||||  \\    |    /       
""",  # noqa: W291 - the kernel prints these trailing blanks
    ),
}


_NARROW_LATENCY = b"""\
#                  _------=> CPU#            
#                 / _-----=> irqs-off        
#                | / _----=> need-resched    
#                || / _---=> hardirq/softirq 
#                ||| / _--=> preempt-depth   
#                |||| /     delay            
#  cmd     pid   ||||| time  |   caller      
#     \\   /      |||||  \\    |   /         
"""  # noqa: W291 - the kernel prints these trailing blanks
_BARE = b"#           TASK-PID    CPU#    TIMESTAMP  FUNCTION\n#              | |       |          |         |\n"
# the explanation of the columns while the pid's was five wide, by the presence of the irq-info and the tgid
_NARROW_COLUMNS = {
    (True, False): (
        b"#           TASK-PID   CPU#  ||||    TIMESTAMP  FUNCTION\n",
        b"#              | |       |   ||||       |         |\n",
    ),
    (True, True): (
        b"#           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION\n",
        b"#              | |        |      |   ||||       |         |\n",
    ),
    (False, False): (
        b"#           TASK-PID     CPU#   TIMESTAMP  FUNCTION\n",
        b"#              | |         |       |         |\n",
    ),
    (False, True): (
        b"#           TASK-PID   TGID       CPU#   TIMESTAMP  FUNCTION\n",
        b"#              | |       |          |       |         |\n",
    ),
}
_BEFORE_TGID = (  # without irq-info, on kernels that have no record-tgid
    b"#           TASK-PID   CPU#      TIMESTAMP  FUNCTION\n",
    b"#              | |       |          |         |\n",
)


def header(instance: Instance, latency: bool, buffer: RingBuffer | None = None) -> bytes:
    """Return the header of `trace`, or of `snapshot` and its buffer, with the options as they are now."""
    buffer = buffer or instance.buffer
    options = instance.options
    text = b"# tracer: %s\n#\n" % instance.current_tracer.encode()
    if not options["context-info"] or instance.current_tracer == "blk":
        return text
    if instance.current_tracer == "function_graph":
        latency = options["latency-format"]
        if latency and buffer.is_empty():
            return text
        above = _latency(instance, True, buffer) if latency else b""
        return text + above + graph_columns(instance, latency=latency)
    if latency:
        return text + (b"" if buffer.is_empty() else _latency(instance, options["verbose"], buffer))
    if options["verbose"]:
        return text
    gates = instance.machine.gates
    if gates.header == "bare":
        return text + _BARE
    if gates.header == "uncounted" and options["irq-info"]:
        return text + _narrow(options)
    entries, written = buffer.counts()
    text += b"# entries-in-buffer/entries-written: %d/%d   #P:%d\n#\n" % (entries, written, instance.cpus)
    tgid = options["record-tgid"]
    if gates.header != "wide":
        return text + _narrow(options)
    return text + (_irq_info(tgid, _LEGENDS[gates.context_letters]) if options["irq-info"] else _plain(tgid))


def _latency_legend(instance: Instance) -> bytes:
    gates = instance.machine.gates
    if gates.header == "wide":
        return _LEGENDS[gates.context_letters].latency
    if not gates.latency_blanks:
        return _NARROW_LATENCY
    return _NARROW_LATENCY.replace(b"delay ", b"delay  ").replace(b"   /         \n", b"   /           \n")


def _narrow(options: TraceOptions) -> bytes:
    """Return the explanation of the columns while the pid's was five wide: 4.19 and before."""
    has_irqs, tgid = options["irq-info"], options["record-tgid"]
    columns = _NARROW_COLUMNS[has_irqs, tgid] if has_irqs or "record-tgid" in options else _BEFORE_TGID
    indent = b"#" + b" " * (36 if tgid else 28)
    letters = [indent + line + b"\n" for line in _LEGENDS[4].letters] if has_irqs else []
    return b"".join([*letters, *columns])


def _plain(tgid: bool) -> bytes:
    return (
        b"#           TASK-PID    %s CPU#     TIMESTAMP  FUNCTION\n#              | |      %s   |         |         |\n"
        % (b"   TGID   " if tgid else b"", b"     |    " if tgid else b"")
    )


def _irq_info(tgid: bool, legend: _Legend) -> bytes:
    indent = b"#" + b" " * (40 if tgid else 30)
    column, stroke = (b"     TGID   ", b"       |    ") if tgid else (b"  ", b"  ")
    lines = [indent + line for line in legend.letters]
    lines.append(b"#           TASK-PID  " + column + legend.column)
    lines.append(b"#              | |    " + stroke + legend.strokes)
    return b"\n".join(lines) + b"\n"


def _latency(instance: Instance, verbose: bool, buffer: RingBuffer) -> bytes:
    entries, written = buffer.counts()
    rule = b"#    -----------------\n"
    text = b"# %s latency trace v1.1.5 on %s\n" % (instance.current_tracer.encode(), instance.release.encode())
    text += b"# " + b"-" * 68 + b"\n"
    text += b"# latency: 0 us, #%d/%d, CPU#%d | (M:%s VP:0, KP:0, SP:0 HP:0 #P:%d)\n" % (
        entries,
        written,
        0 if instance.cpus == 1 else 1,
        instance.preempt_model.encode(),
        instance.cpus,
    )
    text += rule + b"#    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)\n" + rule + b"#\n"
    return text if verbose else text + _latency_legend(instance)
