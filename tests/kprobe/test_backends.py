"""From a spec to a tracefs, through entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from kprobe.backends import GROUP, chosen, open_tracefs
from kprobe.errors import UnknownBackend
from kprobe.tracefs import LocalTracefs


@pytest.fixture(autouse=True)
def points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install two backends, which give back their argument."""
    installed = EntryPoints(EntryPoint(name, "builtins:str", GROUP) for name in ("sim", "vm"))
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: installed.select(group=group))
    monkeypatch.delenv("KPROBE_TRACEFS", raising=False)


@pytest.mark.parametrize(
    ("spec", "argument"), [("sim", ""), ("sim:6.1", "6.1"), ("sim:6.1,activity=a:b", "6.1,activity=a:b"), ("vm:", "")]
)
def test_the_argument_is_what_follows_the_first_colon(spec: str, argument: str) -> None:
    opened: Any = open_tracefs(spec)
    assert opened == argument


def test_local(tmp_path: Path) -> None:
    opened = open_tracefs(f"local:{tmp_path}")
    assert isinstance(opened, LocalTracefs)
    assert opened.root == str(tmp_path)


def test_spec_then_environment_then_local(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen() == "local"
    monkeypatch.setenv("KPROBE_TRACEFS", "sim:5.10")
    assert (chosen(), chosen("vm:6.1")) == ("sim:5.10", "vm:6.1")
    opened: Any = open_tracefs()
    assert opened == "5.10"


def test_an_unknown_one_lists_the_known() -> None:
    with pytest.raises(UnknownBackend) as caught:
        open_tracefs("qemu:6.1")
    assert (caught.value.name, caught.value.known) == ("qemu", ("local", "sim", "vm"))
