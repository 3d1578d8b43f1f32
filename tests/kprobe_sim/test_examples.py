"""Every command of perf-tools' two example files, run on the simulator where that era's functions are at work.

The columns are those of the examples; the values are what the activity `perf-tools` does, on a 6.1 kernel: five letters
of flags, a pid column of seven, 0x before hex numbers.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import NamedTuple

import pytest

from kprobe.cli import main

SPEC = "sim:6.1,activity=perf-tools,cpus=2"
COMMAND = [sys.executable, "-m", "kprobe", "--tracefs", SPEC]
STAMP = re.compile(r" +\d+\.\d{6}:")


class Ran(NamedTuple):
    """What the command printed until it was interrupted, without time stamps, and what it said of itself."""

    lines: list[str]
    said: list[str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run the command in this process; when it has printed `count` lines, it gets what Ctrl-C sends."""

    def run(*arguments: str, count: int) -> Ran:
        read_end, write_end = os.pipe()
        found: list[str] = []

        def read() -> None:
            with os.fdopen(read_end) as printed:
                for line in printed:
                    found.append(STAMP.sub(" STAMP:", line.rstrip("\n")))
                    if len(found) == count:
                        os.kill(os.getpid(), signal.SIGINT)

        reader = threading.Thread(target=read)
        reader.start()
        with os.fdopen(write_end, "w") as out, monkeypatch.context() as patch:
            patch.setattr("sys.stdout", out)
            status = main(["--tracefs", SPEC, *arguments])
        reader.join()
        errors = capfd.readouterr().err
        assert status == 0, errors
        words = [line for line in errors.splitlines() if line and not line.startswith(("WARNING", "opening "))]
        assert " event" in words.pop()
        return Ran(found[:count], words)

    return run


@pytest.mark.slow
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
def test_definitions_of_the_examples(run: Callable[..., Ran], definition: str, expected: list[str]) -> None:
    name = definition.split()[0].partition(":")[2]
    said = [f"Tracing kprobe {name}. Ctrl-C to end.", "Ending tracing..."]
    assert run(definition, count=len(expected)) == (expected, said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("definition", "filter_", "file"),
    [
        ("p:myopen do_sys_open filename=+0(%si):string", 'filename ~ "*stat"', "filename"),
        ("p:do_sys_open file=+0(%si):string", 'file ~ "*stat"', "file"),
    ],
)
def test_filter_of_the_examples(run: Callable[..., Ran], definition: str, filter_: str, file: str) -> None:
    name = definition.split()[0][2:]
    assert run(definition, filter_, count=2).lines == [
        f'        postgres-1172    [000] ..... STAMP: {name}: (do_sys_open+0x0/0x220) {file}="pg_stat_tmp/pgstat.stat"',
        f'        postgres-4443    [001] ..... STAMP: {name}: (do_sys_open+0x0/0x220) {file}="pg_stat_tmp/pgstat.stat"',
    ]


@pytest.mark.parametrize("definition", ["p:do_sys_open", "p:myopen do_sys_open filename=+0(%si):string"])
def test_headings(run: Callable[..., Ran], definition: str) -> None:
    lines = run("-H", definition, count=13).lines
    assert lines[0] == "# tracer: nop"
    assert re.fullmatch(r"# entries-in-buffer/entries-written: \d+/\d+   #P:2", lines[2])
    assert lines[10:12] == [
        "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION",
        "#              | |         |   |||||     |         |",
    ]
    assert lines[12].startswith("          kprobe-26386   [001] ..... STAMP: ")


def test_one_process(run: Callable[..., Ran]) -> None:
    line = '       supervise-1696    [001] ..... STAMP: myopen: (do_sys_open+0x0/0x220) filename="supervise/status.new"'
    assert run("-p", "1696", "p:myopen do_sys_open filename=+0(%si):string", count=2).lines == [line, line]


def test_duration_buffers_and_ctrl_c_cuts_it_short() -> None:
    process = subprocess.Popen(
        [*COMMAND, "-d", "10", "p:myopen do_sys_open filename=+0(%si):string"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "Tracing kprobe myopen for 10 seconds (buffered)..." not in (heard := process.stderr.readline()):
        assert heard, "it ended without a word"
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert all("myopen: (do_sys_open+0x0/0x220) filename=" in line for line in out.splitlines())


def test_stacks(run: Callable[..., Ran]) -> None:
    assert run("-s", "p:mytcp tcp_init_cwnd", count=13).lines == [
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


def test_stacks_of_another_function(run: Callable[..., Ran]) -> None:
    (line,) = run("-s", "p:myprobe tcp_retransmit_skb", count=1).lines
    assert line.startswith("          <idle>-0       [000] .....")


def test_variables(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--tracefs", SPEC, "-v", "p:myopen do_sys_open filename=+0(%si):string"]) == 0
    lines = capfd.readouterr().out.splitlines()
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


def test_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"]) == 0
    assert "USAGE: kprobe [-FhHsv] [-d secs] [-p PID] [-L TID]" in capfd.readouterr().out
