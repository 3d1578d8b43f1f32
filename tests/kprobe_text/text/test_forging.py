"""Strings that imitate records: what is read of them is marked, unless something settles which records there are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kprobe_text.text import (
    Bare,
    BareRawMarker,
    BareStack,
    Call,
    Coded,
    Event,
    Header,
    Lost,
    Marker,
    Parser,
    Record,
    StackTrace,
    parse,
)

FORMAT = 'name: {}\nID: 1\nformat:\n\nprint fmt: "(%lx) {}", REC->__probe_ip\n'
FORMATS = {
    "open": FORMAT.format("open", r"dfd=%d s=\"%s\""),
    "sealed": FORMAT.format("sealed", r"s=\"%s\" n=%d seal=0x%Lx"),
    "close": FORMAT.format("close", r"fd=%d"),
    "task": FORMAT.format("task", r"comm=\"%s\""),
}
SEALED = r"p:kprobes/sealed f s=+0(%si):string n=%di:s32 seal=\0x5eed1e55:x64"
COUNTED = b"# tracer: nop\n#\n# entries-in-buffer/entries-written: %d/%d   #P:2\n#\n"


def line(body: bytes, micros: int = 1) -> bytes:
    return b"             cat-42      [001] .....    11.%06d: %s\n" % (micros, body)


def opened(name: bytes, micros: int = 1) -> bytes:
    return line(b'open: (f+0x0/0x1) dfd=-100 s="%s"' % name, micros)


CLOSED = line(b"close: (f+0x0/0x1) fd=3", 2)
# a name whose record is to the byte that of one without it, and a second one
FORGING = b'x"\n' + opened(b"y", 2).removesuffix(b'"\n')


def marks(records: list[Record]) -> list[bool]:
    return [getattr(record, "forgeable", False) for record in records if not isinstance(record, Header)]


def test_records_that_a_string_could_have_written_are_marked() -> None:
    assert opened(FORGING) == opened(b"x") + opened(b"y", 2)
    assert marks(parse(opened(FORGING), FORMATS)) == [True, True]
    assert marks(parse(opened(b"x", 1) + CLOSED, FORMATS)) == [True, True]
    assert marks(parse(CLOSED + opened(b"x", 2), FORMATS)) == [False, True]


def test_the_number_of_records_in_the_header_settles_it() -> None:
    text = opened(b"x") + opened(b"y", 2)
    assert marks(parse(COUNTED % (2, 2) + text, FORMATS)) == [False, False]
    assert marks(parse(COUNTED % (1, 1) + text, FORMATS)) == [True, True]
    assert marks(parse(COUNTED % (3, 9) + text, FORMATS)) == [True, True]
    latency = b"# latency: 0 us, #2/2, CPU#0 | (M:desktop VP:0, KP:0, SP:0 HP:0 #P:2)\n"
    assert marks(parse(b"# tracer: nop\n#\n" + latency + text, FORMATS)) == [False, False]


def test_a_header_within_a_string_settles_nothing() -> None:
    """A string can hold a header, too, with a number of its own, so that both are right."""
    forged = opened(b'x"\n' + COUNTED % (1, 1) + opened(b"y", 2).removesuffix(b'"\n'))
    text = COUNTED % (1, 1) + forged
    assert marks(parse(text, FORMATS)) == [True, True]


def test_what_the_kernel_lost_leaves_it_open() -> None:
    text = COUNTED % (2, 2) + opened(b'x"\nCPU:1 [LOST 3 EVENTS]\n' + opened(b"y", 2).removesuffix(b'"\n'))
    first, lost, second = (record for record in parse(text, FORMATS) if not isinstance(record, Header))
    assert isinstance(lost, Lost)
    assert marks([first, lost, second]) == [True, True, True]


def test_a_long_record_may_have_lost_its_newline_which_makes_room_for_a_forged_one() -> None:
    text = opened(b"a" * 4000) + opened(b"x", 2)
    assert marks(parse(COUNTED % (2, 2) + text, FORMATS)) == [True, True]


def test_records_out_of_a_string_s_reach() -> None:
    assert marks(parse(opened(b"x") + CLOSED * 300, FORMATS)) == [True] * 111 + [False] * 190
    assert marks(parse(line(b'task: (f+0x0/0x1) comm="cat"') + CLOSED, FORMATS)) == [True, True]
    by_definition = parse(line(b'task: (f+0x0/0x1) comm="cat"') + CLOSED, definitions=["p:task f comm=$comm"])
    assert marks(by_definition) == [False, False]


def test_a_number_that_only_the_reader_knows_settles_it() -> None:
    text = line(b'sealed: (f+0x0/0x1) s="x" n=1 seal=0x5eed1e55') + CLOSED
    assert marks(parse(text, FORMATS)) == [True, True]  # the format doesn't tell the number
    assert marks(parse(text, FORMATS, definitions=[SEALED])) == [False, False]
    assert marks(parse(text, definitions=[SEALED])) == [False, False]
    weak = SEALED.replace("0x5eed1e55", "0x5eed")
    assert marks(parse(text.replace(b"0x5eed1e55", b"0x5eed"), FORMATS, definitions=[weak])) == [True, True]
    others = SEALED.replace("0x5eed1e55", "0x5eed1e56")
    assert not parse(text, FORMATS, definitions=[others])[0].complete  # type: ignore[union-attr]


@given(st.lists(st.sampled_from([b"x", b'"', b"\n", b" n=5", b" seal=0x1", line(b"sealed: (f+0x0/0x1) ")]), max_size=9))
def test_with_it_format_and_definition_read_whatever_a_string_holds(parts: list[bytes]) -> None:
    name = b"".join(parts)
    hit = b'sealed: (f+0x0/0x1) s="%s" n=%d seal=0x5eed1e55'
    records = parse(line(hit % (name, 1)) + line(hit % (b"next", 2), 2), FORMATS, definitions=[SEALED])
    assert [(type(record), getattr(record, "fields", None)) for record in records] == [
        (Event, {"s": name.decode(), "n": 1, "seal": 0x5EED1E55}), (Event, {"s": "next", "n": 2, "seal": 0x5EED1E55}),
    ]  # fmt: skip
    assert marks(records) == [False, False]


def test_marks_hold_any_text() -> None:
    mark = line(b"tracing_mark_write: hello")
    assert marks(parse(mark + CLOSED, FORMATS)) == [True, True]
    assert [type(record) for record in parse(mark + CLOSED, FORMATS)] == [Marker, Event]
    assert marks(parse(COUNTED % (2, 2) + mark + CLOSED, FORMATS)) == [False, False]


def test_events_that_are_no_probes_have_the_room_that_their_format_tells() -> None:
    field = "\tfield:{} {}{};\toffset:8;\tsize:{};\tsigned:0;\n"
    form = 'name: e\nID: 1\nformat:\n{}\nprint fmt: "comm=%s", REC->comm\n'
    for said, is_open in (
        (field.format("char", "comm", "[16]", 16), False),
        (field.format("char", "comm", "[TASK_COMM_LEN]", 16), False),
        (field.format("char", "name", "[64]", 64), True),
        (field.format("__data_loc char[]", "name", "", 4), True),
    ):
        records = parse(line(b"e: comm=cat") + CLOSED, {**FORMATS, "e": form.format(said)})
        assert marks(records) == [is_open] * 2, said
    assert marks(parse(line(b"e: comm=cat") + CLOSED, FORMATS)) == [True, True]  # nothing is known of it


STACK = line(b"<stack trace>") + b" => g+0x1/0x2\n"
PARTS = st.sampled_from([
    b"x", b'"', b"\n", b'"\n', b" dfd=1", opened(b"y", 2), opened(b"y", 2)[:-2], CLOSED, STACK, COUNTED % (1, 1),
    line(b"tracing_mark_write: m"), b"CPU:1 [LOST 3 EVENTS]\n",
])  # fmt: skip


@given(st.lists(st.lists(PARTS, max_size=5).map(b"".join), min_size=1, max_size=4), st.booleans(), st.booleans())
@example([FORGING], False, True)
@example([FORGING, b"z"], True, False)
def test_nothing_forged_passes_unmarked(names: list[bytes], is_counted: bool, is_piecewise: bool) -> None:
    """Whatever strings hold, each record that isn't as the kernel made it says that it may be forged."""
    text = b"".join(opened(name, 10 * number) for number, name in enumerate(names))
    truth = [(10 * number, name.decode()) for number, name in enumerate(names)]
    if is_counted:
        text = COUNTED % (len(names), len(names)) + text
    records = parse(text, FORMATS)
    if is_piecewise:
        parser = Parser(FORMATS)
        records = [record for at in range(0, len(text), 50) for record in parser.feed(text[at : at + 50])]
        records += parser.close()
    for record in records:
        if isinstance(record, Event) and (record.timestamp // 1000 - 11_000_000, record.fields.get("s")) in truth:
            continue
        assert getattr(record, "forgeable", True), record  # headers and what isn't understood can't say so


def shown(path: Path | str, stdin: bytes | None = None) -> tuple[list[str], str]:
    schema = ["--schema", str(Path(path).parent / "kprobe_events")]
    done = subprocess.run(
        [sys.executable, "-m", "kprobe", "parse", *schema, *([] if stdin is not None else [str(path)])],
        input=stdin, capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.decode().splitlines(), done.stderr.decode()


def test_the_command_reads_a_file_twice_to_count(tmp_path: Path) -> None:
    (tmp_path / "kprobe_events").write_text("p:kprobes/open f dfd=%di:s32 s=+0(%si):string\n")
    trace = tmp_path / "trace"
    trace.write_bytes(COUNTED % (2, 2) + opened(b"x") + opened(b"y", 2))
    assert shown(trace) == (
        ['11.000001000 cat-42 [001] ..... open: (f+0x0/0x1) dfd=-100 s="x"',
         '11.000002000 cat-42 [001] ..... open: (f+0x0/0x1) dfd=-100 s="y"'], "",
    )  # fmt: skip
    trace.write_bytes(COUNTED % (1, 1) + opened(FORGING))
    assert shown(trace) == (
        ['11.000001000 cat-42 [001] ..... open: (f+0x0/0x1) dfd=-100 s="x" # forgeable',
         '11.000002000 cat-42 [001] ..... open: (f+0x0/0x1) dfd=-100 s="y" # forgeable'],
        "NOTE: 2 records that a string could have forged\n",
    )  # fmt: skip
    assert shown(trace, opened(b"x"))[1] == "NOTE: 1 record that a string could have forged\n"


@pytest.mark.parametrize("size", [1, 40, 4096])
def test_marks_do_not_depend_on_pieces(size: int) -> None:
    text = (opened(b"x") + CLOSED * 200) * 2
    parser = Parser(FORMATS)
    records = [record for at in range(0, len(text), size) for record in parser.feed(text[at : at + size])]
    assert records + parser.close() == parse(text, FORMATS)


TITLE = b"""# tracer: nop
#
# entries-in-buffer/entries-written: 2/2   #P:1
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
"""
TWO = {
    name: f'name: {name}\nID: 1\nformat:\n\nprint fmt: "(%lx) s=\\"%s\\" {last}=%d", REC->__probe_ip\n'
    for name, last in (("ent", "n"), ("other", "b"))
}


def hit(task: bytes, name: bytes, rest: bytes) -> bytes:
    return b"%16s-42      [000] .....    10.000102: %s: (do_sys_open+0x0/0x170) %s\n" % (task, name, rest)


VICTIM = hit(b"victim", b"other", b's="/etc/shadow" b=5')
MARK = b"            evil-42      [000] .....    10.000102: tracing_mark_write: hello\n"


@pytest.mark.parametrize(
    "evil",
    [
        hit(b"evil", b"ent", b's="x" n=1\n' + hit(b"root", b"other", b's="/forged" b=1') + b'z" n=-100'),
        hit(b"evil", b"ent", b's="x" n=1\n' + hit(b"root", b"other", b's="/forged') + b'z" n=-100'),
        MARK + hit(b"root", b"other", b's="/forged" b=1') + b"z\n",
        MARK + hit(b"root", b"other", b's="/forged'),
    ],
)
def test_a_forged_record_that_takes_in_a_real_one_isn_t_settled_by_their_number(evil: bytes) -> None:
    """The forged one and the one that it hid evened out: there were as many as the header says."""
    records = parse(TITLE + evil + VICTIM, TWO)
    events = [record for record in records if isinstance(record, Event)]
    assert [event.forgeable for event in events] == [True] * len(events)


def test_a_record_that_can_be_read_to_its_end_takes_in_no_other_after_text_of_neither() -> None:
    """Lines between two records took both into one string."""
    line = hit(b"cat", b"ent", b's="/etc/hostname" n=1')
    for between in (b"\n", b"$ cat trace\n"):
        for formats in (TWO, None):
            records = parse(line + between + line, formats)
            assert [record.raw for record in records] == [line, between, line]
            assert [record.fields for record in records if isinstance(record, Event)] == [
                {"s": "/etc/hostname", "n": 1}
            ] * 2  # fmt: skip


def test_a_first_mark_without_context_is_no_line_of_an_instance() -> None:
    """`trace-cmd report` has the name of an instance before the columns, and all that followed was read as its text."""
    mark = b"tracing_mark_write: " + hit(b"cat", b"ent", b's="x" n=1')
    event = b'ent: (do_sys_open+0x0/0x170) s="x" n=1\n'
    assert [type(record).__name__ for record in parse(mark + event + event, TWO)] == ["BareMarker", "Bare", "Bare"]


ONE = r"p:kprobes/open f s=+0(%si):string seal=\0x5eed1e55:x64"
ONE_FORMAT = {"open": FORMAT.format("open", r"s=\"%s\" seal=0x%Lx")}
DEDENTED = b"            cat-42      [000] .....    10.000102: open: (f+0x0/0x1) "


@pytest.mark.parametrize("title", [b"", COUNTED % (1, 1)])
@pytest.mark.parametrize("formats", [None, ONE_FORMAT])
def test_a_seal_settles_nothing_of_a_record_that_broke_off_before_it(
    title: bytes, formats: dict[str, str] | None
) -> None:
    """The string's quote and 15 bytes of it were taken for the name of a task, and the record for one broken off."""
    evil = b'{"" n=5 t="evil-7777 [000] 0.000123: x: (0) s="\n            evil-777  [000] 0.000123: '
    records = parse(title + DEDENTED + b's="%s" seal=0x5eed1e55\n' % evil, formats, definitions=[ONE])
    events = [record for record in records if isinstance(record, Event)]
    assert [(event.pid, event.forgeable) for event in events] == [(42, True), (7777, True)]


def test_strings_of_option_fields_have_no_quotes_that_end_them() -> None:
    """A seal in the definition made what follows them certain, also where the record hasn't got it."""
    head = b"             cat-42      [000] .....    10.000102: open: __probe_ip=0xffffffff81434a14 (-2126296556) "
    evil = b"/x\n            root-1       [000] .....    10.000500: su: (f+0x0/0x1) uid=0\n"
    end = b" seal=0x5eed1e55 (1592598101)\n"
    for formats in (None, ONE_FORMAT):
        records = parse(head + b"s=" + evil + end + CLOSED, formats, definitions=[ONE])
        forged = [record for record in records if isinstance(record, Event)]
        assert [(event.name, event.forgeable) for event in forged] == [("open", True), ("su", True), ("close", True)]
        records = parse(head + b"s=/etc/hostname" + end + CLOSED, {**(formats or {}), **CLOSE}, definitions=[ONE])
        assert marks(records) == [False, False]


CLOSE = {"close": FORMATS["close"]}


def test_a_mark_of_option_raw_can_hold_records_of_it() -> None:
    forged = b"7777 0 10000123000 type: 5\n"
    first, _, *others = parse(b"42 0 1000 type: 1554\n42 0 2000 # ffffffff8121cdea hello\n" + forged)
    assert isinstance(first, Coded)
    assert [(type(one), one.forgeable) for one in others] == [(Coded, True)]  # type: ignore[union-attr]
    assert not first.forgeable
    assert marks(parse(b"type: 1554\n# ffffffff8121cdea \ntype: 1555\n")) == [False, False, True]
    hexadecimal = b"0000002a 00000000 00000002540d7270 type: 5\n\n" * 2
    assert marks(parse(hexadecimal)) == [False, False]  # which shows no text of a mark


def test_a_task_s_name_is_long_enough_for_a_record_without_columns() -> None:
    """Its 15 bytes have no room for one with them, which was taken for granted."""
    text = b'task: (f+0x0/0x1) comm="x"\nsu: (f) a="" n=1\n'
    records = parse(text + text, {"task": FORMAT.format("task", r"comm=\"%s\"")}, definitions=["p:task f comm=$comm"])
    assert [type(record) for record in records[:2]] == [Bare, Bare]
    assert marks(records) == [True] * 4


TWICE = FORMAT.format("twice", r"s=\"%s\" n=%d t=\"%s\" seal=0x%Lx")


def test_the_seal_of_the_next_record_is_not_that_of_one_without_a_newline() -> None:
    """A string for which there is no room is left out, and all that follows it; the next record is on that line."""
    definition = r"p:twice f s=+0(%si):string n=%di:s32 t=+0(%dx):string seal=\0x5eed1e55:x64"
    broken = line(b'twice: (f+0x0/0x1) s="x" n=5 t="" n=1 t=')[:-1]
    whole = line(b'twice: (f+0x0/0x1) s="y" n=2 t="z" seal=0x5eed1e55', 2)
    for formats in (None, {"twice": TWICE}):
        assert marks(parse(broken + whole, formats, definitions=[definition])) == [True]
        assert marks(parse(whole + whole, formats, definitions=[definition])) == [False, False]


@pytest.mark.parametrize(
    "lost",
    [
        # the kernel broke the first off, and the second is read as a part of it
        line(b'twice: (f+0x0/0x1) s="x" n=5 t="" n=1 t=')[:-1],
        # a mark ends at a NUL, and its newline is lost with what stood behind that
        line(b"tracing_mark_write: ") + line(b"open: (f+0x0/0x1) dfd=3 s={'a','")[:-1],
    ],
)
def test_a_count_does_not_settle_what_may_hold_the_next_record_on_its_line(lost: bytes) -> None:
    text = lost + opened(b"y", 2) + opened(FORGING, 3)
    entries = len(parse(text, FORMATS))
    assert marks(parse(COUNTED % (entries, entries) + text, FORMATS)) == [True] * entries


def test_a_task_whose_name_looks_like_a_frame_is_no_part_of_the_stack() -> None:
    """Its record was, so that what its string held were records."""
    named = b" => entry_SYSCAL-42      [001] .....    11.000002: "
    evil = b'x"\n' + CLOSED
    sealed = named + b's: (f+0x0/0x1) s="%s" seal=0x5eed1e55\n' % evil
    records = parse(STACK + sealed, definitions=[r"p:s f s=+0(%si):string seal=\0x5eed1e55:x64"])
    assert [type(record) for record in records] == [StackTrace, Event]
    assert records[1].raw == sealed


def test_what_a_mark_in_a_function_graph_begins_with_loses_nothing() -> None:
    """A mark that begins like a stack ended what was read of a text: all the rest of it was lost."""
    text = b" 0)               |  /* <stack trace>\n 0)               |  f() {\n 0)   3.000 us    |  }\n"
    records = parse(b"# tracer: function_graph\n" + text)
    assert b"".join(record.raw for record in records[1:]) == text


COLUMNS = b"-42      (     42) [000]          1000: close: (f+0x0/0x1) fd=3\n"


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        (b"# 1 buf: 00\n/a.", [BareRawMarker]),
        (b"# 1 buf: 66\r\nx", [BareRawMarker]),
        (b"evil: (0) b=1\n", [Bare]),
        (b"a: (0)\nb: (0)\nx", [Bare, Bare]),
        (b"sys_evil()\nx", [Bare]),
        (b"sys_e -> 0x66\nx", [Bare]),
        (b"type: 66\nevil", [Coded]),
        (b"1 0 1 type: 66\n", [Coded]),
        (b"<stack trace>\nx", [BareStack]),
    ],
)
def test_a_task_s_name_is_long_enough_for_what_needs_no_columns(name: bytes, kinds: list[type[Record]]) -> None:
    """Where people removed the blanks before the columns, its first line was a record, and certain."""
    for text in ((name + COLUMNS) * 2, name + b" 42 [000] 11.000001: close: (f+0x0/0x1) fd=3\n"):
        records = parse(text, FORMATS)
        assert [(type(record), getattr(record, "forgeable", None)) for record in records[: len(kinds)]] == [
            (kind, True) for kind in kinds
        ]
        for size in (1, 40):
            parser = Parser(FORMATS)
            pieces = [record for at in range(0, len(text), size) for record in parser.feed(text[at : at + size])]
            assert pieces + parser.close() == records


def test_what_needs_no_columns_is_certain_where_it_can_be_no_name() -> None:
    """Option context-info may be set while somebody reads trace_pipe: then names are padded."""
    raw_mark = b"# 1 buf: 00\n"
    for text in (raw_mark * 3, raw_mark + CLOSED, b"type: 5\n" * 3):
        assert marks(parse(text, FORMATS)) == [False] * text.count(b"\n")


def test_a_task_called_number_sign_is_no_header() -> None:
    """Its record in latency-format was one, so that a line of its string told of lost events."""
    head = b"# tracer-42        0.....  101us : "
    (record,) = parse(head + b'open: (f+0x0/0x1) s="\nCPU:1 [LOST 3 EVENTS]\n" seal=0x5eed1e55\n', definitions=[ONE])
    assert isinstance(record, Event)
    assert (record.task, record.fields) == ("# tracer", {"s": "\nCPU:1 [LOST 3 EVENTS]\n", "seal": 0x5EED1E55})
    (call,) = parse(b"# 1524.488 us |  vfs_open();\n")
    assert isinstance(call, Call)
    assert (call.function, call.duration) == ("vfs_open", 1_524_488)


def test_a_task_s_name_that_is_a_header_s_line_is_no_quoted_one() -> None:
    """The blanks before it were taken for a quotation's, and taken off the lines of strings."""
    line = b'  # tracer: x\nab-42      [000] ....    10.000102: open: (f+0x0/0x1) s="\n    y" seal=0x5eed1e55\n'
    (record,) = parse(line, definitions=[ONE])
    assert isinstance(record, Event)
    assert (record.task, record.fields["s"], record.forgeable) == ("# tracer: x\nab", "\n    y", False)


@pytest.fixture(scope="module")
def forging(loaded: Callable[[Path], ModuleType]) -> ModuleType:
    return loaded(Path(__file__).parents[3] / "tools" / "forging.py")


@pytest.mark.parametrize("start", range(0, 40, 8))
def test_nothing_forged_is_certain_on_any_kernel_with_any_option(forging: ModuleType, start: int) -> None:
    """A share of what `make forging` makes."""
    counts, found = forging.run(32, range(start, start + 8))
    assert found == []
    assert counts["texts"] == 8
    assert counts["certain"] > 0
    assert counts["forgeable"] > 0


def test_function_graph_shows_a_counter_as_nanoseconds(forging: ModuleType) -> None:
    """6.12 prints 0.000000 for each of its first 999 records: each was a finding."""
    truth = [{"type": "event", "timestamp": 6}, {"type": "event", "timestamp": 12_345}, {"type": "unparsed"}]
    for options, times in ((("function_graph",), [0, 12_000]), ((), [6, 12_345])):
        rendering = SimpleNamespace(truth=truth)
        case = forging.Case(b"", "", "6.12", options, "counter", rendering, False, False)
        assert [one["timestamp"] for one in forging.shown(case)[:2]] == times
