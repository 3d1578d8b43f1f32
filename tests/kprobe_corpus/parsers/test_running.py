"""Commands that stay: one after another text, crashes that are told and those that aren't."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kprobe_corpus.parsers.running import NotStarted, Program, StayingProgram

from .conftest import program


def directories(corpus: Path) -> list[str]:
    return [str(corpus / name) for name in ("6.1/plain", "7.2/plain", "7.2/blank")]


def test_a_command_is_started_once(corpus: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    argv = program(tmp_path, f"open({str(log)!r}, 'a').write('started\\n')")
    with StayingProgram(argv, 30) as command:
        answers = [command.ask(directory, {}) for directory in directories(corpus)]
    assert [(one.state, one.output.count(b"\n")) for one in answers] == [
        ("answered", 3),
        ("answered", 2),
        ("answered", 3),
    ]
    assert log.read_text() == "started\n"


def test_what_a_function_raises_is_told_and_the_next_text_read(corpus: Path, tmp_path: Path) -> None:
    argv = program(tmp_path, "old = read\ndef read(text):\n    assert b'/b\"' not in text\n    return old(text)")
    with StayingProgram(argv, 30) as command:
        answers = [command.ask(directory, {}) for directory in directories(corpus)]
    assert [(one.state, one.words) for one in answers] == [
        ("crashed", "AssertionError: "), ("answered", ""), ("answered", ""),
    ]  # fmt: skip


def test_a_command_that_ends_is_started_again(corpus: Path, tmp_path: Path) -> None:
    extra = "old = read\ndef read(text):\n    if b'/b\"' in text: os._exit(3)\n    return old(text)"
    with StayingProgram(program(tmp_path, extra), 30) as command:
        answers = [command.ask(directory, {}) for directory in directories(corpus)]
    assert [(one.state, one.words) for one in answers] == [
        ("crashed", "exit status 3"), ("answered", ""), ("answered", ""),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_command_that_hangs_is_ended_and_started_again(corpus: Path, tmp_path: Path) -> None:
    extra = "import time\nold = read\ndef read(text):\n    if b'/b\"' in text: time.sleep(600)\n    return old(text)"
    with StayingProgram(program(tmp_path, extra), 1.5) as command:
        answers = [command.ask(directory, {}) for directory in directories(corpus)[:2]]
    assert [(one.state, one.words) for one in answers] == [("hung", "no end after 1.5 s"), ("answered", "")]


@pytest.mark.parametrize("kind", [Program, StayingProgram])
def test_an_answer_without_end_is_ended_by_its_length(corpus: Path, kind: type[Program]) -> None:
    """It was gathered until the memory was full."""
    flood = 'import sys\nwhile True: sys.stdout.write(\'{"type":"event"}\\n\' * 1000)'
    with kind([sys.executable, "-c", flood], 60) as command:
        answer = command.ask(directories(corpus)[0], {})
    assert (answer.state, answer.words, answer.output) == ("hung", "no end after 16 MiB", b"")


@pytest.mark.parametrize("kind", [Program, StayingProgram])
def test_a_command_that_closes_its_output_and_goes_on_is_ended(corpus: Path, kind: type[Program]) -> None:
    """With --stay it was waited for without end."""
    with kind(["sh", "-c", "exec >&-; exec sleep 600"], 0.5) as command:
        answer = command.ask(directories(corpus)[0], {})
    assert (answer.state, answer.words) == ("hung", "no end after 0.5 s")


def test_what_a_command_said_last_is_told_however_much_that_was(corpus: Path) -> None:
    loud = "import sys\nsys.stderr.write('x' * 1000000 + '\\nthe end\\n')\nprint('{}')\nsys.exit(3)"
    with Program([sys.executable, "-c", loud], 60) as command:
        answer = command.ask(directories(corpus)[0], {})
    assert (answer.state, answer.words, answer.output) == ("crashed", "exit status 3: the end", b"{}\n")


def test_a_command_that_isn_t_there() -> None:
    with StayingProgram(["/nonexistent"], 1) as command, pytest.raises(NotStarted) as caught:
        command.ask("/", {})
    assert str(caught.value) == "/nonexistent can't be started: No such file or directory"


def test_the_adapter_as_a_program_says_nothing_of_its_own(tmp_path: Path) -> None:
    """It warned that it had been imported before, on each start."""
    (tmp_path / "mine.py").write_text('def parse(text):\n    yield {"type": "lost", "cpu": len(text), "count": None}\n')
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "kprobe_corpus.parsers.adapter", "mine:parse"],
        input=b"four", capture_output=True, check=False, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b'{"type":"lost","cpu":4,"count":null}\n', b"")
