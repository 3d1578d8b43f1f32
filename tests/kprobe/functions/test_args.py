"""`kprobe args`: types, names and kernels that lack what newer ones have."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe import Event, Tracer
from kprobe.cli import main
from kprobe.definitions.definition import parse
from kprobe.functions.definitions import Offers, entry, leaving
from kprobe.kernel.prototype import CType, Parameter, Prototype
from kprobe_sim import SimulatedKernel, Task

NEW = Offers("$stack<index>, $arg<N>, x8/16/32/64, ustring")
POINTER = CType("void *", "ptr", 8, False)
TEXT = CType("const char *", "ptr", 8, False)
INT = CType("int", "int", 4, True)
VOID = CType("void", "void", 0, False)
PLACE = parse("p:f").place


def prototype(*parameters: tuple[str, CType], returns: CType = VOID) -> Prototype:
    return Prototype(tuple(Parameter(*each) for each in parameters), returns)


@pytest.mark.parametrize(
    ("c_type", "shown"),
    [
        (INT, "$arg1:s32"),
        (CType("size_t", "int", 8, False), "$arg1:u64"),
        (CType("bool", "bool", 1, False), "$arg1:u8"),
        (CType("char", "char", 1, True), "$arg1:s8"),
        (CType("enum pid_type", "enum", 4, False), "$arg1:u32"),
        (POINTER, "$arg1:x64"),
        (TEXT, "+0($arg1):string"),
        (CType("const char __user *", "ptr", 8, False), "+0($arg1):ustring"),
        (CType("char *", "ptr", 8, False), "$arg1:x64"),
        (CType("kuid_t", "struct", 4, False), "$arg1:x64"),
    ],
)
def test_types(c_type: CType, shown: str) -> None:
    assert entry(PLACE, prototype(("a", c_type)), NEW) == f"p:f f a={shown}"


def test_a_struct_in_two_registers_and_one_on_the_stack() -> None:
    pair, large = CType("struct pair", "struct", 16, False), CType("struct large", "struct", 24, False)
    found = prototype(("a", pair), ("b", large), ("c", INT), ("...", CType("...", "void", 0, False)))
    assert entry(PLACE, found, NEW) == "p:f f a_0=$arg1:x64 a_1=$arg2:x64 c=$arg3:s32"


def test_names_that_the_kernel_does_not_take() -> None:
    names = ("common_pid", "", "x" * 40, "x" * 50)
    shown = [
        word.partition("=")[0] for word in entry(PLACE, prototype(*((name, INT) for name in names)), NEW).split()[2:]
    ]
    assert shown == ["arg_common_pid", "arg2", "x" * 31, "arg4"]


def test_a_function_with_a_long_name_or_dots() -> None:
    place = parse("p:mymod:mine.isra.0").place
    assert entry(place, prototype(), NEW) == "p:mine_isra_0 mymod:mine.isra.0"
    long = parse("p:" + "f" * 80).place
    assert leaving(long, prototype(returns=INT), NEW) == f"r:{'f' * 56}_return {'f' * 80} ret=$retval:s32"


def test_registers_where_there_is_no_arg() -> None:
    old = Offers("")
    found = prototype(*((name, INT) for name in "abcdefgh"))
    assert entry(PLACE, found, old) == (
        "p:f f a=%di:s32 b=%si:s32 c=%dx:s32 d=%cx:s32 e=%r8:s32 f=%r9:s32 g=$stack1:s32 h=$stack2:s32"
    )
    path = parse("p:do_sys_open").place
    assert entry(path, prototype(("dfd", INT), ("filename", TEXT)), old) == (
        "p:do_sys_open do_sys_open dfd=%di:s32 filename=+0(%si):string"
    )
    assert leaving(PLACE, prototype(returns=POINTER), old) == "r:f_return f ret=$retval"


@pytest.mark.parametrize("series", ["4.4", "4.19"])
def test_a_kernel_without_prototypes(series: str, capfd: Any) -> None:
    tracefs = SimulatedKernel(series).tracefs
    assert main(["args", "vfs_read"], tracefs=tracefs) == 0
    assert tuple(capfd.readouterr()) == (
        "p:vfs_read vfs_read di=%di si=%si dx=%dx cx=%cx r8=%r8 r9=%r9\nr:vfs_read_return vfs_read ret=$retval\n",
        "NOTE: no prototype of vfs_read: these are the registers that arguments can be in\n",
    )
    assert tracefs.read("kprobe_events") == b""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["vfs_read+4"], "ERROR: this is not [MODULE:]FUNCTION\n  vfs_read+4\n  ^\n"),
        (["0xffffffff81000000"], "ERROR: this is not [MODULE:]FUNCTION\n"),
        (["a", "b"], "ERROR: args takes no 'b'\n"),
        ([], "ERROR: args takes a function's name\n"),
        (["vfs_*"], "ERROR: this is not [MODULE:]FUNCTION\n  vfs_*\n  ^\n"),
    ],
)
def test_usage(words: list[str], said: str, capfd: Any) -> None:
    assert main(["args", *words], tracefs=SimulatedKernel("6.12").tracefs) == 2
    assert capfd.readouterr().err.startswith(said)


# As guests with these kernels gave them by their own BTF.
READS = {
    "5.10": "file=$arg1:x64 path=+0(+40(+24($arg1))):string buf=$arg2:x64 count=$arg3:u64 pos=$arg4:x64",
    "6.1": "file=$arg1:x64 path=+0(+40(+24($arg1))):string buf=$arg2:x64 count=$arg3:u64 pos=$arg4:x64",
    "6.12": "file=$arg1:x64 path=+0(+40(+72($arg1))):string buf=$arg2:x64 count=$arg3:u64 pos=$arg4:x64",
}
ON_6_12 = {
    "submit_bio": "bio=$arg1:x64 sector=+32($arg1):u64 size=+40($arg1):u32",
    "tcp_v4_connect": (
        "sk=$arg1:x64 sk_family=+16($arg1):u16 uaddr=$arg2:x64 uaddr_family=+0($arg2):u16 addr_len=$arg3:s32"
    ),
    "begin_new_exec": "bprm=$arg1:x64 name=+0(+96($arg1)):string",
    "vfs_statx": (
        "dfd=$arg1:s32 filename=$arg2:x64 name=+0(+0($arg2)):string flags=$arg3:s32 stat=$arg4:x64 "
        "request_mask=$arg5:u32"
    ),
    "free_module": "mod=$arg1:x64 name=+24($arg1):string",
    "wake_up_process": "p=$arg1:x64 task=+2976($arg1):string tid=+2432($arg1):s32",
}


@pytest.mark.parametrize(
    ("series", "function", "fetched"),
    [
        *((series, "vfs_read", fetched) for series, fetched in READS.items()),
        *(("6.12", function, fetched) for function, fetched in ON_6_12.items()),
    ],
)
def test_members_of_what_a_parameter_points_to(series: str, function: str, fetched: str, capfd: Any) -> None:
    assert main(["args", function], tracefs=SimulatedKernel(series).tracefs) == 0
    assert capfd.readouterr().out.splitlines()[0] == f"p:{function} {function} {fetched}"


@pytest.mark.parametrize("series", ["5.10", "6.12"])
def test_the_name_of_a_file_is_fetched(series: str, capfd: Any) -> None:
    kernel = SimulatedKernel(series)
    assert main(["args", "vfs_read"], tracefs=kernel.tracefs) == 0
    definition = capfd.readouterr().out.splitlines()[0]
    file, dentry, name = 0xFFFF888000001000, 0xFFFF888000002000, 0xFFFF888000003000
    where = {"5.10": 24, "6.12": 72}[series]
    memory = {
        file + where: dentry.to_bytes(8, "little"),
        dentry + 40: name.to_bytes(8, "little"),
        name: b"hostname\0",
    }
    with Tracer(kernel.tracefs).trace(definition, filter='path == "hostname"') as trace:
        kernel.call("vfs_read", task=Task(42, "cat"), args=(file, 0, 7, 0), memory=memory, returns=7)
        kernel.call("vfs_read", task=Task(42, "cat"), args=(0, 0, 8, 0), returns=8)
        trace.stop()
        (event,) = trace
    assert isinstance(event, Event)
    assert (event.fields["path"], event.fields["count"]) == ("hostname", 7)


def test_names_of_members_are_taken_once() -> None:
    file, text = CType("const struct file *", "ptr", 8, False), CType("const unsigned char *", "ptr", 8, False)
    found = prototype(
        ("path", INT), ("a", file), ("b", file), ("b_path", INT), ("none", CType("struct other *", "ptr", 8, False))
    )
    assert entry(PLACE, found, NEW, lambda *_: ((8, 16), text)) == (
        "p:f f path=$arg1:s32 a=$arg2:x64 a_path=+0(+16(+8($arg2))):string b=$arg3:x64 b_path=$arg4:s32 none=$arg5:x64"
    )
    assert entry(PLACE, found, Offers(""), lambda *_: ((8, 16), text)) == (
        "p:f f path=%di:s32 a=%si a_path=+0(+16(+8(%si))):string b=%dx b_path=%cx:s32 none=%r8"
    )


@pytest.mark.parametrize(
    ("c_type", "shown"),
    [
        (CType("char[16]", "array", 16, False), " a_name=+8($arg1):string"),
        (CType("const char *", "ptr", 8, False), " a_name=+0(+8($arg1)):string"),
        (CType("dev_t", "int", 4, False), " a_name=+8($arg1):u32"),
        (CType("int[4]", "array", 16, False), ""),
        (CType("void *", "ptr", 8, False), ""),
        (CType("struct list_head", "struct", 16, False), ""),
    ],
)
def test_types_of_members(c_type: CType, shown: str) -> None:
    found = prototype(("a", CType("struct module *", "ptr", 8, False)), ("name", INT))
    assert entry(PLACE, found, NEW, lambda *_: ((8,), c_type)) == f"p:f f a=$arg1:x64{shown} name=$arg2:s32"
