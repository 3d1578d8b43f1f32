"""Directories for a moment: gone when they aren't used, and when one who was killed used them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kprobe_vm.host.scratch import scratch, sweep

USER = """
import sys
from pathlib import Path
from kprobe_vm.host.scratch import scratch
with scratch(Path(sys.argv[1])) as place:
    (place / "half").write_bytes(b"x")
    print(place, flush=True)
    sys.stdin.read()
"""


def test_it_is_gone_afterwards(tmp_path: Path) -> None:
    with scratch(tmp_path) as place:
        assert place.parent == tmp_path
        (place / "file").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []


def test_the_temporary_directory_is_the_users(tmp_path: Path) -> None:
    code = "from kprobe_vm.host.scratch import scratch\nwith scratch() as place:\n    print(place.parent)"
    path = ":".join(entry for entry in sys.path if entry)
    environment = {"TMPDIR": str(tmp_path), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}\n"


def test_who_is_killed_leaves_it_to_the_next(tmp_path: Path) -> None:
    mine = tmp_path / "kprobe-vm-notes"
    mine.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", USER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout is not None
        place = Path(user.stdout.readline().strip())
        sweep(tmp_path)
        assert (place / "half").exists()  # it is used
        user.kill()
        user.wait()
    assert (place / "half").exists()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [mine]  # only what bears our name goes


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / ".kprobe-vm-scratch-x").symlink_to(tmp_path / "kept")
    sweep(tmp_path)
    assert (tmp_path / "kept").exists()
