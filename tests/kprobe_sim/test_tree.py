"""What `ls -lU` and stat(2) show of the tree, as the guests of these kernels show it."""

from __future__ import annotations

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.node import DirNode, Node


def node(kernel: SimulatedKernel, path: str) -> Node:
    found: Node | None = kernel.root
    for name in path.split("/") if path else ():
        assert isinstance(found, DirNode)
        found = found.lookup(name)
    assert found is not None
    return found


def names(kernel: SimulatedKernel, path: str) -> list[str]:
    directory = node(kernel, path)
    assert isinstance(directory, DirNode)
    return list(directory.names())


def made(series: str) -> SimulatedKernel:
    kernel = SimulatedKernel(series)
    for line in (b"p:kprobes/a vfs_read", b"p:kprobes/b vfs_write", b"p:zz/b vfs_write"):
        kernel.tracefs.write("kprobe_events", line)
    kernel.tracefs.mkdir("instances/foo")
    kernel.tracefs.mkdir("instances/boo")
    return kernel


@pytest.mark.parametrize(
    ("series", "events", "group"),
    [("5.10", 0o750, 0o750), ("6.1", 0o750, 0o750), ("6.12", 0o755, 0o755), ("7.2", 0o755, 0o755)],
)
def test_modes_of_directories(series: str, events: int, group: int) -> None:
    kernel = made(series)
    assert (node(kernel, "").mode, node(kernel, "instances/foo").mode) == (0o700, 0o750)
    assert {node(kernel, path).mode for path in ("instances", "options", "per_cpu", "per_cpu/cpu0")} == {0o750}
    assert (node(kernel, "events").mode, node(kernel, "events/kprobes").mode) == (events, group)


@pytest.mark.parametrize(
    ("series", "events", "group", "event"), [("5.10", 81, 4, 2), ("6.1", 92, 4, 2), ("6.12", 1, 1, 1), ("7.2", 1, 1, 1)]
)
def test_link_counts(series: str, events: int, group: int, event: int) -> None:
    kernel = made(series)
    assert [node(kernel, path).links for path in ("", "instances", "instances/foo")] == [6, 4, 5]
    assert [node(kernel, path).links for path in ("options", "per_cpu", "per_cpu/cpu0", "README")] == [2, 3, 2, 1]
    below = [node(kernel, path).links for path in ("events", "events/kprobes", "events/kprobes/a")]
    assert below == [events, group, event]


@pytest.mark.parametrize(
    ("series", "first", "last", "group", "event"),
    [
        ("5.10", "zz kprobes fib6", "header_event header_page enable", "b a enable filter", "format trigger filter id"),
        ("6.1", "zz kprobes maple_tree", "header_event header_page enable", "b a enable filter", "format hist trigger"),
        ("6.12", "enable header_page", "maple_tree kprobes zz", "filter enable a b", "enable filter trigger format id"),
        ("7.2", "header_page header_event", "maple_tree kprobes zz", "filter enable a b", "format id enable filter"),
    ],
)
def test_the_order_of_events(series: str, first: str, last: str, group: str, event: str) -> None:
    kernel = made(series)
    listed = " ".join(names(kernel, "events"))
    assert listed.startswith(first)
    assert listed.endswith(last)
    assert names(kernel, "events/kprobes") == group.split()
    assert " ".join(names(kernel, "events/kprobes/a")).startswith(event)


@pytest.mark.parametrize(
    ("series", "event", "files"),
    [
        ("5.10", "sched/sched_switch", "format trigger filter id enable"),
        ("6.1", "sched/sched_switch", "format hist trigger filter id enable"),
        ("6.1", "ftrace/print", "trigger format hist id"),
        ("7.2", "ftrace/print", "format id trigger hist"),
    ],
)
def test_the_files_of_static_events(series: str, event: str, files: str) -> None:
    assert names(SimulatedKernel(series), f"events/{event}") == files.split()
