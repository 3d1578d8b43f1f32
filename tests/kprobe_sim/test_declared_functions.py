"""Functions that somebody says a kernel has: what is said of their size wins over what is recorded."""

from __future__ import annotations

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.builds import profile
from kprobe_sim.builds.symbol import Placement
from kprobe_sim.kernel import activity

CAT = Task(42, "cat")
ENTRY = {"5.10": "0x0", "6.1": "0x0", "6.12": "0x4", "7.2": "0x4", "7.3": "0x4"}  # after ENDBR
SERIES = [*ENTRY]
CALLS = """
[[function]]
name = "do_sys_open"
{size}
[[call]]
function = "do_sys_open"
task = "cat-42"
caller = "__x64_sys_openat"
"""


def traced(kernel: SimulatedKernel) -> list[str]:
    lines = kernel.tracefs.read("trace").decode().splitlines()
    return [line.split(": ", 1)[1] for line in lines if not line.startswith("#")]


def probe(kernel: SimulatedKernel, *definitions: str) -> None:
    kernel.tracefs.write("kprobe_events", "\n".join(definitions).encode())
    kernel.tracefs.write("events/kprobes/enable", b"1")


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("size", ["0x10", "0x80", "0x220", "0x8000"])
def test_an_activity_says_the_size_of_a_function_that_the_build_has(series: str, size: str) -> None:
    kernel = SimulatedKernel(series)
    played = activity.parse(CALLS.format(size=f"size = {size}"))
    played.prepare(kernel)
    probe(kernel, "p:p do_sys_open", "r:r do_sys_open")
    played.play(kernel)  # which prepares once more
    lines = traced(kernel)
    assert lines[0] == f"p: (do_sys_open+{ENTRY[series]}/{size})"
    assert lines[1].endswith(" <- do_sys_open)")
    assert len(kernel.symbols.lookup("do_sys_open")) == 1


def test_an_activity_without_a_size_leaves_a_function_as_it_is() -> None:
    kernel = SimulatedKernel("6.1")
    activity.parse(CALLS.format(size="")).prepare(kernel)
    assert kernel.symbols.lookup("do_sys_open") == profile.load("6.1").symbols.lookup("do_sys_open")


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("size", [0x10, 0x70])
def test_a_smaller_function_stays_where_it_is(series: str, size: int) -> None:
    kernel = SimulatedKernel(series)
    (recorded,) = kernel.symbols.lookup("do_sys_open")
    symbol = kernel.add_function("do_sys_open", size=size)
    assert symbol == recorded._replace(size=size)
    assert kernel.symbols.lookup("do_sys_open") == [symbol]
    assert kernel.symbols.containing(recorded.address + size - 1) == symbol
    assert kernel.symbols.containing(recorded.address + size) is None
    assert kernel.symbols.placement(recorded.address + size) is Placement.NO_SYMBOL
    probe(kernel, "p:p do_sys_open")
    kernel.call("do_sys_open", task=CAT)
    assert traced(kernel) == [f"p: (do_sys_open+{ENTRY[series]}/0x{size:x})"]
    assert kernel.add_function("do_sys_open", size=recorded.size) == recorded


@pytest.mark.slow
@pytest.mark.parametrize("series", SERIES)
def test_a_larger_function_covers_none_of_the_next_one(series: str) -> None:
    kernel = SimulatedKernel(series)
    (recorded,) = kernel.symbols.lookup("do_sys_open")
    following = kernel.symbols.containing(recorded.address + recorded.size)
    while following is not None and following.name.startswith("__pfx_"):  # the padding before a function
        following = kernel.symbols.containing(following.address + following.size)
    assert following is not None
    before = len(kernel.symbols), kernel.tracefs.read("available_filter_functions").split(b"\n")
    symbol = kernel.add_function("do_sys_open", size=0x220)
    assert kernel.symbols.lookup("do_sys_open") == [symbol]
    assert kernel.symbols.containing(recorded.address) is None
    assert kernel.symbols.containing(following.address) == following
    after = len(kernel.symbols), kernel.tracefs.read("available_filter_functions").split(b"\n")
    assert after[0] == before[0]
    assert sorted(after[1]) == sorted(before[1])
    assert [line.split()[2] for line in kernel.symbols.kallsyms().splitlines()].count(b"do_sys_open") == 1
    probe(kernel, "p:start do_sys_open", "p:inside do_sys_open+0x1f0", f"p:next {following.name}")
    kernel.call("do_sys_open", task=CAT)
    kernel.call("do_sys_open", offset=0x1F0, task=CAT)
    kernel.call(following.name, task=CAT, caller="do_sys_open+0x1f0/0x220")
    assert traced(kernel) == [
        f"start: (do_sys_open+{ENTRY[series]}/0x220)",
        "inside: (do_sys_open+0x1f0/0x220)",
        f"next: ({following.name}+{ENTRY[series]}/0x{following.size:x})",
    ]


def test_arguments_of_a_larger_function_keep_their_names() -> None:
    kernel = SimulatedKernel("6.12")
    kernel.add_function("do_sys_open", size=0x220)
    probe(kernel, "p:p do_sys_open filename:string flags")
    kernel.call("do_sys_open", task=CAT, args=(-100, "/etc/hosts", 2))
    assert traced(kernel) == ['p: (do_sys_open+0x4/0x220) filename="/etc/hosts" flags=2']


def test_sizes_of_added_functions_change() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.add_function("SyS_open", size=0x20)
    kernel.add_function("SyS_close", size=0x20)
    assert kernel.add_function("SyS_open").size == 0x20
    for size in (0x20, 0x400, 0x10):
        symbol = kernel.add_function("SyS_open", size=size)
        assert kernel.symbols.lookup("SyS_open") == [symbol]
        assert kernel.symbols.containing(symbol.address + size - 1) == symbol
    assert [symbol.size for symbol in kernel.symbols.lookup("SyS_close")] == [0x20]


def test_what_was_shown_before_is_shown_with_the_new_size() -> None:
    kernel = SimulatedKernel("6.1")
    probe(kernel, "p:p do_sys_open")
    kernel.call("do_sys_open", task=CAT)
    assert traced(kernel) == ["p: (do_sys_open+0x0/0x80)"]
    kernel.add_function("do_sys_open", size=0x40)
    assert traced(kernel) == ["p: (do_sys_open+0x0/0x40)"]


@pytest.mark.parametrize("definition", ["p:p do_sys_open", "r:p do_sys_open+0", "p:p do_sys_open+5"])
def test_a_function_that_is_probed_is_not_moved(definition: str) -> None:
    kernel = SimulatedKernel("6.1")
    probe(kernel, definition)
    with pytest.raises(ValueError, match="do_sys_open has 0x80 bytes and probes: it can't have 0x220, which moves it"):
        kernel.add_function("do_sys_open", size=0x220)
    assert kernel.symbols.lookup("do_sys_open")[0].size == 0x80


def test_a_function_of_another_module_is_another_function() -> None:
    kernel = SimulatedKernel("6.1")
    (virtio,) = kernel.symbols.lookup("virtio_add_status")
    assert kernel.add_function("virtio_add_status", 0x20, "virtio") == virtio._replace(size=0x20)
    other = kernel.add_function("virtio_add_status", 0x30, "other")
    assert [symbol.module for symbol in kernel.symbols.lookup("virtio_add_status")] == ["virtio", "other"]
    assert (other.size, other.module) == (0x30, "other")


@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize("name", ["do_sys_open", "SyS_open"])
def test_a_size_is_positive(name: str, size: int) -> None:
    with pytest.raises(ValueError, match=f"size {size} of '{name}' isn't positive"):
        SimulatedKernel("6.1").add_function(name, size=size)
