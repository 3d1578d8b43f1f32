"""KNOWN_DIFFERENCES.md says what the strict xfails say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "known_differences.py", "--check"], timeout=60)
    assert done.returncode == 0, "run tools/known_differences.py"
