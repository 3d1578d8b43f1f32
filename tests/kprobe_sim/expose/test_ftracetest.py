"""The kernel's own ftracetest, unmodified, inside `kprobe-sim run --follow`; the table: docs/evidence/ftracetest.md.

The tests come from Debian's package linux-source-6.1, fetched once and kept in the cache; they aren't part of this
project.  They run with `make vm-ftracetest`: a few of each directory, and all.  `tools/docs/ftracetest.py` makes the
table from them and from a guest.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import ROOT, Lacks, Requires, load

FEW = (
    "00basic/basic3.tc",
    "kprobe/kprobe_ftrace.tc",
    "dynevent/add_remove_eprobe.tc",
    "event/event-enable.tc",
    "filter/event-filter-incomplete.tc",
    "trigger/trigger-hist-expressions.tc",
    "trigger/trigger-trace-marker-synthetic.tc",
)


ftracetest = load(ROOT / "tools" / "docs" / "ftracetest.py")


@pytest.fixture(scope="session")
def there(can_mount: None, requires: Requires, lacks: Lacks) -> Path:
    """The directory of ftracetest."""
    requires("apt-get", "dpkg-deb")
    try:
        return Path(ftracetest.fetch())
    except subprocess.CalledProcessError as error:
        lacks("Debian's archive", why=f"linux-source-6.1 can't be fetched: {error.stderr}")


@pytest.mark.vm  # it takes half a minute, and some of the kernel's tests sleep for what they wait for
@pytest.mark.timeout(300)
def test_some_of_each_directory(there: Path, tmp_path: Path) -> None:
    expected = {name: mount for name, (mount, _, _) in ftracetest.table().items()}
    found = ftracetest.on_mount(there, FEW, "6.1", tmp_path)
    assert found == {name: expected[name] for name in ftracetest.names_of(there, FEW)}


@pytest.mark.vm
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("directory", ftracetest.DIRECTORIES)
def test_all_of_a_directory(there: Path, tmp_path: Path, directory: str) -> None:
    expected = {name: mount for name, (mount, _, _) in ftracetest.table().items()}
    found = ftracetest.on_mount(there, [directory], "6.1", tmp_path, ftracetest.ping())
    assert found == {name: expected[name] for name in ftracetest.names_of(there, [directory])}


def test_the_page_is_that_of_the_table() -> None:
    assert ftracetest.PAGE.read_text() == ftracetest.page(ftracetest.table())


def test_every_difference_has_a_reason() -> None:
    rows = ftracetest.table()
    assert [name for name, (mount, guest, why) in rows.items() if (mount != guest or mount != "PASS") and not why] == []
