"""The entries of a histogram, in the order in which the kernel shows them.

Sources: kernel/trace/tracing_map.c and sort() in lib/sort.c, of 6.1 and 6.12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kprobe_sim.events.hist.jhash import jhash
from kprobe_sim.probes.synthetic_record import SyntheticValue

Compare = Callable[["Element", "Element"], int]


class Element:
    """One entry: its number, key, sums and variables."""

    __slots__ = ("comm", "key", "number", "sums", "variables")

    def __init__(self, number: int, key: bytes, sums: int) -> None:
        self.number = number
        self.key = key
        self.sums = [0] * sums
        self.variables: dict[int, SyntheticValue] = {}
        self.comm = b""


class HistMap:
    """Entries by their keys, 2**bits at most."""

    def __init__(self, bits: int, sums: int) -> None:
        self.bits = bits
        self._sums = sums
        self.clear()

    def clear(self) -> None:
        """Forget all entries."""
        self._elements: dict[bytes, Element] = {}
        self.hits = 0
        self.drops = 0

    def lookup(self, key: bytes) -> Element | None:
        """Return the entry of a key, or None."""
        return self._elements.get(key)

    def insert(self, key: bytes) -> tuple[Element | None, bool]:
        """Return the entry of a key, and whether it is new; None if there is no room."""
        found = self._elements.get(key)
        if found is not None:
            self.hits += 1
            return found, False
        if len(self._elements) >= 1 << self.bits:
            self.drops += 1
            return None, False
        element = self._elements[key] = Element(len(self._elements), key, self._sums)
        self.hits += 1
        return element, True

    def sorted(self, keys: Sequence[Compare], *, two_at_once: bool, hashed: bool = False) -> list[Element]:
        """Return the entries in the order of one or two comparisons, equals as the kernel's sort leaves them.

        `hashed`: before that they are heapsorted in the order of the map, by a comparison that finds each the greater.
        """
        if hashed:
            entries = [self._elements[key] for key in self._hashed()]
            heapsort(entries, lambda a, b: 1, two_at_once=two_at_once)
        else:
            entries = [self._elements[key] for key in sorted(self._elements)]  # as detect_dups() leaves them
        heapsort(entries, keys[0], two_at_once=two_at_once)
        if len(keys) > 1:
            _sort_equals(entries, keys[0], keys[1], two_at_once=two_at_once)
        return entries

    def _hashed(self) -> list[bytes]:
        """Return the keys in the order of their slots: each has that of its hash, or the next free one."""
        size = 2 << self.bits
        slots: dict[int, bytes] = {}
        for key in self._elements:
            slot = jhash(key) >> 31 - self.bits
            while slot in slots:
                slot = (slot + 1) % size
            slots[slot] = key
        return [slots[slot] for slot in sorted(slots)]


def _sort_equals(entries: list[Element], primary: Compare, secondary: Compare, *, two_at_once: bool) -> None:
    """Sort what the first comparison finds equal by the second, as sort_secondary() does."""
    start, count = 0, 1
    for index in range(len(entries) - 1):
        if primary(entries[index], entries[index + 1]) == 0:
            count += 1
            if index < len(entries) - 2:
                continue
        if count < 2:
            start, count = index + 1, 1
            continue
        part = entries[start : start + count]
        heapsort(part, secondary, two_at_once=two_at_once)
        entries[start : start + count] = part
        start, count = index + 1, 1


def heapsort(items: list[Element], compare: Compare, *, two_at_once: bool) -> None:
    """Sort in place as the kernel's sort() does; `two_at_once`: as since 6.11."""
    size = len(items)
    if size < 2:
        return
    left, end, shift = size // 2, size, 0
    while True:
        if left:
            left -= 1 << shift
        elif two_at_once:
            if end <= 3:
                break
            end -= 1
            items[0], items[end] = items[end], items[0]
            shift = int(compare(items[1], items[2]) <= 0)
            left = 1 << shift
            end -= 1
            items[left], items[end] = items[end], items[left]
        else:
            end -= 1
            if not end:
                return
            items[0], items[end] = items[end], items[0]
        _sift(items, compare, left, end, first_of_equals=not two_at_once)
    end -= 1
    items[0], items[end] = items[end], items[0]
    if end == 2 and compare(items[0], items[1]) > 0:
        items[0], items[1] = items[1], items[0]


def _sift(items: list[Element], compare: Compare, top: int, end: int, *, first_of_equals: bool) -> None:
    node = top
    while (child := 2 * node + 1) + 1 < end:
        order = compare(items[child], items[child + 1])
        node = child if order > 0 or (first_of_equals and order == 0) else child + 1
    if child + 1 == end:
        node = child
    while node != top and compare(items[top], items[node]) >= 0:
        node = (node - 1) // 2
    goal = node
    while node != top:
        node = (node - 1) // 2
        items[node], items[goal] = items[goal], items[node]
