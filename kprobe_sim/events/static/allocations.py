"""The kernel's allocations when a task forks and when it runs another program, by build: kmem/kmalloc.

Recorded from a guest; a build that isn't here has no such events.  Sizes that depend on the program are left out.
"""

from __future__ import annotations

from kprobe_sim.named_tuple import NamedTuple


class Allocation(NamedTuple):
    """One kmalloc(): its caller, the bytes asked for and given, and the flags."""

    caller: str
    size: int
    given: int
    flags: int


_KERNEL, _ZERO = 0xCC0, 0x100  # GFP_KERNEL, __GFP_ZERO
_CREDENTIALS = Allocation("security_prepare_creds+0xc5", 16, 16, _KERNEL)
FORK = {
    "6.1.0-54-cloud-amd64": (_CREDENTIALS, Allocation("security_task_alloc+0xbf", 48, 64, _KERNEL | _ZERO)),
}
EXEC = {
    "6.1.0-54-cloud-amd64": (Allocation("alloc_bprm+0x32", 416, 512, _KERNEL | _ZERO), _CREDENTIALS),
}
