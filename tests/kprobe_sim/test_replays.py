"""Each listing of the five documents, replayed: what its author typed gives, byte for byte, what its author saw.

The texts are those that the documents print (scenarios/replays/seeds); where a page lost blanks they have the kernel's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pexpect
import pytest

from kprobe_sim.scenarios.replays.listing import Listing, documents, find, listings
from kprobe_sim.scenarios.replays.player import play

LISTINGS = [listing for document in documents() for listing in listings(document)]


def cases() -> list[object]:
    """All listings; those that aren't yet as the document has them are expected to differ."""
    return [
        pytest.param(
            one, id=one.path, marks=[pytest.mark.xfail(reason=one.differs, strict=True)] if one.differs else []
        )
        for one in LISTINGS
    ]


@pytest.mark.slow
@pytest.mark.parametrize("listing", cases())
def test_a_listing_is_what_its_document_shows(listing: Listing) -> None:
    shown = bytearray()
    unseen = play(listing, shown.extend)
    assert shown.decode() == listing.expected
    assert unseen == listing.unseen


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kprobe_sim", "replay", *arguments], capture_output=True, text=True, timeout=60
    )


def test_a_document_is_shown_to_a_person() -> None:
    done = replay("lwn-2009", "--fast")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "## lwn-2009/01-trace: The trace of a call and its return (lines 28-40)\n"
        "# echo p:myprobe do_sys_open a0 a1 a2 a3 > /sys/kernel/debug/tracing/kprobe_events\n"
        "# echo r:myretprobe do_sys_open rv ra >> /sys/kernel/debug/tracing/kprobe_events\n"
        "# cat /sys/kernel/debug/tracing/trace\n"
        "#           TASK-PID    CPU#    TIMESTAMP  FUNCTION\n"
        "#              | |       |          |         |\n"
        "           <...>-1447  [001] 1038282.286885: do_sys_open+0x0/0xd6: 0xffffff9c 0x40413c 0x8000 0x1b6\n"
        "           <...>-1447  [001] 1038282.286915: sys_open+0x1b/0x1d <- do_sys_open: 0x3 0xffffffff81367a3a\n"
    )


def test_the_list_names_each_listing_and_its_kernel() -> None:
    rows = replay("--list").stdout.splitlines()
    assert [row.split()[:2] for row in rows] == [[one.path, f"sim:{one.kernel}"] for one in LISTINGS]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nosuch",), "no document 'nosuch'; there are: lwn-2009, perf-tools, perf-tools-examples, tracer-2009, "),
        (("lwn-2009", "7"), "no listing '7' in lwn-2009; there are: 01-trace"),
    ],
)
def test_what_is_not_there_is_said(arguments: tuple[str, ...], said: str) -> None:
    done = replay(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"kprobe-sim: replay: {said}")


def test_a_listing_goes_by_its_number_too() -> None:
    assert find("tracer-2009", "2").name == find("tracer-2009", "02").name == "02-trace"


def test_the_list_of_one_document() -> None:
    rows = replay("wind-river", "--list").stdout.splitlines()
    assert [row.split()[0] for row in rows] == [one.path for one in listings("wind-river")]


def test_the_pace_is_that_of_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three calls, 94 microseconds from the first to the last."""
    slept: list[float] = []

    def pause(seconds: float) -> bool:
        slept.append(seconds)
        return True

    monkeypatch.setattr("kprobe_sim.scenarios.replays.machine.pause", pause)
    play(find("tracer-2009", "02-trace"), lambda _: None, is_fast=False)
    assert [round(seconds, 6) for seconds in slept] == [0.00001, 0.000084]


def test_each_command_is_shown_before_it_is_run() -> None:
    order: list[bytes | str] = []
    play(find("tracer-2009", "02-trace"), order.append, order.append)
    assert [one if isinstance(one, str) else one[:11] for one in order] == [
        *find("tracer-2009", "02-trace").commands,
        b"# tracer: n",
    ]


def in_terminal(*arguments: str) -> pexpect.spawn[str]:
    command = ["-m", "kprobe_sim", "replay", *arguments]
    return pexpect.spawn(sys.executable, command, encoding="utf-8", timeout=60, dimensions=(40, 200))


def ended(child: pexpect.spawn[str]) -> int | None:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


@pytest.mark.slow
def test_in_a_terminal_lines_come_at_the_pace_of_their_times() -> None:
    """Three pairs of lines, a second apart: 6593773.677, 6593774.697, 6593775.717."""
    child = in_terminal("perf-tools", "7")
    child.expect_exact("Tracing kprobe myopen. Ctrl-C to end.\r\n")
    came = []
    for stamp in ("6593773.677332", "6593774.697144", "6593774.697675", "6593775.717986", "6593775.718499"):
        child.expect_exact(f"[001] d... {stamp}: myopen: ")
        came.append(time.monotonic())
    apart = [round(after - before, 1) for before, after in pairwise(came)]
    assert 0.9 < apart[0] < 4  # 1.019812 s; a busy machine may be late
    assert 0.9 < apart[2] < 4
    assert apart[1] + apart[3] < apart[0] + apart[2]
    child.expect_exact("^C\r\nEnding tracing...\r\n")
    assert ended(child) == 0


def test_ctrl_c_ends_it_at_once() -> None:
    """The first listing's next call would come 318 ms later, and eight listings are left."""
    child = in_terminal("perf-tools")
    child.expect_exact("6593278.860521")
    child.sendintr()
    child.expect_exact("^C\r\nEnding tracing...\r\n")
    assert ended(child) == 130
    assert child.before == ""


def test_sigint_that_kprobe_takes_between_two_calls_ends_it() -> None:
    def write(data: bytes) -> None:
        if b"6593278.858754" in data:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        play(find("perf-tools", "1"), write)


def test_ctrl_c_while_no_kprobe_runs() -> None:
    child = in_terminal("wind-river", "5")
    child.expect_exact("# cat /sys/kernel/debug/tracing/trace\r\n")
    child.sendintr()
    assert ended(child) == 130
    assert child.before == "^C"


@pytest.mark.parametrize("arguments", [("perf-tools", "--fast"), ("--list",)])
def test_a_reader_that_goes_away_ends_it_without_a_word(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "kprobe_sim", "replay", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 141


@pytest.mark.parametrize("arguments", [("perf-tools", "--fast"), ("--list",)])
def test_output_that_can_not_be_written(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "kprobe_sim", "replay", *arguments]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "kprobe-sim: replay: standard output: No space left on device\n")


def test_a_listing_that_differs_says_why() -> None:
    done = replay("perf-tools-examples", "17")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "kprobe-sim: replay: perf-tools-examples/17-usage: not what the document shows: kprobe -h of this project "
    )
