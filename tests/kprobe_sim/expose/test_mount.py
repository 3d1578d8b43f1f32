"""`kprobe-sim mount DIR`: for root (or root of a user namespace), until it is told to end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kprobe_sim.builds import profile

from .conftest import KPROBE_SIM, environment

NEWEST = profile.load().release


class Mounted(NamedTuple):
    """A shell in a mount namespace of its own, in which the simulator is mounted on `directory`."""

    shell: subprocess.Popen[str]
    directory: Path

    def do(self, script: str) -> str:
        """Run a script in the shell; return what it prints."""
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(f"{script}\necho END\n")
        self.shell.stdin.flush()
        lines = iter(self.shell.stdout.readline, "END\n")
        return "".join(line for line in lines)


@pytest.fixture
def mounted(can_mount: None, tmp_path: Path) -> Iterator[Mounted]:
    server = f"{' '.join(KPROBE_SIM)} mount --activity none {tmp_path}"
    with subprocess.Popen(
        ["unshare", "-Urm", "sh"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    ) as shell:
        found = Mounted(shell, tmp_path)
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(f"{server} & server=$!\n")
        shell.stdin.flush()
        said = shell.stdout.readline()
        assert said == f"kprobe-sim: {NEWEST} on {tmp_path}; interrupt (Ctrl-C) to unmount\n"
        yield found
        shell.stdin.write("kill $server; wait $server\n")
        shell.stdin.close()
        try:
            shell.wait(10)
        finally:
            shell.kill()


def test_its_files_are_there(mounted: Mounted) -> None:
    assert mounted.do(f"cat {mounted.directory}/tracing_on") == "1\n"


def test_it_shows_as_tracefs_as_far_as_it_can(mounted: Mounted) -> None:
    assert mounted.do(f"grep -c '^tracefs {mounted.directory} fuse.tracefs rw,' /proc/mounts") == "1\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unmounts(mounted: Mounted, number: int) -> None:
    assert mounted.do(f"kill -{number} $server; wait $server; echo $?; ls {mounted.directory}") == "0\n"


def test_unmounting_ends_it(mounted: Mounted) -> None:
    assert mounted.do(f"umount {mounted.directory}; wait $server; echo $?") == "0\n"


def test_killed_it_leaves_no_mount(mounted: Mounted) -> None:
    script = "kill -9 $server; wait $server; while grep -q {0} /proc/mounts; do :; done; ls {0}"
    assert [line for line in mounted.do(script.format(mounted.directory)).splitlines() if "Killed" not in line] == []


def test_a_reader_is_freed_when_it_ends(mounted: Mounted) -> None:
    script = (
        f"cat {mounted.directory}/trace_pipe & reader=$!; "
        f'while [ "$(readlink /proc/$reader/fd/3)" != {mounted.directory}/trace_pipe ]; do :; done; '  # it is open
        'while [ "$(cut -d" " -f3 /proc/$reader/stat)" != S ]; do :; done; '  # and waits in its read
        "kill $server; wait $server; wait $reader; echo $?"
    )
    assert mounted.do(script).endswith(": Software caused connection abort\n1\n")


def test_no_such_directory(can_mount: None, tmp_path: Path) -> None:
    done = subprocess.run([*KPROBE_SIM, "mount", f"{tmp_path}/no"], capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stderr) == (125, f"kprobe-sim: mount: {tmp_path}/no is not a directory\n")


@pytest.mark.requires("an ordinary user", "/dev/fuse")
def test_a_user_without_helper(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kprobe_sim.cli", "mount", str(tmp_path)],
        capture_output=True,
        text=True,
        env={**environment(), "PATH": ""},
    )
    assert done.returncode == 125
    assert "install fuse3" in done.stderr
