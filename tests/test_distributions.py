"""What the distributions beside the package bring, and the errors that name the one that has what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from kprobe.cli import main
from kprobe.tracefs.kernels import chosen
from kprobe_lab.changes.kernels import in_line
from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.portable import installed
from kprobe_sim.cli import main as sim
from kprobe_sim.releases import BROUGHT
from kprobe_sim.scenarios.choices import chosen_kernels

ROOT = Path(__file__).parent.parent
OLD = (
    "the distribution kprobe-sim-profiles-old has {}: in a checkout of kprobe-sim, "
    "`pip install ./distributions/kprobe-sim-profiles-old` installs it (docs/start/install.md)"
)
NEWER = (
    "the distribution kprobe-sim-profiles has {}: in a checkout of kprobe-sim, "
    "`pip install ./distributions/kprobe-sim-profiles` installs it (docs/start/install.md)"
)
HERE = "5.10, 6.1, 6.12, 7.2, 7.3"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the package alone."""
    monkeypatch.setattr(installed, "profile_directories", list)
    monkeypatch.setattr("kprobe_sim.kernel.kernels.profile_directories", list)


@pytest.mark.parametrize("name", BROUGHT)
def test_the_table_has_what_they_bring(name: str) -> None:
    files = (ROOT / "distributions" / name).glob("src/*/*.kprofile")
    assert sorted(BROUGHT[name]) == sorted(path.name.removesuffix(".kprofile") for path in files)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("5.4", OLD.format("5.4.273")),
        ("2.6.33", OLD.format("2.6.33")),
        ("4.19.108", OLD.format("4.19.108")),
        ("6.19", NEWER.format("6.19.14+deb13-cloud-amd64")),
        ("6.12-rt-amd64", NEWER.format("6.12.117+deb13-rt-amd64")),
        ("6.5", "others can be installed or recorded: docs/guides/profiles.md"),
    ],
)
def test_every_way_to_name_a_kernel_names_what_has_it(spec: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no profile of kernel") as caught:
        SimulatedKernel(spec)
    message = str(caught.value)
    assert message.endswith(f"7.3-cloud-amd64; {hint}")
    assert main(["--tracefs", f"sim:{spec}", "p:x vfs_read"]) == 3
    assert capsys.readouterr().err.splitlines()[0] == f"ERROR: sim:{spec}: {message}"
    assert main(["check", "--kernels", spec, "p:x vfs_read"]) == 2
    said = f"ERROR: no kernel {spec!r}; there are: {HERE}; or give a spec such as vm:6.1\nhint: {hint}\n"
    assert capsys.readouterr().err == said
    assert sim(["text", "arrays", "--kernels", spec]) == 2
    assert hint in capsys.readouterr().err


def test_all_means_the_old_kernels_that_were_recorded_in_full_too() -> None:
    """Of check, `kprobe-sim text` and bisect; not those of which little is known, which are asked by name."""
    old = ["4.9", "4.14", "4.19", "5.4", "5.10"]
    assert [kernel.series for kernel in chosen("all")][:5] == old
    assert [kernel.name for kernel in chosen("4.9,5.4")] == ["4.9", "5.4"]
    assert chosen_kernels("all")[:5] == old
    assert [place.spec for place in in_line()][:5] == [f"sim:{series}" for series in old]


def test_a_kernel_that_is_not_listed_is_found_by_its_series(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--kernels", "5.4,3.13,6.1", "p:x vfs_read"]) == 0
    assert capsys.readouterr().out == "p:x vfs_read\n  taken by all 3\n1 statement on 3 kernels: 1 taken by all\n"
