"""The processes of a user namespace: found wherever they are, and ended.

A process can leave its parent, session and group, but not its user namespace, nor can what it starts.
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
    """Kill all processes of a user namespace, and of those made in it; True if there was nothing left to kill.

    `namespace` is an open file of it.  False if one of them hasn't ended after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while found := _alive(namespace):
        poller = select.poll()
        for handle in found:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            poller.register(handle, select.POLLIN)
        waiting = set(found)
        while waiting and (left := deadline - time.monotonic()) > 0:
            for handle, _ in poller.poll(left * 1000):
                poller.unregister(handle)
                waiting.discard(handle)
        for handle in found:
            os.close(handle)
        if waiting:
            return False
    return True


def _alive(namespace: int) -> list[int]:
    """Return descriptors of all processes there; to be closed."""
    wanted = _KIND.format(os.fstat(namespace).st_ino)
    known = {wanted: True, os.readlink("/proc/self/ns/user"): False}
    found = []
    poller = select.poll()
    for name in os.listdir("/proc"):
        if not name.isdigit() or not _is_member(name, wanted, known):
            continue
        try:
            handle = os.pidfd_open(int(name))
        except ProcessLookupError:
            continue
        poller.register(handle, select.POLLIN)
        # a zombie is no more to be killed; and by now the number may be that of another process
        if poller.poll(0) or not _is_member(name, wanted, known):
            os.close(handle)
        else:
            found.append(handle)
        poller.unregister(handle)
    return found


def _is_member(pid: str, wanted: str, known: dict[str, bool]) -> bool:
    path = f"/proc/{pid}/ns/user"
    try:
        text = os.readlink(path)
        if text not in known:
            known[text] = _is_below(os.open(path, os.O_RDONLY | os.O_CLOEXEC), wanted)
    except OSError:  # it has ended, or is nobody's that this process may look at
        return False
    return known[text]


def _is_below(descriptor: int, wanted: str) -> bool:
    """True if a user namespace was made in the wanted one; closes the descriptor."""
    try:
        while True:
            above = ioctl(descriptor, _PARENT)
            os.close(descriptor)
            descriptor = above
            if _KIND.format(os.fstat(descriptor).st_ino) == wanted:
                return True
    except OSError:  # those above aren't to be seen from here
        return False
    finally:
        os.close(descriptor)
