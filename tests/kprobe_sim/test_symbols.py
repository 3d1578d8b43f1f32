"""The symbol table of the recorded 6.1 kernel, held to literal facts of that kernel."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprobe_sim.builds.profile import load
from kprobe_sim.builds.recorded import RecordedSymbols
from kprobe_sim.builds.symbol import Placement, Symbol
from kprobe_sim.builds.symbols import SymbolTable

ANSWERS = Path(__file__).parents[2] / "fixtures" / "placement" / "6.1.tsv"
DO_SYS_OPENAT2 = 0xFFFFFFFF813485A0
ERRNO = {
    Placement.OK: 0,
    Placement.NOT_BOUNDARY: errno.EILSEQ,
    Placement.UNSUPPORTED: errno.EOPNOTSUPP,
    Placement.NOT_TEXT: errno.EINVAL,
    Placement.BLACKLISTED: errno.EINVAL,
    Placement.RESERVED: errno.EINVAL,
    Placement.INT3: errno.EINVAL,
    Placement.NOT_COPIED: errno.EINVAL,
}


@pytest.fixture(scope="module")
def recorded() -> SymbolTable:
    return load("6.1").symbols


@pytest.fixture
def table() -> SymbolTable:
    return load("6.1").fresh_symbols()


def answers() -> Iterator[tuple[int, str, int]]:
    for line in ANSWERS.read_text().splitlines():
        if not line.startswith("#"):
            address, place, name = line.split("\t")
            yield int(address, 16), place, 0 if name == "0" else getattr(errno, name)


def test_lookup_gives_address_and_size_of_the_real_kernel(recorded: SymbolTable) -> None:
    assert recorded.lookup("do_sys_openat2") == [
        Symbol("do_sys_openat2", DO_SYS_OPENAT2, 0x170, "t", "", traceable=True, blacklisted=False)
    ]
    (vfs_read,) = recorded.lookup("vfs_read")
    assert (vfs_read.address, vfs_read.size, vfs_read.type) == (0xFFFFFFFF8134AEA0, 0x310, "T")


def test_lookup_of_an_unknown_name_is_empty(recorded: SymbolTable) -> None:
    assert recorded.lookup("do_sys_openat") == []
    assert recorded.lookup("") == []
    assert recorded.lookup("zzzzz") == []


def test_lookup_of_a_name_that_several_functions_have(recorded: SymbolTable) -> None:
    assert [symbol.address for symbol in recorded.lookup("t_show")] == [
        0xFFFFFFFF811A1720,
        0xFFFFFFFF811AD040,
        0xFFFFFFFF811BB390,
        0xFFFFFFFF811BE3B0,
        0xFFFFFFFF811C79F0,
    ]
    assert len(recorded.lookup("__func__.0")) == 368


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (DO_SYS_OPENAT2, "do_sys_openat2"),
        (DO_SYS_OPENAT2 + 0x16F, "do_sys_openat2"),
        (DO_SYS_OPENAT2 + 0x170, "__do_sys_openat2"),
        (0xFFFFFFFF81000000, "startup_64"),  # of three aliases the first
        (0xFFFFFFFF80FFFFFF, None),
        (0xFFFFFFFF83830000, None),  # _end
        (0, None),
        (4096, None),
        (0xFFFFFFFFFFFFFFFF, None),
    ],
)
def test_at(recorded: SymbolTable, address: int, name: str | None) -> None:
    found = recorded.containing(address)
    assert (found.name if found else None) == name


def test_instructions_of_do_sys_openat2(recorded: SymbolTable) -> None:
    starts = [offset for offset in range(64) if recorded.is_boundary(DO_SYS_OPENAT2 + offset)]
    assert starts == [0, 5, 7, 10, 11, 13, 16, 17, 20, 24, 33, 38, 40, 45, 53, 62]


def test_only_the_entry_is_an_ftrace_location(recorded: SymbolTable) -> None:
    assert recorded.is_traceable(DO_SYS_OPENAT2)
    assert not recorded.is_traceable(DO_SYS_OPENAT2 + 5)
    assert not recorded.is_notrace(DO_SYS_OPENAT2 + 5)


@pytest.mark.parametrize("name", ["notify_die", "kprobe_dispatcher", "start_kernel", "jiffies", "do_syscall_64"])
def test_functions_without_ftrace_location_take_no_event(recorded: SymbolTable, name: str) -> None:
    (symbol,) = recorded.lookup(name)
    assert recorded.is_notrace(symbol.address)


def test_get_kprobe_is_blacklisted(recorded: SymbolTable) -> None:
    (symbol,) = recorded.lookup("get_kprobe")
    assert recorded.is_blacklisted(symbol.address)
    assert recorded.placement(symbol.address) is Placement.BLACKLISTED


def test_functions_by_number_and_name_as_in_the_list() -> None:
    functions = load("6.1").functions
    assert functions.names[0] == functions.name(0) == "__traceiter_initcall_level"
    assert functions.numbers("vfs_read") == (functions.names.index("vfs_read"),)
    assert functions.numbers("nosuch") == ()
    several = functions.numbers("type_show")
    assert len(several) > 1
    assert several == tuple(number for number, name in enumerate(functions.names) if name == "type_show")
    for number in range(0, len(functions), 97):
        name = functions.names[number]
        assert functions.name(number) == name
        assert number in functions.numbers(name)


def test_available_filter_functions_as_the_kernel_lists_them(recorded: SymbolTable) -> None:
    lines = [name for _, name in recorded.ftrace_locations()]
    assert lines[:8] == [
        "__traceiter_initcall_level",
        "__traceiter_initcall_start",
        "__traceiter_initcall_finish",
        "trace_initcall_finish_cb",
        "initcall_blacklisted",
        "do_one_initcall",
        "__ftrace_invalid_address___496",
        "match_dev_by_label",
    ]
    assert len([line for line in lines if not line.endswith("]")]) == 35570
    assert lines.count("t_show") == 0
    assert "virtio_add_status [virtio]" in lines


def test_modules_of_the_recorded_guest(recorded: SymbolTable) -> None:
    assert {"virtio", "virtio_ring", "virtio_console"} <= recorded.modules()
    (symbol,) = recorded.lookup("virtio_add_status")
    assert (symbol.module, symbol.size) == ("virtio", 0x40)


def test_placements_that_the_real_kernel_answered(recorded: SymbolTable) -> None:
    wrong = [
        (place, number, recorded.placement(address))
        for address, place, number in answers()
        if (errno.EINVAL if recorded.is_notrace(address) else ERRNO[recorded.placement(address)]) != number
    ]
    assert wrong == []


def test_the_answers_hold_every_kind_of_refusal() -> None:
    kinds = {number for _, _, number in answers()}
    assert kinds == {0, errno.EINVAL, errno.EILSEQ, errno.EOPNOTSUPP}
    assert sum(1 for _ in answers()) == 573


def test_an_added_function_is_found_and_covers_its_bytes(table: SymbolTable) -> None:
    symbol = table.add(Symbol("SyS_openat", size=0x80))
    assert table.lookup("SyS_openat") == [symbol]
    assert table.containing(symbol.address + 0x7F) == symbol
    assert table.containing(symbol.address + 0x80) is None
    assert table.placement(symbol.address + 83) is Placement.OK
    assert table.placement(symbol.address + 4) is Placement.NOT_BOUNDARY
    assert list(table.ftrace_locations())[-1][1] == "SyS_openat"


def test_added_functions_do_not_overlap(table: SymbolTable) -> None:
    first, second = table.add(Symbol("one", size=0x101)), table.add(Symbol("two", size=1))
    assert second.address == first.address + 0x110
    assert table.add(Symbol("three", 0xFFFFFFFFB0001000, 0x10)).address == 0xFFFFFFFFB0001000


def test_added_boundaries_are_the_only_ones(table: SymbolTable) -> None:
    symbol = table.add(Symbol("sys_open"), boundaries=[5, 9])
    assert [offset for offset in range(12) if table.is_boundary(symbol.address + offset)] == [0, 5, 9]


def test_a_second_function_of_a_recorded_name(table: SymbolTable) -> None:
    added = table.add(Symbol("vfs_read"))
    assert [symbol.address for symbol in table.lookup("vfs_read")] == [0xFFFFFFFF8134AEA0, added.address]


def test_an_added_module(table: SymbolTable) -> None:
    symbol = table.add(Symbol("ext9_open", module="ext9"))
    assert "ext9" in table.modules()
    assert symbol.module == "ext9"
    assert list(table.ftrace_locations())[-1][1] == "ext9_open [ext9]"
    table.add_module("empty")
    assert "empty" in table.modules()


def test_what_is_added_stays_in_its_table(table: SymbolTable, recorded: SymbolTable) -> None:
    table.add(Symbol("nowhere_else"))
    assert recorded.lookup("nowhere_else") == []


def test_a_function_that_is_added_or_resized_changes_no_answer_elsewhere(
    table: SymbolTable, recorded: SymbolTable
) -> None:
    table.add(Symbol("SyS_openat"))
    table.declare("vfs_write", 0x10)
    table.declare("vfs_read", 0x10000)
    for address, _, _ in answers():
        ours = table.containing(address), table.placement(address), table.is_notrace(address), table.has_endbr(address)
        theirs = (
            recorded.containing(address),
            recorded.placement(address),
            recorded.is_notrace(address),
            recorded.has_endbr(address),
        )
        assert ours == theirs
    assert table.lookup("do_sys_openat2") == recorded.lookup("do_sys_openat2")
    assert [table.lookup(name)[0].size for name in ("vfs_write", "vfs_read")] == [0x10, 0x10000]
    assert [recorded.lookup(name)[0].size for name in ("vfs_write", "vfs_read")] == [0x3F0, 0x310]


def test_a_size_must_be_positive(table: SymbolTable) -> None:
    with pytest.raises(ValueError, match="isn't positive"):
        table.add(Symbol("nothing", size=0))


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="isn't a recorded kprobsym file"):
        SymbolTable(RecordedSymbols(load("6.1").path / "prototypes.bin"))
