"""Pages with files and commands: the files are written out, the commands run, their output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, Requires, environment

GUIDES = ("testing-your-tool", "testing-scripts", "clean-up")
PAGES = [ROOT / "docs" / "guides" / f"{name}.md" for name in GUIDES] + [ROOT / "docs" / "reference" / "activities.md"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"(?:#!.*\n)?(?:# |/\* )([\w-]+\.\w+)")
BLOCKS = [(match[1], match[2]) for page in PAGES for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]
FILES = {match[1]: text for language, text in BLOCKS if language != "console" and (match := NAME.match(text))}


def outside() -> dict[str, str]:
    """The environment of somebody who runs no pytest."""
    return {name: value for name, value in environment().items() if not name.startswith("PYTEST_")}


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
    """A directory with all files of the pages."""
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


def test_the_pages_have_their_examples() -> None:
    python = {"count_opens.py", "test_count_opens.py", "test_clean_opens.py"}
    others = {"forgets.sh", "server.toml", "one-call.sh", "wrong.toml"}
    assert set(FILES) == {*python, *others, "first-opens.sh", "activity.toml", "failed-opens.sh", "opens.c"}


TESTS = [
    f"{name}::{test}"
    for name, text in FILES.items()
    if name.startswith("test_")
    for test in re.findall(r"^def (test_\w+)", text, re.MULTILINE)
]


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS)
def test_each_test_alone_in_a_process(place: Path, test: str) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", test]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=60, env=outside())
    assert done.stdout.splitlines()[-1].startswith("1 passed in "), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("command", "output"), commands())
def test_command(request: pytest.FixtureRequest, requires: Requires, place: Path, command: str, output: str) -> None:
    if "kprobe-sim run" in command:
        request.getfixturevalue("can_mount")
    if "./opens" in command or "cc " in command:
        requires("cc")
    if "./opens" in command:  # by the command that the page gives before
        (compiling,) = (before for before, _ in commands() if before.startswith("cc "))
        subprocess.run(["bash", "-c", compiling], cwd=place, check=True)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        env={**outside(), "PATH": f"{place}/bin:{os.environ['PATH']}"},
    )
    expected = re.escape(output).replace(re.escape("[...]\n"), r"(?:.*\n)*")
    assert re.fullmatch(expected, done.stdout), done.stdout
