"""Lines without an event's name: of tracers, such as calls of function_graph, and events of 2009, before 2.6.33.

The last have only places, and numbers are hexadecimal without 0x: ``do_sys_open+0x0/0xd6: dfd=3 filename=7fffd1ec44``
and, of another patch, ``do_sys_open+0x0/0xd6: 0xffffff9c 0x8000`` (seeds/001, seeds/002). The values that have no name
are arg1, arg2 and so on here.
"""

import re
from typing import Final

from kprobe.text.arguments import decode
from kprobe.text.context import Context, GraphContext
from kprobe.text.layout import GRAPH_END, GRAPH_RULE, GRAPH_SWITCH
from kprobe.text.place import find_place
from kprobe.text.records import Call, Comment, Event, Record, Switch, Value
from kprobe.text.syscall import SystemCall

# ``f() {``, ``f();`` and ``}``, each with what newer kernels say of arguments, the return address and the value
_CALL: Final = re.compile(rb"([^\s(){}]++(?: \[[^\]\s]++\])?)\(([^\n]*?)\)( \{|;)([^\n]*)")
_EXIT: Final = re.compile(rb"\}(?: /\* ([^\n]*) \*/)?;?")
_NAME: Final = re.compile(r"[^\s=<>]+(?: \[[^\]\s]+\])?")

# a mark has such a place with option sym-offset
NAMELESS: Final = re.compile(
    rb"((?!tracing_mark_write\+)[^\s:()]+\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[\w+\])?(?: <- [^\s:()]+)?: ?)"
)

# More arguments no event has; what follows them is text.
_MOST: Final = 128

_ARGUMENT: Final = re.compile(rb"(?:([A-Za-z_]\w*)=)?(?:0x)?([0-9a-f]{1,16})")

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
    r" *(?:([^\n:]{1,64}):(-?\d{1,10}) )?start (\d{1,12})\.(\d{9}) duration (\d{1,20}) ns(?: interferences? (\d{1,20}))?"
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


def call(line: re.Match[bytes], context: GraphContext, rest: bytes, raw: bytes) -> Record | None:
    """Build the record of a line without an event; None if it isn't one."""
    rest = rest.rstrip(b" \r")
    duration = None if line[7] is None else round(float(line[7]) * 1000)
    depth = len(line[8]) // 2
    if line[9] is not None:
        return Comment(decode(rest.removesuffix(GRAPH_END)), *context, raw) if rest.endswith(GRAPH_END) else None
    # that one of the two is there at all is found out sooner
    if (b") {" in rest or b");" in rest) and (parts := _CALL.fullmatch(rest)) is not None:
        function, values, end, note = (decode(part) for part in parts.groups())
        if end == ";":
            return Call("leaf", function, depth, duration, (values + note).strip(), *context, raw)
        return Call("entry", function, depth, duration, (values + note).strip(), *context, raw)
    if (leave := _EXIT.fullmatch(rest)) is not None:
        note = decode(leave[1] or b"")
        # the option funcgraph-tail names the function; others may follow, or stand alone
        named = _NAME.match(note)
        function = named[0] if named is not None and "=" not in note[: named.end() + 1] else ""
        return Call("exit", function, depth, duration, note[len(function) :].strip(" ,"), *context, raw)
    return None


def switch(text: bytes, position: int, limit: int) -> Switch | int | None:
    """Read the four lines that tell of another task; None if they aren't there, 0 if more text may complete them."""
    if not text.startswith(GRAPH_RULE, position):
        return None
    found = GRAPH_SWITCH.match(text, position, limit)
    if found is None:
        return 0 if text.count(b"\n", position, limit) < 4 else None
    cpu, previous, previous_pid, task, pid = found.groups()
    return Switch(int(cpu), decode(previous), int(previous_pid), decode(task), int(pid), found[0])


def nameless(context: Context, text: bytes, raw: bytes) -> Event:
    """Build the event of such a line."""
    task, pid, tgid, cpu, flags, stamp, clock = context
    place = NAMELESS.match(text)
    assert place is not None
    first, arrow, second = decode(place[1].rstrip(b": ")).partition(" <- ")
    address, caller = find_place(first), None
    if arrow:
        address, caller = find_place(second), address
    fields: dict[str, Value] = {}
    complete = True
    for i, word in enumerate(text[place.end() :].removesuffix(b"\r").split(None, _MOST)):
        found = _ARGUMENT.fullmatch(word)
        name = decode(found[1]) if found is not None and found[1] else f"arg{i + 1}"
        if found is None or name in fields:
            complete = False
            fields[f"arg{i + 1}"] = decode(word)
        else:
            fields[name] = int(found[2], 16)
    return Event(task, pid, cpu, flags, stamp, "", address, caller, fields, tgid, clock, raw, complete)
