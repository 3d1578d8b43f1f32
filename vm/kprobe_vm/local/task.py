"""The workload as a process of this machine: a Python process that serves the requests of workload.c and does nothing
else.

It needs no compiler.  The module runs as a separate program, so it imports the standard library alone at its top.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_MEMORY, _SIZE = 0x10000000, 0x4000
_REQUESTS, _ANSWERS = 100, 101  # descriptors far above any that an open returns
_REQUEST = struct.Struct("<10Q1792s")  # kind, number, six arguments, repeat, length of the data, data
_FORK, _EXIT, _WAIT4, _OPENAT, _OPENAT2, _CLOSE = 57, 60, 61, 257, 437, 3
_PROT_READ_WRITE, _MAP_FIXED_PRIVATE_ANONYMOUS = 3, 0x100022  # MAP_FIXED_NOREPLACE: no mapping of Python is replaced
_PR_SET_NAME = 15


class _Calls:
    """System calls by their numbers, without what the C library does around them."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.syscall.restype = ctypes.c_long
        self._libc.mmap.restype = ctypes.c_void_p

    def map_memory(self) -> None:
        """Map the memory for the requests' data at the address that a guest's task uses."""
        words = (ctypes.c_void_p(_MEMORY), ctypes.c_size_t(_SIZE), _PROT_READ_WRITE, _MAP_FIXED_PRIVATE_ANONYMOUS, -1)
        if self._libc.mmap(*words, ctypes.c_long(0)) != _MEMORY:
            raise OSError(ctypes.get_errno() or errno.EEXIST, "no memory at 0x10000000")

    def name(self, comm: bytes) -> None:
        self._libc.prctl(_PR_SET_NAME, comm)

    def call(self, number: int, *arguments: int) -> int:
        result: int = self._libc.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments))
        return result if result >= 0 else -ctypes.get_errno()

    def fork(self) -> int:
        pid = self.call(_FORK)
        if pid == 0:
            self.call(_EXIT, 0)
        if pid > 0:
            self.call(_WAIT4, pid, 0, 0, 0)
        return pid

    def perform(self, number: int, arguments: tuple[int, ...]) -> int:
        result = self.call(number, *arguments)
        if result >= 0 and number in (_OPENAT, _OPENAT2):
            self.call(_CLOSE, result)
        return result


def serve(calls: _Calls) -> None:
    """Serve requests until the pipe closes or the request to end comes."""
    while len(request := os.read(_REQUESTS, _REQUEST.size)) == _REQUEST.size:
        kind, number, *arguments, repeat, length, data = _REQUEST.unpack(request)
        ctypes.memmove(_MEMORY, data, length)
        result = 0
        if kind == ord("q"):
            return
        if kind == ord("n"):
            calls.name(data[:length])
        for _ in range(0 if kind == ord("n") else repeat):
            result = calls.fork() if kind == ord("f") else calls.perform(number, tuple(arguments))
        os.write(_ANSWERS, struct.pack("<q", result))


def main() -> int:
    """Run the task: its requests come on standard input, its answers go to standard output."""
    import gc

    gc.disable()  # which might make system calls in between
    os.dup2(0, _REQUESTS)
    os.dup2(1, _ANSWERS)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.closerange(3, _REQUESTS)
    calls = _Calls()
    calls.map_memory()
    calls.name(b"workload")
    calls.perform(_CLOSE, (3, 0, 0, 0, 0, 0))
    os.write(_ANSWERS, struct.pack("<q", os.getpid()))
    serve(calls)
    return 0


if __name__ == "__main__":
    sys.exit(main())
