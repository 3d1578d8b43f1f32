"""Refused probe definitions: errno, message, and the caret, which is the ^ in the command below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from errno import E2BIG, EADDRNOTAVAIL, EBUSY, EEXIST, EILSEQ, EINVAL, ENOENT, ENOTSUP, EPERM, ERANGE
from typing import Any

import pytest

from .builds import AUTO, BTF, BY_MODULE, CURRENT, EPROBES, LARGE_EVENTS, NO_ENTRY
from .builds import SUFFIX as TAKES_SUFFIX
from .builds import SYMSTR as OFFERS_SYMSTR
from .builds import VALIABLE as SAYS_VALIABLE
from .text import Record, define, errors, probes, refused

PLACE = "Invalid probed address or symbol"
FAILED = "Failed to register probe event"
NAME = "Event name must follow the same rules as C identifiers"
GROUP = "Group name must follow the same rules as C identifiers"
BOUNDARY = "Probe point is not an instruction boundary"
SUFFIX = "Invalid probed address suffix"
RETPROBE = "Retprobe address must be an function entry"
UNIQUE = "The symbol is not unique"
MAXACTIVE = "Invalid maxactive number"
REGISTER = "Invalid register name"
VARIABLE = "Invalid $-variable specified"
VALIABLE = "Invalid $-valiable specified"  # as some kernels spell it
STACK = "Invalid stack number"
RETVAL = "$retval is not available on probe"
NUMBER = "Invalid argument number"
MEMORY = "Invalid memory address"
FETCH = "Invalid fetch argument"
BRACE = "Dereference needs a brace"
OPEN = "Dereference brace is not closed"
OFFSET = "Invalid dereference offset"
DEEP = "Dereference is too much nested"
COMM = "$comm can not be dereferenced"
IMMEDIATE = "Invalid immediate value"
QUOTE = "String is not closed with '\"'"
TYPE = "Unknown type is specified"
BITFIELD = "Invalid bitfield"
STRING = "String accepts only memory argument"
SYMSTR = "Symbol String doesn't accept data/userdata"
ARRAY = "Invalid array size"
ARRAY_SUFFIX = "Array has wrong suffix"
USED = "This argument name is already used"
ARG_NAME = "Argument name must follow the same rules as C identifiers"
LONG = "Argument expression is too long"
BTFARG = "This variable is not found at this probe point"

# (errno, message) of one command; where kernels differ: {text in the README: (errno, message, command)}, last one wins.
REFUSALS: list[tuple[str, int, str]] = [
    # group and event
    ("p:^/foo do_sys_openat2", EINVAL, "Group name is not specified"),
    ("p:^ do_sys_openat2", EINVAL, "Event name is not specified"),
    ("p:^1foo do_sys_openat2", EINVAL, NAME),
    ("p:^fo-o do_sys_openat2", EINVAL, NAME),
    ("p:^1g/foo do_sys_openat2", EINVAL, GROUP),
    ("p:g/^a/b do_sys_openat2", EINVAL, NAME),
    ("p:g/^a.b do_sys_openat2", EINVAL, NAME),
    ("p:^a.b/c do_sys_openat2", EINVAL, GROUP),
    ("p:g/^1 do_sys_openat2", EINVAL, NAME),
    (f"p:^{'a' * 64} do_sys_openat2", EINVAL, "Event name is too long"),
    (f"p:^{'g' * 64}/e do_sys_openat2", EINVAL, "Group name is too long"),
    (f"p:^{'g' * 64}/ do_sys_openat2", EINVAL, "Group name is too long"),
    (f"p:g/^{'a' * 64} do_sys_openat2", EINVAL, "Event name is too long"),
    ("^p:sched/sched_switch do_sys_openat2", EEXIST, "Given group/event name is already used by another event"),
    ("^p:ftrace/print do_sys_openat2", EEXIST, "Given group/event name is already used by another event"),
    # maxactive
    ("r^0 do_sys_openat2", EINVAL, MAXACTIVE),
    ("r^1x:x do_sys_openat2", EINVAL, MAXACTIVE),
    ("r^99999999999:x do_sys_openat2", EINVAL, MAXACTIVE),
    ("r^4097:x do_sys_openat2", EINVAL, "Maxactive is too big"),
    # place
    ("r:x ^do_sys_openat2+4", EINVAL, RETPROBE),
    ("r:x ^do_sys_openat2+5", EINVAL, RETPROBE),
    ("p ^do_sys_openat2+1", EILSEQ, BOUNDARY),
    ("p ^do_sys_openat2+2", EILSEQ, BOUNDARY),
    ("p ^do_sys_openat2+3", EILSEQ, BOUNDARY),
    ("p ^do_sys_openat2-1", EINVAL, PLACE),
    ("p ^do_sys_openat2+-1", EINVAL, PLACE),
    ("p ^do_sys_openat2+", EINVAL, PLACE),
    ("p ^do_sys_openat2+x", EINVAL, PLACE),
    ("p ^do_sys_openat2+4294967296", EINVAL, PLACE),
    ("p ^0", EINVAL, FAILED),
    ("p ^-1", EINVAL, PLACE),
    ("p ^notify_die", EINVAL, FAILED),
    ("p ^do_int3", EINVAL, FAILED),
    ("p ^kprobe_dispatcher", EINVAL, FAILED),
    ("p ^start_kernel", EINVAL, FAILED),
    ("p ^jiffies", EINVAL, FAILED),
    ("p ^init_task", EINVAL, FAILED),
    ("p ^_stext", EINVAL, FAILED),
    ("p ^do_syscall_64", EINVAL, FAILED),
    ("p ^entry_SYSCALL_64", EINVAL, FAILED),
    ("p ^memcpy", EINVAL, FAILED),
    ("p ^get_kprobe", EINVAL, FAILED),
    ("p ^native_read_msr", EINVAL, FAILED),
    ("p ^__fentry__", EINVAL, FAILED),
    ("r:x ^do_int3", EINVAL, FAILED),
    # registers and variables
    ("p:x do_sys_openat2 ^%AX", EINVAL, REGISTER),
    ("p:x do_sys_openat2 ^%rax", EINVAL, REGISTER),
    ("p:x do_sys_openat2 ^%eax", EINVAL, REGISTER),
    ("p:x do_sys_openat2 ^%rip", EINVAL, REGISTER),
    ("p:x do_sys_openat2 ^%ds", EINVAL, REGISTER),
    ("p:x do_sys_openat2 ^%", EINVAL, REGISTER),
    ("p:x do_sys_openat2 %di ^%zz", EINVAL, REGISTER),
    ("p:x do_sys_openat2 a=^%zz:u8", EINVAL, REGISTER),
    ("p:x do_sys_openat2 ^$stack2049", EINVAL, STACK),
    ("p:x do_sys_openat2 ^$retval", EINVAL, RETVAL),
    ("p:x do_sys_openat2 a=^$retval:s32", EINVAL, RETVAL),
    # memory
    ("p:x ^do_sys_openat2 @nosuchsym", ENOENT, PLACE),
    ("p:x ^do_sys_openat2 @nosuchsym+4", ENOENT, PLACE),
    ("p:x ^do_sys_openat2 @", ENOENT, PLACE),
    ("p:x ^do_sys_openat2 @jiffies+x", EINVAL, FAILED),
    ("p:x do_sys_openat2 ^@0x", EINVAL, MEMORY),
    ("p:x do_sys_openat2 ^@12z", EINVAL, MEMORY),
    ("p:x do_sys_openat2 +0(%di^", EINVAL, OPEN),
    ("p:x do_sys_openat2 +0(+8(%di^", EINVAL, OPEN),
    ("p:x do_sys_openat2 ^+0 (%di)", EINVAL, BRACE),
    ("p:x do_sys_openat2 ^+(%di)", EINVAL, OFFSET),
    ("p:x do_sys_openat2 ^--8(%di)", EINVAL, OFFSET),
    ("p:x do_sys_openat2 ^+0%di", EINVAL, BRACE),
    ("p:x do_sys_openat2 ^0(%di)", EINVAL, FETCH),
    ("p:x do_sys_openat2 +0(^)", EINVAL, FETCH),
    ("p:x do_sys_openat2 +0(^$comm)", EINVAL, COMM),
    ('p:x do_sys_openat2 +0(^\\"a")', EINVAL, COMM),
    ("p:x do_sys_openat2 +0(+16(^%zz))", EINVAL, REGISTER),
    ("p:x do_sys_openat2 +u0^(%zz)", EINVAL, REGISTER),
    ("p:x do_sys_openat2 -0x10(^%zz)", EINVAL, REGISTER),
    ("p:x do_sys_openat2 ^+99999999999999999999(%di)", ERANGE, OFFSET),
    # immediates
    ("p:x do_sys_openat2 \\^x", EINVAL, IMMEDIATE),
    ("p:x do_sys_openat2 \\^", EINVAL, IMMEDIATE),
    ('p:x do_sys_openat2 \\"abc^', EINVAL, QUOTE),
    # types
    ("p:x do_sys_openat2 %di:^u7", EINVAL, TYPE),
    ("p:x do_sys_openat2 %di:^int", EINVAL, TYPE),
    ("p:x do_sys_openat2 %di:^", EINVAL, TYPE),
    ("p:x do_sys_openat2 %di:^U8", EINVAL, TYPE),
    ("p:x do_sys_openat2 %di:^u8:u8", EINVAL, TYPE),
    ("p:x do_sys_openat2 %di:^s128", EINVAL, TYPE),
    ("p:x do_sys_openat2 %di:^string", EINVAL, STRING),
    ("p:x do_sys_openat2 %di:^ustring", EINVAL, STRING),
    ("p:x do_sys_openat2 $stack:^string", EINVAL, STRING),
    ("p:x do_sys_openat2 %di:^b9@0/8", EINVAL, BITFIELD),
    ("p:x do_sys_openat2 %di:^b4@5/8", EINVAL, BITFIELD),
    ("p:x do_sys_openat2 %di:^b0@0/8", EINVAL, BITFIELD),
    ("p:x do_sys_openat2 %di:^b4@/8", EINVAL, BITFIELD),
    ("p:x do_sys_openat2 %di:^b/8", EINVAL, BITFIELD),
    ("p:x do_sys_openat2 %di:^b4@4/12", EINVAL, TYPE),
    ("p:x do_sys_openat2 %di:^b4@4", EINVAL, TYPE),
    ("p:x do_sys_openat2 %di:^u32[2]", EINVAL, STRING),
    ("p:x do_sys_openat2 +0(%si):u8[^65]", EINVAL, "Array number is too big"),
    ("p:x do_sys_openat2 +0(%si):u8[^0]", EINVAL, ARRAY),
    ("p:x do_sys_openat2 +0(%si):u8[^]", EINVAL, ARRAY),
    ("p:x do_sys_openat2 +0(%si):u8[^x]", EINVAL, ARRAY),
    ("p:x do_sys_openat2 +0(%si):u8[^-1]", EINVAL, ARRAY),
    ("p:x do_sys_openat2 +0(%si):u8[4^", EINVAL, "Array is not closed"),
    ("p:x do_sys_openat2 +0(%si):u8[4]^x", EINVAL, ARRAY_SUFFIX),
    ("p:x do_sys_openat2 +0(%si):u8[4]^[4]", EINVAL, ARRAY_SUFFIX),
    ("p:x do_sys_openat2 +0(%si):^[4]", EINVAL, TYPE),
    # names of arguments
    ("p:x do_sys_openat2 a=^", EINVAL, "No argument expression"),
    ("p:x do_sys_openat2 ^=%di", EINVAL, "Argument name is not specified"),
    ("p:x do_sys_openat2 a=^=%di", EINVAL, FETCH),
    ("p:x do_sys_openat2 ^1a=%di", EINVAL, ARG_NAME),
    ("p:x do_sys_openat2 ^a-b=%di", EINVAL, ARG_NAME),
    (f"p:x do_sys_openat2 ^{'n' * 33}=%di", EINVAL, "Argument name is too long"),
    ("p:x do_sys_openat2 a=%di ^a=%si", EINVAL, USED),
    ("p:x do_sys_openat2 %di ^arg1=%si", EINVAL, USED),
    ("p:x do_sys_openat2 arg2=%di ^%si", EINVAL, USED),
    ("p:x do_sys_openat2 ^common_pid=%di", EINVAL, USED),
    ("p:x do_sys_openat2 ^common_type=%di", EINVAL, USED),
    ("p:x do_sys_openat2 ^__probe_ip=%di", EINVAL, USED),
    ("p:x do_sys_openat2 ^__probe_func=%di", EINVAL, USED),
]

# Where kernels differ: {text in the README: (command, errno, message)}; the last one whose text is there holds.
VARYING: list[Mapping[str, tuple[str, int, str]]] = [
    {"": ("p:x ^do_sys_openat2%", ENOENT, PLACE), TAKES_SUFFIX: ("p:x do_sys_openat2^%", EINVAL, SUFFIX)},
    {"": ("p:x ^do_sys_openat2%ret", ENOENT, PLACE), TAKES_SUFFIX: ("p:x do_sys_openat2^%ret", EINVAL, SUFFIX)},
    {
        "": ("p:x ^do_sys_openat2%return+0", ENOENT, PLACE),
        TAKES_SUFFIX: ("p:x do_sys_openat2^%return+0", EINVAL, SUFFIX),
    },
    {
        "": ("p:x ^do_sys_openat2+5%return", EINVAL, PLACE),
        TAKES_SUFFIX: ("p:x ^do_sys_openat2+5%return", EINVAL, RETPROBE),
    },
    {"": ("p:^g.foo do_sys_openat2", EINVAL, NAME), AUTO: ("", 0, "p:g.foo do_sys_openat2")},
    {"": ("p:^g. do_sys_openat2", EINVAL, NAME), AUTO: ("", 0, "p:g. do_sys_openat2")},
    {
        "": ("p:g/^ do_sys_openat2", EINVAL, "Event name is not specified"),
        AUTO: ("", 0, "p:g/ do_sys_openat2"),
    },
    {"": ("p:^g-h/foo do_sys_openat2", EINVAL, GROUP), EPROBES: ("", 0, "p:g-h/foo do_sys_openat2")},
    {
        "": ("p ^do_sys_openat2+4294967295", EINVAL, FAILED),
        AUTO: ("p ^do_sys_openat2+4294967295", ENOENT, PLACE),
    },
    {"": ("p ^0xffffffffffffffff", EPERM, FAILED), AUTO: ("", 0, "p 0xffffffffffffffff")},
    {"": ("p ^0x10", EINVAL, FAILED), AUTO: ("", 0, "p 0x10")},
    {"": ("p ^no_such_symbol", ENOENT, PLACE), BTF: ("p ^no_such_symbol", EINVAL, PLACE)},
    {"": ("r ^no_such_symbol $retval", ENOENT, PLACE), BTF: ("r ^no_such_symbol $retval", EINVAL, PLACE)},
    {"": ("p ^x/y", ENOENT, PLACE), BTF: ("p ^x/y", EINVAL, PLACE)},
    {"": ("p ^name_show", EADDRNOTAVAIL, UNIQUE), BTF: ("p ^name_show", EINVAL, UNIQUE)},
    {"": ("r ^t_show", EADDRNOTAVAIL, UNIQUE), BTF: ("r ^t_show", EINVAL, UNIQUE)},
    {
        "": ("p^1:x do_sys_openat2", EINVAL, "Maxactive is not for kprobe"),
        BTF: ("p^1:x do_sys_openat2", EINVAL, "Maxactive is only for function exit"),
    },
    {
        "": ("p:x do_sys_openat2 ^@+4", EINVAL, "File offset is not available with kprobe"),
        "this_cpu_read": ("p:x do_sys_openat2 ^@+4", EINVAL, "File offset is not available for kernel probes"),
    },
    *(
        {
            "": (f"p:x do_sys_openat2 {argument}", EINVAL, VARIABLE),
            SAYS_VALIABLE: (f"p:x do_sys_openat2 {argument}", EINVAL, VALIABLE),
        }
        for argument in ("^$stack-1", "^$stackx", "^$stack0x1", "^$Comm", "^$arg", "^$argx", "^$foo", "^$", "a=^$arg*")
    ),
    {
        "": ("p:x do_sys_openat2 ^$arg0", EINVAL, NUMBER),
        NO_ENTRY: ("p:x do_sys_openat2 ^$arg0", ENOENT, "No BTF entry for this probe point"),
    },
    {
        "": ("p:x do_sys_openat2 ^$retvalx", EINVAL, VARIABLE),
        SAYS_VALIABLE: ("p:x do_sys_openat2 ^$retvalx", EINVAL, VALIABLE),
        BTF: ("p:x do_sys_openat2 ^$retvalx", EINVAL, RETVAL),
    },
    {
        "": ("p:x do_sys_openat2 ^$arg2049", EINVAL, NUMBER),
        BTF: ("p:x do_sys_openat2 ^$arg2049", ENOENT, BTFARG),
    },
    {"": ("p:x do_sys_openat2 ^nosucharg", EINVAL, FETCH), BTF: ("p:x do_sys_openat2 ^nosucharg", ENOENT, BTFARG)},
    {
        "": ("p:x do_sys_openat2 ^how.flags", EINVAL, FETCH),
        BTF: (
            "p:x do_sys_openat2 how.^flags",
            ENOTSUP,
            "Non pointer structure/union argument is not supported.",
        ),
    },
    {
        "": ("p:x do_sys_openat2 +u0(%si):^u8[4]", EINVAL, STRING),
        BTF: ("p:x do_sys_openat2 +u0(%si):u8[^4]", EINVAL, STRING),
    },
    {
        "": ("p:x do_sys_openat2 +0(%si):^symstr[4]", EINVAL, TYPE),
        OFFERS_SYMSTR: ("p:x do_sys_openat2 +0(%si):^symstr[4]", EINVAL, STRING),
        BTF: ("p:x do_sys_openat2 +0(%si):sym^str[4]", EINVAL, STRING),
    },
    {
        "": ("p:z do_sys_openat2+5 ^$arg1", EINVAL, VARIABLE),
        SAYS_VALIABLE: ("p:z do_sys_openat2+5 ^$arg1", EINVAL, VALIABLE),
        BTF: ("p:z do_sys_openat2+5 ^$arg1", EINVAL, "$arg* can be used only on function entry or exit"),
    },
    {
        "": ("r:y do_sys_openat2 $retval:^string", EINVAL, STRING),
        BTF: ("", 0, "r:y do_sys_openat2 $retval:string"),  # taken, for a long by mistake
        BY_MODULE: ("r:y do_sys_openat2 ^$retval:string", EINVAL, "This type does not fit for string."),
    },
    {
        "": (f"p:x do_sys_openat2 a=^{'%' * 64}", EINVAL, LONG),
        BTF: (f"p:x do_sys_openat2 a=^{'%' * 64}", E2BIG, LONG),
        CURRENT: (f"p:x do_sys_openat2 a=^{'%' * 64}", EINVAL, REGISTER),
    },
    {
        "": (f"p:x do_sys_openat2 +0(^{'+0(' * 14}%di{')' * 15}", EINVAL, DEEP),
        CURRENT: (
            f"p:x do_sys_openat2 {'+0(' * 8}^{'+0(' * 7}%di{')' * 15}",
            E2BIG,
            "Too many nested typecasts/dereferences",
        ),
    },
    {
        "": ("p:x do_sys_openat2 \\1:^symstr", EINVAL, TYPE),
        OFFERS_SYMSTR: ("p:x do_sys_openat2 \\1:^symstr", EINVAL, SYMSTR),
    },
    {
        "": ("p:x do_sys_openat2 $stack:^symstr", EINVAL, TYPE),
        OFFERS_SYMSTR: ("p:x do_sys_openat2 $stack:^symstr", EINVAL, SYMSTR),
    },
    {
        "": (
            "p:x do_sys_openat2" + "".join(f" a{n}=+0(%si):u64[64]" for n in range(6)) + " a6=^+0(%si):u64[64]",
            E2BIG,
            "Event too big (too many fields?)",
        ),
        BTF: (
            "p:x do_sys_openat2" + "".join(f" a{n}=+0(%si):u64[64]" for n in range(6)) + " a6=+0(^%si):u64[64]",
            E2BIG,
            "Event too big (too many fields?)",
        ),
        LARGE_EVENTS: ("", 0, "p:x do_sys_openat2" + "".join(f" a{n}=+0(%si):u64[64]" for n in range(7))),  # taken
    },
]


def check(tracefs: Any, command: str, number: int, message: str) -> None:
    assert refused(tracefs, "kprobe_events", command.replace("^", "")) == number
    assert errors(tracefs) == [Record("trace_kprobe: error: " + message, command)]
    assert probes(tracefs) == []


@pytest.mark.parametrize(("command", "number", "message"), REFUSALS, ids=[row[0][:60] for row in REFUSALS])
def test_refused(tracefs: Any, command: str, number: int, message: str) -> None:
    check(tracefs, command, number, message)


@pytest.mark.parametrize("expectations", VARYING, ids=[row[""][0][:60] for row in VARYING])
def test_refused_differently(
    tracefs: Any, choose: Callable[..., tuple[str, int, str]], expectations: Mapping[str, tuple[str, int, str]]
) -> None:
    command, number, message = choose(expectations)
    if command:
        check(tracefs, command, number, message)
    else:
        tracefs.write("kprobe_events", message.encode())


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("p", EINVAL),
        ("r", EINVAL),
        ("p:foo", EINVAL),
        ("q do_sys_openat2", EINVAL),
        ("P do_sys_openat2", EINVAL),
        ("-", EINVAL),
        ("-:", EINVAL),
        ("-nosuch", EINVAL),
        ("-:nosuch", ENOENT),
        ("-:kprobes/nosuch", ENOENT),
        ("p /bin/sh:0x100", EINVAL),
        ("p a:b/c", EINVAL),
        ("!p:foo", EINVAL),
        ("p:z do_sys_openat2\0junk", EINVAL),
        ("p:x do_sys_openat2" + " " * 4078, EINVAL),
    ],
)
def test_refused_without_a_word(tracefs: Any, command: str, number: int) -> None:
    """These leave nothing in error_log."""
    assert refused(tracefs, "kprobe_events", command) == number
    assert errors(tracefs) == []


@pytest.mark.parametrize(
    "expression", ["$comm:u8", "$comm:ustring", "$comm:string[2]", '\\"abc":u8', '\\"abc":string[2]']
)
def test_comm_and_immediate_strings_take_only_string(
    tracefs: Any, choose: Callable[..., list[Record]], expression: str
) -> None:
    command = f"p:x do_sys_openat2 {expression}"
    assert refused(tracefs, "kprobe_events", command) == EINVAL
    spoken = command.replace(":u", ":^u").replace(":s", ":^s")
    message = "trace_kprobe: error: $comm and immediate-string only accepts string type"
    assert errors(tracefs) == choose({"": [], BTF: [Record(message, spoken)]})


def test_the_command_is_shown_with_single_blanks(tracefs: Any) -> None:
    assert refused(tracefs, "kprobe_events", "  p:x\tdo_sys_openat2 \v %di   %zz # why") == EINVAL
    assert errors(tracefs) == [Record("trace_kprobe: error: Invalid register name", "p:x do_sys_openat2 %di ^%zz")]


def test_a_second_definition_must_fit_the_first(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2 %di")
    different = "trace_kprobe: error: Argument type or name is different from existing probe"
    for command, message in [
        ("^p:a do_sys_openat2 %di", "trace_kprobe: error: There is already the exact same probe event"),
        ("p:a do_sys_openat2 ^arg1=%di:u8", different),
        ("p:a do_sys_openat2 ^x=%di", different),
        ("p:a do_sys_openat2 %di ^%si", different),
        ("p:a do_sys_openat2 ^", different),
        ("p:a vfs_open ^%di:u64", different),
        ("^r:a do_sys_openat2 %di", "trace_kprobe: error: Probe type is different from existing probe"),
    ]:
        tracefs.write("error_log", b"", truncate=True)
        assert refused(tracefs, "kprobe_events", command.replace("^", "").rstrip()) == EEXIST
        assert errors(tracefs) == [Record(message, command)]
    assert probes(tracefs) == ["p:kprobes/a do_sys_openat2 arg1=%di"]


def test_error_log_keeps_the_last_eight(tracefs: Any) -> None:
    for number in range(10):
        assert refused(tracefs, "kprobe_events", f"p:x{number} do_sys_openat2 %zz") == EINVAL
    assert [record.command for record in errors(tracefs)] == [
        f"p:x{number} do_sys_openat2 ^%zz" for number in range(2, 10)
    ]


def test_error_log_is_cleared_only_by_truncating(tracefs: Any) -> None:
    assert refused(tracefs, "kprobe_events", "p:x do_sys_openat2 %zz") == EINVAL
    tracefs.write("error_log", b"whatever")
    assert len(errors(tracefs)) == 1
    tracefs.write("error_log", b"whatever", truncate=True)
    assert tracefs.read("error_log") == b""


def test_an_accepted_command_leaves_older_errors(tracefs: Any) -> None:
    assert refused(tracefs, "kprobe_events", "p:x do_sys_openat2 %zz") == EINVAL
    define(tracefs, "p:a do_sys_openat2")
    assert len(errors(tracefs)) == 1


def test_a_busy_event_is_refused_without_a_word(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    tracefs.write("events/kprobes/a/enable", b"1")
    assert refused(tracefs, "kprobe_events", "-:a") == EBUSY
    assert errors(tracefs) == []
