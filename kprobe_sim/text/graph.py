"""The lines of the tracer function_graph: calls with their durations, and events as comments between them.

Source: kernel/trace/trace_functions_graph.c of 3.2.4 to 5.4.273; recorded traces of 3.13 to 7.2 (10_fgraph_*), and of
guests of 5.10 to 7.3 in the corpus (graph*).
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from kprobe_sim.events.instance import Instance
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.records.entry_type import TRACE_FN, TRACE_PRINT, TRACE_STACK
from kprobe_sim.records.ring import RingEntry
from kprobe_sim.records.trace_seq import cut
from kprobe_sim.records.unread import Unread
from kprobe_sim.text.bodies import Bodies, print_text
from kprobe_sim.text.lines import JoinedLines
from kprobe_sim.text.render import DELAYS, Renderer, lost_text

FUNCTION_GRAPH = "function_graph"
_INDENT = b"  "
_DEPTHS = 50  # nested calls that are remembered (FTRACE_RETFUNC_DEPTH)
_COMM = 7  # bytes of a task's name that are shown
_TASK = 14  # of a task's name and pid, at least
_RULE = b" ------------------------------------------\n"
_UNTIMED = b"              |  "
_UNSHOWN = ("funcgraph-args", "funcgraph-retval", "funcgraph-retval-hex", "funcgraph-retaddr")
_SHORT_DELAYS = ((10**5, b"!"), (10**4, b"+"))
# Functions in the section of interrupt entries (__irq_entry in arch/x86), for builds whose bounds weren't recorded
_IRQ_ENTRIES = frozenset({b"do_IRQ", b"smp_apic_timer_interrupt"})


class _Cpu:
    """What a reader knows of a CPU from the entries that it has shown (struct fgraph_cpu_data)."""

    __slots__ = ("depth", "entered", "irq_depth", "pid")

    def __init__(self) -> None:
        self.pid: int | None = None  # of the entry before
        self.depth = 0  # at which events are shown
        self.irq_depth: int | None = None  # of an interrupt that is hidden
        self.entered: dict[int, int] = {}  # the function that was entered at each depth


class GraphRenderer(Renderer):
    """Renders entries for one reader, which continues from what it has shown.

    `records` counts the entries of the CPU in the last line: a call and its return may share one.
    """

    unshown = Renderer.unshown - {FUNCTION_GRAPH}

    def __init__(self, instance: Instance, latency: bool, start: int = 0) -> None:
        gates = instance.machine.gates
        self.records = 1
        self._forms = instance.tracing.graph_records
        self._delays = DELAYS if gates.long_delays else _SHORT_DELAYS
        self._apart = b" | " if gates.graph_latency_apart else b""
        self._width = len(str(instance.cpus - 1))
        bounds = [instance.machine.symbols.lookup(f"__irqentry_text_{end}") for end in ("start", "end")]
        self._irqs = range(bounds[0][0].address, bounds[1][0].address) if all(bounds) else None
        self._seen: tuple[Unread, object] | None = None  # the entries and the state of the texts
        self._texts: list[bytes] = []
        self._cpus: dict[int, _Cpu] = {}
        super().__init__(instance, latency, start)
        self._bodies = Bodies(instance, has_fields=False)

    def refresh(self) -> None:
        """Take over what may have changed.  Raises OSError ENOSYS for an option whose columns aren't simulated."""
        if any(self._instance.options[name] for name in _UNSHOWN):
            raise refuse(errno.ENOSYS)
        super().refresh()

    def lines(self, entries: Unread, start: int, end: int) -> tuple[JoinedLines, bool]:
        """Return the texts of entries; all are made at once, since each depends on those before it."""
        self._bodies.is_lasting = True
        if self._seen is None or self._seen[0] is not entries or self._seen[1] is not self._state:
            self._cpus.clear()
            self._texts = self._all(list(entries))
            self._seen = (entries, self._state) if self._bodies.is_lasting else None
        return JoinedLines.of(self._texts[start:end]), self._bodies.is_lasting

    def _all(self, entries: Sequence[RingEntry]) -> list[bytes]:
        after: list[int | None] = [None] * len(entries)  # the index of the same CPU's next entry
        last: dict[int, int] = {}
        for index, entry in enumerate(entries):
            if entry.cpu in last:
                after[last[entry.cpu]] = index
            last[entry.cpu] = index
        texts = [b""] * len(entries)
        shown: set[int] = set()
        for index, entry in enumerate(entries):
            if index in shown:
                continue
            following = entries[index + 1] if index + 1 < len(entries) else None
            then = after[index]
            texts[index] = self._text(entry, None if then is None else entries[then], following, index)
            if self.records > 1 and then is not None:
                shown.add(then)
        return texts

    def line(self, entry: RingEntry, following: RingEntry | None, index: int) -> bytes:
        """Return the text of the next entry for a consuming reader."""
        return self._text(entry, self._instance.buffer.cpus[entry.cpu].after_next(), following, index)

    def _text(self, entry: RingEntry, then: RingEntry | None, following: RingEntry | None, index: int) -> bytes:
        """Return an entry's text; `then` is the next entry of its CPU, `following` the next of any CPU."""
        self.records = 1
        kind = int.from_bytes(entry.data[:2], "little")
        cpu = self._cpus.setdefault(entry.cpu, _Cpu())
        if kind == self._forms.entry_type:
            text = self._entry(cpu, entry, then)
        elif kind == self._forms.return_type:
            text = self._return(cpu, entry)
        elif kind in (TRACE_STACK, TRACE_FN):
            return super().line(entry, following, index)
        else:
            head = self._separator(cpu, entry) + self._context_of(entry) + self._untimed()
            head += (_INDENT * (cpu.depth + 1) if cpu.depth > 0 else b"") + b"/* "
            if not self._bodies.is_builtin(kind) and self._instance.tracing.events.by_id(kind) is None:
                return head + super().line(entry, following, index)  # of a removed event, see `early`
            body = self._body(kind, entry.data)
            text = head + body + b" */\n"
            if len(text) >= self._size:
                text = cut([head, body, b" */\n"], self._size)
        return lost_text(entry.cpu, entry.lost) + text if entry.lost else text

    def _body(self, kind: int, data: bytes) -> bytes:
        body = print_text(data) if kind == TRACE_PRINT else self._bodies.body(data)
        return body.removesuffix(b"\n")

    def ends_in_put(self, data: bytes) -> bool:
        return int.from_bytes(data[:2], "little") != self._forms.entry_type

    # calls

    def _entry(self, cpu: _Cpu, entry: RingEntry, then: RingEntry | None) -> bytes:
        options = self._instance.options
        function, depth = self._forms.entered(entry.data)
        is_irq = self._is_irq(function)
        if not options["funcgraph-irqs"]:
            if cpu.irq_depth is None and is_irq:
                cpu.irq_depth = depth
            if cpu.irq_depth is not None:
                return b""
        head = self._separator(cpu, entry)
        if is_irq:
            head += self._arrow(entry, b"==========>")
        head += self._context_of(entry)
        name = _INDENT * depth + self._instance.machine.symbol_text(function, False)
        if then is None or not self._is_leaf(entry, then, function):
            cpu.depth = depth
            if depth < _DEPTHS:
                cpu.entered[depth] = function
            return head + self._untimed() + name + b"() {\n"
        self.records = 2
        cpu.depth = depth - 1
        cpu.entered.pop(depth, None)
        text = head + self._timed(self._forms.left(then.data).duration) + name + b"();\n"
        if is_irq and self._instance.machine.gates.graph_leaf_arrow:
            text += self._arrow(entry, b"<==========")
        return text

    def _is_leaf(self, entry: RingEntry, then: RingEntry, function: int) -> bool:
        forms = self._forms
        if int.from_bytes(then.data[:2], "little") != forms.return_type or entry.data[4:8] != then.data[4:8]:
            return False
        return forms.left(then.data).function == function

    def _return(self, cpu: _Cpu, entry: RingEntry) -> bytes:
        options = self._instance.options
        left = self._forms.left(entry.data)
        depth = left.depth
        if cpu.irq_depth is not None and not options["funcgraph-irqs"]:
            if cpu.irq_depth >= depth:
                cpu.irq_depth = None
            return b""
        cpu.depth = depth - 1
        is_matched = depth >= _DEPTHS or cpu.entered.pop(depth, 0) == left.function
        text = self._separator(cpu, entry) + self._context_of(entry) + self._timed(left.duration) + _INDENT * depth
        if is_matched and not options["funcgraph-tail"]:
            text += b"}\n"
        else:
            text += b"} /* %s */\n" % self._instance.machine.symbol_text(left.function, False)
        if options["funcgraph-overrun"]:
            text += b" (Overruns: %d)\n" % left.overrun
        return text + self._arrow(entry, b"<==========") if self._is_irq(left.function) else text

    def _is_irq(self, function: int) -> bool:
        if self._irqs is not None:
            return function in self._irqs
        return self._instance.machine.symbol_text(function, False) in _IRQ_ENTRIES

    # columns

    def _separator(self, cpu: _Cpu, entry: RingEntry) -> bytes:
        """Return the separator before the first entry of another task on a CPU."""
        pid = int.from_bytes(entry.data[4:8], "little", signed=True)
        before, cpu.pid = cpu.pid, pid
        if before is None or before == pid:
            return b""
        return b"%s%s%s => %s\n%s\n" % (_RULE, self._cpu(entry.cpu), self._task_of(before), self._task_of(pid), _RULE)

    def _cpu(self, cpu: int) -> bytes:
        return b" %*d) " % (self._width, cpu)

    def _task_of(self, pid: int) -> bytes:
        text = b"%s-%d" % (self._instance.cmdlines.find(pid)[:_COMM], pid)
        spaces = max(_TASK - len(text), 0)
        return b" " * (spaces // 2) + text + b" " * (spaces - spaces // 2)

    def _context_of(self, entry: RingEntry, *, letters: bool = True) -> bytes:
        """Return the columns before the duration; `letters`: include the irq-info if latency-format is set."""
        options = self._instance.options
        if not options["context-info"]:
            return b""
        text = b""
        if options["funcgraph-abstime"]:
            seconds, nanoseconds = divmod(entry.stamp, 1_000_000_000)
            text += b"%5d.%06d |  " % (seconds, nanoseconds // 1000)
        if options["funcgraph-cpu"]:
            text += self._cpu(entry.cpu)
        if options["funcgraph-proc"]:
            text += self._task_of(int.from_bytes(entry.data[4:8], "little", signed=True)) + b" | "
        if letters and options["latency-format"]:
            text += b" " + self._letters(entry.data[2], entry.data[3]) + self._apart
        return text

    def _has_durations(self) -> bool:
        options = self._instance.options
        return options["funcgraph-duration"] and options["context-info"]

    def _untimed(self) -> bytes:
        return _UNTIMED if self._has_durations() else b""

    def _timed(self, duration: int) -> bytes:
        """Return the column for a duration in ns."""
        if not self._has_durations():
            return b""
        is_marked = self._instance.options["funcgraph-overhead"]
        mark = next((mark for limit, mark in self._delays if duration > limit), b" ") if is_marked else b" "
        microseconds, nanoseconds = divmod(duration, 1000)
        text = b"%d" % microseconds
        if len(text) < 7:
            text += b"." + (b"%03d" % nanoseconds)[: min(4, 7 - len(text))]
        return mark + b" " + text + b" us " + b" " * (8 - len(text)) + b"|  "

    def _arrow(self, entry: RingEntry, arrow: bytes) -> bytes:
        """Return the line at the beginning or end of an interrupt."""
        before, after = (b"  ", b" |") if self._has_durations() else (b"", b"")
        letters = self._instance.machine.gates.graph_arrow_letters
        return self._context_of(entry, letters=letters) + before + arrow + after + b"\n"
