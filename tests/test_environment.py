"""The checkout's virtual environment: what `make demo` makes of python3 alone, and what can be done with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def make(directory: Path, ensurepip: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Make the environment with a python3 whose ensurepip is this program."""
    place = tmp_path / "modules" / "ensurepip"
    place.mkdir(parents=True)
    (place / "__init__.py").touch()
    (place / "__main__.py").write_text(ensurepip)
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "setup" / "environment.py", directory],
        env={**os.environ, "PYTHONPATH": str(place.parent)},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )


def test_pip_is_there_if_python_has_it(tmp_path: Path) -> None:
    directory = tmp_path / "environment"
    note = "import sys; open(sys.prefix + '/asked', 'w').write(' '.join(sys.argv[1:]))"
    assert make(directory, note, tmp_path).stderr == ""
    assert (directory / "asked").read_text() == "--upgrade --default-pip"


def test_without_pip_it_is_said_what_to_do(tmp_path: Path) -> None:
    directory = tmp_path / "environment"
    assert make(directory, "raise SystemExit(1)", tmp_path).stderr == (
        f"NOTE: {directory} has no pip, as this python3 has no ensurepip. The commands in it and the demo need none.\n"
        "To install more into it: on Debian `apt-get install python3-venv`, elsewhere your system's ensurepip, and\n"
        f"`{directory}/bin/python -m ensurepip`; or `make test`, which fetches pip and the test tools.\n"
    )
    done = subprocess.run([directory / "bin" / "kprobe", "-h"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("USAGE: kprobe ")
    script = (directory / "bin" / "kprobe").read_text()
    # nothing that costs time to import, as pip's own scripts do
    assert script == f"#!{directory}/bin/python\nimport sys\n\nfrom kprobe.cli import main\n\nsys.exit(main())\n"


@pytest.mark.requires("pip")
def test_pip_can_take_it_back(tmp_path: Path) -> None:
    """As it does when it installs the same from the checkout: it refused, for want of a RECORD."""
    directory = tmp_path / "environment"
    make(directory, "", tmp_path)
    pip = [sys.executable, "-m", "pip", "--python", directory / "bin" / "python", "--disable-pip-version-check"]
    names = ["kprobe-sim", "kprobe-sim-profiles", "kprobe-sim-profiles-old", "kprobe-corpus"]
    done = subprocess.run([*pip, "uninstall", "-y", *names], capture_output=True, text=True, timeout=100)
    for name in names:
        assert f"Successfully uninstalled {name}-0" in done.stdout, done.stdout + done.stderr
    assert list(directory.rglob("*kprobe*")) == []
