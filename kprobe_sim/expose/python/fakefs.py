"""A complete fake machine in pyfakefs' `fs`: files that the simulator doesn't provide, and the patches that `fs` needs.

The simulated paths stay out of `fs`: pyfakefs keeps files as byte strings, and a tracefs file isn't one.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kprobe_sim.builds.profile import PROFILES
from kprobe_sim.expose.python.machine import normal

if TYPE_CHECKING:
    from kprobe_sim.expose.python.calls import Calls
    from kprobe_sim.kernel.simulated import SimulatedKernel

_PROFILES = str(PROFILES)
LATE = (  # modules that a kernel imports only when it needs them
    "builds.portable.cache",
    "builds.portable.directory",
    "builds.portable.installed",
    "probes.patch_2009.kprobes",
    "events.hist.files",
    "events.hist.synthetic",
    "probes.hits.program_hits",
    "probes.eprobes",
    "probes.synthetic",
    "probes.uprobes",
    "events.static.emission",
    "events.static.task_life",
    "text.graph",
    "text.header",
    "text.render",
    "tree.filtering",
    "tree.sysctls",
    "tree.trigger_file",
)
_DIRECTORIES = (
    "/sys/kernel",
    "/proc/self",
    "/proc/sys/kernel",
    "/proc/sys/debug",
    "/sys/bus/event_source",
    "/var/tmp",
    "/var/lock",
    "/var/log",
    "/run",
    "/tmp",
    "/etc",
)


def os_module(fs: Any) -> Any:
    """Return the fake `os` of the code under test."""
    return fs.patcher.fake_modules["os"]


@contextmanager
def paused(fs: Any) -> Iterator[None]:
    """Let our code see the real files."""
    fs.pause()
    try:
        yield
    finally:
        fs.resume()


def load(kernel: SimulatedKernel) -> None:
    """Make the kernel read now what it would otherwise read from disk at its first use.

    A module imported within `fs` is forgotten with `fs` and imported again later; its classes would then differ from
    those that this kernel knows.
    """
    for name in LATE:
        import_module(f"kprobe_sim.{name}")
    profile = kernel.profile
    for name, value in vars(type(profile)).items():
        if isinstance(value, cached_property):
            getattr(profile, name)


def populate(fs: Any, kernel: SimulatedKernel) -> None:
    """Make the /proc files that identify the machine, and directories for configuration, locks and logs."""
    for directory in _DIRECTORIES:
        if not fs.exists(directory):
            fs.create_dir(directory)
    profile = kernel.profile
    texts = {
        "/proc/version": profile.banner,
        "/proc/sys/kernel/osrelease": profile.release,
        "/proc/sys/kernel/ostype": "Linux",
        "/proc/sys/kernel/hostname": "simulated",
        "/proc/filesystems": "nodev\tsysfs\nnodev\tproc\nnodev\tdebugfs\nnodev\ttracefs",
    }
    for path, text in texts.items():
        if not fs.exists(path):
            fs.create_file(path, contents=text.rstrip("\n") + "\n", st_mode=0o100444)
    for directory in (_PROFILES, str(profile.path)):
        if not fs.exists(directory):
            fs.add_real_directory(directory)  # the simulator's data, read at its first use


def patch(set_: Callable[[Any, str, Any], None], opener: Any, calls: Calls, fs: Any) -> None:
    """Patch the parts of pyfakefs that don't use `os`: os.path, and Path.open()."""
    for module in {id(module): module for module in _path_modules(fs)}.values():
        for name, ours in _path_functions(calls).items():
            set_(module, name, _either(calls, ours, getattr(module, name)))
    import pyfakefs.fake_io
    import pyfakefs.fake_pathlib

    # between a test's phases pytest's hooks restore the open() of pyfakefs, so the patch is on what that calls
    modules: tuple[Any, ...] = (pyfakefs.fake_io, pyfakefs.fake_pathlib)
    for module in modules:
        set_(module, "fake_open", _fake_open(calls, opener, module.fake_open))


def _fake_open(calls: Calls, opener: Any, original: Any) -> Any:
    def fake_open(filesystem: Any, skip_names: Any, file: Any, *arguments: Any, **options: Any) -> Any:
        if calls.inside(file):
            return opener(file, *arguments[:7], **options)
        return original(filesystem, skip_names, file, *arguments, **options)

    return fake_open


def _path_modules(fs: Any) -> list[Any]:
    modules = fs.patcher.fake_modules
    return [modules["os"].path, *(modules[name] for name in ("path", "os.path", "posixpath") if name in modules)]


def _either(calls: Calls, ours: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    def function(path: Any, *arguments: Any, **options: Any) -> Any:
        return ours(path) if calls.inside(path) else original(path, *arguments, **options)

    return function


def _path_functions(calls: Calls) -> dict[str, Callable[[Any], Any]]:
    """Return the functions of os.path for simulated paths."""

    def exists(path: Any) -> bool:
        try:
            return calls.find(path) is not None
        except OSError:
            return False

    def is_kind(check: Callable[[int], bool]) -> Callable[[Any], bool]:
        return lambda path: exists(path) and check(calls.stat(path).st_mode)

    return {
        "exists": exists,
        "lexists": exists,
        "isdir": is_kind(stat.S_ISDIR),
        "isfile": is_kind(stat.S_ISREG),
        "islink": lambda path: False,
        "ismount": lambda path: calls.is_mount_point(path),
        "getsize": lambda path: calls.stat(path).st_size,
        "getmtime": lambda path: calls.stat(path).st_mtime,
        "getatime": lambda path: calls.stat(path).st_atime,
        "getctime": lambda path: calls.stat(path).st_ctime,
        "realpath": lambda path: normal(str(calls.absolute(path))),
    }
