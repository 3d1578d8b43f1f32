"""What the recorder makes of code bytes, symbols and BTF, without a guest."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kprobe_sim.builds.prototypes import CType, PrototypeTable
from kprobe_sim.builds.recorded import RecordedSymbols
from kprobe_sim.builds.symbol import Placement
from kprobe_sim.builds.symbols import SymbolTable
from kprobe_vm.recording.btf import Btf, prototypes
from kprobe_vm.recording.instructions import (
    Kind,
    Special,
    Text,
    bugs,
    decode,
    jump_labels,
    merge,
    opcode_kind,
    static_calls,
)
from kprobe_vm.recording.profilefile import parse_config, parse_tree, root_mode, trace_options, version_of
from kprobe_vm.recording.symboltable import (
    KallsymsEntry,
    KernelSymbols,
    Locations,
    Module,
    parse_blacklist,
    parse_kallsyms,
)

BASE = 0xFFFF_FFFF_8100_0000
NOP5 = b"\x0f\x1f\x44\x00\x00"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (b"\xcc", Kind.INT3),
        (b"\xff\x15\x00\x00\x00\x00", Kind.UNSUPPORTED),  # call *mem(%rip)
        (b"\xff\xd0", None),  # call *%rax
        (b"\x41\xff\xe3", None),  # jmp *%r11
        (b"\xff\x25\x00\x00\x00\x00", Kind.UNSUPPORTED),  # jmp *mem(%rip)
        (b"\xff\x30", None),  # push (%rax)
        (b"\x48\xcf", Kind.UNSUPPORTED),  # iretq
        (b"\x0f\x01\xc1", Kind.UNSUPPORTED),  # vmcall
        (b"\x0f\x01\xf8", None),  # swapgs
        (b"\x8e\xd0", Kind.NOT_COPIED),  # mov %eax,%ss
        (b"\x8e\xd8", None),  # mov %eax,%ds
        (b"\x66\x90", None),
        (b"", None),
    ],
)
def test_which_instructions_the_kernel_does_not_take(code: bytes, kind: Kind | None) -> None:
    assert opcode_kind(code) is kind


@pytest.mark.requires("capstone")
def decoded(code: bytes, *starts: int) -> tuple[list[int], Text]:
    text = decode(BASE, code, [BASE + start for start in starts])
    return [bit for bit in range(len(code)) if text.bits[bit >> 3] >> (bit & 7) & 1], text


def test_decoding_starts_again_at_each_symbol() -> None:
    # the movabs would swallow the second symbol's first bytes
    code = NOP5 + b"\xc3\xcc\xcc" + b"\x48\xb8" + NOP5 + b"\xc3\x90\x90"
    starts, text = decoded(code, 0, 8, 10)
    assert starts == [0, 5, 6, 7, 8, 10, 15, 16, 17]
    assert text.special == [Special(BASE + 6, 2, Kind.INT3)]


@pytest.mark.parametrize(
    "code",
    [
        b"\x0f\x01\xe8",
        b"\x0f\xb9\x40\x10",
        b"\x67\x48\x0f\xb9\x3a",  # a warning of 6.19 and later, in place of the call of __SCT__WARN_trap
        b"\xc4\xe2\x78\x49\xc0",
        b"\xf2\x0f\x01\xff",
    ],
)
def test_instructions_that_capstone_does_not_know(code: bytes) -> None:
    starts, text = decoded(code + b"\x90\xc3", 0)
    assert starts == [0, len(code), len(code) + 1]
    assert text.undecoded == []


def test_nothing_starts_after_what_cannot_be_decoded() -> None:
    starts, text = decoded(b"\x90\xea\x00\x00\x90\x90" + b"\xc3", 0, 6)
    assert starts == [0, 1, 6]
    assert text.undecoded == [BASE + 1]


def text_of(code: bytes) -> Text:
    return Text(BASE, code)


def test_jump_labels_are_two_or_five_bytes() -> None:
    text = text_of(b"\x66\x90\xeb\x00" + NOP5 + b"\xe9\0\0\0\0")
    table = BASE + 0x1000
    entries = b"".join(
        struct.pack("<iiq", BASE + offset - (table + 16 * index), 0, 0)
        for index, offset in enumerate((0, 2, 4, 9, 500))
    )
    found = jump_labels(lambda address, size: entries[address - table :][:size], table, table + len(entries), text)
    assert [(entry.start - BASE, entry.length) for entry in found] == [(0, 2), (2, 2), (4, 5), (9, 5)]


def test_static_calls() -> None:
    table = BASE + 0x100
    entries = struct.pack("<iiii", BASE + 3 - table, 0, BASE + 0x2000 - table - 8, 0)
    found = static_calls(lambda address, size: entries[:size], table, table + 16, text_of(bytes(16)))
    assert found == [Special(BASE + 3, 5, Kind.RESERVED)]


@pytest.mark.parametrize("size", [12, 16])
def test_the_entry_size_of_the_bug_table_is_found(size: int) -> None:
    table = BASE + 0x100
    text = text_of(b"\x90\x0f\x0b\x90\x0f\x0b" + bytes(10))
    entries = b"".join(
        struct.pack("<i", BASE + offset - table - size * index).ljust(size, b"\1")
        for index, offset in enumerate((1, 4))
    )
    found = bugs(lambda _, length: entries[:length], table, table + len(entries), text)
    assert [entry.start - BASE for entry in found] == [1, 4]


def test_a_bug_table_that_fits_nowhere_is_an_error() -> None:
    table = BASE + 0x100
    entries = struct.pack("<i", BASE - table).ljust(12, b"\1")
    with pytest.raises(ValueError, match="no entry size fits"):
        bugs(lambda _, length: entries[:length], table, table + 12, text_of(bytes(16)))


def test_kallsyms_is_sorted_and_leaves_out_what_comes_and_goes() -> None:
    text = (
        "ffffffff81000010 T second\nffffffff81000000 t first\nffffffff81000010 t alias\n"
        "ffffffffc0000000 t prog\t[bpf]\nffffffffc0001000 t open\t[mod]\n"
    )
    assert parse_kallsyms(text) == [
        KallsymsEntry(BASE, "t", "first", ""),
        KallsymsEntry(BASE + 0x10, "T", "second", ""),
        KallsymsEntry(BASE + 0x10, "t", "alias", ""),
        KallsymsEntry(0xFFFF_FFFF_C000_1000, "t", "open", "mod"),
    ]


def test_entry_code_that_no_name_finds_is_left_out() -> None:
    """As 4.19.108 lists it last."""
    text = "fffffe0000006000 t __entry_SYSCALL_64_trampoline\nffffffff81000000 t first\n"
    assert parse_kallsyms(text) == [KallsymsEntry(BASE, "t", "first", "")]


def test_the_blacklist_is_merged() -> None:
    text = (
        "0xffffffff81000020-0xffffffff81000030\tc\n0xffffffff81000000-0xffffffff81000010\ta\n"
        "0xffffffff81000010-0xffffffff81000018\tb\n"
    )
    assert parse_blacklist(text) == [(BASE, BASE + 0x18), (BASE + 0x20, BASE + 0x30)]


def test_locations_of_names_that_are_not_unique_and_of_lost_functions() -> None:
    code = bytearray(0x100)
    code[0x00:5] = b"\x90" * 5  # `same`, which isn't traced
    for place in (0x20, 0x60, 0x84, 0xA0):
        code[place : place + 5] = NOP5
    code[0x80:0x84] = b"\xf3\x0f\x1e\xfa"
    names = [(0x00, "same"), (0x20, "same"), (0x40, "other"), (0x80, "same"), (0xA0, "last")]
    entries = [KallsymsEntry(BASE + offset, "t", name, "") for offset, name in names]
    lines = ["same", "__ftrace_invalid_address___32", "same", "last"]
    found = Locations(entries, [Text(BASE, bytes(code))]).find(lines)
    assert [address - BASE for address in found] == [0x20, 0x60, 0x84, 0xA0]


def test_a_line_that_no_function_fits_is_an_error() -> None:
    with pytest.raises(ValueError, match="no function fits the ftrace line 'gone'"):
        Locations([KallsymsEntry(BASE, "t", "here", "")], [Text(BASE, NOP5)]).find(["gone"])


def test_what_is_written_is_read_by_the_simulator(tmp_path: Path) -> None:
    code = NOP5 + b"\xc3" + b"\xcc" * 10 + NOP5 + b"\xc3" + b"\xcc" * 10
    entries = [
        KallsymsEntry(0x1000, "A", "percpu", ""),
        KallsymsEntry(BASE, "t", "first", ""),
        KallsymsEntry(BASE, "t", "alias", ""),
        KallsymsEntry(BASE + 16, "t", "second.cold", ""),
        KallsymsEntry(0xFFFF_FFFF_C000_0000, "t", "first", "mod"),
    ]
    module = Module(
        "mod", 0xFFFF_FFFF_C000_0000, 0xFFFF_FFFF_C000_1000, ((0xFFFF_FFFF_C000_0000, 0xFFFF_FFFF_C000_1000),)
    )
    bits = bytearray(len(code) // 8)
    for place in (0, 5, 6, 16, 21):
        bits[place >> 3] |= 1 << (place & 7)
    data = KernelSymbols(
        entries,
        (BASE, BASE + 32),
        [module],
        [Text(BASE, code, bits)],
        merge([Special(BASE + 6, 1, Kind.INT3), Special(BASE + 5, 1, Kind.RESERVED)]),
        [(BASE + 16, BASE + 18)],
        [BASE],
    ).packed()
    (tmp_path / "symbols.bin").write_bytes(data)
    table = SymbolTable(RecordedSymbols(tmp_path / "symbols.bin"))
    assert [(symbol.name, symbol.size, symbol.module) for symbol in table] == [
        ("percpu", BASE - 0xFFFF_FFFF_8000_0000 - 0x1000, ""),
        ("first", 16, ""),
        ("alias", 16, ""),
        ("second.cold", 16, ""),
        ("first", 0x1000, "mod"),
    ]
    assert [symbol.module for symbol in table.lookup("first")] == ["", "mod"]
    assert table.placement(BASE) is Placement.OK
    assert table.placement(BASE + 1) is Placement.NOT_BOUNDARY
    assert table.placement(BASE + 5) is Placement.RESERVED
    assert table.placement(BASE + 6) is Placement.INT3
    assert table.is_notrace(BASE + 16)
    assert table.is_blacklisted(BASE + 17)
    assert not table.is_blacklisted(BASE + 18)


def test_functions_with_endbr_and_without_ftrace_location_are_written_down(tmp_path: Path) -> None:
    endbr, poison = b"\xf3\x0f\x1e\xfa", b"\x0f\x1f\x40\xd6"
    code = b"".join(start.ljust(16, b"\xcc") for start in (endbr + b"\xc3", endbr + NOP5, poison, b"\xc3"))
    entries = [KallsymsEntry(BASE + 16 * index, "t", name, "") for index, name in enumerate("abcd")]
    bits = bytearray(len(code) // 8)
    data = KernelSymbols(entries, (BASE, BASE + 64), [], [Text(BASE, code, bits)], [], [], [BASE + 20]).packed()
    (tmp_path / "symbols.bin").write_bytes(data)
    table = SymbolTable(RecordedSymbols(tmp_path / "symbols.bin"))
    assert [table.has_endbr(entry.address) for entry in entries] == [True, True, True, False]


def test_what_is_reserved_covers_the_breakpoints_in_it() -> None:
    ranges = [Special(BASE, 5, Kind.RESERVED), Special(BASE + 1, 9, Kind.INT3), Special(BASE + 20, 4, Kind.INT3)]
    assert merge([*ranges, Special(BASE + 22, 1, Kind.RESERVED)]) == [
        Special(BASE, 5, Kind.RESERVED),
        Special(BASE + 5, 5, Kind.INT3),
        Special(BASE + 20, 2, Kind.INT3),
        Special(BASE + 22, 1, Kind.RESERVED),
    ]


def test_before_6_1_a_lost_function_has_the_name_of_the_one_before() -> None:
    code = bytearray(0x40)
    for place in (0x00, 0x20):
        code[place : place + 5] = NOP5
    entries = [KallsymsEntry(BASE, "t", "one", ""), KallsymsEntry(BASE + 0x40, "t", "end", "")]
    found = Locations(entries, [Text(BASE, bytes(code))]).find(["one", "one"])
    assert [address - BASE for address in found] == [0, 0x20]


def test_an_address_out_of_range_is_an_error() -> None:
    with pytest.raises(ValueError, match="doesn't fit the table"):
        KernelSymbols([KallsymsEntry(0xFFFF_8880_0000_0000, "t", "x", "")], (BASE, BASE), [], [], [], [], []).packed()


def blob() -> bytes:
    """BTF of `int f(const char *name, ...)`."""
    texts = b"\0int\0char\0f\0name\0"
    types = (
        struct.pack("<IIII", 1, 1 << 24, 4, 1 << 24 | 32)  # 1: int
        + struct.pack("<IIII", 5, 1 << 24, 1, 1 << 24 | 8)  # 2: char
        + struct.pack("<III", 0, 10 << 24, 2)  # 3: const char
        + struct.pack("<III", 0, 2 << 24, 3)  # 4: const char *
        + struct.pack("<IIIIIII", 0, 13 << 24 | 2, 1, 12, 4, 0, 0)  # 5: int (const char *name, ...)
        + struct.pack("<III", 10, 12 << 24, 5)  # 6: f
    )
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(texts))
    return head + types + texts


def test_a_prototype_from_btf(tmp_path: Path) -> None:
    btf = Btf(blob())
    assert list(btf.functions()) == [("f", 5)]
    assert btf.parameters(5) == [("name", 4), ("...", 0)]
    place = tmp_path / "prototypes.bin"
    place.write_bytes(prototypes(btf, ["other", "f"], fields=False))
    table = PrototypeTable(place)
    assert table.c_type(4) == CType("const char *", "ptr", 8, False)
    assert table.c_type(1) == CType("int", "int", 4, True)


def test_what_is_not_btf_is_an_error() -> None:
    with pytest.raises(ValueError, match="not little-endian BTF"):
        Btf(bytes(64))


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        (
            "Linux version 6.1.0-54-cloud-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) "
            "12.2.0, GNU ld (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.190-1 (2026-10-16)",
            "6.1.190",
        ),
        (
            "Linux version 4.19.108 (me@here) (gcc version 8.3.0 (Debian 8.3.0-6)) #1 SMP Mon Jan 1 00:00:00 UTC 2024",
            "4.19.108",
        ),
    ],
)
def test_version_of_a_banner(banner: str, version: str) -> None:
    assert version_of(banner) == version


def test_config_facts() -> None:
    assert parse_config("CONFIG_KASAN=y\n") == {"KASAN": "y"}  # stacks are larger
    assert parse_config('CONFIG_HZ=250\n# CONFIG_PREEMPT_RT is not set\nCONFIG_SMP=y\nCONFIG_FOO="x"\n') == {
        "HZ": "250",
        "SMP": "y",
    }


def test_trace_options() -> None:
    assert trace_options("print-parent\nnosym-offset\nnotest_nop_refuse\n") == [
        ["print-parent", True],
        ["sym-offset", False],
        ["test_nop_refuse", False],
    ]


def test_tree() -> None:
    text = "41c0 0 0 6 0 .\n81a0 0 0 1 0 ./trace\n41e8 0 0 2 0 ./events\n8120 0 7 1 0 ./events/a b\n"
    assert parse_tree(text) == {
        "": [["trace", 0x81A0, 0, 0, 1], ["events", 0x41E8, 0, 0, 2]],
        "events": [["a b", 0x8120, 0, 7, 1]],
    }
    assert root_mode(text) == 0o700
