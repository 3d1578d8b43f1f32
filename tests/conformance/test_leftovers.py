"""What tests leave in a tracefs is undone, on the simulator too, where the plugin has no need of it."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe_sim.testing.pristine import Pristine

from .leftovers import LEFTOVERS, leave, state


@pytest.mark.parametrize("name", LEFTOVERS)
def test_it_is_undone(tracefs: Any, name: str) -> None:
    before = state(tracefs)
    pristine = Pristine(tracefs)
    has = leave(pristine, name)
    assert not has or state(tracefs) != before
    assert pristine.reset() == []
    assert state(tracefs) == before
    if not has:
        pytest.skip("this kernel has no such thing")
