"""Values in the trace: every kind of argument and every type, at entry and at return.

ksys_fadvise64_64 is probed for most of them: the workload puts what it likes into %di (32 bits), %si, %dx and %cx.
"""

from __future__ import annotations

from typing import Any

import pytest

from .builds import EMPTY_STRINGS, READ_AS_ONE, READ_AS_TASK, SYMSTR, Build
from .text import define, show_only, switch, traced

MEMORY = 0x10000000  # where the workload's data lies
DATA = bytes(range(0xF0, 0x100)) + b"hello world\0" + b"\x01\x80" + MEMORY.to_bytes(8, "little") + b'\n"\t\0'
STRING = MEMORY + 16
POINTER = MEMORY + 30


def fetch(
    tracefs: Any, workload: Any, expressions: str, *, place: str = "p:e ksys_fadvise64_64", offset: int = MEMORY
) -> str:
    """Return what an event of these arguments prints of fadvise(-2, offset, -3, 0x12345678)."""
    define(tracefs, f"{place} {expressions}")
    show_only(tracefs, "workload", "kprobes/e")
    workload.fadvise(-2, offset, -3, 0x12345678, data=DATA)
    (body,) = traced(tracefs)
    return body.partition(") ")[2]


@pytest.mark.parametrize(
    ("type_", "di", "si", "dx", "cx"),
    [
        ("u8", "254", "248", "253", "120"),
        ("u16", "65534", "48888", "65533", "22136"),
        ("u32", "4294967294", "3735928568", "4294967293", "305419896"),
        ("u64", "4294967294", "9759300391952826104", "18446744073709551613", "305419896"),
        ("s8", "-2", "-8", "-3", "120"),
        ("s16", "-2", "-16648", "-3", "22136"),
        ("s32", "-2", "-559038728", "-3", "305419896"),
        ("s64", "4294967294", "-8687443681756725512", "-3", "305419896"),
        ("x8", "0xfe", "0xf8", "0xfd", "0x78"),
        ("x16", "0xfffe", "0xbef8", "0xfffd", "0x5678"),
        ("x32", "0xfffffffe", "0xdeadbef8", "0xfffffffd", "0x12345678"),
        ("x64", "0xfffffffe", "0x876fffffdeadbef8", "0xfffffffffffffffd", "0x12345678"),
    ],
)
def test_integers(tracefs: Any, workload: Any, build: Build, type_: str, di: str, si: str, dx: str, cx: str) -> None:
    if build.extends_sign:
        di = {"u64": "18446744073709551614", "s64": "-2", "x64": "0xfffffffffffffffe"}.get(type_, di)
    expressions = " ".join(f"{register}=%{register}:{type_}" for register in ("di", "si", "dx", "cx"))
    printed = fetch(tracefs, workload, expressions, offset=0x876FFFFFDEADBEF8)
    assert printed == f"di={di} si={si} dx={dx} cx={cx}"


def test_untyped(tracefs: Any, workload: Any, build: Build) -> None:
    first = "0xfffffffffffffffe" if build.extends_sign else "0xfffffffe"
    printed = fetch(tracefs, workload, "%di %si %dx %cx")
    assert printed == f"arg1={first} arg2=0x10000000 arg3=0xfffffffffffffffd arg4=0x12345678"


def test_arguments_by_number(tracefs: Any, workload: Any, build: Build) -> None:
    first = "0xfffffffffffffffe" if build.extends_sign else "0xfffffffe"
    printed = fetch(tracefs, workload, "a=$arg1 b=$arg2:u64 c=$arg3:s64 d=$arg4:x16")
    assert printed == f"a={first} b=268435456 c=-3 d=0x5678"


def test_registers_of_the_kernel(tracefs: Any, workload: Any, build: Build) -> None:
    entry, _, size = build.fadvise.partition("+")[2].partition("/")
    printed = fetch(tracefs, workload, "%cs %ss %ip:symbol")
    assert printed == f"arg1=0x10 arg2=0x18 arg3=ksys_fadvise64_64+{int(entry, 16) + 1:#x}/{size}"


@pytest.mark.parametrize(
    ("type_", "printed"),
    [
        ("b4@0/8", "8"),
        ("b4@4/8", "7"),
        ("b8@0/8", "120"),
        ("b1@3/16", "1"),
        ("b3@12/16", "5"),
        ("b4@28/32", "1"),
        ("b8@12/32", "69"),
        ("b1@63/64", "0"),
        ("b32@0/64", "305419896"),
        ("b0x4@0x8/0x20", "6"),
    ],
)
def test_bitfields(tracefs: Any, workload: Any, type_: str, printed: str) -> None:
    assert fetch(tracefs, workload, f"a=%cx:{type_}") == f"a={printed}"


def test_memory(tracefs: Any, workload: Any) -> None:
    printed = fetch(tracefs, workload, "a=+0(%si):u8 b=+1(%si):x16 c=+0x2(%si):s32 d=+0(%si):x64 e=+8(%si)")
    assert printed == "a=240 b=0xf2f1 c=-168496142 d=0xf7f6f5f4f3f2f1f0 e=0xfffefdfcfbfaf9f8"


def test_user_memory(tracefs: Any, workload: Any) -> None:
    printed = fetch(tracefs, workload, "a=+u0(%si):u8 b=+u1(%si):x16 c=+u16(%si):string d=+16(%si):ustring")
    assert printed == 'a=240 b=0xf2f1 c="hello world" d="hello world"'


def test_memory_below_the_pointer(tracefs: Any, workload: Any) -> None:
    assert fetch(tracefs, workload, "a=-16(%si):u8 b=-0x10(%si):x8", offset=STRING) == "a=240 b=0xf0"


def test_pointers_to_pointers(tracefs: Any, workload: Any) -> None:
    printed = fetch(tracefs, workload, "a=+30(%si) b=+16(+30(%si)):string c=+22(+0(+30(%si))):string", offset=MEMORY)
    assert printed == 'a=0x10000000 b="hello world" c=(fault)'


def test_strings(tracefs: Any, workload: Any) -> None:
    printed = fetch(tracefs, workload, "a=+0(%si):string b=+6(%si):string c=+0(%dx):string", offset=STRING)
    assert printed == 'a="hello world" b="world" c=(fault)'


def test_strings_are_printed_raw(tracefs: Any, workload: Any) -> None:
    assert fetch(tracefs, workload, "a=+38(%si):string") == 'a="\n"\t"'


def test_an_empty_user_string_prints_as_a_fault(tracefs: Any, workload: Any, build: Build, choose: Any) -> None:
    """Length 0 is taken for a fault when printing (5.10 to 6.12)."""
    define(tracefs, "p:e do_sys_openat2 a=+0(%si):string")
    show_only(tracefs, "workload", "kprobes/e")
    workload.open("")
    shown = choose({"": "(fault)", EMPTY_STRINGS: '""'})
    assert traced(tracefs) == [f"e: ({build.openat2}) a={shown}"]


def test_a_long_string(tracefs: Any, workload: Any, build: Build) -> None:
    define(tracefs, "p:e do_sys_openat2 a=+0(%si):string")
    show_only(tracefs, "workload", "kprobes/e")
    workload.open("/" + "x" * 500)
    assert traced(tracefs) == [f'e: ({build.openat2}) a="/{"x" * 500}"']


def test_arrays(tracefs: Any, workload: Any) -> None:
    printed = fetch(
        tracefs,
        workload,
        "a=+0(%si):u8[4] b=+0(%si):x16[2] c=+0(%si):s32[1] d=+28(%si):s8[2] e=+0(%si):x64[2] f=+0(%si):b4@4/8[2]",
    )
    assert printed == (
        "a={240,241,242,243} b={0xf1f0,0xf3f2} c={-202182160} d={1,-128} "
        "e={0xf7f6f5f4f3f2f1f0,0xfffefdfcfbfaf9f8} f={15,15}"
    )


def test_an_array_of_strings(tracefs: Any, workload: Any) -> None:
    """string[N] follows N pointers."""
    data = (STRING).to_bytes(8, "little") + (STRING + 6).to_bytes(8, "little") + b"hello world\0"
    define(tracefs, "p:e ksys_fadvise64_64 a=+0(%si):string[2] b=+0(%si):ustring[2]")
    show_only(tracefs, "workload", "kprobes/e")
    workload.fadvise(-2, MEMORY, 0, data=data)
    (body,) = traced(tracefs)
    assert body.partition(") ")[2] == 'a={"hello world","world"} b={"hello world","world"}'


def test_symbols(tracefs: Any, workload: Any, build: Build) -> None:
    printed = fetch(tracefs, workload, "a=$stack0:symbol c=%cx:symbol d=%r8:symbol")
    assert printed.startswith(f"a={build.fadvise_entry} c=0x12345678 d=")


@pytest.mark.needs(SYMSTR)
def test_symbols_as_strings(tracefs: Any, workload: Any, build: Build) -> None:
    assert fetch(tracefs, workload, "a=$stack0:symstr") == f'a="{build.fadvise_entry}"'


@pytest.mark.needs(SYMSTR)
def test_the_end_of_a_symbol_is_overwritten(tracefs: Any, workload: Any, build: Build) -> None:
    """Its terminating zero isn't counted, so the next string begins there."""
    printed = fetch(tracefs, workload, "a=$stack0:symstr b=%di:symbol c=%cx:symstr")
    assert printed == f'a="{build.fadvise_entry}0x12345678" b=0xfffffffe c="0x12345678"'


def test_a_symbol_array(tracefs: Any, workload: Any, build: Build) -> None:
    assert fetch(tracefs, workload, "a=+0($stack):symbol[1]") == f"a={{{build.fadvise_entry}}}"


def test_the_stack(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:e ksys_fadvise64_64 a=$stack b=%sp c=$stack0 d=+0($stack) e=$stack1 f=+8(%sp)")
    show_only(tracefs, "workload", "kprobes/e")
    workload.fadvise(-2, 0, 0)
    (body,) = traced(tracefs)
    values = dict(word.split("=") for word in body.partition(") ")[2].split())
    assert values["a"] == values["b"]
    assert values["c"] == values["d"]
    assert values["e"] == values["f"]
    assert values["a"].startswith("0xffff")
    assert values["c"].startswith("0xffffffff8")


def test_comm(tracefs: Any, workload: Any) -> None:
    assert fetch(tracefs, workload, "$comm b=$COMM:string") == 'arg1="workload" b="workload"'


def test_immediates(tracefs: Any, workload: Any) -> None:
    printed = fetch(
        tracefs, workload, 'a=\\1 b=\\-1 c=\\0x10:u8 d=\\"foo" e=\\"f":string f=\\300:u8 g=\\-1:s16 h=\\+5:u64'
    )
    assert printed == 'a=0x1 b=0xffffffffffffffff c=16 d="foo" e="f" f=44 g=-1 h=5'


def test_memory_at_a_symbol(tracefs: Any, workload: Any, build: Build) -> None:
    printed = fetch(
        tracefs, workload, "a=@linux_banner:string b=@linux_banner+6:string c=@linux_banner:x32 d=@linux_banner:u8[5]"
    )
    banner = build.banner
    assert printed == f'a="{banner}" b="{banner[6:]}" c=0x756e694c d={{76,105,110,117,120}}'


def test_memory_at_an_address(tracefs: Any, workload: Any, build: Build) -> None:
    lines = [line.split() for line in tracefs.kallsyms().decode().splitlines()]
    address = next(int(line[0], 16) for line in lines if line[2:] == ["linux_banner"])
    printed = fetch(tracefs, workload, f"a=@{address:#x}:string b=@{address + 6:#x}:string c=@{address:#x}:x32")
    assert printed == f'a="{build.banner}" b="{build.banner[6:]}" c=0x756e694c'


def test_numbers_that_cannot_be_read(tracefs: Any, workload: Any, choose: Any) -> None:
    """At a kernel address the register that was to be loaded is stored; else, and for a byte, what was there stays."""
    kernel = "@0xffffffffffe00000"
    numbers = f"a={kernel}:x8 b={kernel}:x16 c={kernel}:x32 d={kernel}:x64 e={kernel}:x16[2] f={kernel}:b8@0/16"
    define(tracefs, "p:ones ksys_fadvise64_64 " + " ".join(["\\-1:x64"] * 5))
    define(tracefs, f"p:e ksys_fadvise64_64 {numbers} g=@0x10:x16 h=@0xffffffffff600000:x16 i=@0x8000000000000000:x16")
    for event in ("ones", "e"):
        tracefs.write(f"events/kprobes/{event}/filter", b'comm == "workload"')
    for event in ("ones", "e"):
        switch(tracefs, 1, f"kprobes/{event}")
        workload.fadvise(-2, MEMORY, -3, 0)
        switch(tracefs, 0, f"kprobes/{event}")
    shown = traced(tracefs)
    task = int(shown[1].partition(" d=")[2].split()[0], 16)
    half = f"{task & 0xFFFF:#x}"
    assert shown[1].partition(") ")[2] == choose(
        {
            "": "a=0x0 b=0x0 c=0x0 d=0x0 e={0x0,0x0} f=0 g=0xffff h=0xffff i=0xffff",
            READ_AS_TASK: f"a=0xff b={half} c={task & 0xFFFFFFFF:#x} d={task:#x} e={{{half},{half}}} f={task & 0xFF}"
            " g=0xffff h=0xffff i=0xffff",
            READ_AS_ONE: "a=0xff b=0x1 c=0x1 d=0x1 e={0x1,0x1} f=1 g=0xffff h=0xffff i=0xffff",
        }
    )
    assert choose({"": task in (0, 1), READ_AS_TASK: task >> 40 == 0xFFFF88})


def test_what_a_record_too_long_for_the_page_leaves(tracefs: Any, workload: Any) -> None:
    """It isn't made there: a failed read shows what the record before it left."""
    define(tracefs, "p:ones ksys_fadvise64_64 a=\\-1:x64")
    define(tracefs, "p:long ksys_fadvise64_64 " + " ".join(["+0(%si):string"] * 5))
    define(tracefs, "p:e ksys_fadvise64_64 a=@0x10:x64")
    for event in ("ones", "long", "e"):
        tracefs.write(f"events/kprobes/{event}/filter", b'comm == "workload"')
    for event in ("ones", "long", "e"):
        switch(tracefs, 1, f"kprobes/{event}")
        workload.fadvise(-2, MEMORY, -3, 0, data=b"x" * 1000 + b"\0")
        switch(tracefs, 0, f"kprobes/{event}")
    assert [line.partition(") ")[2] for line in traced(tracefs)] == ["a=0xffffffffffffffff"] * 2


def test_a_bad_address(tracefs: Any, workload: Any) -> None:
    """A number that can't be read prints whatever was in the buffer; a string says so."""
    printed = fetch(tracefs, workload, "a=+0(%dx):string b=@0x10:string c=+0(%di):string d=+0(+0(%dx)):ustring")
    assert printed == "a=(fault) b=(fault) c=(fault) d=(fault)"


def test_many_arguments(tracefs: Any, workload: Any) -> None:
    expressions = " ".join(f"a{number}=%cx:u8" for number in range(128))
    printed = fetch(tracefs, workload, expressions)
    assert printed == " ".join(f"a{number}=120" for number in range(128))


def test_the_return(tracefs: Any, workload: Any, choose: Any) -> None:
    place = "r:e ksys_fadvise64_64"
    printed = fetch(
        tracefs, workload, "a=$retval b=$retval:s32 c=$retval:u8 d=$retval:x64 e=%ax:s16 f=$comm", place=place
    )
    untyped = choose({"": "0xfffffff7", "<argname>": "-9"})  # an int, where BTF says so
    assert printed == f'a={untyped} b=-9 c=247 d=0xfffffff7 e=-9 f="workload"'


@pytest.mark.parametrize(
    ("path", "flags", "returned"),
    [("/dev/null", 0, "3 0x3"), ("/no/such/file", 0, "-2 0xfffffffffffffffe"), ("", 0, "-2 0xfffffffffffffffe")],
)
def test_the_return_of_an_open(tracefs: Any, workload: Any, build: Build, path: str, flags: int, returned: str) -> None:
    define(tracefs, "r:e do_sys_openat2 $retval:s64 $retval:x64")
    show_only(tracefs, "workload", "kprobes/e")
    result = workload.open(path, flags)
    signed, unsigned = returned.split()
    assert result == int(signed)
    if not build.opens_return_long:  # the upper half of %ax is zero
        signed, unsigned = str(result & 0xFFFFFFFF), hex(result & 0xFFFFFFFF)
    assert traced(tracefs) == [f"e: ({build.openat} <- do_sys_openat2) arg1={signed} arg2={unsigned}"]


@pytest.mark.parametrize(
    ("path", "flags", "mode", "printed"),
    [
        ("/etc/hostname", 0, 0, 'dfd=-100 f="/etc/hostname" flags=0x8000 mode=0'),
        ("/dev/null", 2, 0, 'dfd=-100 f="/dev/null" flags=0x8002 mode=0'),
        ("/tmp/made", 0o1101, 0o640, 'dfd=-100 f="/tmp/made" flags=0x8241 mode=416'),
        ("/", 0o200000, 0o777, 'dfd=-100 f="/" flags=0x18000 mode=0'),
    ],
)
def test_the_arguments_of_an_open(
    tracefs: Any, workload: Any, build: Build, path: str, flags: int, mode: int, printed: str
) -> None:
    define(tracefs, "p:e do_sys_openat2 dfd=%di:s32 f=+0(%si):string flags=+0(%dx):x64 mode=+8(%dx):u16")
    show_only(tracefs, "workload", "kprobes/e")
    assert workload.open(path, flags, mode) == 3
    assert traced(tracefs) == [f"e: ({build.openat2}) {printed}"]


def test_a_fork(tracefs: Any, workload: Any, build: Build, choose: Any) -> None:
    place = choose({"": 32, "<argname>": 40})  # of exit_signal in struct kernel_clone_args
    define(
        tracefs, f"p:e kernel_clone flags=+0(%di):x64 signal=+{place}(%di):s32", "r:f kernel_clone child=$retval:s32"
    )
    show_only(tracefs, "workload", "kprobes/e", "kprobes/f")
    child = workload.fork()
    assert traced(tracefs) == [
        f"e: ({build.clone}) flags=0x0 signal=17",
        f"f: ({build.fork} <- kernel_clone) child={child}",
    ]


def test_char(tracefs: Any, workload: Any, choose: Any) -> None:
    """6.2 and later."""
    if not choose({"": False, "char": "char" in tracefs.read("README").decode().split("type:")[1].split("\n")[0]}):
        with pytest.raises(OSError, match="Invalid argument"):
            define(tracefs, "p:e ksys_fadvise64_64 a=%di:char")
        return
    assert fetch(tracefs, workload, "a=+16(%si):char b=+16(%si):char[5]") == "a='h' b={'h','e','l','l','o'}"
