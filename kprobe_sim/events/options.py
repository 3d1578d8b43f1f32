"""The trace options of an instance: names in the kernel's order, their state, and who may set them."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence

from kprobe_sim.language.primitives.refusal import refuse

# options that a new instance doesn't inherit (trace.c ZEROED_TRACE_FLAGS)
NOT_INHERITED = frozenset({"event-fork", "function-fork", "trace_printk_dest", "copy_trace_marker"})
# options of the nop tracer (trace_nop.c): accept takes any value, refuse none
TRACER_OPTIONS = ("test_nop_accept", "test_nop_refuse")
# the options that each tracer adds, in the order of trace_options; not every kernel has all of them
OPTIONS_OF_TRACERS: Mapping[str, Sequence[str]] = {
    "nop": TRACER_OPTIONS,
    "function": ("func_stack_trace", "func-no-repeats", "func-args"),
    "function_graph": (
        "funcgraph-overrun",
        "funcgraph-cpu",
        "funcgraph-overhead",
        "funcgraph-proc",
        "funcgraph-duration",
        "funcgraph-abstime",
        "funcgraph-irqs",
        "funcgraph-tail",
        "funcgraph-args",
        "sleep-time",
        "graph-time",
    ),
    "blk": ("blk_classic", "blk_cgroup", "blk_cgname"),
}
# the same where they weren't recorded: those that all kernels have; function_graph's depend on the kernel
UNRECORDED: Mapping[str, Sequence[str]] = {"nop": TRACER_OPTIONS, "function": ("func_stack_trace",)}
# the options of function_graph that are set at first, where they weren't recorded (trace_functions_graph.c)
SET_AT_FIRST = frozenset(
    {"funcgraph-cpu", "funcgraph-overhead", "funcgraph-duration", "funcgraph-irqs", "sleep-time", "graph-time"}
)


class TraceOptions:
    """The option flags of one instance.

    The options that every record needs are attributes: `names_tasks` (record-cmd), `groups_tasks` (record-tgid), and
    `has_stacks`, true if a stack of any kind follows each event.  `annotates`: the trace says where a CPU's buffer
    begins, which it does only between lines of text.
    """

    def __init__(self, state: Mapping[str, bool]) -> None:
        self._state = dict(state)
        self._of_tracers: dict[str, bool] = {}
        self.version = -1  # changes with every option that is set
        self._changed()

    def __getitem__(self, name: str) -> bool:
        return self._state.get(name, False)

    def __contains__(self, name: str) -> bool:
        return name in self._state

    def names(self) -> Iterable[str]:
        """Yield the option names in the order of trace_options."""
        return self._state

    def set(self, name: str, value: bool) -> None:
        """Set one option; raise OSError EINVAL if there is no such option, or the tracer refuses it."""
        if name not in self._state or (name == "test_nop_refuse" and value):
            raise refuse(errno.EINVAL)
        self._state[name] = value
        self._changed()

    def write(self, data: bytes) -> tuple[str, bool]:
        """Read one write to trace_options (`name` or `noname`, under 64 bytes); return what it sets."""
        if len(data) >= 64:
            raise refuse(errno.EINVAL)
        word = data.split(b"\0", 1)[0].strip(b" \t\n\v\f\r").decode("latin-1")
        value = not word.startswith("no")
        name = word if value else word[2:]
        if name not in self._state or name == "test_nop_refuse":  # the tracer refuses both values
            raise refuse(errno.EINVAL)
        return name, value

    def text(self) -> bytes:
        """Return the text of trace_options."""
        return "".join(f"{'' if value else 'no'}{name}\n" for name, value in self._state.items()).encode()

    def of_tracer(self, name: str) -> bool | None:
        """Return an option of any tracer, current or not; None if nobody has set it.

        Only its file in options/ shows the option of a tracer that isn't current.
        """
        return self._state.get(name, self._of_tracers.get(name))

    def set_of_tracer(self, name: str, value: bool) -> None:
        """Set an option of a tracer that isn't current."""
        self._of_tracers[name] = value

    def change_tracer(self, old: Iterable[str], new: Mapping[str, bool]) -> None:
        """Replace the options of the old tracer by those of the new one."""
        for name in old:
            if name in self._state:
                self._of_tracers[name] = self._state.pop(name)
        for name, recorded in new.items():
            self._state[name] = self._of_tracers.pop(name, recorded)
        self._changed()

    def inherited(self) -> dict[str, bool]:
        """Return the state that a new instance starts with."""
        return {name: value and name not in NOT_INHERITED for name, value in self._state.items()}

    def _changed(self) -> None:
        self.version += 1
        get = self._state.get
        self.names_tasks = get("record-cmd", True)  # 2.6.35 has no such option
        self.groups_tasks = get("record-tgid", False)
        self.annotates = get("annotate", False) and not (get("raw") or get("hex") or get("bin"))
        self.has_stacks = get("stacktrace", False) or get("userstacktrace", False)
