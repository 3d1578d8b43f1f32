"""The kernels of the tests with a guest, and shards for the tests of schedulers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..guests import pytest_generate_tests, series  # noqa: TID252  # the tests are no package that has a name

__all__ = ["pytest_generate_tests", "series"]

TOYS = Path(__file__).parent / "toys"


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The shards for tests, which the workers can import too."""
    monkeypatch.syspath_prepend(str(TOYS))
    import toy_shards

    yield toy_shards
    del sys.modules["toy_shards"]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
