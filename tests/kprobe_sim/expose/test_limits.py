"""What limits.c prints on the mount: what a kernel answers, but for what FUSE can't."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import ROOT, Run, load

limits = load(ROOT / "tests" / "conformance" / "limits.py")


@pytest.mark.slow
@pytest.mark.requires("cc")
@pytest.mark.parametrize("series", ["6.1", "7.3"])
def test_limits(run: Run, tmp_path: Path, series: str) -> None:
    done = run([str(limits.build(tmp_path))], ("--kernel", series, "--activity", "none"))
    assert done.stderr == ""
    assert limits.answers(done.stdout) == limits.LIMITS | {
        name: answer for name, (answer, _) in limits.ON_MOUNT.items()
    }
