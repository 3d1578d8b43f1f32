"""Raw pages say what the text of the same records says; and what the text can't."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kprobe import Tracer
from kprobe.cli import main
from kprobe.tracing.live import RawPipe
from kprobe_text.text import FAULT, Event, Header, Lost, Marker, Parser, RawMarker, Record, StackTrace

from .builds import Build
from .text import define, show_only

MEMORY = 0x10000000  # where the workload's data lies
DATA = b"first\0" + bytes(range(0xF0, 0x100)) + b'a "b=c\0' + MEMORY.to_bytes(8, "little")
STRINGS = "a=+0(%si):string b=+22(%si):ustring none=+0(%dx):ustring comm=$comm"
NUMBERS = "s8=%di:s8 u8=%di:u8 x16=%di:x16 s32=%di:s32 u64=%cx:u64 bits=%cx:b4@4/32 untyped=%cx"
ARRAYS = "bytes=+6(%si):u8[3] words=+6(%si):x16[2] signed=+6(%si):s32[2]"
SYMBOLS = "here=%ip:symbol"


def from_text(tracefs: Any) -> list[Record]:
    parser = Parser(lambda name: tracefs.read(f"events/kprobes/{name}/format") if name in "er" else None)
    records = [*parser.feed(tracefs.read("trace")), *parser.close()]
    return [record for record in records if not isinstance(record, Header)]


def from_pages(tracefs: Any) -> list[Record]:
    """Read the same records from the pages, which consumes them."""
    pipe = RawPipe(tracefs)
    records = pipe.drain()
    assert pipe.problems == []
    pipe.close()
    return [record for record in records if not isinstance(record, Header)]


def alike(record: Record) -> tuple[Any, ...]:
    """Return what both can say: text has rounded times, no addresses, and strings that could be records."""
    shown: dict[str, Any] = {**record._asdict(), "raw": b"", "group": "", "kind": type(record).__name__}
    shown.pop("forgeable", None)  # of text alone
    if "timestamp" in shown:
        shown["timestamp"] = (shown["timestamp"] + 500) // 1000
    for name in ("address", "caller"):
        shown[name] = str(shown[name]) if shown.get(name) is not None else None
    if "fields" in shown:
        shown["fields"] = {name: str(v) if hasattr(v, "symbol") else v for name, v in shown["fields"].items()}
    if "frames" in shown:
        shown["frames"] = [frame.symbol for frame in shown["frames"]]
    return tuple(sorted(shown.items()))


def agree(tracefs: Any) -> list[Record]:
    text = from_text(tracefs)
    pages = from_pages(tracefs)
    flags = {len(getattr(record, "flags", "")) for record in text}
    if flags == {4}:
        # at the top level the pages' reader takes the fifth letter for granted
        pages = [cast("Event", record)._replace(flags=cast("Event", record).flags[:4]) for record in pages]
    assert [alike(record) for record in pages] == [alike(record) for record in text]
    return pages


@pytest.mark.slow
@pytest.mark.parametrize("expressions", [f"{NUMBERS} {STRINGS}", f"{ARRAYS} {SYMBOLS}"])
def test_arguments(tracefs: Any, workload: Any, expressions: str) -> None:
    define(tracefs, f"p:e ksys_fadvise64_64 {expressions}")
    show_only(tracefs, "workload", "kprobes/e")
    for number in (-2, 3):
        workload.fadvise(number, MEMORY, -3, 0x12345678, data=DATA)
    first, second = agree(tracefs)
    assert isinstance(first, Event)
    assert isinstance(second, Event)
    assert (first.task, first.name, first.complete, str(first.address)[:17]) == (
        "workload",
        "e",
        True,
        "ksys_fadvise64_64",
    )
    if "a=" in expressions:
        assert (first.fields["a"], first.fields["b"], first.fields["none"]) == ("first", 'a "b=c', FAULT)
    if "s8=" in expressions:
        shown = [first.fields[name] for name in ("s8", "u8", "x16", "s32", "bits")]
        assert shown == [-2, 254, 0xFFFE, -2, 7]
        assert second.fields["s8"] == 3
    if "bytes=" in expressions:
        assert first.fields["bytes"] == (0xF0, 0xF1, 0xF2)
        assert first.fields["words"] == (0xF1F0, 0xF3F2)
        assert first.fields["signed"] == (-202182160, -134810124)


def test_returns_and_stacks(tracefs: Any, workload: Any) -> None:
    define(tracefs, "r:r do_sys_openat2 fd=$retval:s32", "p:e do_sys_openat2 path=+0(%si):string")
    show_only(tracefs, "workload", "kprobes/r", "kprobes/e")
    tracefs.write("options/stacktrace", b"1")
    workload.open("/no/such")
    tracefs.write("options/stacktrace", b"0")
    text, pages = from_text(tracefs), from_pages(tracefs)
    kinds = [Event, StackTrace, Event, StackTrace]
    assert [type(record) for record in text] == [type(record) for record in pages] == kinds
    entry, stack, back, _ = pages
    assert isinstance(entry, Event)
    assert isinstance(stack, StackTrace)
    assert isinstance(back, Event)
    assert (entry.fields, back.fields) == ({"path": "/no/such"}, {"fd": -2})
    assert str(back.caller) == str(text[2].caller)  # type: ignore[union-attr]
    assert [f.symbol for f in stack.frames] == [f.symbol for f in text[1].frames]  # type: ignore[union-attr]


def test_marks(tracefs: Any) -> None:
    tracefs.write("trace_marker", b"plain")
    tracefs.write("trace_marker", b"with\nnewline and \xff\n")
    tracefs.write("trace_marker", b"x" * 500)
    tracefs.write("trace_marker_raw", b"abcdefgh")
    first, second, third, raw = from_pages(tracefs)
    assert isinstance(first, Marker)
    assert first.text == "plain"
    assert isinstance(second, Marker)
    assert second.text == "with\nnewline and \udcff"
    assert isinstance(third, Marker)
    assert third.text == "x" * 500
    assert isinstance(raw, RawMarker)
    assert (raw.identifier, raw.data[:4]) == (0x64636261, b"efgh")


@pytest.mark.slow
def test_a_string_can_forge_nothing(tracefs: Any, workload: Any) -> None:
    """A newline, and then a whole line as the kernel prints them: text has two records of it, pages the one."""
    define(tracefs, "p:e do_sys_openat2 path=+0(%si):string")
    show_only(tracefs, "workload", "kprobes/e")
    forged = '"\n           <...>-1       [000] .....     1.000000: e: (do_sys_openat2+0x0/0x10) path="forged'
    workload.open(forged)
    (event,) = from_pages(tracefs)
    assert isinstance(event, Event)
    assert (event.task, event.fields) == ("workload", {"path": forged})


def test_events_that_the_kernel_has(tracefs: Any, workload: Any) -> None:
    tracefs.write("events/sched/sched_process_fork/filter", b'comm == "workload"')
    tracefs.write("events/sched/sched_process_fork/enable", b"1")
    child = workload.fork()
    tracefs.write("events/sched/sched_process_fork/enable", b"0")
    (event,) = from_pages(tracefs)
    assert isinstance(event, Event)
    assert (event.group, event.name, event.address, event.complete) == ("sched", "sched_process_fork", None, True)
    assert event.fields["parent_comm"] == "workload"
    assert event.fields["child_comm"] == "workload"
    assert (event.fields["parent_pid"], event.fields["child_pid"]) == (event.pid, child)


@pytest.mark.slow
def test_what_was_lost_is_told(tracefs: Any) -> None:
    tracefs.write("buffer_size_kb", b"8")
    pipe = RawPipe(tracefs)
    tracefs.write("trace_marker", b"first")
    (first,) = [record for record in pipe.drain() if not isinstance(record, Header)]
    pipe.close()
    for number in range(400):
        tracefs.write("trace_marker", b"%050d" % number)
    records = from_pages(tracefs)
    assert isinstance(first, Marker)
    # the page that was being read stays, and what was lost is told with the page after the gap
    (at,) = [i for i, record in enumerate(records) if isinstance(record, Lost)]
    marks = [int(record.text) for record in records if isinstance(record, Marker)]
    lost = records[at]
    assert isinstance(lost, Lost)
    assert lost.count is not None
    assert lost.count > 100
    assert marks == [*range(at), *range(at + lost.count, 400)]


@pytest.mark.slow
@pytest.mark.parametrize("top_level", [False, True])
@pytest.mark.parametrize("duration", [None, 0.1])
def test_a_trace_that_is_raw(tracefs: Any, workload: Any, duration: float | None, top_level: bool) -> None:
    before = [tracefs.read(path) for path in ("kprobe_events", "set_event", "trace_options")]
    instances = tracefs.listdir("instances")
    trace = Tracer(tracefs).trace(
        "p:myopen do_sys_openat2 path=+0(%si):string",
        filter='comm == "workload"', raw=True, duration=duration, top_level=top_level,
    )  # fmt: skip
    found: list[Record] = []
    with trace:
        workload.open("/etc/hostname")
        workload.open("/no/such")
        if duration is None:
            while sum(isinstance(record, Event) for record in found) < 2:
                found += trace.read_records(20)
            trace.stop()
        found += trace
    events = [record for record in found if isinstance(record, Event)]
    assert [event.fields for event in events] == [{"path": "/etc/hostname"}, {"path": "/no/such"}]
    assert trace.problems() == []
    assert [tracefs.read(path) for path in ("kprobe_events", "set_event", "trace_options")] == before
    assert tracefs.listdir("instances") == instances


@pytest.mark.slow
def test_the_command(tracefs: Any, workload: Any, build: Build, capfdbinary: Any) -> None:
    class Working:
        def __getattr__(self, name: str) -> Any:
            return getattr(tracefs, name)

        def play(self) -> None:
            workload.open("/no/such\nfile")

    definition = "p:myopen do_sys_openat2 filename=+0(%si):string"
    assert main(["-F", "--raw", "-d", "0.01", "-p", str(workload.pid), definition], tracefs=Working()) == 0
    out, err = capfdbinary.readouterr()
    assert out.partition(b"workload-")[2].partition(b": ")[2] == (
        rf'({build.openat2}) filename="/no/such\nfile"'.encode() + b"\n"
    )
    assert err.splitlines() == [
        b"Tracing kprobe myopen for 0.01 seconds (buffered), raw pages.",
        b"",
        b"Ending tracing...",
        b"1 event, 0 lost, 0 missed",
    ]
