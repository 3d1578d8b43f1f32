"""The texts that the fixture `trace_text` gives: what `check` says of a parser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kprobe_corpus.parsers.texts import TraceText, chosen

from .conftest import truth


def names(texts: list[TraceText]) -> list[str]:
    return [f"{one.entry.kernel}/{one.entry.name}" for one in texts]


def test_which_texts_are_chosen(corpus: Path) -> None:
    assert names(chosen(str(corpus), "", "")) == ["6.1/plain", "7.2/blank", "7.2/plain"]
    assert names(chosen(str(corpus), "7.*", "b*,plain")) == ["7.2/blank", "7.2/plain"]


def test_the_first_line_that_is_misread_is_told(corpus: Path) -> None:
    (text,) = chosen(str(corpus), "7.2", "blank")

    def read(data: bytes) -> Iterator[dict[str, Any]]:
        assert data == text.text
        yield truth(0, "/a")
        yield truth(1, "/b")

    with pytest.raises(AssertionError) as caught:
        text.check(read)
    assert str(caught.value).splitlines() == [
        "7.2/blank, line 4 (4 lines), wrong",
        '                 cat-2841    [000] .....    10.000101: myopen: (do_sys_openat2+0x0/0xe0) fd=1 path="/b c"',
        '  fields.path expected  "/b c"',
        '  fields.path said      "/b"',
    ]


def test_a_parser_that_reads_rightly(corpus: Path) -> None:
    for text in chosen(str(corpus), "", ""):
        assert text.check(lambda data: text.entry.truth())  # noqa: B023  # is called at once


def test_a_parser_that_says_nothing_misses_all(corpus: Path) -> None:
    (text,) = chosen(str(corpus), "6.1", "plain")
    with pytest.raises(AssertionError, match=r"6\.1/plain, line 3 \(4 lines\), missing"):
        text.check(lambda data: [])


def test_what_can_be_asked_of_a_text(corpus: Path) -> None:
    (text,) = chosen(str(corpus), "6.1", "plain")
    assert (text.formats, text.definitions) == ({}, ["p:myopen do_sys_openat2"])
    assert repr(text) == "TraceText(6.1/plain)"
