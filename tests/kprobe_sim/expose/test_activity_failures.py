"""A run whose activity fails once the command has started: it says so, and its status tells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

UNCHECKED = """\
import sys
from kprobe_sim.cli import main
from kprobe_sim.kernel.activity import Activity
Activity.check = lambda *_: None
sys.exit(main(sys.argv[1:]))
"""


def run(path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    words = ["run", "--kernel", "6.1", "--activity", str(path), "--", *command]
    return subprocess.run([sys.executable, "-c", UNCHECKED, *words], capture_output=True, text=True, timeout=30)


def test_a_call_that_fails_in_a_run_counts_in_its_status(tmp_path: Path, can_mount: None) -> None:
    path, pipe = tmp_path / "a.toml", tmp_path / "pipe"
    path.write_text(
        "repeat = true\n[[call]]\nfunction = 'nosuch'\ntask = 'cat-1'\nafter = 0\n"
        "[[call]]\nfunction = 'vfs_read'\ntask = 'cat-1'\nafter = 0.01\n"
    )
    pipe.write_text(
        "cd /sys/kernel/tracing; echo p:a vfs_read > kprobe_events; echo 1 > events/kprobes/a/enable\n"
        "read -r line < trace_pipe; exit $1\n"
    )
    done = run(path, "bash", str(pipe), "0")
    assert done.returncode == 123
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kprobe-sim: {path}: call 1 (line 2): no symbol for the function 'nosuch' in 6.1.0-")
    assert run(path, "bash", str(pipe), "7").returncode == 7
