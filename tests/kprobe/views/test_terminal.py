"""Latencies and `kprobe top` in a real terminal, and where there is none."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
from collections.abc import Iterator

import pexpect
import pyte
import pytest

from kprobe.views.keys import Keys
from kprobe_text.figures.rates import Rates, text
from kprobe_text.text import Event, Lost

COMMAND = [sys.executable, "-m", "kprobe", "--tracefs", "sim:6.12"]
OPENS = "p:opens do_sys_openat2"


def spawn(*words: str, term: str = "xterm") -> pexpect.spawn:
    command = [*COMMAND[1:], *words]
    terminal = {**os.environ, "TERM": term}
    return pexpect.spawn(COMMAND[0], command, timeout=30, dimensions=(24, 80), encoding="utf-8", env=terminal)


@pytest.mark.slow
def test_a_latency_has_bars_as_wide_as_the_terminal() -> None:
    child = spawn("--latency", "-d", "1", "do_sys_openat2")
    child.expect(pexpect.EOF)
    lines = child.before.splitlines()
    assert "do_sys_openat2, from entry to return" in lines
    bars = [line for line in lines if "█" in line]
    assert bars
    assert max(map(len, lines[lines.index("do_sys_openat2, from entry to return") :])) <= 80
    assert max(map(len, bars)) >= 75  # the highest
    child.close()
    assert child.exitstatus == 0


@pytest.mark.slow
@pytest.mark.requires("rich")
def test_top_shows_rates_until_it_is_interrupted() -> None:
    child = spawn("top", OPENS)
    child.expect_exact("\x1b[?1049h")  # a screen of its own
    child.expect("kprobe top")
    child.expect(r"PER SECOND.*EVENT")
    child.expect(r"supervise-1689")
    child.sendintr()
    child.expect_exact("\x1b[?1049l")
    child.expect(r"\d+ s: [0-9.]+ events/s on average, \d+ in all")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Give the two ends of a terminal, of 12 rows and 50 columns: what a program has, and what is behind it."""
    behind, own = pty.openpty()
    termios.tcsetwinsize(own, (12, 50))
    yield own, behind
    os.close(behind)
    os.close(own)


def drawn(behind: int, screen: pyte.Screen, word: str) -> None:
    """Draw what comes until a word stands on the screen."""
    stream = pyte.ByteStream(screen)
    while not any(word in line for line in screen.display):
        assert select.select([behind], [], [], 20)[0], screen.display
        stream.feed(os.read(behind, 4096))


@pytest.mark.slow
@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
def test_a_narrow_screen_has_its_cpus_and_a_key_ends_it(terminal: tuple[int, int], key: bytes) -> None:
    own, behind = terminal
    before = termios.tcgetattr(own)
    code = "import os, sys; os.login_tty(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", code, *COMMAND[1:], "top", OPENS]
    sizes = {"COLUMNS", "LINES"}  # which a program believes rather than its terminal
    environment = {name: value for name, value in os.environ.items() if name not in sizes} | {"TERM": "xterm"}
    with subprocess.Popen(command, stdin=own, stdout=own, stderr=own, env=environment) as child:
        screen = pyte.Screen(50, 12)
        drawn(behind, screen, "cat-2841")
        lines = [line.rstrip() for line in screen.display]
        assert lines[0] == "kprobe top  opens"
        assert lines[3] == "PER SECOND    IN ALL  EVENT"
        assert lines[6] == "PER SECOND    IN ALL  TASK"
        at = lines.index("PER SECOND    IN ALL  CPU")
        assert re.fullmatch(r" +[0-9.]+ +\d+  0", lines[at + 1])
        assert lines[at + 2] == "q or Ctrl-C ends"
        assert termios.tcgetattr(own) != before
        os.write(behind, key)
        drawn(behind, screen, "on average")
        while child.poll() is None:  # it ends once all is taken
            if select.select([behind], [], [], 0.05)[0]:
                os.read(behind, 4096)
        assert child.returncode == 0
    assert termios.tcgetattr(own) == before


def test_keys_of_another_job_are_left_to_it(monkeypatch: pytest.MonkeyPatch, terminal: tuple[int, int]) -> None:
    """In the background of a shell, to set its terminal would stop the process."""
    own, behind = terminal
    before = termios.tcgetattr(own)
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)
    with Keys(own) as keys:
        os.write(behind, b"q\n")
        assert (keys.are_seen, keys.pressed(), termios.tcgetattr(own) == before) == (False, b"", True)
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
    with Keys(own) as keys:
        assert (keys.are_seen, keys.pressed(), keys.pressed()) == (True, b"q\n", b"")
    assert termios.tcgetattr(own) == before


@pytest.mark.slow
def test_top_gives_lines_where_there_is_no_terminal() -> None:
    done = subprocess.run([*COMMAND, "top", "-d", "1", OPENS], capture_output=True, check=True, timeout=60)
    assert re.search(r"^ +[0-9.]+ +\d+  opens$", done.stdout.decode(), re.M)
    assert b"\x1b" not in done.stdout


def test_top_gives_lines_on_a_terminal_that_has_no_screen() -> None:
    """It gave nothing there."""
    child = spawn("top", "-d", "1", OPENS, term="dumb")
    child.expect(r"\d+  opens\r\n")
    child.expect(pexpect.EOF)
    assert "\x1b" not in child.before


def test_top_names_the_extra_that_it_needs() -> None:
    code = (
        "import sys, importlib.util\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'rich' else found(name, *more)\n"
        "from kprobe.cli import main\n"
        f"sys.exit(main(['--tracefs', 'sim:6.12', 'top', '{OPENS}']))\n"
    )
    terminal = {**os.environ, "TERM": "xterm"}
    child = pexpect.spawn(
        sys.executable, ["-c", code], timeout=30, encoding="utf-8", dimensions=(24, 200), env=terminal
    )
    child.expect_exact("pip install 'kprobe-sim[top]'")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2


def event(name: str, pid: int, cpu: int) -> Event:
    return Event("sh", pid, cpu, "", 0, name, None, None, {}, None, "time", b"")


def test_rates_are_those_since_the_last_look() -> None:
    rates = Rates(100.0, ["a"])
    for _ in range(6):
        rates.add(event("a", 1, 0))
    rates.add(event("b", 2, 1))
    rates.add(Lost(1, 5, b""))
    assert text(rates.sample(102.0)) == (
        "2 s: 3.5 events/s, 7 in all, 5 lost\n"
        "  PER SECOND     IN ALL  EVENT\n"
        "         3.0          6  a\n"
        "         0.5          1  b\n"
        "  PER SECOND     IN ALL  TASK\n"
        "         3.0          6  sh-1\n"
        "         0.5          1  sh-2\n"
        "  PER SECOND     IN ALL  CPU\n"
        "         3.0          6  0\n"
        "         0.5          1  1\n"
        "\n"
    )
    rates.add(event("b", 2, 1))
    assert text(rates.sample(104.0), most=1) == (
        "4 s: 0.5 events/s, 8 in all, 5 lost\n"
        "  PER SECOND     IN ALL  EVENT\n"
        "         0.5          2  b\n"
        "                         … 1 more\n"
        "  PER SECOND     IN ALL  TASK\n"
        "         0.5          2  sh-2\n"
        "                         … 1 more\n"
        "  PER SECOND     IN ALL  CPU\n"
        "         0.5          2  1\n"
        "                         … 1 more\n"
        "\n"
    )


def test_rates_of_the_last_look_are_those_of_the_whole_time() -> None:
    rates = Rates(100.0, ["a", "b"])
    for at in range(6):
        rates.add(event("a", 42, at % 2))
    rates.sample(102.0)
    rates.add(event("b", 42, 0))
    assert text(rates.sample(104.0, is_last=True)) == (
        "4 s: 1.8 events/s on average, 7 in all\n"
        "  PER SECOND     IN ALL  EVENT\n"
        "         1.5          6  a\n"
        "         0.2          1  b\n"
        "  PER SECOND     IN ALL  TASK\n"
        "         1.8          7  sh-42\n"
        "  PER SECOND     IN ALL  CPU\n"
        "         1.0          4  0\n"
        "         0.8          3  1\n\n"
    )
