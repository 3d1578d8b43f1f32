"""What kprobe_events shows for what was written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from errno import EINVAL, ENOENT, EPERM
from typing import Any

import pytest

from .builds import AUTO, BTF, CURRENT, EPROBES, SUFFIX, SYMSTR
from .text import Record, errors, probes, refused

INSTANCES = {"": "r1:", EPROBES: "r10:"}  # of a return probe by itself: as many as CPUs; since 5.11 at least ten

SHOWN: list[tuple[str, str]] = [
    # forms of the head
    ("p do_sys_openat2", "p:kprobes/p_do_sys_openat2_0 do_sys_openat2"),
    ("p:foo do_sys_openat2", "p:kprobes/foo do_sys_openat2"),
    ("p:g/foo do_sys_openat2", "p:g/foo do_sys_openat2"),
    ("px:x do_sys_openat2", "p:kprobes/x do_sys_openat2"),
    ("r do_sys_openat2", "r10:kprobes/r_do_sys_openat2_0 do_sys_openat2"),
    ("r1 do_sys_openat2", "r1:kprobes/r_do_sys_openat2_0 do_sys_openat2"),
    ("r16:x do_sys_openat2", "r16:kprobes/x do_sys_openat2"),
    ("r0x10:x do_sys_openat2", "r16:kprobes/x do_sys_openat2"),
    ("r4096:x do_sys_openat2", "r4096:kprobes/x do_sys_openat2"),
    ("r-1:x do_sys_openat2", "r10:kprobes/x do_sys_openat2"),
    ("rx:x do_sys_openat2", "r10:kprobes/x do_sys_openat2"),
    ("r:x do_sys_openat2+0", "r10:kprobes/x do_sys_openat2"),
    (f"p:{'a' * 63} do_sys_openat2", f"p:kprobes/{'a' * 63} do_sys_openat2"),
    (f"p:{'g' * 63}/e do_sys_openat2", f"p:{'g' * 63}/e do_sys_openat2"),
    # forms of the place
    ("p do_sys_openat2+5", "p:kprobes/p_do_sys_openat2_5 do_sys_openat2+5"),
    ("p do_sys_openat2+0x5", "p:kprobes/p_do_sys_openat2_5 do_sys_openat2+5"),
    ("p do_sys_openat2+05", "p:kprobes/p_do_sys_openat2_5 do_sys_openat2+5"),
    ("p do_sys_openat2+0", "p:kprobes/p_do_sys_openat2_0 do_sys_openat2"),
    ("p nosuchmod:foo", "p:kprobes/p_nosuchmod_foo_0 nosuchmod:foo"),
    ("p nosuchmod:", "p:kprobes/p_nosuchmod__0 nosuchmod:"),
    ("p :foo", "p:kprobes/p__foo_0 :foo"),
    # blanks and comments
    ("  p do_sys_openat2", "p:kprobes/p_do_sys_openat2_0 do_sys_openat2"),
    ("\tp\tdo_sys_openat2\t", "p:kprobes/p_do_sys_openat2_0 do_sys_openat2"),
    ("p do_sys_openat2 # c", "p:kprobes/p_do_sys_openat2_0 do_sys_openat2"),
    ("p do_sys_openat2#c", "p:kprobes/p_do_sys_openat2_0 do_sys_openat2"),
    ("p:a do_sys_openat2\r\n", "p:kprobes/a do_sys_openat2"),
    ("p:b\vdo_sys_openat2\f%di\n", "p:kprobes/b do_sys_openat2 arg1=%di"),
    # arguments
    ("p:x do_sys_openat2 %ax %r15 %flags", "p:kprobes/x do_sys_openat2 arg1=%ax arg2=%r15 arg3=%flags"),
    (
        "p:x do_sys_openat2 %cs %ss %orig_ax %ip %sp",
        "p:kprobes/x do_sys_openat2 arg1=%cs arg2=%ss arg3=%orig_ax arg4=%ip arg5=%sp",
    ),
    (
        "p:x do_sys_openat2 $stack $stack0 $stack2048",
        "p:kprobes/x do_sys_openat2 arg1=$stack arg2=$stack0 arg3=$stack2048",
    ),
    ("p:x do_sys_openat2 arg1=$arg1", "p:kprobes/x do_sys_openat2 arg1=$arg1"),
    (
        "p:x do_sys_openat2 @0 @jiffies-4 @jiffies+4",
        "p:kprobes/x do_sys_openat2 arg1=@0 arg2=@jiffies-4 arg3=@jiffies+4",
    ),
    ("p:x do_sys_openat2 @0xffffffff81000000", "p:kprobes/x do_sys_openat2 arg1=@0xffffffff81000000"),
    ("p:x do_sys_openat2 +0(%di)x", "p:kprobes/x do_sys_openat2 arg1=+0(%di)x"),
    (
        "p:x do_sys_openat2 -8(%di) ++8(%di) +-8(%di)",
        "p:kprobes/x do_sys_openat2 arg1=-8(%di) arg2=++8(%di) arg3=+-8(%di)",
    ),
    ("p:x do_sys_openat2 +0(\\1)", "p:kprobes/x do_sys_openat2 arg1=+0(\\1)"),
    ("p:x do_sys_openat2 +0(+0x8(+u-0(@jiffies)))", "p:kprobes/x do_sys_openat2 arg1=+0(+0x8(+u-0(@jiffies)))"),
    ("p:x do_sys_openat2 +9223372036854775807(%di)", "p:kprobes/x do_sys_openat2 arg1=+9223372036854775807(%di)"),
    ("p:x do_sys_openat2 -9223372036854775808(%di)", "p:kprobes/x do_sys_openat2 arg1=-9223372036854775808(%di)"),
    (f"p:x do_sys_openat2 {'+0(' * 8}%di{')' * 8}", f"p:kprobes/x do_sys_openat2 arg1={'+0(' * 8}%di{')' * 8}"),
    ("p:x do_sys_openat2 \\1 \\-1 \\+1 \\0x10", "p:kprobes/x do_sys_openat2 arg1=\\1 arg2=\\-1 arg3=\\+1 arg4=\\0x10"),
    ('p:x do_sys_openat2 \\"abc" \\"" \\"a"b"', 'p:kprobes/x do_sys_openat2 arg1=\\"abc" arg2=\\"" arg3=\\"a"b"'),
    ("p:x do_sys_openat2 \\1:string", "p:kprobes/x do_sys_openat2 arg1=\\1:string"),
    # types
    ("p:x do_sys_openat2 %di:u8 %di:s64 %di:x16", "p:kprobes/x do_sys_openat2 arg1=%di:u8 arg2=%di:s64 arg3=%di:x16"),
    ("p:x do_sys_openat2 %di:symbol", "p:kprobes/x do_sys_openat2 arg1=%di:symbol"),
    ("p:x do_sys_openat2 %di:b0x4@0x2/0x20", "p:kprobes/x do_sys_openat2 arg1=%di:b0x4@0x2/0x20"),
    (
        "p:x do_sys_openat2 +0(%si):u8[0x10] +0(%si):u8[010]",
        "p:kprobes/x do_sys_openat2 arg1=+0(%si):u8[0x10] arg2=+0(%si):u8[010]",
    ),
    (
        "p:x do_sys_openat2 +0(%si):string[4] +u0(%si):ustring",
        "p:kprobes/x do_sys_openat2 arg1=+0(%si):string[4] arg2=+u0(%si):ustring",
    ),
    ("p:x do_sys_openat2 +0(%si):b4@0/8[4]", "p:kprobes/x do_sys_openat2 arg1=+0(%si):b4@0/8[4]"),
    # names of arguments
    ("p:x do_sys_openat2 A1_=%di", "p:kprobes/x do_sys_openat2 A1_=%di"),
    ("p:x do_sys_openat2 %di a=%si", "p:kprobes/x do_sys_openat2 arg1=%di a=%si"),
    (
        "p:x do_sys_openat2 common_cpu=%di cpu=%si comm=$comm if=%dx",
        "p:kprobes/x do_sys_openat2 common_cpu=%di cpu=%si comm=$comm if=%dx",
    ),
    (f"p:x do_sys_openat2 {'n' * 32}=%di", f"p:kprobes/x do_sys_openat2 {'n' * 32}=%di"),
    # return probes
    ("r:y do_sys_openat2 $retval", "r10:kprobes/y do_sys_openat2 arg1=$retval"),
    ("r:y do_sys_openat2 +0($retval):string %ax", "r10:kprobes/y do_sys_openat2 arg1=+0($retval):string arg2=%ax"),
]  # fmt: skip

# (text in the README of kernels that take it, errno of those that don't, line, what is shown)
LATER: list[tuple[str, int, str, str]] = [
    (SUFFIX, ENOENT, "p:x do_sys_openat2%return", "r10:kprobes/x do_sys_openat2"),
    (SUFFIX, EINVAL, "p:x do_sys_openat2+0%return", "r10:kprobes/x do_sys_openat2"),
    (SUFFIX, ENOENT, "r:x do_sys_openat2%return", "r10:kprobes/x do_sys_openat2"),
    (SUFFIX, ENOENT, "r5 do_sys_openat2%return", "r5:kprobes/r_do_sys_openat2_0 do_sys_openat2"),
    (SUFFIX, EINVAL, "p:x do_sys_openat2 $comm b=$COMM", "p:kprobes/x do_sys_openat2 arg1=$comm b=$COMM"),
    (AUTO, EINVAL, "p:g.foo do_sys_openat2", "p:g/foo do_sys_openat2"),
    (AUTO, EINVAL, "p:g/ do_sys_openat2", "p:g/p_do_sys_openat2_0 do_sys_openat2"),
    (AUTO, EINVAL, "p:g. do_sys_openat2", "p:g/p_do_sys_openat2_0 do_sys_openat2"),
    (EPROBES, EINVAL, "p:g-h/foo do_sys_openat2", "p:g-h/foo do_sys_openat2"),
    (AUTO, EPERM, "p 0xffffffffffffffff", "p:kprobes/p_0xffffffffffffffff 0xffffffffffffffff"),
    (SYMSTR, EINVAL, "p:x do_sys_openat2 %di:symstr", "p:kprobes/x do_sys_openat2 arg1=%di:symstr"),
]  # fmt: skip

# {text in the README: (line, what is shown)}; the last one whose text is there holds.
VARYING: list[Mapping[str, tuple[str, str]]] = [
    {
        "": ("p:x do_sys_openat2 $arg1 $arg3", "p:kprobes/x do_sys_openat2 arg1=$arg1 arg2=$arg3"),
        BTF: ("p:x do_sys_openat2 $arg1 $arg3", "p:kprobes/x do_sys_openat2 dfd=dfd how=how"),
    },
    {
        "": ("p:x do_sys_openat2 $arg2:symbol", "p:kprobes/x do_sys_openat2 arg1=$arg2:symbol"),
        BTF: ("p:x do_sys_openat2 $arg2:symbol", "p:kprobes/x do_sys_openat2 filename=filename:symbol"),
    },
    {
        "": (
            f"p:x do_sys_openat2 {'+0(' * 14}%di{')' * 14}",
            f"p:kprobes/x do_sys_openat2 arg1={'+0(' * 14}%di{')' * 14}",
        ),
        CURRENT: (
            f"p:x do_sys_openat2 {'+0(' * 8}%di{')' * 8}",
            f"p:kprobes/x do_sys_openat2 arg1={'+0(' * 8}%di{')' * 8}",
        ),
    },
]


@pytest.mark.parametrize(("line", "shown"), SHOWN, ids=[row[0].strip()[:50] for row in SHOWN])
def test_shown(tracefs: Any, choose: Callable[..., str], line: str, shown: str) -> None:
    tracefs.write("kprobe_events", line.encode())
    shown = shown.replace("r10:", choose(INSTANCES))
    assert probes(tracefs) == [shown]
    assert errors(tracefs) == []
    assert tracefs.read("dynamic_events").decode() == shown + "\n"


@pytest.mark.parametrize(("text", "number", "line", "shown"), LATER, ids=[row[2][:50] for row in LATER])
def test_shown_by_later_kernels(
    tracefs: Any, choose: Callable[..., Any], text: str, number: int, line: str, shown: str
) -> None:
    instances = choose(INSTANCES)
    if choose({"": False, text: True}):
        tracefs.write("kprobe_events", line.encode())
        assert probes(tracefs) == [shown.replace("r10:", instances)]
        assert errors(tracefs) == []
    else:
        assert refused(tracefs, "kprobe_events", line) == number
        assert probes(tracefs) == []


@pytest.mark.parametrize("expectations", VARYING, ids=[row[""][0] for row in VARYING])
def test_shown_differently(
    tracefs: Any, choose: Callable[..., tuple[str, str]], expectations: Mapping[str, tuple[str, str]]
) -> None:
    line, shown = choose(expectations)
    tracefs.write("kprobe_events", line.encode())
    assert probes(tracefs) == [shown]


def test_what_is_shown_can_be_written_again(tracefs: Any, choose: Callable[..., bool]) -> None:
    later = [(line, shown) for text, _, line, shown in LATER if choose({"": False, text: True})]
    for line, _ in SHOWN + later:
        tracefs.write("kprobe_events", line.encode())
        shown = tracefs.read("kprobe_events")
        tracefs.write("kprobe_events", b"", truncate=True)
        tracefs.write("kprobe_events", shown)
        assert tracefs.read("kprobe_events") == shown
        tracefs.write("kprobe_events", b"", truncate=True)


def test_oldest_first(tracefs: Any) -> None:
    for name in ("c", "a", "b"):
        tracefs.write("kprobe_events", f"p:g{name}/{name} do_sys_openat2".encode())
    assert tracefs.read("kprobe_events") == (b"p:gc/c do_sys_openat2\np:ga/a do_sys_openat2\np:gb/b do_sys_openat2\n")


def test_an_address_is_never_shown(tracefs: Any, choose: Callable[..., bool]) -> None:
    """An address that is no text is taken as one that may come with a module; it is printed hashed.

    A kernel that has no randomness yet, just after boot, prints (____ptrval____).  Up to 5.17 it is refused.
    """
    if not choose({"": False, AUTO: True}):
        assert refused(tracefs, "kprobe_events", "p 0x10") == EINVAL
        assert errors(tracefs) == [Record("trace_kprobe: error: Failed to register probe event", "p ^0x10")]
        return
    tracefs.write("kprobe_events", b"p 0x10")
    (line,) = probes(tracefs)
    event, place = line.removeprefix("p:kprobes/p_").split()
    assert re.fullmatch(r"0x00000000[0-9a-f]{8}|0x\(____ptrval____\)", place)
    assert place != "0x0000000000000010"
    assert event == place


@pytest.mark.parametrize("count", [127, 128])
def test_many_arguments(tracefs: Any, count: int) -> None:
    arguments = "".join(f" a{number}=%di" for number in range(count))
    tracefs.write("kprobe_events", f"p:x do_sys_openat2{arguments}".encode())
    assert probes(tracefs) == [f"p:kprobes/x do_sys_openat2{arguments}"]


def test_the_129th_argument_is_dropped(tracefs: Any, choose: Callable[..., bool]) -> None:
    if choose({"": False, BTF: True}):
        with pytest.raises(OSError, match="too long"):
            tracefs.write("kprobe_events", f"p:x do_sys_openat2{' %di' * 129}".encode())
        return
    tracefs.write("kprobe_events", f"p:x do_sys_openat2{' %di' * 129}".encode())
    assert probes(tracefs)[0].endswith(" arg127=%di arg128=%di")
