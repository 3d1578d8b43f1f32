"""Names of events of several probes in one trace."""

from __future__ import annotations

import pytest

from kprobe.definitions.definition import parse
from kprobe.definitions.naming import distinct
from kprobe.errors import DefinitionError


@pytest.mark.parametrize(
    ("definitions", "names"),
    [
        (["p:vfs_read", "r:vfs_read"], ["vfs_read", "vfs_read_return"]),
        (["r:vfs_read", "p:vfs_read"], ["vfs_read_return", "vfs_read"]),
        (["p:vfs_read", "p:vfs_read %di", "p:vfs_read %si"], ["vfs_read", "vfs_read_2", "vfs_read_3"]),
        (["r:vfs_read", "r:vfs_read", "p:vfs_read"], ["vfs_read_return", "vfs_read_return_2", "vfs_read"]),
        (["p:vfs_read", "p:vfs_read vfs_write"], ["vfs_read_2", "vfs_read"]),
        (["p:vfs_read", "p:vfs_read+4"], ["vfs_read", "p_vfs_read_4"]),
        (["r:" + "x" * 63, "p:" + "x" * 63], ["x" * 56 + "_return", "x" * 63]),
    ],
)
def test_each_has_its_own(definitions: list[str], names: list[str]) -> None:
    assert [probe.name for probe in distinct([parse(one) for one in definitions])] == names


@pytest.mark.parametrize("second", ["p:x vfs_write", "r:g/x vfs_write"])
def test_a_users_name_is_not_changed(second: str) -> None:
    with pytest.raises(DefinitionError, match="another probe is called x, too"):
        distinct([parse("p:x vfs_read"), parse(second)])
