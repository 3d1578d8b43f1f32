"""The hook that .pre-commit-hooks.yaml offers, run by pre-commit itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Repository:
    """A git repository that nobody's configuration has a say in."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path = path
        self.path.mkdir()
        bin_ = Path(sys.executable).parent  # where the command kprobe is
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))},
            "HOME": str(home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "PRE_COMMIT_HOME": str(home / "pre-commit"),
            "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
        }
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org"]
        return self._run("git", *who, *words, status=0)

    def commit(self, **files: str) -> str:
        for name, text in files.items():
            (self.path / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "files")
        return self.git("rev-parse", "HEAD").strip()

    def pre_commit(self, *words: str, status: int) -> str:
        return self._run(sys.executable, "-m", "pre_commit", *words, status=status)

    def _run(self, *command: str, status: int) -> str:
        done = subprocess.run(
            command, cwd=self.path, env=self._environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout


@pytest.mark.slow
@pytest.mark.requires("git")
def test_the_hook(tmp_path: Path) -> None:
    """With the installed command: pre-commit would install the whole package for `language: python`, in a minute."""
    offered = Repository(tmp_path / "offered", tmp_path)
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", offered.path)
    revision = offered.commit()
    used = Repository(tmp_path / "used", tmp_path)
    hook = '{id: kprobe-check, language: system, args: [--kernels, "6.1,6.12"]}'
    configuration = f"repos:\n- repo: file://{offered.path}\n  rev: {revision}\n  hooks: [{hook}]\n"
    used.commit(**{
        ".pre-commit-config.yaml": configuration,
        "good.sh": "#!/bin/sh\necho 'p:x vfs_read' >> kprobe_events\n",
        "notes.txt": "p:x _do_fork\n",  # of no type that the hook is for
    })  # fmt: skip
    said = used.pre_commit("run", "--all-files", "--verbose", status=0)
    assert "kprobe check" in said
    assert "1 statement on 2 kernels: 1 taken by all" in said
    used.commit(**{"bad.py": "PROBE = 'p:x _do_fork'\n"})
    said = used.pre_commit("run", "--all-files", status=1)
    assert "bad.py:1: p:x _do_fork\n" in said
    assert "instead: p:x kernel_clone" in said
