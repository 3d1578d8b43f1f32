"""A report as text, as a Markdown table, as JSON, as JUnit's XML, and as annotations for GitHub."""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from typing import Any

from kprobe.errors import caret
from kprobe_check.asking.checking import DIFFERS, REFUSED, TAKEN, UNASKED, Finding, Report, Verdict
from kprobe_text.terminal.annotations import annotation
from kprobe_text.terminal.junit import FAILED, SKIPPED, JUnitCase, junit

HEADS = {REFUSED: "refused by", DIFFERS: "means something else on", UNASKED: "not asked of", TAKEN: "taken by"}
_MARKS = {TAKEN: "✓", DIFFERS: "≠", UNASKED: "–"}
_LEVELS = {REFUSED: "error", DIFFERS: "warning", UNASKED: "notice"}


def text(report: Report) -> str:
    """Return the report for people: each statement, which kernels take it or not and why, and what to write instead."""
    blocks = [f"{_head(finding)}\n{explained(finding)}\n" for finding in report.findings]
    return "".join(blocks) + summary(report) + "\n"


def summary(report: Report) -> str:
    """Return in one line the numbers of statements taken and not taken."""
    states = [finding.state for finding in report.findings]
    counts = {
        "taken by all": states.count(TAKEN),
        "meaning something else somewhere": states.count(DIFFERS),
        "refused": states.count(REFUSED),
        "not asked": states.count(UNASKED),
    }
    said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{_count(len(states), 'statement')} on {_count(len(report.kernels), 'kernel')}: {said or 'nothing to ask'}"


def explained(finding: Finding, indent: str = "  ") -> str:
    """Return the kernels' verdicts on a statement, equal ones together, without a newline at the end."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in finding.verdicts:
        groups.setdefault(_agreement(verdict), []).append(verdict)
    names = [verdict.kernel.name for verdict in finding.verdicts]
    lines = [line for group in groups.values() for line in _explained(group, names)]
    if finding.suggestion is not None:
        lines += [f"instead: {finding.suggestion.text}", f"         {finding.suggestion.because}"]
    return "\n".join(indent + line for line in lines)


def _agreement(verdict: Verdict) -> tuple[object, ...]:
    answer = verdict.answer
    said = (answer.errno, answer.says, answer.source, answer.shown, answer.column, answer.unasked)
    return (verdict.state, verdict.because, said)


def _explained(group: Sequence[Verdict], names: Sequence[str]) -> list[str]:
    first = group[0]
    head = f"{HEADS[first.state]} {_named([verdict.kernel.name for verdict in group], names)}"
    if first.state == TAKEN:
        return [head]
    if first.state != REFUSED:
        return [f"{head}: {'; '.join(first.because) or first.answer.unasked}"]
    answer = first.answer
    lines = [f"{head}: {message(first)}"]
    if answer.column is not None:
        lines += [f"    {line}" for line in caret(answer.shown, answer.column, "").split("\n")]
    return lines


def message(verdict: Verdict) -> str:
    """Return the errno of a refusal by its name, and the kernel's words."""
    answer = verdict.answer
    name = errno.errorcode.get(answer.errno, str(answer.errno))
    said = f"{answer.source}: error: {answer.says}" if answer.source else answer.says
    return f"{name}, {said}" if said else f"{name}, and the kernel gives no reason"


def _named(group: Sequence[str], names: Sequence[str]) -> str:
    """Return kernels by their names: "all 13", and "6.12 to 7.3" for three or more in a row."""
    if len(group) == len(names):
        return f"all {len(names)}" if len(names) > 1 else names[0]
    runs: list[list[str]] = []
    for name in group:
        if runs and names.index(runs[-1][-1]) + 1 == names.index(name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _head(finding: Finding) -> str:
    statement = finding.statement
    where = f"{statement.position}: " if statement.position.source else ""
    return f"{where}{titled(finding)}"


def titled(finding: Finding) -> str:
    """Return a statement's text; for a filter or trigger, after its event."""
    statement = finding.statement
    if "/" not in statement.file:
        return f"{statement.kind}: {statement.text}" if statement.file == statement.kind else statement.text
    _, group, event, kind = statement.file.split("/")
    return f"{group}/{event} {kind}: {statement.text}"


# ------------------------------------------------------------------------------------------------ for programs


def as_json(report: Report) -> str:
    """Return the report as JSON: every statement's full verdict on every kernel."""
    kernels = [
        {"name": one.name, "spec": one.spec, "release": one.release, "series": one.series} for one in report.kernels
    ]
    statements = [_statement(finding) for finding in report.findings]
    said = {"kernels": kernels, "refused": report.is_refused, "statements": statements}
    return json.dumps(said, indent=1, ensure_ascii=False).encode(errors="backslashreplace").decode() + "\n"


def _statement(finding: Finding) -> dict[str, Any]:
    statement, suggestion = finding.statement, finding.suggestion
    return {
        "source": statement.position.source,
        "line": statement.position.line,
        "column": statement.position.column,
        "kind": statement.kind,
        "text": statement.text,
        "file": statement.file,
        "needs": [need.text for need in statement.needs],
        "state": finding.state,
        "verdicts": [_verdict(verdict) for verdict in finding.verdicts],
        "suggestion": suggestion and {"text": suggestion.text, "because": suggestion.because},
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    answer = verdict.answer
    said: dict[str, Any] = {"kernel": verdict.kernel.name, "state": verdict.state}
    if verdict.because:
        said["because"] = list(verdict.because)
    if answer.unasked:
        said["because"] = [answer.unasked]
    if answer.event:
        said["event"] = answer.event
    if answer.errno:
        said |= {"errno": errno.errorcode.get(answer.errno, str(answer.errno)), "message": answer.says}
        said |= {"source": answer.source, "shown": answer.shown, "column": answer.column}
    return said


def github(report: Report) -> str:
    """Return the workflow commands that annotate the lines in a pull request; the summary comes last."""
    lines = []
    for finding in report.findings:
        if finding.state == TAKEN:
            continue
        position = finding.statement.position
        place = {"file": position.source, "line": position.line, "col": position.column} if position.line else {}
        lines.append(annotation(_LEVELS[finding.state], f"{titled(finding)}\n{explained(finding, '')}", place))
    return "".join(lines) + summary(report) + "\n"


def as_junit(report: Report) -> str:
    """Return JUnit's XML: a case for each statement on each kernel, which fails if the kernel refuses it."""
    return junit("kprobe check", [_case(finding, one) for finding in report.findings for one in finding.verdicts])


def _case(finding: Finding, verdict: Verdict) -> JUnitCase:
    name, kernel = _head(finding), verdict.kernel.name
    if verdict.state == REFUSED:
        return JUnitCase(kernel, name, FAILED, message(verdict), explained(finding, ""))
    if verdict.state == UNASKED:
        return JUnitCase(kernel, name, SKIPPED, verdict.answer.unasked)
    return JUnitCase(kernel, name, text="\n".join(verdict.because))


def markdown(report: Report) -> str:
    """Return a table: a row for each statement, a column for each kernel, and the details below."""
    head = ["statement", *(kernel.name for kernel in report.kernels), "instead"]
    rows = [head, ["---"] * len(head)]
    for finding in report.findings:
        marks = [_mark(verdict) for verdict in finding.verdicts]
        instead = code(finding.suggestion.text) if finding.suggestion else ""
        rows.append([code(titled(finding)), *marks, instead])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _mark(verdict: Verdict) -> str:
    if verdict.state == REFUSED:
        return errno.errorcode.get(verdict.answer.errno, str(verdict.answer.errno))
    return _MARKS[verdict.state]


def code(value: str) -> str:
    """Return text as code in a cell of a table."""
    return f"`{value.replace('|', chr(92) + '|')}`"
