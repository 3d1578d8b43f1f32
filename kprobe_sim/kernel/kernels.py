"""The kernels that can be simulated; programs find them by the entry point kprobe.kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kprobe_sim.builds import profile
from kprobe_sim.builds.portable.directory import claimed, profiles_in
from kprobe_sim.builds.portable.installed import profile_directories
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.releases import fitting
from kprobe_sim.releases import flavour as flavour_of

_VERSION = 64  # characters of a version


class RecordedKernel(NamedTuple):
    """A kernel that has a profile."""

    series: str  # the first two numbers of the version: "6.12"
    release: str  # uname -r: "6.12.117+deb13-cloud-amd64"
    flavour: str  # what follows the numbers of the release: "cloud-amd64"; "" if nothing does
    spec: str  # the shortest spec that opens it: "sim:6.12", "sim:6.12-rt-amd64", "sim:RELEASE"
    place: str  # of its profile: "package", "data directory", "environment", or the distribution that brings it


def kernels() -> list[RecordedKernel]:
    """Return the kernels that have profiles, oldest first; where several share a name, the one that the name means.

    Sparsely recorded kernels are left out: a missing record would pass for an answer.  So are profiles that don't name
    their kernel.  No profile is read further than that: opening a damaged one raises ValueError later.
    """
    installed = _in(profile_directories())
    own = {name: (profile.PROFILES / name, "package") for name in profile.available()}
    own |= _in(profile.profile_directories())
    named = installed | own
    names, nearer = profile.ordered(tuple(named)), profile.ordered(tuple(own))
    recorded = []
    for name in names:
        path, place = named[name]
        try:
            release, version, is_complete = claimed(path)
        except (OSError, ValueError):
            continue
        if not is_complete:
            continue
        series = "{}.{}".format(*profile.version_number(version))
        flavour = flavour_of(release)
        spec = f"sim:{_shortest(name, series, flavour, nearer, names)}"
        recorded.append(RecordedKernel(series, release, flavour, spec, place))
    return recorded


def _in(directories: Sequence[tuple[str, Path]]) -> dict[str, tuple[Path, str]]:
    """Return, by release, the path of each profile in these directories, and where it comes from."""
    named: dict[str, tuple[Path, str]] = {}
    for place, directory in reversed(directories):
        named |= {name: (path, place) for name, path in profiles_in(directory).items()}
    return named


def _shortest(name: str, series: str, flavour: str, nearer: tuple[str, ...], names: tuple[str, ...]) -> str:
    """Return the shortest spec that means the profile of that name: its series, series and flavour, or the name.

    If a spec fits any of the nearer profiles it means one of these.
    """
    for spec in (series, f"{series}-{flavour}"):
        if (fitting(spec, nearer) or fitting(spec, names)) == name:
            return spec
    return name
