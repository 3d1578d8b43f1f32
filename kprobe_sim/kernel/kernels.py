"""The kernels that can be simulated, for programs that find them by the entry point kprobe.kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kprobe_sim.builds import profile
from kprobe_sim.builds.portable.directory import claimed, profiles_in
from kprobe_sim.builds.portable.installed import profile_directories
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.releases import fitting
from kprobe_sim.releases import flavour as flavour_of

_VERSION = 64  # characters of one


class RecordedKernel(NamedTuple):
    """A kernel of which there is a profile."""

    series: str  # the first two numbers of the version: "6.12"
    release: str  # uname -r: "6.12.117+deb13-cloud-amd64"
    flavour: str  # what follows the numbers of the release: "cloud-amd64"; "" if nothing does
    spec: str  # what opens it, as short as it can be said: "sim:6.12", "sim:6.12-rt-amd64", "sim:RELEASE"
    place: str  # where its profile is: "package", "data directory", "environment", or the distribution that brings it


def kernels() -> list[RecordedKernel]:
    """Return the kernels that there are profiles of, oldest first; of those that share a name the one that it means.

    Kernels of which little was recorded aren't among them: what isn't known of these would pass for an answer.

    No profile is looked into further than needed: opening one that isn't sound raises ValueError.  A profile that
    doesn't even say of which kernel it is is left out.
    """
    installed = _in(profile_directories())
    own = {name: (profile.PROFILES / name, "package") for name in profile.available()}
    own |= _in(profile.profile_directories())
    named = installed | own
    names, nearer = profile.ordered(tuple(named)), profile.ordered(tuple(own))
    found = []
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
        found.append(RecordedKernel(series, release, flavour, spec, place))
    return found


def _in(directories: Sequence[tuple[str, Path]]) -> dict[str, tuple[Path, str]]:
    """Return by release the path of each profile in some places, and the place that it is in."""
    named: dict[str, tuple[Path, str]] = {}
    for place, directory in reversed(directories):
        named |= {name: (path, place) for name, path in profiles_in(directory).items()}
    return named


def _shortest(name: str, series: str, flavour: str, nearer: tuple[str, ...], names: tuple[str, ...]) -> str:
    """Return the first spec that means the profile of that name: its series, that with the flavour, the name.

    A spec means one of the nearer profiles if it fits any of them.
    """
    for spec in (series, f"{series}-{flavour}"):
        if (fitting(spec, nearer) or fitting(spec, names)) == name:
            return spec
    return name
