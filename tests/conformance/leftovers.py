"""What a test may leave in a tracefs, by name: the steps that leave it, and what a clean tracefs is.

The module imports nothing of ours, as tests that run elsewhere import it by its path.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

PROBE = ("kprobe_events", b"p:mine do_sys_openat2 file=+0(%si):string")
SCHED, SYNTHETIC = "events/sched", ("synthetic_events", b"wake u64 lat; pid_t pid")
SWITCH, WAKING = f"{SCHED}/sched_switch/trigger", f"{SCHED}/sched_waking/trigger"
FORK, EXIT = f"{SCHED}/sched_process_fork/trigger", f"{SCHED}/sched_process_exit/trigger"
SINCE = (WAKING, b"hist:keys=pid:ts0=common_timestamp.usecs")
LATENCY = b"hist:keys=next_pid:lat=common_timestamp.usecs-$ts0"

# steps that don't write: make a directory, open a file, read it on and on
MAKE, OPEN, HOLD = "mkdir", "open", "hold"
Step = tuple[str, bytes]

TRIGGERS: dict[str, list[Step]] = {
    **{
        f"trigger {text.decode()}": [(SWITCH, text)]
        for text in (
            b"traceoff",
            b"traceoff:3",
            b"traceon if prev_pid > 3",
            b"stacktrace if prev_pid > 3",
            b"stacktrace:5 if prev_pid > 3",
            b"snapshot:1 if prev_pid > 3",
            b"enable_event:sched:sched_wakeup",
            b"disable_event:sched:sched_wakeup:4 if prev_pid == 0",
            b"hist:keys=prev_pid",
            b"hist:keys=prev_pid:pause",
            b"hist:keys=prev_pid if prev_pid > 3",
            b'hist:keys=prev_pid:pause if prev_comm ~ "k*" && prev_pid > 3',
            b"hist:name=mine:keys=prev_pid:vals=prev_prio:sort=prev_prio.descending,hitcount:size=128",
            b"hist:keys=prev_pid,next_comm:vals=prev_prio,next_prio",
            b"hist:keys=common_pid.execname,prev_state.hex:sort=prev_state",
            b"hist:keys=prev_prio.log2",
            b"hist:keys=common_timestamp.usecs:ts0=common_timestamp.usecs:clock=mono",
            b"hist:keys=prev_pid:a=prev_prio,b=next_prio-prev_prio:onmax($b).save(prev_comm,next_pid)",
            b"hist:keys=prev_pid:a=prev_prio:onchange($a).snapshot()",
        )
    },
    "a trigger that takes snapshots": [(FORK, b"snapshot")],  # at each switch they keep a guest from all else
    "several triggers of an event": [
        (SWITCH, b"stacktrace if prev_pid > 3"),
        (SWITCH, b"hist:keys=prev_pid if prev_pid > 3"),
        (SWITCH, b"hist:keys=next_pid:pause"),
        (SWITCH, b"enable_event:sched:sched_wakeup:2"),
        (SWITCH, b"enable_event:sched:sched_migrate_task if prev_pid != 0"),
        (SWITCH, b"traceoff:8"),
    ],
    "histograms of one name": [(FORK, b"hist:name=mine:keys=common_pid"), (EXIT, b"hist:name=mine:keys=common_pid")],
    "a histogram that others switch": [
        (SWITCH, b"hist:keys=prev_pid:pause if prev_pid > 3"),
        (FORK, b"enable_hist:sched:sched_switch:3 if parent_pid > 3"),
        (EXIT, b"disable_hist:sched:sched_switch"),
    ],
    "a histogram of another's variable": [SINCE, (SWITCH, LATENCY)],
    "histograms of each other's variables": [
        SINCE,
        (SWITCH, LATENCY),
        (WAKING, b"hist:keys=pid:again=$lat"),
    ],
    "a chain of histograms and a synthetic event": [
        SYNTHETIC,
        SINCE,
        (SWITCH, LATENCY + b":onmatch(sched.sched_waking).wake($lat,next_pid)"),
        ("events/synthetic/wake/trigger", b"hist:keys=pid:vals=lat:sort=lat if lat > 3"),
        ("events/synthetic/wake/enable", b"1"),
    ],
    "a synthetic event by trace()": [
        SYNTHETIC,
        SINCE,
        (SWITCH, LATENCY + b":onmax($lat).trace(wake,$lat,next_pid) if next_pid != 0"),
    ],
    "a trigger of a probe": [PROBE, ("events/kprobes/mine/trigger", b'hist:keys=file if file ~ "*host*"')],
    "a trigger that names a probe": [PROBE, (SWITCH, b"enable_event:kprobes:mine:5 if prev_pid > 3")],
}
EVENTS: dict[str, list[Step]] = {
    "an event": [(f"{SCHED}/sched_switch/enable", b"1")],
    "events of a system": [(f"{SCHED}/enable", b"1")],
    "events by set_event": [("set_event", b"sched:*\n"), ("set_event", b"syscalls\n")],
    "a filter": [(f"{SCHED}/sched_switch/filter", b'prev_pid > 3 && prev_comm ~ "k*"')],
    "the filter of a system": [(f"{SCHED}/filter", b"common_pid > 3")],
    "a filter that was refused": [(f"{SCHED}/sched_switch/filter", b"nosuch == 3")],
    "a probe": [PROBE, ("events/kprobes/mine/filter", b'file ~ "*host*"'), ("events/kprobes/mine/enable", b"1")],
    "probes of one event": [
        PROBE,
        ("kprobe_events", b"p:mine vfs_read file=+0(%si):string"),
        ("kprobe_events", b"r4:back vfs_read $retval"),
        ("events/kprobes/enable", b"1"),
    ],
    "a uprobe": [("uprobe_events", b"p:there /bin/busybox:0x1000"), ("events/uprobes/there/enable", b"1")],
    "a synthetic event": [SYNTHETIC, ("events/synthetic/enable", b"1")],
    "an fprobe": [("dynamic_events", b"f:mine vfs_read"), ("events/fprobes/mine/enable", b"1")],
    "event probes": [
        ("dynamic_events", b"e:e/one sched.sched_switch pid=$prev_pid:s32"),
        ("events/e/one/trigger", b"stacktrace if pid > 3"),
        ("events/e/one/enable", b"1"),
    ],
    "an event probe of a synthetic event that histograms make": [
        SYNTHETIC,
        ("dynamic_events", b"e:e/three synthetic.wake lat=$lat:u64"),
        ("events/e/three/enable", b"1"),
        ("events/e/three/trigger", b"hist:keys=lat if lat > 3"),
        SINCE,
        (SWITCH, LATENCY + b":onmatch(sched.sched_waking).wake($lat,next_pid)"),
    ],
    "instances": [
        (MAKE, b"instances/mine"),
        PROBE,
        ("instances/mine/events/kprobes/mine/enable", b"1"),
        ("instances/mine/events/sched/sched_switch/trigger", b"hist:keys=prev_pid if prev_pid > 3"),
        ("instances/mine/tracing_on", b"0"),
        (MAKE, b"instances/other"),
        ("instances/other/trace_clock", b"mono"),
        ("instances/other/snapshot", b"1"),
        (OPEN, b"instances/other/trace"),
        (HOLD, b"instances/other/trace_pipe"),
    ],
}
VALUES: dict[str, list[Step]] = {
    **{
        f"{path} {text.decode().strip()}": [(path, text)]
        for path, text in (
            ("set_event_pid", b"1 2"),
            ("set_event_notrace_pid", b"1"),
            ("set_ftrace_pid", b"1"),
            ("set_ftrace_notrace_pid", b"1 2"),
            ("set_ftrace_filter", b"vfs_read\n"),
            ("set_ftrace_filter", b"vfs_*\n"),
            ("set_ftrace_filter", b"vfs_read:traceoff:3\n"),
            ("set_ftrace_filter", b"vfs_read:stacktrace\n"),
            ("set_ftrace_filter", b"vfs_read:snapshot:1\n"),
            ("set_ftrace_filter", b"vfs_read:dump\n"),
            ("set_ftrace_filter", b"vfs_read:enable_event:sched:sched_switch:2\n"),
            ("set_ftrace_notrace", b"vfs_read\n"),
            ("set_graph_function", b"vfs_read\n"),
            ("set_graph_notrace", b"vfs_read\n"),
            ("stack_trace_filter", b"vfs_read\n"),
            ("set_event", b":mod:nosuch\n"),
            ("current_tracer", b"blk"),
            ("trace_clock", b"mono"),
            ("tracing_on", b"0"),
            ("tracing_cpumask", b"0"),
            ("tracing_thresh", b"5"),
            ("tracing_max_latency", b"77"),
            ("max_graph_depth", b"3"),
            ("stack_max_size", b"100"),
            ("buffer_percent", b"30"),
            ("syscall_user_buf_size", b"20"),
            ("buffer_size_kb", b"64"),
            ("per_cpu/cpu0/buffer_size_kb", b"64"),
            ("free_buffer", b"1"),
            ("buffer_subbuf_size_kb", b"8"),
            ("saved_cmdlines_size", b"30000"),
            ("trace_options", b"sym-offset"),
            ("trace_options", b"noirq-info"),
            ("options/func_stack_trace", b"1"),
            ("options/funcgraph-proc", b"1"),
            ("options/record-cmd", b"0"),
            ("options/overwrite", b"0"),
            ("options/event-fork", b"1"),
            ("snapshot", b"1"),
            ("trace_marker", b"a mark"),
            ("kprobe_events", b"p:mine nosuchfunction"),
        )
    },
    # the functions come before their tracer, as a guest takes seconds to patch all that it has
    "a tracer of functions": [("set_ftrace_filter", b"vfs_read\n"), ("current_tracer", b"function")],
    "a tracer and what it traces": [
        ("set_ftrace_filter", b"vfs_read\n"),
        ("current_tracer", b"function_graph"),
        ("options/funcgraph-proc", b"1"),
        ("max_graph_depth", b"2"),
    ],
    "a probe that a function's command enables": [
        PROBE,
        ("set_ftrace_filter", b"vfs_read:enable_event:kprobes:mine:2\n"),
    ],
    "the option of printk's instance": [(MAKE, b"instances/mine"), ("instances/mine/options/trace_printk_dest", b"1")],
}
LEFTOVERS = {**TRIGGERS, **EVENTS, **VALUES}

_READ = (
    *("set_event", "dynamic_events", "error_log", "available_events", "buffer_percent", "buffer_subbuf_size_kb"),
    *("current_tracer", "kprobe_events", "max_graph_depth", "saved_cmdlines", "saved_cmdlines_size", "saved_tgids"),
    *("set_event_notrace_pid", "set_event_pid", "set_ftrace_filter", "set_ftrace_notrace", "set_ftrace_notrace_pid"),
    *("set_ftrace_pid", "set_graph_function", "set_graph_notrace", "snapshot", "stack_max_size", "stack_trace_filter"),
    *("synthetic_events", "syscall_user_buf_size", "timestamp_mode", "trace_clock", "trace_options"),
    *("tracing_cpumask", "tracing_max_latency", "tracing_on", "tracing_thresh", "uprobe_events", "events/sched/filter"),
    *("show_event_filters", "show_event_triggers"),
)


def leave(tracefs: Any, name: str) -> bool:
    """Leave it there; return False if this kernel has no such thing, or the simulator doesn't know it (ENOSYS)."""
    for step in LEFTOVERS[name]:
        path, data = step
        try:
            if path == MAKE:
                tracefs.mkdir(data.decode())
            elif path == OPEN:
                tracefs.open(data.decode(), 0)
            elif path == HOLD:
                tracefs.stream(data.decode())
            elif path.startswith("set_ftrace") or path == "set_event":
                with tracefs.open(path, 0o1) as file:  # commands are taken when their line has ended
                    file.write(data)
            else:
                tracefs.write(path, data)
        except OSError as error:
            if data == b"nosuch == 3" or (data == b"p:mine nosuchfunction" and tracefs.exists("error_log")):
                continue  # what is left is the kernel's words about it
            if error.errno in (errno.ENOSYS, errno.ENOENT) or (error.errno == errno.EINVAL and _is_new(path, data)):
                return False
            raise
    return True


def state(tracefs: Any) -> dict[str, object]:
    """Return what a test can see of a tracefs."""
    return dict(_seen(tracefs))


_EXPANDED = (b"1410\n", b"1408\n")  # what 1408 KiB expand to: whole pages of data now, on 5.4 just that


def differs(tracefs: Any, before: dict[str, object]) -> bool:
    """Return whether a tracefs isn't in that state, as soon as that is known."""
    left = dict(before)
    return any(left.pop(name, None) != found for name, found in _seen(tracefs)) or bool(left)


def _seen(tracefs: Any) -> Iterator[tuple[str, object]]:
    """Yield what can be seen with its name, first what most tests change."""
    yield "instances", tracefs.listdir("instances")
    sizes = {"buffer_size_kb": b"7 (expanded: 1408)\n", "per_cpu/cpu0/buffer_size_kb": b"7\n"}
    for path, text in _texts(tracefs, [*_READ, *sizes]):
        yield path, sizes.get(path, text) if text in _EXPANDED else text  # once anything was recorded
    yield "events", sorted(tracefs.listdir("events"))
    yield from _texts(tracefs, [f"options/{name}" for name in tracefs.listdir("options")])
    events = tracefs.listdir(SCHED)
    yield from _texts(
        tracefs, [f"{SCHED}/{event}/{file}" for event in events for file in ("enable", "filter", "trigger")]
    )
    # The simulator refuses it while there is a tracer that isn't simulated.  Its head is enough: where each read fires
    # events, an emulated guest takes minutes to reach its end.
    with contextlib.suppress(OSError), tracefs.open("trace", os.O_RDONLY) as file:
        yield "trace", file.read(4096)


def _texts(tracefs: Any, paths: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files that can be read; a guest has them all in one request."""
    at_once = getattr(tracefs, "read_each", None)
    if at_once is not None:
        yield from at_once(paths).items()
        return
    for path in paths:
        try:
            text = tracefs.read(path)
        except OSError:
            continue
        yield path, text


def _is_new(path: str, data: bytes) -> bool:
    """Whether kernels that don't know a thing refuse it with EINVAL."""
    return path in ("dynamic_events", "set_event") or path.endswith("/trigger") or b":" in data
