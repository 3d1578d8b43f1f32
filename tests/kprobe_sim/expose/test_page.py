"""The page "Test your own tool in five minutes": its files are written out, its commands run, their output compared."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, environment

PAGE = ROOT / "docs" / "testing-your-tool.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"(?:#!.*\n)?(?:# |/\* )([\w-]+\.\w+)")
BLOCKS = [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
FILES = {match[1]: text for language, text in BLOCKS if language != "console" and (match := NAME.match(text))}


def commands() -> list[tuple[str, str]]:
    found = []
    for language, text in BLOCKS:
        if language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append((command, output))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all files of the page."""
    directory = tmp_path_factory.mktemp("page")
    for name, text in FILES.items():
        (directory / name).write_text(text)
    commands = directory / "bin"
    commands.mkdir()
    (commands / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (commands / "kprobe-sim").write_text(f'#!/bin/sh\nexec {sys.executable} -m kprobe_sim.cli "$@"\n')
    for command in commands.iterdir():
        command.chmod(0o755)
    return directory


def test_the_page_has_three_examples() -> None:
    assert set(FILES) == {"count_opens.py", "test_count_opens.py", "first-opens.sh", "activity.toml", "opens.c"}


@pytest.mark.parametrize(("command", "output"), commands())
def test_command(request: pytest.FixtureRequest, place: Path, command: str, output: str) -> None:
    if "kprobe-sim run" in command:
        request.getfixturevalue("can_mount")
    if ("./opens" in command or "cc " in command) and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    kept = {name: value for name, value in environment().items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        env={**kept, "PATH": f"{place}/bin:{os.environ['PATH']}"},
    )
    expected = re.escape(output).replace(re.escape("[...]\n"), r"(?:.*\n)*")
    assert re.fullmatch(expected, done.stdout), done.stdout
