"""What tests leave in a tracefs is undone, on the simulator too, where the plugin has no need of it."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe_sim.builds.profile import Profile
from kprobe_sim.pytest_plugin.pristine import Pristine

from .leftovers import LEFTOVERS, differs, leave, state
from .older import spare_variables


class Owned:
    """A tracefs that the test has for itself, as the plugin has a guest's."""

    def __init__(self, tracefs: Any) -> None:
        self._tracefs = tracefs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def renew(self) -> None:
        """Never called: that it is there tells whose the tracefs is."""


@pytest.fixture(scope="module")
def fresh() -> dict[str, dict[str, object]]:
    """What the first test sees on each backend, and all others before they leave anything."""
    return {}


@pytest.mark.parametrize("name", LEFTOVERS)
def test_it_is_undone(
    tracefs: Any, tracefs_spec: str, fresh: dict[str, dict[str, object]], name: str, recorded: Profile
) -> None:
    if name == "histograms of each other's variables":  # one is made without the other when they are put back
        spare_variables(recorded)
    if tracefs_spec not in fresh:
        fresh[tracefs_spec] = state(tracefs)
    before = fresh[tracefs_spec]
    pristine = Pristine(Owned(tracefs))
    has = leave(pristine, name)
    assert not has or differs(tracefs, before)
    assert pristine.reset() == []
    assert state(tracefs) == before
    if not has:
        pytest.skip("this kernel has no such thing")
