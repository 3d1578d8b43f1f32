"""Every command of perf-tools' two example files, run on the simulator where that era's functions are at work.

The columns are those of the examples; the values are what the activity `perf-tools` does, on a 6.1 kernel: five letters
of flags, a pid column of seven, 0x before hex numbers.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

SPEC = "sim:6.1,activity=perf-tools,cpus=2"
STAMP = re.compile(r" +\d+\.\d{6}:")


class Run:
    """The command in a process of its own; lines are awaited, then it is interrupted as by Ctrl-C."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kprobe", "--tracefs", SPEC, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def lines(self, count: int) -> list[str]:
        """Return the first lines, without their time stamps, and end the run."""
        assert self.process.stdout is not None
        found = [STAMP.sub(" STAMP:", self.process.stdout.readline().rstrip("\n")) for _ in range(count)]
        self.interrupt()
        return found

    def interrupt(self) -> tuple[str, str]:
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=30)
        self.err = err
        assert self.process.returncode == 0, err
        return out, err


def said(run: Run) -> list[str]:
    return [line for line in run.err.splitlines() if line and not line.startswith(("WARNING", "opening "))]


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        (
            "p:do_sys_open",
            [
                "          kprobe-26386   [001] ..... STAMP: do_sys_open: (do_sys_open+0x0/0x220)",
                "           <...>-26387   [001] ..... STAMP: do_sys_open: (do_sys_open+0x0/0x220)",
            ],
        ),
        (
            "r:do_sys_open",
            [
                "          kprobe-26386   [001] ..... STAMP: do_sys_open: (SyS_open+0x1e/0x20 <- do_sys_open)",
                "           <...>-26387   [001] ..... STAMP: do_sys_open: (SyS_open+0x1e/0x20 <- do_sys_open)",
            ],
        ),
        (
            "r:myopen do_sys_open $retval",
            ["          kprobe-26386   [001] ..... STAMP: myopen: (SyS_open+0x1e/0x20 <- do_sys_open) arg1=0x3"],
        ),
        (
            "r:do_sys_open $retval",
            ["          kprobe-26386   [001] ..... STAMP: do_sys_open: (SyS_open+0x1e/0x20 <- do_sys_open) arg1=0x3"],
        ),
        (
            "r:myopen do_sys_open rval=$retval",
            ["          kprobe-26386   [001] ..... STAMP: myopen: (SyS_open+0x1e/0x20 <- do_sys_open) rval=0x3"],
        ),
        (
            "p:myopen do_sys_open mode=%cx:u16",
            [
                "          kprobe-26386   [001] ..... STAMP: myopen: (do_sys_open+0x0/0x220) mode=1",
                "           <...>-26387   [001] ..... STAMP: myopen: (do_sys_open+0x0/0x220) mode=0",
                "           <...>-26387   [001] ..... STAMP: myopen: (do_sys_open+0x0/0x220) mode=23552",
            ],
        ),
        (
            "p:myopen do_sys_open filename=+0(%si):string",
            [
                "          kprobe-26386   [001] ..... STAMP: myopen: (do_sys_open+0x0/0x220) "
                'filename="/etc/ld.so.cache"',
                "           <...>-26387   [001] ..... STAMP: myopen: (do_sys_open+0x0/0x220) "
                'filename="/lib/x86_64-linux-gnu/libc.so.6"',
            ],
        ),
        (
            "p:myprobe bio_alloc %ax %bx %cx %dx",
            [
                "       supervise-3055    [000] ..... STAMP: myprobe: (bio_alloc+0x0/0x30) arg1=0xffff880064acc8d0 "
                "arg2=0xffff8800e56a7990 arg3=0x0 arg4=0xffff880064acc910",
                "    jbd2/xvda1-8-212     [000] ..... STAMP: myprobe: (bio_alloc+0x0/0x30) arg1=0xffffffff "
                "arg2=0xffff8800ad1f87b8 arg3=0xffff8800ba22c06c arg4=0x8",
            ],
        ),
        (
            "p:myprobe bio_alloc %ax:u32",
            ["       supervise-3055    [000] ..... STAMP: myprobe: (bio_alloc+0x0/0x30) arg1=1689045200"],
        ),
        (
            "p:myprobe bio_alloc ax=%ax",
            ["       supervise-3055    [000] ..... STAMP: myprobe: (bio_alloc+0x0/0x30) ax=0xffff880064acc8d0"],
        ),
        (
            "r:myprobe bio_alloc $retval",
            [
                "       supervise-3055    [000] ..... STAMP: myprobe: (io_submit_init.isra.6+0x74/0x100 <- bio_alloc) "
                "arg1=0xffff8800e55843c0",
                "    jbd2/xvda1-8-212     [000] ..... STAMP: myprobe: (submit_bh+0x76/0x120 <- bio_alloc) "
                "arg1=0xffff8800e57596c0",
            ],
        ),
    ],
)
def test_definitions_of_the_examples(definition: str, expected: list[str]) -> None:
    run = Run(definition)
    assert run.lines(len(expected)) == expected
    name = definition.split()[0].partition(":")[2]
    assert said(run) == [f"Tracing kprobe {name}. Ctrl-C to end.", "Ending tracing..."]


@pytest.mark.parametrize(
    ("definition", "filter_", "file"),
    [
        ("p:myopen do_sys_open filename=+0(%si):string", 'filename ~ "*stat"', "filename"),
        ("p:do_sys_open file=+0(%si):string", 'file ~ "*stat"', "file"),
    ],
)
def test_filter_of_the_examples(definition: str, filter_: str, file: str) -> None:
    name = definition.split()[0][2:]
    assert Run(definition, filter_).lines(2) == [
        f'        postgres-1172    [000] ..... STAMP: {name}: (do_sys_open+0x0/0x220) {file}="pg_stat_tmp/pgstat.stat"',
        f'        postgres-4443    [001] ..... STAMP: {name}: (do_sys_open+0x0/0x220) {file}="pg_stat_tmp/pgstat.stat"',
    ]


@pytest.mark.parametrize("definition", ["p:do_sys_open", "p:myopen do_sys_open filename=+0(%si):string"])
def test_headings(definition: str) -> None:
    lines = Run("-H", definition).lines(13)
    assert lines[0] == "# tracer: nop"
    assert re.fullmatch(r"# entries-in-buffer/entries-written: \d+/\d+   #P:2", lines[2])
    assert lines[10:12] == [
        "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION",
        "#              | |         |   |||||     |         |",
    ]
    assert lines[12].startswith("          kprobe-26386   [001] ..... STAMP: ")


def test_one_process() -> None:
    line = '       supervise-1696    [001] ..... STAMP: myopen: (do_sys_open+0x0/0x220) filename="supervise/status.new"'
    assert Run("-p", "1696", "p:myopen do_sys_open filename=+0(%si):string").lines(2) == [line, line]


def test_duration_buffers_and_ctrl_c_cuts_it_short() -> None:
    run = Run("-d", "10", "p:myopen do_sys_open filename=+0(%si):string")
    assert run.process.stderr is not None
    while "Tracing kprobe myopen for 10 seconds (buffered)..." not in (heard := run.process.stderr.readline()):
        assert heard, "it ended without a word"
    out, _ = run.interrupt()
    assert all("myopen: (do_sys_open+0x0/0x220) filename=" in line for line in out.splitlines())


def test_stacks() -> None:
    assert Run("-s", "p:mytcp tcp_init_cwnd").lines(13) == [
        "            sshd-5121    [000] ..... STAMP: mytcp: (tcp_init_cwnd+0x0/0x40)",
        "            sshd-5121    [000] ..... STAMP: <stack trace>",
        " => tcp_init_cwnd",
        " => tcp_write_xmit",
        " => __tcp_push_pending_frames",
        " => tcp_push",
        " => tcp_sendmsg",
        " => inet_sendmsg",
        " => sock_aio_write",
        " => do_sync_write",
        " => vfs_write",
        " => SyS_write",
        " => system_call_fastpath",
    ]


def test_stacks_of_another_function() -> None:
    assert Run("-s", "p:myprobe tcp_retransmit_skb").lines(1)[0].startswith("          <idle>-0       [000] .....")


def test_variables() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kprobe", "--tracefs", SPEC, "-v", "p:myopen do_sys_open filename=+0(%si):string"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "name: myopen"
    assert re.fullmatch(r"ID: \d+", lines[1])
    assert lines[2:] == [
        "format:",
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;",
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;",
        "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;",
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;",
        "",
        "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;",
        "\tfield:__data_loc char[] filename;\toffset:16;\tsize:4;\tsigned:1;",
        "",
        'print fmt: "(%lx) filename=\\"%s\\"", REC->__probe_ip, __get_str(filename)',
    ]


def test_help() -> None:
    done = subprocess.run([sys.executable, "-m", "kprobe", "-h"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0
    assert "USAGE: kprobe [-FhHsv] [-d secs] [-p PID] [-L TID]" in done.stdout + done.stderr
