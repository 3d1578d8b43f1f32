"""What needs an engine for queries is deselected unless asked for: `make bulk-test`."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "engines: needs DuckDB and Dask; deselected unless asked for by -m engines")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "engines" in config.getoption("markexpr"):
        return
    dropped = [item for item in items if item.get_closest_marker("engines")]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if not item.get_closest_marker("engines")]
