"""The tables of refusals: complete, without a row that nothing raises, and with the kernel's errnos and texts."""

from __future__ import annotations

import ast
import errno
import re
from enum import Enum
from pathlib import Path

import pytest

import kprobe_sim
from kprobe_sim.builds.gates import gates_for
from kprobe_sim.builds.messages import REFUSALS, answer
from kprobe_sim.events.hist.fault import HistFault
from kprobe_sim.language.filters.errors import Fault

_PACKAGE = Path(kprobe_sim.__file__).parent
_ID = re.compile("[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")


def test_the_table_has_what_is_raised_and_nothing_else() -> None:
    """What reads definitions, and the gates that choose between refusals, have no other words in capitals."""
    raised = set()
    for source in (
        *_PACKAGE.glob("language/fetch/*.py"),
        *_PACKAGE.glob("probes/*.py"),
        _PACKAGE / "builds" / "gates" / "arguments.py",
        _PACKAGE / "builds" / "gates" / "definitions.py",
    ):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _ID.fullmatch(node.value):
                raised.add(node.value)
    assert raised == set(REFUSALS)


OLD, RECENT, NEW = (5, 10, 262), (6, 12, 117), (7, 3, 4)


@pytest.mark.parametrize(
    ("message", "version", "number", "text"),
    [
        ("BAD_REG_NAME", OLD, errno.EINVAL, "Invalid register name"),
        ("DIFF_ARG_TYPE", OLD, errno.EEXIST, "Argument type or name is different from existing probe"),
        ("BAD_INSN_BNDRY", OLD, errno.EILSEQ, "Probe point is not an instruction boundary"),
        ("BAD_PROBE_ADDR", OLD, errno.EINVAL, "Invalid probed address or symbol"),
        ("BAD_PROBE_ADDR_SYMBOL", OLD, errno.ENOENT, "Invalid probed address or symbol"),
        ("BAD_PROBE_ADDR_SYMBOL", RECENT, errno.EINVAL, "Invalid probed address or symbol"),
        ("NON_UNIQ_SYMBOL", OLD, errno.EADDRNOTAVAIL, "The symbol is not unique"),
        ("NON_UNIQ_SYMBOL", NEW, errno.EINVAL, "The symbol is not unique"),
        ("ARG_TOO_LONG", OLD, errno.EINVAL, "Argument expression is too long"),
        ("ARG_TOO_LONG", RECENT, errno.E2BIG, "Argument expression is too long"),
        ("BAD_VAR_RANGE", RECENT, errno.EINVAL, "Invalid $-variable specified"),
        ("BAD_VAR_RANGE", NEW, errno.ERANGE, "Invalid $-variable specified"),
        ("FILE_ON_KPROBE", (7, 2, 13), errno.EINVAL, "File offset is not available with kprobe"),
        ("FILE_ON_KPROBE", NEW, errno.EINVAL, "File offset is not available for kernel probes"),
        ("TOO_MANY_ARGS_UNLOGGED", RECENT, errno.E2BIG, None),
        ("EVENT_EXISTS", RECENT, errno.EEXIST, "Event already exists"),
    ],
)
def test_answers(message: str, version: tuple[int, int, int], number: int, text: str | None) -> None:
    assert answer(message, gates_for(version)) == (number, text)


def test_the_errno_of_what_failed_is_handed_on() -> None:
    assert answer("BAD_IMM", gates_for(NEW), errno.ERANGE) == (errno.ERANGE, "Invalid immediate value")


@pytest.mark.parametrize(("layer", "faults"), [("language/filters", Fault), ("events/hist", HistFault)])
def test_each_fault_is_found_somewhere(layer: str, faults: type[Enum]) -> None:
    found = set()
    for source in (_PACKAGE / layer).glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == faults.__name__
            ):
                found.add(node.attr)
    assert found == set(faults.__members__)


@pytest.mark.parametrize(
    ("fault", "number", "text"),
    [
        (Fault.FIELD_NOT_FOUND, errno.EINVAL, "Field not found"),
        (Fault.TOO_MANY_CLOSE, errno.EPERM, "Too few '('"),
        (Fault.TOO_MANY_OPEN, errno.ENOENT, "Too many '('"),
        (Fault.MISSING_QUOTE_EARLY, errno.ESRCH, "Missing matching quote"),
        (Fault.NO_FIELD, errno.EPERM, None),
        (HistFault.BAD_FIELD_MODIFIER, errno.EINVAL, "Invalid field modifier"),
        (HistFault.TRIGGER_EEXIST, errno.EEXIST, "Hist trigger already exists"),
        (HistFault.TRIGGER_ENOENT_CLEAR, errno.ENOENT, "Can't clear or continue a nonexistent hist trigger"),
        (HistFault.DIVISION_BY_ZERO, errno.EDOM, "Division by zero"),
        (HistFault.SET_CLOCK_FAIL, None, "Couldn't set trace_clock"),
    ],
)
def test_faults(fault: Fault | HistFault, number: int | None, text: str | None) -> None:
    assert (fault.errno, fault.text) == (number, text)
