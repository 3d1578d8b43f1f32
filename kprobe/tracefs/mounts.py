"""The mount table -> the directory of this machine's tracefs."""

from __future__ import annotations

import errno
import os

from kprobe.errors import NotPermitted, TracefsMissing

MOUNTS = "/proc/self/mounts"
TRACEFS = "/sys/kernel/tracing"  # from Linux 4.1
DEBUGFS = "/sys/kernel/debug"  # older, and an automount of the same below it
EMPTY = "mounted, and empty"  # seen on 6.12 with lockdown=confidentiality: the tracefs has no files

WITHOUT = "without one: --tracefs sim, a simulated kernel"


def find_tracefs(mounts: str = MOUNTS, tracefs: str = TRACEFS, debugfs: str = DEBUGFS) -> str:
    """Return the directory of this machine's tracefs.

    In this order: mounts of type tracefs in the mount table `mounts`; `tracefs`, if it holds events; the directory
    tracing of `debugfs` and of mounts of type debugfs (looking inside mounts it there).

    Raise `NotPermitted` if one exists but is closed to this process, else `TracefsMissing` with all paths tried.
    """
    looked_at: list[tuple[str, str]] = []
    denied = ""
    directories: list[str] = []
    try:
        table = _table(mounts)
    except OSError as error:
        table = []
        looked_at.append((mounts, str(error.strerror)))
    by_type = [point for kind, point in table if kind == "tracefs"]
    below = [os.path.join(point, "tracing") for kind, point in table if kind == "debugfs"]
    if table and not by_type:
        looked_at.append((mounts, "no mount of type tracefs"))
    for directory in (*by_type, tracefs, os.path.join(debugfs, "tracing"), *below):
        if directory in directories:
            continue
        directories.append(directory)
        found, number = _state_of(directory)
        if not number:
            return directory
        if number in (errno.EACCES, errno.EPERM):
            denied = denied or directory
        looked_at.append((directory, EMPTY if directory in by_type and number == errno.ENODATA else found))
    if denied:
        raise NotPermitted(denied, errno.EACCES, "run it as root, or with access to that directory")
    if any(found == EMPTY for _, found in looked_at):
        why = "a kernel that is locked down (confidentiality) leaves its tracefs empty"
        raise TracefsMissing(looked_at, f"{why}; {WITHOUT}")
    raise TracefsMissing(looked_at, f"mount it: mount -t tracefs nodev {tracefs}; {WITHOUT}")


def _state_of(directory: str) -> tuple[str, int]:
    """Return what `directory` is, with an errno; 0 if it is a tracefs."""
    try:
        names = os.listdir(directory)
    except OSError as error:
        return str(error.strerror), error.errno or errno.EIO
    if "events" in names:
        return "tracefs", 0
    return ("a directory without events", errno.ENOENT) if names else ("an empty directory: not mounted", errno.ENODATA)


def _table(mounts: str) -> list[tuple[str, str]]:
    """Return (type, mount point) for every line of a mount table."""
    rows = []
    with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words = line.split(" ")
            if len(words) > 2:
                rows.append((words[2], _unescape(words[1])))
    return rows


def is_tracefs(path: str, mounts: str = MOUNTS) -> bool:
    """Return whether the kernel's tracefs is at `path`, by the mount table: a simulated one can be mounted, too."""
    return _kind(path, mounts) in ("tracefs", "debugfs")


def is_of_the_same(root: str, path: str, mounts: str = MOUNTS) -> bool:
    """Return whether a file of /proc or /sys describes the kernel whose tracefs is at `root`.

    For a tracefs that a program serves (FUSE), it does if the program serves the file as well.
    """
    if is_tracefs(root, mounts):
        return True
    return all(_kind(one, mounts).startswith("fuse.") for one in (root, path))


def _kind(path: str, mounts: str) -> str:
    """Return the type of a path's mount; "" if unknown."""
    try:
        table = _table(mounts)
    except OSError:
        return ""
    path = os.path.realpath(path)
    around = [(len(point), kind) for kind, point in table if f"{path}/".startswith(f"{point.rstrip('/')}/")]
    return max(around)[1] if around else ""


def _unescape(text: str) -> str:
    """Undo the kernel's octal escapes of blank, tab, newline and backslash."""
    for escape, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, char)
    return text


def permission_hint(root: str, lockdown: str = "/sys/kernel/security/lockdown", mounts: str = MOUNTS) -> str:
    """Say why a write below `root` may be denied, as far as this machine shows; "" if nothing explains it."""
    try:
        with open(lockdown, encoding="ascii") as file:
            state = file.read()
    except (OSError, UnicodeDecodeError):
        state = ""
    if "[confidentiality]" in state:
        return "the kernel is locked down (confidentiality): it refuses kprobes to everybody"
    if "[integrity]" in state:
        return "the kernel is locked down (integrity)"
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            options = [words[3] for words in map(str.split, file) if len(words) > 3 and words[1] == root]
    except OSError:
        options = []
    if options and "ro" in options[-1].split(","):
        return f"{root} is mounted read-only"
    return "run it as root"
