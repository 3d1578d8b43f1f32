"""The parser on text that no kernel was kind enough to print, and in pieces."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kprobe_text.text import (
    Bare,
    BufferStarted,
    Coded,
    Event,
    Header,
    Lost,
    Marker,
    Parser,
    Record,
    StackTrace,
    Unparsed,
    parse,
)

FORMAT = """name: ent
ID: 1
format:

print fmt: "(%lx) dfd=%d s=\\"%s\\" flags=0x%Lx", REC->__probe_ip, REC->dfd, __get_str(s), REC->flags
"""
FORMATS = {"ent": FORMAT}
HEAD = b"            bash-42      [001] .....    11.791146: "
ENT = HEAD + b"ent: (do_sys_openat2+0x0/0x170) dfd=-100 s="
RET = HEAD + b"ret: (__x64_sys_openat+0x6a/0xa0 <- do_sys_openat2) ret=3 raw=0x3\n"
STACK = HEAD + b"<stack trace>\n => do_sys_openat2\n => __x64_sys_openat\n"


def names(records: list[Record]) -> list[str]:
    return [type(record).__name__ for record in records]


def strings(records: list[Record]) -> list[object]:
    return [record.fields.get("s") for record in records if isinstance(record, Event)]


BOTH = pytest.mark.parametrize("formats", [None, FORMATS], ids=["look", "format"])


@BOTH
@pytest.mark.parametrize(
    "path",
    [
        b"/tmp/x", b"", b'q"uote', b"a\nb", b"\n", b"\n\n\n", b"# tracer: function_graph", b"a\n# tracer: nop\nb",
        b"a\nCPU:1 [LOST 5 EVENTS]\nb", b"a\n##### CPU 1 buffer started ####\nb", b"a\n => frame\nb",
        b"a\n1 0 19688605649 type: 1441\nb", b'x" y', b"x=1 y=2", b"\xff\xc3\xa4\x00\x01", b"a\r\nb",
        b"{1,2}", b"(fault)",
        b"a\n" + RET + b"b", b"a\n" + RET + RET + RET, b"a\n" + STACK + b"b", HEAD, RET.strip(),
    ],
)  # fmt: skip
def test_strange_paths(path: bytes, formats: dict[str, str] | None) -> None:
    """A string is what the program passed, whatever it looks like, and what follows is unharmed."""
    data = ENT + b'"' + path + b'" flags=0x8000\n' + RET
    records = parse(data, formats)
    assert names(records) == ["Event", "Event"]
    assert strings(records)[0] == path.decode("utf-8", "surrogateescape")
    assert isinstance(records[0], Event)
    assert (records[0].fields["dfd"], records[0].fields["flags"]) == (-100, 0x8000)
    assert records[1].raw == RET


@pytest.mark.parametrize(
    "path",
    [b'x" flags=0x0', b'x" flags=0x0 flags=0x1', b'x" flags=0x0\nmore', b'" dfd=5 s="', b'"', b'x" flags=(fault)'],
)
def test_a_path_that_imitates_arguments_needs_the_format(path: bytes) -> None:
    data = ENT + b'"' + path + b'" flags=0x8000\n' + RET
    records = parse(data, FORMATS)
    assert names(records) == ["Event", "Event"]
    assert strings(records)[0] == path.decode()


@BOTH
def test_a_string_without_an_end_does_not_swallow_the_rest(formats: dict[str, str] | None) -> None:
    data = ENT + b'"/tmp/x\n' + RET * 3
    records = parse(data, formats)
    assert names(records) == ["Event"] * 4
    assert [record.raw for record in records[1:]] == [RET] * 3


@BOTH
def test_after_some_of_these_they_are_not_waited_for(formats: dict[str, str] | None) -> None:
    parser = Parser(formats)
    cut = ENT + b'"/tmp/x\n'
    assert names(parser.feed((cut + RET * 300) * 3)) == ["Event"] * (3 * 301)
    assert [record.raw for record in parser.feed(cut + RET * 2)] == [cut, RET, RET]


def test_the_rest_of_a_complete_record_is_kept() -> None:
    data = ENT + b'"/tmp/x" flags=0x1\nodd\n' + RET
    (ret,) = parse(RET)
    assert isinstance(ret, Event)
    assert parse(data, FORMATS)[1:] == [Unparsed(b"odd\n"), ret._replace(forgeable=True)]


@pytest.mark.parametrize(
    ("head", "task"),
    [
        (b"     a: b: (c+0x-1       [001] .....    11.791146: ", "a: b: (c+0x"),
        (b"       a-1 [000]-194     [001] .....    12.033218: ", "a-1 [000]"),
        (b"    \n\n\n\n\n\n\n\n\n\n\n\n-194     [001] .....    12.033218: ", "\n" * 12),
        (b" ent: (f) s=\"x\" -194     [001] .....    12.033218: ", 'ent: (f) s="x" '),
        (b"  => frame\n => f-194     [001] .....    12.033218: ", "=> frame\n => f"),
        (b"        kworker/-1234567 [127] .....    12.033218: ", "kworker/"),
        (b"             cat-7       (-------) [001] .....    12.033218: ", "cat"),
        (b"             cat-7       [001] dNZff2222    12.033218: ", "cat"),
        (b"             cat-7       [001]    12.033218: ", "cat"),
        (b"             cat-7       [001] ..... 115363480762: ", "cat"),
        (b"             cat-7       [001] 115363480762: ", "cat"),
        (b"     cat-7         1..... 162899us!: ", "cat"),
        (b"     cat-7         1dNZff 162899us : ", "cat"),
        (b" a-1 [00-7        10.....    2: ", "a-1 [00"),
        (b"             cat       7   1 0 00000000 00000000 [01743065] 109.547ms (+0.622ms): ", "cat"),
        (b"             cat       7   1 0 00000000 00000000 [0000000001743065] 109 (+0): ", "cat"),
    ],
)  # fmt: skip
def test_contexts(head: bytes, task: str) -> None:
    line = head + b'ent: (f+0x0/0x1) s="x: ent: y"\n'
    records = parse(line * 2)
    assert names(records) == ["Event", "Event"]
    assert isinstance(records[0], Event)
    assert (records[0].task, records[0].fields["s"]) == (task, "x: ent: y")
    assert records[0].text == '(f+0x0/0x1) s="x: ent: y"'


@pytest.mark.parametrize(
    "line",
    [
        b"\n", b"[LINE TOO BIG]\n", b"CPU:1 [LOST 5 EVENTS", b" => frame\n", b"#\n#", b"# odd\n", b" 0)   |  f() {\n",
        HEAD, HEAD[:-1] + b"\n",
        b"x" * 100 + b"\n",
        HEAD.replace(b"42 ", b"x "), HEAD.replace(b"11.", b"11,"), HEAD.replace(b"[001]", b"[1]"),
    ],
)  # fmt: skip
def test_what_is_not_a_record(line: bytes) -> None:
    records = parse(RET + line)
    assert names(records[:1]) == ["Event"]
    assert b"".join(record.raw for record in records[1:]) == line
    assert {type(record) for record in records[1:]} == {Unparsed}


def test_numbers_that_no_kernel_prints_do_not_raise() -> None:
    for digits in (b"9" * 5000, b"9" * 25):
        line = HEAD + b"e: (f) a=%s b=-%s c={%s,%s} d=0x%s\n" % ((digits,) * 5)
        for text in (line, line.replace(b"42 ", digits), line.replace(b"001", digits), line.replace(b"11.", digits)):
            assert b"".join(record.raw for record in parse(text)) == text


def test_a_stack_ends_where_it_ends() -> None:
    records = parse(ENT + b'"x" flags=0x1\n' + STACK + b"CPU:1 [LOST 5 EVENTS]\n" + RET + STACK + b"odd\n")
    assert names(records) == ["Event", "StackTrace", "Lost", "Event", "StackTrace", "Unparsed"]


@pytest.mark.parametrize(("mark", "user"), [(b"<stack trace> ", False), (b"<user stack trace> ", True), (b"", False)])
def test_a_stack_on_one_line(mark: bytes, user: bool) -> None:
    (stack,) = parse(HEAD + mark + b"=> do_sys_open+0x1/0x20 => sys_open <ffffffff81234567>\n")
    assert isinstance(stack, StackTrace)
    assert (stack.user, [(frame.symbol, frame.address) for frame in stack.frames]) == (
        user, [("do_sys_open", None), ("sys_open", 0xFFFFFFFF81234567)],
    )  # fmt: skip


def test_a_stack_after_a_line_of_another_cpu() -> None:
    other = HEAD.replace(b"[001]", b"[000]").replace(b"bash-42", b"  sh-43")
    first, second, stack = parse(
        HEAD + b"e: (f+0x0/0x1)\n" + other + b"e: (g+0x0/0x1)\n" + HEAD + b"<stack trace>\n => f\n"
    )
    assert isinstance(first, Event)
    assert isinstance(second, Event)
    assert isinstance(stack, StackTrace)
    assert (first.task, first.cpu) == (stack.task, stack.cpu) == ("bash", 1)
    assert (second.task, second.cpu) == ("sh", 0)


def test_a_comm_that_begins_like_a_header_does_so_in_pieces_too() -> None:
    text = b"#\n#           ne-1501  [001] d...    76.472338: ret: (f+0x14/0x20) ret=-2 raw=\xff\n"
    parser = Parser()
    assert parser.feed(text[:2]) + parser.feed(text[2:]) + parser.close() == parse(text)


def test_headers_only_where_they_belong() -> None:
    header = b"# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"
    records = parse(header + RET + b"#\n" + header + RET)
    assert names(records) == ["Header"] * 3 + ["Event", "Unparsed"] + ["Header"] * 3 + ["Event"]


def test_a_forged_header_does_not_blind_the_parser() -> None:
    forged = b"# tracer: function_graph\n#\n# function_graph latency trace v1.1.5 on 6.1\n"
    assert names(parse(forged + RET + RET)) == ["Header"] * 3 + ["Event"] * 2


def test_layouts_may_change_in_a_pipe() -> None:
    latency = b"     cat-7         1..... 162899us!: ent: (f+0x0/0x1) a=1\n"
    records = parse(RET + latency + latency + RET)
    assert [record.clock for record in records if isinstance(record, Event)] == ["time", "elapsed", "elapsed", "time"]


# --- in pieces


def pieces(data: bytes, sizes: Iterator[int]) -> Iterator[bytes]:
    position = 0
    for size in sizes:
        if position >= len(data):
            return
        yield data[position : position + size]
        position += size
    yield data[position:]


LINES = st.sampled_from(
    [
        ENT + b'"/tmp/x" flags=0x1\n', ENT + b'"a\nb" flags=0x1\n', ENT + b'"a\n', b'" flags=0x2\n', RET, STACK,
        b"odd\n",
        b"\n",
        ENT + b'"a\n' + RET + b'b" flags=0x1\n', b"        new\nline-42      [001] .....    11.791146: ent: (f) a=1\n",
        HEAD + b"tracing_mark_write: two\nlines\n", b"CPU:1 [LOST 5 EVENTS]\n", b"# tracer: nop\n", b"#\n",
        b"##### CPU 1 buffer started ####\n", b"1 0 19688605649 type: 1441\n",
        b"00000001 00000001 00000004daa9627e type: 1443\n\n", b"ent: (f+0x0/0x1) a=1\n", b" => f\n",
        b"     cat-7         1..... 162899us!: ent: (f+0x0/0x1) a=1\n", ENT + b'"/tmp/x" flags=0x1',
        ENT + b'"' + b"L" * 3980 + b'"' + RET,
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(LINES, max_size=12).map(b"".join),
    st.lists(st.one_of(LINES, st.binary(max_size=40)), max_size=12).map(b"".join),
    st.binary(max_size=300),
)
SIZES = st.lists(st.integers(1, 200), min_size=1, max_size=60)


@given(TEXTS, st.booleans())
@example(b"\n", False)
@example(HEAD + b"<stack trace>\n => ", False)
def test_any_bytes_come_out_again(data: bytes, formats: bool) -> None:
    assert b"".join(record.raw for record in parse(data, FORMATS if formats else None)) == data


@given(TEXTS, SIZES, st.booleans())
def test_the_records_do_not_depend_on_the_pieces(data: bytes, sizes: list[int], formats: bool) -> None:
    known = FORMATS if formats else None
    parser = Parser(known)
    records = [record for piece in pieces(data, iter(sizes)) for record in parser.feed(piece)]
    assert records + parser.close() == parse(data, known)


@given(TEXTS, SIZES)
def test_live_pieces_lose_nothing_either(data: bytes, sizes: list[int]) -> None:
    parser = Parser(FORMATS, live=True)
    records = [record for piece in pieces(data, iter(sizes)) for record in parser.feed(piece)]
    assert b"".join(record.raw for record in records + parser.close()) == data


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_a_recorded_trace_in_pieces(recorded: Callable[[str, str], bytes], size: int) -> None:
    for name in ("02_comms.trace", "09_irq_stack.trace", "17_comm_newline.trace", "07_marker.trace"):
        data = recorded("6.1", name)
        parser = Parser()
        records = [record for i in range(0, len(data), size) for record in parser.feed(data[i : i + size])]
        whole = Parser()
        assert records + parser.close() == whole.feed(data) + whole.close()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (ENT + b'"/tmp/x" flags=0x1\n', Event),
        (ENT + b'"a\nb" flags=0x1\n', Event),
        (STACK, StackTrace),
        (HEAD + b"tracing_mark_write: two\nlines\n", Marker),
        (b"CPU:1 [LOST 5 EVENTS]\n", Lost),
        (b"##### CPU 1 buffer started ####\n", BufferStarted),
        (b"odd\n", Unparsed),
        (b"# tracer: nop\n", Header),
        (b"1 0 19688605649 type: 1441\n", Coded),
        (b"ent: (f+0x0/0x1) a=1\n", Bare),
    ],
)
def test_live_text_is_not_held_back(text: bytes, kind: type) -> None:
    parser = Parser(FORMATS, live=True)
    (record,) = parser.feed(text)
    assert type(record) is kind
    assert record.raw == text
    assert parser.close() == []


def test_a_live_record_is_held_back_until_it_is_whole() -> None:
    parser = Parser(FORMATS, live=True)
    assert parser.feed(ENT + b'"/tm') == []
    assert parser.feed(b"p/x\n") == []
    assert strings(parser.feed(b'y" flags=0x1\n')) == ["/tmp/x\ny"]


def test_the_last_record_waits_for_its_end() -> None:
    parser = Parser()
    string = ENT + b'"/tmp/x" flags=0x1\n'
    assert parser.feed(string) == []
    assert names(parser.feed(string)) == ["Event"]
    assert names(parser.close()) == ["Event"]
    assert parser.close() == []


@BOTH
def test_a_record_without_a_string_waits_for_nothing(formats: dict[str, str] | None) -> None:
    parser = Parser(formats)
    assert names(parser.feed(RET)) == ["Event"]
    assert [record.raw for record in parser.feed(b"odd\n" + RET)] == [b"odd\n", RET]


def test_a_last_line_without_newline_is_not_trusted() -> None:
    """It is a record, marked incomplete, and its last value is a guess: it may go on."""
    records = parse(RET + RET[:-1])
    (ret,) = parse(RET)
    assert isinstance(ret, Event)
    assert records[1] == ret._replace(raw=RET[:-1], complete=False, guessed={"raw"})
    cut = parse(RET + RET[:-4])[1]
    assert isinstance(cut, Event)
    assert (cut.fields, cut.complete, cut.raw) == ({"ret": 3}, False, RET[:-4])
    assert parse(RET + HEAD[:-2])[1] == Unparsed(HEAD[:-2])


LATENT = b"     cat-7         1..... 162899us!: "


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (HEAD + b"cpu_idle: state=1 cpu_id=2", "Event"),
        (LATENT + b"cpu_idle: state=1", "Event"),
        (
            b"             cat       7   1 0 00000000 00000000 [01743065] 109.547ms (+0.622ms): e: (f+0x0/0x1) a=1",
            "Event",
        ),
        (b"cat-79 [000] 5.000002: e: (f+0x0/0x1) a=1", "Event"),
        (b"cat 23671/23678 [000] 22275.020343: probe:e: (ffffffff813485a0) a=1", "Event"),
        (b"             cat-100   [000]    10.000000: e:                    (ffffffff813485a0) a=1", "Event"),
        (b"e: (f+0x0/0x1) a=1", "Bare"),
        (HEAD + b"<stack trace>\n => do_sys_openat2\n => __x64_sys_op", "StackTrace"),
        (HEAD + b"<stack trace>", "StackTrace"),
        (HEAD + b"vfs_read <-ksys_re", "Function"),
        (HEAD + b"tracing_mark_write: B|12|on", "Marker"),
        (HEAD + b"# 2a buf: 01 0", "Unparsed"),
        (HEAD + b"# 2a buf: 01 02", "RawMarker"),
        (HEAD + b"Unknown type 92", "Unnamed"),
        (b"tracing_mark_write: B|12|on", "BareMarker"),
        (b"<stack trace>\n => f", "BareStack"),
        (b"# tracer: function_graph\n 0)               |  vfs_read() {", "Call"),
        (b"# tracer: function_graph\n 0)               |  /* hello */", "Comment"),
        (b"1 0 19688605649 type: 144", "Coded"),
        (RET + b"CPU:1 [LOST 5 EVENTS]", "Lost"),
        (b"# tracer: no", "Header"),
    ],
)
def test_a_last_line_without_newline_in_any_layout(text: bytes, kind: str) -> None:
    last = parse(text)[-1]
    assert type(last).__name__ == kind
    assert b"".join(record.raw for record in parse(text)) == text
    if kind not in ("Lost", "Header", "Unparsed"):
        assert not getattr(last, "complete")  # noqa: B009 - some kinds have none
        (*_, whole) = parse(text + b"\n")
        assert getattr(whole, "complete")  # noqa: B009 - as above
    live = Parser(live=True)
    assert live.feed(text) + live.close() == parse(text)
    for cut in range(len(text)):
        parser = Parser()
        records = parser.feed(text[:cut]) + parser.feed(text[cut:])
        assert last not in records
        assert (records + parser.close())[-1] == last


@pytest.mark.parametrize("length", [8191, 8192, 8193, 9000, 100_000])
def test_a_line_longer_than_any_kernel_prints_is_a_line(length: int) -> None:
    """It ended with IndexError if a usual line stood before it and enough behind."""
    odd = b"x" * (length - 1) + b"\n"
    assert parse(RET + odd + RET)[1] == Unparsed(odd)
    head = b'             cat-2841    [000] .....    10.000102: ent: (do_sys_openat2+0x0/0xe0) s="'
    (event,) = parse(RET + head + odd[:-1] + b'"\n' + RET * 200)[1:2]
    assert isinstance(event, Event)
    assert event.fields == {"s": "x" * (length - 1)}


def test_text_without_newlines_is_passed_on() -> None:
    parser = Parser()
    records = [record for _ in range(40) for record in parser.feed(bytes(65536))]
    assert names(records) == ["Unparsed"] * 2
    assert sum(len(record.raw) for record in records + parser.close()) == 40 * 65536


def test_a_byte_order_mark_before_the_text_is_part_of_the_header() -> None:
    line = b'             cat-4711    [000] .....    10.000102: ent: (f+0x0/0x170) s="x"\n'
    title = b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 1/1   #P:1\n#\n"
    for head in (title, b""):
        plain, marked = parse(head + line), parse(b"\xef\xbb\xbf" + head + line)
        assert [record.raw for record in marked] == [b"\xef\xbb\xbf", *(record.raw for record in plain)]
        assert marked[-1] == plain[-1]
    # it is one only there
    line = line.replace(b's="x"', b"n=1")
    assert [type(record).__name__ for record in parse(line + b"\xef\xbb\xbf" + line)] == ["Event", "Unparsed"]
