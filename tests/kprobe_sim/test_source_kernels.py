"""Kernels before 3.2, of which nothing was recorded: they answer as the source of each release says."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from typing import Any

import pexpect
import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.builds.profile import load

SERIES = ["2.6.33", "2.6.34", "2.6.35", "2.6.36", "2.6.37", "2.6.38", "2.6.39", "3.0", "3.1"]
PLACE = "(do_sys_open+0x0/0x190)"
PASSWD = "/etc/passwd"
HEADER = (
    "# tracer: nop\n#\n#           TASK-PID    CPU#    TIMESTAMP  FUNCTION\n"
    "#              | |       |          |         |\n"
)


def refused(kernel: SimulatedKernel, line: str) -> int | None:
    try:
        kernel.tracefs.write("kprobe_events", line.encode() + b"\n")
    except OSError as error:
        return error.errno
    return None


def facts(series: str) -> dict[str, Any]:
    return dict(json.loads((load(series).path / "profile.json").read_bytes()))


def hit(series: str, line: str) -> tuple[str, str]:
    """Return a probe's format file and the whole trace after it was hit."""
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("kprobe_events", line.encode())
    kernel.tracefs.write("events/kprobes/my/enable", b"1")
    kernel.call("do_sys_open", task=Task(42, "cat"), args=(-100 & 0xFFFFFFFFFFFFFFFF, PASSWD, 0x8000), returns=3)
    return kernel.tracefs.read("events/kprobes/my/format").decode(), kernel.tracefs.read("trace").decode()


@pytest.mark.parametrize("series", SERIES)
def test_a_trace_has_no_flags(series: str) -> None:
    shown = "ffffffffffffff9c"
    line = f"             cat-42    [000]    10.000000: my: {PLACE} dfd={shown}\n"
    assert hit(series, "p:my do_sys_open dfd=%di")[1] == HEADER + line


def test_2_6_33_has_no_types_but_arguments() -> None:
    text, trace = hit("2.6.33", "p:my do_sys_open %di dfd=$arg0 flags=$arg2")
    assert trace.splitlines()[-1].endswith(f"{PLACE} %di=ffffffffffffff9c dfd=ffffffffffffff9c flags=8000")
    assert text.split("\n", 3)[3] == (
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
        "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
        "\tfield:int common_lock_depth;\toffset:8;\tsize:4;\tsigned:1;\n\n"
        "\tfield:unsigned long __probe_ip;\toffset:16;\tsize:8;\tsigned:0;\n"
        "\tfield:int __probe_nargs;\toffset:24;\tsize:4;\tsigned:1;\n"
        "\tfield:unsigned long %di;\toffset:32;\tsize:8;\tsigned:0;\n"
        "\tfield:unsigned long dfd;\toffset:40;\tsize:8;\tsigned:0;\n"
        "\tfield:unsigned long flags;\toffset:48;\tsize:8;\tsigned:0;\n\n"
        'print fmt: "(%lx) %di=%lx dfd=%lx flags=%lx", REC->__probe_ip, REC->%di, REC->dfd, REC->flags\n'
    )


@pytest.mark.parametrize(
    ("line", "since"),
    [
        ("p:x do_sys_open a=%di:s32", "2.6.35"),
        ("p:x do_sys_open a=%dx:b4@12/32", "2.6.39"),
        ("p:x do_sys_open a=%di " + " " * 120 + "b=%dx", "2.6.39"),
        ("p:x nomod:nofunc", "3.1"),
    ],
)
def test_what_came_when(line: str, since: str) -> None:
    taken = [series for series in SERIES if refused(SimulatedKernel(series), line) is None]
    assert taken == SERIES[SERIES.index(since) :]


def test_strings_came_with_2_6_36_and_2_6_33_overlooks_what_follows_a_brace() -> None:
    kernels = {series: SimulatedKernel(series) for series in SERIES}
    line = "p:x do_sys_open a=+0(%si):string"
    assert [series for series in SERIES if refused(kernels[series], line) is not None] == ["2.6.35"]
    assert kernels["2.6.33"].tracefs.read("kprobe_events") == b"p:kprobes/x do_sys_open a=+0(%si)\n"
    assert kernels["2.6.36"].tracefs.read("kprobe_events") == b"p:kprobes/x do_sys_open a=+0(%si):string\n"


def test_arguments_of_functions_were_there_in_one_release() -> None:
    assert [refused(SimulatedKernel(one), "p:x do_sys_open a=$arg16") for one in SERIES[:3]] == [None, 22, 22]
    assert refused(SimulatedKernel("2.6.33"), "p:x do_sys_open a=$arg17") == errno.EINVAL


@pytest.mark.parametrize(("series", "name"), [("2.6.35", "%di_s32"), ("2.6.36", "arg1")])
def test_an_argument_without_a_name(series: str, name: str) -> None:
    text, trace = hit(series, "p:my do_sys_open %di:s32")
    assert trace.splitlines()[-1].endswith(f"my: {PLACE} {name}=-100")
    assert f"field:s32 {name};\toffset:24;\tsize:4;\tsigned:1;" in text


@pytest.mark.parametrize(("series", "number"), [("2.6.39", errno.EINVAL), ("3.0", errno.EINVAL), ("3.1", errno.ENOENT)])
def test_a_symbol_that_is_not_there(series: str, number: int) -> None:
    assert refused(SimulatedKernel(series), "p:x nosuch") == number


@pytest.mark.parametrize("place", ["jiffies", "jiffies+4", "init_task", "sys_call_table"])
def test_data_takes_no_probe_but_where_the_kernel_overlooks_it(place: str) -> None:
    taken = [one for one in [*SERIES, "3.2", "3.13"] if refused(SimulatedKernel(one), f"p:x {place}") is None]
    assert taken == ["3.1", "3.2"]
    kernel = SimulatedKernel("3.0")
    assert refused(kernel, f"p:x {place}") == errno.EINVAL
    assert kernel.probes.printed == ["Could not insert probe(-22)"]


@pytest.mark.parametrize(("series", "number"), [("2.6.33", None), ("3.0", None), ("3.1", errno.EBUSY)])
def test_removing_what_is_enabled(series: str, number: int | None) -> None:
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("kprobe_events", b"p:my do_sys_open")
    kernel.tracefs.write("events/kprobes/my/enable", b"1")
    assert refused(kernel, "-:my") == number
    assert kernel.tracefs.read("kprobe_events") == (b"" if number is None else b"p:kprobes/my do_sys_open\n")


def test_options_clocks_and_files() -> None:
    old, new = SimulatedKernel("2.6.35").tracefs, SimulatedKernel("3.1").tracefs
    assert old.read("trace_clock") == new.read("trace_clock") == b"[local] global\n"
    for name in ("options/record-cmd", "free_buffer"):
        assert (old.exists(name), new.exists(name)) == (False, True)
    assert b"overwrite" not in old.read("trace_options")


def test_the_profiles_say_that_nothing_was_measured() -> None:
    for series in SERIES:
        assert facts(series)["unrecorded"][0] == "everything: no such kernel was run"


@pytest.mark.parametrize(
    ("series", "line", "shown"),
    [
        ("3.0", "p:myopen do_sys_open filename=+0(%si):string", r'\(do_sys_open\+0x0/0x190\) filename="[^"\r]+"\r'),
        ("2.6.35", "p:myopen do_sys_open flags=%dx:u32", r"\(do_sys_open\+0x0/0x190\) flags=88000\r"),
        ("2.6.33", "p:myopen do_sys_open flags=$arg2", r"\(do_sys_open\+0x0/0x190\) flags=88000\r"),
    ],
)
def test_kprobe_in_a_terminal(series: str, line: str, shown: str) -> None:
    words = ["-m", "kprobe", "--tracefs", f"sim:{series}", line]
    child = pexpect.spawn(sys.executable, words, timeout=30, dimensions=(24, 200), encoding="utf-8")
    child.expect(r" cat-2841  \[00\d\] +[\d.]+: myopen: " + shown)
    child.sendintr()
    child.expect(r"Ending tracing\.\.\.\r\n")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_addresses_of_32_bits_have_eight_digits() -> None:
    command = [sys.executable, "-m", "kprobe", "functions", "--tracefs", "sim:3.13-i386", "do_sys_open"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[1].split() == ["do_sys_open", "yes", "c1150000", "-", "-"]
