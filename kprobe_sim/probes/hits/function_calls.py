"""Records of the tracer function for calls: the function and its caller."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kprobe_sim.events.instance import Instance
from kprobe_sim.events.instances import Instances
from kprobe_sim.events.recording import Recorder
from kprobe_sim.probes.hits.call import Call
from kprobe_sim.records.entry_type import TRACE_FN

_FUNCTION = struct.Struct("<HBBiQQ")


class FunctionCalls:
    """The calls that the tracer sees in the instances that have it."""

    def __init__(self, instances: Instances, recorder: Recorder) -> None:
        self._all = instances
        self._machine = instances.top.machine
        self._symbols = self._machine.symbols
        self._recorder = recorder
        self.instances: tuple[Instance, ...] = ()

    def rearm(self) -> tuple[Instance, ...]:
        """Find again which instances have the tracer, and return them; none while ftrace is off."""
        on = self._machine.ftrace_enabled
        self.instances = tuple([one for one in self._all if on and one.current_tracer == "function"])
        return self.instances

    def record(self, call: Call, here: int, chain: Sequence[int]) -> None:
        """Record a call, at the address that calls ftrace (function_trace_call in trace_functions.c, 6.1)."""
        for instance in self.instances:
            pids, no_pids = instance.ftrace_pids, instance.ftrace_no_pids
            if (pids is not None and call.task.pid not in pids) or (no_pids is not None and call.task.pid in no_pids):
                continue
            if self._symbols.is_traceable(here) and instance.functions.traces(call.function):
                self._recorder.remember(call.task, instance)
                data = _FUNCTION.pack(TRACE_FN, 0, 0, call.task.pid, here, chain[0] if chain else 0)
                instance.write(call.cpu, data, call.at)
