"""A short campaign: the same generated operations on the simulator and on the kernel whose build it has recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from kprobe_lab.campaign.campaign import Campaign
from kprobe_lab.generators.cases import AREAS
from kprobe_lab.operations.reference import Reference, release_of
from kprobe_vm.errors import GuestPanic

OPERATIONS = 250  # of each kind

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def campaign() -> Iterator[Campaign]:
    # answers are those of one build, so the guest runs no other
    with closing(Reference(release_of("6.1"))) as reference:
        yield Campaign("6.1", 2009, reference)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("area", list(AREAS))
def test_no_difference(campaign: Campaign, area: str) -> None:
    end = campaign.operations + OPERATIONS
    while campaign.operations < end:
        found = campaign.step(area)
        assert found is None, found.text()
    assert not campaign.differences[area]


def test_a_kernel_that_goes_down_is_a_difference_and_another_takes_its_place(campaign: Campaign) -> None:
    files = campaign.reference.side.tracefs.machine.files
    files.write("proc/sys/kernel/sysrq", b"1")
    with pytest.raises(GuestPanic):
        files.write("proc/sysrq-trigger", b"c")
    found = campaign.step("controls")
    assert found is not None
    assert (found.asked, found.kernel) == ("the kernel went down", "the guest's kernel panicked: sysrq triggered crash")
    assert campaign.step("controls") is None
