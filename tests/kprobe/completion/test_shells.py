"""Completion in real shells, each in a terminal of its own: what stands on the command line after TAB."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

BIN = Path(sys.executable).parent
SIM = "kprobe --tracefs sim:6.12"
START = {
    "bash": ["--norc", "--noprofile", "-i"],
    "zsh": ["-f", "-i"],
    "fish": ["--no-config", "-i"],
}
# what makes the shell ready: no prompt that moves, and our completion as its users get it
READY = {
    "bash": "PS1='> '; bind 'set enable-bracketed-paste off'; eval \"$(kprobe completion bash)\"; echo rea''dy",
    "zsh": "PS1='> '; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -D; "
    "eval \"$(kprobe completion zsh)\"; echo rea''dy",
    "fish": "function fish_prompt; echo '> '; end; function fish_title; end; set fish_greeting; "
    "for c in kprobe kprobe-sim kprobe-vm; complete -c $c -e; end; kprobe completion fish | source; echo rea''dy",
}
DRAWN = r"(?:\x1b\[[0-9;?]*[A-Za-z]|\x1b\(B|[\x08\r])*"
Completed = Callable[[str, str], None]


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.requires(name)) for name in START])
def completed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Completed]:
    """Return what types something and TAB, and waits for a word on the command line."""
    name: str = request.param
    home = tmp_path_factory.mktemp("home")
    environment = {
        "HOME": str(home),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "TERM": "dumb" if name == "bash" else "xterm",
        "LANG": "C.UTF-8",
        "XDG_DATA_HOME": os.devnull,
        "fish_features": "no-query-term",
    }
    child = pexpect.spawn(name, START[name], env=environment, timeout=12, encoding="utf-8", dimensions=(50, 300))
    child.sendline(READY[name])
    child.expect_exact("ready\r\n")

    def completed(typed: str, word: str) -> None:
        """Wait until the word stands on the command line, whatever the shell does in between to draw it."""
        child.send(f"{typed}\t")
        child.expect(DRAWN.join(map(re.escape, word)))
        child.send("\x03")
        child.expect_exact("> ")

    yield completed
    child.close(force=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("kprobe fun", "functions"),
        ("kprobe --tracefs sim:5.1", "sim:5.10"),
        (f"{SIM} p:vfs_readl", "p:vfs_readlink"),
        (f"{SIM} 'p:mine vfs_readlink len=%dx:s3", "len=%dx:s32"),
        (f"{SIM} 'p:mine vfs_readlink length=%dx:s32' 'length < 9 && common_pi", "&& common_pid"),
        ("kprobe-sim prof", "profiles"),
    ],
)
def test_one_way_to_go_on(completed: Completed, typed: str, word: str) -> None:
    assert word not in typed
    completed(typed, word)


def test_without_argcomplete_it_says_what_brings_it() -> None:
    code = (
        "import sys; sys.modules['argcomplete'] = sys.modules['argcomplete.shell_integration'] = None; "
        "from kprobe.cli import main; sys.exit(main(['completion', 'bash']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "ERROR: completion needs argcomplete: pip install 'kprobe-sim[completion]', or Debian's python3-argcomplete\n"
    )
