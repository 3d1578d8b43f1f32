"""The gates: complete, in order, and telling the known builds apart."""

from __future__ import annotations

import ast
import errno
from pathlib import Path

import pytest

from kprobe_sim.builds import gates
from kprobe_sim.builds.gates import GATES, FilterGates, Gate, Gates, filter_gates, gates_for
from kprobe_sim.builds.gates.gate import gate, since, until
from kprobe_sim.builds.gates.question import TOO_OLD, Question
from kprobe_sim.builds.profile import available, load

SUBJECTS = sorted(Path(gates.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("name", GATES)
def test_a_gate_has_a_source_and_its_question_or_why_it_has_none(name: str) -> None:
    declared = GATES[name]
    assert declared.source
    assert declared.question.steps if isinstance(declared.question, Question) else declared.question.reason
    versions = [version for version, _ in declared.values]
    assert versions == sorted(set(versions))
    assert versions[0] == (0, 0, 0)


def test_the_subjects_are_the_only_place_of_gates() -> None:
    """Each declaration in them is a gate, no name is declared twice, and the values have no others."""
    declared = [
        node.target.id
        for path in SUBJECTS
        for subject in ast.parse(path.read_text("utf-8")).body
        if isinstance(subject, ast.ClassDef) and subject.name.endswith("Gates")
        for node in subject.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    assert sorted(declared) == sorted(GATES)
    assert {*gates_for((6, 1, 190))._asdict()} == {*Gates.declared}
    assert {*filter_gates((6, 1, 190))._asdict()} == {*FilterGates.declared}
    assert {**Gates.declared, **FilterGates.declared} == GATES


def test_only_what_changed_before_6_0_is_too_old_to_be_asked() -> None:
    newest = {name: declared.values[-1][0] for name, declared in GATES.items() if declared.question is TOO_OLD}
    assert {name: version for name, version in newest.items() if version >= (6, 0, 0)} == {}


def test_forms_of_declarations() -> None:
    def values(declared: object) -> object:
        assert isinstance(declared, Gate)
        return declared.values

    start = (0, 0, 0)
    assert values(gate(63, {(7, 3, 0): 255}, "", TOO_OLD)) == ((start, 63), ((7, 3, 0), 255))
    assert values(until((6, 16, 0), "", TOO_OLD)) == ((start, True), ((6, 16, 0), False))
    ported = since((5, 17, 0), "", TOO_OLD, backports=((5, 10, 3),))
    assert values(ported) == ((start, False), ((5, 10, 3), True), ((5, 11, 0), False), ((5, 17, 0), True))


def test_values_dont_change() -> None:
    values = filter_gates((6, 1, 190))
    with pytest.raises(AttributeError, match="ustring"):
        values.ustring = False
    assert values._replace(ustring=False) != values
    assert values._replace(ustring=False)._replace(ustring=True) == values
    assert hash(values._replace(ustring=True)) == hash(values)
    assert repr(values).startswith("FilterGates(ustring=True, function=False, ")
    with pytest.raises(ValueError, match="nosuch"):
        values._replace(nosuch=1)


BUILDS = [
    ((5, 10, 262), errno.ENOENT, False, "MAXACT_NO_KPROBE", 63),
    ((6, 1, 20), errno.ENOENT, False, "MAXACT_NO_KPROBE", 63),
    ((6, 1, 190), errno.ENOENT, True, "MAXACT_NO_KPROBE", 63),
    ((6, 12, 117), errno.EINVAL, True, "BAD_MAXACT_TYPE", 63),
    ((7, 2, 13), errno.EINVAL, True, "BAD_MAXACT_TYPE", 63),
    ((7, 3, 0), errno.EINVAL, True, "BAD_MAXACT_TYPE", 255),
    ((7, 3, 4), errno.EINVAL, True, "BAD_MAXACT_TYPE", 255),
]


def test_every_profile_is_among_the_builds() -> None:
    assert {load(release).number for release in available()} - {version for version, *_ in BUILDS} == set()


@pytest.mark.parametrize(("version", "unknown", "symstr", "maxactive", "size"), BUILDS)
def test_builds(version: tuple[int, int, int], unknown: int, symstr: bool, maxactive: str, size: int) -> None:
    gates = gates_for(version)
    assert gates.unknown_symbol_errno == unknown
    assert gates.symstr is symstr
    assert gates.maxactive_on_probe == maxactive
    assert gates.argument_size == size
