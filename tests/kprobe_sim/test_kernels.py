"""The kernels that can be simulated, as other programs are told of them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.portable.file import packed
from kprobe_sim.kernel.kernels import kernels
from kprobe_sim.releases import flavour

from . import toy_profile


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only directory of the user's that profiles are looked for in."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KPROBE_SIM_PROFILES", str(tmp_path / "own"))
    monkeypatch.setattr("kprobe_sim.kernel.kernels.profile_directories", list)  # none is installed
    (tmp_path / "own").mkdir()
    return tmp_path / "own"


def offer(own: Path, release: str, name: str = "") -> None:
    """Put a profile file of a release into the directory, by its own name or another."""
    directory = toy_profile.write(own.parent / "made" / release, release=release, version=re.split("[-+]", release)[0])
    (own / f"{name or release}.kprofile").write_bytes(packed(directory))


def test_those_of_the_package_oldest_first(own: Path) -> None:
    found = {kernel.release: (kernel.series, kernel.flavour, kernel.spec, kernel.place) for kernel in kernels()}
    packaged = [(release, said) for release, said in found.items() if said[3] == "package"]
    assert packaged == [
        ("5.10.0-46-cloud-amd64", ("5.10", "cloud-amd64", "sim:5.10", "package")),
        ("6.1.0-54-cloud-amd64", ("6.1", "cloud-amd64", "sim:6.1", "package")),
        ("6.12.117+deb13-cloud-amd64", ("6.12", "cloud-amd64", "sim:6.12", "package")),
        ("7.2.13+deb14-cloud-amd64", ("7.2", "cloud-amd64", "sim:7.2", "package")),
        ("7.3-cloud-amd64", ("7.3", "cloud-amd64", "sim:7.3", "package")),
    ]


def test_those_of_the_user_with_the_spec_that_means_them_and_not_another(own: Path) -> None:
    offer(own, "6.5.1-rt-amd64")
    offer(own, "6.5.1-cloud-amd64")
    offer(own, "6.5.0-cloud-amd64")
    offer(own, "6.1.0-54-cloud-amd64")  # before the package's
    offer(own, "6.4.7-toy", name="mine")
    found = {kernel.spec: (kernel.release, kernel.place) for kernel in kernels() if kernel.place == "environment"}
    assert found == {
        "sim:6.4": ("6.4.7-toy", "environment"),
        "sim:6.1": ("6.1.0-54-cloud-amd64", "environment"),
        "sim:6.5.0-cloud-amd64": ("6.5.0-cloud-amd64", "environment"),
        "sim:6.5-rt-amd64": ("6.5.1-rt-amd64", "environment"),
        "sim:6.5": ("6.5.1-cloud-amd64", "environment"),
    }


def test_those_of_a_distribution_by_what_nothing_nearer_is_called(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = own.parent / "brought"
    brought.mkdir()
    for release in ("6.1.999-cloud-amd64", "6.12.117+deb13-rt-amd64", "6.16.12-toy", "6.5.1-toy"):
        offer(brought, release)
    offer(own, "6.5.0-toy")
    monkeypatch.setattr("kprobe_sim.kernel.kernels.profile_directories", lambda: [("some-kernels 1.2", brought)])
    assert {kernel.release: kernel.spec for kernel in kernels() if kernel.place == "some-kernels 1.2"} == {
        "6.1.999-cloud-amd64": "sim:6.1.999-cloud-amd64",
        "6.12.117+deb13-rt-amd64": "sim:6.12-rt-amd64",
        "6.16.12-toy": "sim:6.16",
        "6.5.1-toy": "sim:6.5.1-toy",
    }
    assert "sim:6.5" in [kernel.spec for kernel in kernels() if kernel.place == "environment"]


def test_one_of_which_little_was_recorded_is_left_out_wherever_it_is(own: Path) -> None:
    """It is found by its name, as what isn't known of it would pass for an answer."""
    for release, facts in (("6.6.1-toy", {"unrecorded": ["symbols"]}), ("6.6.2-toy", {"made_up": ["symbols"]})):
        directory = toy_profile.write(own.parent / "made" / release, release=release, version=release[:5], **facts)
        (own / f"{release}.kprofile").write_bytes(packed(directory))
    toy_profile.write(own / "unpacked", release="6.6.3-toy", version="6.6.3", unrecorded=[])
    assert [kernel.release for kernel in kernels() if kernel.place == "environment"] == []
    assert SimulatedKernel("6.6.1-toy").release == "6.6.1-toy"
    assert SimulatedKernel("6.6").release == "6.6.3-toy"


def test_a_kernel_with_many_tasks_is_whole_and_one_that_is_cut_is_listed(own: Path) -> None:
    tasks = [[number, f"kworker/{number}:0"] for number in range(20_000)]
    for release, facts in (("6.6.1-toy", {}), ("6.6.2-toy", {"unrecorded": ["symbols"]})):
        made = toy_profile.write(
            own.parent / "made" / release, release=release, version=release[:5], tasks=tasks, **facts
        )
        (own / f"{release}.kprofile").write_bytes(packed(made))
    offer(own, "6.6.3-toy")
    (own / "6.6.3-toy.kprofile").write_bytes((own / "6.6.3-toy.kprofile").read_bytes()[:300])
    found = [kernel.release for kernel in kernels() if kernel.place == "environment"]
    assert found == ["6.6.1-toy", "6.6.3-toy"]


def test_what_does_not_say_of_which_kernel_it_is_is_left_out(own: Path) -> None:
    before = kernels()
    (own / "6.6.1-toy.kprofile").write_bytes(b"no profile")
    (own / "6.6.2-toy").mkdir()
    (own / "6.6.2-toy" / "profile.json").write_text("{}")
    (own / "6.6.3-toy").mkdir()
    (own / "6.6.3-toy" / "profile.json").write_text("[")
    os.mkfifo(own / "6.6.4-toy.kprofile")
    (own / "6.6.5-toy.kprofile").symlink_to("nowhere")
    assert kernels() == before


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("6.12.117+deb13-rt-amd64", "rt-amd64"),
        ("6.12.117+deb13-amd64", "amd64"),
        ("5.10.0-46-cloud-amd64", "cloud-amd64"),
        ("7.3-cloud-amd64", "cloud-amd64"),
        ("6.8.0-45-generic", "generic"),
        ("6.9.0-rc3-mine", "mine"),
        ("6.5.0", ""),
        ("6.9.0-rc3", ""),
        ("6.11.4-301.fc41.x86_64", ""),
    ],
)
def test_a_flavour_is_what_follows_the_numbers(release: str, expected: str) -> None:
    assert flavour(release) == expected
