"""The kernel functions behind the workload's system calls; their names have changed over time."""

from __future__ import annotations

from typing import NamedTuple

# The newest first; each is the innermost that all ways into the kernel share.
OPENING = ("do_sys_openat2", "do_sys_open")  # since 5.6
FORKING = ("kernel_clone", "_do_fork", "do_fork")  # since 5.10, 4.2
ADVISING = ("ksys_fadvise64_64", "SyS_fadvise64", "sys_fadvise64")  # since 4.18; before that the system call itself
KINDS = (OPENING, FORKING, ADVISING)


class Functions(NamedTuple):
    """The functions that open a file, create a task, and serve fadvise64(2)."""

    opening: str
    forking: str
    advising: str


NEWEST = Functions(*(names[0] for names in KINDS))


def functions(kallsyms: str) -> Functions:
    """Return a kernel's functions by its /proc/kallsyms; the newest name where it has none."""
    there = {line.split(" ", 2)[2].partition("\t")[0] for line in kallsyms.splitlines()}
    names_there = [next((name for name in names if name in there), names[0]) for names in KINDS]
    return Functions(*names_there)
