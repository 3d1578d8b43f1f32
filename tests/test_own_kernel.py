"""The conformance suite on a kernel of one's own: how it finds the profile of that, and what it says without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.portable.file import packed
from kprobe_sim.builds.profile import CALLED, PROFILES, Profile, load
from kprobe_sim.kernel.workload import open_workload
from kprobe_vm.recording.functions import KINDS

from .conformance.builds import build_of, of_kernel, recorded_of
from .conformance.test_histograms import CASES, expected
from .conformance.test_histograms import test_histograms as hold_a_histogram
from .kprobe_sim import toy_profile
from .requirements import TABLE, remedies

TOY_7 = "Linux version 6.16.1-toy (toy@toy) (gcc 12) #7"


@pytest.mark.parametrize("name", ["mine.kprofile", "6.12.kprofile", "mine", "a profile"])
def test_a_profile_is_found_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    """Of two of a release it is the one of the build, whichever comes first."""
    other = toy_profile.write(tmp_path / "toy", release="6.16.1-toy", version="6.16.1")
    (tmp_path / "0.kprofile").write_bytes(packed(other))
    facts = json.loads((other / "profile.json").read_text())
    (other / "profile.json").write_text(json.dumps(facts | {"banner": TOY_7}))
    (tmp_path / name).write_bytes(packed(other))
    (other / "profile.json").unlink()
    for banner in (facts["banner"], TOY_7):
        assert recorded_of("6.16.1-toy", "vm:/boot/bzImage", [tmp_path], banner).banner == banner


class Guest:
    """A backend with a guest, as far as its profile is looked up by it."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self.opened = self.machine = self.files = self

    def read(self, path: str) -> bytes:
        assert path == "proc/version"
        return b"Linux version 6.5.13-mine #1\n"


def test_of_a_kernel_by_its_path_the_profile_is_what_the_machine_lacks() -> None:
    def lacks(*names: str, why: str) -> NoReturn:
        raise LookupError(names, why)

    with pytest.raises(LookupError) as lacking:
        of_kernel(None, Guest("vm:/boot/bzImage"), "6.5.13-mine", [], lacks)
    assert lacking.value.args == (("a profile of the kernel",), "6.5.13-mine")
    with pytest.raises(pytest.fail.Exception, match=r"kprobe-vm record 6\.5 -o DIRECTORY"):
        of_kernel(None, Guest("vm:6.5"), "6.5.13-mine", [], lacks)


def test_what_brings_it_is_said_and_required() -> None:
    assert remedies(["a profile of the kernel"]) == [
        "a profile of the kernel: `kprobe-vm record PATH -o FILE.kprofile` makes it; "
        "KPROBE_SIM_PROFILES names the directory it is in"
    ]
    assert TABLE["a profile of the kernel"].asked


def test_recorder_and_simulator_know_the_same_names_of_functions() -> None:
    assert tuple(CALLED.values()) == KINDS


@pytest.fixture
def answering_otherwise(tmp_path: Path) -> Profile:
    """A kernel of 6.1 that takes common_comm in histograms, which no recorded one does that refuses nohitcount."""
    for file in (PROFILES / "6.1.0-54-cloud-amd64").iterdir():
        (tmp_path / file.name).symlink_to(file)
    facts = json.loads((tmp_path / "profile.json").read_bytes())
    facts["answers"]["hist_comm"] = True
    (tmp_path / "profile.json").unlink()
    (tmp_path / "profile.json").write_text(json.dumps(facts))
    return load(str(tmp_path))


class AsGuest:
    """The tracefs of a simulator that doesn't say so."""

    kernel = None

    def __init__(self, kernel: str) -> None:
        self._tracefs = SimulatedKernel(kernel).tracefs
        self.workload = open_workload(self._tracefs)

    def __getattr__(self, name: str) -> object:
        return getattr(self._tracefs, name)


def test_a_kernel_that_answers_as_no_recorded_one_is_held_to_its_simulator(answering_otherwise: Profile) -> None:
    recorded, build = answering_otherwise, build_of(answering_otherwise)
    alone = [number for number in range(len(CASES)) if expected(recorded, number) is None]
    assert len(alone) == 6
    assert CASES[alone[0]] == (["hist:keys=common_comm"], False)
    guest, other = AsGuest(str(recorded.path)), AsGuest("6.1")
    for number in range(len(CASES)):
        hold_a_histogram(guest, guest.workload, recorded, build, number)
    with pytest.raises(AssertionError):
        hold_a_histogram(other, other.workload, recorded, build, alone[0])
