"""Patterns of filters and lists of CPUs, held to the rules of lib/glob.c and lib/bitmap-str.c."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_sim.builds.gates import filter_gates
from kprobe_sim.language.primitives.cpulist import parse_cpulist
from kprobe_sim.language.primitives.glob import compile_pattern, glob_expression, glob_match
from kprobe_sim.language.primitives.name_glob import globbed, matching


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        (b"a", b"a", True),
        (b"a", b"aa", False),
        (b"", b"", True),
        (b"", b"a", False),
        (b"?", b"", False),
        (b"??", b"a", False),
        (b"[a]", b"a", True),
        (b"[!a]", b"a", False),
        (b"[!a]", b"b", True),
        (b"[ab]", b"c", False),
        (b"[a-c]", b"b", True),
        (b"[a-c]", b"d", False),
        (b"[c-a]", b"b", False),
        (b"[!c-a]", b"b", True),
        (b"[a-c-b]", b"-", True),
        (b"[]x-z[]", b"]", True),
        (b"[]x-z[]", b"y", True),
        (b"[]x-z[]", b"[", True),
        (b"[]x-z[]", b"w", False),
        (b"[!]x]", b"w", True),
        (b"[!]x]", b"]", False),
        (b"[-x]", b"-", True),
        (b"[x-]", b"-", True),
        (b"[a", b"[a", True),  # no closing bracket: plain
        (b"[a-", b"[a-", True),
        (b"[]", b"[]", True),
        (b"[!", b"[!", True),
        (b"[!]", b"[!]", True),
        (b"a\\", b"a", True),  # nothing left to take plainly
        (b"a\\", b"a\\", False),
        (b"\\*", b"*", True),
        (b"\\*", b"a", False),
        (b"\\[a]", b"[a]", True),
        (b"[\\]", b"\\", True),  # no escape within a class
        (b"*", b"", True),
        (b"*a", b"ba", True),
        (b"*ab", b"aab", True),
        (b"a*b*c", b"abbc", True),
        (b"*aa*ab", b"aaab", True),
        (b"*aa*ab", b"aab", False),
        (b"*xy*z", b"xxyxyzz", True),
        (b"*xy*z", b"xxyxyzy", False),
        (b"**b", b"ab", True),
        (b"*[!b]", b"ab", False),
    ],
)
def test_glob(pattern: bytes, subject: bytes, expected: bool) -> None:
    assert glob_match(pattern, subject) is expected
    assert (glob_expression(pattern).fullmatch(subject) is not None) is expected


SIGNS = b"ab]-[!*?\\^"


def drawn(most: int) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(SIGNS), max_size=most).map(bytes)


@given(drawn(10), drawn(8))
def test_both_readers_of_globs_agree(pattern: bytes, subject: bytes) -> None:
    assert glob_match(pattern, subject) is (glob_expression(pattern).fullmatch(subject) is not None)


NAMES = st.lists(st.text("ab-]x", max_size=7), max_size=20)


@given(drawn(9), NAMES, st.booleans())
def test_names_are_found_as_one_by_one(pattern: bytes, names: list[str], past_end: bool) -> None:
    expected = [place for place, name in enumerate(names) if glob_match(pattern, name.encode(), past_end=past_end)]
    assert globbed(pattern, names, past_end=past_end) == expected


@given(drawn(9), NAMES, st.sampled_from([(5, 10, 0), (6, 1, 190), (6, 12, 117)]))
def test_names_are_found_as_by_a_filter(pattern: bytes, names: list[str], version: tuple[int, int, int]) -> None:
    gates = filter_gates(version)
    matches = compile_pattern(pattern, gates).matches
    expected = [place for place, name in enumerate(names) if matches(name.encode() + b"\0", 0, len(name) + 1)]
    assert matching(pattern, names, gates) == expected


@pytest.mark.parametrize(
    ("pattern", "in_6_1", "in_6_12"),
    [
        (b"ab", ["ab"], ["ab"]),
        (b"ab*", ["ab", "abc", "abcd"], ["ab", "abc", "abcd"]),
        (b"*bc*", ["abc", "abcd"], ["abc", "abcd"]),
        (b"*c", ["abc"], ["abc"]),
        (b"a*c", ["abc"], ["abc"]),
        (b"a?c", ["abc"], ["abc"]),
        (b"ab[c-d]", ["abc"], ["abc"]),
        (b"ab[!x]", ["ab", "abc"], ["abc"]),  # before 6.12 the end of the name is a character that isn't an x
        (b"ab[!x]?", ["abcd"], ["abcd"]),
        (b"*", ["ab", "abc", "abcd", "1ab"], ["ab", "abc", "abcd", "1ab"]),
        (b"1*", [], []),  # a digit makes it plain
        (b"!ab", ["ab"], ["ab"]),
    ],
)
def test_names_that_a_pattern_means(pattern: bytes, in_6_1: list[str], in_6_12: list[str]) -> None:
    names = ["ab", "abc", "abcd", "1ab"]
    for version, expected in (((6, 1, 190), in_6_1), ((6, 12, 117), in_6_12)):
        assert [names[number] for number in matching(pattern, names, filter_gates(version))] == expected


def test_many_stars_take_no_exponential_time() -> None:
    expression = glob_expression(b"*a" * 120 + b"b")
    start = time.process_time()
    assert expression.fullmatch(b"a" * 1000) is None
    assert time.process_time() - start < 5


@given(drawn(8), drawn(8))
def test_negation_negates(pattern: bytes, subject: bytes) -> None:
    gates = filter_gates((6, 12, 117))
    field = subject + b"\0"
    plain, negated = compile_pattern(b"x" + pattern, gates), compile_pattern(b"!x" + pattern, gates)
    assert (plain.negated, negated.negated) == (False, True)
    assert plain.matches(field, 0, len(field)) is negated.matches(field, 0, len(field))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", {0}),
        ("0-1", {0, 1}),
        ("0,2", {0, 2}),
        ("0, 2", {0, 2}),
        (",,0,,", {0}),
        (" ", set()),
        ("all", set(range(8))),
        ("ALL", set(range(8))),
        ("N", {7}),
        ("5-N", {5, 6, 7}),
        ("0-7:1/2", {0, 2, 4, 6}),
        ("all:2/3", {0, 1, 3, 4, 6, 7}),
        ("0-7:0/2", set()),
        ("0-3:1/2 5", {0, 2, 5}),
        ("0-3:1/25", {0}),
        ("0-3:1/2N", {0, 2, 7}),
        ("0\n5", {0}),
        ("\n0", {0}),
        ("00", {0}),
        ("8", None),
        ("7-8", None),
        ("3-1", None),
        ("x", None),
        ("0x", None),
        ("-1", None),
        ("1-", None),
        ("1:1/2", None),
        ("0-7:3/2", None),
        ("0-7:1/0", None),
        ("0-7:1", None),
        ("0-7:1/2x", None),
        ("alle", None),
        ("4294967296", None),
        ("0-7:1/4294967296", None),
    ],
)
def test_cpulist(text: str, expected: set[int] | None) -> None:
    assert parse_cpulist(text, 8) == expected
