"""The `#` lines at the top of `trace` (trace.c: trace_default_header and what it calls)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kprobe_sim.instance import Instance
    from kprobe_sim.ring import RingBuffer

_LATENCY_LEGEND = b"""\
#                    _------=> CPU#            
#                   / _-----=> irqs-off/BH-disabled
#                  | / _----=> need-resched    
#                  || / _---=> hardirq/softirq 
#                  ||| / _--=> preempt-depth   
#                  |||| / _-=> migrate-disable 
#                  ||||| /     delay           
#  cmd     pid     |||||| time  |   caller     
#     \\   /        ||||||  \\    |    /       
"""  # noqa: W291 - the kernel prints these trailing blanks


def header(instance: Instance, latency: bool, buffer: RingBuffer | None = None) -> bytes:
    """Return the header of `trace` (or of `snapshot`, which has another buffer), as the options have it now."""
    buffer = buffer or instance.buffer
    options = instance.options
    text = b"# tracer: %s\n#\n" % instance.current_tracer.encode()
    if not options["context-info"]:
        return text
    if latency:
        return text + (b"" if buffer.is_empty() else _latency(instance, options["verbose"], buffer))
    if options["verbose"]:
        return text
    entries, written = buffer.counts()
    text += b"# entries-in-buffer/entries-written: %d/%d   #P:%d\n#\n" % (entries, written, instance.cpus)
    return text + (_irq_info if options["irq-info"] else _plain)(options["record-tgid"])


def _plain(tgid: bool) -> bytes:
    return (
        b"#           TASK-PID    %s CPU#     TIMESTAMP  FUNCTION\n#              | |      %s   |         |         |\n"
        % (
            b"   TGID   " if tgid else b"",
            b"     |    " if tgid else b"",
        )
    )


def _irq_info(tgid: bool) -> bytes:
    indent = b"#" + b" " * (28 + (12 if tgid else 2) - 0)
    column, stroke = (b"     TGID   ", b"       |    ") if tgid else (b"  ", b"  ")
    legend = (
        b"  _-----=> irqs-off/BH-disabled",
        b" / _----=> need-resched",
        b"| / _---=> hardirq/softirq",
        b"|| / _--=> preempt-depth",
        b"||| / _-=> migrate-disable",
        b"|||| /     delay",
    )
    lines = [indent + line for line in legend]
    lines.append(b"#           TASK-PID  " + column + b" CPU#  |||||  TIMESTAMP  FUNCTION")
    lines.append(b"#              | |    " + stroke + b"   |   |||||     |         |")
    return b"\n".join(lines) + b"\n"


def _latency(instance: Instance, verbose: bool, buffer: RingBuffer) -> bytes:
    entries, written = buffer.counts()
    rule = b"#    -----------------\n"
    text = b"# nop latency trace v1.1.5 on %s\n" % instance.release.encode()
    text += b"# " + b"-" * 68 + b"\n"
    text += b"# latency: 0 us, #%d/%d, CPU#%d | (M:%s VP:0, KP:0, SP:0 HP:0 #P:%d)\n" % (
        entries,
        written,
        0 if instance.cpus == 1 else 1,
        instance.preempt_model.encode(),
        instance.cpus,
    )
    text += rule + b"#    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)\n" + rule + b"#\n"
    return text if verbose else text + _LATENCY_LEGEND
