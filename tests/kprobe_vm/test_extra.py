"""Without the Python packages of the extra [vm]: one line that says what to install, where they are needed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kprobe_vm.cli import main

ROOT = Path(__file__).parent.parent.parent


def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python that has no site-packages."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "vm")])}
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "statement",
    ["from kprobe_vm import Machine", "import kprobe_vm; kprobe_vm.Machine", "import kprobe_vm.guest.backend"],
)
def test_the_library(statement: str) -> None:
    done = bare("-c", f"try:\n    {statement}\nexcept ImportError as error:\n    print(error)")
    assert done.stderr == ""
    assert done.stdout == "kprobe_vm needs the Python packages pexpect and qemu.qmp: pip install 'kprobe-sim[vm]'\n"


def test_the_command(tmp_path: Path) -> None:
    done = bare("-m", "kprobe_vm", "boot", "6.1")
    assert done.stderr == (
        "kprobe-vm: kprobe_vm needs the Python packages pexpect and qemu.qmp: pip install 'kprobe-sim[vm]'\n"
    )
    assert done.returncode == 112


def test_check_says_so() -> None:
    done = bare("-m", "kprobe_vm", "check")
    line = "missing: the Python packages pexpect, qemu.qmp; to get them: pip install 'kprobe-sim[vm]'"
    assert line in done.stdout.splitlines()
    assert done.returncode == 1


def test_kernels_can_be_listed_without() -> None:
    done = bare("-m", "kprobe_vm", "list", "--offline", "6.1")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].startswith("6.1 ")


def test_a_scheduler_needs_the_extra_scale() -> None:
    script = (
        "import sys; sys.modules['distributed'] = None; from kprobe_vm.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = ["diff", "--against", "sim:6.12", "--scheduler", "dask://127.0.0.1:1"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == (
        "kprobe-vm: --scheduler dask://... needs the Python package distributed: pip install 'kprobe-sim[scale]'\n"
    )
    assert done.returncode == 112


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--scheduler", "tcp://host:1"], "'tcp://host:1' is no dask://HOST:PORT"),
        (["--scheduler", "dask://host"], "'dask://host' is no dask://HOST:PORT"),
        (["--jobs", "0"], "'0' isn't a number of processes"),
        (["--jobs", "2", "--scheduler", "dask://host:1"], "argument --scheduler: not allowed with argument --jobs/-j"),
    ],
)
def test_what_is_no_scheduler(options: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["matrix", *options])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
