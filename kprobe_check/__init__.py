"""Definitions, filters and triggers tried on every kernel that can be opened: `kprobe check`.

    from kprobe_check import check
    report = check(["p:myopen do_sys_open file=+0(%si):string"], "5.10,6.1,6.12")
    for finding in report.findings: print(finding.state, finding.suggestion)

Start with `checking`; `statements` says what can be asked, `answers` how, `meanings` when kernels differ.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe_check.answers import Answer
    from kprobe_check.checking import Finding, NoKernel, Report, Verdict, check
    from kprobe_check.sources import BadSource, statements
    from kprobe_check.statement import Position, Statement
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

_HOMES = {
    "kprobe_check.answers": ("Answer",),
    "kprobe_check.checking": ("Finding", "NoKernel", "Report", "Verdict", "check"),
    "kprobe_check.sources": ("BadSource", "statements"),
    "kprobe_check.statement": ("Position", "Statement"),
    "kprobe_check.suggestions": ("Suggestion",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # type checkers would learn that every name is there

    def __getattr__(name: str) -> object:
        """Import a name when it is first used: `kprobe --help` reads the verb, and nothing else of this package."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value
