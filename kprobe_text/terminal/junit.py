"""JUnit's XML, which test services read: a suite of cases, each with its outcome.

Source: the schema of Jenkins' xUnit plugin, junit-10.xsd, which others have taken over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

PASSED, FAILED, ERROR, SKIPPED = "passed", "failure", "error", "skipped"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnitCase(NamedTuple):
    """A case: its name, its class's name, its outcome, the reason in one line, and the full text."""

    group: str
    name: str
    outcome: str = PASSED
    message: str = ""
    text: str = ""
    seconds: float = 0.0


def junit(suite: str, cases: Sequence[JUnitCase]) -> str:
    """Return the XML of one suite; characters that XML can't hold are written as \\x1b."""
    from xml.etree import ElementTree

    counts = {kind: sum(case.outcome == kind for case in cases) for kind in (FAILED, ERROR, SKIPPED)}
    totals = {"tests": str(len(cases)), "failures": str(counts[FAILED]), "errors": str(counts[ERROR])}
    time = f"{sum(case.seconds for case in cases):.3f}"
    root = ElementTree.Element("testsuites", {"name": suite, **totals, "time": time})
    top = ElementTree.SubElement(root, "testsuite", {"name": suite, **totals})
    top.attrib |= {"skipped": str(counts[SKIPPED]), "time": time}
    for case in cases:
        about = {"classname": _shown(case.group), "name": _shown(case.name), "time": f"{case.seconds:.3f}"}
        node = ElementTree.SubElement(top, "testcase", about)
        if case.outcome != PASSED:
            why = ElementTree.SubElement(node, case.outcome, {"message": _shown(case.message)})
            why.text = _shown(case.text)
            if case.outcome != SKIPPED:
                why.set("type", case.outcome)
        elif case.text:
            ElementTree.SubElement(node, "system-out").text = _shown(case.text)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _shown(text: str) -> str:
    return _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
