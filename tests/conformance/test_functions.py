"""Lists of functions and the function tracer."""

from __future__ import annotations

import errno
from typing import Any

from .text import refused

ALL, NONE = b"#### all functions enabled ####\n", b"#### no functions disabled ####\n"


def test_lists_that_are_empty(tracefs: Any) -> None:
    assert tracefs.read("set_ftrace_filter") == ALL
    assert tracefs.read("set_ftrace_notrace") == NONE
    assert tracefs.read("set_ftrace_pid") == b"no pid\n"


def test_functions_by_name_and_pattern(tracefs: Any) -> None:
    tracefs.write("set_ftrace_filter", b"vfs_open\n", truncate=True)
    tracefs.write("set_ftrace_filter", b"kernel_clone", truncate=False)  # taken at the close
    assert sorted(tracefs.read("set_ftrace_filter").split()) == [b"kernel_clone", b"vfs_open"]
    tracefs.write("set_ftrace_filter", b"!kernel_cl*\n")
    assert tracefs.read("set_ftrace_filter") == b"vfs_open\n"
    tracefs.write("set_ftrace_notrace", b"*_symlink\n")
    assert b"vfs_symlink" in tracefs.read("set_ftrace_notrace").split()
    tracefs.write("set_ftrace_notrace", b"\n", truncate=True)
    tracefs.write("set_ftrace_filter", b"\n", truncate=True)
    assert tracefs.read("set_ftrace_filter") == ALL


def test_functions_that_are_not_there(tracefs: Any) -> None:
    assert refused(tracefs, "set_ftrace_filter", b"nosuch\n") == errno.EINVAL
    assert refused(tracefs, "set_ftrace_filter", b"vfs_open:nosuch\n") == errno.EINVAL
    assert tracefs.read("set_ftrace_filter") == ALL


def test_pids_of_the_tracer(tracefs: Any) -> None:
    tracefs.write("set_ftrace_pid", b"5\n")
    assert tracefs.read("set_ftrace_pid") == b"5\n"
    tracefs.write("set_ftrace_pid", b"\n", truncate=True)
    assert tracefs.read("set_ftrace_pid") == b"no pid\n"


def test_the_tracer_records_calls(tracefs: Any, workload: Any) -> None:
    tracefs.write("set_ftrace_filter", b"do_sys_openat2\n", truncate=True)
    tracefs.write("set_ftrace_pid", b"%d\n" % workload.pid)
    tracefs.write("current_tracer", b"function\n")
    try:
        assert b"func_stack_trace" in tracefs.read("trace_options")
        assert b"test_nop_accept" not in tracefs.read("trace_options")
        workload.open("/etc/hostname")
        text = tracefs.read("trace")
    finally:
        tracefs.write("current_tracer", b"nop\n")
    lines = [line for line in text.splitlines() if not line.startswith(b"#")]
    assert text.startswith(b"# tracer: function\n#\n# entries-in-buffer")
    assert [line.partition(b": ")[2] for line in lines] == [b"do_sys_openat2 <-__x64_sys_openat"]
    assert b"test_nop_accept" in tracefs.read("trace_options")
    assert b"do_sys_openat2" not in tracefs.read("trace")
    tracefs.write("set_ftrace_pid", b"\n", truncate=True)
    tracefs.write("set_ftrace_filter", b"\n", truncate=True)


def test_every_tracer_can_be_chosen(tracefs: Any) -> None:
    """For one function: to patch all of them keeps an emulated guest from answering for more than ten seconds."""
    tracefs.write("set_ftrace_filter", b"do_sys_openat2")
    for name in tracefs.read("available_tracers").split():
        tracefs.write("current_tracer", name)
        assert tracefs.read("current_tracer") == name + b"\n"
    tracefs.write("current_tracer", b"nop")
