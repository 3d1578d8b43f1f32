"""What is said of what takes time: on a terminal, elsewhere, and under pytest."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kprobe_vm.host.progress import ProgressPrinter, bytes_of, measured


class Terminal(io.StringIO):
    """A text file that says it is a terminal; `wrote` waits until something was written."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self._changed = threading.Condition()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        with self._changed:
            self._changed.notify_all()
            return super().write(text)

    def wrote(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.getvalue(), 20)


def test_elsewhere_each_step_is_a_line_and_a_long_one_several() -> None:
    out = Terminal(False)
    tell = ProgressPrinter(out, tick=0.01)
    tell("one")
    with measured(tell, "fetching it", lambda: "1.0 of 2.0 MB"):
        out.wrote("fetching it: 1.0 of 2.0 MB, 0 s\n")
    lines = out.getvalue().splitlines()
    assert lines[:3] == ["kprobe-vm: one", "kprobe-vm: fetching it", "kprobe-vm: fetching it: 1.0 of 2.0 MB, 0 s"]
    assert "\x1b" not in out.getvalue()
    assert "\r" not in out.getvalue()


def test_on_a_terminal_a_step_is_one_line_that_changes() -> None:
    out = Terminal(True)
    tell = ProgressPrinter(out, tick=0.01)
    with measured(tell, "booting 6.1", lambda: "the kernel starts"):
        out.wrote("\r\x1b[Kkprobe-vm: booting 6.1: the kernel starts, 0 s")
    assert out.getvalue().endswith("\r\x1b[Kkprobe-vm: booting 6.1\n")
    assert out.getvalue().count("\n") == 1


def test_what_is_done_soon_needs_no_word() -> None:
    out = Terminal(False)
    tell = ProgressPrinter(out, after=60.0)
    with measured(tell, "cloning"):
        tell("done")
    assert out.getvalue() == ""


def test_what_takes_long_is_told_with_what_was_before_it() -> None:
    out = Terminal(False)
    tell = ProgressPrinter(out, after=0.05)
    tell("one")
    with measured(tell, "two"):
        out.wrote("kprobe-vm: one\nkprobe-vm: two\n")


def test_a_step_that_fails_is_told_as_others() -> None:
    out = Terminal(True)
    with pytest.raises(OSError, match="broken"), measured(ProgressPrinter(out), "fetching"):
        raise OSError("broken")
    assert out.getvalue().endswith("kprobe-vm: fetching\n")


def test_any_function_bears_it() -> None:
    said: list[str] = []
    with measured(said.append, "one", lambda: "never"):
        pass
    assert said == ["one"]


def test_an_output_that_is_closed_stops_nobody() -> None:
    out = Terminal(False)
    out.close()
    ProgressPrinter(out)("one")


@pytest.mark.parametrize(("done", "text"), [(0, ""), (12_340_000, "12.3 of 26.6 MB")])
def test_bytes(done: int, text: str) -> None:
    assert bytes_of(done, 26_639_112) == text


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["-q"], ["-v"], ["-s"]])
def test_under_pytest_it_is_seen_on_lines_of_its_own(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "conftest.py").write_text(
        "import time, kprobe.tracefs.backends\n"
        "from kprobe_vm.host.progress import ProgressPrinter, measured\n"
        "def slow(spec):\n"
        "    with measured(ProgressPrinter(after=0.1), f'booting {spec}'):\n"
        "        time.sleep(0.4)\n"
        "    raise OSError('enough')\n"
        "kprobe.tracefs.backends.open_tracefs = slow\n"
    )
    (tmp_path / "test_it.py").write_text("def test_it(tracefs): pass\n")
    plugins = ["-p", "kprobe_sim.pytest_plugin", "-p", "no:cacheprovider"]
    words = [sys.executable, "-m", "pytest", *arguments, *plugins, "--tracefs", "vm:6.1", str(tmp_path)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=110, check=False, cwd=tmp_path, env=alone)
    assert "kprobe-vm: booting vm:6.1\n" in done.stderr
    assert "kprobe-vm" not in done.stdout
    assert done.returncode != 0


def test_the_command_writes_over_its_line_on_a_terminal_and_nothing_into_a_pipe() -> None:
    program = (
        "from kprobe_vm.host.progress import ProgressPrinter, measured; import time\n"
        "with measured(ProgressPrinter(), 'booting'): time.sleep(0.5)\n"
        "print('out')"
    )
    shown = _on_a_terminal([sys.executable, "-c", program])
    assert "\r\x1b[Kkprobe-vm: booting\r\n" in shown


def _on_a_terminal(words: list[str]) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # its other end is closed
            pass
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert out == b"out\n"
    return shown.decode()
