"""The distribution of numbers: counts for each range between powers of two, and exact ranks."""

from __future__ import annotations

BAR = "█"
COLUMNS = 19  # columns of a histogram's line beside its bounds and its bar
EXACT = 65536  # different numbers that are kept exactly; after that, 7 bits of each
KEPT_BITS = 7


class Histogram:
    """Counts of numbers from each power of two to the next, and their least, greatest and sum."""

    def __init__(self) -> None:
        self.count = self.total = 0
        self.least: int | None = None
        self.most: int | None = None
        self.buckets: dict[int, int] = {}

    def add(self, number: int, times: int = 1) -> None:
        """Count a number."""
        self.count += times
        self.total += number * times
        self.least = number if self.least is None else min(self.least, number)
        self.most = number if self.most is None else max(self.most, number)
        bucket = number.bit_length() if number >= 0 else -number.bit_length()
        self.buckets[bucket] = self.buckets.get(bucket, 0) + times

    def lines(self, *, width: int | None, time: bool = False) -> list[str]:
        """Return a line for each power of two from the least to the greatest, with bars if `width` is given."""
        if not self.buckets:
            return []
        rows = [(_words(bucket, time=time), self.buckets.get(bucket, 0)) for bucket in self._shown()]
        column = max(len(words) for words, _ in rows)
        top = max(self.buckets.values())
        room = 0 if width is None else max(0, width - column - COLUMNS)
        return [f"    {words:>{column}}  {count:>10}  {bar(count, top, room)}".rstrip() for words, count in rows]

    def object(self) -> list[list[int]]:
        """Return it as JSON: a list of least, greatest and count."""
        return [[*_bounds(bucket), self.buckets[bucket]] for bucket in sorted(self.buckets)]

    def _shown(self) -> list[int]:
        shown: list[int] = []
        for bucket in sorted(self.buckets):
            if shown and bucket - shown[-1] <= 8:  # a longer gap would hide the shape
                shown += range(shown[-1] + 1, bucket)
            shown.append(bucket)
        return shown


class Ranks:
    """Percentiles of numbers: exact for the first 65,536 different ones, then to 1 %.

    `is_exact` tells which.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self.is_exact = True

    def add(self, number: int) -> None:
        """Take a number, 0 or more."""
        self.count += 1
        if not self.is_exact:
            number = _rounded(number)
        self._counts[number] = self._counts.get(number, 0) + 1
        if self.is_exact and len(self._counts) > EXACT:
            self.is_exact = False
            exact, self._counts = self._counts, {}
            for one, times in exact.items():
                self._counts[_rounded(one)] = self._counts.get(_rounded(one), 0) + times

    def percentile(self, percent: int) -> int:
        """Return the least number that `percent` of all numbers don't exceed (nearest rank)."""
        rank, seen = -(-self.count * percent // 100), 0
        for number in sorted(self._counts):
            seen += self._counts[number]
            if seen >= rank:
                return number
        raise ValueError("there are no numbers")


def bar(count: int, top: int, width: int) -> str:
    """Draw a count; even the smallest is visible."""
    return BAR * max(count * width // top, 1 if count and width else 0)


def duration(nanoseconds: int) -> str:
    """Write a time to the nanosecond, in a unit that suits it."""
    for unit, digits in (("s", 9), ("ms", 6), ("us", 3)):
        if abs(nanoseconds) >= 10**digits:
            whole, part = divmod(abs(nanoseconds), 10**digits)
            return f"{'-' if nanoseconds < 0 else ''}{whole}.{part:0{digits}} {unit}"
    return f"{nanoseconds} ns"


def _words(bucket: int, *, time: bool) -> str:
    low, high = _bounds(bucket)
    return f"{_time(low)} .. {_time(high + 1)}" if time else f"{low} .. {high}"


def _bounds(bucket: int) -> tuple[int, int]:
    if bucket == 0:
        return 0, 0
    low, high = 1 << abs(bucket) - 1, (1 << abs(bucket)) - 1
    return (low, high) if bucket > 0 else (-high, -low)


def _time(nanoseconds: int) -> str:
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 1000)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.4g} {unit}"
    return f"{nanoseconds} ns"


def _rounded(number: int) -> int:
    """Round a number to its first 7 bits, to the middle of that range."""
    shift = max(0, number.bit_length() - KEPT_BITS)
    return (number >> shift << shift) + (1 << shift >> 1)
