"""Kernels of one build share what is recorded of it: what is done to one is seen on no other, whatever threads do."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.builds import profile

CAT = Task(42, "cat")
EVENTS = ("sched/sched_switch", "syscalls/sys_enter_openat", "kmem/kmalloc", "ftrace/print")
FUNCTIONS = ("vfs_read", "do_sys_openat2", "get_kprobe", "do_sys_open", "brand_new")


def define(kernel: SimulatedKernel, chance: random.Random) -> None:
    name = f"p{chance.randrange(1000)}"
    kernel.tracefs.write("kprobe_events", f"p:{name} {chance.choice(FUNCTIONS[:2])} a=%di\n".encode())
    kernel.tracefs.write(f"events/kprobes/{name}/enable", b"1")


def hit(kernel: SimulatedKernel, chance: random.Random) -> None:
    kernel.call("vfs_read", task=CAT, args=(chance.randrange(9),), returns=3, caller="other_kernels_name+0x5/0x60")


def emit(kernel: SimulatedKernel, chance: random.Random) -> None:
    kernel.emit("sched/sched_switch", task=CAT, fields={"prev_comm": "a", "next_pid": chance.randrange(9)})


def set_up_event(kernel: SimulatedKernel, chance: random.Random) -> None:
    event = chance.choice(EVENTS[:3])
    kernel.tracefs.write(f"events/{event}/enable", b"1")
    kernel.tracefs.write(f"events/{event}/filter", b"common_pid == 42")
    kernel.tracefs.write(f"events/{event}/trigger", b"!traceoff" if chance.random() < 0.2 else b"traceoff:1")


def instance(kernel: SimulatedKernel, chance: random.Random) -> None:
    kernel.tracefs.mkdir(f"instances/i{chance.randrange(10**6)}")


def resize_function(kernel: SimulatedKernel, chance: random.Random) -> None:
    name = chance.choice(("get_kprobe", "do_sys_open", "brand_new", "vfs_write"))
    kernel.add_function(name, chance.choice((0x10, 0x400, 0x20000)))


def set_knobs(kernel: SimulatedKernel, chance: random.Random) -> None:
    for path, data in (
        ("trace_clock", b"mono"),
        ("options/stacktrace", b"1"),
        ("buffer_size_kb", b"64"),
        ("tracing_on", b"0"),
        ("set_event_pid", b"7 8"),
        ("saved_cmdlines_size", b"5"),
        ("set_ftrace_filter", b"vfs_read"),
        ("trace_marker", b"mark\n"),
    ):
        if chance.random() < 0.5:
            kernel.tracefs.write(path, data)


def machine(kernel: SimulatedKernel, chance: random.Random) -> None:
    kernel.files.add(f"/opt/{chance.randrange(99)}")
    kernel.memory.put(kernel.symbols.lookup("linux_banner")[0].address, b"Minix\0")
    kernel.tasks[77] = Task(77, "mine")


OPERATIONS: tuple[Callable[[SimulatedKernel, random.Random], None], ...] = (
    *(define, define, hit, hit, emit, set_up_event, instance, resize_function, set_knobs, machine),
)


def seen(kernel: SimulatedKernel) -> dict[str, object]:
    """Return what can be seen of a kernel."""
    tracefs = kernel.tracefs
    found: dict[str, object] = {"listing": tracefs.listdir("events"), "tasks": dict(kernel.tasks)}
    paths = [name for name in tracefs.listdir("") if "filter_functions" not in name and name not in ("trace_pipe",)]
    paths += [f"events/{event}/{name}" for event in EVENTS for name in tracefs.listdir(f"events/{event}")]
    paths += [f"options/{name}" for name in tracefs.listdir("options")]
    for path in paths:
        try:
            found[path] = tracefs.read(path)
        except OSError as error:
            found[path] = error.errno
    for name in FUNCTIONS:
        for symbol in found.setdefault(name, kernel.symbols.lookup(name)):  # type: ignore[attr-defined]
            at = kernel.symbols.containing(symbol.address), kernel.symbols.placement(symbol.address)
            found[f"{name} at {symbol.address:x}"] = at
    found["version"] = kernel.symbols.version
    (banner,) = kernel.symbols.lookup("linux_banner")
    found["banner"] = kernel.memory.stretch(banner.address, 16)
    try:
        found["file"] = [kernel.files.find(f"/opt/{number}") for number in range(99)]
    except OSError as error:
        found["file"] = error.errno
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("series", ["6.1", "7.2"])
def test_what_is_done_to_one_kernel_is_seen_on_no_other(series: str, seed: int) -> None:
    pristine = seen(SimulatedKernel(series))
    changed, other = SimulatedKernel(series), SimulatedKernel(series)
    chance = random.Random(seed)
    for operation in chance.choices(OPERATIONS, k=30):
        try:
            operation(changed, chance)
        except (OSError, ValueError):  # refused, as by a kernel in that state
            continue
    assert seen(changed) != pristine
    assert seen(other) == pristine
    assert seen(SimulatedKernel(series)) == pristine


def test_a_profile_is_opened_once() -> None:
    first, second = SimulatedKernel("6.1"), SimulatedKernel("6.1.0-54-cloud-amd64")
    assert first.profile is second.profile
    assert first.events.static.find("sched", "sched_switch") is second.events.static.find("sched", "sched_switch")
    assert first.symbols is not second.symbols
    assert SimulatedKernel("7.2").profile is not first.profile


def test_what_a_profile_says_cannot_be_changed() -> None:
    recorded = profile.load("6.1")
    with pytest.raises(TypeError, match="does not support item assignment"):
        recorded.tracefs.directory("")["trace"] = 0  # type: ignore[index]
    with pytest.raises(TypeError, match="does not support item assignment"):
        recorded.chains["openat"] = ()  # type: ignore[index]
    recorded.config["HZ"] = "1"
    recorded.options.clear()
    recorded.tracefs.entries("").clear()
    assert (recorded.config["HZ"], recorded.hz) == ("250", 250)
    assert recorded.options[0][0] == "print-parent"
    assert recorded.tracefs.entries("")


def test_threads_that_open_a_build_at_once_see_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build is one that nobody has looked at yet: all that is found on the way is found by several at once."""

    def trace() -> tuple[bytes, object]:
        kernel = SimulatedKernel("6.1")
        kernel.tracefs.write("kprobe_events", b"p:mine do_sys_openat2 name=+0(%si):string\nr:back vfs_read\n")
        for path in ("kprobes", "sched/sched_switch"):
            kernel.tracefs.write(f"events/{path}/enable", b"1")
        for number in range(5):
            kernel.call("do_sys_openat2", task=CAT, args=(-100, f"/{number}"), returns=3, caller="__x64_sys_openat")
            kernel.call("vfs_read", task=CAT, caller="ksys_read+0x5")
            kernel.emit("sched/sched_switch", task=CAT, fields={"next_comm": "b"})
        event = kernel.events.static.by_id(kernel.events.static.all()["sched", "sched_switch"].id)
        return kernel.tracefs.read("trace"), event

    expected, _ = trace()
    recorded = profile.load("6.1").path
    (tmp_path / recorded.name).symlink_to(recorded)
    monkeypatch.setattr(profile, "PROFILES", tmp_path)
    start = threading.Barrier(6)
    results: list[tuple[bytes, object]] = []

    def run() -> None:
        start.wait()
        results.append(trace())

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [text for text, _ in results] == [expected] * 6
    assert len({id(event) for _, event in results}) == 1
