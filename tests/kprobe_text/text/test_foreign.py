"""Lines of others among records: none is taken for a part of a record, and no record for a part of another."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kprobe_text.text import Call, Event, Function, Header, Marker, Parser, Record, StackTrace, Unparsed, parse

FIELD = "\tfield:{};\toffset:8;\tsize:4;\tsigned:0;\n"
IDLE = "name: cpu_idle\nID: 1\nformat:\n{}{}\nprint fmt: {}\n".format(
    FIELD.format("u32 state"), FIELD.format("u32 cpu_id"), '"state=%lu cpu_id=%lu", REC->state, REC->cpu_id'
)
WAKING = "name: waking\nID: 2\nformat:\n{}{}\nprint fmt: {}\n".format(
    FIELD.format("char comm[16]"), FIELD.format("pid_t pid"), '"comm=%s pid=%d", REC->comm, REC->pid'
)
RENAME = "name: rename\nID: 3\nformat:\n{}{}\nprint fmt: {}\n".format(
    FIELD.format("pid_t pid"), FIELD.format("char comm[16]"), '"pid=%d comm=%s", REC->pid, REC->comm'
)
FORMATS = {"cpu_idle": IDLE, "waking": WAKING, "rename": RENAME}

WIDE = b"          <idle>-0       [006] d..1.     5.%06d: "
NARROW = b"          <idle>-0     [006] d..1     5.%06d: "
FOREIGN = [
    b"^C\n", b"root@host:/# \n", b"user@host:~$ cat trace\n", b"--\n", b"[...]\n", b"...\n", b"\n", b"\r\n",
    b"  </script>\n", b"</body>\n", b"<!-- END TRACE -->\n", b"# cat /sys/kernel/tracing/trace\n",
    b"cat: trace_pipe: Interrupted\n", b"Terminated\n", b"\x1b[0m\n", b"```\n",
]  # fmt: skip


def said(record: Record) -> object:
    """Return the number that each record of these tests has for a time, and what it says."""
    if isinstance(record, Event):
        return record.timestamp // 1000 % 1000, record.name, dict(record.fields)
    if isinstance(record, Function):
        return record.timestamp // 1000 % 1000, record.function.text, record.parent.text
    if isinstance(record, StackTrace) and record.frames:  # of perf script an empty line is a stack of none
        return record.timestamp // 1000 % 1000, [frame.text for frame in record.frames]
    if isinstance(record, Call):
        return record.kind, record.function, record.duration
    return None


def idle(number: int) -> object:
    return number, "cpu_idle", {"state": 2, "cpu_id": 6}


@pytest.mark.parametrize("formats", [None, FORMATS], ids=["", "schema"])
@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("count", [1, 3])
def test_a_static_event_takes_nothing_in(foreign: bytes, formats: dict[str, str] | None, count: int) -> None:
    """`cpu_id` was "6\\n^C", complete, also where the event's format said that it is a number."""
    body = b"cpu_idle: state=2 cpu_id=6\n"
    records = parse(NARROW % 1 + body + NARROW % 2 + body + foreign * count + NARROW % 3 + body, formats)
    events = [record for record in records if isinstance(record, Event)]
    assert [said(event) for event in events] == [idle(1), idle(2), idle(3)]
    assert all(event.complete for event in events)
    assert [record.raw for record in records if not isinstance(record, Event)] == [foreign] * count


@pytest.mark.parametrize("formats", [None, FORMATS], ids=["", "schema"])
@pytest.mark.parametrize(
    ("line", "read"),
    [
        (b"cat-79  [000] d..3.     5.000002: cpu_idle: state=2 cpu_id=6\n", idle(2)),
        (b"  cat-79 (   79) [000] d..3 5.000002: cpu_idle: state=2 cpu_id=6\n", idle(2)),
        (b"     cat-79         1d..3.   2us : cpu_idle: state=2 cpu_id=6\n", idle(2)),
        (b"perf 1/2 [000] 5.000002: power:cpu_idle: state=2 cpu_id=6\n", idle(2)),
        (b" 0)   0.123 us    |  f();\n", ("leaf", "f", 123)),
        (b" 1)               |  f() {\n", ("entry", "f", None)),
    ],
)  # fmt: skip
def test_a_record_in_another_layout_ends_the_one_before(
    line: bytes, read: object, formats: dict[str, str] | None
) -> None:
    """A line whose columns were squeezed was part of the value before it."""
    body = b"cpu_idle: state=2 cpu_id=6\n"
    records = parse(NARROW % 1 + body + line + NARROW % 3 + body, formats)
    assert [said(record) for record in records] == [idle(1), read, idle(3)]


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize(
    ("line", "read"),
    [
        (b"vfs_read <-ksys_read\n", (1, "vfs_read", "ksys_read")),
        (b"<stack trace>\n => f\n => g\n", (1, ["f", "g"])),
        (b"p: (f+0x0/0x1) a=1\n", (1, "p", {"a": 1})),
        (b"p: (f+0x0/0x1) a=1 b=zz\n", (1, "p", {"a": 1, "b": "zz"})),
        (b'p: (f+0x0/0x1) s="x" a=1\n', (1, "p", {"s": "x", "a": 1})),
        (b'p: (f+0x0/0x1) s="x"\n', (1, "p", {"s": "x"})),
        (b"f+0x0/0x1: dfd=3\n", (1, "", {"dfd": 3})),
        (b"sys_exit: NR 1 = 5\n", (1, "sys_exit", {"id": 1, "ret": 5})),
        (b"sys_read -> 0x3\n", (1, "sys_exit_read", {"ret": 3})),
        (b"sys_open(a: 1, b: 2)\n", (1, "sys_enter_open", {"a": 1, "b": 2})),
        (b"sched_switch: a=x ==> b=swapper/0\n", (1, "sched_switch", {"a": "x", "b": "swapper/0"})),
        (b"irq_handler_entry: irq=1 name=i8042\n", (1, "irq_handler_entry", {"irq": 1, "name": "i8042"})),
    ],
)  # fmt: skip
def test_a_record_that_is_whole_isnt_lost_with_what_follows(line: bytes, read: object, foreign: bytes) -> None:
    """Of tracer function each line before one that is no record was thrown away with it."""
    for text in (WIDE % 1 + line + foreign, WIDE % 1 + line + foreign + WIDE % 2 + b"vfs_read <-ksys_read\n"):
        first, other, *_ = parse(text)
        assert said(first) == read
        assert other.raw == foreign


def test_a_line_of_function_graph_isnt_lost_with_what_follows() -> None:
    line = b" 1)   0.520 us    |        put_page();\n"
    for foreign in FOREIGN:
        records = parse(line + foreign + line)
        assert [said(record) for record in records if isinstance(record, Call)] == [("leaf", "put_page", 520)] * 2
        assert len(records) == 3


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"waking: comm=a\nb pid=7\n", {"comm": "a\nb", "pid": 7}),
        (b"waking: comm=\n\n pid=7\n", {"comm": "\n\n", "pid": 7}),
        (b"waking: comm=1\n2 pid=7\n", {"comm": "1\n2", "pid": 7}),
        (b"rename: pid=7 comm=a\nb\n", {"pid": 7, "comm": "a\nb"}),
        (b"rename: pid=7 comm=1\n^C\n", {"pid": 7, "comm": "1\n^C"}),
        (b"waking: comm=a\nx=1 pid=7\n", {"comm": "a\nx=1", "pid": 7}),
    ],
)
def test_a_string_that_the_format_names_holds_a_newline(body: bytes, fields: dict[str, object]) -> None:
    event, following = parse(WIDE % 1 + body + WIDE % 2 + b"cpu_idle: state=2 cpu_id=6\n", FORMATS)
    assert isinstance(event, Event)
    assert event.fields == fields
    assert event.guessed == frozenset(fields)
    assert said(following) == idle(2)


def test_a_name_with_a_newline_whose_event_goes_on_behind_it() -> None:
    """Without a format: what follows has an argument more."""
    body = b"sched_switch: prev_comm=a\nb prev_pid=7 ==> next_comm=c\nd e next_pid=8\n"
    event, _ = parse(WIDE % 1 + body + WIDE % 2 + body[:29] + b"\n")[:2]
    assert isinstance(event, Event)
    assert event.fields == {"prev_comm": "a\nb", "prev_pid": 7, "next_comm": "c\nd e", "next_pid": 8}
    assert event.guessed == frozenset(event.fields)


def test_a_string_that_could_have_ended_sooner_is_a_guess() -> None:
    """The first line could be all of it, and what follows it another's; also with the event's definition."""
    text = WIDE % 1 + b'p: (f+0x0/0x1) s="x"\nsay "hi"\n' + WIDE % 2 + b"q: (f)\n"
    for definitions in ([], ["p:p f s=+0(%si):string"]):
        (event, _) = parse(text, definitions=definitions)
        assert isinstance(event, Event)
        assert event.fields == {"s": 'x"\nsay "hi'}
        assert event.guessed == {"s"}


def test_a_mark_ends_with_its_page() -> None:
    mark = NARROW % 1 + b"tracing_mark_write: B|1|two\nlines\n"
    first, second, *rest = parse(mark + NARROW % 2 + b"tracing_mark_write: E\n  </script>\n</body>\n")
    assert isinstance(first, Marker)
    assert isinstance(second, Marker)
    assert (first.text, second.text) == ("B|1|two\nlines", "E")
    assert [record.raw for record in rest] == [b"  </script>\n", b"</body>\n"]


PAGE = rb"""<!DOCTYPE html>
<html>
<script>
  var events = (x, y) => { return { state: (1), "a": b }; };
</script>
<body>
  <script class="trace-data" type="application/text">
# tracer: nop
#
# entries-in-buffer/entries-written: 5/5   #P:2
#
#                                      _-----=> irqs-off
#           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION
#              | |        |      |   ||||       |         |
app-14446 (-----) [000] ...2  1212.000001: sched_switch: prev_comm=app prev_pid=14446 ==> next_comm=swapper/0 next_pid=0
          <idle>-0     (-----) [000] d..4  1212.000002: cpu_idle: state=4294967295 cpu_id=0
     ksoftirqd/0-3     (    3) [000] d..3  1212.000003: cpu_idle: state=2 cpu_id=0
Binder_1-340  (  124) [001] ...1  1212.000004: tracing_mark_write: C|124|VSYNC|1
            surfa-124  (  124) [001] ...1  1212.000005: cpu_idle: state=3 cpu_id=1

  </script>
</body>
</html>
"""


@pytest.mark.parametrize("has_tgid", [True, False])
def test_a_page_of_systrace_whose_columns_lost_blanks(has_tgid: bool) -> None:
    """Half of such a page's records were parts of others: columns lose blanks where threads are given their names."""
    text = PAGE
    if not has_tgid:
        for tgid in (b"(-----) ", b" (  124)", b"(    3) "):
            text = text.replace(tgid, b"")
    records = [record for record in parse(text) if not isinstance(record, (Header, Unparsed))]
    assert [said(record) for record in records if isinstance(record, Event)] == [
        (1, "sched_switch", {"prev_comm": "app", "prev_pid": 14446, "next_comm": "swapper/0", "next_pid": 0}),
        (2, "cpu_idle", {"state": 4294967295, "cpu_id": 0}),
        (3, "cpu_idle", {"state": 2, "cpu_id": 0}),
        (5, "cpu_idle", {"state": 3, "cpu_id": 1}),
    ]
    assert [record.text for record in records if isinstance(record, Marker)] == ["C|124|VSYNC|1"]


def test_a_page_that_has_the_text_in_a_script() -> None:
    """As systrace of 2013 wrote it: each line ends with what the script needs; marks had no name."""
    lines = [
        b"# tracer: nop", b"#", b"   surfaceflinge-124   [000]    11.000001: cpu_idle: state=2 cpu_id=6",
        b"    hwc_eventmon-336   [000]    11.000002: 0: C|124|VSYNC|1",
        b"    hwc_eventmon-336   [000]    11.000003: cpu_idle: state=3 cpu_id=0",
    ]  # fmt: skip
    text = (
        b'<script>\n  var linuxPerfData = "\\\n'
        + b"".join(line + b"\\n\\\n" for line in lines)
        + b'  \\n";\n  </script>\n'
    )
    records = parse(text)
    assert b"".join(record.raw for record in records) == text
    events = [record for record in records if isinstance(record, Event)]
    assert [event.fields for event in events] == [{"state": 2, "cpu_id": 6}, {"state": 3, "cpu_id": 0}]
    assert [record.text for record in records if isinstance(record, Marker)] == ["C|124|VSYNC|1"]


def numbered(number: int, kind: int) -> tuple[bytes, object]:
    """Make a record of one of the layouts, and say what it says."""
    fields = {"state": number, "cpu_id": 6}
    static = b"cpu_idle: state=%d cpu_id=6\n" % number
    event = number, "cpu_idle", fields
    probe = number, "p", {"a": number, "s": "x y"}
    heads = [
        WIDE % number,
        NARROW % number,
        b"kworker/0:1-79  [000] d..3.     5.%06d: " % number,
        b" cat-79 (   79) [000] d..3 5.%06d: " % number,
        b"cat 79/80 [000]     5.%06d: power:" % number,
        b"             cat-79    (     79) [001]     5.%06d: " % number,
    ]
    if kind < len(heads):
        return heads[kind] + static, event
    if kind < 2 * len(heads):
        return heads[kind - len(heads)] + b'p: (f+0x0/0x1) a=%d s="x y"\n' % number, probe
    return [
        (WIDE % number + b"vfs_read <-ksys_read\n", (number, "vfs_read", "ksys_read")),
        (WIDE % number + b"<stack trace>\n => f\n => g\n", (number, ["f", "g"])),
        (b" 0)   0.%03d us    |  f();\n" % number, ("leaf", "f", number)),
        (WIDE % number + b"waking: comm=cat pid=%d\n" % number, (number, "waking", {"comm": "cat", "pid": number})),
    ][kind - 2 * len(heads)]


PIECES = st.lists(st.one_of(st.integers(0, 15), st.sampled_from(FOREIGN)), min_size=1, max_size=12)


@given(PIECES, st.booleans(), st.sampled_from([1, 7, 1 << 20]))
@example([0, 2, b"^C\n", 12, b"\n", 14, b"--\n"], False, 1 << 20)
def test_each_record_is_found_with_its_own_values(pieces: list[int | bytes], known: bool, size: int) -> None:
    """Whatever stands between records of whichever layouts, and however the text comes."""
    made = [piece if isinstance(piece, bytes) else numbered(number, piece) for number, piece in enumerate(pieces, 1)]
    text = b"".join(one if isinstance(one, bytes) else one[0] for one in made)
    parser = Parser(FORMATS if known else None)
    records = [record for at in range(0, len(text), size) for record in parser.feed(text[at : at + size])]
    records += parser.close()
    assert b"".join(record.raw for record in records) == text
    assert [said(record) for record in records if said(record) is not None] == [
        one[1] for one in made if not isinstance(one, bytes)
    ]


@pytest.mark.parametrize(
    "foreign", [b"^C\n", b"$\n", b"root@host:~# ls -l\n", b"--\n", b"[...]\n", b"```\n", b"</pre>\n"]
)
def test_a_mark_ends_before_a_line_that_is_clearly_anothers(foreign: bytes) -> None:
    """A mark can hold any line, so one that others follow is a guess; a page's whole rest was its last mark's."""
    mark = NARROW % 1 + b"tracing_mark_write: hello\n"
    first, *rest = parse(b"# tracer: nop\n# entries-in-buffer/entries-written: 1/1\n" + mark + foreign + b"text\n")[2:]
    assert isinstance(first, Marker)
    assert (first.text, first.guessed) == ("hello", {"text"})
    assert [record.raw for record in rest] == [foreign, b"text\n"]


def test_a_mark_of_several_lines_is_a_guess() -> None:
    text = NARROW % 1 + b"tracing_mark_write: two\nlines\n" + NARROW % 2 + b"tracing_mark_write: one\n"
    two, one = parse(text)
    assert isinstance(two, Marker)
    assert isinstance(one, Marker)
    assert (two.text, two.guessed, one.text, one.guessed) == ("two\nlines", {"text"}, "one", frozenset())
