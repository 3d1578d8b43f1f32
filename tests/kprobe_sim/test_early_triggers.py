"""Blanks in triggers: 4.19.108 took none too many, as its guest answered; 5.4.273 does."""

from __future__ import annotations

import errno

import pytest

from kprobe_sim import SimulatedKernel

TAKEN = {
    "traceon if a0 > 4": b"traceon:unlimited if a0 > 4\n",
    "traceon:1 if a0 > 4": b"traceon:count=1 if a0 > 4\n",
    "traceon:1 ": b"traceon:count=1\n",
    "traceon ": b"traceon:unlimited\n",
    "traceon:if a0 > 4": b"traceon:unlimited if a0 > 4\n",
    "hist:keys=a0  if a0 > 4": b"hist:keys=a0:vals=hitcount:sort=hitcount:size=2048 if a0 > 4 [active]\n",
}
REFUSED = (
    *("traceon:", "traceon: ", "traceon: if a0 > 4", "traceon  if a0 > 4", "traceon:\tif a0 > 4"),
    *("traceon:1  if a0 > 4", "traceon: 1", "stacktrace:  if a0 > 4", "hist: keys=a0"),
    "enable_event:sched:sched_switch  if a0 > 4",
)
PATH = "events/kprobes/a/trigger"


def probed(series: str) -> SimulatedKernel:
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("kprobe_events", b"p:a do_sys_open a0=%si\n")
    return kernel


@pytest.mark.parametrize("text", TAKEN)
@pytest.mark.parametrize("series", ["4.19", "5.4"])
def test_one_blank(series: str, text: str) -> None:
    tracefs = probed(series).tracefs
    tracefs.write(PATH, text.encode() + b"\n")
    assert tracefs.read(PATH) == TAKEN[text]


@pytest.mark.parametrize("text", REFUSED)
def test_blanks_too_many(text: str) -> None:
    tracefs = probed("4.19").tracefs
    with pytest.raises(OSError, match="trigger") as refusal:
        tracefs.write(PATH, text.encode() + b"\n")
    assert refusal.value.errno == errno.EINVAL
    assert tracefs.read(PATH).startswith(b"# Available triggers:\n")
    later = probed("5.4").tracefs
    assert later.write(PATH, text.encode() + b"\n") is None
