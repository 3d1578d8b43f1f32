"""The table of version gates: complete, in order, and telling the known builds apart."""

from __future__ import annotations

import errno

import pytest

from kprobe_sim.builds.gate_rows import ROWS
from kprobe_sim.builds.gates import Gates, gates_for
from kprobe_sim.builds.profile import available, load


def test_every_gate_has_one_row_with_a_source() -> None:
    names = [name for name in Gates._fields if name != "version"]
    assert sorted(row.name for row in ROWS) == sorted(names)
    for row in ROWS:
        assert row.source
        versions = [version for version, _ in row.values]
        assert versions == sorted(versions)
        assert versions[0] == (0, 0, 0)


BUILDS = [
    ((5, 10, 262), errno.ENOENT, False, "MAXACT_NO_KPROBE", 63),
    ((6, 1, 20), errno.ENOENT, False, "MAXACT_NO_KPROBE", 63),
    ((6, 1, 190), errno.ENOENT, True, "MAXACT_NO_KPROBE", 63),
    ((6, 12, 117), errno.EINVAL, True, "BAD_MAXACT_TYPE", 63),
    ((7, 2, 13), errno.EINVAL, True, "BAD_MAXACT_TYPE", 63),
    ((7, 3, 0), errno.EINVAL, True, "BAD_MAXACT_TYPE", 255),
    ((7, 3, 4), errno.EINVAL, True, "BAD_MAXACT_TYPE", 255),
]


def test_every_profile_is_among_the_builds() -> None:
    assert {load(release).number for release in available()} - {version for version, *_ in BUILDS} == set()


@pytest.mark.parametrize(("version", "unknown", "symstr", "maxactive", "size"), BUILDS)
def test_builds(version: tuple[int, int, int], unknown: int, symstr: bool, maxactive: str, size: int) -> None:
    gates = gates_for(version)
    assert gates.unknown_symbol_errno == unknown
    assert gates.symstr is symstr
    assert gates.maxactive_on_probe == maxactive
    assert gates.argument_size == size
