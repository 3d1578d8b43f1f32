"""Lists of functions: words that only a close ends, and commands, which aren't simulated.

The kernel's answers are those of guests of 5.10, 6.1, 6.12 and 7.2, all alike.
"""

from __future__ import annotations

import errno
import os

import pytest

from kprobe_sim import SimulatedKernel


def written(path: str, *pieces: bytes) -> tuple[list[int | str], bytes]:
    """Return what writes to a file say, and what it reads once it is closed."""
    tracefs = SimulatedKernel("6.1").tracefs
    answers: list[int | str] = []
    with tracefs.open(path, os.O_WRONLY) as file:
        for piece in pieces:
            try:
                answers.append(file.write(piece))
            except OSError as error:
                answers.append(errno.errorcode[error.errno or 0])
    return answers, tracefs.read(path)


@pytest.mark.parametrize(
    "command", [b"traceoff", b"traceon:3", b"stacktrace", b"snapshot", b"dump", b"enable_event:sched:x", b"mod:ext4"]
)
def test_a_command_is_refused_though_a_close_would_end_it(command: bytes) -> None:
    """A kernel takes it, at the close."""
    empty = b"#### all functions enabled ####\n"
    assert written("set_ftrace_filter", b"do_sys_openat2:" + command) == (["ENOSYS"], empty)
    assert written("set_ftrace_filter", b"do_sys_openat2:" + command + b"\n") == (["ENOSYS"], empty)


def test_a_command_in_pieces() -> None:
    answers, _ = written("set_ftrace_filter", b"do_sys_open", b"at2:trace", b"off")
    assert answers == [11, 9, "ENOSYS"]


@pytest.mark.parametrize(
    ("path", "word", "ended"),
    [
        ("set_ftrace_filter", b"do_sys_openat2:nosuch", "EINVAL"),
        ("set_ftrace_filter", b"nosuchfn", "EINVAL"),
        ("set_ftrace_filter", b"nosuchfn:traceoff", "EINVAL"),
        ("set_ftrace_notrace", b"do_sys_openat2:traceoff", "EINVAL"),
        ("set_graph_function", b"do_sys_openat2:traceoff", "EINVAL"),
        ("set_graph_function", b"nosuch", "EINVAL"),
        ("set_graph_notrace", b"nosuch", "EINVAL"),
        ("stack_trace_filter", b"do_sys_openat2:traceoff", "ENODEV"),
        ("stack_trace_filter", b"nosuch", "EINVAL"),
    ],
)
def test_what_is_wrong_is_said_to_who_ends_the_word(path: str, word: bytes, ended: str) -> None:
    """And to nobody, if that is the close."""
    assert written(path, word)[0] == [len(word)]
    assert written(path, word + b"\n")[0] == [ended]
    assert written(path, word)[1].startswith(b"####")


@pytest.mark.parametrize("path", ["set_ftrace_filter", "set_graph_function", "stack_trace_filter"])
def test_a_function_that_a_close_ends_is_taken(path: str) -> None:
    assert written(path, b"do_sys_", b"openat2") == ([7, 7], b"do_sys_openat2\n")


def test_a_function_by_its_place_in_the_list() -> None:
    """It begins at 1."""
    first, second = SimulatedKernel("6.1").tracefs.read("available_filter_functions").split(b"\n")[:2]
    assert written("set_ftrace_filter", b"2\n") == ([2], second + b"\n")
    assert written("set_ftrace_filter", b"1 ", b"2\n") == ([2, 2], first + b"\n" + second + b"\n")
    for place in (b"0\n", b"35773\n", b"99999999999999999999\n"):
        assert written("set_ftrace_filter", place)[0] == ["EINVAL"]


def test_a_weak_function_that_another_replaced_has_an_index_alone() -> None:
    """It is listed, but no name or pattern means it: answers of a guest of 6.1."""
    path, name = "set_ftrace_filter", b"__ftrace_invalid_address___496\n"
    listed = SimulatedKernel("6.1").tracefs.read("available_filter_functions").splitlines(keepends=True)
    assert written(path, b"%d\n" % (listed.index(name) + 1))[1] == name
    assert written(path, name)[0] == written(path, b"*ftrace_inv*\n")[0] == ["EINVAL"]
    assert len(written(path, b"*\n")[1].splitlines()) == 35214
    assert len(written(path, b"*[a-z]*4\n")[1].splitlines()) == 166


def test_patterns_and_names_of_one_list() -> None:
    path = "set_ftrace_filter"
    assert written(path, b"vfs_lo*\n", b"vfs_link ") == ([8, 9], b"vfs_link\nvfs_lock_file\n")


@pytest.mark.slow
def test_all_functions_stay_chosen_when_one_is_added() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("set_ftrace_filter", b"*\n")
    kernel.add_function("another_function")
    assert len(kernel.tracefs.read("set_ftrace_filter").splitlines()) == 35214


def test_what_was_chosen_stays_chosen_when_functions_are_added_or_move() -> None:
    kernel = SimulatedKernel("6.1")
    tracefs = kernel.tracefs
    tracefs.write("set_ftrace_filter", b"vfs_open\n")
    tracefs.write("set_ftrace_filter", b"do_sys_openat2\n")
    kernel.add_function("another_function")
    kernel.add_function("vfs_open", size=0x10000)
    assert tracefs.read("set_ftrace_filter") == b"do_sys_openat2\nvfs_open\n"
    tracefs.write("set_ftrace_filter", b"another_*\n")
    assert tracefs.read("set_ftrace_filter") == b"do_sys_openat2\nanother_function\nvfs_open\n"
    tracefs.write("set_ftrace_filter", b"!vfs_open\n")
    assert tracefs.read("set_ftrace_filter") == b"do_sys_openat2\nanother_function\n"
