"""`kprobe check` on well-known probes: a kernel says what its simulator says: errno, message, caret, event, fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kprobe.undo.owners import Owner
from kprobe_check import Statement, statements
from kprobe_check.asking.asked_kernel import AskedKernel
from kprobe_check.asking.meanings import remarks
from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.profile import Profile

SOURCES = sorted((Path(__file__).parents[2] / "fixtures" / "check").glob("*.sh"))
MORE = """\
p:own vfs_read
p vfs_read
r:own vfs_read $retval
p:own vfs_read $arg*
p:own vfs_read count
p:own vfs_create $arg*
p:own vfs_create dentry=%dx
p:own vfs_read+3
p:own __x64_sys_openat f=+0(%si):string
p:own nowhere:vfs_read
f:own vfs_read
t:own sched_switch
e:own sched/sched_switch a=$next_pid
filter: common_pid == 1
filter: nothing == 1
filter: comm == word
s:own int a; char b[]
sched/sched_switch filter: next_comm ~ "a*" && next_pid > 3
sched/sched_switch filter: next_comm ~ 3
sched/sched_switch hist:keys=next_pid
sched/sched_switch hist:keys=nothing
sched/sched_switch stacktrace:3 if next_pid == 1
sched/nothing stacktrace
"""


def asked_for() -> list[Statement]:
    found = [one for path in SOURCES for one in statements(path.read_bytes(), path.name)]
    return found + statements(MORE.encode(), "more")


@pytest.fixture
def simulated(recorded: Profile) -> Any:
    return SimulatedKernel(str(recorded.path)).tracefs


def test_what_a_kernel_makes_of_well_known_probes(tracefs: Any, simulated: Any) -> None:
    each = asked_for()
    assert len(each) > 60
    real, expected = AskedKernel(tracefs, Owner(1)), AskedKernel(simulated, Owner(1))
    before = tracefs.read("dynamic_events")
    answers = [(one.text, real.ask(one), expected.ask(one)) for one in each]
    assert [answer for answer in answers if answer[1] != answer[2]] == []
    meant = [(one.text, remarks(one, real), remarks(one, expected)) for one in each if real.ask(one).is_taken]
    assert [text for text, here, there in meant if here != there] == []
    assert any(here for _, here, _ in meant)
    real.close()
    assert (tracefs.read("dynamic_events"), tracefs.listdir("instances")) == (before, [])
