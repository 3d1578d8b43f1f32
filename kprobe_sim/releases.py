"""Which release a spec means (a series, with or without a flavour, a release, a year), and where there are more."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

SUFFIX: Final = ".kprofile"  # of a profile that is one file
YEAR: Final = re.compile(r"20\d\d(?:-|\Z)")
BROUGHT: Final = {
    "kprobe-sim-profiles": (
        "6.12.117+deb13-amd64",
        "6.12.117+deb13-rt-amd64",
        "6.16.12+deb13-cloud-amd64",
        "6.17.13+deb13-cloud-amd64",
        "6.18.15+deb13-cloud-amd64",
        "6.19.14+deb13-cloud-amd64",
        "7.0.13+deb13-cloud-amd64",
        "7.1.13+deb13-cloud-amd64",
    ),
    "kprobe-sim-profiles-old": (
        *(f"2.6.{number}" for number in range(33, 40)),
        *("3.0.0", "3.1.10", "3.2.4", "3.13.10", "4.4.11+", "4.9.229", "4.14.67", "4.19.108", "5.4.273"),
    ),
}
"""The releases that each distribution brings, oldest first."""


class NoProfile(ValueError):
    """There is no profile of a kernel; `hint` says where there may be one."""

    def __init__(self, spec: str, releases: tuple[str, ...], hint: str) -> None:
        known = ", ".join(releases) or "none"
        super().__init__(f"no profile of kernel {spec!r}; there are: {known}{'; ' * bool(hint)}{hint}")
        self.hint = hint


def chosen(spec: str, releases: tuple[str, ...], hint: str = "") -> str:
    """Return the release, of those given oldest first, that a spec means.  Raises `NoProfile`, with the hint."""
    release = fitting(spec, releases)
    if release is None:
        raise NoProfile(spec, releases, hint)
    return release


@lru_cache(maxsize=64)
def fitting(spec: str, releases: tuple[str, ...]) -> str | None:
    """Return the release, of those given oldest first, that a spec means; None if it means none."""
    if spec in releases:
        return spec
    return next((release for release in reversed(releases) if not spec or _in_series(release, spec)), None)


def _in_series(release: str, spec: str) -> bool:
    """Return whether a release is of a series: "6.1" fits 6.1.0-54-cloud-amd64 and not 6.12, "6" fits none.

    A kernel known only from documents has a year: "2009" fits 2.6.32-2009.  A series may have a flavour:
    "6.12-rt-amd64" fits 6.12.117+deb13-rt-amd64.
    """
    if YEAR.match(spec):
        return release.partition("-")[2] == spec
    series, dash, flavour = spec.partition("-")
    if dash and (build := re.fullmatch(r"([0-9.]+(?:[-+][a-z]*[0-9]+)*)" + re.escape("-" + flavour), release)):
        release, spec = build[1], series
    return "." in spec[:-1] and re.match(re.escape(spec) + r"(?![0-9])", release) is not None


def flavour(release: str) -> str:
    """Return the flavour of a release: "rt-amd64" for 6.12.117+deb13-rt-amd64, "" if it has none."""
    match = re.fullmatch(r"(?>[0-9.]+(?:-(?:rc)?[0-9]+|\+[a-z]*[0-9]+)*)-(.+)", release)
    return match[1] if match else ""


def where_else(spec: str) -> str:
    """Return a hint that names the distribution with a kernel, and how to get it; "" if none has it."""
    for name, releases in BROUGHT.items():
        if release := fitting(spec, releases):
            way = (
                f"in a checkout of kprobe-sim, `pip install ./distributions/{name}` installs it (docs/start/install.md)"
            )
            return f"the distribution {name} has {release}: {way}"
    return ""
