"""The filter language: what is taken, what is refused and how, and which events pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from errno import EINVAL, ENOENT, EPERM, ESRCH, errorcode
from os import O_RDWR
from typing import Any

import pytest

from .builds import AUTO, Build
from .text import Record, define, errors, refused, switch, traced

FIELDS = (
    "p:f do_sys_openat2 u1=%di:u8 u2=%di:u16 u4=%di:u32 u8=%di:u64 s4=%di:s32 s8=%di:s64 st=+0(%si):string "
    "us=+0(%si):ustring sy=%di:symbol ar=+0(%si):u8[4] sa=+0(%si):string[2] bf=%di:b4@4/8 co=$comm"
)
FILTER = "events/kprobes/f/filter"

VALUE = "Invalid value (did you forget quotes)?"
OPERATOR = "Invalid operator"
FIELD = "Field not found"
INTEGER = "Illegal integer value"
NUMERIC = "Expecting numeric field"
STRINGY = "Expecting string field"
OPERATION = "Illegal operation for field type"
TERMS = "Too many terms in predicate expression"
QUOTE = "Missing matching quote"
OPENED = "Too many '('"
CLOSED = "Too few '('"
NOTHING = "No filter found"
LONG = "Operand too long"

TAKEN = [
    "u1==1", "u1 == 1", "u4!=5", "u4<5", "u4<=5", "u4>5", "u4>=5", "u4&5", "u4 & 0x1", "u4\t==\t5", "u4== 5", "u4 ==5",
    "u1==0x10", "u1==010", "u1==256", "u1==99999999999", "u4==4294967296", "u8==18446744073709551615",
    "s8==-9223372036854775808", "s4==-1", "s4<-1", "s4&1", "u4==00000000000000000000005",
    "(u4==5)", "((u4==5))", "u4==5 && u1==1", "u4==5&&u1==1", "u4==5 || u1==1 && s4==2", "!(u4==5)", "!u4==5",
    "! u4==5", "!!u4==5", "u4==5 && !u1==1", "(" * 50 + "u4==5" + ")" * 50,
    " && ".join(["u4==5"] * 100),
    'st=="a"', 'st == "a b"', "st=='a'", "st=='a\"'", 'st~"a*"', 'st~"*a"', 'st~"*a*"', 'st~"a*b"',
    'st~"[ab]*"', 'st~"a?"',
    'st!="a"', 'st==""', 'st~""', 'st~"*"', 'st~"!a"', 'us=="a"', 'us.ustring=="a"', 'st.ustring=="a"', 'sa=="a"',
    'st=="' + "a" * 255 + '"',
    "sy==0", "ar==1", "ar&1", "bf==1", 'co=="sh"', 'comm=="sh"', 'COMM=="sh"', 'comm~"s*"',
    "common_pid==1", "common_pid>0", "common_type==1", "common_flags==0", "common_preempt_count==0", "common_cpu==0",
    "cpu==0", "CPU==0", "cpu<1", "cpu&1", "cpu==-1", "__probe_ip==0", "__probe_ip>0xffffffff81000000",
]  # fmt: skip

# The ^ in the filter is where error_log points; the file itself can't point past the text.
REFUSED: list[tuple[str, int, str]] = [
    ("u1 =^ 1", EINVAL, OPERATOR),
    ("u1=^1", EINVAL, OPERATOR),
    ("u1== ^", EINVAL, VALUE),
    ("u1 ^", EINVAL, OPERATOR),
    ("00 ^", EINVAL, FIELD),
    ("u1==-^1", EINVAL, INTEGER),
    ("u8==1^8446744073709551616", EINVAL, INTEGER),
    ("s8==9^223372036854775808", EINVAL, INTEGER),
    ("u4~5^", EINVAL, OPERATION),
    ('u4~"^5"', EINVAL, NUMERIC),
    ('u4=="^5"', EINVAL, NUMERIC),
    ("u4==a^bc", EINVAL, VALUE),
    ("u4==5^abc", EINVAL, INTEGER),
    ("u4==1^e3", EINVAL, INTEGER),
    ("u4==0^xg", EINVAL, INTEGER),
    ("u4==0^x", EINVAL, INTEGER),
    ("u4==-^", EINVAL, INTEGER),
    ("u4==-^ 5", EINVAL, INTEGER),
    ("u4==+^5", EINVAL, VALUE),
    ("u4==5 ^abc", EPERM, TERMS),
    ("u4==5 ^and u1==1", EPERM, TERMS),
    ("u4==5 ^& u1==1", EPERM, TERMS),
    ("u4==5 ^| u1==1", EPERM, TERMS),
    ("u4==5^.0", EPERM, TERMS),
    ("u4==5^;u1==1", EPERM, TERMS),
    ("u4==5 ^# c", EPERM, TERMS),
    ("u4==5^)", EPERM, CLOSED),
    ("^(u4==5", ENOENT, OPENED),
    ("^((u4==5)", ENOENT, OPENED),
    ("^(", ENOENT, OPENED),
    ("!^", EINVAL, NOTHING),
    ("!!^", EINVAL, NOTHING),
    ("st==a^", EINVAL, VALUE),
    ("st~a^", EINVAL, VALUE),
    ('st==^"a', ESRCH, QUOTE),
    ('st==^\'a"', ESRCH, QUOTE),
    ('st=="a\\"b^"', ESRCH, QUOTE),
    ('st!^~"a"', EINVAL, OPERATOR),
    ('st<"^a"', EINVAL, OPERATION),
    ('st&"^a"', EINVAL, OPERATION),
    ("st==1^", EINVAL, STRINGY),
    ("sa==1^", EINVAL, STRINGY),
    ("comm==1^", EINVAL, STRINGY),
    ("comm==s^h", EINVAL, VALUE),
    ("sy==v^fs_read", EINVAL, VALUE),
    ('ar=="^a"', EINVAL, NUMERIC),
    ('cpu=="^0"', EINVAL, NUMERIC),
    ("cpu~0^", EINVAL, OPERATION),
    ("u8.^foo==1", EINVAL, OPERATOR),
    ("u-^4==5", EINVAL, FIELD),
    ("nosuch=^=1", EINVAL, FIELD),
    ("1=^=u4", EINVAL, FIELD),
    ("none ^", EINVAL, FIELD),
    ('Comm=^="sh"', EINVAL, FIELD),
    ('common_comm=^="a"', EINVAL, FIELD),
    ("common_timestamp=^=0", EINVAL, FIELD),
    ("__probe_func=^=0", EINVAL, FIELD),
    ("u4 i^n 5", EINVAL, OPERATOR),
    ("u4<>^5", EINVAL, VALUE),
    ("u4=^>5", EINVAL, OPERATOR),
    ("u4===^5", EINVAL, VALUE),
    ("u4%^1", EINVAL, OPERATOR),
    ("u4==0x0000000000000000000000000000005 ^", EINVAL, LONG),
]  # fmt: skip


@pytest.fixture
def event(tracefs: Any) -> None:
    define(tracefs, FIELDS)


@pytest.mark.parametrize("text", TAKEN, ids=[text[:40] for text in TAKEN])
@pytest.mark.usefixtures("event")
def test_taken(tracefs: Any, text: str) -> None:
    tracefs.write(FILTER, text.encode())
    assert tracefs.read(FILTER).decode() == text + "\n"
    assert errors(tracefs) == []
    tracefs.write(FILTER, b"0")
    assert tracefs.read(FILTER) == b"none\n"


@pytest.mark.parametrize(("text", "number", "message"), REFUSED, ids=[row[0][:40] for row in REFUSED])
@pytest.mark.usefixtures("event")
def test_refused(tracefs: Any, text: str, number: int, message: str) -> None:
    """A refused filter replaces the one before: the file shows it with the error, and nothing is filtered."""
    tracefs.write(FILTER, b"u1==1")
    written = text.replace("^", "").rstrip()
    assert refused(tracefs, FILTER, written) == number
    assert errors(tracefs) == [Record("event filter parse error: error: " + message, text)]
    column = min(text.index("^"), len(written))
    assert tracefs.read(FILTER).decode() == f"{written}\n{' ' * column}^\nparse_error: {message}\n\n"


@pytest.mark.usefixtures("event")
def test_an_operand_that_is_too_long(tracefs: Any, choose: Callable[..., bool]) -> None:
    """Up to 5.16 the log cuts a command, with its newline, and counts the caret's column in one byte."""
    text = 'st=="' + "a" * 256 + '"'
    assert refused(tracefs, FILTER, text) == EINVAL
    assert tracefs.read(FILTER).decode() == f"{text}\n{' ' * 262}^\nparse_error: {LONG}\n\n"
    shown = choose({"": text[:243] + " " * (11 + 262 - 256), AUTO: text + "\n" + " " * (11 + 262)})
    assert tracefs.read("error_log").decode().partition("] ")[2] == (
        f"event filter parse error: error: {LONG}\n  Command: {shown}^\n"
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", EINVAL),
        ("\n", EINVAL),
        ("==1", EPERM),
        ("&& u4==5", EPERM),
        ("u4==5 &&& u1==1", EPERM),
        ("()", EINVAL),
        ('"u4"==5', EPERM),
    ],
)
@pytest.mark.usefixtures("event")
def test_refused_without_a_reason(tracefs: Any, text: str, number: int) -> None:
    assert refused(tracefs, FILTER, text) == number
    shown = text.rstrip()
    assert errors(tracefs) == [Record("event filter parse error: error: Error", "^" + shown)]
    assert tracefs.read(FILTER).decode() == f"{shown}\nError: (0)\n\n"


VARYING: list[Mapping[str, tuple[str, str]]] = [
    {"": ("CPU & C^PUS{0}", VALUE), "<argname>": ("", "")},
    {"": ("stacktrace=^=0", FIELD), "<argname>": ("", "")},
    {"": ("u8.^function==do_sys_openat2", OPERATOR), "<argname>": ("", "")},
]


@pytest.mark.parametrize("expectations", VARYING, ids=[row[""][0] for row in VARYING])
@pytest.mark.usefixtures("event")
def test_refused_by_older_kernels(
    tracefs: Any, choose: Callable[..., tuple[str, str]], expectations: Mapping[str, tuple[str, str]]
) -> None:
    text, message = choose(expectations)
    if text:
        assert refused(tracefs, FILTER, text.replace("^", "")) == EINVAL
        assert errors(tracefs) == [Record("event filter parse error: error: " + message, text)]
    else:
        tracefs.write(FILTER, expectations[""][0].replace("^", "").encode())


@pytest.mark.parametrize("text", ["0", "0 ", " 0", "0\n"])
@pytest.mark.usefixtures("event")
def test_cleared(tracefs: Any, text: str) -> None:
    tracefs.write(FILTER, b"u1==1")
    tracefs.write(FILTER, text.encode())
    assert tracefs.read(FILTER) == b"none\n"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("u4==5\n", "u4==5\n"),
        ("u4==5  ", "u4==5\n"),
        ("  u4==5", "  u4==5\n"),
        ("\nu4==5", "\nu4==5\n"),
    ],
)
@pytest.mark.usefixtures("event")
def test_shown(tracefs: Any, written: str, shown: str) -> None:
    tracefs.write(FILTER, written.encode())
    assert tracefs.read(FILTER).decode() == shown


@pytest.mark.usefixtures("event")
def test_a_dangling_operator(tracefs: Any, build: Build) -> None:
    if build.dangling:
        tracefs.write(FILTER, b"u4==5 && ")
        assert tracefs.read(FILTER) == b"u4==5 &&\n"
    else:
        assert refused(tracefs, FILTER, "u4==5 && ") == EINVAL
        assert errors(tracefs) == [
            Record("event filter parse error: error: Meaningless filter expression", "u4==5 &&^")
        ]


@pytest.mark.usefixtures("event")
def test_a_page_is_too_long(tracefs: Any) -> None:
    tracefs.write(FILTER, b"u4==5" + b" " * 4090)
    assert tracefs.read(FILTER) == b"u4==5\n"
    tracefs.write(FILTER, b"0")
    assert refused(tracefs, FILTER, "u4==5" + " " * 4091) == EINVAL
    assert tracefs.read(FILTER) == b"none\n"
    assert errors(tracefs) == []


GLOBAL = (
    b"### global filter ###\n"
    b"# Use this to set filters for multiple events.\n"
    b"# Only events with the given fields will be affected.\n"
    b"# If no events are modified, an error message will be displayed here\n"
)
LACKING = "\n^\nparse_error: Couldn't find or set field in one of a subsystem's events\n\n"


def test_a_group_filter(tracefs: Any) -> None:
    define(tracefs, "p:f do_sys_openat2 u1=%di:u8", "p:f2 do_sys_openat2 u1=%di:u8 zz=%si")
    group, one, two = (f"events/kprobes/{name}filter" for name in ("", "f/", "f2/"))
    assert tracefs.read(group) == GLOBAL
    tracefs.write(group, b"u1==1")
    assert (tracefs.read(group), tracefs.read(one), tracefs.read(two)) == (GLOBAL, b"u1==1\n", b"u1==1\n")
    tracefs.write(group, b"zz==1")
    assert tracefs.read(group) == GLOBAL
    assert tracefs.read(one).decode() == "zz==1" + LACKING
    assert tracefs.read(two) == b"zz==1\n"
    assert errors(tracefs) == [
        Record("event filter parse error: error: Couldn't find or set field in one of a subsystem's events", "^zz==1")
    ]
    tracefs.write(group, b"0")
    assert (tracefs.read(group), tracefs.read(one), tracefs.read(two)) == (GLOBAL, b"none\n", b"none\n")


def test_a_group_filter_that_no_event_takes(tracefs: Any) -> None:
    """The write succeeds all the same."""
    define(tracefs, "p:f do_sys_openat2 u1=%di:u8")
    tracefs.write("events/kprobes/filter", b"nosuch==1")
    assert tracefs.read("events/kprobes/f/filter").decode() == "nosuch==1" + LACKING


def test_a_group_filter_that_outlives_its_group(tracefs: Any) -> None:
    """The open file belongs to the directory that it was opened in; a new one of the same name is another."""
    define(tracefs, "p:mine/f do_sys_openat2")

    def written(file: Any, data: bytes) -> int | str:
        try:
            return int(file.write(data))
        except OSError as error:
            return errorcode[error.errno or 0]

    with tracefs.open("events/mine/filter", O_RDWR) as file, tracefs.open("events/mine/enable", O_RDWR) as enable:
        assert written(file, b"common_pid==1") == 13
        define(tracefs, "-:mine/f")
        assert [written(file, text) for text in (b"0", b"nosuch==1", b"1" * 4096)] == ["ENODEV", "ENODEV", "EINVAL"]
        assert written(enable, b"0") == "EINVAL"
        define(tracefs, "p:mine/f do_sys_openat2")
        assert written(file, b"common_pid==1") == "ENODEV"
        assert written(enable, b"0") == 1
    assert tracefs.read("events/mine/f/filter") == b"none\n"


# (filter, the paths that pass) of opens of these paths with dfd -100
OPENED_PATHS = ["/etc/hostname", "/dev/null", "/tmp/f0", "/tmp/f1", "/tmp/a*b?c[d]", "/1", "/no such file", "Rel"]
PASSING: list[tuple[str, list[str]]] = [
    ('st == "/dev/null"', ["/dev/null"]),
    ('st != "/dev/null"', [path for path in OPENED_PATHS if path != "/dev/null"]),
    ('st ~ "/tmp/*"', ["/tmp/f0", "/tmp/f1", "/tmp/a*b?c[d]"]),
    ('st ~ "*host*"', ["/etc/hostname"]),
    ('st ~ "*1"', ["/tmp/f1", "/1"]),
    ('st ~ "/tmp/f?"', ["/tmp/f0", "/tmp/f1"]),
    ('st ~ "/tmp/f[1-9]"', ["/tmp/f1"]),
    ('st ~ "/tmp/f[!1]"', ["/tmp/f0"]),
    ('st ~ "/tmp/a\\*b*"', ["/tmp/a*b?c[d]"]),
    ('st ~ "/*/*"', ["/etc/hostname", "/dev/null", "/tmp/f0", "/tmp/f1", "/tmp/a*b?c[d]"]),
    ('st ~ "*"', OPENED_PATHS),
    ('st ~ "!/*"', ["Rel"]),
    ('st ~ "rel"', []),
    ('st ~ "/dev/null"', ["/dev/null"]),
    ('st ~ "dev"', []),
    ('st ~ "*no such*"', ["/no such file"]),
    ('st == ""', []),
    ("st == '/1'", ["/1"]),
    ('us ~ "*e*" && st != "/dev/null"', ["/etc/hostname", "/no such file", "Rel"]),
    ('st ~ "*f0" || st ~ "*f1"', ["/tmp/f0", "/tmp/f1"]),
    ('st ~ "/e*" || st ~ "/t*" && st ~ "*0"', ["/etc/hostname", "/tmp/f0"]),
    ('(st ~ "/e*" || st ~ "/t*") && st ~ "*0"', ["/tmp/f0"]),
    ('!(st ~ "/*")', ["Rel"]),
    ('!st ~ "/*"', ["Rel"]),
    ("s4 == -100", OPENED_PATHS),
    ("s4 < 0", OPENED_PATHS),
    ("s4 > 0", []),
    ("u4 == 4294967196", OPENED_PATHS),
    ("u4 == 0xffffff9c", OPENED_PATHS),
    ("u4 > 5", OPENED_PATHS),
    ("u1 == 156", OPENED_PATHS),
    ("u1 == 412", OPENED_PATHS),  # the constant is cut to the width of the field
    ("u1 & 4", OPENED_PATHS),
    ("u1 & 3", []),
    ("bf == 9", OPENED_PATHS),
    ("u8 == DFD", OPENED_PATHS),
    ("ar == 0x7665642f", ["/dev/null"]),  # four bytes are compared as an integer
    ("cpu == 0", OPENED_PATHS),
    ("cpu > 0", []),
    ("common_flags & 1", []),  # no interrupts off; need-resched may well be set
    ('co == "workload"', OPENED_PATHS),
    ('comm ~ "work*"', OPENED_PATHS),
    ('comm != "workload"', []),
    ("__probe_ip == 0", []),
    ("__probe_ip > 0xffffffff80000000", OPENED_PATHS),
]


@pytest.mark.parametrize(("text", "passing"), PASSING, ids=[row[0] for row in PASSING])
def test_passing(tracefs: Any, workload: Any, build: Build, text: str, passing: list[str]) -> None:
    text = text.replace("DFD", "18446744073709551516" if build.extends_sign else "4294967196")
    define(tracefs, FIELDS.replace(" sa=+0(%si):string[2]", ""))
    tracefs.write(FILTER, f'({text}) && comm == "workload"'.encode())
    switch(tracefs, 1, "kprobes/f")
    for path in OPENED_PATHS:
        workload.open(path)
    switch(tracefs, 0, "kprobes/f")
    assert [body.partition(' st="')[2].partition('" us=')[0] for body in traced(tracefs)] == passing


def test_a_refused_filter_lets_everything_pass(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:f do_sys_openat2 st=+0(%si):string")
    tracefs.write(FILTER, b'comm == "nobody"')
    switch(tracefs, 1, "kprobes/f")
    workload.open("/etc/hostname")
    assert traced(tracefs) == []
    assert refused(tracefs, FILTER, "nosuch==1") == EINVAL
    workload.open("/etc/hostname")
    switch(tracefs, 0, "kprobes/f")
    assert any('st="/etc/hostname"' in body for body in traced(tracefs))


def test_a_filter_by_pid(tracefs: Any, workload: Any, build: Any) -> None:
    define(tracefs, "p:f do_sys_openat2")
    tracefs.write(FILTER, f"common_pid == {workload.pid}".encode())
    switch(tracefs, 1, "kprobes/f")
    workload.open("/etc/hostname")
    tracefs.write(FILTER, f"common_pid == {workload.pid + 100000}".encode())
    workload.open("/etc/hostname")
    assert traced(tracefs) == [f"f: ({build.openat2})"]


def test_a_filter_on_a_return(tracefs: Any, workload: Any, build: Any) -> None:
    width = 64 if build.opens_return_long else 32
    define(tracefs, f"r:f do_sys_openat2 ret=$retval:s{width}")
    tracefs.write(FILTER, b'ret < 0 && comm == "workload"')
    switch(tracefs, 1, "kprobes/f")
    workload.open("/etc/hostname")
    workload.open("/no/such")
    assert traced(tracefs) == [f"f: ({build.openat} <- do_sys_openat2) ret=-2"]


def test_a_filter_belongs_to_the_event(tracefs: Any) -> None:
    define(tracefs, "p:f do_sys_openat2")
    tracefs.write(FILTER, b"cpu == 0")
    define(tracefs, "-:f")
    define(tracefs, "p:f do_sys_openat2")
    assert tracefs.read(FILTER) == b"none\n"
