"""Writes to `filter` files, of an event and of a group, as five kernels answered them."""

from __future__ import annotations

import errno

import pytest

from kprobe_sim.builds.gates import filter_gates
from kprobe_sim.language.filters.errors import LOG_LOCATION
from kprobe_sim.language.filters.filter_file import GROUP_TEXT, NO_FILTER, write_filter, write_group_filter
from kprobe_sim.language.filters.predicate_term import FilterContext
from kprobe_sim.records.field import Field

FIELDS = [Field("u8", "u1", 16, 1, False), Field("u32", "u4", 17, 4, False)]
OTHER = [Field("u8", "u1", 16, 1, False), Field("u8", "zz", 17, 1, False)]
CONTEXT = FilterContext(filter_gates((6, 1, 190)))


@pytest.mark.parametrize("data", [b"0", b"0\n", b" 0", b"\t0 \n", b"0\0junk"])
def test_zero_takes_the_filter_away(data: bytes) -> None:
    assert write_filter(data, FIELDS, CONTEXT) == NO_FILTER
    assert NO_FILTER.shown == b"none\n"


@pytest.mark.parametrize("data", [b"", b"\n", b"   ", b"\0"])
def test_nothing_is_an_error_without_words(data: bytes) -> None:
    state = write_filter(data, FIELDS, CONTEXT)
    assert state.predicate is None
    assert state.shown == b"\nError: (0)\n\n"
    assert state.refused is not None
    assert state.refused.errno == errno.EINVAL
    assert (state.refused.message, state.refused.log_message, state.refused.log_position) == (None, "Error", 0)


def test_trailing_blanks_go_and_leading_ones_stay() -> None:
    assert write_filter(b" \n u4==5 \t\n", FIELDS, CONTEXT).shown == b" \n u4==5\n"


def test_page_of_text_changes_nothing() -> None:
    assert write_filter(b"u4==5".ljust(4095), FIELDS, CONTEXT).shown == b"u4==5\n"
    for write in (write_filter, lambda data, fields, context: write_group_filter(data, [fields], context)):
        with pytest.raises(OSError) as caught:
            write(b"u4==5".ljust(4096), FIELDS, CONTEXT)
        assert caught.value.errno == errno.EINVAL


def test_text_that_fills_the_buffer_is_not_shown() -> None:
    fine = b"u4==5 ||" + b" " * 4082 + b"u1==1"
    assert len(fine) == 4095
    state = write_filter(fine, FIELDS, CONTEXT)
    assert state.predicate is not None
    assert state.shown == b""
    newer = FilterContext(filter_gates((6, 12, 117)))
    assert write_filter(fine, FIELDS, newer).shown == fine + b"\n"


BAD = b"%b\n^\nparse_error: Couldn't find or set field in one of a subsystem's events\n\n"


@pytest.mark.parametrize(
    ("data", "first", "second"),
    [
        (b"u1==1", b"u1==1\n", b"u1==1\n"),
        (b"zz==1", BAD % b"zz==1", b"zz==1\n"),
        (b"nosuch==1", BAD % b"nosuch==1", BAD % b"nosuch==1"),
        (b"u1==", BAD % b"u1==", BAD % b"u1=="),
        (b"0", b"none\n", b"none\n"),
        (b"u4==2", b"u4==2\n", BAD % b"u4==2"),
    ],
)
def test_group(data: bytes, first: bytes, second: bytes) -> None:
    group = write_group_filter(data, [FIELDS, OTHER], CONTEXT)
    states = [change for change in group.changes if change is not None]
    assert [state.shown for state in states] == [first, second]
    assert (group.shown, group.refused) == (GROUP_TEXT, None)
    for state in states:
        assert (state.refused is not None) == (b"^" in state.shown)
        if state.refused:
            assert state.predicate is None
            assert state.refused.log_message == "Couldn't find or set field in one of a subsystem's events"
            assert (state.refused.command, state.refused.log_position) == (data.decode(), 0)


KEPT = None  # the event keeps its filter


@pytest.mark.parametrize(
    ("data", "first", "second", "fault"),
    [
        (b"u1==1", b"u1==1\n", b"u1==1\n", None),
        (b"zz==1", KEPT, b"zz==1\n", None),
        (b"nosuch==1", KEPT, KEPT, "Couldn't find or set field in one of a subsystem's events"),
        (b"u1==", KEPT, KEPT, "Couldn't find or set field in one of a subsystem's events"),
        (b"u1 === 1", KEPT, KEPT, "Invalid operator"),
        (b"((u1==1)", KEPT, KEPT, "Unbalanced parens"),
        (b" 0 ", b"none\n", b"none\n", None),
    ],
)
@pytest.mark.parametrize(("version", "shows_what_was_written"), [((3, 2, 4), True), ((3, 13, 10), False)])
def test_group_before_4_17(
    data: bytes,
    first: bytes | None,
    second: bytes | None,
    fault: str | None,
    version: tuple[int, int, int],
    shows_what_was_written: bool,
) -> None:
    """Such kernels refuse what no event takes, and go on filtering as before."""
    group = write_group_filter(data, [FIELDS, OTHER], FilterContext(filter_gates(version)))
    assert [change and change.shown for change in group.changes] == [first, second]
    if fault is not None:
        assert group.refused is not None
        assert (group.refused.errno, group.refused.message) == (errno.EINVAL, fault)
        assert group.shown == data + f"\n^\nparse_error: {fault}\n\n".encode()
    else:
        assert group.refused is None
        written = b"none\n" if data == b" 0 " else data + b"\n"
        assert group.shown == (written if shows_what_was_written else GROUP_TEXT)


def test_texts() -> None:
    assert LOG_LOCATION == "event filter parse error"
    assert GROUP_TEXT.decode().splitlines() == [
        "### global filter ###",
        "# Use this to set filters for multiple events.",
        "# Only events with the given fields will be affected.",
        "# If no events are modified, an error message will be displayed here",
    ]


def test_gates_of_the_recorded_kernels() -> None:
    general = {
        "negation",
        "bits",
        "generic_fields",
        "common_cpu",
        "early_globs",
        "comm_patterns",
    }  # of all kernels since 4.4

    def known(version: tuple[int, int, int]) -> set[str]:
        return {name for name, value in filter_gates(version)._asdict().items() if value is True} - general

    bounded = {"full_match_bounded", "glob_bounded"}
    later = {"function", "cpulist", "stacktrace_field", "glob_class_stops", "trigger_errors_logged"}
    early = {"early_filters", "group_filter_refused"}
    assert known((3, 2, 4)) == early | {"group_filter_shown"}
    assert known((3, 13, 10)) == known((4, 4, 11)) == early
    assert [filter_gates(version).bits for version in ((3, 2, 4), (3, 13, 10))] == [False, True]
    assert [filter_gates(version).negation for version in ((3, 13, 10), (4, 4, 11))] == [False, True]
    assert [filter_gates(version).common_cpu for version in ((4, 19, 108), (5, 4, 273))] == [False, True]
    assert known((4, 19, 108)) == set()
    assert known((5, 10, 262)) == {"ustring"}
    assert known((6, 1, 190)) == {"ustring"} | bounded
    assert known((6, 1, 191)) == {"ustring", "incomplete_refused"} | bounded
    assert known((6, 12, 117)) == {"ustring", "incomplete_refused"} | bounded | later
    assert known((7, 2, 13)) == {"ustring"} | bounded | later
    assert known((7, 3, 4)) == {"ustring", "incomplete_refused"} | bounded | later
    assert [filter_gates(version).message_space for version in ((6, 1, 190), (6, 12, 117))] == [4096, 8156]
