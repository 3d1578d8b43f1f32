"""What kernels lack is reported by name, and nothing else that fails."""

from __future__ import annotations

import pytest

from kprobe.tracefs.backends import open_tracefs
from kprobe_sim.pytest_plugin.pristine import Pristine
from kprobe_sim.pytest_plugin.unsupported import absent, missing_feature

pytest_plugins = ["pytester"]

# by the lists of files that were recorded of these kernels
NONE_WITHOUT_DEBUGGING = {"events/…/hist_debug", "events/…/inject"}
SINCE_4_20 = {
    *("buffer_percent", "buffer_subbuf_size_kb", "dynamic_events", "error_log", "set_event_notrace_pid"),
    *("set_ftrace_notrace_pid", "show_event_filters", "show_event_triggers", "stack_trace", "syscall_user_buf_size"),
    *NONE_WITHOUT_DEBUGGING,
}
SINCE_4_5 = SINCE_4_20 | {"saved_tgids", "synthetic_events", "timestamp_mode", "trace_marker_raw", "events/…/hist"}
SINCE_3_14 = SINCE_4_5 | {"saved_cmdlines_size", "set_event_pid", "events/…/trigger"}
SINCE_3_3 = SINCE_3_14 | {"instances", "set_graph_notrace", "snapshot", "uprobe_events", "uprobe_profile"}


@pytest.mark.parametrize(
    ("spec", "lacking"),
    [
        ("sim", NONE_WITHOUT_DEBUGGING),
        ("sim:4.19", SINCE_4_20),
        ("sim:4.4", SINCE_4_5),
        ("sim:3.13", SINCE_3_14),
        ("sim:3.2", SINCE_3_3),
    ],
)
def test_what_kernels_lack(spec: str, lacking: set[str]) -> None:
    assert set(absent(open_tracefs(spec))) == lacking


TESTS = """
import pytest

def test_instances(tracefs):
    tracefs.mkdir("instances/a")

def test_in_an_instance(tracefs):
    assert tracefs.read("instances/a/trace") == b""

@pytest.fixture
def emptied(tracefs):
    tracefs.write("error_log", b"", truncate=True)

def test_of_a_fixture(emptied):
    pass

def test_a_trigger(tracefs):
    try:
        tracefs.write("events/sched/sched_switch/trigger", b"traceoff")
    except OSError as error:
        raise RuntimeError("no trigger") from error

def test_a_file_that_no_kernel_has(tracefs):
    tracefs.read("no_such_file")

def test_another_refusal(tracefs):
    tracefs.write("current_tracer", b"nosuch")

def test_an_assertion(tracefs):
    assert tracefs.read("tracing_on") == b"0"
"""


@pytest.mark.slow
def test_it_is_named_counted_and_no_failure(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--tracefs", "sim:3.2", "-rs")
    result.assert_outcomes(skipped=4, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*unsupported on this kernel: sim:3.2 (3.2.*",
            "error_log (no such file), events/…/trigger (no such file), instances (no instances/)",
            "    2  instances (no instances/)",
            "    1  error_log (no such file)",
            "    1  events/…/trigger (no such file)",
            "SKIPPED * unsupported on this kernel: instances (no instances/)",
        ]
    )


@pytest.mark.slow
def test_what_a_definition_has_is_named_on_simulators_as_on_guests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_a_type(tracefs):
            tracefs.write("kprobe_events", b"p:e do_sys_open a=%di:symbol")

        def test_no_type(tracefs):
            tracefs.write("kprobe_events", b"p:e do_sys_open a=%di:nosuch")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--tracefs", "sim:4.19", "-rs")
    result.assert_outcomes(skipped=1, failed=1)
    result.stdout.fnmatch_lines(["    1  type symbol (not in README)"])


@pytest.mark.slow
def test_on_a_kernel_that_has_it_all_is_a_failure(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_a_file_of_an_instance(tracefs):
            tracefs.read("instances/nosuch/trace")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--tracefs", "sim")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*unsupported*")


def test_a_function_that_the_kernel_lacks() -> None:
    tracefs = Pristine(open_tracefs("sim:4.19"))
    with pytest.raises(OSError, match="kprobe_events") as refusal:
        tracefs.write("kprobe_events", b"p:a do_sys_open\np:b do_sys_openat2+4 fd=%di\n")
    assert missing_feature(refusal.value, absent(tracefs), tracefs) == "function do_sys_openat2 (not in this kernel)"
    with pytest.raises(OSError, match="kprobe_events") as refusal:
        tracefs.write("kprobe_events", b"p:a do_sys_open fd=%nosuch\n")
    assert missing_feature(refusal.value, absent(tracefs), tracefs) == ""


@pytest.mark.parametrize(
    ("path", "tracer", "lacking"),
    [
        ("current_tracer", b"blk\n", "tracer blk (not in available_tracers)"),
        ("instances/a/current_tracer", b"wakeup", "tracer wakeup (not in available_tracers)"),
        ("current_tracer", b"nosuch", ""),
    ],
)
def test_a_tracer_that_the_kernel_lacks(path: str, tracer: bytes, lacking: str) -> None:
    tracefs = Pristine(open_tracefs("sim:4.19"))
    tracefs.mkdir("instances/a")
    with pytest.raises(OSError, match="current_tracer") as refusal:
        tracefs.write(path, tracer)
    assert missing_feature(refusal.value, absent(tracefs), tracefs) == lacking


@pytest.mark.parametrize(
    ("definition", "lacking"),
    [
        ("p:a do_sys_open a=%di:symbol", "type symbol"),
        ("p:a do_sys_open +0(%si):ustring", "type ustring"),
        ("p:a do_sys_open a=%di:symstr", "type symstr"),
        ("p:a do_sys_open a=%di:char", "type char"),
        ("p:a do_sys_open a=+0(%si):u8[4]", "arrays"),
        ("p:a do_sys_open a=\\1", "numbers and strings in place of what is fetched"),
        ("p:a do_sys_open a=+0(\\1)", "numbers and strings in place of what is fetched"),
        ("p:a do_sys_open $arg1", "arguments by number"),
        ("p:a do_sys_open a=+u0(%si)", "places in user memory"),
    ],
)
def test_an_argument_that_the_readme_lacks(definition: str, lacking: str) -> None:
    tracefs = Pristine(open_tracefs("sim:4.9"))
    with pytest.raises(OSError, match="kprobe_events") as refusal:
        tracefs.write("kprobe_events", definition.encode())
    assert missing_feature(refusal.value, absent(tracefs), tracefs) == f"{lacking} (not in README)"


def test_an_argument_that_the_readme_has_is_a_failure() -> None:
    tracefs = Pristine(open_tracefs("sim:6.1"))
    with pytest.raises(OSError, match="kprobe_events") as refusal:
        tracefs.write("kprobe_events", b"p:a do_sys_openat2 a=%nosuch:symbol b=+0(%si):ustring c=\\1 d=+0(%si):u8[4]")
    assert missing_feature(refusal.value, absent(tracefs), tracefs) == ""


def test_a_test_that_minds_the_wrong_refusal() -> None:
    tracefs = Pristine(open_tracefs("sim:4.19"))
    with pytest.raises(FileNotFoundError):
        tracefs.write("buffer_percent", b"101")
    assert missing_feature(AssertionError("2 != 22"), absent(tracefs), tracefs) == "buffer_percent (no such file)"


@pytest.mark.parametrize("spec", ["sim:4.19", "sim:3.13", "sim:3.2"])
def test_a_tracefs_without_newer_files_is_put_back(spec: str) -> None:
    tracefs = Pristine(open_tracefs(spec))
    assert not tracefs.is_in_use()
    tracefs.write("kprobe_events", b"p:a do_sys_open\nr:b do_sys_open\n")
    tracefs.write("events/kprobes/a/enable", b"1")
    assert tracefs.is_in_use()
    assert tracefs.reset() == []
    assert tracefs.read("kprobe_events") == b""
    assert not tracefs.is_in_use()
