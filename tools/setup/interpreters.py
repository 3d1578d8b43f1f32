"""`make test-python` runs it: finds a Python of a version here, in the cache or in Debian's packages.

    python3 tools/setup/interpreters.py 3.13        prints the path of one, or says why there is none

No release of Debian has 3.12; Ubuntu's noble has.  KPROBE_UBUNTU_MIRROR is the URI of a mirror; without it Ubuntu is
left out.  An unpacked package lies in the cache with the libraries that it needs, and the loader of its own C library
starts it: so it runs on any release of any distribution and touches nothing of the system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from kprobe_vm.debian import deb
from kprobe_vm.debian.apt import AptArchive, Mirrors
from kprobe_vm.errors import MachineError
from kprobe_vm.host.cache import Cache
from kprobe_vm.host.programs import KEYRING
from kprobe_vm.host.scratch import scratch

# which release has which; no release of Debian has 3.12
SUITES = {"3.11": "bookworm", "3.12": "noble", "3.13": "trixie", "3.14": "sid"}
UBUNTU_MIRROR = "KPROBE_UBUNTU_MIRROR"
UBUNTU_KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.gpg"  # of Debian's package ubuntu-keyring
LOADERS = ("lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2")
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")


class NoInterpreter(Exception):
    """There is none, and none can be had; the text says why."""


class UbuntuArchive(AptArchive):
    """A suite of Ubuntu, by the same apt; its key comes from Debian."""

    mirror = ""

    def _sources(self, mirrors: Mirrors) -> Iterable[str]:
        yield (
            f"Types: deb\nURIs: {self.mirror}\nSuites: {self.suites[0]}\nComponents: main\nArchitectures: amd64\n"
            f"Signed-By: {self.keyring}\n"
        )


def asked(python: Path, version: str) -> Path | None:
    """Return the path that it has itself if it is a Python of that version which can make environments."""
    question = "import sys, venv, ssl, sqlite3; print('%d.%d' % sys.version_info[:2]); print(sys.executable)"
    try:
        done = subprocess.run([python, "-c", question], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    said, _, path = done.stdout.rstrip("\n").partition("\n")
    return Path(path) if said == version else None


def candidates(version: str) -> Iterator[Path]:
    """Yield where this machine may have one."""
    name = f"python{version}"
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        yield Path(directory or ".") / name
    home = Path.home()
    for root, pattern in (
        (Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions", f"{version}.*/bin/{name}"),
        (home / ".local/share/uv/python", f"cpython-{version}.*/bin/{name}"),
        (Path("/opt/hostedtoolcache/Python"), f"{version}.*/x64/bin/{name}"),
    ):
        try:
            yield from sorted(root.glob(pattern))
        except PermissionError:  # $HOME is another user's
            continue


def archive(version: str, cache: Cache) -> AptArchive:
    """Return the archive that has it; raise `NoInterpreter`, or a `MachineError` where it can't be reached."""

    def progress(words: str) -> None:
        print(words, file=sys.stderr)

    suite = SUITES.get(version)
    if suite is None:
        raise NoInterpreter(f"no Python {version} on this machine, and no archive is known to have it")
    if suite != "noble":
        return AptArchive(cache, [suite], progress, Path(KEYRING))
    mirror = os.environ.get(UBUNTU_MIRROR, "")
    if not mirror:
        raise NoInterpreter(f"no Python {version} on this machine; {UBUNTU_MIRROR}=URI names a mirror that has it")
    keys = cache.directory("pythons") / "ubuntu.gpg"
    if not keys.exists():
        debian = AptArchive(cache, ["trixie"], progress, Path(KEYRING))
        debian.update()
        with scratch(cache.directory("pythons")) as place:
            (package,) = debian.fetch_all(debian.closure(["=ubuntu-keyring"]))
            unpack(package, place)
            cache.replace(keys, (place / UBUNTU_KEYRING).read_bytes())
    ubuntu = UbuntuArchive(cache, [suite], progress, keys)
    ubuntu.mirror = mirror
    return ubuntu


def from_packages(version: str, cache: Cache) -> Path:
    """Unpack a distribution's into the cache, unless it is there; raise `NoInterpreter`."""
    home = cache.directory("pythons") / version
    python = home / "usr/bin" / f"python{version}"
    with cache.lock(f"python-{version}"):
        if asked(python, version):
            return python
        try:
            packages = archive(version, cache)
            packages.update()
            files = packages.fetch_all(packages.closure([f"python{version}"]))
        except MachineError as error:
            raise NoInterpreter(f"no Python {version} on this machine, and none to be had: {error}") from error
        shutil.rmtree(home, ignore_errors=True)
        for file in files:
            unpack(file, home)
        loader = next(path for path in LOADERS if (home / path).exists())
        libraries = ":".join(str(home / path) for path in LIBRARIES)
        real = python.with_name(f"{python.name}.real")
        python.rename(real)
        # a link to this script is the python of a virtual environment: it is told which by its own name
        python.write_text(
            f'#!/bin/sh\nexec "{home / loader}" --library-path "{libraries}" --argv0 "$0" "{real}" "$@"\n'
        )
        python.chmod(0o755)
        if not asked(python, version):
            raise NoInterpreter(f"the Python {version} of {SUITES[version]} doesn't run here")
    return python


def unpack(package: Path, place: Path) -> None:
    """Unpack the files of a Debian package, with links as they are."""
    with deb.members(package) as members:
        for member, content in members:
            path = place / member.name.removeprefix("./")
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if member.issym():
                # of a root of its own: what is absolute there is relative here
                target = member.linkname
                path.symlink_to(os.path.relpath(place / target[1:], path.parent) if target[:1] == "/" else target)
            elif member.islnk():
                os.link(place / member.linkname.removeprefix("./"), path)
            elif content is not None:
                path.write_bytes(content.read())
                path.chmod(member.mode & 0o777)


def interpreter(version: str) -> Path:
    """Return the path of a Python of that version; raise `NoInterpreter`."""
    for path in candidates(version):
        if (found := asked(path, version)) is not None:
            return found
    return from_packages(version, Cache.of(os.environ))


def main() -> int:
    try:
        print(interpreter(sys.argv[1]))
    except NoInterpreter as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
