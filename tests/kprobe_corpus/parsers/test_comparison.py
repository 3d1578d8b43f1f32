"""What is right, wrong, missing, invented or marked of an answer."""

from typing import Any

import pytest

from kprobe_corpus.parsers.comparison import Comparison, Misreading, compare, of_types, settle, unsaid

Record = dict[str, Any]


def event(number: int = 0, **more: Any) -> Record:
    fields = more.pop("fields", {"fd": number, "path": "/etc/passwd"})
    stamp = 10_000_102_000 + number * 1000
    return {"type": "event", "name": "myopen", "task": "cat", "pid": 2841, "timestamp": stamp, "fields": fields, **more}


def held(truths: list[Record], answers: list[Record]) -> Comparison:
    found = compare(truths, answers)
    return settle(found, found.reported)


def misread(truth: Record, answer: Record) -> list[Misreading]:
    return [one for reading in held([truth], [answer]).readings for one in reading.misread]


def test_what_nobody_can_tell_isnt_held_against_a_parser() -> None:
    """Where a mark ends that holds another record's line, and what is a record where marks stand without a word."""
    mark = {"type": "marker", "pid": 1, "task": "x", "cpu": 0, "text": "a\n x-1 [000] 1.000000: myopen: (b)"}
    forged = [event(1), {**mark, "text": "a"}, event(2), event(3)]
    told = [event(1), mark, event(3)]
    assert [reading.kind for reading in held(told, forged).readings] == ["wrong", "invented"]
    doubted = [event(1), {**mark, "ambiguous": ["text"]}, event(3)]
    assert held(doubted, forged).readings == ()
    assert [reading.kind for reading in held(doubted, [*forged, event(4)]).readings] == ["invented"]
    assert [one.key for one in held(doubted, [forged[0], {**forged[1], "pid": 2}, event(3)]).readings[0].misread] == [
        "pid"
    ]
    unsure = [event(1), {**event(2), "ambiguous": ["type"]}, event(3)]
    assert held(unsure, [event(1), event(3)]).readings == ()
    assert held(unsure, [event(1), event(2, pid=7), event(3)]).readings == ()
    # an argument of that name is one that a schema settles
    named = {**event(fields={"type": "a"}), "ambiguous": ["type"]}
    assert [one.key for one in misread(named, event(fields={"type": "b"}))] == ["fields.type"]


def test_an_answer_that_says_the_same_is_right() -> None:
    found = held([event(1), event(2)], [event(1), event(2)])
    assert (found.right, found.readings) == (2, ())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (event(fields={"fd": 1, "path": "/etc/passwd"}), ("wrong", "fields.fd", 0, 1)),
        (event(fields={"fd": "0", "path": "/etc/passwd"}), ("wrong", "fields.fd", 0, "0")),
        (event(fields={"fd": False, "path": "/etc/passwd"}), ("wrong", "fields.fd", 0, False)),
        (event(fields={"path": "/etc/passwd"}), ("missing", "fields.fd", 0, None)),
        (event(fields={"fd": 0, "path": "/etc/passwd", "x": 1}), ("invented", "fields.x", None, 1)),
        (event(pid=2842), ("wrong", "pid", 2841, 2842)),
        (event(task="dog"), ("wrong", "task", "cat", "dog")),
        (event(fields={"fd": 1, "path": "/etc/passwd"}, guessed=["fd"]), ("marked", "fields.fd", 0, 1)),
        (event(fields={"path": "/etc/passwd"}, complete=False), ("marked", "fields.fd", 0, None)),
        (event(fields={"fd": 0, "path": "/etc/passwd", "x": 1}, complete=False), ("marked", "fields.x", None, 1)),
    ],
)
def test_what_is_misread_of_an_event(answer: Record, expected: tuple[object, ...]) -> None:
    assert misread(event(), answer) == [expected]


def test_a_mark_on_another_argument_excuses_nothing() -> None:
    answer = event(fields={"fd": 1, "path": "/etc/passwd"}, guessed=["path"])
    assert misread(event(), answer) == [("wrong", "fields.fd", 0, 1)]


def test_an_ambiguous_argument_may_be_part_of_a_guess() -> None:
    """Of s=`" t="x" n=1` nobody knows without a schema which of them is n."""
    truth = {**event(fields={"s": '" t="x" n=1', "n": 3, "t": "y"}), "ambiguous": ["s", "n", "t"]}
    read = {"s": "", "t": 'x" n=1" n=3 t="y'}
    assert {one.kind for one in misread(truth, {**event(fields=read), "guessed": ["s", "t"]})} == {"marked"}
    assert [one.kind for one in misread(truth, event(fields=read))] == ["wrong", "missing", "wrong"]


def test_what_a_string_can_forge_is_marked_where_the_parser_says_so() -> None:
    cut = event(fields={"fd": 0, "path": "/etc"})
    forged = event(timestamp=9, pid=1)
    assert misread(event(), cut) == [("wrong", "fields.path", "/etc/passwd", "/etc")]
    assert misread(event(), cut | {"forgeable": True}) == [("marked", "fields.path", "/etc/passwd", "/etc")]
    assert misread(event(), event(pid=2842, forgeable=True)) == [("wrong", "pid", 2841, 2842)]
    assert [one.kind for one in compare([event()], [event(), forged]).readings] == ["invented"]
    assert [one.kind for one in compare([event()], [event(), forged | {"forgeable": True}]).readings] == ["marked"]


def test_blanks_before_a_task_s_name_are_the_column_s_too() -> None:
    assert misread(event(task=" cat"), event(task="cat")) == []
    assert misread(event(task="cat "), event(task="cat")) == [("wrong", "task", "cat ", "cat")]


def test_a_record_that_the_kernel_broke_off_isn_t_complete() -> None:
    assert misread(event(complete=False), event(complete=True)) == [("wrong", "complete", False, True)]
    assert misread(event(complete=False), event(complete=False)) == []


def test_a_record_that_is_dropped_is_missing_and_those_behind_it_are_right() -> None:
    found = held([event(number) for number in range(5)], [event(0), event(1), event(3), event(4)])
    assert found.right == 4
    assert [(reading.number, reading.kind) for reading in found.readings] == [(2, "missing")]


def test_a_record_that_is_invented_is_told_with_the_one_before_it() -> None:
    forged = event(7, name="other", task="x", pid=1)
    found = held([event(0), event(1)], [event(0), forged, event(1)])
    assert found.right == 2
    assert [(reading.number, reading.kind, reading.answer) for reading in found.readings] == [(0, "invented", forged)]


def test_records_with_a_wrong_time_are_still_about_the_same() -> None:
    answers = [event(number, timestamp=number) for number in range(3)]
    found = held([event(number) for number in range(3)], answers)
    assert [(reading.number, reading.misread[0].key) for reading in found.readings] == [
        (0, "timestamp"), (1, "timestamp"), (2, "timestamp"),
    ]  # fmt: skip


def test_text_that_is_said_not_to_be_understood_is_marked() -> None:
    found = held([event(0), event(1)], [event(0), {"type": "unparsed", "raw": "…"}])
    assert [(reading.number, reading.kind) for reading in found.readings] == [(1, "marked")]


def test_what_a_parser_never_says_isn_t_held_against_it() -> None:
    truths = [event(0, cpu=1, flags="....."), {"type": "lost", "cpu": 0, "count": 3}]
    answers = [event(0, cpu=1)]
    assert held(truths, answers).readings == ()
    assert unsaid(truths, compare(truths, answers).reported) == {"event.flags", "lost"}


def test_what_it_says_elsewhere_is() -> None:
    truths = [event(0, flags="....."), event(1, flags="d..1.")]
    found = held(truths, [event(0, flags="....."), event(1)])
    assert [reading.misread for reading in found.readings] == [(("missing", "flags", "d..1.", None),)]


def test_a_clock_that_isn_t_said_is_time() -> None:
    truths = [event(0, clock="time"), event(1, clock="count")]
    assert [one.number for one in held(truths, [event(0), event(1, clock="count")]).readings] == []
    assert [one.number for one in held(truths, [event(0, clock="time"), event(1)]).readings] == [1]


def test_records_without_a_context_are_paired_in_their_order() -> None:
    truths = [{"type": "event", "name": "ent", "fields": {"fd": number}} for number in range(4)]
    answers = [
        {**truth, "fields": {"fd": truth["fields"]["fd"] + (number == 2)}} for number, truth in enumerate(truths)
    ]
    assert [(one.number, one.misread) for one in held(truths, answers).readings] == [
        (2, (("wrong", "fields.fd", 2, 3),)),
    ]  # fmt: skip


def test_types_that_are_asked_for_are_compared_whether_said_or_not() -> None:
    truths = [event(), {"type": "lost", "cpu": 0, "count": 3}, {"type": "started", "cpu": 1}]
    answers = [event()]
    types = ("event", "lost")
    found = compare(of_types(truths, types), of_types(answers, types))
    assert [one.truth for one in settle(found, {*found.reported, *types}).readings] == [
        {"type": "lost", "cpu": 0, "count": 3}
    ]


def call(function: str, duration: int | None, kind: str = "leaf") -> Record:
    return {"type": "call", "function": function, "kind": kind, "depth": 1, "duration": duration}


def test_calls_without_times_are_told_apart_by_what_they_are() -> None:
    """As function_graph prints them without CPUs: the lines of switches between tasks are of no record."""
    truths = [call("getname", 4747), call("getname", 6940), call("path_openat", 63194), call("getname", 12629)]
    switch = {"type": "switch", "cpu": 3, "task": "plain", "pid": 344}
    answers = [truths[0], switch, *truths[1:3], switch, truths[3]]
    assert held(truths, answers) == Comparison(4, (), frozenset(found_in(truths)))
    wrong = [switch, truths[1], {**truths[2], "duration": 63}, truths[3]]
    readings = held(truths, wrong).readings
    assert [(reading.number, reading.kind) for reading in readings] == [(0, "missing"), (2, "wrong")]
    assert readings[1].misread == (Misreading("wrong", "duration", 63194, 63),)


def found_in(truths: list[Record]) -> set[str]:
    return {"call", *(f"call.{key}" for key in truths[0] if key != "type")}
