"""Refusals: the `OSError` of a system call, and the reason why a probe definition is refused."""

from __future__ import annotations

import os


def refuse(number: int) -> OSError:
    """Return the `OSError` of an errno, without a path: the adapter knows that."""
    return OSError(number, os.strerror(number))


class Refusal(Exception):
    """The kernel refuses a definition.

    `message` is the id of the kernel's answer in `builds.messages`; `offset` the caret's column within token number
    `token` (None until the reader of the line knows the token); `errno` is set where the kernel passes on the errno of
    what failed.  `before` is a fault that the kernel logged and went on from.
    """

    __slots__ = ("before", "errno", "message", "offset", "token")

    def __init__(self, message: str, offset: int = 0, token: int | None = None, *, errno: int | None = None) -> None:
        super().__init__(message, offset, token)
        self.message = message
        self.offset = offset
        self.token = token
        self.errno = errno
        self.before: Refusal | None = None


class Printed(Refusal):
    """The kernel refuses a line and prints lines into its log, as kernels without an error_log do.

    `source` is what the newer of these kernels put before the line.
    """

    __slots__ = ("lines",)

    def __init__(
        self, number: int, line: str, *, source: str = "trace_kprobe", before: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__("", errno=number)
        self.lines: tuple[tuple[str, str], ...] = (*before, (source, line))


class Declined(Exception):
    """The line isn't a definition of this kind (the kernel's ECANCELED): another kind of event may take it."""
