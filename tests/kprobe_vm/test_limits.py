"""What limits.c prints in a guest: docs/evidence/ways.md says what of that a mount answers otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kprobe_vm import Machine

pytestmark = pytest.mark.vm

HOME = Path(__file__).parents[1] / "conformance" / "limits.py"


def test_limits(machine: Machine, loaded: Callable[[Path], ModuleType], tmp_path: Path) -> None:
    limits = loaded(HOME)
    machine.put("/limits", limits.build(tmp_path).read_bytes(), mode=0o755)
    done = machine.run(["/limits"])
    assert limits.answers(done.stdout.decode()) == limits.LIMITS
