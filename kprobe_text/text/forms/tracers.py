"""Lines of tracers that have no event's name, and of events whose text has no pairs."""

import re
from typing import Final

from kprobe_text.text.arguments import decode
from kprobe_text.text.forms.syscall import SystemCall
from kprobe_text.text.records import Value

# Records of tracers, named and with fields as events/ftrace has them (kernel/trace/trace_output.c, trace_hwlat.c,
# trace_osnoise.c): a task that is woken or switched to, and what a test of latencies found.
_CONTEXT: Final = re.compile(
    rb" *(\d{1,10}): *(\d{1,4}):(\S{1,4}) +(==>|\+) \[(\d{3,9})\] +(\d{1,10}): *(\d{1,4}):(\S{1,4})(?: ([^\n]{1,16}))?"
)
_STATES: Final = (
    "prev_pid", "prev_prio", "prev_state", "", "next_cpu", "next_pid", "next_prio", "next_state", "next_comm",
)  # fmt: skip
_TESTS: Final = (
    (
        "hwlat",
        re.compile(
            rb"#(\d{1,10}) +inner/outer\(us\): +(\d{1,20})/(\d{1,20}) +ts:(\d{1,12}\.\d{9})(?: count:(\d{1,10}))?"
            rb"(?: nmi-total:(\d{1,20}))?(?: nmi-count:(\d{1,10}))?"
        ),
        ("seqnum", "duration", "outer_duration", "timestamp", "count", "nmi_total_ts", "nmi_count"),
    ),
    (
        "timerlat",
        re.compile(rb"#(\d{1,10}) +context +([\w-]{1,16}) +timer_latency +(\d{1,20}) ns"),
        ("seqnum", "context", "timer_latency"),
    ),
    (
        "osnoise",
        re.compile(rb" *(\d{1,20}) +(\d{1,20}) +(\d{1,3}\.\d{5})" + rb" +(\d{1,20})" * 6),
        (
            "runtime", "noise", "available", "max_sample", "hw_count", "nmi_count", "irq_count", "softirq_count",
            "thread_count",
        ),
    ),
)  # fmt: skip
# What tracepoints of osnoise say: name:number, a time and how long it took.
_NOISE: Final = re.compile(
    r" *(?:([^\n:]{1,64}):(-?\d{1,10}) )?start (\d{1,12})\.(\d{9})"
    r" duration (\d{1,20}) ns(?: interferences? (\d{1,20}))?"
)
# blktrace's actions: device, action, what kind of access, and one of several endings
_BLOCK: Final = re.compile(r" *(\d{1,4},\d{1,8}) +([A-Z]{1,2}|m) +([A-Z]{1,8})(?: (.*))?")
_ENDINGS: Final = (
    (re.compile(r"(\d+) \+ (\d+) <- \((\d+,\d+)\) (\d+)"), ("sector", "nr_sector", "old_dev", "old_sector")),
    (re.compile(r"(\d+) \+ (\d+) \[(-?\d+)\]"), ("sector", "nr_sector", "error")),
    (re.compile(r"(\d+) \+ (\d+) \[(.*)\]"), ("sector", "nr_sector", "comm")),
    (re.compile(r"(\d+) / (\d+) \[(.*)\]"), ("sector", "new_sector", "comm")),
    (re.compile(r"(\d+) \[(.*)\]"), ("bytes", "comm")),
    (re.compile(r"\[(.*)\](?: (\d+))?"), ("comm", "nr_rq")),
)
# So bpf_trace_printk is named up to 5.9, if at all.
_PRINTED: Final = ("bpf_trace_printk", "0x00000001", "0x1")


def traced(rest: bytes) -> SystemCall | None:
    """Read what a tracer or bpf_trace_printk prints behind the columns, without a name; None if it isn't that."""
    if rest.startswith(b": "):
        return SystemCall(_PRINTED[0], {"bpf_string": decode(rest[2:])}, True)
    if (found := _CONTEXT.fullmatch(rest)) is not None:
        name = "wakeup" if found[4] == b"+" else "context_switch"
        return SystemCall(name, _fields(_STATES, found), True)
    for name, pattern, labels in _TESTS:
        if (found := pattern.fullmatch(rest)) is not None:
            return SystemCall(name, _fields(labels, found), True)
    return _blocks(decode(rest))


def noted(name: str, shown: bytes) -> SystemCall | None:
    """Read what stands behind the name of an event whose text has no pairs; None if it isn't one of those known."""
    if name in _PRINTED:
        return SystemCall(_PRINTED[0], {"bpf_string": decode(shown.removesuffix(b"\r"))}, True)
    if not name.endswith("_noise") and name != "sample_threshold":
        return None
    found = _NOISE.fullmatch(decode(shown.rstrip(b" \r")))
    if found is None:
        return None
    fields: dict[str, Value] = {"start": int(found[3]) * 10**9 + int(found[4]), "duration": int(found[5])}
    if found[1] is not None:
        labels = ("comm", "pid") if name == "thread_noise" else ("desc", "vector")
        fields = {labels[0]: found[1].strip(), labels[1]: int(found[2]), **fields}
    return SystemCall(name, fields | ({} if found[6] is None else {"interference": int(found[6])}), True)


def _blocks(rest: str) -> SystemCall | None:
    """Read an action of tracer blk."""
    block = _BLOCK.fullmatch(rest.removesuffix("\r"))
    if block is None:
        return None
    fields: dict[str, Value] = {"dev": block[1], "action": block[2], "rwbs": block[3]}
    if block[2] == "m":
        return SystemCall("blk", {**fields, "msg": block[4] or ""}, True)
    for pattern, labels in _ENDINGS:
        if (found := pattern.fullmatch(block[4] or "")) is not None:
            return SystemCall("blk", fields | _fields(labels, found), True)
    return SystemCall("blk", fields, not block[4])


def _fields(labels: tuple[str, ...], found: re.Match[bytes] | re.Match[str]) -> dict[str, Value]:
    """Give the groups that are there names, and those that are numbers their value; times are in nanoseconds."""
    fields: dict[str, Value] = {}
    for label, value in zip(labels, found.groups(), strict=True):
        if label and value is not None:
            text = decode(value) if isinstance(value, bytes) else value
            is_number = text.removeprefix("-").isdecimal() and label not in ("comm", "next_comm")
            fields[label] = int(text.replace(".", "")) if is_number or label == "timestamp" else text
    return fields
