"""Each listing of the five documents, replayed: what its author typed gives, byte for byte, what its author saw.

The texts are those that the documents print (kprobe_sim/seeds); where a page lost blanks they have the kernel's.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from kprobe_sim.replays.listing import Listing, documents, find, listings
from kprobe_sim.replays.player import play

LISTINGS = [listing for document in documents() for listing in listings(document)]


def cases() -> list[object]:
    """All listings; those that aren't yet as the document has them are expected to differ."""
    return [
        pytest.param(
            one, id=one.path, marks=[pytest.mark.xfail(reason=one.differs, strict=True)] if one.differs else []
        )
        for one in LISTINGS
    ]


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


def test_the_pace_is_that_of_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three calls, 94 microseconds from the first to the last."""
    slept: list[float] = []
    monkeypatch.setattr("kprobe_sim.replays.machine.time.sleep", slept.append)
    play(find("tracer-2009", "02-trace"), lambda _: None, is_fast=False)
    assert [round(seconds, 6) for seconds in slept] == [0.00001, 0.000084]
