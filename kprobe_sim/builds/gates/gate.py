"""The declaration of a gate, and the values that the gates have on one kernel.

A gate is an attribute of its subject's class, with the type of its values:

    # a delete needs "-" as its very first byte; else blanks may precede it
    delete_is_raw: bool = since((5, 12, 0), "commit d262271d0483", Question(…))

Its value on a kernel is that of the newest version that isn't newer than the kernel.  Stable kernels carry backports,
so a version may name a point release.  The thresholds are right for the kernels that they were taken from, and a guess
for those between; an answer of the build itself beats them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from kprobe_sim.builds.gates.question import Question, Unasked
from kprobe_sim.named_tuple import NamedTuple

Version = tuple[int, int, int]
AnyValue = TypeVar("AnyValue")
AnyGates = TypeVar("AnyGates", bound="GateValues")
START: Version = (0, 0, 0)


class Gate(NamedTuple):
    """One rule that differs between kernels: (first version, value) in rising order, its source, and its question."""

    values: tuple[tuple[Version, Any], ...]
    source: str
    question: Question | Unasked

    def value(self, version: Version) -> Any:
        """Return the value on a kernel of a version that answered no question."""
        for first, value in reversed(self.values):
            if first <= version:
                return value
        raise ValueError(f"no kernel has version {version}")


def gate(first: AnyValue, later: Mapping[Version, AnyValue], source: str, question: Question | Unasked) -> AnyValue:
    """Declare a gate: its value on the oldest kernels, and others by the version that brought them."""
    return cast("AnyValue", Gate(((START, first), *later.items()), source, question))


def since(version: Version, source: str, question: Question | Unasked, *, backports: Sequence[Version] = ()) -> bool:
    """Declare a gate that is true since a version, and on older series since the backports that they took."""
    return gate(False, _switched(version, backports, to=True), source, question)


def until(version: Version, source: str, question: Question | Unasked, *, backports: Sequence[Version] = ()) -> bool:
    """Declare a gate that is true before a version, and on older series before the backports that they took."""
    return gate(True, _switched(version, backports, to=False), source, question)


def _switched(version: Version, backports: Sequence[Version], *, to: bool) -> dict[Version, bool]:
    values: dict[Version, bool] = {}
    for major, minor, patch in backports:
        values |= {(major, minor, patch): to, (major, minor + 1, 0): not to}
    return {**values, version: to}


class GateValues:
    """The values of gates on one kernel, by attribute.  They don't change, and compare and hash as a tuple would."""

    declared: ClassVar[Mapping[str, Gate]] = {}

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of a kernel doesn't change; _replace() returns the values of another kernel")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def _asdict(self) -> dict[str, Any]:
        """Return the values by name."""
        return dict(self.__dict__)

    def _replace(self, **values: Any) -> Self:
        """Return these values with some replaced.  Raises ValueError for a name that no gate has."""
        if not values.keys() <= self.__dict__.keys():
            raise ValueError(f"there is no gate {', '.join(values.keys() - self.__dict__.keys())}")
        replaced = type(self)()
        replaced.__dict__.update(self.__dict__)
        replaced.__dict__.update(values)
        return replaced


def record(subject: type[AnyGates]) -> type[AnyGates]:
    """Return the class of the values of all gates that a class and its bases declare.

    It doesn't have the declarations as attributes, as that would make the values slower to read.
    """
    declared = {
        name: gate for part in (*subject.__bases__, subject) for name, gate in vars(part).items() if type(gate) is Gate
    }
    body = {"__doc__": subject.__doc__, "__module__": subject.__module__, "declared": declared}
    return cast("type[AnyGates]", type(subject.__name__, (GateValues,), body))
