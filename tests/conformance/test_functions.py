"""Lists of functions and the function tracer."""

from __future__ import annotations

import errno
from collections import Counter
from typing import Any

import pytest

from .builds import BTF
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


def test_a_function_of_a_module_is_listed_with_it(tracefs: Any) -> None:
    lines = tracefs.read("available_filter_functions").splitlines(keepends=True)
    line = next((line for line in lines if b"[" in line), lines[0])  # kernels without modules have none
    for path in ("set_ftrace_filter", "set_ftrace_notrace", "set_graph_function", "stack_trace_filter"):
        assert chosen(tracefs, path, line.split()[0]) == line
        tracefs.write(path, b"\n", truncate=True)


def names(tracefs: Any) -> list[bytes]:
    return [line.split()[0] for line in tracefs.read("available_filter_functions").splitlines()]


def chosen(tracefs: Any, path: str, word: bytes) -> bytes | int:
    """Return what a list reads after the word was written to it alone, or the errno of its refusal."""
    try:
        tracefs.write(path, word + b"\n", truncate=True)
    except OSError as error:
        return error.errno or 0
    found: bytes = tracefs.read(path)
    return found


@pytest.mark.parametrize("path", ["set_ftrace_filter", "set_ftrace_notrace", "stack_trace_filter"])
def test_functions_by_index(tracefs: Any, path: str) -> None:
    """An index counts from 1 and is read as C reads numbers."""
    functions = names(tracefs)
    for word, number in ((b"16", 16), (b"0x10", 16), (b"0X10", 16), (b"010", 8)):
        assert chosen(tracefs, path, word) == functions[number - 1] + b"\n"
    for word in (b"0", b"08", b"0x", b"0b1", b"99999999", b"9223372036854775809"):
        assert chosen(tracefs, path, word) == errno.EINVAL
    tracefs.write(path, b"\n", truncate=True)


def test_an_index_means_one_function_of_several_of_a_name(tracefs: Any) -> None:
    functions = names(tracefs)
    counts = {name: count for name, count in Counter(functions).items() if b"_invalid_" not in name}
    name, count = next((name, count) for name, count in counts.items() if count > 2)
    index = b"%d" % (functions.index(name) + 1)
    assert chosen(tracefs, "set_ftrace_filter", index) == name + b"\n"
    assert chosen(tracefs, "set_ftrace_filter", name) == (name + b"\n") * count
    tracefs.write("set_ftrace_filter", b"!" + index + b"\n")
    assert tracefs.read("set_ftrace_filter") == (name + b"\n") * (count - 1)


def test_what_follows_an_index(tracefs: Any, choose: Any) -> None:
    """Up to 6.1 it isn't looked at, and the number is cut to 64 bits."""
    is_refused = choose({"": False, BTF: True})
    functions = names(tracefs)
    for word, number in ((b"12abc", 12), (b"1*", 1), (b"5[", 5), (b"0x10g", 16), (b"18446744073709551617", 1)):
        old = functions[number - 1] + b"\n"
        assert chosen(tracefs, "set_ftrace_filter", word) == (errno.EINVAL if is_refused else old)


@pytest.mark.parametrize("path", ["set_graph_function", "set_graph_notrace"])
def test_function_graph_knows_no_index(tracefs: Any, path: str) -> None:
    assert chosen(tracefs, path, b"16") == errno.EINVAL
    assert chosen(tracefs, path, b"1*") == errno.EINVAL


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
