"""What tests need of the machine: one table.  A test whose need isn't met is left out, and named at the end of the run.

A test says what it needs by `@pytest.mark.requires("zsh", "fish")`, a fixture by calling the fixture `requires` in the
same way.  With REQUIRE_ALL=1 what is missing is an error instead, except what no run can have: root and a user.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, NoReturn

import pytest

EVERYTHING = "REQUIRE_ALL"
_LEFT_OUT = "this machine lacks "
_ASKED = f"{EVERYTHING}=1, but {_LEFT_OUT}"
_BETWEEN = ", "


def _program(name: str) -> bool:
    return shutil.which(name) is not None


def _module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False


def _works(*command: str) -> bool:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _has_fuse(_name: str) -> bool:
    return os.access("/dev/fuse", os.R_OK | os.W_OK)


def _has_namespaces(_name: str) -> bool:
    return _works("unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /tmp")


def _is_tried_later(_name: str) -> bool:
    return True


def _has_terminals(_name: str) -> bool:
    try:
        ours, theirs = os.openpty()
    except OSError:
        return False
    os.close(ours)
    os.close(theirs)
    return True


def _links_statically(name: str) -> bool:
    if not _program(name):
        return False
    answer = subprocess.run([name, "-print-file-name=libc.a"], capture_output=True, text=True)
    return os.path.isabs(answer.stdout.strip())


def _is_root(name: str) -> bool:
    return (os.geteuid() == 0) == (name == "root")


class Requirement(NamedTuple):
    """Something that a machine may lack: how it is had, how it is looked for, and whether REQUIRE_ALL asks for it."""

    packages: str = ""  # Debian's
    otherwise: str = ""  # how it is had where no package brings it
    there: Callable[[str], bool] = _program
    asked: bool = True


def _python(extra: str) -> Requirement:
    return Requirement("", f"pip install -e '.[{extra}]'", _module)


TABLE = {
    # shells and what shows manual pages
    "bash": Requirement("bash"),
    "zsh": Requirement("zsh"),
    "fish": Requirement("fish"),
    "man": Requirement("man-db"),
    "mandoc": Requirement("mandoc"),
    "groff": Requirement("groff"),
    # compilers
    "cc": Requirement("gcc libc6-dev", there=_links_statically),
    "gcc": Requirement("gcc libc6-dev", there=_links_statically),
    # archives, kernels and guests
    "apt-get": Requirement("apt"),
    "dpkg-deb": Requirement("dpkg"),
    "gpg": Requirement("gpg gpg-agent"),
    "gpgv": Requirement("gpgv"),
    "lz4": Requirement("lz4"),
    "zstd": Requirement("zstd"),
    "cpio": Requirement("cpio"),
    # what is tried on the simulated kernel
    "trace-cmd": Requirement("trace-cmd"),
    "perf": Requirement("linux-perf"),
    "busybox": Requirement("busybox"),
    "dmesg": Requirement("util-linux"),
    "git": Requirement("git"),
    # what the extra [dev] brings, where there is a wheel for this python3
    "capstone": _python("record"),
    "material": _python("docs"),
    "mypy": _python("dev"),
    "pip": Requirement("python3-venv", there=_module),
    "pyfakefs": _python("test"),
    "rich": _python("top"),
    "xdist": _python("dev"),
    "zstandard": _python("bulk"),
    "compression.zstd": Requirement(otherwise="Python 3.14", there=_module, asked=False),
    "backports.zstd": Requirement(otherwise="pip install backports.zstd", there=_module, asked=False),
    # other Pythons, in each of which the wheel is installed
    **{
        f"Python {version}": Requirement(
            otherwise="in the path, of pyenv or of uv; or KPROBE_UBUNTU_MIRROR=URI", there=_is_tried_later
        )
        for version in ("3.11", "3.12", "3.13", "3.14")
    },
    "another Python": Requirement(otherwise="3.11.2 or later, in the path or of pyenv", there=_is_tried_later),
    # what the kernel, or the container, allows
    "/dev/fuse": Requirement(otherwise="the kernel's module fuse, and leave to open it", there=_has_fuse),
    "user namespaces": Requirement(
        otherwise="a kernel that lets this user make them and mount there (user.max_user_namespaces)",
        there=_has_namespaces,
    ),
    "/etc/mtab": Requirement(otherwise="ln -s /proc/self/mounts /etc/mtab", there=os.path.exists),
    "/dev/kmsg": Requirement(otherwise="mknod /dev/kmsg c 1 11; containers lack it", there=os.path.exists),
    "/dev/pts": Requirement(otherwise="mount -t devpts devpts /dev/pts, and /dev/ptmx", there=_has_terminals),
    "Debian's archive": Requirement(otherwise="a network that reaches it, and apt-get update", there=_is_tried_later),
    "a profile of the kernel": Requirement(
        otherwise="`kprobe-vm record PATH -o FILE.kprofile` makes it; KPROBE_SIM_PROFILES names the directory it is in",
        there=_is_tried_later,
    ),
    # who runs the tests
    "root": Requirement(otherwise="run as root as well", there=_is_root, asked=False),
    "an ordinary user": Requirement(otherwise="run as a user as well", there=_is_root, asked=False),
    # what isn't part of the project, and no package has
    "$TRACE_PROCESSOR": Requirement(
        otherwise="it names Perfetto's trace_processor_shell", there=lambda name: name[1:] in os.environ, asked=False
    ),
}
MOUNT = ("/dev/fuse", "user namespaces")  # what `kprobe-sim run` needs


@functools.cache
def _is_there(name: str) -> bool:
    return TABLE[name].there(name)


def lacking(names: Iterable[str]) -> list[str]:
    """Return which of these requirements this machine doesn't meet."""
    return [name for name in names if not _is_there(name)]


def require(*names: str) -> None:
    """End a test here that needs what this machine lacks."""
    if missing := lacking(names):
        lack(*missing)


def lack(*names: str, why: str = "") -> NoReturn:
    """End a test here, as it has found that this machine lacks these; `why` is how it has."""
    said = f"{_BETWEEN.join(names)}{why and f': {why}'}"
    if os.environ.get(EVERYTHING, "0") not in ("", "0") and any(TABLE[name].asked for name in names):
        pytest.fail(f"{_ASKED}{said}\n" + "\n".join(remedies(names)), pytrace=False)
    pytest.skip(f"{_LEFT_OUT}{said}")


def remedies(names: Sequence[str]) -> list[str]:
    """Return lines that say how these are had: one for all of Debian's packages, and one for each of the others."""
    packages = [package for name in names for package in TABLE[name].packages.split()]
    lines = [f"apt-get install {' '.join(dict.fromkeys(packages))}"] if packages else []
    return [*lines, *(f"{name}: {TABLE[name].otherwise}" for name in names if not TABLE[name].packages)]


class LeftOut:
    """Leaves out what this machine can't run, and names at the end of a run all that was skipped."""

    def __init__(self) -> None:
        self._tests = 0
        self._lacked: Counter[str] = Counter()
        self._others: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        require(*(name for mark in item.iter_markers("requires") for name in mark.args))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and (said := str(report.longrepr)).startswith(_ASKED):
            self._lacks(said.partition("\n")[0].removeprefix(_ASKED))
        if not report.skipped or hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
            return
        if hasattr(report, "unsupported"):  # the plugin names these, by what the kernel lacks
            return
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(_LEFT_OUT):
            self._others[reason] += 1
            return
        self._lacks(reason.removeprefix(_LEFT_OUT))

    def _lacks(self, said: str) -> None:
        self._tests += 1
        self._lacked.update(said.partition(": ")[0].split(_BETWEEN))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        """Name what was left out, with the one line that brings it, after all else; pytest's -rs names each test."""
        yield
        if self._lacked:
            counts = _BETWEEN.join(f"{name} ({count})" for name, count in self._lacked.most_common())
            terminalreporter.section("left out")
            terminalreporter.line(f"LEFT OUT: {self._tests} test{'s' * (self._tests > 1)}, for want of: {counts}")
            terminalreporter.line("To run them:")
            for line in remedies(list(self._lacked)):
                terminalreporter.line(f"    {line}")
        if self._others:
            terminalreporter.section("skipped")
            for reason, count in self._others.most_common():
                terminalreporter.line(f"{count:5}  {reason}")
