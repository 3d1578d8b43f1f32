"""Events say whether they are complete and what of them is a guess; nothing of their text is dropped."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kprobe_text.text import FAULT, Bare, CodeAddress, Event, Function, Marker, Record, StackTrace, parse

Recorded = Callable[[str, str], bytes]
Formats = Callable[[str, str], dict[str, str]]

# of 5.10 and later, and of 3.13 to 4.19: the pid's column is 7 and 5 wide
HEAD = b"            bash-42      [001] .....    11.791146: e: (do_sys_openat2+0x0/0x170)"
OLD = b"            bash-42    [001] ....    11.791146: e: (do_sys_open+0x0/0x190)"
FORMAT = """name: e
ID: 1
format:

print fmt: "(%lx){}", REC->__probe_ip
"""


def formats(*specs: str) -> dict[str, str]:
    """Give the format file of event ``e`` with these arguments."""
    return {"e": FORMAT.format("".join(f" {spec}" for spec in specs))}


def event(body: bytes, known: dict[str, str] | None = None, head: bytes = HEAD) -> Event:
    (record,) = parse(head + body + b"\n", known)
    assert isinstance(record, Event)
    return record


def said(body: bytes, known: dict[str, str] | None = None, head: bytes = HEAD) -> tuple[dict[str, Any], bool, set[str]]:
    """Give the fields, whether they are complete, and which are guesses."""
    record = event(body, known, head)
    return dict(record.fields), record.complete, set(record.guessed)


# --- an argument that can't be decoded


@pytest.mark.parametrize("bad", ["{1,2", "'", "'ab'", '"x', "{'a'b}", "{", "1 {", "???", "(null)", "1 2"])
def test_one_that_cannot_be_decoded_leaves_the_others(bad: str) -> None:
    body = f" a=1 b={bad} c=0x3 d=(fault)".encode()
    fields, complete, guessed = said(body)
    assert fields == {"a": 1, "b": bad, "c": 3, "d": FAULT}
    assert not complete
    assert "b" in guessed
    assert "a" not in guessed


@pytest.mark.parametrize(
    ("spec", "bad"),
    [
        ("%d", "0x1"), ("%d", "x"), ("%d", "1 2"), ("0x%Lx", "12"), ("0x%Lx", "0xg"), ("%u", '"1"'), ("%pS", "???"),
        ("%pS", "some words"), ("{%u,%u}", "{1}"), ("{%u,%u}", "{1,2,3}"), ("{%u,%u}", "{1,2"),
        (r"{\"%s\",\"%s\"}", '{"a"}'), (r"{\"%s\",\"%s\"}", '{"a",b}'), (r"\"%s\"", "x"), (r"\"%s\"", '"x'),
        ("'%c'", "'ab'"), ("'%c'", "(fault)"),
    ],
)  # fmt: skip
def test_one_that_cannot_be_decoded_by_the_format(spec: str, bad: str) -> None:
    known = formats("a=%d", f"b={spec}", "c=0x%Lx", r"d=\"%s\"")
    assert said(f' a=-1 b={bad} c=0x3 d="x"'.encode(), known) == (
        {"a": -1, "b": bad, "c": 3, "d": "x"}, False, {"b", "c", "d"},
    )  # fmt: skip


@pytest.mark.parametrize("known", [None, formats("a=%d", r"s=\"%s\"", "b=%d")], ids=["look", "format"])
def test_a_record_that_is_broken_off(known: dict[str, str] | None) -> None:
    # without the format, what is broken off may also be the string
    assert said(b' a=-1 s="x" b=', known) == ({"a": -1, "s": "x"}, False, set() if known else {"s"})
    assert said(b' a=-1 s="x', known)[:2] == ({"a": -1, "s": '"x'}, False)


def test_a_record_that_lacks_arguments_of_its_format() -> None:
    known = formats("a=%d", r"s=\"%s\"", "b=%d")
    assert said(b' a=-1 s="x"', known) == ({"a": -1, "s": "x"}, False, set())
    assert said(b" a=-1", known) == ({"a": -1}, False, set())
    assert said(b"", known) == ({}, False, set())
    assert said(b" a=-1 b=2", known)[:2] == ({"a": -1, "b": 2}, False)
    assert said(b" z=1", known)[:2] == ({}, False)


@pytest.mark.parametrize(("series", "count"), [("3.2", 1), ("3.13", 1), ("5.10", 1), ("6.1", 1), ("6.12", 0)])
def test_the_recorded_one(recorded: Recorded, series: str, count: int) -> None:
    """6.12 has room for all of it (test_recorded.py)."""
    events = [record for record in parse(recorded(series, "02_comms.trace")) if isinstance(record, Event)]
    broken = [record for record in events if not record.complete]
    assert ["LLLLLLLL" in str(record.fields["s"]) for record in broken] == [True] * count


def test_a_name_that_is_there_twice_is_no_name() -> None:
    assert said(b" a=0x1 a=0x2") == ({"a": "0x1 a=0x2"}, False, {"a"})
    assert said(b' a=0x1 s="x" a=0x2 s="y" b=0x3') == ({"a": 1, "s": 'x" a=0x2 s="y', "b": 3}, True, set())


def test_text_before_the_first_argument() -> None:
    record = event(b"junk a=0x1")
    assert (dict(record.fields), record.complete) == ({"a": 1}, False)
    assert record.text == "(do_sys_openat2+0x0/0x170)junk a=0x1"


def test_no_context() -> None:
    (record,) = parse(b"e: (f+0x0/0x1) a={1 b=0x2\n")
    assert isinstance(record, Bare)
    assert (dict(record.fields), record.complete, record.guessed) == ({"a": "{1", "b": 2}, False, {"a", "b"})


# --- lines that end with CR LF


def test_the_last_argument_before_cr_lf() -> None:
    for body, last in [(b" a=1 b=2", 2), (b' a=1 b="x"', "x"), (b" a=1 b=(fault)", FAULT), (b" a=1 b={1,2}", (1, 2))]:
        assert said(body + b"\r") == ({"a": 1, "b": last}, True, set())
    assert said(b' a=1 b="x"\r', formats("a=%d", r"b=\"%s\"")) == ({"a": 1, "b": "x"}, True, set())
    assert said(b' b="x" a=1\r', formats(r"b=\"%s\"", "a=%d")) == ({"a": 1, "b": "x"}, True, set())
    assert said(b' b="x\r"') == ({"b": "x\r"}, True, set())
    assert event(b" a=1\r").text == "(do_sys_openat2+0x0/0x170) a=1"


def unlike_raw(record: Record) -> object:
    """Give what a record says but its bytes, which are others, and a marker's, which end with CR then."""
    value = record._replace(raw=b"") if not isinstance(record, Marker) else record._replace(raw=b"", text="")
    return type(record), value


@pytest.mark.parametrize(
    "name",
    [
        "01_types.trace", "03_opt_hex.trace", "03_opt_raw.trace", "03_opt_stacktrace.trace", "03_opt_verbose.trace",
        "03_opt_latency-format.trace", "03_opt_latency-format,verbose.trace", "03_opt_nocontext-info.trace",
        "03_opt_userstacktrace.trace", "05_lost.trace", "05_lost.trace_pipe", "07_marker.trace", "08_sched.trace",
        "10_function.trace",
        "16_uprobe2.trace",
    ],
)  # fmt: skip
@pytest.mark.parametrize("series", ["3.13", "6.1"])
def test_a_file_with_cr_lf(recorded: Recorded, series: str, name: str) -> None:
    # a newline in a string is CR LF then, which no reader can know
    data = re.sub(rb'^.*"[^"\n]*\n[^"\n]*".*\n', b"", recorded(series, name), flags=re.M)
    ours = parse(data.replace(b"\n", b"\r\n"))
    assert b"".join(record.raw for record in ours) == data.replace(b"\n", b"\r\n")
    assert [unlike_raw(record) for record in ours] == [unlike_raw(record) for record in parse(data)]


def test_marks_with_cr_lf() -> None:
    """Their texts ended with CR; where no header tells, nobody knows whether the mark had it."""
    head = b"             cat-42      [000] .....    10.000102: tracing_mark_write: "
    mark = head + b"two\r\nlines\r\n\r\n"
    event = b"             cat-42      [000] .....    10.000103: e: (f+0x0/0x1) n=1\r\n"
    told = [record.text for record in parse(b"# tracer: nop\r\n#\r\n" + mark + event) if isinstance(record, Marker)]
    assert told == ["two\nlines\n"]
    untold = [record.text for record in parse(head + b"a\r\n" + event) if isinstance(record, Marker)]
    assert untold == ["a\r"]
    report = b"             cat-42    [000]   100.123456: print:                tracing_mark_write: hello\r\n"
    assert [record.text for record in parse(b"cpus=2\r\n" + report) if isinstance(record, Marker)] == ["hello"]


# --- places


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ffffffff81234567", 0xFFFFFFFF81234567), ("0xffffffff81234567", 0xFFFFFFFF81234567), ("0", 0), ("0x0", 0),
        ("c0de1234", 0xC0DE1234), ("7fff1234", 0x7FFF1234), ("00000000004032ff", 0x4032FF),
        (" <00000000004032ff>", 0x4032FF),
    ],
)  # fmt: skip
def test_an_address_without_a_symbol_is_an_address(text: str, address: int) -> None:
    place = CodeAddress("", None, None, "", address, text)
    head = HEAD.partition(b"e: (")[0]
    entry, leave = parse(head + f"e: ({text}) a=-1\n".encode() + head + f"e: (f <- {text}) a=-1\n".encode())
    assert isinstance(entry, Event)
    assert isinstance(leave, Event)
    assert (entry.address, entry.caller) == (place, None)
    assert leave.address == place
    if not text.startswith(" "):
        call, stack = parse(head + f"{text} <-{text}\n".encode() + head + f"<stack trace>\n => {text}\n".encode())
        assert isinstance(call, Function)
        assert isinstance(stack, StackTrace)
        assert (call.function, call.parent, stack.frames) == (place, place, (place,))
        assert said(f" p={text} n=1".encode(), formats("p=%pS", "n=%d")) == ({"p": address, "n": 1}, True, set())


@pytest.mark.parametrize("symbol", ["deadbeef", "f", "add", "face_b00c", "abad1dea0", "fffffffffffffffe0"])
def test_a_symbol_made_of_such_letters(symbol: str) -> None:
    place = event(b"", None, HEAD.replace(b"do_sys_openat2+0x0/0x170", symbol.encode())).address
    assert place == CodeAddress(symbol, None, None, "", None, symbol)


def test_a_frame_that_is_no_place_has_no_symbol() -> None:
    (stack,) = parse(HEAD.partition(b"e: (")[0] + b"<user stack trace>\n => ??\n => /bin/cat[+0x12]\n => a b\n")
    assert isinstance(stack, StackTrace)
    assert [(frame.symbol, frame.text) for frame in stack.frames[1:]] == [("", "/bin/cat[+0x12]"), ("", "a b")]


# --- what is a guess


@pytest.mark.parametrize(("series", "texts", "numbers"), [("3.2", 95, 17), ("3.13", 93, 19), ("3.13fp", 99, 13)])
def test_hexadecimal_numbers_of_old_kernels(
    recorded: Recorded, formats: Formats, series: str, texts: int, numbers: int
) -> None:
    """Without the format each value is right or a guess: what was a wrong number, and digits that stay text."""
    data = recorded(series, "01_types.trace")
    looked = [record for record in parse(data) if isinstance(record, Event)]
    known = [record for record in parse(data, formats(series, "01_types.formats")) if isinstance(record, Event)]
    other = {
        (i, name): looked[i].fields[name]
        for i, record in enumerate(known)
        for name, value in record.fields.items()
        if looked[i].fields[name] != value
    }
    assert sum(len(record.fields) for record in known) == 180
    assert [sum(isinstance(v, kind) for v in other.values()) for kind in (str, int)] == [texts, numbers]
    assert all(name in looked[i].guessed for i, name in other)
    assert all(record.complete for record in [*looked, *known])
    assert not any(record.guessed for record in known)


@pytest.mark.parametrize("series", ["5.10", "6.1", "6.12", "7.2"])
def test_numbers_of_new_kernels_are_none(recorded: Recorded, series: str) -> None:
    """From 5.10 on the width of the pid's column shows it."""
    for name in ("01_types.trace", "03_opt_latency-format.trace"):
        events = [record for record in parse(recorded(series, name)) if isinstance(record, Event)]
        assert all(record.complete for record in events)
        # two strings, of which the first could end with the second
        assert {record.name for record in events if record.guessed} <= {"t_ust", "t_ustr2", "t_mem", "t_comm"}
        assert not any(isinstance(record.fields[name], int) for record in events for name in record.guessed)


@pytest.mark.parametrize(
    ("body", "guessed"),
    [
        (b" a=8241", {"a"}), (b" a=fffe", {"a"}), (b" a=9", set()), (b" a=-12", set()), (b" a=0x12", set()),
        (b" a=18446683600574168768", set()), (b" a=1844668360057416", {"a"}), (b" a={12,13}", set()),
        (b" a=f+0x1/0x2", set()), (b' a="12"', set()), (b" a=(fault)", set()),
    ],
)  # fmt: skip
def test_what_may_be_hexadecimal(body: bytes, guessed: set[str]) -> None:
    assert said(body, None, OLD)[1:] == (True, guessed)
    assert said(body, None, HEAD.replace(b"42      [", b"4200000 ["))[1:] == (True, guessed)
    known = guessed if b"f" in body else set()
    assert said(body, None, HEAD.replace(b"42     ", b"420000 "))[1:] == (True, known)


@pytest.mark.parametrize(
    ("head", "guessed"),
    [
        (b"     cat-7         1..... 162899us!: ", set()),
        (b"     cat-7000000   1..... 162899us!: ", {"n"}),
        (b"     cat-7       1.... 162899us!: ", {"n"}),
        (b"             cat-7       (-------) [001] .....    12.033218: ", set()),
        (b"             cat-7     (-----) [001] ....    12.033218: ", {"n"}),
    ],
)
def test_the_width_of_the_pid(head: bytes, guessed: set[str]) -> None:
    assert said(b"", None, head + b"e: (f+0x0/0x1) n=12") == ({"n": 12}, True, guessed)


def test_two_strings() -> None:
    known = formats(r"a=\"%s\"", "n=%d", r"b=\"%s\"", "m=%d")
    assert said(b' a="x" n=1 b="y" m=2', known) == ({"a": "x", "n": 1, "b": "y", "m": 2}, True, set())
    assert said(b' a="x" n=1 b="y" n=3 b="z" m=2', known) == (
        {"a": "x", "n": 1, "b": 'y" n=3 b="z', "m": 2}, True, {"a", "n", "b"},
    )  # fmt: skip
    # that these are two can't be known without the format
    assert said(b' a="x" n=1 b="y" m=2')[1:] == (True, {"a", "n", "b"})
    assert said(b' a="x" n=1 b=0x3')[1:] == (True, set())


def test_a_tracepoint_is_all_guesses(recorded: Recorded) -> None:
    events = [record for record in parse(recorded("6.1", "08_sched.trace")) if isinstance(record, Event)]
    switch = next(record for record in events if record.name == "sched_switch")
    assert switch.complete
    assert switch.guessed == set(switch.fields)
    head = HEAD.partition(b"e: (")[0]
    (irq, twice) = parse(head + b"e: odd irq=4\n" + head + b"e: a=1 b=2 a=3 c=4\n")
    assert isinstance(irq, Event)
    assert (irq.fields, irq.complete) == ({"irq": 4}, False)
    assert isinstance(twice, Event)
    assert (twice.fields, twice.guessed) == ({"a": 1, "b": "2 a=3", "c": 4}, {"a", "b", "c"})


# --- properties

WORDS = st.text(st.sampled_from("ab\"'{}(), =\\\r0x9f-+"), max_size=12)
PATHS = st.one_of(
    WORDS,
    st.lists(
        st.sampled_from(['x', '" ', '"', " s=", " flags=0x0", " dfd=5", ' z="', " z='", " z={", "1,", "(fault)", "\r"]),
        max_size=6,
    ).map("".join),
)  # fmt: skip
LOOK_OR_FORMAT = st.booleans()


@given(PATHS, st.integers(-100, 100), st.integers(0, 2**64 - 1), LOOK_OR_FORMAT, st.sampled_from([HEAD, OLD]))
@example('x" evil="y', 1, 2, False, HEAD)
@example('x" dfd=5 s="y', 1, 2, False, HEAD)
def test_one_string_is_right_or_marked(path: str, dfd: int, flags: int, by_format: bool, head: bytes) -> None:
    known = formats("dfd=%d", r"s=\"%s\"", "flags=0x%Lx") if by_format else None
    fields, complete, guessed = said(f' dfd={dfd} s="{path}" flags=0x{flags:x}'.encode(), known, head)
    true = {"dfd": dfd, "s": path, "flags": flags}
    if by_format:
        assert (fields, complete, guessed) == (true, True, set())
    else:
        assert all(fields.get(name) == value or name in guessed or not complete for name, value in true.items())
        assert not complete or set(fields) == set(true) or guessed


@given(PATHS, PATHS, PATHS, st.integers(2, 3), st.booleans())
def test_several_strings_are_right_or_marked(a: str, b: str, c: str, count: int, numbers: bool) -> None:
    texts = dict(zip("stu", (a, b, c), strict=True))
    specs: list[str] = []
    body = ""
    true: dict[str, object] = {}
    for i, (name, text) in enumerate(list(texts.items())[:count]):
        specs.append(rf"{name}=\"%s\"")
        body += f' {name}="{text}"'
        true[name] = text
        if numbers:
            specs.append(f"n{i}=%d")
            body += f" n{i}={i}"
            true[f"n{i}"] = i
    fields, complete, guessed = said(body.encode(), formats(*specs))
    assert all(fields.get(name) == value or name in guessed or not complete for name, value in true.items())


@example(words=['{"', '"}'], by_format=False)  # a list of one string, " v1="
@given(st.lists(WORDS, min_size=1, max_size=6), LOOK_OR_FORMAT)
def test_no_text_is_dropped(words: list[str], by_format: bool) -> None:
    """Each argument is there, or its text is part of another's value; what can't be decoded is its text."""
    words = [re.sub(r"[ =]", "", word).rstrip("\r") or "-" for word in words]
    body = "".join(f" v{i}={word}" for i, word in enumerate(words)).encode()
    known = formats(*(f"v{i}=%d" for i in range(len(words)))) if by_format else None
    fields, complete, guessed = said(body, known)
    for i, word in enumerate(words):
        if by_format:
            number = re.fullmatch(r"-?[0-9]{1,20}", word)
            assert fields[f"v{i}"] == (int(word) if number else word)
            assert number or (f"v{i}" in guessed and not complete)
        else:
            swallowed = any(f"v{i}={word}".rstrip('"}') in str(value) for value in fields.values())  # `"}` ended it
            assert f"v{i}" in fields or swallowed


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5), st.sampled_from([HEAD, OLD]))
def test_a_number_in_any_style_is_right_or_marked(numbers: list[int], head: bytes) -> None:
    styles = ["{:d}", "0x{:x}"] + (["{:x}"] if head is OLD else [])
    for style in styles:
        body = "".join(f" v{i}=" + style.format(number) for i, number in enumerate(numbers))
        fields, complete, guessed = said(body.encode(), None, head)
        assert complete
        assert all(fields[f"v{i}"] == number or f"v{i}" in guessed for i, number in enumerate(numbers))
        assert head is OLD or not guessed


@given(st.binary(max_size=60), LOOK_OR_FORMAT)
def test_any_body_gives_one_record_or_none_that_is_complete(body: bytes, by_format: bool) -> None:
    known = formats("dfd=%d", r"s=\"%s\"") if by_format else None
    for record in parse(HEAD + body + b"\n", known):
        if isinstance(record, Event) and record.complete and by_format:
            assert set(record.fields) == {"dfd", "s"}
