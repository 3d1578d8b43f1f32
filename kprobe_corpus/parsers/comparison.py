"""An answer compared with the truth, record by record."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from kprobe_corpus.parsers.alignment import align
from kprobe_corpus.parsers.answers import EVENT, NO_RECORD, UNPARSED, Record

RIGHT, MARKED, MISSING, INVENTED, WRONG = "right", "marked", "missing", "invented", "wrong"
KINDS = (RIGHT, WRONG, MISSING, INVENTED, MARKED)  # the kinds of an answer's records, as shown
FAULTS = (WRONG, INVENTED, MISSING)  # a parser's errors, worst first
_SWITCH = "switch"  # in function_graph's text, not in the ring buffer, so in no truth
# Keys that aren't compared: marks, bytes, positions
_UNCOMPARED = ("type", "ambiguous", "complete", "guessed", "forgeable", "raw", "line", "fields")


class Misreading(NamedTuple):
    """A difference between answer and truth; `key` is "fields.s" for an argument, "" for the whole record."""

    kind: str
    key: str
    expected: object
    said: object


class Judgement(NamedTuple):
    """A record of the truth, its answer, and what was misread; `number` counts the truth's records from 0.

    `truth` is None for an invented record, `answer` for a dropped one.
    """

    number: int
    truth: Record | None
    answer: Record | None
    misread: tuple[Misreading, ...]

    @property
    def kind(self) -> str:
        """The worst error."""
        kinds = {one.kind for one in self.misread}
        return next((kind for kind in (*FAULTS, MARKED) if kind in kinds), RIGHT)


class Comparison(NamedTuple):
    """The readings of a text that aren't plainly right, the number of those that are, and what the parser reported.

    `reported` are types and, for events, keys such as "event.flags".
    """

    right: int
    readings: tuple[Judgement, ...]
    reported: frozenset[str]


def compare(truths: Sequence[Record], answers: Sequence[Record]) -> Comparison:
    """Compare an answer with the truth.  `settle` then drops what the parser reports of no text."""
    answers = [answer for answer in answers if answer["type"] != _SWITCH]
    reported = frozenset(_reported(answers))
    cache: dict[tuple[int, int], tuple[Misreading, ...]] = {}

    def misread(number: int, answer: int) -> tuple[Misreading, ...]:
        pair = (number, answer)
        if pair not in cache:
            cache[pair] = tuple(_misread(truths[number], answers[answer]))
        return cache[pair]

    right, readings, last = 0, [], 0
    is_open = False  # no reader can tell where the record before ends
    for number, answer in align(
        truths, answers, lambda number, answer: not _of(misread(number, answer), reported, truths[number]["type"])
    ):
        if number is None:
            assert answer is not None
            if answer == len(answers) - 1 and answers[answer].get("complete") is False:
                continue  # the text breaks off within this line, so the truth has no record
            if answers[answer]["type"] == NO_RECORD or (answers[answer]["type"] != UNPARSED and not is_open):
                readings.append(Judgement(last, None, answers[answer], (_invented(answers[answer]),)))
            continue
        last, is_open = number, _is_unknown(truths[number]) or _is_endless(truths[number])
        if answer is None and _is_unknown(truths[number]):
            continue
        if answer is None:
            readings.append(Judgement(number, truths[number], None, (Misreading(MISSING, "", truths[number], None),)))
        elif wrong := _settleable(truths[number], misread(number, answer)):
            readings.append(Judgement(number, truths[number], answers[answer], wrong))
        else:
            right += 1
    return Comparison(right, tuple(readings), reported)


def settle(comparison: Comparison, reported: Collection[str]) -> Comparison:
    """Leave out what a parser never reports; `reported` is what it reports in any text."""
    right, readings = comparison.right, []
    for reading in comparison.readings:
        kind = (reading.truth or reading.answer or {})["type"]
        if reading.answer is None and kind not in reported:
            continue
        wrong = tuple(_of(reading.misread, reported, kind))
        if wrong:
            readings.append(reading._replace(misread=wrong))
        else:
            right += 1
    return Comparison(right, tuple(readings), comparison.reported)


def of_types(records: Sequence[Record], types: Collection[str]) -> list[Record]:
    """Return the records of these types, and an answer's lines without a type; all if no types are given."""
    return [record for record in records if not types or record["type"] in (*types, UNPARSED, NO_RECORD)]


def unsaid(truths: Sequence[Record], reported: Collection[str]) -> set[str]:
    """Return the parts of a truth on which a parser with these reports isn't tested."""
    return {word for word in _reported(truths) if word not in reported and word.partition(".")[0] in (*reported, word)}


def _reported(records: Sequence[Record]) -> Iterator[str]:
    seen: set[tuple[str, ...]] = set()
    for record in records:
        keys = (record["type"], *record)
        if keys not in seen:
            seen.add(keys)
            yield record["type"]
            yield from (f"{record['type']}.{key}" for key in record if key not in _UNCOMPARED[:-1])


def _of(misread: Sequence[Misreading], reported: Collection[str], kind: str) -> list[Misreading]:
    """Return misreadings of keys that the parser reports."""
    return [
        one
        for one in misread
        if one.kind != MISSING or not one.key or "." in one.key or f"{kind}.{one.key}" in reported
    ]


def _invented(answer: Record) -> Misreading:
    if answer["type"] == NO_RECORD:
        return Misreading(INVENTED, "", None, f"line {answer['line']} of the answer isn't a record: {answer['why']}")
    return Misreading(MARKED if answer.get("forgeable") else INVENTED, "", None, answer)


def _is_unknown(truth: Record) -> bool:
    """Whether no reader can tell what a record is, whatever schema it has."""
    return "type" in truth.get("ambiguous", ()) and "type" not in truth.get("fields", ())


def _is_endless(truth: Record) -> bool:
    """Whether no reader can tell where a mark ends."""
    return truth["type"] == "marker" and "text" in truth.get("ambiguous", ())


def _settleable(truth: Record, misread: tuple[Misreading, ...]) -> tuple[Misreading, ...]:
    """Return what a reader could have told."""
    if _is_unknown(truth):
        return tuple(one for one in misread if one.kind == INVENTED and not one.key)
    return tuple(one for one in misread if one.key != "text") if _is_endless(truth) else misread


def _misread(truth: Record, answer: Record) -> Iterator[Misreading]:
    if answer["type"] == NO_RECORD:
        yield _invented(answer)
        return
    if answer["type"] != truth["type"]:
        if UNPARSED in (answer["type"], truth["type"]):
            yield Misreading(MARKED, "", truth, answer)
        else:
            yield Misreading(WRONG, "type", truth["type"], answer["type"])
        return
    yield from _context(truth, answer)
    if "fields" in truth:
        if "fields" in answer:
            yield from _fields(truth["fields"], answer, truth.get("ambiguous", ()))
        else:
            yield Misreading(MISSING, "fields", truth["fields"], None)


def _context(truth: Record, answer: Record) -> Iterator[Misreading]:
    """Yield misreadings of all keys except arguments."""
    for key, expected in truth.items():
        if key in _UNCOMPARED or (key == "clock" and expected == "time" and key not in answer):
            continue
        if key not in answer:
            yield Misreading(MISSING, key, expected, None)
        elif not _is_same(expected, answer[key]) and not (key == "task" and _are_same_task(expected, answer[key])):
            marked = key in answer.get("guessed", ())
            yield Misreading(MARKED if marked else WRONG, key, expected, answer[key])
    if truth.get("complete") is False and answer.get("complete") is True:
        yield Misreading(WRONG, "complete", False, True)


def _fields(expected: Record, answer: Record, ambiguous: Collection[str]) -> Iterator[Misreading]:
    answered, guessed = answer["fields"], answer.get("guessed", ())
    # a string can forge other records, and its own end
    is_partial = answer.get("complete") is False or answer.get("forgeable") is True
    for name, value in expected.items():
        if name not in answered:
            # it may be in a marked guess
            is_guessed = bool(guessed) and name in ambiguous
            yield Misreading(MARKED if is_partial or is_guessed else MISSING, f"fields.{name}", value, None)
        elif not _is_same(value, answered[name]):
            yield Misreading(
                MARKED if is_partial or name in guessed else WRONG, f"fields.{name}", value, answered[name]
            )
    for name, value in answered.items():
        if name not in expected:
            yield Misreading(MARKED if is_partial or name in guessed else INVENTED, f"fields.{name}", None, value)


def _are_same_task(expected: object, answered: object) -> bool:
    """Whether two names differ only in leading blanks, which may be the column's padding."""
    return isinstance(expected, str) and isinstance(answered, str) and expected.lstrip(" ") == answered.lstrip(" ")


def _is_same(expected: object, answered: object) -> bool:
    return type(expected) is type(answered) and expected == answered


__all__ = ["EVENT", "FAULTS", "INVENTED", "KINDS", "MARKED", "MISSING", "RIGHT", "WRONG"]
__all__ += ["Comparison", "Judgement", "Misreading", "compare", "of_types", "settle", "unsaid"]
