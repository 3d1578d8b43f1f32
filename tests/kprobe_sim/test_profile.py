"""The recorded profile of 6.1, held to literal facts of that kernel."""

from __future__ import annotations

import subprocess
import sys
import zlib
from types import SimpleNamespace

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds import profile
from kprobe_sim.builds.profile import Profile, load
from kprobe_sim.builds.prototypes import CType, Parameter, Prototype
from kprobe_sim.kernel.backend import open_sim
from kprobe_sim.releases import chosen


@pytest.fixture(scope="module")
def recorded() -> Profile:
    return load("6.1")


def test_facts(recorded: Profile) -> None:
    assert recorded.release == "6.1.0-54-cloud-amd64"
    assert (recorded.version, recorded.number, recorded.series) == ("6.1.190", (6, 1, 190), "6.1")
    assert recorded.banner.endswith("#1 SMP PREEMPT_DYNAMIC Debian 6.1.190-1 (2026-10-16)")
    assert (recorded.cpus, recorded.page_size, recorded.thread_size, recorded.hz) == (1, 4096, 16384, 250)
    assert recorded.preemption
    assert recorded.preempt_model == "desktop"
    assert recorded.config["HIST_TRIGGERS"] == "y"
    assert "KPROBE_EVENTS_ON_NOTRACE" not in recorded.config
    assert recorded.saved_cmdlines_size == 6552
    assert recorded.buffer_size_kb == 1410
    assert (1, "init") in recorded.tasks


def test_ids_grow_after_a_gap(recorded: Profile) -> None:
    assert (recorded.first_dynamic_id, recorded.second_dynamic_id) == (1392, 1393)


def test_clocks_and_tracers(recorded: Profile) -> None:
    assert recorded.clocks == (
        "local", "global", "counter", "uptime", "perf", "mono", "mono_raw", "boot", "tai", "x86-tsc",
    )  # fmt: skip
    assert recorded.default_clock == "local"
    assert recorded.tracers == ("blk", "mmiotrace", "function_graph", "function", "nop")


def test_options_in_the_order_of_the_kernel(recorded: Profile) -> None:
    assert recorded.options[:4] == [
        ("print-parent", True),
        ("sym-offset", False),
        ("sym-addr", False),
        ("verbose", False),
    ]
    assert len(recorded.options) == 30
    assert [name for name, value in recorded.options if value] == [
        "print-parent", "trace_printk", "annotate", "context-info", "record-cmd", "overwrite", "irq-info", "markers",
        "hash-ptr", "function-trace",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("buffer_size_kb", b"7 (expanded: 1408)\n"),
        ("buffer_total_size_kb", b"7 (expanded: 1408)\n"),
        ("saved_cmdlines_size", b"6552\n"),
        ("tracing_cpumask", b"1\n"),
        ("timestamp_mode", b"[delta] absolute\n"),
        ("set_ftrace_filter", b"#### all functions enabled ####\n"),
        ("events/ftrace/print/id", b"5\n"),
        ("events/*/*/enable", b"0\n"),
        ("events/*/*/filter", b"none\n"),
        ("instances/*/buffer_size_kb", b"1410 (expanded: 1408)\n"),
        ("kprobe_events", b""),
    ],
)
def test_texts_of_the_pristine_tracefs(recorded: Profile, path: str, text: bytes) -> None:
    assert recorded.tracefs.text(path) == text


def test_long_texts(recorded: Profile) -> None:
    readme = recorded.tracefs.text("README")
    assert readme.startswith(b"tracing mini-HOWTO:\n\n# echo 0 > tracing_on")
    assert b"\t    place: [<module>:]<symbol>[+<offset>]|<memaddr>\n" in readme
    assert recorded.tracefs.text("events/header_page").splitlines()[-1] == (
        b"\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;"
    )
    assert len(recorded.functions.lines) == 35772


def test_a_file_that_was_not_recorded(recorded: Profile) -> None:
    with pytest.raises(KeyError):
        recorded.tracefs.text("trace_pipe")


def test_tree_in_readdir_order(recorded: Profile) -> None:
    top = recorded.tracefs.directory("")
    assert list(top)[:4] == ["stack_trace_filter", "stack_trace", "stack_max_size", "instances"]
    assert len(top) == 51
    assert (top["kprobe_events"], top["trace_pipe"], top["trace_marker"], top["free_buffer"]) == (
        0o640, 0o440, 0o220, 0o200,
    )  # fmt: skip
    assert "kprobe_events" not in recorded.tracefs.directory("instances/*")
    assert list(recorded.tracefs.directory("events/sched/sched_switch")) == [
        "format",
        "hist",
        "trigger",
        "filter",
        "id",
        "enable",
    ]
    assert list(recorded.tracefs.directory("events/*/*")) == ["format", "hist", "trigger", "filter", "id", "enable"]
    assert list(recorded.tracefs.directory("events/sched"))[-2:] == ["enable", "filter"]
    assert "enable" not in recorded.tracefs.directory("events/ftrace/print")
    assert all(entry.is_dir for entry in recorded.tracefs.entries("events")[:88])
    with pytest.raises(KeyError):
        recorded.tracefs.entries("nowhere")


def test_static_events(recorded: Profile) -> None:
    events = recorded.tracefs.events()
    assert len(events) == 1390
    ids = {(event.system, event.name): event.id for event in events}
    assert ids["sched", "sched_switch"] == 314
    assert ids["syscalls", "sys_enter_openat"] == 654
    assert len(set(ids.values())) == 1390
    assert recorded.tracefs.has_event("ftrace", "print")
    assert not recorded.tracefs.has_event("ftrace", "sched_switch")
    assert not recorded.tracefs.has_event("kprobes", "print")


def test_every_format_is_that_of_its_event(recorded: Profile) -> None:
    for event in recorded.tracefs.events():
        text = recorded.tracefs.event_format(event.system, event.name)
        assert text.startswith(b"name: %s\nID: %d\nformat:\n" % (event.name.encode(), event.id))
    text = recorded.tracefs.event_format("sched", "sched_switch")
    assert b"\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:1;\n" in text
    with pytest.raises(KeyError):
        recorded.tracefs.event_format("sched", "no_such_event")


def test_what_is_asked_of_one_event_unpacks_no_others(recorded: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked = []

    def decompress(data: bytes) -> bytes:
        unpacked.append(text := zlib.decompress(data))
        return text

    monkeypatch.setattr("kprobe_sim.builds.packed.zlib", SimpleNamespace(decompress=decompress))
    fresh = Profile(recorded.path)
    assert len(fresh.tracefs.event_format("sched", "sched_switch")) == 1488
    assert fresh.tracefs.text("events/*/*/filter") == b"none\n"
    assert sum(map(len, unpacked)) < 40_000  # of a million


def test_prototypes(recorded: Profile) -> None:
    size_int = CType("int", "int", 4, signed=True)
    assert recorded.prototype("do_sys_openat2") == Prototype(
        (
            Parameter("dfd", size_int),
            Parameter("filename", CType("const char *", "ptr", 8, signed=False)),
            Parameter("how", CType("struct open_how *", "ptr", 8, signed=False)),
        ),
        CType("long int", "int", 8, signed=True),
    )
    vfs_read = recorded.prototype("vfs_read")
    assert vfs_read is not None
    assert [parameter.name for parameter in vfs_read.parameters] == ["file", "buf", "count", "pos"]
    assert vfs_read.returns == CType("ssize_t", "int", 8, signed=True)
    printk = recorded.prototype("_printk")
    assert printk is not None
    assert printk.parameters[-1].name == "..."
    assert recorded.prototype("startup_64") is None
    assert recorded.prototype("no_such_function") is None


def test_load_by_series_release_and_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load("6.1").release == load("6.1.0-54-cloud-amd64").release == "6.1.0-54-cloud-amd64"
    monkeypatch.setattr(profile, "available", lambda: ["5.10.0-46-cloud-amd64", "6.1.0-54-cloud-amd64"])
    assert load().release == "6.1.0-54-cloud-amd64"


@pytest.mark.parametrize("spec", ["9.9", "6", "6.", "6.1.0-5", "6.11"])
def test_what_there_is_not_is_refused_with_what_there_is(spec: str) -> None:
    with pytest.raises(ValueError, match=r"there are: .*6\.1\.0-54-cloud-amd64"):
        load(spec)


def test_releases_are_ordered_by_number() -> None:
    ordered = [
        "5.10.0-46-cloud-amd64",
        "6.1.0-9-cloud-amd64",
        "6.1.0-54-cloud-amd64",
        "6.12.117+deb13-rt-amd64",
        "6.12.117+deb13-cloud-amd64",
        "6.12.117+deb14-cloud-amd64",
        "7.3-rc7-cloud-amd64",
        "7.3-rc10-cloud-amd64",
        "7.3-cloud-amd64",
        "7.3.4-cloud-amd64",
        "7.10-rc1-amd64",
    ]
    by_text = sorted(ordered)
    assert by_text != ordered
    assert sorted(by_text, key=profile._by_version) == ordered


@pytest.mark.parametrize(
    ("spec", "release"),
    [
        ("6.12", "6.12.117+deb13-cloud-amd64"),
        ("6.12.117", "6.12.117+deb13-cloud-amd64"),
        ("6.12-cloud-amd64", "6.12.117+deb13-cloud-amd64"),
        ("6.12-rt-amd64", "6.12.117+deb13-rt-amd64"),
        ("6.12-amd64", "6.12.117+deb13-amd64"),
        ("6.1-cloud-amd64", "6.1.0-54-cloud-amd64"),
    ],
)
def test_a_series_may_have_a_flavour(spec: str, release: str) -> None:
    builds = [f"6.12.117+deb13-{flavour}amd64" for flavour in ("", "rt-", "cloud-")]
    assert chosen(spec, profile.ordered(("6.1.0-54-cloud-amd64", *builds))) == release


def test_without_a_spec_it_is_the_newest_recorded() -> None:
    assert load().release == SimulatedKernel().release == open_sim("").kernel.release == "7.3-cloud-amd64"
    assert profile.newest() == "7.3"


def test_opening_reads_only_the_facts() -> None:
    """A profile that is only opened has neither unpacked nor mapped anything."""
    opened = Profile(load("6.1").path)
    lazily = {"symbols", "recorded_symbols", "_files", "_tree", "_events", "_systems", "_formats", "types"}
    assert not lazily & set(opened.__dict__)


def test_profiles_import_nothing_slow() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, kprobe_sim.builds.profile; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "kprobe_sim.builds.profile" in done.stdout.split()
    assert not {"capstone", "asyncio", "tomllib"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("series", "release", "number", "ids", "events", "size", "model"),
    [
        ("5.10", "5.10.0-46-cloud-amd64", (5, 10, 262), (1347, 1348), 1345, 0x160, "desktop"),
        ("6.1", "6.1.0-54-cloud-amd64", (6, 1, 190), (1392, 1393), 1390, 0x170, "desktop"),
        ("6.12", "6.12.117+deb13-cloud-amd64", (6, 12, 117), (1554, 1554), 1552, 0xE0, "desktop"),
        ("7.2", "7.2.13+deb14-cloud-amd64", (7, 2, 13), (1649, 1649), 1646, 0xE0, "PREEMPT(lazy)"),
        ("7.3", "7.3-cloud-amd64", (7, 3, 0), (1666, 1666), 1663, 0xE0, "PREEMPT(lazy)"),
    ],
)
def test_each_series(
    series: str,
    release: str,
    number: tuple[int, int, int],
    ids: tuple[int, int],
    events: int,
    size: int,
    model: str,
) -> None:
    """The release, the ids of the first two probe events, the static events, the size of do_sys_openat2."""
    opened = load(series)
    assert (opened.release, opened.number, opened.preempt_model) == (release, number, model)
    assert (opened.first_dynamic_id, opened.second_dynamic_id) == ids
    assert len(opened.tracefs.events()) == events
    assert [symbol.size for symbol in opened.symbols.lookup("do_sys_openat2")] == [size]
    assert opened.config["KPROBE_EVENTS"] == "y"


def test_the_size_of_the_buffer_is_the_recorded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = SimulatedKernel("6.1")
    assert kernel.profile.trace_buffer_size == 1_441_792
    monkeypatch.setitem(kernel.profile.__dict__, "trace_buffer_size", 2048 << 10)
    assert kernel.tracefs.read("buffer_size_kb") == b"7 (expanded: 2048)\n"
    kernel.tracefs.mkdir("instances/i")
    kernel.tracefs.write("events/sched/enable", b"1")
    assert kernel.tracefs.read("buffer_size_kb") == kernel.tracefs.read("instances/i/buffer_size_kb") == b"2051\n"
