"""The findings of a search for texts that fool a parser, for people and as JSON."""

from __future__ import annotations

import json

from kprobe_corpus.breaking.case import toml
from kprobe_corpus.parsers.tables import shown, table
from kprobe_corpus.parsers.tally import example

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kprobe_corpus.breaking.search import Broken, Confirmation, Search

HEADS = ("rule", "broken by", "lines", "bytes", "seconds")


def text(search: Search) -> str:
    """Return the rules that were broken, and the shortest scenario with its text, its truth and the answer."""
    head = (
        f"{_count(len(search.broken_rules), 'rule')} of {len(search.tried)} broken: "
        f"{_count(search.texts, 'text')} in {search.seconds:.1f} s\n"
    )
    if search.untried:
        why = "because the parser misreads even the plainest text" if search.fails_plainest else "because time ran out"
        head += f"not tried, {why}: {', '.join(rule.name for rule in search.untried)}\n"
    shortest = search.shortest
    if shortest is None:
        return head
    return rules_table(search) + head + "\n" + in_full(shortest)


def rules_table(search: Search, *, markdown: bool = False) -> str:
    """Return the broken rules, each with the shortest scenario that breaks it."""
    rows = [[*HEADS]]
    for broken in search.broken:
        _, lines, size = broken.length
        says = "; ".join(rule.says for rule in broken.rules)
        rows.append([says, _what(broken), str(lines), str(size), f"{broken.seconds:.1f}"])
    return table(rows, markdown=markdown, left=2)


def _what(broken: Broken) -> str:
    """Say briefly what isn't plain in the case."""
    is_kernel = any(rule.name == "kernel" for rule in broken.rules)
    changed = {key: value for key, value in broken.case.changes().items() if is_kernel or key != "kernel"}
    report = ", ".join(f"{key}={_short(value)}" for key, value in changed.items())
    return report if len(report) <= 60 else report[:59] + "…"


def _short(value: object) -> str:
    if isinstance(value, bytes):
        return json.dumps(value.decode("utf-8", "surrogateescape"))
    if isinstance(value, tuple):
        return "+".join(_short(part) for part in value)
    words = str(value)
    return words if words.isprintable() else json.dumps(words)


def in_full(broken: Broken) -> str:
    """Return a scenario with the rules that it breaks, as TOML, its text, its truth and the answer."""
    case, result = broken.case, broken.result
    answer = "".join(_json(record) + "\n" for record in result.answer) or "nothing\n"
    blocks = [
        "".join(f"{rule.says}{': ' + rule.why if rule.why else ''}\n" for rule in broken.rules),
        f"the scenario (kernel {case.kernel}):\n{_indented(toml(case.scenario()))}",
        f"the text:\n{_indented(result.entry.text.decode('utf-8', 'backslashreplace'))}",
        f"the truth:\n{_indented(result.entry.truth_lines.decode('utf-8', 'backslashreplace'))}",
        f"the answer:\n{_indented(answer)}",
        shown(example(result)),
    ]
    return "\n".join(blocks)


def confirmed(confirmation: Confirmation) -> str:
    """Say whether a guest's text of a scenario fools the parser, too."""
    if confirmation.result is None:
        return f"not confirmed on {confirmation.spec}: {confirmation.words}\n"
    if confirmation.result.is_well:
        return f"not confirmed: the parser reads the text of {confirmation.spec} correctly\n"
    text = _indented(confirmation.result.entry.text.decode("utf-8", "backslashreplace"))
    return f"confirmed on {confirmation.spec}, whose text is:\n{text}\n{shown(example(confirmation.result))}"


def as_dict(search: Search, confirmation: Confirmation | None) -> dict[str, Any]:
    """Return a search as JSON."""
    report: dict[str, Any] = {
        "tried": [rule.name for rule in search.tried],
        "untried": [rule.name for rule in search.untried],
        "texts": search.texts,
        "seconds": round(search.seconds, 3),
        "broken": [_as_dict(broken) for broken in sorted(search.broken, key=lambda broken: broken.length)],
    }
    if confirmation is not None:
        result = confirmation.result
        report["confirmation"] = {
            "spec": confirmation.spec,
            "is_confirmed": result is not None and not result.is_well,
            "words": confirmation.words,
            "text": "" if result is None else result.entry.text.decode("utf-8", "surrogateescape"),
        }
    return report


def _as_dict(broken: Broken) -> dict[str, Any]:
    return {
        "rules": [{"name": rule.name, "says": rule.says, "why": rule.why} for rule in broken.rules],
        "seconds": round(broken.seconds, 3),
        "what": _what(broken),
        "kernel": broken.case.kernel,
        "options": list(broken.case.options),
        "clock": broken.case.clock,
        "scenario": broken.case.scenario(),
        "toml": toml(broken.case.scenario()),
        "text": broken.result.entry.text.decode("utf-8", "surrogateescape"),
        "truth": broken.result.entry.truth(),
        "answer": broken.result.answer,
        "ended": broken.result.words,
    }


def _indented(text_: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in text_.removesuffix("\n").split("\n"))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
