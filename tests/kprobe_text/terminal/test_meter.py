"""How far long work is: a bar on a terminal, lines elsewhere; never a bar where nobody looks."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios

import pytest

from kprobe_text.terminal import meter
from kprobe_text.terminal.meter import Meter

SCRIPT = """
import sys
BLOCK
from kprobe_text.terminal.meter import Meter
with Meter("testing", 4, "texts") as meter:
    for _ in range(4):
        meter.add()
print("tqdm" in sys.modules)
"""


def on_terminal(script: str) -> str:
    """Run a script whose standard error is a terminal; return what that shows and what it prints."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with os.fdopen(ours, "rb", 0) as screen:
        process = subprocess.Popen([sys.executable, "-c", script], stdout=theirs, stderr=theirs)
        os.close(theirs)
        said = b""
        try:
            while data := screen.read(4096):
                said += data
        except OSError:  # EIO: nobody has the terminal open any more
            pass
        assert process.wait(30) == 0
    return said.decode()


def test_a_bar_on_a_terminal_is_gone_at_the_end() -> None:
    shown = on_terminal(SCRIPT.replace("BLOCK", ""))
    assert "testing:   0%" in shown
    assert " 0/4 [" in shown
    assert shown.endswith("\rTrue\r\n")


def test_without_tqdm_a_terminal_has_no_bar() -> None:
    assert on_terminal(SCRIPT.replace("BLOCK", "sys.modules['tqdm'] = None")) == "True\r\n"


def test_elsewhere_it_is_lines_and_tqdm_is_not_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 1.0, 6.0, 6.5, 12.0])
    monkeypatch.setattr(meter.time, "monotonic", lambda: next(now))
    with Meter("testing", 4, "texts") as shown:
        for _ in range(4):
            shown.add()
    assert capsys.readouterr().err == "testing ... 2 of 4 texts\ntesting ... 4 of 4 texts\n"
    done = subprocess.run([sys.executable, "-c", SCRIPT.replace("BLOCK", "")], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
