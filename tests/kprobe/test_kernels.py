"""The kernels that can be opened, through entry points, and those of them that words mean."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kprobe.tracefs.kernels import GROUP, Kernel, UnknownKernel, chosen, kernels

MODULE = """
class Known:
    def __init__(self, series, release, flavour, spec, place):
        self.series, self.release, self.flavour, self.spec, self.place = series, release, flavour, spec, place

def kernels():
    return [
        Known("6.1", "6.1.9-1-amd64", "amd64", "sim:6.1", "package"),
        Known("6.12", "6.12.3-rt-amd64", "rt-amd64", "sim:6.12-rt-amd64", "environment"),
        Known("6.12", "6.12.3-cloud", "cloud", "sim:6.12", "package"),
    ]
"""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Install a package that offers three kernels, in place of the project's own."""
    info = tmp_path / "kprobe_sim-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kprobe-sim\nVersion: 9\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nsim = offered_kernels:kernels\n")
    (tmp_path / "offered_kernels.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "offered_kernels", raising=False)


def shown(found: list[Kernel]) -> list[tuple[str, str]]:
    return [(kernel.name, kernel.spec) for kernel in found]


@pytest.mark.usefixtures("installed")
def test_those_that_are_offered_in_the_order_in_which_they_are() -> None:
    known = kernels()
    assert shown(known) == [("6.1", "sim:6.1"), ("6.12-rt-amd64", "sim:6.12-rt-amd64"), ("6.12", "sim:6.12")]
    assert (known[1].series, known[1].release) == ("6.12", "6.12.3-rt-amd64")
    assert (known[1].flavour, known[1].place) == ("rt-amd64", "environment")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("all", ["6.1", "6.12-rt-amd64", "6.12"]),
        ("6.12,6.1", ["6.12", "6.1"]),
        ("6.12-cloud", ["6.12"]),
        ("6.12.3-rt-amd64", ["6.12-rt-amd64"]),
        ("sim:6.1,6.1", ["6.1"]),
        ("6.12,vm:6.1,all", ["6.12", "vm:6.1", "6.1", "6.12-rt-amd64"]),
    ],
)
def test_a_word_is_a_series_with_or_without_flavour_a_release_or_a_spec(words: str, names: list[str]) -> None:
    assert [kernel.name for kernel in chosen(words)] == names


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("words", "named"), [("6.11", "6.11"), ("6.1,", ""), ("6.1.9", "6.1.9"), ("6", "6")])
def test_a_word_that_means_none_is_refused_with_those_that_there_are(words: str, named: str) -> None:
    with pytest.raises(UnknownKernel) as caught:
        chosen(words)
    assert (caught.value.name, caught.value.known) == (named, ("6.1", "6.12-rt-amd64", "6.12"))
    there = "there are: 6.1, 6.12-rt-amd64, 6.12; or give a spec such as vm:6.1"
    assert str(caught.value) == f"no kernel {named!r}; {there}"


def test_the_simulator_is_imported_only_to_name_its_kernels() -> None:
    code = (
        "import sys, kprobe.tracefs.kernels; print('kprobe_sim' in sys.modules); "
        "print(kprobe.tracefs.kernels.chosen('6.1')[0].spec, 'kprobe_sim' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\nsim:6.1 True\n", done.stderr
