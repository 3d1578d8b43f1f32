"""One recorded trace per option, clock and kind of record."""

from collections.abc import Callable
from typing import Any

import pytest

from kprobe_text.text import (
    Bare,
    BufferStarted,
    CodeAddress,
    Coded,
    Event,
    Function,
    Header,
    Lost,
    Marker,
    RawMarker,
    Record,
    StackTrace,
    Unnamed,
    parse,
)

Recorded = Callable[[str, str], bytes]


def symbol(name: str) -> CodeAddress:
    return CodeAddress(name, None, None, "", None, name)


def body(data: bytes) -> list[Record]:
    return [record for record in parse(data) if not isinstance(record, Header)]


# task, pid, cpu, flags, nanoseconds, tgid, clock of the second record
CONTEXTS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("3.2", "02_comms", ("init", 1, 1, "", 7289622000, None, "time")),
    ("3.13", "02_comms", ("init", 1, 0, "d...", 10085856000, None, "time")),
    ("4.19", "02_comms", ("init", 1, 0, "d...", 10173119000, None, "time")),
    ("5.10", "02_comms", ("init", 1, 0, "d...", 16140598000, None, "time")),
    ("6.1", "02_comms", ("init", 1, 1, ".....", 11791861000, None, "time")),
    ("7.2", "02_comms", ("init", 1, 1, ".....", 19988089000, None, "time")),
    ("4.19", "03_opt_noirq-info", ("init", 1, 1, "", 11900016000, None, "time")),
    ("6.12", "03_opt_noirq-info", ("init", 1, 1, "", 26948768000, None, "time")),
    ("4.19", "03_opt_record-tgid", ("init", 1, 1, "d...", 26056045000, 1, "time")),
    ("6.12", "03_opt_record-tgid", ("init", 1, 0, ".....", 44508082000, 1, "time")),
    ("4.19", "03_opt_record-tgid,noirq-info", ("init", 1, 1, "", 36665059000, 1, "time")),
    ("6.12", "03_opt_record-tgid,noirq-info", ("init", 1, 1, "", 59615212000, 1, "time")),
    ("3.2", "03_opt_latency-format", ("init", 1, 1, "d...", 38240000, None, "elapsed")),
    ("4.19", "03_opt_latency-format", ("init", 1, 1, "d...", 187042000, None, "elapsed")),
    ("6.12", "03_opt_latency-format", ("init", 1, 1, ".....", 180864000, None, "elapsed")),
    ("4.19", "03_opt_latency-format,noirq-info", ("init", 1, 0, "d...", 175241000, None, "elapsed")),
    ("3.2", "03_opt_latency-format,verbose", ("init", 1, 0, "5 00000000", 14280259000, None, "time")),
    ("6.12", "03_opt_latency-format,verbose", ("init", 1, 0, "0 00000000", 42760789000, None, "time")),
    ("6.1", "04_clock_counter", ("clk", 855, 1, ".....", 4, None, "count")),
    ("6.1", "04_clock_uptime", ("clk", 867, 1, ".....", 3988, None, "count")),
    ("6.1", "04_clock_x86-tsc", ("clk", 939, 0, ".....", 115364340482, None, "count")),
    ("6.1", "04_clock_tai", ("clk", 927, 1, ".....", 1795225707059935000, None, "time")),
    ("6.1", "04_clock_counter_latency", ("clk", 855, 1, ".....", 3, None, "elapsed count")),
    ("6.1", "04_clock_boot_latency", ("clk", 915, 1, ".....", 123271000, None, "elapsed")),
]


@pytest.mark.parametrize(("series", "name", "context"), CONTEXTS)
def test_what_stands_before_the_name(recorded: Recorded, series: str, name: str, context: tuple[Any, ...]) -> None:
    event = body(recorded(series, f"{name}.trace"))[1]
    assert isinstance(event, Event)
    assert (event.task, event.pid, event.cpu, event.flags, event.timestamp, event.tgid, event.clock) == context
    assert event.name == "ret"
    assert event.fields["ret"] == 3


def test_seconds(recorded: Recorded) -> None:
    event, counted = (body(recorded("6.1", f"04_clock_{clock}.trace"))[0] for clock in ("mono", "counter"))
    assert isinstance(event, Event)
    assert isinstance(counted, Event)
    assert event.seconds == 41.38789
    assert counted.seconds is None


def test_a_forgotten_comm(recorded: Recorded) -> None:
    tasks = {record.task for record in body(recorded("6.1", "03_opt_norecord-cmd.trace")) if isinstance(record, Event)}
    assert tasks == {"init", "<...>"}


def test_flags_of_interrupts(recorded: Recorded) -> None:
    flags = {record.flags for record in body(recorded("6.1", "09_irq.trace")) if isinstance(record, Event)}
    assert {"d.h1.", "d.h..", "dNh1.", "..s1.", "d.H1."} <= flags


def test_flags_under_a_breakpoint(recorded: Recorded) -> None:
    """A probe that isn't at ftrace's place runs in an exception; the two counts are shown as f."""
    events = [record for record in body(recorded("6.1", "11_offsets.trace")) if isinstance(record, Event)]
    assert [(event.flags, str(event.address)) for event in events if event.name == "off5"] == [
        ("..Zff", "do_sys_openat2+0x5/0x170")
    ]


def test_a_return_into_another_return_probe(recorded: Recorded) -> None:
    events = [record for record in body(recorded("6.1", "11_offsets.trace")) if isinstance(record, Event)]
    (event,) = (event for event in events if b"unknown" in event.raw)
    assert (event.address, event.caller) == (symbol("do_dentry_open"), symbol("[unknown/kretprobe'd]"))


def test_places(recorded: Recorded) -> None:
    entry, leave = body(recorded("6.1", "03_opt_sym-addr.trace"))[:2]
    assert isinstance(entry, Event)
    assert isinstance(leave, Event)
    address = 0xFFFFFFFF813485A0
    assert entry.address == CodeAddress(
        "do_sys_openat2", 0, 0x170, "", address, "do_sys_openat2+0x0/0x170 <ffffffff813485a0>"
    )
    assert entry.caller is None
    assert leave.address == CodeAddress("do_sys_openat2", None, None, "", address, "do_sys_openat2 <ffffffff813485a0>")
    assert leave.caller is not None
    assert (leave.caller.symbol, leave.caller.offset, leave.caller.address) == (
        "__x64_sys_openat", 0x6A, 0xFFFFFFFF81348C9A,
    )  # fmt: skip


def test_uprobes(recorded: Recorded) -> None:
    entry, leave = body(recorded("6.12", "16_uprobe2.trace"))[:2]
    assert isinstance(entry, Event)
    assert isinstance(leave, Event)
    assert (entry.name, entry.flags, entry.address) == (
        "um",
        "DNZff",
        CodeAddress("", None, None, "", 0x4032FF, "0x4032ff"),
    )
    assert leave.address == entry.address
    assert leave.caller == CodeAddress("", None, None, "", 0x404274, "0x404274")


def test_no_context(recorded: Recorded) -> None:
    entry, leave = body(recorded("6.1", "03_opt_nocontext-info.trace"))[:2]
    assert isinstance(entry, Bare)
    assert dict(entry.fields) == {"dfd": -100, "s": "tracing_on", "flags": 0x13CC0}
    assert isinstance(leave, Bare)
    assert (leave.address, leave.fields["ret"]) == (symbol("do_sys_openat2"), 3)


@pytest.mark.parametrize(
    ("option", "raw", "rest"),
    [
        ("raw", b"1 0 19688605649 type: 1441\n", (1, 0, 19688605649, 1441)),
        ("hex", b"00000001 00000001 00000004daa9627e type: 1443\n\n", (1, 1, 0x4DAA9627E, 1443)),
    ],
)
def test_numbers_only(recorded: Recorded, option: str, raw: bytes, rest: tuple[int, int, int, int]) -> None:
    assert body(recorded("6.1", f"03_opt_{option}.trace"))[0] == Coded(*rest, raw)


def test_fields(recorded: Recorded) -> None:
    entry, leave = body(recorded("6.12", "03_opt_fields.trace"))[:2]
    assert isinstance(entry, Event)
    assert isinstance(leave, Event)
    address = CodeAddress("", None, None, "", 0xFFFFFFFF81431510, "0xffffffff81431510")
    assert (entry.address, dict(entry.fields)) == (
        address, {"dfd": 0xFFFFFF9C, "s": "tracing_on", "flags": 0x13E48},
    )  # fmt: skip
    assert leave.address == address
    assert leave.caller is not None
    assert leave.caller.address == 0xFFFFFFFF81431A45


@pytest.mark.parametrize(
    ("series", "option", "frames"),
    [
        ("3.2", "stacktrace", ["system_call_fastpath"]),
        ("3.2", "stacktrace,sym-addr", ["system_call_fastpath <ffffffff81231aeb>"]),
        ("3.13", "stacktrace,sym-addr", ["[unknown/kretprobe'd] <ffffffff81267df5>"]),
        (
            "6.1",
            "stacktrace",
            ["do_sys_openat2", "__x64_sys_openat", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"],
        ),
        (
            "6.1",
            "stacktrace,sym-offset",
            [
                "do_sys_openat2+0x1/0x170", "__x64_sys_openat+0x6a/0xa0", "do_syscall_64+0x5d/0x90",
                "entry_SYSCALL_64_after_hwframe+0x6e/0xd8",
            ],
        ),
    ],
)  # fmt: skip
def test_stacks(recorded: Recorded, series: str, option: str, frames: list[str]) -> None:
    stack = body(recorded(series, f"03_opt_{option}.trace"))[1]
    assert isinstance(stack, StackTrace)
    assert [str(place) for place in stack.frames] == frames
    assert not stack.user


def test_the_place_in_a_frame(recorded: Recorded) -> None:
    stack = body(recorded("3.13", "03_opt_stacktrace,sym-addr.trace"))[1]
    assert isinstance(stack, StackTrace)
    assert (stack.frames[0].symbol, stack.frames[0].address) == ("[unknown/kretprobe'd]", 0xFFFFFFFF81267DF5)


@pytest.mark.parametrize("series", ["3.2", "3.13", "6.1", "7.2"])
def test_the_stack_of_the_program(recorded: Recorded, series: str) -> None:
    stack = body(recorded(series, "03_opt_userstacktrace.trace"))[1]
    assert isinstance(stack, StackTrace)
    assert stack.user
    assert [frame.address for frame in stack.frames] == [0x47B5E1]


@pytest.mark.parametrize(
    ("series", "counts"), [("3.2", [648, 648]), ("3.13", [849, 841]), ("6.1", [679, 679]), ("7.2", [612, 611])]
)
def test_lost_events(recorded: Recorded, series: str, counts: list[int]) -> None:
    records = body(recorded(series, "05_lost.trace_pipe"))
    assert [record.count for record in records if isinstance(record, Lost)] == counts
    assert isinstance(records[0], Lost)
    assert isinstance(records[1], Event)


def test_how_many_are_lost_may_be_unknown() -> None:
    assert parse(b"CPU:3 [LOST EVENTS]\n") == [Lost(3, None, b"CPU:3 [LOST EVENTS]\n")]


def test_a_buffer_that_starts_late(recorded: Recorded) -> None:
    started = [record for record in parse(recorded("6.1", "05_lost.trace")) if isinstance(record, BufferStarted)]
    assert started == [BufferStarted(1, b"##### CPU 1 buffer started ####\n", forgeable=True)]


def test_markers(recorded: Recorded) -> None:
    records = body(recorded("6.1", "07_marker.trace"))
    texts = [record.text for record in records if isinstance(record, Marker)]
    assert texts[:9] == [
        "hello", "no newline", "two\nlines", "tab\there \"q\" \\ %s", "ä\udcff\x01x", "", "\n",
        "   ent: (do_sys_open+0x0/0x10) fake", " sh-1     [000] ....     1.000000: ent: (f+0x0/0x1) a=1",
    ]  # fmt: skip
    (raw,) = (record for record in records if isinstance(record, RawMarker))
    assert (raw.task, raw.pid, raw.identifier, raw.data) == ("rec", 1068, 1, b"abcdefgh" + bytes(8))


def test_a_tracepoint(recorded: Recorded) -> None:
    switch = body(recorded("6.1", "08_sched.trace"))[4]
    assert isinstance(switch, Event)
    assert (switch.task, switch.pid, switch.name, switch.address) == ("<idle>", 0, "sched_switch", None)
    assert dict(switch.fields) == {
        "prev_comm": "swapper/0", "prev_pid": 0, "prev_prio": 120, "prev_state": "R", "next_comm": "rcu_preempt",
        "next_pid": 15, "next_prio": 120,
    }  # fmt: skip
    assert switch.text == (
        "prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=rcu_preempt next_pid=15 next_prio=120"
    )


def test_tracer_function(recorded: Recorded) -> None:
    call, entry = body(recorded("6.1", "10_function.trace"))[:2]
    assert isinstance(call, Function)
    assert (call.task, call.function, call.parent) == ("fn app", symbol("do_sys_openat2"), symbol("__x64_sys_openat"))
    assert isinstance(entry, Event)


def test_records_of_a_removed_probe(recorded: Recorded) -> None:
    record = body(recorded("3.13", "18_probes_removed.trace"))[0]
    assert isinstance(record, Unnamed)
    assert (record.task, record.event_id) == ("init", 922)
