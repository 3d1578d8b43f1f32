"""The processes of a user namespace: finds and ends them.

A process can leave its parent, session and group, but neither it nor what it starts can leave its user namespace.
"""

from __future__ import annotations

import os
import select
import signal
import time
from fcntl import ioctl

_PARENT = 0xB702  # NS_GET_PARENT
_KIND = "user:[{}]"  # as /proc shows a namespace


def end_members(namespace: int, seconds: float = 10.0) -> bool:
    """Kill all processes of a user namespace, and of the namespaces made in it; return whether all have ended.

    `namespace` is an open file of the namespace.  Returns False if a process hasn't ended after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while handles := _alive(namespace):
        poller = select.poll()
        for handle in handles:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            poller.register(handle, select.POLLIN)
        waiting = set(handles)
        while waiting and (left := deadline - time.monotonic()) > 0:
            for handle, _ in poller.poll(left * 1000):
                poller.unregister(handle)
                waiting.discard(handle)
        for handle in handles:
            os.close(handle)
        if waiting:
            return False
    return True


def _alive(namespace: int) -> list[int]:
    """Return a pidfd of each process of the namespace; the caller closes them."""
    namespace_link = _KIND.format(os.fstat(namespace).st_ino)
    known = {namespace_link: True, os.readlink("/proc/self/ns/user"): False}
    handles = []
    poller = select.poll()
    for name in os.listdir("/proc"):
        if not name.isdigit() or not _is_member(name, namespace_link, known):
            continue
        try:
            handle = os.pidfd_open(int(name))
        except ProcessLookupError:
            continue
        poller.register(handle, select.POLLIN)
        # a zombie can't be killed again, and by now the pid may be that of another process
        if poller.poll(0) or not _is_member(name, namespace_link, known):
            os.close(handle)
        else:
            handles.append(handle)
        poller.unregister(handle)
    return handles


def _is_member(pid: str, namespace_link: str, known: dict[str, bool]) -> bool:
    path = f"/proc/{pid}/ns/user"
    try:
        text = os.readlink(path)
        if text not in known:
            known[text] = _is_below(os.open(path, os.O_RDONLY | os.O_CLOEXEC), namespace_link)
    except OSError:  # it has ended, or this process may not inspect it
        return False
    return known[text]


def _is_below(descriptor: int, namespace_link: str) -> bool:
    """Return whether a user namespace was made in the given one; close the descriptor."""
    try:
        while True:
            above = ioctl(descriptor, _PARENT)
            os.close(descriptor)
            descriptor = above
            if _KIND.format(os.fstat(descriptor).st_ino) == namespace_link:
                return True
    except OSError:  # the namespaces above can't be seen from here
        return False
    finally:
        os.close(descriptor)
