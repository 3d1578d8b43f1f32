"""The Makefile runs it first: makes the checkout's virtual environment, for the demo or for development.

    python3 tools/setup/environment.py         packages, commands, the profiles of all kernels and the corpus, all from
                                               the checkout, and pip if python3 has ensurepip (Debian's package
                                               python3-venv); needs nothing but python3 and no network
    python3 tools/setup/environment.py --dev   also the extra [dev], installed by pip

Debian's python3 comes without ensurepip.  Then --dev takes pip from Debian's package python3-pip-whl, fetched by apt
under a private configuration, so that neither root nor python3-venv is needed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BROUGHT = [
    ROOT / "distributions" / name for name in ("kprobe-sim-profiles", "kprobe-sim-profiles-old", "kprobe-corpus")
]
PROJECTS = {ROOT: ("", "vm")} | dict.fromkeys(BROUGHT, ("src",))  # and where in them packages are
NO_PIP = """\
NOTE: {environment} has no pip, as this python3 has no ensurepip. The commands in it and the demo need none.
To install more into it: on Debian `apt-get install python3-venv`, elsewhere your system's ensurepip, and
`{environment}/bin/python -m ensurepip`; or `make test`, which fetches pip and the test tools."""
WHEELS = "usr/share/python-wheels"


def site_packages(environment: Path) -> Path:
    """Return the environment's site-packages directory."""
    return environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def link_checkout(environment: Path) -> None:
    """Make packages, entry points and commands of the checkout visible in the environment, as pip -e would."""
    for directory, places in PROJECTS.items():
        link(environment, directory, places)


def link(environment: Path, directory: Path, places: Sequence[str]) -> None:
    """Make those of one project visible, whose packages are in some places of its directory."""
    declared = tomllib.loads((directory / "pyproject.toml").read_text())
    project = declared["project"]
    site = site_packages(environment)
    paths = site / f"{project['name']}-checkout.pth"
    paths.write_text("".join(f"{directory / place}\n" for place in places))
    facts = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    facts.mkdir(exist_ok=True)
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    for extra, needed in project.get("optional-dependencies", {}).items():  # for pip install 'kprobe-sim[top]'
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {one}; extra == "{extra}"' for one in needed)]
    (facts / "METADATA").write_text("\n".join(lines) + "\n")
    commands = [directory / path for path in declared["tool"]["setuptools"].get("script-files", ())]
    (facts / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
            for group, entries in project["entry-points"].items()
        )
    )
    for command in commands:
        script = environment / "bin" / command.name
        script.write_text(f"#!{environment / 'bin' / 'python'}{command.read_text().removeprefix('#!python')}")
        script.chmod(0o755)
    (facts / "INSTALLER").write_text("make\n")
    scripts = [f"../../../bin/{command.name}" for command in commands]
    own = [f"{facts.name}/{name}" for name in ("METADATA", "entry_points.txt", "INSTALLER", "RECORD")]
    # by this pip takes it all back when it installs the same properly
    (facts / "RECORD").write_text("".join(f"{path},,\n" for path in [paths.name, *scripts, *own]))


def unlink_checkout(environment: Path) -> None:
    """Take back what `link_checkout` wrote, for pip to install the same properly."""
    site = site_packages(environment)
    for pattern in ("kprobe-*-checkout.pth", "kprobe_sim*-*.dist-info", "kprobe_corpus*-*.dist-info"):
        for path in site.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def has_pip(environment: Path) -> bool:
    """Put pip into the environment by ensurepip, which needs no network; return whether it is there."""
    python = environment / "bin" / "python"
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return True
    done = subprocess.run([python, "-m", "ensurepip", "--upgrade", "--default-pip"], capture_output=True)
    return done.returncode == 0


def bring_pip(environment: Path) -> None:
    """Put pip into the environment: by ensurepip, else from Debian's wheel."""
    if has_pip(environment):
        return
    python = environment / "bin" / "python"
    with tempfile.TemporaryDirectory() as scratch:
        wheel = debian_wheel(Path(scratch))
        subprocess.run([python, f"{wheel}/pip", "install", "--quiet", "--no-index", wheel], check=True)


def debian_wheel(scratch: Path) -> Path:
    """Fetch Debian's pip wheel with apt under a private configuration; return its path."""
    if shutil.which("apt-get") is None:
        sys.exit("python3 has no ensurepip and there is no apt-get: install pip or the venv package of your system")
    for name in ("lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True)
    (scratch / "status").touch()
    apt = [
        "apt-get",
        "-qq",
        *("-o", f"Dir::State::lists={scratch / 'lists'}", "-o", f"Dir::State::status={scratch / 'status'}"),
        *("-o", f"Dir::Cache={scratch / 'cache'}", "-o", "APT::Sandbox::User="),
        *("-o", "Debug::NoLocking=1"),
    ]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", "python3-pip-whl"], check=True, cwd=scratch)
    package = next(scratch.glob("python3-pip-whl_*.deb"))
    subprocess.run(["dpkg-deb", "-x", package, scratch / "root"], check=True)
    return next((scratch / "root" / WHEELS).glob("pip-*.whl"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dev", action="store_true", help="install the extra [dev] as well")
    parser.add_argument("directory", nargs="?", default=ROOT / ".venv", type=Path)
    options = parser.parse_args()
    environment = options.directory.absolute()
    if not (environment / "bin" / "python").exists():
        venv.create(environment, with_pip=False, symlinks=os.name != "nt")
    if not options.dev:
        if not any(site_packages(environment).glob("kprobe_sim-*.dist-info")):
            link_checkout(environment)
        if not has_pip(environment):
            print(NO_PIP.format(environment=environment), file=sys.stderr)
        return
    bring_pip(environment)
    unlink_checkout(environment)
    subprocess.run(
        [
            environment / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *("-e", f"{ROOT}[dev]"),
            *[word for directory in BROUGHT for word in ("-e", str(directory))],
        ],
        check=True,
    )


if __name__ == "__main__":
    main()
