"""Fetch arguments: what the kernel records of a machine state, and how it shows it."""

from __future__ import annotations

import errno
import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim.builds.gates import gates_for
from kprobe_sim.builds.messages import answer
from kprobe_sim.language.fetch.argument import Store, compile_argument
from kprobe_sim.language.fetch.expression import Deref, From, Scope, Source
from kprobe_sim.language.primitives.refusal import Refusal
from kprobe_sim.machine.state import State

TYPES = json.loads((Path(__file__).parents[2] / "fixtures" / "types" / "6.1.json").read_text())
SCOPE = Scope(is_return=False, at_entry=True, gates=gates_for((6, 1, 190)))
USER = 0x7FFF184CAF4C
KERNEL = 0xFFFFC900003F3EC0
BANNER = (
    b"Linux version 6.1.0-54-cloud-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0, "
    b"GNU ld (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.190-1 (2026-10-16)\n\0"
)


class Segments:
    """Memory made of stretches of bytes; whatever lies between them faults."""

    def __init__(self, content: Mapping[int, bytes]) -> None:
        self.starts = sorted(content)
        self.blocks = [content[start] for start in self.starts]

    def stretch(self, address: int) -> bytes:
        index = bisect_right(self.starts, address) - 1
        return self.blocks[index][address - self.starts[index] :] if index >= 0 else b""

    def read(self, address: int, size: int) -> bytes | None:
        content = self.stretch(address)[:size]
        return content if len(content) == size else None

    def string(self, address: int, limit: int) -> bytes | None:
        content = self.stretch(address)[:limit]
        text, nul, _ = content.partition(b"\0")
        return text if nul or len(content) == limit else None


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def state(memory: Mapping[int, bytes] | None = None, **registers: int) -> State:
    return State(registers, Segments(memory or {}), (), b"cat")


def whole(event: Any, record: bytes) -> bytes:
    """Return the text of a record's arguments, made by the template."""
    text: bytes = event.args_text.template % (*event.args_text.values(record)[1:],)
    return text


def shown(registry: Any, arguments: str, at: State, kind: str = "p") -> str:
    """Define a probe with these arguments, hit it once, and return what the trace shows of them."""
    registry.truncate()
    registry.write(f"{kind}:x do_sys_openat2 {arguments}".encode("latin-1"))
    event = registry.event("kprobes", "x")
    record = next(iter(registry)).evaluate(at, (0,) * (3 + event.start // 8))
    return whole(event, record).decode("latin-1")


# ------------------------------------------------------------------------------------------- every type, as recorded


@pytest.mark.parametrize(
    ("task", "path", "stack_pointer", "user", "flags", "jiffies"),
    [
        ("one", b"/tmp/f0", 0xFFFFC900003F3EB8, 0x7FFF184CAF4C, 0x246, 0xFFFEE561),
        ("two words", b"/tmp/nonexistent", 0xFFFFC900004CBE80, 0x7FFD10E75F3D, 0x246, 0xFFFEE566),
    ],
)
@pytest.mark.parametrize("line", TYPES["definitions"], ids=lambda line: line.split()[0])
def test_every_type_as_recorded(
    line: str,
    task: str,
    path: bytes,
    stack_pointer: int,
    user: int,
    flags: int,
    jiffies: int,
    registry: Any,
    symbols: Any,
) -> None:
    name = re.split("[:/ ]", line)[2]
    stack = (0xFFFFFFFF8106B920, 0x8000)
    result = {"one": 3, "two words": 0xFFFFFFFFFFFFFFFE}[task]
    memory = Segments(
        {
            user: path + b"\0",
            stack_pointer: words(*stack),
            symbols.lookup("jiffies")[0].address: words(jiffies),
            symbols.lookup("linux_banner")[0].address: BANNER,
        }
    )
    registers = {"di": 0xFFFFFF9C, "si": user, "dx": stack_pointer + 8, "cx": 0x8000, "ip": 0xFFFFFFFF813485A1}
    registers |= {"sp": stack_pointer, "flags": flags}
    registry.write(line.encode())
    event = registry.events()[0]
    at = State(registers, memory, stack, task.encode(), result)
    record = next(iter(registry)).evaluate(at, (0,) * (3 + event.start // 8))
    assert whole(event, record).decode() == TYPES["shown"][task][name]
    assert b"".join(event.args_text.pieces(record)).decode() == TYPES["shown"][task][name]


# ----------------------------------------------------------------------------------------------------------- numbers


def test_numbers_are_cut_to_their_width(registry: Any) -> None:
    at = state(di=0x8899AABBCCDDEEFF)
    assert shown(registry, "a=%di:u8 b=%di:s8 c=%di:x16 d=%di:s32 e=%di", at) == (
        " a=255 b=-1 c=0xeeff d=-857870593 e=0x8899aabbccddeeff"
    )


def test_function_arguments_come_from_registers_then_from_the_stack(registry: Any) -> None:
    registers = {"di": 1, "si": 2, "dx": 3, "cx": 4, "r8": 5, "r9": 6}
    at = State(registers, Segments({}), (0x1111, 7, 8))
    text = shown(registry, "$arg1 $arg2 $arg3 $arg4 $arg5 $arg6 $arg7 $arg8 $arg9", at)
    assert text == " arg1=0x1 arg2=0x2 arg3=0x3 arg4=0x4 arg5=0x5 arg6=0x6 arg7=0x7 arg8=0x8 arg9=0x0"


def test_bitfields_take_their_bits(registry: Any) -> None:
    at = state({0x1000: bytes([0xF0, 0, 0, 0, 0x5A, 0, 0, 0])}, di=0b1011_0110, si=0x1000)
    assert shown(registry, "a=%di:b3@1/8 b=%di:b4@4/32 c=+0(%si):b4@4/32[2]", at) == " a=3 b=11 c={15,5}"


def test_a_fault_leaves_zero_and_the_user_reader_stays_below_the_kernel(registry: Any) -> None:
    at = state({KERNEL: words(5)}, di=KERNEL, si=0x10)
    assert shown(registry, "a=+0(%di) b=+u0(%di) c=+0(%si):u8 d=+0(+0(%si))", at) == " a=0x5 b=0x0 c=0 d=0x0"


def test_dereferences_chain_and_wrap(registry: Any) -> None:
    at = state({0x2000: words(0x3008), 0x3000: words(42, 43)}, di=0x1FF8, si=2**64 - 8)
    assert shown(registry, "a=+0(+8(%di)):u64 b=-8(+8(%di)):u64 c=+0x2008(%si):x16", at) == " a=43 b=42 c=0x3008"


def test_arrays_read_each_item_by_itself(registry: Any) -> None:
    at = state({0x1000: bytes([1, 2, 3])}, di=0x1000)
    assert shown(registry, "a=+0(%di):u8[2] b=+0(%di):x8[4] c=+2(%di):s8[1]", at) == (
        " a={1,2} b={0x1,0x2,0x3,0x0} c={3}"
    )


def test_symbols(registry: Any, symbols: Any) -> None:
    address = symbols.lookup("vfs_read")[0].address
    at = state({0x1000: words(address, 7)}, di=address + 0x10, si=0x1000)
    assert shown(registry, "a=%di:symbol b=+0(%si):symbol[2] c=%cx:symbol", at) == (
        " a=vfs_read+0x10/0x310 b={vfs_read+0x0/0x310,0x7} c=0x0"
    )


# ----------------------------------------------------------------------------------------------------------- strings


def test_strings_come_after_the_fields_in_order(registry: Any) -> None:
    registry.write(b"p:x do_sys_openat2 a=+0(%si):string n=%di:u8 b=$comm")
    record = next(iter(registry)).evaluate(state({USER: b"/etc/hosts\0"}, si=USER, di=7), (0,) * 5)
    tail = record[16:]
    # length with NUL << 16 | offset from the start of the record: 16 bytes of head, 9 of fields
    assert tail == bytes.fromhex("19000b00 07 24000400".replace(" ", "")) + b"/etc/hosts\0cat\0"


def test_an_unreadable_string_is_a_fault_and_an_empty_one_of_a_user_too(registry: Any) -> None:
    at = state({USER: b"\0", KERNEL: b"\0"}, di=USER, si=KERNEL, dx=0x10)
    text = shown(registry, "a=+0(%di):string b=+0(%si):string c=+0(%dx):string d=+0(%di):ustring", at)
    assert text == ' a=(fault) b="" c=(fault) d=(fault)'


def test_user_strings_are_not_read_from_the_kernel(registry: Any) -> None:
    at = state({KERNEL: b"secret\0"}, di=KERNEL)
    assert shown(registry, "a=+0(%di):string b=+0(%di):ustring c=+u0(%di):string", at) == (
        ' a="secret" b=(fault) c=(fault)'
    )


@pytest.mark.parametrize(("address", "kept"), [(KERNEL, 4095), (USER, 4096)])
def test_a_string_is_measured_up_to_a_page(address: int, kept: int, registry: Any) -> None:
    at = state({address: b"y" * 9000 + b"\0"}, di=address)
    assert shown(registry, "a=+0(%di):string", at) == f' a="{"y" * kept}"'


def test_a_long_string_takes_the_room_of_the_next(registry: Any) -> None:
    """From source (store_trace_args): each string may use all the room that was measured for those not yet written."""
    at = state({KERNEL: b"y" * 9000 + b"\0", USER: b"name\0"}, di=KERNEL, si=USER)
    assert shown(registry, "a=+0(%di):string b=+0(%si):string", at) == f' a="{"y" * 4100}" b=(fault)'


def test_a_string_that_cannot_be_followed_shows_the_next(registry: Any) -> None:
    """From source (process_fetch_insn): its location is only corrected by a fetch that gets to the string."""
    at = state({USER: b"name\0"}, di=0x10, si=USER)
    assert shown(registry, "a=+0(+0(%di)):string b=+0(%si):string", at) == ' a="name" b="name"'
    assert shown(registry, "a=+0(+0(%di)):string", at) == " a=(fault)"


def test_the_text_of_a_symbol_runs_into_the_next_string(registry: Any, symbols: Any) -> None:
    """From source (fetch_store_symstring): the NUL isn't counted."""
    address = symbols.lookup("vfs_read")[0].address
    at = state(di=address)
    assert shown(registry, "a=%di:symstr", at) == ' a="vfs_read+0x0/0x310"'
    assert shown(registry, "a=%di:symstr b=$comm", at) == ' a="vfs_read+0x0/0x310cat" b="cat"'


def test_arrays_of_strings_follow_pointers(registry: Any) -> None:
    memory = {0x1000: words(0x2000, 0x10, 0x3000), 0x2000: b"first\0", 0x3000: b"third\0"}
    at = state(memory, di=0x1000)
    assert shown(registry, "a=+0(%di):string[3] b=$comm", at) == ' a={"first",(fault),"third"} b="cat"'
    assert shown(registry, "a=+8(%di):string[2] b=$comm", at) == ' a={(fault),"third"} b="cat"'


def test_immediates(registry: Any) -> None:
    text = shown(registry, 'a=\\1 b=\\-1:s8 c=\\"a\\"b" d=\\0x1ff:u8 e=\\1:string', state())
    assert text == ' a=0x1 b=-1 c="a\\"b" d=255 e=(fault)'


def test_a_return_value(registry: Any) -> None:
    at = State({"ax": 2**64 - 2}, Segments({0x50: b"\0"}), (), b"cat", 2**64 - 2)
    assert shown(registry, "$retval r=$retval:s32 a=%ax:s64", at, "r") == " arg1=0xfffffffffffffffe r=-2 a=-2"


# ----------------------------------------------------------------------------------------------------------- compiling


def test_a_compiled_argument() -> None:
    argument = compile_argument("s=+u8(-0x10(%si)):string", 0, 16, (), SCOPE)
    assert argument.name == "s"
    assert argument.text == "+u8(-0x10(%si)):string"
    assert argument.expression.source == Source(From.REGISTER, "si")
    assert argument.expression.derefs == (Deref(-16), Deref(8, user=True))
    assert (argument.store, argument.offset, argument.size) == (Store.USER_STRING, 16, 4)


@pytest.mark.parametrize(
    ("token", "message", "column", "number"),
    [
        ("a=%zz", "BAD_REG_NAME", 2, errno.EINVAL),
        ("a=+u0(%zz)", "BAD_REG_NAME", 5, errno.EINVAL),  # the u isn't counted
        ("a=-16(%zz)", "BAD_REG_NAME", 6, errno.EINVAL),
        ("a=+-8(%zz)", "BAD_REG_NAME", 5, errno.EINVAL),  # nor the + before a -
        ("a=--8(%si)", "BAD_DEREF_OFFS", 2, errno.EINVAL),
        ("a=+99999999999999999999(%si)", "BAD_DEREF_OFFS", 2, errno.ERANGE),
        ("a=$stack2049", "BAD_STACK_NUM", 2, errno.EINVAL),
        ("a=$arg2049", "BAD_ARG_NUM", 2, errno.EINVAL),
        ("a=\\0x", "BAD_IMM", 3, errno.EINVAL),
        ("a=\\08", "BAD_IMM", 3, errno.EINVAL),
        ("a=$comm:u32", "NEED_STRING_TYPE_UNLOGGED", 8, errno.EINVAL),
        ('a=\\"s":string[2]', "NEED_STRING_TYPE_UNLOGGED", 7, errno.EINVAL),
        ("a=\\1:symstr", "BAD_SYMSTRING", 5, errno.EINVAL),
        ("a=+u0(%si):symstr", "BAD_SYMSTRING", 11, errno.EINVAL),
        ("a=+u0(%si):u8[2]", "BAD_STRING", 11, errno.EINVAL),
        ("a=%di:b8@1/8", "BAD_BITFIELD", 6, errno.EINVAL),
        ("common_pid=%di", "USED_ARG_NAME", 0, errno.EINVAL),
        ("taken=%di", "USED_ARG_NAME", 0, errno.EINVAL),
        ("\xd7=%di", "BAD_ARG_NAME", 0, errno.EINVAL),
    ],
)
def test_refusals(token: str, message: str, column: int, number: int) -> None:
    with pytest.raises(Refusal) as refused:
        compile_argument(token, 0, 0, {"taken"}, SCOPE)
    refusal = refused.value
    assert (refusal.message, refusal.offset) == (message, column)
    assert answer(message, SCOPE.gates, refusal.errno)[0] == number


def test_latin_1_letters_make_names() -> None:
    """From source (lib/ctype.c): the kernel's isalpha knows them."""
    assert compile_argument("\xe9=%di", 0, 0, (), SCOPE).name == "\xe9"


@pytest.mark.parametrize(("base", "deepest"), [("%sp", 14), ("@16", 13), ("@jiffies", 12)])
def test_dereferences_nest_as_far_as_sixteen_instructions_go(base: str, deepest: int) -> None:
    scope = SCOPE._replace(gates=SCOPE.gates._replace(argument_size=999))  # 63 bytes would be reached first

    def nested(levels: int) -> str:
        return "+0(" * levels + base + ")" * levels

    assert len(compile_argument(nested(deepest), 0, 0, (), scope).expression.derefs) == deepest + base.startswith("@")
    with pytest.raises(Refusal) as refused:
        compile_argument(nested(deepest + 1), 0, 0, (), scope)
    assert refused.value.message == "TOO_MANY_OPS"
    assert refused.value.offset == 3


def test_an_event_has_at_most_3072_bytes_of_fields() -> None:
    assert compile_argument("a=+0(%si):u64[64]", 0, 2560, (), SCOPE).size == 512
    with pytest.raises(Refusal) as refused:
        compile_argument("a=+0(%si):u64[64]", 0, 2561, (), SCOPE)
    assert (refused.value.message, refused.value.offset) == ("EVENT_TOO_BIG", 2)
