"""`tools/fuzz/faults.py`: sessions under random faults end in their time and leave nothing that they don't name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "fuzz" / "faults.py"


@pytest.mark.slow
def test_forty_sessions_under_fault() -> None:
    done = subprocess.run([sys.executable, TOOL, "40", "--seed", "5"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("40 sessions, seed 5, ")
