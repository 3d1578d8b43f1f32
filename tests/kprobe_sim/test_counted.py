"""What the kernel counts for a trace: as it goes on until the trace is over, and then no more."""

from __future__ import annotations

from kprobe import Tracer
from kprobe_sim import SimulatedKernel, Task


def test_what_is_counted_after_the_end_is_left_out() -> None:
    kernel = SimulatedKernel("6.12")

    def opened(descriptor: int) -> None:
        kernel.call("do_sys_openat2", task=Task(42, "cat"), args=(-100, "/etc/passwd"), returns=descriptor)

    with Tracer(kernel.tracefs).trace("r:opened do_sys_openat2 fd=$retval:s32", count="fd") as trace:
        opened(3)
        assert trace.counted() == [("opened", {3: 1}, 0)]
        opened(-2)
        trace.stop()
        assert trace.counted() == [("opened", {3: 1, -2: 1}, 0)]
        opened(3)
        assert trace.counted() == [("opened", {3: 1, -2: 1}, 0)]
