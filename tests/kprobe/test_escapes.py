"""Terminal escapes that a traced machine's programs choose: shown on a terminal, untouched in pipes and files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from kprobe_text.terminal.colours import MARKS

EVIL = "\x1b]0;owned\x07\x1b[2J\x7f\u009b31m"
ACTIVITY = """\
repeat = true
[[call]]
function = "do_sys_openat2"
task = "\\u001b[31mcat-2841"
args = [0xffffff9c, {{ hex = "{text}00" }}]
returns = 3
after = 0.02
"""
OPEN = "p:myopen do_sys_openat2 filename=+0(%si):string"
RAW = EVIL.encode() + b"\x9b\xff"
SHOWN = rb"\x1b]0;owned\x07\x1b[2J\x7f\u009b31m\x9b\xff"
HARMLESS = bytes(range(0x20, 0x7F)) + b"\t\r\n"  # what the terminal itself adds is \r


@pytest.fixture
def evil(tmp_path: Path) -> list[str]:
    """Return the options for a machine whose tasks have escapes in their names and their files'."""
    path = tmp_path / "evil.toml"
    path.write_text(ACTIVITY.format(text=RAW.hex()), encoding="utf-8")
    return ["--tracefs", f"sim:6.1,activity={path}"]


@pytest.fixture
def spawn_bytes(environment: dict[str, str], command: list[str]) -> Iterator[Callable[..., Any]]:
    """Start the command in a terminal of its own."""
    started = []

    def start(*argv: str) -> Any:
        child = pexpect.spawn(
            command[0], [*command[1:], *argv], env=environment, timeout=60, dimensions=(24, 200), echo=False
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


def everything(child: pexpect.spawn) -> bytes:
    child.expect(pexpect.EOF)
    child.close()
    return bytes(child.before)


@pytest.mark.parametrize("options", [[], ["-H"], ["-s"]])
def test_a_terminal_shows_them(spawn_bytes: Callable[..., Any], evil: list[str], options: list[str]) -> None:
    text = everything(spawn_bytes(*evil, *options, "--max-events", "2", OPEN))
    assert b'filename="' + SHOWN + b'"' in text
    assert rb" \x1b[31mcat-2841" in text
    assert set(text) <= set(HARMLESS)


def test_a_terminal_shows_them_as_they_come(spawn_bytes: Callable[..., Any], evil: list[str]) -> None:
    child = spawn_bytes(*evil, OPEN)
    child.expect_exact(b'filename="' + SHOWN + b'"\r\n')
    child.sendintr()
    assert b"Ending tracing..." in everything(child)


def test_a_pipe_gets_the_bytes(environment: dict[str, str], command: list[str], evil: list[str]) -> None:
    argv = [*command, *evil, "--max-events", "2", OPEN]
    done = subprocess.run(argv, env=environment, capture_output=True, timeout=60)
    assert b'filename="' + RAW + b'"\n' in done.stdout
    assert b" \x1b[31mcat-2841" in done.stdout
    assert b"\\x" not in done.stdout


def test_a_file_gets_the_bytes_though_stderr_is_a_terminal(
    environment: dict[str, str], command: list[str], evil: list[str], tmp_path: Path
) -> None:
    argv = ["-c", 'out="$0"; "$@" > "$out"', str(tmp_path / "out"), *command, *evil, "--max-events", "2", OPEN]
    text = everything(pexpect.spawn("sh", argv, env=environment, timeout=60, dimensions=(24, 200)))
    assert b"Ending tracing..." in text
    assert b'filename="' + RAW + b'"\n' in (tmp_path / "out").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv",
    [
        ["p:x\x1b[31m vfs_read+5z"],
        ["\x1b[31m"],
        ["p:vfs_read", f"comm == {EVIL} && x"],
        ["p:x vfs_read a=%\x1b[31m"],
        ["p:vfs\x1b[31m"],
        ["-d", EVIL, "p:x"],
        ["--tracefs", f"sim:6.1,activity={EVIL}.toml", "p:x"],
        ["--tracefs", EVIL, "p:x"],
    ],
)
def test_errors_on_a_terminal_show_them(spawn_bytes: Callable[..., Any], argv: list[str]) -> None:
    where = [] if "--tracefs" in argv else ["--tracefs", "sim:6.1"]
    text = everything(spawn_bytes(*where, *argv))
    for word, code in MARKS.items():  # our own
        text = text.replace(f"\x1b[{code}m{word}\x1b[0m:".encode(), f"{word}:".encode())
    assert b"ERROR: " in text
    assert set(text.decode()) <= {*map(chr, HARMLESS), "…"}  # a hint's own


def test_errors_in_a_file_have_the_bytes_that_were_given(environment: dict[str, str], command: list[str]) -> None:
    definition = b"p:x vfs_read+5\x1b\xff"
    done = subprocess.run([*map(str.encode, command), definition], env=environment, capture_output=True, timeout=60)
    assert done.stderr == (b"ERROR: this is not an offset\n  " + definition + b"\n" + b" " * 14 + b"^\n")
