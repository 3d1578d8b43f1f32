"""Traces recorded from real kernels (fixtures/text)."""

from collections.abc import Callable
from pathlib import Path

import pytest

TRACES = Path(__file__).parents[3] / "fixtures" / "text"


@pytest.fixture
def recorded() -> Callable[[str, str], bytes]:
    """Give the bytes of a recorded file, by series and name."""
    return lambda series, name: (TRACES / series / name).read_bytes()


@pytest.fixture
def formats() -> Callable[[str, str], dict[str, str]]:
    """Give the format files that go with a recorded trace, by event name."""

    def read(series: str, name: str) -> dict[str, str]:
        texts = (TRACES / series / name).read_bytes().decode("latin-1").split("== events/")[1:]
        return {text.partition("\n")[0].split("/")[1]: text.partition("\n")[2] for text in texts}

    return read
