"""perf-tools' own `kprobe`, unmodified, on all its documented examples, inside `kprobe-sim run`.

The program comes from its Debian package, fetched when the tests run; it isn't part of this project.  The columns are
those of a 6.1 kernel; the machine does what the activity `perf-tools` says, which is what the examples show.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kprobe_sim.scenarios.replays.listing import SEEDS, find

from .conftest import Run, interrupt

Start = Callable[..., "subprocess.Popen[str]"]

OPTIONS = ("--kernel", "6.1", "--activity", "perf-tools")
STAMP = re.compile(r" +\d+\.\d{6}:")
END = ["", "Ending tracing..."]


@pytest.fixture(scope="session")
def kprobe(can_mount: None, unpacked: Callable[..., Path]) -> str:
    """The path of the unpacked program."""
    place = unpacked("perf-tools-unstable")
    return str(place / "usr" / "sbin" / "kprobe-perf")


def inside(kprobe: str, *arguments: str) -> list[str]:
    """The command: its lock file and temporary files lie in a /var/tmp of its own.

    Of the process that -p names it looks for the threads in /proc, which has the simulated machine's one here.
    """
    prepare = "mount -t tmpfs none /var/tmp"
    if "-p" in arguments:
        pid = arguments[arguments.index("-p") + 1]
        prepare += f" && mkdir -p /var/tmp/proc/{pid}/task/{pid} && mount --bind /var/tmp/proc /proc"
    return ["sh", "-c", f'{prepare} && exec "$@"', "sh", kprobe, *arguments]


def traced(
    start: Start,
    kprobe: str,
    arguments: tuple[str, ...],
    count: int,
    wanted: Sequence[str] = (),
    options: tuple[str, ...] = OPTIONS,
) -> list[str]:
    """Return the first lines that the program prints, without times, and end it as Ctrl-C does.

    There are `count` of them, or as many as it takes to hear those `wanted`.
    """
    child = start(inside(kprobe, *arguments), options)
    assert child.stdout is not None
    lines: list[str] = []
    while len(lines) < count or not set(wanted) <= set(lines):
        heard = child.stdout.readline()
        assert heard, child.communicate()
        lines.append(STAMP.sub(" STAMP:", heard.rstrip("\n")))
    interrupt(child)
    out, errors = child.communicate(timeout=30)
    assert (child.returncode, errors) == (0, "")
    assert out.splitlines()[-2:] == END
    return lines


RETURN = "(SyS_open+0x1e/0x20 <- do_sys_open)"


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
        ("r:do_sys_open", [f"          kprobe-26386   [001] ..... STAMP: do_sys_open: {RETURN}"]),
        ("r:do_sys_open $retval", [f"          kprobe-26386   [001] ..... STAMP: do_sys_open: {RETURN} arg1=0x3"]),
        ("r:myopen do_sys_open $retval", [f"          kprobe-26386   [001] ..... STAMP: myopen: {RETURN} arg1=0x3"]),
        (
            "r:myopen do_sys_open rval=$retval",
            [f"          kprobe-26386   [001] ..... STAMP: myopen: {RETURN} rval=0x3"],
        ),
        (
            "p:myopen do_sys_open mode=%cx:u16",
            [
                "          kprobe-26386   [001] ..... STAMP: myopen: (do_sys_open+0x0/0x220) mode=1",
                "           <...>-26387   [001] ..... STAMP: myopen: (do_sys_open+0x0/0x220) mode=0",
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
                "arg1=0xffff8800e55843c0"
            ],
        ),
    ],
)
def test_definitions(start: Start, kprobe: str, definition: str, expected: list[str]) -> None:
    name = definition.split()[0].partition(":")[2]
    # the activity goes round, and tracing may begin anywhere in it; a line that never comes is a timeout
    assert traced(start, kprobe, (definition,), 1, expected)[0] == f"Tracing kprobe {name}. Ctrl-C to end."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("definition", "filter_", "name", "field"),
    [
        ("p:myopen do_sys_open filename=+0(%si):string", 'filename ~ "*stat"', "myopen", "filename"),
        ("p:do_sys_open file=+0(%si):string", 'file ~ "*stat"', "do_sys_open", "file"),
    ],
)
def test_filters(start: Start, kprobe: str, definition: str, filter_: str, name: str, field: str) -> None:
    place = "(do_sys_open+0x0/0x220)"
    assert set(traced(start, kprobe, (definition, filter_), 3)[1:]) == {
        f'        postgres-1172    [000] ..... STAMP: {name}: {place} {field}="pg_stat_tmp/pgstat.stat"',
        f'        postgres-4443    [001] ..... STAMP: {name}: {place} {field}="pg_stat_tmp/pgstat.stat"',
    }


def test_one_thread(start: Start, kprobe: str) -> None:
    arguments = ("-L", "1696", "p:myopen do_sys_open filename=+0(%si):string")
    expected = (
        '       supervise-1696    [001] ..... STAMP: myopen: (do_sys_open+0x0/0x220) filename="supervise/status.new"'
    )
    assert traced(start, kprobe, arguments, 3)[1:] == [expected, expected]


def test_headings(start: Start, kprobe: str) -> None:
    lines = traced(start, kprobe, ("-H", "p:do_sys_open"), 13)
    assert lines[1] == "# tracer: nop"
    assert re.fullmatch(r"# entries-in-buffer/entries-written: \d+/\d+   #P:2", lines[3])
    assert "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION" in lines


def test_stacks(start: Start, kprobe: str) -> None:
    lines = traced(start, kprobe, ("-s", "p:mytcp tcp_init_cwnd"), 14)[1:]
    assert lines[0] == "            sshd-5121    [000] ..... STAMP: mytcp: (tcp_init_cwnd+0x0/0x40)"
    assert lines[2:6] == [" => tcp_init_cwnd", " => tcp_write_xmit", " => __tcp_push_pending_frames", " => tcp_push"]


@pytest.mark.slow
def test_duration(run: Run, kprobe: str) -> None:
    done = run(inside(kprobe, "-d", "1", "p:myopen do_sys_open filename=+0(%si):string"), OPTIONS)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0] == "Tracing kprobe myopen for 1 seconds (buffered)..."
    assert lines[-2:] == END
    assert len(lines) > 10
    assert all(": myopen: (do_sys_open+0x0/0x220) filename=" in found for found in lines[1:-2])


def test_variables(run: Run, kprobe: str) -> None:
    done = run(inside(kprobe, "-v", "p:myopen do_sys_open filename=+0(%si):string"), OPTIONS)
    lines = done.stdout.splitlines()
    assert lines[0] == "name: myopen"
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


def test_a_function_that_is_not_there(run: Run, kprobe: str) -> None:
    done = run(inside(kprobe, "p:nosuch"), OPTIONS)
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR: func nosuch not in /sys/kernel/debug/tracing/available_filter_functions.\n")


def test_forced_the_kernel_refuses(run: Run, kprobe: str) -> None:
    done = run(inside(kprobe, "-F", "p:nosuch"), OPTIONS)
    assert done.returncode == 1
    assert "echo: write error: No such file or directory\n" in done.stderr
    assert 'ERROR: adding kprobe "p:nosuch nosuch".\n' in done.stderr


def test_a_bad_filter(run: Run, kprobe: str) -> None:
    done = run(inside(kprobe, "p:do_sys_open", "nosuch == 1"), OPTIONS)
    assert done.returncode == 1
    assert "echo: write error: Invalid argument\nERROR: setting filter or -p. Exiting.\n" in done.stderr


@pytest.mark.slow
def test_nothing_is_left(run: Run, kprobe: str) -> None:
    command = inside(kprobe, "-d", "1", "p:myopen do_sys_open", "common_pid == 1")
    done = run([*command[:2], 'mount -t tmpfs none /var/tmp && "$@" > /dev/null; cd /sys/kernel/tracing; '
                "cat kprobe_events events/kprobes/enable; ls /var/tmp", *command[3:]], OPTIONS)  # fmt: skip
    assert (done.stdout, done.stderr) == ("", "cat: events/kprobes/enable: No such file or directory\n")


def test_usage(run: Run, kprobe: str) -> None:
    """To the byte; the document's text is the same but for what its page lost."""
    done = run(inside(kprobe, "-h"), OPTIONS)
    assert done.stderr == find("perf-tools-examples", "17-usage").expected


def documented(name: str) -> tuple[list[str], list[str]]:
    """Return an example's arguments, and the lines that its document shows of it, without times."""
    listing = find("perf-tools-examples", name)
    _, *arguments = shlex.split(listing.commands[0])
    lines = [STAMP.sub(" STAMP:", line) for line in listing.expected.split("\n")]
    last = next(number for number, line in enumerate(lines) if line in ("", "[...]", "^C"))
    return arguments, [line for line in lines[1:last] if not line.startswith("#")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("01-calls", "3.13"),
        ("02-returns", "3.13"),
        ("03-headings", "3.13"),
        ("04-return-value", "4.4"),  # 3.13 has no 0x
        ("05-named-return-value", "4.4"),
        ("06-mode", "4.4"),
        ("07-filename", "3.13"),
        ("09-one-process", "3.13"),
        ("11-filter", "3.13"),
        ("12-registers", "3.2"),  # which has no column of flags
        ("13-type", "3.2"),
        ("14-name", "3.2"),
        ("15-return-of-bio-alloc", "3.2"),
        ("16-stacks", "4.4"),
    ],
)
def test_every_documented_example_as_it_is_documented(
    start: Start, kprobe: str, tmp_path: Path, name: str, kernel: str
) -> None:
    """The machine goes round, and tracing may begin anywhere in it: the lines are there, one after the other."""
    arguments, expected = documented(name)
    activity = tmp_path / "activity.toml"
    calls = (SEEDS / "perf-tools-examples" / name / "activity.toml").read_text()
    activity.write_text(f"repeat = true\n{calls}")
    count = 2 + 2 * max(calls.count("[[call]]"), len(expected)) + 10 * ("-H" in arguments)
    options = ("--kernel", kernel, "--activity", str(activity))
    lines = traced(start, kprobe, tuple(arguments), count, expected, options)
    assert any(lines[at : at + len(expected)] == expected for at in range(len(lines))), lines


def test_the_documented_format_file(run: Run, kprobe: str) -> None:
    """But for its number: how many events that kernel had before."""
    listing = find("perf-tools-examples", "10-format")
    _, *arguments = shlex.split(listing.commands[0])
    done = run(inside(kprobe, *arguments), ("--kernel", "4.4", "--activity", "perf-tools"))
    assert re.sub(r"(?m)^ID: \d+$", "ID: 1443", done.stdout) == listing.expected


OPENS = "(do_sys_open+0x0/0x220)"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("-p", "1696", "p:myopen do_sys_open mode=%cx:u16"),
            f"supervise-1696  [001] d... STAMP: myopen: {OPENS} mode=1a4",
        ),
        (
            ("p:myopen do_sys_open fn=+0(%si):string", 'fn ~ """*stat"""'),
            f'postgres-1172  [000] d... STAMP: myopen: {OPENS} fn="pg_stat_tmp/pgstat.stat"',
        ),
    ],
)
def test_what_only_the_man_page_has(start: Start, kprobe: str, arguments: tuple[str, ...], expected: str) -> None:
    """Its process is 81, and its pattern stands between three quotes, which kernels of that time take for one."""
    options = ("--kernel", "3.13", "--activity", "perf-tools")
    assert traced(start, kprobe, arguments, 2, (), options)[1].strip() == expected
