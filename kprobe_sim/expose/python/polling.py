"""select, poll and epoll on simulated files, within a test's time limit; without a limit nothing is patched.

The descriptors and the functions that wait are real; only the time is counted.
"""

from __future__ import annotations

import select
import selectors
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kprobe_sim.expose.python.descriptors import Description
from kprobe_sim.tree.files.patience import Patience

T = TypeVar("T")
_MS = 1000


class LimitedWaits:
    """The waits of this process for simulated and other files, within the time that a test has left."""

    def __init__(self, kernel: Any, table: Mapping[int, Description], patience: Patience) -> None:
        self._kernel = kernel
        self._table = table
        self._patience = patience

    def wait(self, descriptors: Iterable[int], seconds: float | None, real: Callable[[float | None], T]) -> T:
        """Wait as `real` does, for `seconds` (None means for ever), but raise when the test's time is up.

        If nothing is ready, `real` returns an empty value or a tuple of empty values.
        """
        awaited = next((self._table[number] for number in list(descriptors) if number in self._table), None)
        if awaited is None or (seconds is not None and seconds <= 0):
            return real(seconds)
        left = self._patience.left()
        is_cut = seconds is None or seconds > left
        began = time.monotonic()
        ready: Any = real(left if is_cut else seconds)
        nothing = not any(ready) if isinstance(ready, tuple) else not ready
        self._patience.spend(left if nothing and is_cut else time.monotonic() - began)
        if nothing and is_cut:
            raise self._patience.over(self._kernel.tracefs, awaited.path)
        return ready  # type: ignore[no-any-return]


def patches(polls: LimitedWaits) -> Iterator[tuple[Any, str, Any]]:
    """Yield the patches: of the functions of select wherever modules have bound them, and of the selectors."""
    ours = {"select": _select(polls), "poll": lambda: _Poll(polls), "epoll": _epoll(polls)}
    real = {name: getattr(select, name) for name in ours if hasattr(select, name)}
    for module in list(sys.modules.values()):
        bound = getattr(module, "__dict__", {})
        for name, function in real.items():
            if bound.get(name) is function:
                yield module, name, ours[name]
    for kind in (selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector):
        yield kind, "select", _selector(polls, kind.select)


def _select(polls: LimitedWaits) -> Any:
    real = select.select

    def function(rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None, /) -> Any:
        rlist, wlist, xlist = list(rlist), list(wlist), list(xlist)
        numbers = (_number(file) for file in (*rlist, *wlist, *xlist))
        return polls.wait(numbers, timeout, lambda seconds: real(rlist, wlist, xlist, seconds))

    return function


def _selector(polls: LimitedWaits, real: Any) -> Any:
    def function(self: Any, timeout: float | None = None) -> Any:
        return polls.wait(self.get_map() or (), timeout, lambda seconds: real(self, seconds))

    return function


class _Registered:
    """A real polling object, and the descriptors registered with it."""

    def __init__(self, polls: LimitedWaits, real: Any) -> None:
        self._polls = polls
        self._real = real
        self._numbers: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def register(self, fd: Any, *arguments: Any, **options: Any) -> None:
        self._real.register(fd, *arguments, **options)
        self._numbers.add(_number(fd))

    def unregister(self, fd: Any) -> None:
        self._real.unregister(fd)
        self._numbers.discard(_number(fd))


class _Poll(_Registered):
    def __init__(self, polls: LimitedWaits) -> None:
        super().__init__(polls, _REAL_POLL())

    def poll(self, timeout: float | None = None, /) -> Any:
        seconds = None if timeout is None or timeout < 0 else timeout / _MS
        real = self._real.poll
        return self._polls.wait(self._numbers, seconds, lambda most: real(None if most is None else most * _MS))


_REAL_POLL, _REAL_EPOLL = select.poll, select.epoll


def _epoll(polls: LimitedWaits) -> type:
    """Return the stand-in for select.epoll."""

    class Epoll(_Registered):
        def __init__(self, sizehint: int = -1, flags: int = 0) -> None:
            super().__init__(polls, _REAL_EPOLL(sizehint, flags))

        @classmethod
        def fromfd(cls, fd: int, /) -> Any:
            return _REAL_EPOLL.fromfd(fd)

        def __enter__(self) -> Any:
            self._real.__enter__()
            return self

        def __exit__(self, *_: object) -> None:
            self._real.close()

        def poll(self, timeout: float | None = None, maxevents: int = -1) -> Any:
            seconds = None if timeout is None or timeout < 0 else timeout
            return polls.wait(self._numbers, seconds, lambda most: self._real.poll(most, maxevents))

    Epoll.__name__ = Epoll.__qualname__ = "epoll"
    return Epoll


def _number(file: Any) -> int:
    return file if isinstance(file, int) else int(file.fileno())
