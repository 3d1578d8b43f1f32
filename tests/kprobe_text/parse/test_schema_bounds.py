"""Directories of formats that nobody's kernel has: none makes --schema wait, or take more than it may."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kprobe_text.parse.schema import BadSchema, Schema

FORMAT = 'name: x\nID: 1\nformat:\n\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: "a=%u", REC->a\n'


def put(path: Path, text: str = FORMAT) -> None:
    path.mkdir(parents=True)
    (path / "format").write_text(text)


def test_a_format_that_is_a_pipe_isnt_waited_for(tmp_path: Path) -> None:
    put(tmp_path / "one")
    (tmp_path / "two").mkdir()
    os.mkfifo(tmp_path / "two" / "format")
    found = Schema([str(tmp_path)])
    assert list(found.formats) == ["x"]
    assert found.problems == [f"{tmp_path}/two/format isn't a file"]


def test_a_file_without_an_end() -> None:
    with pytest.raises(BadSchema, match="/dev/zero makes it more than 33554432 characters of formats and definitions"):
        Schema(["/dev/zero"])


def test_formats_of_one_name_are_read_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def noted(text: str) -> object:
        read.append(len(text))
        return parse(text)

    from kprobe_text.parse import schema

    parse = schema.parse_format
    monkeypatch.setattr(schema, "parse_format", noted)
    path = tmp_path / "formats"
    path.write_text(FORMAT * 50)
    assert list(Schema([str(path)]).formats) == ["x"]
    assert len(read) == 50


def test_directories_that_are_very_deep(tmp_path: Path) -> None:
    put(tmp_path / "events" / "group" / "x")
    put(tmp_path / "/".join("a" * 40), FORMAT.replace("name: x", "name: y"))
    assert list(Schema([str(tmp_path)]).formats) == ["x"]
