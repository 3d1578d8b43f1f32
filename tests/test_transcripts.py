"""docs/transcripts.md: each verb and option of `kprobe` is there, on the simulator and on a guest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kprobe.options.table import OPTIONS, verbs

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "transcripts.md").read_text()
COMMANDS = [line.split() for line in PAGE.splitlines() if line.startswith("$ kprobe ")]
# what needs a process of its own, a terminal that is watched, or other programs; each has tests of its own
NOT_SHOWN = {"-F", "-p", "-L", "--follow", "--top-level", "--try", "-h", "--help"}
OTHER_PROGRAMS = {"test-parser"}
FILES = {"check", "parse", "corpus", "test-parser"}  # verbs that have no tracefs; their own pages show their options


@pytest.mark.parametrize("verb", sorted({verb.name for verb in verbs()} - OTHER_PROGRAMS))
def test_each_verb_is_shown(verb: str) -> None:
    assert any(verb == words[2] for words in COMMANDS)


@pytest.mark.parametrize("option", sorted({one.names[0] for one in OPTIONS if not FILES & set(one.verbs)} - NOT_SHOWN))
def test_each_option_is_shown(option: str) -> None:
    assert any(option in words for words in COMMANDS)


def test_each_is_shown_on_the_simulator_and_on_a_guest() -> None:
    places = [word for words in COMMANDS for word in words if word in ("sim:6.12", "vm:6.12")]
    assert places.count("sim:6.12") == places.count("vm:6.12") > 20


def test_a_terminal_is_read_as_it_stands_at_the_end(loaded: Callable[[Path], ModuleType]) -> None:
    """What is drawn over is gone, what has scrolled away is kept, and a failure is told."""
    shown = loaded(ROOT / "tools" / "transcripts.py").shown
    assert shown("printf 'one\\rtwo\\n'; seq 30") == ["two", *map(str, range(1, 31))]
    assert shown("false") == ["(status 1)"]
