"""The texts of all scenarios, held to what is true of them; and some as guests printed them (fixtures/scenarios)."""

import json
from collections import Counter
from pathlib import Path

import pytest

from kprobe_corpus.parsers.comparison import FAULTS, compare
from kprobe_sim.builds import profile
from kprobe_sim.scenarios.choices import chosen_options, lacks
from kprobe_sim.scenarios.rendering import Rendering, render
from kprobe_sim.scenarios.shipped import load, names
from kprobe_text.figures.shape import as_dict
from kprobe_text.text import (
    Bare,
    BareMarker,
    BareRawMarker,
    BareStack,
    CodeAddress,
    Coded,
    Event,
    Header,
    Marker,
    Parser,
    Record,
    parse,
)

RECORDED = Path(__file__).parents[3] / "fixtures" / "scenarios" / "6.1"


def recorded(name: str) -> list[Record]:
    text = (RECORDED / f"{name}.trace").read_bytes()
    records = parse(text)
    assert b"".join(record.raw for record in records) == text
    return [record for record in records if not isinstance(record, Header)]


def faults(rendering: Rendering, formats: dict[str, str] | None) -> list[object]:
    records = parse(rendering.text, formats)
    assert b"".join(record.raw for record in records) == rendering.text
    said = [json.loads(json.dumps(as_dict(record))) for record in records if not isinstance(record, Header)]
    found = compare(rendering.truth, said)
    return [one for reading in found.readings for one in reading.misread if one.kind in FAULTS]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "kernel"), [(0, "5.10"), (1, "7.3"), (0, "4.9"), (1, "4.19")])
def test_nothing_is_wrong_or_silently_incomplete(part: int, kernel: str) -> None:
    """Each scenario has half of the options on one kernel of two, the others on the other."""
    build = profile.load(kernel)
    options = [one for one in chosen_options("all") if not lacks(build, one, "local")]
    bad: dict[str, list[object]] = {}
    shown: Counter[str] = Counter()
    for number, name in enumerate(names()):
        for one in options[(number + part) % 2 :: 2]:
            rendering = render(load(name), kernel, one)
            formats = {path.split("/")[2]: text for path, text in rendering.formats.items()}
            for schema in (formats, None):
                shown[rendering.truth[0]["type"]] += 1
                if found := faults(rendering, schema):
                    bad[f"{name} {'+'.join(one)} {'with' if schema else 'without'} formats"] = found
    assert bad == {}
    assert shown["event"] > 900


def test_marks_without_context() -> None:
    marks = [record.text for record in recorded("marker_newlines.nocontext-info") if isinstance(record, BareMarker)]
    assert marks == [
        "no newline", "one newline", "two\nlines", "", "\n", "# like a header", "CPU:0 [LOST 7 EVENTS]",
        " => not_a_frame", 'tab\there "q" \\ %s',
    ]  # fmt: skip


def test_marks_with_the_place_that_wrote_them() -> None:
    marks = [record for record in recorded("marker_newlines.sym-offset+sym-addr") if isinstance(record, Marker)]
    assert b": tracing_mark_write+0xdd/0x240 <ffffffff811b276d>: two\nlines\n" in marks[2].raw
    assert [mark.text for mark in marks[:5]] == ["no newline", "one newline", "two\nlines", "", "\n"]
    assert {(mark.task, mark.pid, mark.cpu) for mark in marks} == {("cat", 4780, 0)}


@pytest.mark.parametrize("place", [b"+0x96/0x240", b" <ffffffff8121cdea>", b"+0x96/0x240 <ffffffff8121cdea>", b""])
def test_a_mark_is_one_whatever_it_says(place: bytes) -> None:
    head = b"             cat-4780    [000] .....     9.193714: tracing_mark_write" + place + b": "
    for said in (
        b"fd=3", b"B|640|x", b"", b"do_sys_open+0x0/0xd6: dfd=3", b"(do_sys_open+0x0/0xd6) dfd=3", b"(1/2) done",
    ):  # fmt: skip
        (mark,) = parse(head + said + b"\n")
        assert isinstance(mark, Marker)
        assert mark.text == said.decode()


def test_raw_marks_without_context() -> None:
    (first, second) = (one for one in recorded("marker_raw.nocontext-info") if isinstance(one, BareRawMarker))
    assert (first.identifier, first.data[:3]) == (1, b"\1\2\xff")
    assert (second.identifier, second.data[:14]) == (0xDEADBEEF, b": ent: (a) z=1")
    alone = parse(b"# tracer: nop\n#\n" + first.raw)
    assert isinstance(alone[-1], BareRawMarker)
    assert alone[-1].data == first.data  # it is no line of the header


def test_stacks_without_context() -> None:
    stacks = [record for record in recorded("stacks_of_users.nocontext-info") if isinstance(record, BareStack)]
    assert stacks
    assert all(stack.user and stack.raw.startswith(b"<user stack trace>\n =>  <") for stack in stacks)
    place = stacks[0].frames[0]
    assert place == CodeAddress("", None, None, "", place.address, f"<{place.address:016x}>")


def test_numbers_without_context_and_marks_among_them() -> None:
    records = recorded("no_context.raw")
    assert [type(record) is Coded for record in records] == [True, True, False, True, True]
    first = records[0]
    assert isinstance(first, Coded)
    assert first == Coded(None, None, None, first.event_id, first.raw)
    assert records[2].raw.startswith(b"# ffffffff811b276d half way\n")


def test_a_mark_of_option_raw_is_no_line_of_the_header() -> None:
    for head in (b"", b"4194303 1 102000 "):
        text = head + b"# ffffffff814ee825 two\nlines: x\n" + head + b"type: 1629\n" + head + b"type: 1630\n"
        assert [type(record).__name__ for record in parse(text)] == ["Unparsed", "Unparsed", "Coded", "Coded"]


def test_a_probe_named_as_a_mark_is_told_by_its_schema() -> None:
    text = b"             cat-4780    [000] .....     9.193714: tracing_mark_write: (f+0x0/0xe0) fd=1\n"
    (event,) = parse(text, definitions=["p:tracing_mark_write f fd=%di:s32"])
    assert isinstance(event, Event)
    assert event.fields == {"fd": 1}


def test_an_empty_name_doesnt_begin_in_the_header() -> None:
    events = [record for record in recorded("comm_empty.latency-format+verbose") if isinstance(record, Event)]
    assert events[0].raw.startswith(b"                    4")
    assert [event.task for event in events[:2]] == ["", ""]


def test_with_a_header_a_mark_cant_forge_a_line_with_context() -> None:
    """Without context no line has one."""
    forged = (
        b"tracing_mark_write: harmless\n             cat-1       [000] .....    10.000000: ent: (f+0x0/0xe0) fd=1\n"
    )
    event = b"ent: (f+0x0/0xe0) fd=1\n"
    _, _, first, mark, last = parse(b"# tracer: nop\n#\n" + event + forged + event)
    assert isinstance(mark, BareMarker)
    assert mark.text == forged[20:-1].decode()
    assert isinstance(last, Bare)
    assert first == last._replace(forgeable=first.forgeable, raw=first.raw)
    assert (first.forgeable, last.forgeable) == (False, True)


def test_they_are_out_as_soon_as_they_are_whole() -> None:
    for text in (b"tracing_mark_write: two\nlines\n", b"<stack trace>\n => a+0x1/0x2\n", b"# 1 buf: 01\n"):
        parser = Parser(live=True)
        event = b"ent: (f+0x0/0xe0) fd=1\n"
        assert [record.raw for record in parser.feed(event + text)] == [event, text]
