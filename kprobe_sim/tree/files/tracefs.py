"""The shape of a tracefs, as this package uses one that may be simulated, a guest's or this machine's."""

from __future__ import annotations

from typing import Any, Protocol


class Stream(Protocol):
    """A file that is read as text arrives, such as trace_pipe."""

    def read(self, timeout: float | None = None) -> bytes: ...

    def close(self) -> None: ...


class Tracefs(Protocol):
    """Every tracefs; `Capabilities` has what some offer besides.  Paths are relative, and errors are OSError."""

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None: ...

    def listdir(self, path: str) -> list[str]: ...

    def exists(self, path: str) -> bool: ...

    def mkdir(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...

    def stream(self, path: str) -> Stream: ...


class OpenableTracefs(Tracefs, Protocol):
    """A tracefs with system calls below the seven methods: the simulator's and a guest's."""

    def open(self, path: str, flags: int) -> Any:
        """Open a file by open(2); return a context with read(size), write(data) and the like."""
