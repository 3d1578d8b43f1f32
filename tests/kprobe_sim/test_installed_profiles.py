"""Profiles that come with distributions of their own: found where nothing else has what is named, and listed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds import profile
from kprobe_sim.builds.portable.file import packed
from kprobe_sim.cli import main

from . import toy_profile


class Site:
    """A directory of installed distributions, in the path of this process."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.site = base / "site"
        self.place = self.site / "some_kernels"

    def install(self, *releases: str, cpus: int = 2) -> None:
        """Install a distribution with profile files of releases."""
        self.place.mkdir(parents=True)
        (self.place / "__init__.py").write_text("raise AssertionError('imported')\n")
        for release in releases:
            made = self.base / "made" / release
            toy_profile.write(made, release=release, version=re.split("[-+]", release)[0], cpus=cpus)
            (self.place / f"{release}.kprofile").write_bytes(packed(made))
        self.name("some_kernels")

    def name(self, package: str) -> None:
        """Write what an installed distribution says of itself, with an entry point that names a package."""
        facts = self.site / "some_kernels-1.2.dist-info"
        facts.mkdir(parents=True)
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: some-kernels\nVersion: 1.2\n")
        (facts / "entry_points.txt").write_text(f"[kprobe.profiles]\nmine = {package}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("KPROBE_SIM_PROFILES", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    site = Site(tmp_path)
    monkeypatch.syspath_prepend(str(site.site))
    return site


def test_a_series_a_release_and_a_flavour_are_found(site: Site) -> None:
    site.install("6.8.3-toy", "6.8.12-toy", "6.12.117+deb13-small-amd64")
    assert SimulatedKernel("6.8").release == "6.8.12-toy"
    assert SimulatedKernel("6.8.3-toy").release == "6.8.3-toy"
    assert SimulatedKernel("6.12-small-amd64").release == "6.12.117+deb13-small-amd64"


def test_what_the_user_or_the_package_has_comes_before_it(site: Site) -> None:
    site.install("6.1.9999-toy", "6.8.12-toy", "9.1.1-toy")
    assert SimulatedKernel("6.1").release == "6.1.0-54-cloud-amd64"
    assert SimulatedKernel("6.1.9999-toy").release == "6.1.9999-toy"
    toy_profile.write(site.base / "own" / "6.8.3-toy", release="6.8.3-toy", version="6.8.3")
    assert SimulatedKernel("6.8").release == "6.8.3-toy"
    assert SimulatedKernel().release == "7.3-cloud-amd64"
    assert profile.newest() == "7.3"


@pytest.mark.slow
def test_the_list_names_the_distribution(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.install("5.4.1-toy", "5.5.1-toy")
    (site.place / "5.5.1-toy.kprofile").write_bytes(b"kprobe-sim profile 7\n\n")
    assert main(["profiles"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "profiles-old" not in line]
    assert lines[:3] == [
        "5.4.1-toy                    5.4.1      0.0 MB  some-kernels 1.2",
        "5.5.1-toy                    -          0.0 MB  some-kernels 1.2: "
        "a profile in format '7'; this kprobe-sim reads format 1",
        "5.10.0-46-cloud-amd64        5.10.262   2.7 MB  package",
    ]


def test_a_damaged_file_is_refused_by_its_name(site: Site) -> None:
    site.install("6.8.12-toy")
    path = site.place / "6.8.12-toy.kprofile"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ValueError, match=f"^{path}: damaged: its checksum is another than the head says$"):
        SimulatedKernel("6.8")


def test_what_there_is_is_named_where_nothing_fits(site: Site) -> None:
    site.install("6.8.12-toy")
    with pytest.raises(
        ValueError, match=r"no profile of kernel '6\.9'; there are: .*5\.10\.0.*, 6\.8\.12-toy, 6\.12"
    ) as caught:
        SimulatedKernel("6.9")
    assert str(caught.value).endswith("-cloud-amd64; others can be installed or recorded: docs/guides/profiles.md")


def test_an_entry_point_without_its_package_is_passed_over(site: Site) -> None:
    site.name("gone")
    with pytest.raises(ValueError, match=r"no profile of kernel '6\.9'"):
        SimulatedKernel("6.9")


def test_nobody_looks_for_distributions_who_names_what_the_package_has() -> None:
    code = (
        "import sys, kprobe_sim; kprobe_sim.SimulatedKernel(); kprobe_sim.SimulatedKernel('6.1')\n"
        "print('importlib.metadata' in sys.modules, 'kprobe_sim.builds.portable' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False False\n"
