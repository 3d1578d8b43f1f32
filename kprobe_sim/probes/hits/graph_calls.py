"""Records of the tracer function_graph for calls: their entries, returns and depth.

Source: trace_graph_entry() and ftrace_push_return_trace() in kernel/trace/trace_functions_graph.c of 3.2.4 to 4.19.108.
"""

from __future__ import annotations

from kprobe_sim.events.instance import Instance
from kprobe_sim.events.recording import Recorder
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.hits.call import Call

FUNCTION_GRAPH = "function_graph"
_DEPTHS = 50  # calls within each other that a task's stack of them has room for (FTRACE_RETFUNC_DEPTH)
_HARDIRQ = 0x08  # of common_flags
_PLAIN = (0, 0)


class Frame(NamedTuple):
    """A call that is traced until it returns; `called` is when it was entered, in ns.

    `is_muted`: set_graph_notrace has it, so neither it nor the calls within it leave records.
    `is_first`: the tracer saw it before kprobes did, and sees its return after return probes.
    """

    function: int
    depth: int
    called: int
    is_muted: bool
    is_first: bool


class GraphCalls:
    """The calls that the tracer of one instance follows."""

    def __init__(self, instance: Instance, recorder: Recorder) -> None:
        self._instance = instance
        self._machine = instance.machine
        self._recorder = recorder
        self._forms = instance.tracing.graph_records
        gates, has_preemption = self._machine.gates, bool(self._machine.profile.preemption)
        self._at_exit = (0, int(gates.graph_exit_deep and has_preemption))
        self._open: dict[int, list[Frame]] = {}  # by the task's thread id, the innermost last
        self._overruns: dict[int, int] = {}

    def enter(self, call: Call, function: int, preemption: int, *, is_first: bool) -> Frame | None:
        """Record the entry of a call at its address and a preemption depth; return None if its return isn't traced."""
        instance, pid = self._instance, call.task.pid
        frames = self._open.setdefault(pid, [])
        depth = len(frames)
        if (frames and frames[-1].is_muted) or not self._follows(call, depth):
            return None
        called = self._machine.clock() if call.at is None else call.at
        functions = instance.functions
        muted = functions.chosen("set_graph_notrace")
        frame = Frame(function, depth, called, muted is not None and muted.has(call.function), is_first)
        if not frame.is_muted:
            self._recorder.remember(call.task, instance)
            record = self._forms.entry(call.context or (0, preemption), pid, function, depth)
            if not instance.write(call.cpu, record, called):
                return None
        if depth >= _DEPTHS:
            self._overruns[pid] = self._overruns.get(pid, 0) + 1
            return None
        frames.append(frame)
        return frame

    def leave(self, call: Call, frame: Frame, timestamp: int | None) -> None:
        """Record the return of a call; `timestamp` is its time in ns, None for now."""
        pid = call.task.pid
        if not self._drop(pid, frame) or frame.is_muted:
            return
        returned = self._machine.clock() if timestamp is None else timestamp
        overrun = self._overruns.get(pid, 0)
        times = frame.called, returned
        context = call.context or self._at_exit
        record = self._forms.returned(context, pid, frame.function, frame.depth, overrun, times)
        self._recorder.remember(call.task, self._instance)
        self._instance.write(call.cpu, record, returned)

    def forget(self, call: Call, frame: Frame) -> None:
        """Forget a call that doesn't return."""
        self._drop(call.task.pid, frame)

    def _drop(self, pid: int, frame: Frame) -> bool:
        """Drop a call, with those within it that never returned; return False if it isn't followed any more."""
        frames = self._open.get(pid, [])
        if len(frames) <= frame.depth or frames[frame.depth] is not frame:
            return False
        del frames[frame.depth :]
        if not frames:
            del self._open[pid]
        return True

    def _follows(self, call: Call, depth: int) -> bool:
        """Return True if the tracer follows a call at that depth."""
        instance, pid = self._instance, call.task.pid
        pids, no_pids = instance.ftrace_pids, instance.ftrace_no_pids
        if (pids is not None and pid not in pids) or (no_pids is not None and pid in no_pids):
            return False
        chosen = instance.functions.chosen("set_graph_function")
        is_chosen = chosen is not None and chosen.has(call.function)
        if not depth and chosen is not None and not is_chosen:
            return False
        if (call.context or _PLAIN)[0] & _HARDIRQ and not instance.options["funcgraph-irqs"] and not is_chosen:
            return False
        most = int(instance.knobs.get("max_graph_depth", b"0")) & 0xFFFFFFFF
        return not most or depth < most
