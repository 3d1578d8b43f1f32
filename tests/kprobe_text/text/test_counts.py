"""Every value of every recorded trace, counted: right, a guess that is marked, or wrong."""

from collections import Counter
from typing import Any

import pytest

from .truth import OPENS, TRACES, count

# how many values there are, and how many are guesses by definition and when nothing is known
VALUES = {
    "3.2": (816, 37, 310),
    "3.13": (1012, 57, 360),
    "3.13fp": (1012, 57, 356),
    "4.4": (1044, 0, 5),
    "4.19": (1150, 0, 74),
    "5.10": (1186, 0, 17),
    "6.1": (1195, 0, 17),
    "6.12": (1211, 0, 17),
    "7.2": (1203, 0, 17),
}


def test_every_series_is_counted() -> None:
    assert set(VALUES) == set(OPENS) == {path.name for path in TRACES.iterdir() if path.is_dir()}


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["format", "definition", "look"])
@pytest.mark.parametrize("series", VALUES)
def test_no_value_is_wrong_and_none_is_missing(every: Any, series: str, schema: str) -> None:
    total: Counter[str] = Counter()

    def check(name: str) -> None:
        counts = count(series, name, schema)
        bad = ("wrong", "silent", "missing", "text")
        assert {kind: counts[kind] for kind in bad} == dict.fromkeys(bad, 0)
        total.update(counts)

    names = sorted(path.name for path in (TRACES / series).glob("*.trace*"))
    every([(f"{series}/{name}", name) for name in names], check, of=len(names))
    # two events are forged by markers (07_marker)
    assert total["events"] == total["read"] + 2
    values, by_definition, by_look = VALUES[series]
    guesses = {"format": 0, "definition": by_definition, "look": by_look}[schema]
    assert (total["right"], total["guessed"]) == (values - guesses, guesses)
