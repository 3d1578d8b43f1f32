"""Lines of tracers without an event: wakeup, irqsoff, hwlat, osnoise, timerlat, blk; bpf_trace_printk up to 5.9."""

from typing import Any

import pytest

from kprobe_text.text import Call, Event, parse

WIDE = b"          <idle>-0       [003] dNs7.     5.000001: "
LATENT = b"  <idle>-0         3dNs7.   15us+: "


@pytest.mark.parametrize("head", [WIDE, LATENT])
@pytest.mark.parametrize(
    ("body", "name", "fields"),
    [
        (
            b"     0:120:R   + [003]   312:100:R kworker/3:1H",
            "wakeup",
            {"prev_pid": 0, "prev_prio": 120, "prev_state": "R", "next_cpu": 3, "next_pid": 312, "next_prio": 100,
             "next_state": "R", "next_comm": "kworker/3:1H"},
        ),
        (
            b"0:120:R ==> [003] 312:100:R 7",
            "context_switch",
            {"prev_pid": 0, "prev_prio": 120, "prev_state": "R", "next_cpu": 3, "next_pid": 312, "next_prio": 100,
             "next_state": "R", "next_comm": "7"},
        ),
        (
            b"#1     inner/outer(us):   11/12    ts:1581527483.343962693 count:6",
            "hwlat",
            {"seqnum": 1, "duration": 11, "outer_duration": 12, "timestamp": 1581527483343962693, "count": 6},
        ),
        (
            b"#44    inner/outer(us):    0/2222  ts:1581527483.000000001 count:1 nmi-total:7 nmi-count:1",
            "hwlat",
            {"seqnum": 44, "duration": 0, "outer_duration": 2222, "timestamp": 1581527483000000001, "count": 1,
             "nmi_total_ts": 7, "nmi_count": 1},
        ),
        (
            b"1000000        190  99.98100       9     18      0   1007     17      1",
            "osnoise",
            {"runtime": 1000000, "noise": 190, "available": "99.98100", "max_sample": 9, "hw_count": 18,
             "nmi_count": 0, "irq_count": 1007, "softirq_count": 17, "thread_count": 1},
        ),
        (
            b"#12    context    irq timer_latency       932 ns",
            "timerlat",
            {"seqnum": 12, "context": "irq", "timer_latency": 932},
        ),
        (
            b"#1     context user-ret timer_latency     11700 ns",
            "timerlat",
            {"seqnum": 1, "context": "user-ret", "timer_latency": 11700},
        ),
        (
            b"  8,0    Q  WS 6500871 + 8 [kjournald]",
            "blk",
            {"dev": "8,0", "action": "Q", "rwbs": "WS", "sector": 6500871, "nr_sector": 8, "comm": "kjournald"},
        ),
        (
            b"259,12   A FWFS 6500871 + 8 <- (8,1) 6500808",
            "blk",
            {"dev": "259,12", "action": "A", "rwbs": "FWFS", "sector": 6500871, "nr_sector": 8, "old_dev": "8,1",
             "old_sector": 6500808},
        ),
        (b"  8,0    C   R 1 + 8 [-5]", "blk",
         {"dev": "8,0", "action": "C", "rwbs": "R", "sector": 1, "nr_sector": 8, "error": -5}),
        (b"  8,0    m   N cfq480S / alloced", "blk",
         {"dev": "8,0", "action": "m", "rwbs": "N", "msg": "cfq480S / alloced"}),
        (b"  8,0   UT   N [swapper] 2", "blk",
         {"dev": "8,0", "action": "UT", "rwbs": "N", "comm": "swapper", "nr_rq": 2}),
        (b": hello a=1", "bpf_trace_printk", {"bpf_string": "hello a=1"}),
        (b"0x00000001: hello", "bpf_trace_printk", {"bpf_string": "hello"}),
        (b"bpf_trace_printk: hello", "bpf_trace_printk", {"bpf_string": "hello"}),
        (b"irq_noise: local_timer:236 start 60.036047453 duration 1548 ns", "irq_noise",
         {"desc": "local_timer", "vector": 236, "start": 60036047453, "duration": 1548}),
        (b"thread_noise:     bash:42 start 60.036047453 duration 548 ns", "thread_noise",
         {"comm": "bash", "pid": 42, "start": 60036047453, "duration": 548}),
        (b"nmi_noise: start 60.000000453 duration 548 ns", "nmi_noise", {"start": 60000000453, "duration": 548}),
        (b"sample_threshold: start 60.000000453 duration 8812 ns interference 3", "sample_threshold",
         {"start": 60000000453, "duration": 8812, "interference": 3}),
    ],
)  # fmt: skip
def test_what_tracers_print(head: bytes, body: bytes, name: str, fields: dict[str, Any]) -> None:
    line = head + body + b"\n"
    for event in parse(line * 2):
        assert isinstance(event, Event)
        assert (event.task, event.pid, event.cpu, event.name, event.fields) == ("<idle>", 0, 3, name, fields)
        assert (event.complete, event.guessed, event.raw) == (True, set(), line)
    (cut,) = parse(line[:-1])
    assert isinstance(cut, Event)
    assert not cut.complete


@pytest.mark.parametrize("body", [b"#1     inner/outer(us):", b"#1     context    irq timer", b"1000000 190", b"8,0 Q"])
def test_what_is_no_line_of_theirs(body: bytes) -> None:
    (record,) = parse(WIDE + body + b"\n")
    assert type(record).__name__ == "Unparsed"


def test_irqsoff_with_display_graph() -> None:
    """Times are microseconds since the start."""
    text = (
        b"# tracer: irqsoff\n#\n"
        b"    0 us |   0)   bash-1507    |  d... |   0.378 us    |  _raw_spin_lock_irqsave();\n"
        b"   10 us |   0)   bash-1507    |  d..1 |               |    do_raw_spin_trylock() {\n"
    )
    calls = [record for record in parse(text) if isinstance(record, Call)]
    assert [(call.function, call.kind, call.depth, call.duration, call.timestamp) for call in calls] == [
        ("_raw_spin_lock_irqsave", "leaf", 0, 378, 0),
        ("do_raw_spin_trylock", "entry", 1, None, 10000),
    ]
    assert [(call.task, call.pid, call.cpu, call.flags) for call in calls] == [
        ("bash", 1507, 0, "d..."), ("bash", 1507, 0, "d..1"),
    ]  # fmt: skip
