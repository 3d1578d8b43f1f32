"""`make corpus` imports it: counts what kprobe_text.text reads right, marked, wrong or incomplete, against the truth.

A value is marked where its record says that it is a guess or not fully understood.  Silently incomplete is an event, a
stack or an argument of the truth that the records lack without saying so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kprobe_corpus.traces.entry import Entry
from kprobe_text.figures.shape import as_dict
from kprobe_text.text import Header, Parser, parse

# what isn't a value of the record
APART = ("type", "complete", "guessed", "forgeable", "ambiguous", "fields", "raw", "clock")

_NONE = object()


def answer(entry: Entry) -> list[dict[str, Any]]:
    """Give what kprobe_text.text reads of an entry, with the schema that the entry has, in the pieces of its reads."""
    if "reads" not in entry.about:
        records = parse(entry.text, entry.formats, definitions=entry.definitions)
        return [as_dict(record) for record in records if not isinstance(record, Header)]
    # the truth has no record of the line within which such a text breaks off
    text = entry.text[: entry.text.rindex(b"\n") + 1]
    parser = Parser(entry.formats, definitions=entry.definitions)
    records, at = [], 0
    for size in entry.about["reads"]:
        records += parser.feed(text[at : at + size])
        at += size
    records += parser.close()
    return [as_dict(record) for record in records if not isinstance(record, Header)]


def compared(truth: list[dict[str, Any]], read: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield what each value is, and which it is; and each record that a string could have forged, as "forgeable"."""
    yield from (("forgeable", str(record)) for record in read if record.get("forgeable"))
    unread = [record for record in read if record["type"] == "unparsed"]
    read = [record for record in read if record["type"] not in ("unparsed", "switch")]
    for number in range(max(len(truth), len(read))):
        if number >= len(read):
            yield "marked" if unread else "silent", f"{truth[number]}: not read"
        elif number >= len(truth):
            yield "wrong", f"{read[number]}: not in the truth"
        else:
            yield from _record(truth[number], read[number])


def _record(truth: Mapping[str, Any], read: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if truth["type"] != read["type"]:
        yield "wrong", f"{read}: the truth is {truth}"
        return
    settled = {name for name in truth if name not in APART}
    for name in sorted(settled):
        if name in truth.get("ambiguous", ()):
            yield "ambiguous", f"{name} of {truth}"
        elif read.get(name) == truth[name]:
            yield "right", name
        else:
            yield "wrong", f"{name} of {read}: the truth is {truth}"
    yield from _fields(truth, read)


def _fields(truth: Mapping[str, Any], read: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    said, complete = read.get("fields", {}), read.get("complete", True)
    guessed = read.get("guessed", ())
    doubted = guessed if complete else said
    for name, value in truth.get("fields", {}).items():
        if name not in truth.get("ambiguous", ()) and said.get(name, _NONE) == value and name not in guessed:
            yield "right", name
            continue
        kind = "marked" if name in doubted else "wrong"
        if name in truth.get("ambiguous", ()):
            kind = "ambiguous"
        elif name not in said:
            kind = "silent" if complete else "marked"
        yield kind, f"{name} of {read}: the truth is {truth}"
    if complete and not truth.get("complete", True):
        yield "silent", f"{read}: the kernel broke it off"
    for name in set(said) - set(truth.get("fields", {})):
        yield "marked" if name in doubted else "wrong", f"{name} of {read}: not in {truth}"


def counts(entry: Entry) -> Counter[str]:
    """Count what the values of an entry are, and the lines that weren't understood."""
    read = answer(entry)
    found = Counter(kind for kind, _ in compared(entry.truth(), read))
    found["unread"] = sum(record["type"] == "unparsed" for record in read)
    return found
