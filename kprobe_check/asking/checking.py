"""Statements tried on kernels: each kernel's answer, and what to write instead where one refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kprobe.errors import KprobeError
from kprobe.tracefs.backends import open_tracefs
from kprobe.tracefs.capabilities import Capabilities
from kprobe.tracefs.kernels import ALL, Kernel, chosen
from kprobe.undo.owners import this_process
from kprobe_check.asking import meanings
from kprobe_check.asking.asked_kernel import Answer, AskedKernel
from kprobe_check.asking.suggestions import Suggestion, Trial
from kprobe_check.sources import lists
from kprobe_check.sources.openings import KEEPS
from kprobe_check.statement import Position, Statement, linked

TAKEN, DIFFERS, REFUSED, UNASKED = "taken", "differs", "refused", "unasked"


class NoKernel(KprobeError):
    """A kernel can't be opened; `spec` names it."""

    def __init__(self, spec: str, because: str) -> None:
        super().__init__(f"{spec}: {because}")
        self.spec = spec


class Verdict(NamedTuple):
    """A kernel's verdict on a statement: taken, differs, refused or unasked; its answer, and how it differs."""

    kernel: Kernel
    state: str
    answer: Answer
    because: tuple[str, ...] = ()


class Finding(NamedTuple):
    """A statement with every kernel's verdict, in the order of the kernels, and a replacement that all take."""

    statement: Statement
    verdicts: tuple[Verdict, ...]
    suggestion: Suggestion | None = None

    @property
    def state(self) -> str:
        """Return the gravest of the verdicts' states: refused, differs, unasked, taken."""
        states = {verdict.state for verdict in self.verdicts}
        return next((state for state in (REFUSED, DIFFERS, UNASKED) if state in states), TAKEN)


class Report(NamedTuple):
    """All findings, and the kernels that were asked."""

    kernels: tuple[Kernel, ...]
    findings: tuple[Finding, ...]

    @property
    def is_refused(self) -> bool:
        """Return whether any kernel refuses any statement."""
        return any(finding.state == REFUSED for finding in self.findings)


def check(
    definitions: Iterable[str | Statement], kernels: str | Iterable[Kernel] = ALL, *, suggest: bool = True
) -> Report:
    """Ask kernels about definitions, filters and triggers, and return each one's verdict on each.

    A text is a line of a list (see `lists`); statements come from `sources.statements`.  Kernels are words as
    `kprobe.tracefs.kernels.chosen` takes them, or values of that module, and should be in order of age.  With
    `suggest`, a statement that isn't taken everywhere as intended gets, if there is one, a text that all take.

    Raise `UnknownKernel`, `NoKernel`, and `KprobeError` where a kernel doesn't permit it.
    """
    asked = tuple(chosen(kernels) if isinstance(kernels, str) else kernels)
    statements = _statements(definitions)
    opened: list[tuple[AskedKernel, Callable[[], None]]] = []
    try:
        for kernel in asked:
            opened.append(_open(kernel))
        each = [one for one, _ in opened]
        trial = Trial(each) if suggest else None
        return Report(asked, tuple(_finding(statement, asked, each, trial) for statement in statements))
    finally:
        _close(opened)


def _statements(definitions: Iterable[str | Statement]) -> list[Statement]:
    found: list[Statement] = []
    texts: list[Statement] = []
    for one in definitions:
        if isinstance(one, str):
            said = lists.statement(one, Position())
            texts += [] if said is None else [said]
        else:
            found.append(one)
    return [*found, *linked(texts)]


def _open(kernel: Kernel) -> tuple[AskedKernel, Callable[[], None]]:
    try:
        tracefs = open_tracefs(kernel.spec)
        close = Capabilities(tracefs).close
        try:
            return AskedKernel(tracefs, this_process()), close
        except BaseException:
            close()
            raise
    except Exception as error:  # the backend's error: no such profile, a guest that doesn't boot
        raise NoKernel(kernel.spec, str(error)) from error


def _close(opened: Sequence[tuple[AskedKernel, Callable[[], None]]]) -> None:
    """Remove what was added to each kernel, and close them all, even if one fails."""
    failed: BaseException | None = None
    for asked, close in opened:
        for step in (asked.close, close):
            try:
                step()
            except Exception as error:
                failed = failed or error
    if failed is not None:
        raise failed


def _finding(
    statement: Statement, kernels: Sequence[Kernel], asked: Sequence[AskedKernel], trial: Trial | None
) -> Finding:
    answers = [one.ask(statement) for one in asked]
    others = meanings.differences(answers)
    moved = meanings.moved(statement, asked)
    verdicts = tuple(
        _verdict(kernel, answer, (*other, *at, *meanings.remarks(statement, one)) if answer.is_taken else ())
        for kernel, one, answer, other, at in zip(kernels, asked, answers, others, moved, strict=True)
    )
    finding = Finding(statement, verdicts)
    if statement.instead:
        return finding._replace(suggestion=Suggestion(statement.instead, KEEPS))
    if trial is None or finding.state == UNASKED:
        return finding
    if finding.state == TAKEN:
        return finding._replace(suggestion=trial.advice(statement))
    return finding._replace(suggestion=trial.suggestion(statement, answers))


def _verdict(kernel: Kernel, answer: Answer, because: tuple[str, ...]) -> Verdict:
    if answer.unasked:
        return Verdict(kernel, UNASKED, answer)
    if answer.errno:
        return Verdict(kernel, REFUSED, answer)
    return Verdict(kernel, DIFFERS if because else TAKEN, answer, because)
