"""A report in SARIF 2.1.0, the format that code scanning of GitHub, GitLab and editors reads.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from kprobe_check.asking.checking import DIFFERS, REFUSED, TAKEN, UNASKED, Finding, Report
from kprobe_check.output.formats import explained, titled

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_RULES = {
    REFUSED: ("error", "A kernel refuses it."),
    DIFFERS: ("warning", "A kernel takes it for something else than others do, or than it says."),
    UNASKED: ("note", "It can't be asked."),
}


def as_sarif(report: Report, version: str) -> str:
    """Return the report as a SARIF log with one run; `version` is this program's."""
    rules = [
        {"id": state, "shortDescription": {"text": words}, "defaultConfiguration": {"level": level}}
        for state, (level, words) in _RULES.items()
    ]
    results = [_result(finding) for finding in report.findings if finding.state != TAKEN]
    driver = {"name": "kprobe check", "version": version, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, ensure_ascii=False).encode(errors="backslashreplace").decode() + "\n"


def _result(finding: Finding) -> dict[str, Any]:
    position = finding.statement.position
    said: dict[str, Any] = {
        "ruleId": finding.state,
        "level": _RULES[finding.state][0],
        "message": {"text": f"{titled(finding)}\n{explained(finding)}"},
        "properties": {"kernels": {verdict.kernel.name: verdict.state for verdict in finding.verdicts}},
    }
    if position.line:
        region = {"startLine": position.line, "startColumn": position.column}
        place = {"artifactLocation": {"uri": quote(position.source, errors="surrogateescape")}, "region": region}
        said["locations"] = [{"physicalLocation": place}]
    return said
