"""What the user's text means."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe.definitions.definition import Place, Probe, parse
from kprobe.definitions.probe import NAME_MAX
from kprobe.errors import DefinitionError

# (text, the line that goes to kprobe_events, the event's directory)
MEANT = [
    # perf-tools' usage message and example files
    ("p:do_sys_open", "p:do_sys_open do_sys_open", "kprobes/do_sys_open"),
    ("r:do_sys_open", "r:do_sys_open do_sys_open", "kprobes/do_sys_open"),
    ("r:do_sys_open $retval", "r:do_sys_open do_sys_open $retval", "kprobes/do_sys_open"),
    ("r:do_sys_open %ax", "r:do_sys_open do_sys_open %ax", "kprobes/do_sys_open"),
    ("r:do_sys_open rval=$retval", "r:do_sys_open do_sys_open rval=$retval", "kprobes/do_sys_open"),
    ("r:do_sys_open $retval %ax", "r:do_sys_open do_sys_open $retval %ax", "kprobes/do_sys_open"),
    ("r:my_sys_open do_sys_open", "r:my_sys_open do_sys_open", "kprobes/my_sys_open"),
    ("r:myopen do_sys_open rval=$retval %ax", "r:myopen do_sys_open rval=$retval %ax", "kprobes/myopen"),
    ("p:myopen do_sys_open mode=%cx:u16", "p:myopen do_sys_open mode=%cx:u16", "kprobes/myopen"),
    (
        "p:do_sys_open file=+0(%si):string",
        "p:do_sys_open do_sys_open file=+0(%si):string",
        "kprobes/do_sys_open",
    ),
    ("p:myprobe bio_alloc %ax %bx %cx %dx", "p:myprobe bio_alloc %ax %bx %cx %dx", "kprobes/myprobe"),
    ("p:mytcp tcp_init_cwnd", "p:mytcp tcp_init_cwnd", "kprobes/mytcp"),
    # what perf-tools breaks on
    ("r10:myopen do_sys_open", "r10:myopen do_sys_open", "kprobes/myopen"),
    ("r0x10:do_sys_open", "r16:do_sys_open do_sys_open", "kprobes/do_sys_open"),
    ("p:mine/myopen do_sys_open", "p:mine/myopen do_sys_open", "mine/myopen"),
    ("p:mine.myopen do_sys_open", "p:mine/myopen do_sys_open", "mine/myopen"),
    ("p:my-own/myopen do_sys_open", "p:my-own/myopen do_sys_open", "my-own/myopen"),
    ("p:mine/do_sys_open", "p:mine/do_sys_open do_sys_open", "mine/do_sys_open"),
    ("p:mine/ do_sys_open", "p:mine/p_do_sys_open_0 do_sys_open", "mine/p_do_sys_open_0"),
    ("p:kprobes/myopen do_sys_open", "p:myopen do_sys_open", "kprobes/myopen"),
    ("p:x ext4:ext4_open+0x10", "p:x ext4:ext4_open+16", "kprobes/x"),
    ("p:ext4:ext4_open", "p:ext4_open ext4:ext4_open", "kprobes/ext4_open"),
    ("p:ext4:ext4_open+16 %di", "p:p_ext4_ext4_open_16 ext4:ext4_open+16 %di", "kprobes/p_ext4_ext4_open_16"),
    ("p:vfs_read+5", "p:p_vfs_read_5 vfs_read+5", "kprobes/p_vfs_read_5"),
    ("p:x vfs_read-010", "p:x vfs_read-8", "kprobes/x"),
    ("p:vfs_read.isra.0", "p:vfs_read_isra_0 vfs_read.isra.0", "kprobes/vfs_read_isra_0"),
    ("p:x vfs_read%return $retval", "p:x vfs_read%return $retval", "kprobes/x"),
    ("p:vfs_read%return", "p:vfs_read vfs_read%return", "kprobes/vfs_read"),
    ("p:x 0xffffffff81000000", "p:x 0xffffffff81000000", "kprobes/x"),
    ("p:0xffffffff81000000", "p:p_0xffffffff81000000 0xffffffff81000000", "kprobes/p_0xffffffff81000000"),
    ("p:x 010", "p:x 0x8", "kprobes/x"),
    # the kernel's own form without a name: the kernel's own name
    ("p vfs_read", "p:p_vfs_read_0 vfs_read", "kprobes/p_vfs_read_0"),
    ("r5 vfs_read $retval", "r5:r_vfs_read_0 vfs_read $retval", "kprobes/r_vfs_read_0"),
    # a fetch argument is never a place
    ("p:vfs_read @jiffies", "p:vfs_read vfs_read @jiffies", "kprobes/vfs_read"),
    ("p:vfs_read +0(%si)", "p:vfs_read vfs_read +0(%si)", "kprobes/vfs_read"),
    ("p:vfs_read \\5", "p:vfs_read vfs_read \\5", "kprobes/vfs_read"),
    ("p:vfs_read file->f_pos", "p:vfs_read vfs_read file->f_pos", "kprobes/vfs_read"),
    ("p:vfs_*", "p:vfs vfs_*", "kprobes/vfs"),
    ("r:x vfs_[rw]* $retval", "r:x vfs_[rw]* $retval", "kprobes/x"),
    ("f:vfs_read count", "f:vfs_read count", "fprobes/vfs_read"),
    ("f:vfs_read%return", "f:vfs_read vfs_read%return", "fprobes/vfs_read"),
    ("f:g/x vfs_read a=$arg1", "f:g/x vfs_read a=$arg1", "g/x"),
    ("t:sched_switch next->pid", "t:sched_switch sched_switch next->pid", "tracepoints/sched_switch"),
    ("e:sched/sched_switch p=$prev_pid", "e:sched_switch sched.sched_switch p=$prev_pid", "eprobes/sched_switch"),
    ("e:x sched.sched_switch if prev_pid > 1", "e:x sched.sched_switch if prev_pid > 1", "eprobes/x"),
    (
        "e:sched.sched_switch if prev_pid > 1",
        "e:sched_switch sched.sched_switch if prev_pid > 1",
        "eprobes/sched_switch",
    ),
    ("u:/bin/bash:0x1234", "p:p_bash_0x1234 /bin/bash:0x1234", "uprobes/p_bash_0x1234"),
    ("u:x /bin/bash:4660%return", "r:x /bin/bash:0x1234", "uprobes/x"),
    ("r:g/x ./a.out:010(0x20) $retval", "r:g/x ./a.out:0x8(0x20) $retval", "g/x"),
    (
        "p:/usr/lib/x86_64:1.so:0x10 %di",
        "p:p_x86_64_1_so_0x10 /usr/lib/x86_64:1.so:0x10 %di",
        "uprobes/p_x86_64_1_so_0x10",
    ),
    # fetch arguments pass as they are, also those that no kernel takes today
    ("p:x vfs_read =%% a==b :::", "p:x vfs_read =%% a==b :::", "kprobes/x"),
    ("  p:x \t vfs_read\v %di\r\n", "p:x vfs_read %di", "kprobes/x"),
]


@pytest.mark.parametrize(("text", "line", "event"), MEANT)
def test_meaning(text: str, line: str, event: str) -> None:
    probe = parse(text)
    assert (str(probe), probe.event) == (line, event)


@pytest.mark.parametrize(("text", "line", "event"), MEANT)
def test_the_line_means_itself(text: str, line: str, event: str) -> None:
    assert parse(line) == parse(text)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 0, "the definition is empty"),
        ("q:vfs_read", 0, "a probe starts with p: or r:, f:, t:, e: or u:"),
        ("vfs_read", 0, "a probe starts with p: or r:, f:, t:, e: or u:"),
        (" rx:x vfs_read", 2, "a probe starts with p: or r: or rN:, N a number"),
        ("r-1:x vfs_read", 1, "a probe starts with p: or r: or rN:, N a number"),
        ("p10:x vfs_read", 1, "maxactive is for return probes (r) only"),
        ("p:", 2, "a place is missing: which function?"),
        ("p", 1, "a place is missing: which function?"),
        ("p:mine/", 7, "a place is missing: which function?"),
        ("p:x vfs_read+", 12, "this is not an offset"),
        ("p:x vfs_read+5z", 12, "this is not an offset"),
        ("p:x vfs_read+09", 12, "this is not an offset"),
        ("f:x /bin/sh:0x10", 4, "a kernel place holds no slash (that would be a user-space probe)"),
        ("p:x /bin/sh", 4, "a user-space place is FILE:OFFSET, an offset in the file, such as /bin/bash:0x1234"),
        ("u:x sh:0x10", 4, "a user-space place is FILE:OFFSET, an offset in the file, such as /bin/bash:0x1234"),
        ("u:/bin/sh:main", 10, "a user-space place is FILE:OFFSET, an offset in the file, such as /bin/bash:0x1234"),
        ("u:/bin/sh:0x10%retur", 14, "the only suffix of a place is %return"),
        ("u:/bin/sh:0x10(0x", 14, "this is not the offset of a reference counter: (0x20)"),
        ("r10:/bin/sh:0x10", 1, "maxactive is for return probes of the kernel's functions only"),
        ("e10:x sched.sched_switch", 1, "maxactive is for return probes (r) only"),
        ("e:x sched_switch", 4, "an event probe is at GROUP.EVENT, such as sched.sched_switch"),
        ("t:x sched/sched_switch", 4, "a tracepoint is its name alone, such as sched_switch"),
        ("t x", 0, "a probe starts with p: or r:, f:, t:, e: or u:"),
        ("p:vfs_read%retur", 10, "the only suffix of a place is %return"),
        ("p:9x vfs_read", 2, "a name begins with a letter or _, and holds letters, digits and _"),
        ("p:my-probe vfs_read", 4, "a name begins with a letter or _, and holds letters, digits and _"),
        ("p:my$probe vfs_read", 4, "a name begins with a letter or _, and holds letters, digits and _"),
        ("p:größe vfs_read", 4, "a name begins with a letter or _, and holds letters, digits and _"),
        ("p:my-probe", 4, "this is not an offset; a name holds letters, digits and _ only"),
        ("p:vfs_*+4", 7, "a pattern is of functions, and takes no offset"),
        ("p:x vfs_read;p:y vfs_write", 12, "one probe at a time"),
        ("p:x vfs_read()", 4, "this is not a function's name, which holds letters, digits, _ and ."),
        ("P:vfs_read", 0, "a probe starts with p: or r:, f:, t:, e: or u:, in lower case"),
        ("p:a.b/c vfs_read", 2, "this is neither [GROUP/]EVENT nor a place"),
        ("p:x vfs_read\np:y vfs_read", 12, "the definition holds a newline: give one probe"),
        ("p:x vfs_read \0", 13, "the definition holds a NUL character"),
        (f"p:{'x' * 64} vfs_read", 2, "a group or event name has at most 63 characters"),
        (f"p:mine/{'x' * 64} vfs_read", 7, "a group or event name has at most 63 characters"),
    ],
)
def test_no_meaning(text: str, column: int, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(text)
    assert (caught.value.message, caught.value.column) == (message, column)


def test_the_error_points_at_the_column() -> None:
    with pytest.raises(DefinitionError) as caught:
        parse("p:x vfs_read+5z")
    assert str(caught.value) == "this is not an offset\n  p:x vfs_read+5z\n              ^"


def test_values_can_not_be_set() -> None:
    probe = parse("p:x vfs_read")
    with pytest.raises(AttributeError):
        probe.name = "y"
    with pytest.raises(AttributeError):
        probe.place.offset = 4


@pytest.mark.parametrize(
    "text", ["r10:g/x m:f+8 a=%ax", "f:x vfs_read%return", "u:x /bin/a:0x10(0x20)%return", "p:0x10"]
)
def test_values_can_be_copied_and_sent_to_another_process(text: str) -> None:
    probe = parse(text)
    for again in (pickle.loads(pickle.dumps(probe)), copy.copy(probe), copy.deepcopy(probe)):
        assert (again, again.is_named, str(again)) == (probe, probe.is_named, str(probe))


def test_return_probes() -> None:
    assert [parse(text).is_return for text in ("r:vfs_read", "p:x vfs_read%return", "p:vfs_read")] == [
        True,
        True,
        False,
    ]


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
arguments = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters=" \t\n\v\f\r\0"), min_size=1)
places = st.one_of(
    st.builds(
        Place,
        symbol=names,
        module=st.one_of(st.just(""), names),
        offset=st.integers(-(1 << 63), 1 << 64),
        returns=st.booleans(),
    ),
    st.builds(Place, address=st.integers(0, (1 << 64) - 1)),
)
kinds = st.one_of(
    st.tuples(st.just("p"), st.none()), st.tuples(st.just("r"), st.one_of(st.none(), st.integers(0, 1 << 40)))
)


@given(kinds, names, places, st.lists(arguments, max_size=4), names)
def test_a_probe_survives_being_written_and_read(
    kind: tuple[str, int | None], name: str, place: Place, args: list[str], group: str
) -> None:
    probe = Probe(kind[0], name, place, tuple(args), group, kind[1])
    assert parse(str(probe)) == probe


@given(st.text(st.sampled_from("pr:/ +-%x0109ab_.=$@(),\t\n") | st.characters(), max_size=40))
def test_any_text_means_a_probe_or_says_where_it_fails(text: str) -> None:
    column, probe = 0, None
    try:
        probe = parse(text)
    except DefinitionError as error:
        column = error.column
    assert 0 <= column <= len(text)
    if probe is not None:
        assert parse(str(probe)) == probe
        assert probe.name.isidentifier()
        assert len(probe.name) <= NAME_MAX


@given(arguments, st.lists(arguments, max_size=3))
def test_fetch_arguments_are_never_judged(first: str, others: list[str]) -> None:
    assert parse(" ".join(["p:x vfs_read", first, *others])).args == (first, *others)
