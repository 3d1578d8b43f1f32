"""Matches the records of an answer with those of the truth: parsers drop some, and invent others."""

from __future__ import annotations

from kprobe_corpus.parsers.answers import NO_RECORD, UNPARSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from kprobe_corpus.parsers.answers import Record

    Pair = tuple[int | None, int | None]  # of the truth, of the answer; None where there is no such record

CALL = ("function", "kind", "depth", "duration")
CONTEXT = ("name", "timestamp", "task", "pid", "cpu", "address", "text", "count", *CALL)
IDENTITY = ("type", "name", "timestamp", "cpu", "pid", *CALL)  # keys that identify a record
ALIKE = 0.5  # the share in common by which two records count as similar
_CELLS = 40_000  # most cells of a table of likeness


def align(truths: Sequence[Record], answers: Sequence[Record], same: Callable[[int, int], bool]) -> list[Pair]:
    """Return the pairs, in the order of the texts; `same` says whether two records fully agree.

    Records that agree are paired first, then those of the same `IDENTITY`, then those that are most alike.
    """
    first = 0
    end, answers_end = len(truths), len(answers)
    while first < min(end, answers_end) and same(first, first):
        first += 1
    while end > first and answers_end > first and same(end - 1, answers_end - 1):
        end, answers_end = end - 1, answers_end - 1
    pairs: list[Pair] = [(number, number) for number in range(first)]
    for true_range, answered in _gaps(truths, answers, range(first, end), range(first, answers_end), _identity):
        if isinstance(true_range, int):
            pairs.append((true_range, answered.start))
        else:
            pairs += _most_alike(truths, answers, true_range, answered)
    pairs += [(end + number, answers_end + number) for number in range(len(truths) - end)]
    return pairs


def _identity(record: Record) -> Hashable:
    return tuple(record.get(key) for key in IDENTITY)


def _gaps(
    truths: Sequence[Record],
    answers: Sequence[Record],
    true_range: range,
    answered: range,
    key: Callable[[Record], Hashable],
) -> Iterator[tuple[int | range, range]]:
    """Yield records with the same `key`, as a number and a range of one, and the gaps between them."""
    from difflib import SequenceMatcher

    left, right = [key(truths[number]) for number in true_range], [key(answers[number]) for number in answered]
    start, answered_start = true_range.start, answered.start
    for block in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
        begin, said_begin = true_range.start + block.a, answered.start + block.b
        if begin > start or said_begin > answered_start:
            yield range(start, begin), range(answered_start, said_begin)
        for number in range(block.size):
            yield begin + number, range(said_begin + number, said_begin + number + 1)
        start, answered_start = begin + block.size, said_begin + block.size


def _most_alike(truths: Sequence[Record], answers: Sequence[Record], true_range: range, answered: range) -> list[Pair]:
    """Pair the records of a gap, in their order, so that they are as alike as possible."""
    if not true_range or not answered or len(true_range) * len(answered) > _CELLS:
        both = min(len(true_range), len(answered))
        pairs: list[Pair] = [(true_range[number], answered[number]) for number in range(both)]
        return [
            *pairs,
            *((number, None) for number in true_range[both:]),
            *((None, number) for number in answered[both:]),
        ]
    best = [[0.0] * (len(answered) + 1) for _ in range(len(true_range) + 1)]
    for row in range(len(true_range) - 1, -1, -1):
        for column in range(len(answered) - 1, -1, -1):
            like = likeness(truths[true_range[row]], answers[answered[column]])
            paired = best[row + 1][column + 1] + like if like >= ALIKE else 0.0
            best[row][column] = max(paired, best[row + 1][column], best[row][column + 1])
    return list(_way(best, truths, answers, true_range, answered))


def _way(
    best: list[list[float]], truths: Sequence[Record], answers: Sequence[Record], true_range: range, answered: range
) -> Iterator[Pair]:
    row = column = 0
    while row < len(true_range) and column < len(answered):
        like = likeness(truths[true_range[row]], answers[answered[column]])
        if like >= ALIKE and best[row][column] == best[row + 1][column + 1] + like:
            yield true_range[row], answered[column]
            row, column = row + 1, column + 1
        elif best[row][column] == best[row + 1][column]:
            yield true_range[row], None
            row += 1
        else:
            yield None, answered[column]
            column += 1
    yield from ((number, None) for number in true_range[row:])
    yield from ((None, number) for number in answered[column:])


def likeness(truth: Record, answer: Record) -> float:
    """Return how much two records have in common, from 0 to 1; unparsed text may belong to any."""
    if UNPARSED in (answer["type"], truth["type"]):
        return ALIKE
    if answer["type"] != truth["type"] or answer["type"] == NO_RECORD:
        return 0.0
    shared = [key for key in CONTEXT if key in truth and key in answer]
    fields, answered = truth.get("fields") or {}, answer.get("fields") or {}
    names = [*fields, *(name for name in answered if name not in fields)]
    parts = [truth[key] == answer[key] for key in shared]
    if names and "fields" in truth and "fields" in answer:
        parts.append(sum(name in fields and fields[name] == answered.get(name, ...) for name in names) / len(names))
    return sum(parts) / len(parts) if parts else ALIKE
