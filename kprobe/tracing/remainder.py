"""What a buffer held when a trace stopped, and whether it has been read: others may keep recording into it.

It goes by the kernel's counts in `per_cpu/cpu*/stats` (tracing_stats_read() in kernel/trace/trace.c): once the entries
read and overwritten reach the number written by then, all are done.  Kernels before 3.10 don't count entries read:
there an empty buffer is the end.  In any case there is a time limit.
"""

from __future__ import annotations

from kprobe.tracefs.capabilities import on_its_way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kprobe.tracefs.tracefs import Stream, Tracefs

ENTRIES, OVERRUN, READ = b"entries", b"overrun", b"read events"
PATIENCE = 2.0  # seconds without any of it, after which it is over
PAUSE = 0.02  # seconds between two reads where nothing came


class Remainder:
    """What the buffers in a directory `per_cpu` hold when this is created; `clock` returns seconds.

    `is_counted` is false where the kernel has no counts; else there are `entries`.
    """

    def __init__(self, tracefs: Tracefs, directory: str, clock: Callable[[], float]) -> None:
        self._tracefs = tracefs
        self._clock = clock
        # by file: the count to reach, if known, and the current one
        self._left: dict[str, tuple[int | None, int]] = {}
        self.entries = 0
        for path in self._files(directory):
            if stats := self._stats(path):
                gone = _gone(stats)
                self.entries += stats.get(ENTRIES, 0)
                self._left[path] = (gone + stats.get(ENTRIES, 0) if READ in stats else None), gone
        self.is_counted = bool(self._left)
        self._end = clock() + PATIENCE

    def is_over(self) -> bool:
        """True once the kernel has returned all of it, or no more of it for a while."""
        for path, (most, before) in list(self._left.items()):
            stats = self._stats(path)
            if not stats:
                continue
            gone = _gone(stats)
            # a buffer that somebody emptied counts from zero
            if not stats.get(ENTRIES) or gone < before or (most is not None and gone >= most):
                del self._left[path]
            elif most is not None and gone > before:
                self._left[path] = most, gone
                self._end = self._clock() + PATIENCE
        return (self.is_counted and not self._left) or self._clock() >= self._end

    def texts(self, stream: Stream, sleep: Callable[[float], None]) -> Iterator[bytes]:
        """Yield it from a stream; what is recorded meanwhile may come with it."""
        left = on_its_way(stream)  # bytes, for at least one read
        while left > 0:
            is_over = self.is_over()  # before the read, which returns all that was handed over by then
            try:
                data = stream.read(0)
            except TimeoutError:
                if is_over or not self.is_counted:
                    return
                sleep(PAUSE)
                continue
            if not data:
                return
            left -= len(data) if is_over else 0
            yield data

    def _files(self, directory: str) -> list[str]:
        try:
            names = self._tracefs.listdir(directory)
        except OSError:
            return []
        return [f"{directory}/{name}/stats" for name in names if name.startswith("cpu")]

    def _stats(self, path: str) -> dict[bytes, int]:
        try:
            return numbers(self._tracefs.read(path))
        except OSError:
            return {}


def numbers(text: bytes) -> dict[bytes, int]:
    """Read a `stats` file, without the times, which have fractions."""
    pairs = (line.partition(b": ")[::2] for line in text.splitlines())
    return {name: int(number) for name, number in pairs if number.isdigit()}


def _gone(stats: dict[bytes, int]) -> int:
    """Return how many entries were read or overwritten."""
    return stats.get(READ, 0) + stats.get(OVERRUN, 0)
