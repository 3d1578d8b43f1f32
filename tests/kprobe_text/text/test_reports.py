"""Text that others make of the kernel's records: trace-cmd report, perf script, and pages that lost their columns."""

import pytest

from kprobe_text.text import Call, CodeAddress, Event, Header, Lost, Marker, Parser, Record, StackTrace, parse

# as trace-cmd 3.1.6 reports a trace.dat of 6.1
REPORT = rb"""cpus=2
          task 0-100   [000]    10.000000: ent:                  (ffffffff813485a0) dfd=-100 s="/tmp/" flags=0x3e8 u=1000 a={0x2f,0x74,0x6d} sym=0xffffffff8106b920
          task 0-100   [000]    10.000001: kernel_stack:         	=> do_sys_openat2
	=> 0xffffffff81348c9a
          task 0-100   [000]    10.000003: ret:                  (ffffffff813485a0 <- ffffffff81348c9a) ret=-2
           <...>-1     [000]    10.000018: print:                0xffffffff811b276d: hello world

CPU:1 [12 EVENTS DROPPED]
"""  # noqa: E501
DO_SYS_OPENAT2 = CodeAddress("", None, None, "", 0xFFFFFFFF813485A0, "ffffffff813485a0")
CALLER = CodeAddress("", None, None, "", 0xFFFFFFFF81348C9A, "ffffffff81348c9a")


def check_report(records: list[Record]) -> None:
    entry, stack, leave, marker = records
    assert isinstance(entry, Event)
    assert (entry.task, entry.pid, entry.cpu, entry.timestamp) == ("task 0", 100, 0, 10_000_000_000)
    assert entry.fields == {
        "dfd": -100, "s": "/tmp/", "flags": 1000, "u": 1000, "a": (0x2F, 0x74, 0x6D), "sym": 0xFFFFFFFF8106B920
    }  # fmt: skip
    assert (entry.address, entry.complete) == (DO_SYS_OPENAT2, True)
    assert isinstance(stack, StackTrace)
    assert [frame.text for frame in stack.frames] == ["do_sys_openat2", "0xffffffff81348c9a"]
    assert isinstance(leave, Event)
    # the print fmt has the function first, unlike the kernel's own text
    assert (leave.address, leave.caller, leave.fields) == (DO_SYS_OPENAT2, CALLER, {"ret": -2})
    assert isinstance(marker, Marker)
    assert (marker.task, marker.text) == ("<...>", "hello world")


def test_a_report() -> None:
    head, *records, lost = parse(REPORT)
    assert head == Header(b"cpus=2\n")
    check_report(records)
    assert lost == Lost(1, 12, b"CPU:1 [12 EVENTS DROPPED]\n", forgeable=True)
    # without its first line it is known by the width of the names
    check_report(parse(REPORT.partition(b"\n")[2])[:-1])


def test_a_report_with_nanoseconds_and_instances() -> None:
    line = b"          task 0-100   [000]    10.000002500: ret:                  (ffffffff813485a0) ret=-2\n"
    top, other = parse(b"cpus=2\n" + b"      " + line + b" foo: " + line)[1:]
    assert isinstance(top, Event)
    assert isinstance(other, Event)
    assert (top.timestamp, top.instance, top.task) == (10_000_002_500, "", "task 0")
    assert (other.timestamp, other.instance, other.task) == (10_000_002_500, "foo", "task 0")


def test_a_report_in_latency_format() -> None:
    line = b"  task 1-101     1d..1.    10.000005: ent:                  (ffffffff813485a0) dfd=-100\n"
    (record,) = parse(b"cpus=2\n" + line)[1:]
    assert isinstance(record, Event)
    assert (record.task, record.pid, record.cpu, record.flags) == ("task 1", 101, 1, "d..1.")
    assert (record.timestamp, record.clock, record.fields) == (10_000_005_000, "time", {"dfd": -100})


# the columns are those of perf 6.1: padded, and with call chains the bare comm
SCRIPT = b"""\
qemu-system-x86 23671/23678 [000] 22275.020343: probe:ret: (ffffffff813485a0 <- ffffffff81348c9a) ret=-2
\tffffffff81e3d7f9 kfree_skbmem+0x9 ([kernel.kallsyms])
\t    7fdaf0257340 [unknown] ([unknown])

my app 24992 [001] 22275.020678123:     250000 probe:ent: (ffffffff813485a0) s="/tmp/a b" n=3

"""


def test_a_script() -> None:
    first, stack, second, none = parse(SCRIPT)
    assert isinstance(first, Event)
    assert (first.task, first.tgid, first.pid, first.cpu) == ("qemu-system-x86", 23671, 23678, 0)
    assert (first.group, first.name, first.timestamp) == ("probe", "ret", 22_275_020_343_000)
    assert (first.address, first.caller, first.fields) == (DO_SYS_OPENAT2, CALLER, {"ret": -2})
    assert isinstance(stack, StackTrace)
    assert (stack.task, stack.pid, stack.timestamp) == ("qemu-system-x86", 23678, 22_275_020_343_000)
    assert [(frame.symbol, frame.offset, frame.address) for frame in stack.frames] == [
        ("kfree_skbmem", 9, 0xFFFFFFFF81E3D7F9), ("", None, 0x7FDAF0257340),
    ]  # fmt: skip
    assert [frame.text for frame in stack.frames] == ["kfree_skbmem+0x9 <ffffffff81e3d7f9>", "[unknown] <7fdaf0257340>"]
    assert isinstance(second, Event)
    assert (second.task, second.pid, second.tgid) == ("my app", 24992, None)
    assert (second.timestamp, second.fields) == (22_275_020_678_123, {"period": 250_000, "s": "/tmp/a b", "n": 3})
    assert isinstance(none, StackTrace)
    assert none.frames == ()


@pytest.mark.parametrize(
    ("shown", "symbol", "offset"),
    [
        (
            b"f(int, (anonymous namespace)::g)+0x1f (/usr/lib/a b.so (deleted))",
            "f(int, (anonymous namespace)::g)",
            0x1F,
        ),
        (b"A::operator()(int) const+0x0 (/bin/a)", "A::operator()(int) const", 0),
        (b"main (inlined)", "main", None),
        (b"main (/bin/a (deleted))", "main", None),
        (b"a+0x1/0x2", "a+0x1/0x2", None),
        (b"[unknown] (/memfd:x (deleted))", "", None),
    ],
)
def test_a_frame_of_a_script(shown: bytes, symbol: str, offset: int | None) -> None:
    stack = parse(SCRIPT.partition(b"\t")[0] + b"\t        deadbeef " + shown + b"\n\n")[1]
    assert isinstance(stack, StackTrace)
    assert [(frame.symbol, frame.offset, frame.address) for frame in stack.frames] == [(symbol, offset, 0xDEADBEEF)]


# perf 6.1 on a kernel 6.12: without call chains the place stands in the line
SAMPLES = (
    b"          python   619 [000] 13764.927431:     250000    cpu-clock:u:  "
    b"    7fad3b794ed2 free_keys_object+0x92 (/usr/lib/l.so)\n"
    b"python   616 [000] 13766.221279:     250000 cpu-clock:pppH: \n"
    b"\tffffffff815e9e28 do_anonymous_page+0x298 ([kernel.kallsyms])\n\n"
    b"              ls  2452 [001] 13707.978867:       4567     page-faults:  "
    b"ffffffff821dc721 strnlen+0x21 ([kernel.kallsyms])\n"
    b"              ls  2452 [001] 13707.978868:          1 faults:p: (ffffffff813485a0) n=3\n"
)


def test_samples_of_a_script() -> None:
    first, second, stack, third, probe = parse(SAMPLES)
    said = [(one.group, one.name, one.fields, one.complete) for one in (first, second, third, probe)]  # type: ignore[union-attr]
    assert said == [
        ("", "cpu-clock:u", {"period": 250_000}, True),
        ("", "cpu-clock:pppH", {"period": 250_000}, True),
        ("", "page-faults", {"period": 4567}, True),
        ("faults", "p", {"period": 1, "n": 3}, True),
    ]
    places = [one.address and one.address.text for one in (first, second, third)]  # type: ignore[union-attr]
    assert places == ["free_keys_object+0x92 <7fad3b794ed2>", None, "strnlen+0x21 <ffffffff821dc721>"]
    assert isinstance(stack, StackTrace)
    assert [frame.symbol for frame in stack.frames] == ["do_anonymous_page"]


def test_an_argument_of_the_name_period() -> None:
    (event,) = parse(b"cat  300 [001]    10.000023:          9 probe:x: (ffffffff81234567) period=3\n")
    assert isinstance(event, Event)
    assert (event.fields, event.complete) == ({"period": 3}, False)


def test_a_frame_of_a_report() -> None:
    head = b"              sh-162   [001]     6.395490787: kernel_stack:         <stack trace >\n"
    frames = b"=> do_sys_openat2 (ffffffff813485a1)\n=> made_up+0x1f (ffffffffc0000010)\n=> odd (x)\n"
    stack = parse(b"cpus=2\n" + head + frames)[1]
    assert isinstance(stack, StackTrace)
    assert [(frame.symbol, frame.offset, frame.address, frame.text) for frame in stack.frames] == [
        ("do_sys_openat2", None, 0xFFFFFFFF813485A1, "do_sys_openat2 (ffffffff813485a1)"),
        ("made_up", 0x1F, 0xFFFFFFFFC0000010, "made_up+0x1f (ffffffffc0000010)"),
        ("", None, None, "odd (x)"),
    ]


@pytest.mark.parametrize("text", [REPORT, SCRIPT, SAMPLES], ids=["report", "script", "samples"])
def test_pieces_of_any_size(text: bytes) -> None:
    whole = parse(text)
    assert b"".join(record.raw for record in whole) == text
    for cut in range(len(text)):
        parser = Parser()
        assert [*parser.feed(text[:cut]), *parser.feed(text[cut:]), *parser.close()] == whole


def test_lines_of_2009() -> None:
    """Of the seeds: events without names, numbers in hexadecimal without 0x, columns without their blanks."""
    entry, leave, positional = parse(
        b"<...>-1447 [001] 1038282.286885: do_sys_open+0x0/0xd6: dfd=ffffff9c filename=40413c flags=8000 mode=1b6\n"
        b"<...>-1447 [001] 1038282.286878: sys_openat+0xc/0xe <- do_sys_open: rv=fffffffffffffffe ra=ffffffff81367a3a\n"
        b"           <...>-1447  [001] 1038282.286885: do_sys_open+0x0/0xd6: 0xffffff9c 0x40413c 0x8000 0x1b6\n"
    )
    assert isinstance(entry, Event)
    assert (entry.task, entry.pid, entry.cpu, entry.timestamp) == ("<...>", 1447, 1, 1_038_282_286_885_000)
    assert (entry.name, entry.address and entry.address.symbol, entry.caller) == ("", "do_sys_open", None)
    assert entry.fields == {"dfd": 0xFFFFFF9C, "filename": 0x40413C, "flags": 0x8000, "mode": 0x1B6}
    assert isinstance(leave, Event)
    assert (leave.address and leave.address.symbol, leave.caller and leave.caller.symbol) == (
        "do_sys_open",
        "sys_openat",
    )
    assert leave.fields == {"rv": 0xFFFFFFFFFFFFFFFE, "ra": 0xFFFFFFFF81367A3A}
    assert isinstance(positional, Event)
    assert positional.fields == {"arg1": 0xFFFFFF9C, "arg2": 0x40413C, "arg3": 0x8000, "arg4": 0x1B6}
    assert entry.complete
    assert leave.complete
    assert positional.complete
    assert entry.text == "do_sys_open+0x0/0xd6: dfd=ffffff9c filename=40413c flags=8000 mode=1b6"


def test_columns_without_their_blanks() -> None:
    (record,) = parse(b"kprobe-26386 [001] d... 6593278.858754: myopen: (SyS_open+0x1e/0x20 <- do_sys_open) arg1=0x3\n")
    assert isinstance(record, Event)
    assert (record.task, record.pid, record.flags, record.timestamp) == ("kprobe", 26386, "d...", 6_593_278_858_754_000)
    assert (record.name, record.fields) == ("myopen", {"arg1": 3})


def test_lines_of_others_are_records_and_no_part_of_a_string_with_an_end() -> None:
    """A line that is a record by itself ends the one before; within a string that has its end it is that string's."""
    head = b"            bash-42      [001] .....    11.791146: e: (do_sys_openat2+0x0/0x170)"
    for forged, read in (
        (b"evil-1 [000] 1.000000: e: (f) a=0x1", Event),
        (b" 0)               |  f();", Call),
        (SCRIPT.split(b"\n")[0], Event),
    ):
        records = parse(head + b" a=0x1\n" + forged + b"\n" + head + b' s="\n' + forged + b'\n" a=0x2\n')
        assert [type(record) for record in records] == [Event, read, Event]
        assert records[0].fields == {"a": 1}  # type: ignore[union-attr]
        assert records[2].fields == {"s": "\n" + forged.decode() + "\n", "a": 2}  # type: ignore[union-attr]


@pytest.mark.parametrize("header", [b"cpus=2\n", b""])
@pytest.mark.parametrize(
    ("line", "time", "clock"),
    [
        (b"       trace-cmd-121   [000]    32.328933: (+59)    ", 32328933000, "time"),
        (b"       trace-cmd-121   [000]    32.328933058: (+204864) ", 32328933058, "time"),
        (b"       trace-cmd-121   [000] 32328874031: ", 32328874031, "count"),
        (b"       trace-cmd-121   [000] 832328874031: ", 832328874031, "count"),
    ],
)
def test_other_times_of_trace_cmd(header: bytes, line: bytes, time: int, clock: str) -> None:
    """Options --ts-diff and --raw-ts of trace-cmd report."""
    text = line + b"myopen:               (ffffffff81807380) dfd=-100\n"
    event = parse(header + text)[-1]
    assert isinstance(event, Event)
    assert (event.task, event.name, event.timestamp, event.clock) == ("trace-cmd", "myopen", time, clock)
    assert (event.fields, event.raw) == ({"dfd": -100}, text)


def test_the_first_event_with_option_ts_diff() -> None:
    line = b"       trace-cmd-121   [000]    32.328874:          myopen:               (ffffffff81807380) dfd=-100\n"
    event = parse(b"cpus=2\n" + line)[-1]
    assert isinstance(event, Event)
    assert (event.name, event.timestamp, event.fields) == ("myopen", 32328874000, {"dfd": -100})


@pytest.mark.parametrize(
    ("head", "tgid"),
    [
        (b"qemu 23671/23678 22275.020343: ", 23671),
        (b"            qemu 23678 22275.020343:      ", None),
        (b"            qemu 23678 22275.020343:          7 ", None),
    ],
)
def test_perf_script_without_a_cpu(head: bytes, tgid: int | None) -> None:
    """As it is where no CPU was recorded: it is -1 then."""
    (event,) = parse(head + b"probe:e: (ffffffff813485a0) a=1\n")
    assert isinstance(event, Event)
    assert (event.task, event.pid, event.tgid, event.cpu, event.timestamp) == ("qemu", 23678, tgid, -1, 22275020343000)
    assert (event.group, event.name, event.fields["a"]) == ("probe", "e", 1)
