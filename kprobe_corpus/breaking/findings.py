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


def text(found: Search) -> str:
    """Return the rules that were broken, and the shortest scenario with its text, its truth and the answer."""
    head = (
        f"{_count(len(found.broken_rules), 'rule')} of {len(found.tried)} broken: "
        f"{_count(found.texts, 'text')} in {found.seconds:.1f} s\n"
    )
    if found.untried:
        why = "as the parser misreads the plainest text" if found.fails_plainest else "as the time was up"
        head += f"not tried, {why}: {', '.join(rule.name for rule in found.untried)}\n"
    shortest = found.shortest
    if shortest is None:
        return head
    return rules_table(found) + head + "\n" + in_full(shortest)


def rules_table(found: Search, *, markdown: bool = False) -> str:
    """Return the broken rules, each with the shortest scenario that breaks it."""
    rows = [[*HEADS]]
    for one in found.found:
        _, lines, size = one.length
        says = "; ".join(rule.says for rule in one.rules)
        rows.append([says, _what(one), str(lines), str(size), f"{one.seconds:.1f}"])
    return table(rows, markdown=markdown, left=2)


def _what(one: Broken) -> str:
    """Say what of the case isn't plain, as short as it can be."""
    is_kernel = any(rule.name == "kernel" for rule in one.rules)
    changed = {key: value for key, value in one.case.changes().items() if is_kernel or key != "kernel"}
    said = ", ".join(f"{key}={_short(value)}" for key, value in changed.items())
    return said if len(said) <= 60 else said[:59] + "…"


def _short(value: object) -> str:
    if isinstance(value, bytes):
        return json.dumps(value.decode("utf-8", "surrogateescape"))
    if isinstance(value, tuple):
        return "+".join(_short(part) for part in value)
    words = str(value)
    return words if words.isprintable() else json.dumps(words)


def in_full(one: Broken) -> str:
    """Return a scenario with the rules that it breaks, as TOML, its text, its truth and the answer."""
    case, result = one.case, one.result
    answer = "".join(_json(record) + "\n" for record in result.answer) or "nothing\n"
    blocks = [
        "".join(f"{rule.says}{': ' + rule.why if rule.why else ''}\n" for rule in one.rules),
        f"the scenario (kernel {case.kernel}):\n{_indented(toml(case.scenario()))}",
        f"the text:\n{_indented(result.entry.text.decode('utf-8', 'backslashreplace'))}",
        f"the truth:\n{_indented(result.entry.truth_lines.decode('utf-8', 'backslashreplace'))}",
        f"the answer:\n{_indented(answer)}",
        shown(example(result)),
    ]
    return "\n".join(blocks)


def confirmed(found: Confirmation) -> str:
    """Say whether a guest's text of a scenario fools the parser, too."""
    if found.result is None:
        return f"not confirmed on {found.spec}: {found.words}\n"
    if found.result.is_well:
        return f"not confirmed: the parser reads the text of {found.spec} rightly\n"
    text = _indented(found.result.entry.text.decode("utf-8", "backslashreplace"))
    return f"confirmed on {found.spec}, whose text is:\n{text}\n{shown(example(found.result))}"


def as_dict(found: Search, confirmation: Confirmation | None) -> dict[str, Any]:
    """Give a search as JSON has it."""
    said: dict[str, Any] = {
        "tried": [rule.name for rule in found.tried],
        "untried": [rule.name for rule in found.untried],
        "texts": found.texts,
        "seconds": round(found.seconds, 3),
        "broken": [_as_dict(one) for one in sorted(found.found, key=lambda one: one.length)],
    }
    if confirmation is not None:
        result = confirmation.result
        said["confirmation"] = {
            "spec": confirmation.spec,
            "is_confirmed": result is not None and not result.is_well,
            "words": confirmation.words,
            "text": "" if result is None else result.entry.text.decode("utf-8", "surrogateescape"),
        }
    return said


def _as_dict(one: Broken) -> dict[str, Any]:
    return {
        "rules": [{"name": rule.name, "says": rule.says, "why": rule.why} for rule in one.rules],
        "seconds": round(one.seconds, 3),
        "what": _what(one),
        "kernel": one.case.kernel,
        "options": list(one.case.options),
        "clock": one.case.clock,
        "scenario": one.case.scenario(),
        "toml": toml(one.case.scenario()),
        "text": one.result.entry.text.decode("utf-8", "surrogateescape"),
        "truth": one.result.entry.truth(),
        "answer": one.result.answer,
        "ended": one.result.words,
    }


def _indented(text_: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in text_.removesuffix("\n").split("\n"))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
