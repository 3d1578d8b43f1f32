"""The report of an examination, as text and as JSON lines."""

from __future__ import annotations

from kprobe.doctor.diagnosis import STOPS, Diagnosis
from kprobe.doctor.examination import Examination


def text(examination: Examination) -> str:
    """Return it as text: each finding with its facts and its remedy; then what couldn't be examined."""
    lines = [line for finding in examination.findings for line in _lines(finding)]
    return "".join(f"{line}\n" for line in (*lines, *_summary(examination)))


def json_lines(examination: Examination) -> str:
    """Return an object a line for each finding."""
    import json

    objects = (
        {
            "level": finding.level,
            "check": finding.check,
            "what": finding.what,
            "facts": [{"source": fact.source, "says": fact.says} for fact in finding.facts],
            "helps": finding.helps or None,
        }
        for finding in examination.findings
    )
    return "".join(json.dumps(each) + "\n" for each in objects)


def _lines(finding: Diagnosis) -> list[str]:
    head = "STOPS" if finding.level == STOPS else "NOTE"
    lines = [f"{head}: {finding.what}", *(f"  fact: {fact}" for fact in finding.facts)]
    return [*lines, f"  help: {finding.helps}"] if finding.helps else lines


def _summary(examination: Examination) -> list[str]:
    lines = []
    if not examination.stops:
        names = [str(probe.place) for probe in examination.probes]
        of = f" of {', '.join(dict.fromkeys(names))}" if names else ""
        more = ", but see the notes" if examination.findings else ""
        lines.append(f"Nothing was found that stops tracing{of}{more}.")
    return [*lines, *(f"Not known here: {each}." for each in examination.unknown)]
