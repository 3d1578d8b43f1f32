"""The pages of a ring buffer, walked by compiled code: where the plain events are, and their numbers and texts."""

import numba

_QUICK = {"cache": True, "nogil": True}


@numba.njit(**_QUICK)
def _at(buf, at, size):
    value = numba.uint64(0)
    for i in range(size):
        value |= numba.uint64(buf[at + i]) << numba.uint64(8 * i)
    return value


@numba.njit(**_QUICK)
def walk(buf, count, layout, slots, sizes, good, found):  # noqa: C901 - one page after the other, one event after the other
    """Find the events of `count` pages; those of a page that isn't plain are left out, which `good` says.

    `layout`: where a page has its time stamp, commit, size of that, data and end, and an event its type.  `slots` gives
    the number of a plain event by its type, or -1; `sizes` the least length by that.  A row of `found`: the event (-1:
    not plain), its page, where what belongs to it begins, where it begins and ends, its time.
    """
    stamp_at, commit_at, long, data, size, type_at = layout
    n = 0
    for page in range(count):
        base = page * size
        before = n
        stamp = numba.int64(_at(buf, base + stamp_at, 8))
        commit = _at(buf, base + commit_at, long)
        stop = base + data + numba.int64(commit & numba.uint64(0x7FFFFFF))
        first = base
        at = base + data
        is_plain = stop <= base + size and commit >> numba.uint64(27) == 0 and 0 <= stamp < 1 << 58
        while is_plain and at + 4 <= stop:
            word = numba.int64(_at(buf, at, 4))
            kind, delta = word & 31, word >> 5
            if kind == 29 and delta == 0:
                at = stop
                break
            if kind == 30 and at + 8 <= stop:
                stamp += delta + (numba.int64(_at(buf, at + 4, 4)) << 27)
                at += 8
                continue
            begin, end = at + 4, at + 4 + 4 * kind
            if kind == 0 or kind > 28:
                begin, end = at + 8, at + 4 + numba.int64(_at(buf, at + 4, 4))
                if kind > 29 or begin > stop or not begin <= end <= stop:
                    is_plain = False
                    break
            if kind == 29:
                # a discarded event; where its own time was 0 the kernel has put 1, which doesn't count
                stamp += delta if delta != 1 else 0
                at = end
                continue
            if end > stop or begin + type_at + 2 > end or n == len(found):
                is_plain = False
                break
            stamp += delta
            slot = slots[_at(buf, begin + type_at, 2)]
            if slot >= 0 and end - begin < sizes[slot]:
                slot = -1
            found[n, 0], found[n, 1], found[n, 2] = slot, page, first
            found[n, 3], found[n, 4], found[n, 5] = begin, end, stamp
            n += 1
            first = at = end
        if not is_plain or at != stop or n == before:
            n = before
            good[page] = False
        else:
            good[page] = True
    return n


@numba.njit(**_QUICK)
def numbers(buf, starts, offset, size, signed, out):
    """Read numbers of `size` bytes; `out` is of 64 bits."""
    for i in range(len(starts)):
        value = _at(buf, starts[i] + offset, size)
        if signed and size < 8 and value >> numba.uint64(8 * size - 1):
            value |= ~numba.uint64(0) << numba.uint64(8 * size)
        out[i] = numba.int64(value)


@numba.njit(**_QUICK)
def texts(buf, starts, ends, offset, is_probe, places, lengths):
    """Find texts by their locations; a length is -1 for what couldn't be read, and -2 for a text that isn't plain."""
    for i in range(len(starts)):
        where = numba.int64(_at(buf, starts[i] + offset, 4))
        length = where >> 16
        at = starts[i] + (where & 0xFFFF)
        places[i] = at
        if length == 0:
            lengths[i] = -1 if is_probe else 0
            continue
        if at + length > ends[i]:
            lengths[i] = -2
            continue
        end = at
        while end < at + length and 0 < buf[end] < 128:
            end += 1
        lengths[i] = -2 if end < at + length and buf[end] != 0 else end - at


@numba.njit(**_QUICK)
def coded(values, table, known, out):
    """Number the different values; say how many there are, or -1 if there is no room for them in `known`."""
    mask = len(table) - 1
    table[:] = -1
    n = 0
    for i in range(len(values)):
        value = values[i]
        row = numba.int64((numba.uint64(value) * numba.uint64(0x9E3779B97F4A7C15)) >> numba.uint64(40)) & mask
        while table[row] >= 0 and known[table[row]] != value:
            row = (row + 1) & mask
        if table[row] < 0:
            if n == len(known):
                return -1
            table[row] = n
            known[n] = value
            n += 1
        out[i] = table[row]
    return n
