"""What `ls -lU` and stat(2) show of the tree, as the guests of these kernels show it."""

from __future__ import annotations

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.tree.files.node import DirNode, Node


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


@pytest.mark.parametrize("series", ["5.10", "6.1", "6.12", "7.2", "7.3"])
def test_directories_stand_as_they_were_recorded(series: str) -> None:
    kernel = SimulatedKernel(series)
    assert names(kernel, "events") == list(kernel.profile.tracefs.directory("events"))
    for system in ("sched", "syscalls", "ftrace", "kmem"):
        assert names(kernel, f"events/{system}") == list(kernel.profile.tracefs.directory(f"events/{system}"))


@pytest.mark.parametrize(
    ("series", "events", "group", "sched"),
    [
        ("6.1", "yy initcall vsyscall ... maple_tree kprobes zz", "d a b enable filter", "sched_wake_idle_without_ipi"),
        ("7.2", "zz kprobes maple_tree ... vsyscall initcall yy", "filter enable b a d", "sched_kthread_stop"),
    ],
)
def test_an_instance_lists_what_is_older_backwards(series: str, events: str, group: str, sched: str) -> None:
    kernel = made(series)
    kernel.tracefs.write("kprobe_events", b"p:kprobes/d vfs_write\np:yy/d vfs_write")
    listed = [name for name in names(kernel, "instances/foo/events") if not name.startswith(("enable", "header_"))]
    assert [*listed[:3], "...", *listed[-3:]] == events.split()
    assert names(kernel, "instances/foo/events/kprobes") == group.split()
    assert next(name for name in names(kernel, "instances/foo/events/sched") if name.startswith("sched")) == sched


@pytest.mark.parametrize("series", ["6.1", "6.12", "7.2"])
def test_the_order_of_set_event(series: str) -> None:
    kernel = made(series)
    kernel.tracefs.write("kprobe_events", b"p:zz/g vfs_write")
    enabled = (b"zz", b"sched:sched_process_hang", b"sched:sched_pi_setprio", b"kprobes:a", b"rcu:rcu_utilization")
    for instance in ("", "instances/foo/"):
        for word in enabled:
            kernel.tracefs.write(f"{instance}set_event", word)
    static = "sched:sched_process_hang sched:sched_pi_setprio rcu:rcu_utilization"
    assert kernel.tracefs.read("set_event").decode().split() == f"zz:g zz:b kprobes:a {static}".split()
    assert kernel.tracefs.read("instances/foo/set_event").decode().split() == f"zz:g {static} kprobes:a zz:b".split()
    available = kernel.tracefs.read("available_events").decode()
    assert available == "zz:g\nzz:b\nkprobes:b\nkprobes:a\n" + kernel.profile.tracefs.text("available_events").decode()


@pytest.mark.parametrize("kernel", ["5.10", "6.1", "7.2"])
def test_a_removed_directory_is_empty_for_who_holds_it(kernel: str) -> None:
    """Guests of 5.10, 6.1, 6.12 and 7.2: ENOENT for each file, from a shell whose working directory it is."""
    simulated = SimulatedKernel(kernel)
    tracefs = simulated.tracefs
    tracefs.write("kprobe_events", b"p:g/e do_sys_openat2\n")
    tracefs.mkdir("instances/i")
    paths = ["events/g", "events/g/e", "instances/i/events/g/e"]
    paths += [
        f"instances/i{path}" for path in ("", "/events", "/events/sched", "/options", "/per_cpu", "/per_cpu/cpu0")
    ]
    held = {path: tracefs._node(path) for path in paths}
    assert all(isinstance(node, DirNode) and list(node.names()) for node in held.values())
    names = {path: list(node.names()) for path, node in held.items() if isinstance(node, DirNode)}
    tracefs.write("kprobe_events", b"-:g/e\n")
    tracefs.rmdir("instances/i")
    for path, node in held.items():
        assert isinstance(node, DirNode)
        assert node.is_gone
        assert (list(node.names()), [name for name in names[path] if node.lookup(name)]) == ([], [])
