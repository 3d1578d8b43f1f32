"""Where profiles are looked for by name: the environment's directories, the data directory, the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds import profile
from kprobe_sim.builds.portable import installed
from kprobe_sim.builds.portable.file import packed

from . import toy_profile

NEWEST = "7.3-cloud-amd64"


class Places:
    """Two directories of $KPROBE_SIM_PROFILES, and the data directory."""

    def __init__(self, home: Path) -> None:
        self.first, self.second = home / "first", home / "second"
        self.data = home / "data" / "kprobe-sim" / "profiles"

    def put(self, place: Path, release: str, cpus: int) -> Path:
        """Put a profile of so many CPUs into a place; return its directory."""
        return toy_profile.write(place / release, release=release, version=release.partition("-")[0], cpus=cpus)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    places = Places(tmp_path)
    monkeypatch.setenv("KPROBE_SIM_PROFILES", f"{places.first}:{places.second}")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(installed, "profile_directories", list)  # none is installed
    return places


def test_a_release_that_is_there_more_than_once_is_that_of_the_first_place(there: Places) -> None:
    there.put(there.data, "6.16.1-toy", 4)
    assert SimulatedKernel("6.16.1-toy").cpus == 4
    there.put(there.second, "6.16.1-toy", 3)
    assert SimulatedKernel("6.16.1-toy").cpus == 3
    there.put(there.first, "6.16.1-toy", 2)
    assert SimulatedKernel("6.16").cpus == 2


def test_a_series_is_its_newest_release_wherever_that_is(there: Places) -> None:
    there.put(there.first, "6.16.1-toy", 2)
    there.put(there.data, "6.16.10-toy", 3)
    there.put(there.second, "6.16.9-toy", 4)
    assert SimulatedKernel("6.16").cpus == 3
    assert SimulatedKernel("6.16.9-toy").cpus == 4


def test_a_release_of_the_package_comes_after_the_users(there: Places) -> None:
    assert SimulatedKernel("6.1").release == "6.1.0-54-cloud-amd64"
    there.put(there.data, "6.1.0-54-cloud-amd64", 5)
    assert SimulatedKernel("6.1").cpus == 5
    there.put(there.first, "6.1.0-55-cloud-amd64", 6)
    assert SimulatedKernel("6.1").release == "6.1.0-55-cloud-amd64"


def test_without_a_name_it_is_the_packages_newest(there: Places) -> None:
    there.put(there.first, "7.9.1-toy", 2)
    there.put(there.data, NEWEST, 3)
    assert (SimulatedKernel().release, SimulatedKernel().cpus) == (NEWEST, 1)
    assert SimulatedKernel("7.9").cpus == 2


def test_the_packages_newest_is_called_by_its_release_where_the_series_means_another(there: Places) -> None:
    assert profile.newest() == "7.3"
    there.put(there.data, "7.3.5-toy", 2)
    assert profile.newest() == NEWEST


@pytest.mark.parametrize(
    "name", ["mine.kprofile", "6.17-mine.kprofile", "mine", "my kernel's profile", "mine.kprofile.bak"]
)
def test_a_file_is_found_by_the_release_that_it_is_of_whatever_it_is_called(there: Places, name: str) -> None:
    there.first.mkdir()
    (there.first / name).write_bytes(packed(there.put(there.data.parent, "6.16.1-toy", 2)))
    (there.first / "README").write_text("kprobe-simply something else\n")
    assert SimulatedKernel("6.16").release == "6.16.1-toy"
    assert SimulatedKernel("6.16.1-toy").release == "6.16.1-toy"
    assert SimulatedKernel(name.removesuffix(".kprofile")).release == "6.16.1-toy"  # nor is it lost by its name
    with pytest.raises(ValueError, match=r"there are: 5\.10\.0-46-cloud-amd64, .*, 6\.16\.1-toy, 7\.2"):
        SimulatedKernel("6.17")


def test_a_directory_is_found_by_the_release_that_it_is_of(there: Places) -> None:
    toy_profile.write(there.first / "mine", release="6.16.1-toy", version="6.16.1")
    assert SimulatedKernel("6.16").release == "6.16.1-toy"


def test_of_two_of_one_release_the_one_that_is_named_for_it_counts(there: Places) -> None:
    there.first.mkdir()
    for name, cpus in (("a", 3), ("6.16.1-toy", 2), ("b", 4)):
        made = toy_profile.write(there.data.parent / name, release="6.16.1-toy", version="6.16.1", cpus=cpus)
        (there.first / f"{name}.kprofile").write_bytes(packed(made))
    assert SimulatedKernel("6.16").cpus == 2
    (there.first / "6.16.1-toy.kprofile").unlink()
    assert SimulatedKernel("6.16").cpus == 3


def test_a_file_that_is_written_anew_is_read_anew(there: Places) -> None:
    there.first.mkdir()
    mine = there.first / "mine.kprofile"
    mine.write_bytes(packed(there.put(there.data.parent, "6.16.1-toy", 2)))
    assert SimulatedKernel("6.16").release == "6.16.1-toy"
    mine.write_bytes(packed(there.put(there.data.parent, "6.17.10-toy", 2)))
    assert SimulatedKernel("6.17").release == "6.17.10-toy"
    with pytest.raises(ValueError, match=r"no profile of kernel '6\.16'"):
        SimulatedKernel("6.16")


def test_a_place_may_be_a_profile_itself(there: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = there.put(there.second, "6.16.1-toy", 2)
    (there.second / "mine").write_bytes(packed(directory))
    for place in (directory, there.second / "mine"):
        monkeypatch.setenv("KPROBE_SIM_PROFILES", str(place))
        assert SimulatedKernel("6.16").release == "6.16.1-toy"


def test_what_is_hidden_is_no_profile(there: Places) -> None:
    there.first.mkdir()
    (there.first / ".mine.kprofile").write_bytes(packed(there.put(there.data.parent, "6.16.1-toy", 2)))
    with pytest.raises(ValueError, match=r"no profile of kernel '6\.16'"):
        SimulatedKernel("6.16")


def test_without_variables_it_is_the_directory_that_the_desktop_has_for_data(
    tmp_path: Path, there: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KPROBE_SIM_PROFILES", "XDG_DATA_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profile.profile_directories() == [("data directory", tmp_path / ".local/share/kprobe-sim/profiles")]
    there.put(tmp_path / ".local/share/kprobe-sim/profiles", "6.16.1-toy", 2)
    assert SimulatedKernel("6.16").cpus == 2
    assert profile.available()[0] == "5.10.0-46-cloud-amd64"
    assert "6.16.1-toy" not in profile.available()
