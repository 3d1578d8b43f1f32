"""Colours: on a terminal that has them, of the words that are ours; nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys

import pexpect
import pytest

from kprobe_text.terminal.colours import has_colours, headed, marked

COMMAND = [sys.executable, "-m", "kprobe", "--tracefs", "sim:6.1"]
RED = "\x1b[1;31mERROR\x1b[0m: kprobe_events refused 'p:nosuch nosuch': "
BOLD = "\x1b[1mEVENT  OWNER  ENABLED  HITS  MISSED  DEFINITION\x1b[0m\r\n"


def shown(*words: str, **environment: str) -> str:
    """Return what the command writes to a terminal."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    child = pexpect.spawn(
        COMMAND[0], [*COMMAND[1:], *words], env=kept | environment, timeout=60, encoding="utf-8", dimensions=(24, 200)
    )
    child.expect(pexpect.EOF)
    child.close()
    return str(child.before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_a_terminal(environment: dict[str, str], is_coloured: bool) -> None:
    assert has_colours(environment) == is_coloured
    if "NO_COLOR" in environment or is_coloured:
        text = shown("-F", "p:nosuch", **environment)
        assert (RED in text) == is_coloured
        assert ("\x1b" in text) == is_coloured


def test_a_table() -> None:
    assert shown("list", TERM="xterm") == BOLD


def test_no_pipe_has_any() -> None:
    environment = os.environ | {"TERM": "xterm"}
    for words in (["list"], ["-F", "p:nosuch"]):
        done = subprocess.run([*COMMAND, *words], env=environment, capture_output=True)
        assert b"\x1b" not in done.stdout + done.stderr


def test_only_the_words_of_ours_at_the_start_of_a_line() -> None:
    assert marked("ERROR: NOTE: x\nhint: y\nError: z") == (
        "\x1b[1;31mERROR\x1b[0m: NOTE: x\n\x1b[36mhint\x1b[0m: y\nError: z"
    )
    assert headed("STOPS: no\n  fact: x\n") == "\x1b[1;31mSTOPS\x1b[0m: no\n  fact: x\n"
