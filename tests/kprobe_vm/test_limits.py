"""What limits.c prints in a guest: docs/ways.md says what of that a mount answers otherwise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from kprobe_vm import Machine

pytestmark = pytest.mark.vm

HOME = Path(__file__).parents[1] / "conformance" / "limits.py"


def test_limits(machine: Machine, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("limits", HOME)
    assert spec is not None
    assert spec.loader is not None
    limits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(limits)
    machine.put("/limits", limits.build(tmp_path).read_bytes(), mode=0o755)
    done = machine.run(["/limits"])
    assert limits.answers(done.stdout.decode()) == limits.LIMITS
