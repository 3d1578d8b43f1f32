"""Named tuples are what typing would have made of them."""

from __future__ import annotations

import ast
import pickle
import typing
from pathlib import Path

import pytest

import kprobe_sim
from kprobe_sim.builds.symbol import Symbol
from kprobe_sim.named_tuple import NamedTuple


class Spot(NamedTuple):
    """A place with a name."""

    x: int
    y: int = 2
    name: str | None = None

    @property
    def far(self) -> bool:
        """True if it is far away."""
        return self.x > 10

    def moved(self, by: int) -> Spot:
        return self._replace(x=self.x + by)

    @staticmethod
    def middle() -> Spot:
        return Spot(0, 0)

    def __str__(self) -> str:
        return f"{self.name}@{self.x},{self.y}"


def test_fields_and_defaults() -> None:
    assert Spot(1) == (1, 2, None)
    assert Spot(1, name="here")._asdict() == {"x": 1, "y": 2, "name": "here"}
    assert Spot._fields == Spot.__match_args__ == ("x", "y", "name")
    assert Spot._field_defaults == {"y": 2, "name": None}
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Spot()  # type: ignore[call-arg]


def test_methods() -> None:
    assert Spot(1, 2).moved(10).far
    assert not Spot(1, 2).far
    assert Spot.middle() == (0, 0, None)
    assert str(Spot(1, 2, "here")) == "here@1,2"
    assert repr(Spot(1)) == "Spot(x=1, y=2, name=None)"


def test_frozen_and_without_a_dictionary() -> None:
    with pytest.raises(AttributeError):
        Spot(1).x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Spot(1).z = 2  # type: ignore[attr-defined]
    assert not hasattr(Spot(1), "__dict__")


def test_the_class_is_named_and_described() -> None:
    class Inner(NamedTuple):
        """Within a function."""

        value: int

    assert Spot.__doc__ == "A place with a name."
    assert (Spot.__module__, Spot.__qualname__) == (__name__, "Spot")
    assert Inner.__qualname__ == "test_the_class_is_named_and_described.<locals>.Inner"
    assert typing.get_type_hints(Spot) == {"x": int, "y": int, "name": str | None}


def test_it_can_be_pickled() -> None:
    found = pickle.loads(pickle.dumps(Symbol("vfs_read", 4096, 16, "T")))
    assert type(found) is Symbol
    assert found.name == "vfs_read"


def test_no_module_takes_those_of_typing() -> None:
    home = Path(kprobe_sim.__file__).parent
    using = [
        path.relative_to(home).as_posix()
        for path in home.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and node.module == "typing"
        and any(n.name == "NamedTuple" for n in node.names)
    ]
    assert using == ["named_tuple.py"]
