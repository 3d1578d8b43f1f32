"""The tracer function_graph beside probes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

DURATION = re.compile(rb"[ +!#*@$] [0-9.]{5,8} us *\|")
LATE = re.compile(rb"^ +\S+ .*: <stack trace>$", re.MULTILINE)


@pytest.fixture
def graph(tracefs: Any, workload: Any) -> Iterator[Any]:
    """Choose the tracer for the workload's calls of one function, on which there are a probe and a return probe."""
    if b"function_graph" not in tracefs.read("available_tracers").split():
        pytest.skip("no tracer function_graph")
    mine = b"common_pid == %d" % workload.pid
    tracefs.write("kprobe_events", b"p:zz/ent do_sys_openat2 s=+0(%si):string")
    tracefs.write("kprobe_events", b"r:zz/ret do_sys_openat2 ret=$retval:s32")
    for name in ("ent", "ret"):
        tracefs.write(f"events/zz/{name}/filter", mine)
    tracefs.write("set_ftrace_filter", b"do_sys_openat2", truncate=True)
    tracefs.write("set_ftrace_pid", b"%d" % workload.pid)
    tracefs.write("current_tracer", b"function_graph")
    options = tracefs.read("trace_options").split()
    tracefs.write("events/zz/enable", b"1")
    try:
        yield tracefs
    finally:
        for option in options:
            with contextlib.suppress(OSError):
                tracefs.write("trace_options", option)
        tracefs.write("current_tracer", b"nop")
        tracefs.write("events/zz/enable", b"0")
        for name in ("set_graph_function", "set_graph_notrace", "set_ftrace_filter", "set_ftrace_pid"):
            tracefs.write(name, b"\n", truncate=True)


def lines(tracefs: Any) -> list[str]:
    """Return what is shown, without CPUs and durations."""
    text = re.sub(rb"\A(#.*\n)*", b"", tracefs.read("trace"))
    text = re.sub(rb"(?m)^ *\d\) ", b"", DURATION.sub(b"TIME |", text))
    return re.sub(rb"\(\S+?/0x[0-9a-f]+( <- \w+)?\)", b"()", text).decode().splitlines()


BLANK = " " * 14
OPEN = [
    BLANK + '|  /* ent: () s="/etc/hostname" */',
    "TIME |  do_sys_openat2();",
    BLANK + "|  /* ret: () ret=3 */",
]


def test_a_call_stands_between_its_probes(graph: Any, workload: Any) -> None:
    """The probes came last: since 5.16 that makes a difference, before it none."""
    workload.open("/etc/hostname")
    assert lines(graph)[:2] == OPEN[:2]
    assert re.sub(r"=\d+", "=3", lines(graph)[2]) == OPEN[2]


def test_columns_can_be_left_out(graph: Any, workload: Any) -> None:
    graph.write("events/zz/enable", b"0")
    workload.open("/etc/hostname")
    assert graph.read("trace").startswith(
        b"# tracer: function_graph\n#\n# CPU  DURATION                  FUNCTION CALLS\n"
    )
    graph.write("trace_options", b"nofuncgraph-duration")
    assert lines(graph) == ["do_sys_openat2();"]
    graph.write("trace_options", b"nofuncgraph-cpu")
    assert graph.read("trace") == (
        b"# tracer: function_graph\n#\n#               FUNCTION CALLS\n"
        b"#               |   |   |   |\ndo_sys_openat2();\n"
    )
    graph.write("trace_options", b"nocontext-info")
    assert graph.read("trace") == b"# tracer: function_graph\n#\ndo_sys_openat2();\n"


def test_options_of_other_texts_change_nothing(graph: Any, workload: Any) -> None:
    workload.open("/etc/hostname")
    before = graph.read("trace")
    known = {name.removeprefix(b"no") for name in graph.read("trace_options").split()}
    for option in (b"raw", b"hex", b"bin", b"fields", b"sym-offset"):
        if option in known:
            graph.write("trace_options", option)
            shown = graph.read("trace")
            graph.write("trace_options", b"no" + option)
            assert shown == before or option == b"sym-offset"
            assert b"  do_sys_openat2();\n" in shown


def test_stacks_are_lines_of_the_usual_form(graph: Any, workload: Any) -> None:
    graph.write("trace_options", b"stacktrace")
    workload.open("/etc/hostname")
    text = graph.read("trace")
    assert len(LATE.findall(text)) == 2
    assert [line[len(BLANK) :] if line.startswith(BLANK) else line for line in lines(graph)][:1] == [
        '|  /* ent: () s="/etc/hostname" */'
    ]


def test_marks_are_comments(graph: Any) -> None:
    graph.write("trace_marker", b"hello")
    graph.write("trace_marker", b"a\nb\n")
    shown = [line for line in lines(graph) if "/*" in line or "*/" in line]
    assert shown == [BLANK + "|  /* hello */", BLANK + "|  /* a", "b */"]


def test_functions_that_arent_chosen(graph: Any, workload: Any) -> None:
    graph.write("set_graph_function", b"vfs_open")
    workload.open("/etc/hostname")
    assert [line for line in lines(graph) if "do_sys_openat2()" in line] == []
    graph.write("set_graph_function", b"\n", truncate=True)
    graph.write("set_graph_notrace", b"do_sys_openat2")
    workload.open("/etc/hostname")
    assert [line for line in lines(graph) if "do_sys_openat2()" in line] == []


def test_a_reader_who_consumes(graph: Any, workload: Any) -> None:
    graph.write("events/zz/enable", b"0")
    workload.open("/etc/hostname")
    shown = graph.read("trace").splitlines()[-1] + b"\n"
    with graph.stream("trace_pipe") as pipe:
        assert pipe.read(1) == shown
    assert b"do_sys_openat2" not in graph.read("trace")
