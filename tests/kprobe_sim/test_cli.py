"""What kprobe-sim says on standard output, and what becomes of it if nobody can have it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kprobe_sim.cli import main


def run(module: str, word: str, output: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", module, word], stdout=output, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    ("module", "word", "status"),
    [("kprobe_sim.cli", "--version", 1), ("kprobe_sim.cli", "profiles", 1), ("kprobe_vm.cli", "--version", 125)],
)
def test_a_full_disk(module: str, word: str, status: int) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    done = run(module, word, full)
    os.close(full)
    assert (done.returncode, done.stderr.count(b"\n")) == (status, 1)
    assert b"No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("module", "word"),
    [("kprobe_sim.cli", "--version"), ("kprobe_sim.cli", "profiles"), ("kprobe_vm.cli", "--version")],
)
def test_a_reader_that_has_gone(module: str, word: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run(module, word, writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


CLOSED = "kprobe-sim: standard output is closed: there is nowhere to print to\n"


@pytest.mark.parametrize("words", ["profiles", "--version", "text --list", "text typical", "replay --list"])
@pytest.mark.parametrize(
    ("closing", "status", "said"), [(">&-", 2, CLOSED), ("2>&-", 0, ""), ("<&-", 0, ""), (">&- 2>&- <&-", 2, "")]
)
def test_started_without_a_standard_file(words: str, closing: str, status: int, said: str) -> None:
    line = f'"$0" -m kprobe_sim {words} {closing}'
    done = subprocess.run(["sh", "-c", line, sys.executable], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, said)
    assert (done.stdout == "") == (status == 2)


def test_errors_never_go_to_standard_output() -> None:
    line = '"$0" -m kprobe_sim text nosuch.toml 2>&-'
    done = subprocess.run(["sh", "-c", line, sys.executable], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("rnu uname", "kprobe-sim: no verb 'rnu'; did you mean run?\nkprobe-sim --help explains\n"),
        ("run --kernle 6.1 uname", "kprobe-sim run: unknown option --kernle; did you mean --kernel?\n"
                                   "kprobe-sim run --help explains\n"),
        ("run", "kprobe-sim run: a COMMAND is needed: kprobe-sim run -- COMMAND...\nkprobe-sim run --help explains\n"),
        ("mount a b", "kprobe-sim mount: one word too many: b\nkprobe-sim mount --help explains\n"),
        ("text --lsit", "kprobe-sim text: unknown option --lsit; did you mean --list?\n"
                        "kprobe-sim text --help explains\n"),
        ("zzz", "kprobe-sim: no verb 'zzz': run, mount, profiles, replay, record-local, text\n"
                "kprobe-sim --help explains\n"),
    ],
)  # fmt: skip
def test_wrong_words_are_said_in_one_line(typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(typed.split())
    assert (ended.value.code, capsys.readouterr().err) == (2, said)
