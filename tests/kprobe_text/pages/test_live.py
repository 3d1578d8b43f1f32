"""Raw pages of several CPUs as they come, and what a machine shows of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kprobe import Tracer
from kprobe.cli import main
from kprobe.options.command_line import UsageError, read_options
from kprobe.tracefs.mounts import is_of_the_same, is_tracefs
from kprobe.tracefs.tracefs import LocalTracefs, Stream
from kprobe.tracing.live import RawPipe
from kprobe_sim import SimulatedKernel, Task
from kprobe_text.pages.merging import Holding, merged
from kprobe_text.pages.tasks import Tasks, tgids
from kprobe_text.text import Event, Header, Marker

PROBE = b"p:myopen do_sys_openat2 path=+0(%si):string\n"


def test_cpus_are_merged_by_time() -> None:
    kernel = SimulatedKernel("6.12", cpus=4)
    kernel.tracefs.write("kprobe_events", PROBE)
    kernel.tracefs.write("events/kprobes/myopen/enable", b"1")
    kernel.tracefs.write("options/record-tgid", b"1")
    pipe = RawPipe(kernel.tracefs, events=("kprobes/myopen",))
    for number in range(200):
        task = Task(40 + number % 3, f"cat {number % 3}", tgid=40)
        kernel.call("do_sys_openat2", task=task, args=(-100, str(number)), cpu=number * 7 % 4)
    found = [record for record in pipe.drain() if isinstance(record, Event)]
    assert [record.fields["path"] for record in found] == [str(number) for number in range(200)]
    assert [record.cpu for record in found] == [number * 7 % 4 for number in range(200)]
    assert {(record.task, record.pid, record.tgid) for record in found} == {
        ("cat 0", 40, 40), ("cat 1", 41, 40), ("cat 2", 42, 40),
    }  # fmt: skip
    with pytest.raises(TimeoutError):
        pipe.read(0)
    kernel.call("do_sys_openat2", task=Task(40, "cat"), args=(-100, "later"), cpu=3)
    (later,) = [record for record in pipe.read(20) if isinstance(record, Event)]
    assert later.fields == {"path": "later"}
    pipe.close()
    assert pipe.read(20) == []
    assert kernel.tracefs.read("per_cpu/cpu0/stats").startswith(b"entries: 0\n")


def test_events_of_others_are_looked_up() -> None:
    kernel = SimulatedKernel("6.12")
    pipe = RawPipe(kernel.tracefs)
    kernel.tracefs.write("kprobe_events", PROBE)
    kernel.tracefs.write("events/kprobes/myopen/enable", b"1")
    kernel.call("do_sys_openat2", task=Task(40, "cat"), args=(-100, "a"))
    (found,) = [record for record in pipe.drain() if isinstance(record, Event)]
    assert (found.name, found.fields, pipe.problems) == ("myopen", {"path": "a"}, [])


def test_a_clock_that_counts() -> None:
    kernel = SimulatedKernel("6.12")
    kernel.tracefs.write("trace_clock", b"counter")
    kernel.tracefs.write("trace_marker", b"hello")
    (found,) = [record for record in RawPipe(kernel.tracefs).drain() if isinstance(record, Marker)]
    assert (found.clock, found.seconds) == ("count", None)


def test_a_round_holds_back_what_another_cpu_may_precede() -> None:
    one, two, three = (Header(b"1")), (Header(b"2")), (Header(b"3"))
    holding = Holding(2)
    assert holding.round([[(10, one)], []], []) == []
    assert holding.round([[(30, three)], [(5, two)]], []) == [two, one]
    assert holding.round([[], []], []) == [three]
    assert holding.round([[(40, one)], [(41, two)]], [40]) == []
    assert holding.round([[], []], []) == [one, two]
    assert Holding(1).round([[(10, one)]], []) == [one]


def test_pages_of_all_cpus_are_merged() -> None:
    records = [Header(bytes([number])) for number in range(6)]
    cpus = [
        iter([[(1, records[0]), (5, records[3])], [], [(5, records[4])]]),
        iter([[(2, records[1]), (3, records[2]), (9, records[5])]]),
        iter([]),
    ]
    assert list(merged(cpus)) == records


def test_names_of_tasks() -> None:
    tasks = Tasks()
    tasks.read(b"42 cat\n7 two words\n9 new\nline\n10 \n\n11 \xff\n12 \n13 \n\n")
    assert [tasks[pid] for pid in (42, 7, 9, 10, 11, 12, 13, 0, 5)] == [
        "cat",
        "two words",
        "new\nline",
        "\n",
        "\udcff",
        "",
        "\n",
        "<idle>",
        "<...>",
    ]
    assert tgids(b"3 3\n9 3\n") == {3: 3, 9: 3}


def test_only_the_kernels_own_tracefs_has_this_machines_symbols(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"tmpfs / tmpfs rw 0 0\ntracefs {tmp_path}/tracing tracefs rw 0 0\nsim {tmp_path}/tracing/sim fuse.sim rw 0 0\n"
    )
    assert is_tracefs(f"{tmp_path}/tracing", str(mounts))
    assert is_tracefs(f"{tmp_path}/tracing/instances/i", str(mounts))
    assert not is_tracefs(f"{tmp_path}/tracing/sim", str(mounts))
    assert not is_tracefs("/tracing", str(mounts))
    assert not is_tracefs("/tracing", f"{tmp_path}/none")
    assert LocalTracefs(str(tmp_path)).kallsyms() == b""


@pytest.mark.parametrize("option", ["-H", "-v"])
def test_options_of_text_dont_go_with_raw(option: str) -> None:
    with pytest.raises(UsageError, match=f"--raw has no text of the kernel: leave {option} out"):
        read_options(["--raw", option, "p:do_sys_openat2"])


def test_no_exact_bytes_without_a_page_layout(capfd: pytest.CaptureFixture[str]) -> None:
    kernel = SimulatedKernel("6.12")

    class Strange:
        def __getattr__(self, name: str) -> Any:
            return getattr(kernel.tracefs, name)

        def read(self, path: str) -> bytes:
            text = kernel.tracefs.read(path)
            return text.replace(b"timestamp", b"when") if path == "events/header_page" else text

    before = kernel.tracefs.read("kprobe_events")
    assert main(["-F", "--raw", "p:e do_sys_openat2"], tracefs=Strange()) == 1
    assert "this kernel has no page layout that is understood (not a header_page: it has no field timestamp)" in (
        capfd.readouterr().err
    )
    assert kernel.tracefs.read("kprobe_events") == before
    assert kernel.tracefs.listdir("instances") == []


def test_a_read_of_nothing_isnt_the_end() -> None:
    """The kernel gives none, once, to a read that meets a writer; and names are read through one open."""
    kernel = SimulatedKernel("6.12", cpus=2)
    opened: list[str] = []

    class Meeting:
        def __init__(self, stream: Stream) -> None:
            self.stream = stream
            self.close = stream.close

        def read(self, timeout: float | None = None) -> bytes:
            return b""

    class Racing:
        def __getattr__(self, name: str) -> Any:
            return getattr(kernel.tracefs, name)

        def open(self, path: str, flags: int) -> Any:
            opened.append(path)
            return kernel.tracefs.open(path, flags)

        def stream(self, path: str) -> Stream:
            opened.append(path)
            stream = kernel.tracefs.stream(path)
            return Meeting(stream) if opened.count(path) == 1 else stream

    racing: Any = Racing()
    pipe = RawPipe(racing)
    for text in (b"one", b"two"):
        kernel.tracefs.write("trace_marker", text)
        (found,) = [record for record in pipe.read(20) if isinstance(record, Marker)]
        assert found.text == text.decode()
    raw = [f"per_cpu/cpu{cpu}/trace_pipe_raw" for cpu in (0, 1)]
    assert sorted(opened) == sorted([*raw, *raw, "saved_cmdlines", "saved_tgids"])
    pipe.close()


def test_files_that_are_served_beside_a_tracefs_that_is_served_are_of_the_same_kernel(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "proc /proc proc rw 0 0\ntracefs /t tracefs rw 0 0\ntracefs /served fuse.tracefs rw 0 0\n"
        "sim /proc/kallsyms fuse.sim rw 0 0\n"
    )
    table = str(mounts)
    assert is_of_the_same("/t", "/proc/modules", table)
    assert is_of_the_same("/served", "/proc/kallsyms", table)
    assert is_of_the_same("/served/instances/i", "/proc/kallsyms", table)
    assert not is_of_the_same("/served", "/proc/modules", table)
    assert not is_of_the_same("/other", "/proc/kallsyms", table)
    assert not is_of_the_same("/served", "/proc/kallsyms", f"{tmp_path}/none")


@pytest.mark.parametrize(("series", "added", "raw"), [("6.12", "", True), ("3.13", "", False), ("6.12", "mine", False)])
def test_what_has_not_all_symbols_is_read_as_text(series: str, added: str, raw: bool) -> None:
    """There kallsyms gives functions other sizes than traces do: `system_call_fastpath+0x16/0x1474` for …/0x1b."""
    kernel = SimulatedKernel(series)
    if added:
        kernel.add_function(added, 0x40)
    function = added or {"6.12": "do_sys_openat2", "3.13": "do_sys_open"}[series]
    with Tracer(kernel.tracefs).trace(f"r:x {function}", raw=None) as trace:
        assert trace.is_raw is raw
    with Tracer(kernel.tracefs).trace(f"r:x {function}", raw=True) as trace:
        assert trace.is_raw
