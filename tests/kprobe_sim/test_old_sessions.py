"""The tracer on the kernels of the documents, in a real terminal: what it does there that it does nowhere else."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence

import pexpect
import pytest

from kprobe.cli import main
from kprobe.errors import NotABoundary, Refused
from kprobe.tracefs.backends import open_tracefs
from kprobe.tracing.tracer import Tracer
from kprobe_sim import SimulatedKernel

LINE = r"\s+\S+-\d+ +\[\d{3}\] +\d+\.\d{6}: "


def session(*arguments: str) -> pexpect.spawn[str]:
    return pexpect.spawn(
        sys.executable, ["-m", "kprobe", *arguments], encoding="utf-8", timeout=30, dimensions=(40, 200)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "definition", "line"),
    [
        (
            "sim:2009",
            "p:myprobe do_sys_open dfd=a0 filename=a1 flags=a2 mode=a3",
            r"do_sys_open\+0x0/0xd6: dfd=ffffff9c filename=[0-9a-f]+ flags=[0-9a-f]+ mode=[0-9a-f]+\r\n",
        ),
        (
            "sim:2009",
            "r:myretprobe do_sys_open rv ra",
            r"sys_open\+0x1b/0x1d <- do_sys_open: rv=[0-9a-f]+ ra=ffffffff81367a3a\r\n",
        ),
        (
            "sim:2009-v13",
            "p:myprobe do_sys_open a0 a1 a2 a3",
            r"do_sys_open\+0x0/0xd6: 0xffffff9c 0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+\r\n",
        ),
        (
            "sim:2009-v13",
            "r:myretprobe do_sys_open rv ra",
            r"sys_open\+0x1b/0x1d <- do_sys_open: 0x[0-9a-f]+ 0xffffffff81367a3a\r\n",
        ),
    ],
)
def test_the_commands_of_2009_in_a_terminal(spec: str, definition: str, line: str) -> None:
    child = session("--tracefs", spec, definition)
    name = definition.split()[0].partition(":")[2]
    child.expect_exact(f"Tracing kprobe {name}. Ctrl-C to end.\r\n")
    for _ in range(3):
        child.expect(LINE + line)
    child.sendintr()
    child.expect_exact("\r\nEnding tracing...\r\n")  # after ^C, where the terminal echoes that
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "arguments", "line"),
    [
        (
            "sim:3.13,activity=perf-tools",
            ["r:myopen do_sys_open $retval"],
            r"kprobe-26386 \[001\] d\.\.\. +\d+\.\d{6}: myopen: \(SyS_open\+0x1e/0x20 <- do_sys_open\) arg1=3\r\n",
        ),
        (
            "sim:4.4,activity=perf-tools",
            ["r:myopen do_sys_open rval=$retval"],
            r"kprobe-26386 \[001\] d\.\.\. +\d+\.\d{6}: myopen: \(SyS_open\+0x1e/0x20 <- do_sys_open\) rval=0x3\r\n",
        ),
        (
            "sim:4.4,activity=perf-tools",
            ["-s", "p:mytcp tcp_init_cwnd"],
            r"sshd-5121  \[000\] d\.\.\. +\d+\.\d{6}: <stack trace>\r\n => tcp_write_xmit\r\n",
        ),
        (
            "sim:3.2,activity=perf-tools",
            ["p:myprobe bio_alloc ax=%ax"],
            r"supervise-3055  \[000\] +\d+\.\d{6}: myprobe: \(bio_alloc\+0x0/0x30\) ax=ffff880064acc8d0\r\n",
        ),
    ],
)
def test_the_commands_of_perf_tools_in_a_terminal(spec: str, arguments: list[str], line: str) -> None:
    child = session("--tracefs", spec, *arguments)
    child.expect(r"Tracing kprobe my\w+\. Ctrl-C to end\.\r\n")
    child.expect(line)
    child.sendintr()
    child.expect_exact("\r\nEnding tracing...\r\n")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def lists(kernel: SimulatedKernel) -> tuple[bytes, list[str]]:
    return kernel.tracefs.read("kprobe_events"), kernel.tracefs.listdir("events")


def test_it_leaves_nothing_where_only_all_probes_can_be_removed() -> None:
    kernel = SimulatedKernel("2009")
    with Tracer(kernel.tracefs).trace("p:myprobe do_sys_open dfd=a0", filter="dfd != 3") as trace:
        assert trace.notices == []
        assert lists(kernel) == (b"p:myprobe do_sys_open+0 dfd=a0\n", ["kprobes"])
        assert kernel.tracefs.read("events/kprobes/myprobe/enabled") == b"1\n"
    assert lists(kernel) == (b"", [])
    assert trace.undo_failures == ()


def test_both_probes_of_a_session_go_together_and_their_events_are_counted(capfd: pytest.CaptureFixture[str]) -> None:
    """The lines of 2009 don't name their events."""
    kernel = SimulatedKernel("2009")
    command = ["-d", "1", "p:opened do_sys_open dfd=a0", "r:done do_sys_open rv"]
    with Tracer(kernel.tracefs).trace(*command[2:]) as trace:
        for _ in range(3):
            kernel.call("do_sys_open", args=(-100, "/etc/hostname", 0), returns=3)
        trace.stop()
        assert len(list(trace)) == 6
    assert (trace.undo_failures, lists(kernel)) == ((), (b"", []))
    assert main(["--max-events", "3", command[2]], tracefs=open_tracefs("sim:2009")) == 0
    out, said = capfd.readouterr()
    assert (out.count("do_sys_open+0x0/0xd6: dfd="), said.splitlines()[-1]) == (3, "3 events, 0 lost, 0 missed")


@pytest.mark.parametrize("definition", ["p:opened do_sys_open dfd=a0", "r:done do_sys_open rv"])
def test_events_without_names_are_counted_in_text(definition: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--timeout", "0.5", definition], tracefs=open_tracefs("sim:2009")) == 0
    out, said = capfd.readouterr()
    lines = [line for line in out.splitlines() if "do_sys_open" in line and "Tracing" not in line]
    assert len(lines) > 3
    assert said.splitlines()[-1] == f"{len(lines)} events, 0 lost, 0 missed"


def test_it_leaves_the_probes_of_others_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    kernel = SimulatedKernel("2009")
    kernel.tracefs.write("kprobe_events", b"p:theirs sys_open\n")
    assert main(["-v", "p:myprobe do_sys_open"], tracefs=kernel.tracefs) == 4
    assert kernel.tracefs.read("kprobe_events") == b"p:theirs sys_open+0\np:myprobe do_sys_open+0\n"
    assert kernel.tracefs.read("events/kprobes/myprobe/enabled") == b"0\n"
    said = capfd.readouterr().err
    assert "this kernel can only remove all probes, and has others: p:theirs sys_open+0" in said


@pytest.mark.parametrize(
    ("kernel", "arguments", "hint"),
    [
        ("2009", ["p:x do_sys_open $arg1"], "$arg1 came later: this kernel has a0, which counts from 0"),
        ("2009", ["r:x do_sys_open $retval"], "$retval came later: this kernel has rv"),
        ("2009", ["p:x do_sys_open +8($stack2)"], "$stack2 came later: this kernel has s2"),
        ("2009", ["p:x do_sys_open at=$stack"], "$stack came later: this kernel has sa"),
        ("2009", ["p:x do_sys_open %si:u32"], "this kernel has no types: every value is an unsigned long"),
        ("5.10", ["p:x vfs_read dfd=a0"], "a0 was for the patch of 2009: write $arg1, which counts from 1"),
        ("6.12", ["p:x vfs_read x=+0(a1):string"], "a1 was for the patch of 2009: write $arg2, which counts from 1"),
        (
            "3.13",
            ["p:x do_sys_open x=+0(a1):string"],
            "a1 was for the patch of 2009: write %si, its register on x86-64",
        ),
        ("6.1", ["p:x vfs_read +8(a1)"], "a1 was for the patch of 2009: write $arg2, which counts from 1"),
        ("7.3", ["r:x vfs_read rv"], "rv was for the patch of 2009: write $retval"),
        ("6.12", ["p:x vfs_read s2"], "s2 was for the patch of 2009: write $stack2"),
        ("7.2", ["p:x vfs_read a0"], "a0 was for the patch of 2009: write $arg1, which counts from 1"),
        ("3.13", ["p:x do_sys_open dfd=a0"], "a0 was for the patch of 2009: write %di, its register on x86-64"),
        ("4.4", ["p:x do_sys_open a6"], "a6 was for the patch of 2009: write $stack1, its place on x86-64"),
        ("4.4", ["r:x do_sys_open rv"], "rv was for the patch of 2009: write $retval"),
        (
            "3.13",
            ["r:x do_sys_open ra"],
            "ra was for the patch of 2009: leave it out: the lines of a return probe show where it returns to",
        ),
        (
            "3.13",
            ["p:x do_sys_open $arg1"],
            "$arg1 came with Linux 4.20; before that, write %di, its register on x86-64",
        ),
        (
            "4.4",
            ["p:x do_sys_open +0($arg2)"],
            "$arg2 came with Linux 4.20; before that, write %si, its register on x86-64",
        ),
    ],
)
def test_an_argument_of_the_other_language_is_explained(
    kernel: str, arguments: Sequence[str], hint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(list(arguments), tracefs=SimulatedKernel(kernel).tracefs) == 1
    assert f"hint: {hint}\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("kernel", "definition", "lines"),
    [
        ("2009", "p:x do_sys_open $arg1", []),
        ("3.0", "p:x nosuch", ["Could not insert probe(-22)"]),
        ("3.2", "p:x do_sys_open a=$arg1", ["Parse error at argument[0]. (-22)"]),
        ("3.13", "p:x do_sys_open a=%foo", ["Parse error at argument[0]. (-22)"]),
        (
            "3.13",
            "p:x vfs_read+3",
            [
                "Could not insert probe at vfs_read+3: -84",
                "Probing address(0xffffffff810e5aa3) is not an instruction boundary.",
            ],
        ),
        ("4.4", "p:x no_such_function_xyz+4", ["Could not insert probe at no_such_function_xyz+4: -2"]),
        ("4.19", "p:x do_sys_open a=$foo", ["trace_kprobe: Parse error at argument[0]. (-22)"]),
    ],
)
def test_a_refusal_has_the_lines_of_the_log_where_there_is_no_error_log(
    kernel: str, definition: str, lines: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """They are as recorded of 3.2, 3.13, 4.4 and 4.19; of 3.0 as its source says; 2009 says nothing that is known."""
    simulated = SimulatedKernel(kernel)
    for _ in range(2):  # what the log had before isn't said again
        assert main(["-F", "-v", definition], tracefs=simulated.tracefs) == 1
        said = capfd.readouterr().err.splitlines()
        assert [line.removeprefix("dmesg: ") for line in said if line.startswith("dmesg: ")] == lines


def test_a_place_between_instructions_is_told_by_the_log() -> None:
    tracer = Tracer(SimulatedKernel("4.4").tracefs)
    with pytest.raises(NotABoundary) as refused, tracer.trace("p:x vfs_read+3"):
        pass
    assert refused.value.errno == errno.EINVAL
    assert refused.value.source == "dmesg"
    assert refused.value.says == (
        "Could not insert probe at vfs_read+3: -84\nProbing address(0xffffffff8110bfc3) is not an instruction boundary."
    )
    assert refused.value.hint == "no instruction starts at vfs_read+3; vfs_read+0 is one, others are in its disassembly"


def test_error_log_is_surer_than_the_log() -> None:
    tracer = Tracer(SimulatedKernel("5.4").tracefs)
    with pytest.raises(Refused) as refused, tracer.trace("p:x do_sys_open a=%foo"):
        pass
    assert (refused.value.source, refused.value.says) == ("trace_kprobe", "Invalid register name")
