"""Arguments read by the definition of their probe."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kprobe_text.text import FAULT, Bare, CodeAddress, Event, Parser, defined_name, parse

WIDE = b"            bash-42      [001] .....    11.791146: e: (do_sys_openat2+0x0/0x170)"
NARROW = b"            bash-42    [001] ....    11.791146: e: (do_sys_open+0x0/0x190)"


def said(arguments: str, body: str, head: bytes = WIDE) -> tuple[dict[str, object], bool, set[str]]:
    (record,) = parse(head + body.encode() + b"\n", definitions=[f"p:e f {arguments}"])
    assert isinstance(record, Event)
    return dict(record.fields), record.complete, set(record.guessed)


@pytest.mark.parametrize(
    ("argument", "text", "value"),
    [
        ("a=%di:s32", "-100", -100), ("a=%di:u8", "156", 156), ("a=%di:u8", "0x9c", 156), ("a=%di:x8", "0x9c", 156),
        ("a=%di", "0x9c", 156), ("a=$retval", "-2", -2), ("a=+0(%si):string", '"x" b=1"', 'x" b=1'),
        ("a=+0(%si):ustring", "(fault)", FAULT), ("a=$comm", '"cat"', "cat"), ("a=%di:char", "'/'", "/"),
        ("a=%di:b4@0/32", "8", 8), ("a=+0(%si):u8[3]", "{1,2,3}", (1, 2, 3)), ('a=\\"foo"', '"foo"', "foo"),
        ("a=%di:symbol", "f+0x1/0x2", CodeAddress("f", 1, 2, "", None, "f+0x1/0x2")), ("a=$stack0:symstr", '"f"', "f"),
        ("a=+0(%si):%pd", '"passwd"', "passwd"), ("a=+0(%si):string[2]", '{"x","y"}', ("x", "y")),
    ],
)  # fmt: skip
def test_a_type(argument: str, text: str, value: object) -> None:
    assert said(argument, f" a={text}") == ({"a": value}, True, set())


def test_what_the_type_excludes_is_marked() -> None:
    assert said("a=%di:s32 b=%si:u8", " a=0x1 b=2")[1] is False
    assert said("a=+0(%si):string b=%di:s32", ' a="x" b=1 b=y')[1] is False


def test_hexadecimal_without_0x() -> None:
    """Up to 3.13; an argument without a type says which kernel it is."""
    assert said("a=%di:u8 b=%si", " a=10 b=10", NARROW) == ({"a": 16, "b": 16}, True, set())
    assert said("a=%di:u8 b=%si", " a=10 b=0x10", NARROW) == ({"a": 10, "b": 16}, True, set())
    assert said("a=%di:u8 b=%si:u8", " a=9c b=10", NARROW) == ({"a": 156, "b": 16}, True, set())
    # all may be either
    assert said("a=%di:u8 b=%si:s32", " a=10 b=10", NARROW) == ({"a": 10, "b": 10}, True, {"a"})
    assert said("a=%di:u8 b=%si:s32", " a=9 b=10", NARROW) == ({"a": 9, "b": 10}, True, set())
    # wide columns are of kernels that print none
    assert said("a=%di:u8 b=%si:s32", " a=10 b=10") == ({"a": 10, "b": 10}, True, set())


@pytest.mark.parametrize(("told", "value"), [(b" a=0x1 b=0x2", 10), (b" a=1 b=fe", 16)])
def test_what_a_line_tells_of_the_kernel_is_known_from_then_on(told: bytes, value: int) -> None:
    line = NARROW + b" a=10\n"
    first, _, last = parse(
        line + NARROW.replace(b" e: ", b" k: ") + told + b"\n" + line,
        definitions=["p:e f a=%di:u8", "r:k f a=%di b=%si"],
    )
    assert isinstance(first, Event)
    assert isinstance(last, Event)
    assert (first.guessed, last.guessed, last.fields) == ({"a"}, set(), {"a": value})
    # another trace may be another kernel's
    *_, other = parse(NARROW + told + b"\n# tracer: nop\n#\n" + line, definitions=["p:e f a=%di:u8"])
    assert isinstance(other, Event)
    assert other.guessed == {"a"}


def test_a_format_is_believed_more() -> None:
    known = {"e": 'name: e\nID: 1\nformat:\n\nprint fmt: "(%lx) a=%x", REC->__probe_ip\n'}
    parser = Parser(known, definitions=["p:e f a=%di:s32"])
    (record,) = parser.feed(NARROW + b" a=10\n") + parser.close()
    assert isinstance(record, Event)
    assert (record.fields, record.guessed) == ({"a": 16}, set())


@pytest.mark.parametrize(
    ("definition", "name"),
    [
        ("p:kprobes/ent do_sys_open dfd=%di:s32", "ent"), ("r10:myopen do_sys_open", "myopen"),
        ("p do_sys_open", "p_do_sys_open_0"),
        ("p do_sys_open+0x10", "p_do_sys_open_16"), ("r ext4:ext4_file_open", "r_ext4_file_open_0"),
        ("p:do_sys_open", "do_sys_open"),
        ("p:g.r/e vfs_read", "e"), ("p do_sys_open%return", "r_do_sys_open_0"), ("hello world", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_name_of_an_event(definition: str, name: str) -> None:
    assert defined_name(definition) == name


SEALED = ["p:e f s=+0(%si):string n=%di:s32 seal=\\0x5eed1e55:x64"]
HEAD = b"            bash-42      [001] .....    11.791146: e: (f+0x0/0x1) "
HIT = HEAD + b's="%s" n=%d seal=0x5eed1e55\n'
PARTS = st.sampled_from(
    [b"x", b'"', b"\n", b" n=5", b" seal=0x1", b" seal=0x5eed1e5", b" seal=0x5eed1e550", HEAD, HEAD + b's="', b"\r"]
)


@given(st.lists(PARTS, max_size=9).map(b"".join))
@example(b'x" n=1 seal=0x1\n' + HEAD + b's="y" n=2 seal=0x1\n' + HEAD + b's="z')
def test_a_number_that_only_the_definition_says_settles_where_a_record_ends(path: bytes) -> None:
    """Whatever a string holds: without that number it ends no record and forges none."""
    records = parse(HIT % (path, 1) + HIT % (b"next", 2), definitions=SEALED)
    assert [record.fields for record in records if isinstance(record, Event)] == [
        {"s": path.decode(), "n": 1, "seal": 0x5EED1E55},
        {"s": "next", "n": 2, "seal": 0x5EED1E55},
    ]
    assert all(isinstance(record, Event) and record.complete and not record.guessed for record in records)


@pytest.mark.parametrize(
    ("definition", "text", "value"),
    [
        ("a=\\-1:s32", b"-1", -1), ("a=\\-1:u8", b"255", 255), ("a=\\-1:x8", b"0xff", 255), ("a=\\300:u8", b"44", 44),
        ("a=\\18", b"0x12", 18), ("a=\\18", b"18", 18), ("a=\\18", b"0x13", None), ("a=\\18:u8", b"19", None),
    ],
)  # fmt: skip
def test_a_number_in_a_definition(definition: str, text: bytes, value: int | None) -> None:
    (event,) = parse(HEAD + b"a=" + text + b"\n", definitions=[f"p:e f {definition}"])
    assert isinstance(event, Event)
    assert event.complete is (value is not None)
    assert value is None or event.fields == {"a": value}


def test_types_that_came_later_settle_the_base_of_numbers_in_all_events() -> None:
    """Without a context nothing else tells: untyped $retval is decimal where its type comes from BTF."""
    text = b"ret: (g+0x1/0x2 <- f) ret=16\nent: (f+0x0/0xe0) ret=0xfffffffe raw=18446744073709551614\n"
    definitions = ["r:ret f ret=$retval", "p:ent f ret=%di:x32 raw=%si:u64"]
    first, second = parse(text, definitions=definitions)
    assert isinstance(first, Bare)
    assert isinstance(second, Bare)
    assert (first.fields, set(first.guessed)) == ({"ret": 16}, set())
    assert (second.fields, set(second.guessed)) == ({"ret": 0xFFFFFFFE, "raw": 2**64 - 2}, set())


def test_a_number_that_may_be_in_either_base_is_a_guess() -> None:
    definitions = ["r:ret f ret=$retval"]
    (one,) = parse(b"ret: (g+0x1/0x2 <- f) ret=16\n", definitions=definitions)
    assert isinstance(one, Bare)
    assert set(one.guessed) == {"ret"}
    first, second = parse(b"ret: (g+0x1/0x2 <- f) ret=fffe\nret: (g+0x1/0x2 <- f) ret=16\n", definitions=definitions)
    assert isinstance(first, Bare)
    assert isinstance(second, Bare)
    assert (first.fields, second.fields, first.guessed | second.guessed) == ({"ret": 0xFFFE}, {"ret": 0x16}, set())
    # 5 places for the pid: the kernel is one that prints hexadecimal
    narrow = NARROW.partition(b"e: ")[0] + b"ret: (g+0x1/0x2 <- f) ret=16\n"
    (told,) = parse(narrow, definitions=definitions)
    assert isinstance(told, Event)
    assert (told.fields, set(told.guessed)) == ({"ret": 0x16}, set())
