"""The real command, in a real terminal, on a simulated 6.1 kernel."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from .conftest import at_once

COMMAND = "import sys; from kprobe.cli import main; sys.exit(main())"  # what the installed script does
OPEN = "p:myopen do_sys_openat2 filename=+0(%si):string"
LINE = r" +cat-2841 +\[000\] \.\.\.\.\. +\d+\.\d{6}: myopen: \(do_sys_openat2\+0x0/0x170\) filename=\"/etc/hostname\""
SIM = ["--tracefs", "sim:6.1"]
# what a busy machine adds: a line for what has taken seconds so far
SLOW = re.compile(r"^opening sim\S* \.\.\. \d+ s\n", re.MULTILINE)
PATIENCE = 30  # seconds; only a broken command ever waits so long


@pytest.fixture
def spawn(environment: dict[str, str]) -> Iterator[Callable[..., pexpect.spawn]]:
    """Start the command with these arguments in a terminal of its own."""
    started: list[pexpect.spawn] = []

    def start(*args: str, program: str = COMMAND) -> pexpect.spawn:
        child = pexpect.spawn(
            sys.executable,
            ["-c", program, *args],
            env=environment,
            timeout=PATIENCE,
            encoding="utf-8",
            dimensions=(24, 200),
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


def run(environment: dict[str, str], *args: str, program: str = COMMAND) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; what it says is what it says on a machine that has time for it."""
    done = subprocess.run(
        [sys.executable, "-c", program, *args], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    done.stderr = SLOW.sub("", done.stderr)
    return done


def status(child: pexpect.spawn) -> int:
    child.expect(pexpect.EOF)
    child.close()
    assert child.signalstatus is None
    return int(child.exitstatus)


def test_opens_are_printed_until_ctrl_c(spawn: Callable[..., pexpect.spawn]) -> None:
    child = spawn(*SIM, OPEN, 'filename ~ "*host*"')
    child.expect_exact("Tracing kprobe myopen. Ctrl-C to end.\r\n")
    child.expect(LINE + "\r\n")
    child.expect(LINE + "\r\n")
    child.sendintr()
    child.expect_exact("\r\nEnding tracing...\r\n")
    assert status(child) == 0


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["TERM", "HUP"])
def test_it_tidies_up_when_told_to_end(spawn: Callable[..., pexpect.spawn], number: int, expected: int) -> None:
    child = spawn(*SIM, OPEN)
    child.expect(LINE)
    child.kill(number)
    child.expect_exact("\r\nEnding tracing...\r\n")
    assert status(child) == expected


def test_control_backslash_ends_it_too(spawn: Callable[..., pexpect.spawn]) -> None:
    child = spawn(*SIM, OPEN)
    child.expect(LINE)
    child.sendcontrol("\\")
    child.expect_exact("\r\nEnding tracing...\r\n")
    assert status(child) == 131


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE])
def test_a_signal_while_it_starts(environment: dict[str, str], number: int) -> None:
    """It comes while the command's own modules are imported."""
    early = (
        "import builtins, os, sys\nfrom kprobe.cli import main\nplain = builtins.__import__\n"
        "def slow(name, *rest):\n"
        f"    if name == 'session' or name.endswith('definition'): os.kill(os.getpid(), {number})\n"
        "    return plain(name, *rest)\n"
        "builtins.__import__ = slow\nsys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", early, *SIM, OPEN], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_after_the_end_changes_nothing(environment: dict[str, str], number: int) -> None:
    late = f"import os, sys\nfrom kprobe.cli import main\nmain()\nos.kill(os.getpid(), {number})"
    done = subprocess.run([sys.executable, "-c", late, "-h"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("closing", "expected"), [(">&-", 2), ("2>&-", 0), ("<&-", 0), ("<&- 2>&-", 0)])
def test_started_without_a_standard_file(environment: dict[str, str], closing: str, expected: int) -> None:
    line = f'"$0" -c "$1" -d 0.01 "$2" {closing}'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable, at_once(), OPEN],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == expected
    if expected:
        assert (done.stdout, done.stderr) == ("", "ERROR: standard output is closed: there is nowhere to print to\n")
    else:
        assert "myopen: (do_sys_openat2+0x0/0x170)" in done.stdout
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv",
    [
        ["-h"],
        ["-d", "0.01", OPEN],
        ["-d", "0.01", "--json", OPEN],
        ["parse", "--summary"],
        ["parse", "--format", "csv"],
        ["corpus", "-h"],
        ["completion", "bash"],
        ["check", "--kernels", "6.1", "p:vfs_read"],
        ["test-parser", "-h"],
    ],
)
def test_a_full_disk(environment: dict[str, str], argv: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", at_once(), *argv],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr.endswith("ERROR: standard output: No space left on device\n")
    assert "Traceback" not in done.stderr


def test_nobody_who_listens_to_the_words_ends_nothing(environment: dict[str, str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-c", at_once(), "-d", "0.01", OPEN],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=write_end,
        text=True,
        timeout=PATIENCE,
    )
    os.close(write_end)
    assert done.returncode == 0
    assert "myopen: " in done.stdout


def test_a_terminal_that_goes_away_ends_it(spawn: Callable[..., pexpect.spawn]) -> None:
    child = spawn(*SIM, OPEN)
    child.expect(LINE)
    child.ptyproc.fileobj.close()  # the terminal: SIGHUP to the command, and nobody reads what it says
    child.ptyproc.closed = True
    child.ptyproc.wait()
    assert child.ptyproc.exitstatus == 129


def test_ctrl_c_cuts_a_duration_short_and_prints_what_there_is(spawn: Callable[..., pexpect.spawn]) -> None:
    child = spawn("-d", "600", OPEN, program=at_once())
    child.expect_exact("Tracing kprobe myopen for 600 seconds (buffered)...\r\n")
    with pytest.raises(pexpect.TIMEOUT):
        child.expect("myopen: ", timeout=0.5)  # they stay in the kernel
    child.sendintr()
    child.expect(LINE)
    child.expect_exact("\r\nEnding tracing...\r\n")
    assert status(child) == 0


def test_a_duration(environment: dict[str, str]) -> None:
    done = run(environment, "-d", "0.01", OPEN, 'filename ~ "*host*"', program=at_once())
    assert done.returncode == 0
    assert re.fullmatch(LINE + "\n", done.stdout)
    assert (
        done.stderr
        == "Tracing kprobe myopen for 0.01 seconds (buffered)...\n\nEnding tracing...\n1 event, 0 lost, 0 missed\n"
    )


def test_head(environment: dict[str, str], tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with open(errors, "wb") as file:
        command = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *SIM, OPEN], env=environment, stdout=subprocess.PIPE, stderr=file
        )
        head = subprocess.run(
            ["head", "-1"], stdin=command.stdout, capture_output=True, text=True, check=True, timeout=PATIENCE
        )
        assert command.stdout is not None
        command.stdout.close()
        assert command.wait(PATIENCE) == 141
    assert "myopen: (do_sys_openat2+0x0/0x170)" in head.stdout
    assert SLOW.sub("", errors.read_text()) == "Tracing kprobe myopen. Ctrl-C to end.\n"


def test_headings(spawn: Callable[..., pexpect.spawn]) -> None:
    child = spawn(*SIM, "-H", OPEN)
    child.expect_exact("# tracer: nop\r\n#\r\n# entries-in-buffer/entries-written: 0/0   #P:")
    child.expect_exact("#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\r\n")
    child.expect_exact("#              | |         |   |||||     |         |\r\n")
    child.expect(LINE)
    child.sendintr()
    assert status(child) == 0


def test_stacks(spawn: Callable[..., pexpect.spawn]) -> None:
    child = spawn(*SIM, "-s", OPEN, 'filename ~ "*host*"')
    child.expect(LINE + "\r\n")
    child.expect(r" +cat-2841 +\[000\] \.\.\.\.\. +\d+\.\d{6}: <stack trace>\r\n => do_sys_openat2\r\n")
    child.sendintr()
    assert status(child) == 0


def test_view(environment: dict[str, str]) -> None:
    done = run(environment, *SIM, "-v", OPEN)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("name: myopen\nID: ")
    assert done.stdout.endswith(
        'print fmt: "(%lx) filename=\\"%s\\"", REC->__probe_ip, __get_str(filename)\n',
    )


def test_a_process(spawn: Callable[..., pexpect.spawn]) -> None:
    child = spawn(*SIM, "-p", "1172", OPEN)
    child.expect(r"postgres-1172 .* filename=\"pg_stat_tmp/pgstat.stat\"\r\n")
    child.expect("postgres-1172 ")
    child.sendintr()
    child.expect_exact("Ending tracing...")
    assert "cat-2841" not in child.before
    assert status(child) == 0


def test_a_refusal(environment: dict[str, str]) -> None:
    done = run(environment, *SIM, "p:myopen do_sys_openat2 filename=%si:string")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        "  Command: p:myopen do_sys_openat2 filename=%si:string\n                                                ^\n"
    ) in done.stderr


def test_backends_that_can_not_be_opened(environment: dict[str, str]) -> None:
    done = run(environment, "--tracefs", "sim:1.0", OPEN)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("ERROR: sim:1.0: ")
    done = run(environment, "--tracefs", "sim:6.1,activity=nosuch.toml", OPEN)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "ERROR: sim:6.1,activity=nosuch.toml: activity nosuch.toml: No such file or directory\n"
    done = run(environment, "--tracefs", "nosuch", OPEN)
    assert done.returncode == 3
    assert done.stderr == "ERROR: no tracefs backend 'nosuch'; known: local, sim, vm\n"


def test_the_module_runs_too(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kprobe", "-h"], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout[:14]) == (0, "USAGE: kprobe ")


def test_it_starts_without_the_heavy_modules(environment: dict[str, str]) -> None:
    """Start time is mostly imports; these cost more than all of the command's own code."""
    check = (
        "import sys\nfrom kprobe.cli import main\n"
        "assert main(['--tracefs', 'local:/nosuch', 'p:x']) == 3\n"
        "print(*sorted({'re', 'typing', 'inspect', 'dataclasses', 'argparse', 'asyncio', 'threading', 'subprocess', "
        "'importlib.metadata', 'kprobe_text.text', 'kprobe_sim'} & set(sys.modules)))"
    )
    bare = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True)
    done = subprocess.run([sys.executable, "-c", check], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= set(bare.stdout.split())
