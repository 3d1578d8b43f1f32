"""The files of the simulated machine, as far as uprobes need them: paths and sizes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Hashable, Mapping
from functools import cache

from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple

_NAME_MAX = 255
_PATH_MAX = 4096  # bytes of a path, the NUL included
_PROGRAM = 0x100000
# the programs and libraries that a machine has by default, at their usual paths, each 1 MiB long
_PROGRAMS = (
    *("/bin/bash", "/bin/busybox", "/bin/dash", "/usr/bin/bash", "/usr/bin/cat", "/usr/bin/dash", "/usr/bin/ls"),
    *("/usr/bin/python3", "/lib64/ld-linux-x86-64.so.2"),
    *("/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
)
_TEXTS = {"/etc/hostname": 6, "/etc/hosts": 35, "/etc/passwd": 90, "/etc/group": 24, "/etc/os-release": 45}
_UNMAPPABLE = ("/proc/version", "/proc/kallsyms", "/sys/kernel/tracing/README")
_LINKS = {"/bin/sh": "/bin/busybox", "/bin/cat": "/bin/busybox", "/bin/ls": "/bin/busybox"}


class FileFacts(NamedTuple):
    """What a uprobe needs to know of a file: `identity` is that of the inode, `size` in bytes.

    `mappable`: its file system keeps it in pages, so that its instructions can be replaced.
    """

    identity: Hashable
    size: int
    is_regular: bool
    mappable: bool = True


class MachineFiles:
    """The files of a simulated machine: the listed ones, or, after `follow_host`, those of the host."""

    def __init__(self) -> None:
        files, directories = _usual()
        self._files = dict(files)
        self._directories = set(directories)
        self._is_host = False

    def add(self, path: str, size: int = _PROGRAM) -> None:
        """Add a regular file of that many bytes, and the directories above it."""
        self._files[path] = FileFacts(path, size, True)
        self._directories |= _parents(path)

    def follow_host(self) -> None:
        """Use the files of the machine that this process runs on, which programs on a mounted tracefs see."""
        self._is_host = True

    def find(self, path: str) -> FileFacts:
        """Follow a path, from / in any case.  Raises OSError as stat(2)."""
        if self._is_host:
            return _host_file(path)
        if not path:
            raise refuse(errno.ENOENT)
        if len(path) >= _PATH_MAX:
            raise refuse(errno.ENAMETOOLONG)
        here = "/"
        for name in path.split("/"):
            if here not in self._directories:
                raise refuse(errno.ENOTDIR)
            if len(name) > _NAME_MAX:
                raise refuse(errno.ENAMETOOLONG)
            here = _step(here, name)
            if here not in self._directories and here not in self._files:
                raise refuse(errno.ENOENT)
        return self._files.get(here) or FileFacts(here, 0, False)


@cache
def _usual() -> tuple[Mapping[str, FileFacts], frozenset[str]]:
    """Return the files and directories that a machine has by default."""
    files = {path: FileFacts(path, _PROGRAM, True) for path in _PROGRAMS}
    files |= {path: FileFacts(path, size, True) for path, size in _TEXTS.items()}
    files |= {path: FileFacts(path, 0, True, mappable=False) for path in _UNMAPPABLE}
    files |= {path: files[target] for path, target in _LINKS.items()}
    files["/proc/self/exe"] = files["/bin/busybox"]
    files["/dev/null"] = FileFacts("/dev/null", 0, False)
    return files, frozenset({"/root", "/run", "/sbin", "/tmp", "/var"}.union(*map(_parents, files)))


def _parents(path: str) -> set[str]:
    """Return the directories above a path."""
    found = set()
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        found.add(path)
    return found


def _step(here: str, name: str) -> str:
    """Return the path of a name in the directory `here`."""
    if name in ("", "."):
        return here
    return here.rpartition("/")[0] or "/" if name == ".." else f"{here.rstrip('/')}/{name}"


def _host_file(path: str) -> FileFacts:
    try:
        facts = os.stat(os.path.join("/", path))
    except ValueError:
        raise refuse(errno.ENOENT) from None
    except OSError as error:
        raise refuse(error.errno or errno.ENOENT) from None
    mappable = not path.startswith(("/proc/", "/sys/")) or path.endswith("/exe")
    return FileFacts((facts.st_dev, facts.st_ino), facts.st_size, stat.S_ISREG(facts.st_mode), mappable)
