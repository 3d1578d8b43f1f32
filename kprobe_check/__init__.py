"""Definitions, filters and triggers tried on every kernel that can be opened: `kprobe check`.

    from kprobe_check import check
    report = check(["p:myopen do_sys_open file=+0(%si):string"], "5.10,6.1,6.12")
    for finding in report.findings: print(finding.state, finding.suggestion)

Start with `checking`; `statements` says what can be asked, `answers` how, `meanings` when kernels differ.
"""

from __future__ import annotations

from kprobe_check.answers import Answer
from kprobe_check.checking import Finding, NoKernel, Report, Verdict, check
from kprobe_check.sources import BadSource, statements
from kprobe_check.statements import Position, Statement
from kprobe_check.suggestions import Suggestion

__all__ = [
    "Answer",
    "BadSource",
    "Finding",
    "NoKernel",
    "Position",
    "Report",
    "Statement",
    "Suggestion",
    "Verdict",
    "check",
    "statements",
]
