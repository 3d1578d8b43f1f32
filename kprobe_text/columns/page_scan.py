"""The compiled scan of ring-buffer pages: the positions of plain events, their numbers and texts."""

import numba
import numpy as np

_QUICK = {"cache": True, "nogil": True}


@numba.njit(**_QUICK)
def _four(buf, at):
    part = buf[at : at + 4]  # an index that can't be negative compiles to less code
    return (
        numba.uint64(part[0])
        | numba.uint64(part[1]) << numba.uint64(8)
        | numba.uint64(part[2]) << numba.uint64(16)
        | numba.uint64(part[3]) << numba.uint64(24)
    )


@numba.njit(**_QUICK)
def _at(buf, at, size):
    if size == 4:
        return _four(buf, at)
    if size == 8:
        return _four(buf, at) | _four(buf, at + 4) << numba.uint64(32)
    value = numba.uint64(0)
    for i in range(size):
        value |= numba.uint64(buf[at + i]) << numba.uint64(8 * i)
    return value


@numba.njit(**_QUICK)
def walk(buf, count, layout, events, good, rows):  # noqa: C901 - one page after the other, one event after the other
    """Find the events of `count` pages, except on pages that aren't plain; `good` says which are.

    `layout`: where a page has its time stamp, commit, size of that, data and end, and an event its type.  `events`
    has the number of a plain event by its type, or -1, and the least length by that number.  A row of `rows`: the
    event (-1: not plain), its page, where its bytes begin, where the event itself begins and ends, its time.
    """
    stamp_at, commit_at, long, data, size, type_at = layout
    slots, sizes = events
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
            word = numba.int64(_four(buf, at))
            kind, delta = word & 31, word >> 5
            if kind == 29 and delta == 0:
                at = stop
                break
            if kind == 30 and at + 8 <= stop:
                stamp += delta + (numba.int64(_four(buf, at + 4)) << 27)
                at += 8
                continue
            begin, end = at + 4, at + 4 + 4 * kind
            if kind == 0 or kind > 28:
                begin, end = at + 8, at + 4 + numba.int64(_four(buf, at + 4))
                if kind > 29 or begin > stop or not begin <= end <= stop:
                    is_plain = False
                    break
            if kind == 29:
                # a discarded event; where its time was 0 the kernel wrote 1, which doesn't count
                stamp += delta if delta != 1 else 0
                at = end
                continue
            if end > stop or begin + type_at + 2 > end or n == len(rows):
                is_plain = False
                break
            stamp += delta
            slot = slots[_at(buf, begin + type_at, 2)]
            if slot >= 0 and end - begin < sizes[slot]:
                slot = -1
            rows[n, 0], rows[n, 1], rows[n, 2] = slot, page, first
            rows[n, 3], rows[n, 4], rows[n, 5] = begin, end, stamp
            n += 1
            first = at = end
        if not is_plain or at != stop or n == before:
            n = before
            good[page] = False
        else:
            good[page] = True
    return n


@numba.njit(**_QUICK)
def sorted_by_event(rows, good, slots, columns):
    """Group the rows of good pages by event, odd ones first; return where the rows of each begin.

    `columns` receives for each row where its bytes begin, where the event itself begins and ends, and its time.
    """
    places = np.zeros(slots + 2, np.int64)
    for i in range(len(rows)):
        if good[rows[i, 1]]:
            places[rows[i, 0] + 2] += 1
    for slot in range(slots + 1):
        places[slot + 1] += places[slot]
    for i in range(len(rows)):
        if good[rows[i, 1]]:
            at = places[rows[i, 0] + 1]
            for k in range(4):
                columns[k, at] = rows[i, k + 2]
            places[rows[i, 0] + 1] += 1
    return places


@numba.njit(**_QUICK)
def numbers(buf, starts, offset, size, signed, out):
    """Read numbers of `size` bytes; `out` is of 64 bits."""
    if size == 8:
        for i in range(len(starts)):
            out[i] = numba.int64(_at(buf, starts[i] + offset, 8))
        return
    if size == 4 and signed:
        for i in range(len(starts)):
            out[i] = numba.int32(_four(buf, starts[i] + offset))
        return
    for i in range(len(starts)):
        value = _at(buf, starts[i] + offset, size)
        if signed and value >> numba.uint64(8 * size - 1):
            value |= ~numba.uint64(0) << numba.uint64(8 * size)
        out[i] = numba.int64(value)


@numba.njit(**_QUICK)
def marks(buf, starts, first, second, out):
    """Read two bytes of each event, big-endian."""
    for i in range(len(starts)):
        out[i] = numba.int64(buf[starts[i] + first]) << 8 | buf[starts[i] + second]


@numba.njit(**_QUICK)
def copied(buf, starts, offset, size, out):
    """Copy `size` bytes of each event."""
    if size == 4:
        for i in range(len(starts)):
            for k in range(4):
                out[4 * i + k] = buf[starts[i] + offset + k]
    elif size == 8:
        for i in range(len(starts)):
            for k in range(8):
                out[8 * i + k] = buf[starts[i] + offset + k]
    else:
        for i in range(len(starts)):
            for k in range(size):
                out[size * i + k] = buf[starts[i] + offset + k]


@numba.njit(**_QUICK)
def texts(buf, bounds, field, column, odd):
    """Copy texts one after the other, by their locations; return their length.

    `bounds`: where each event begins and ends; `field`: its offset, and whether the event is a probe's; `column`: where
    each text begins, and the end, whether it could be read, and all bytes.  A text that isn't plain is left out and
    marked in `odd`.
    """
    starts, ends = bounds
    offset, is_probe = field
    offsets, present, out = column
    used = 0
    for i in range(len(starts)):
        offsets[i] = used
        where = numba.int64(_four(buf, starts[i] + offset))
        length = where >> 16
        at = starts[i] + (where & 0xFFFF)
        present[i] = length > 0 or not is_probe
        if length == 0:
            continue
        if at + length > ends[i]:
            odd[i] = True
            continue
        source, target = buf[at : at + length], out[used : used + length]
        seen = numba.uint8(0)
        for k in range(length - 1):
            c = source[k]
            target[k] = c
            seen |= c | numba.uint8(c - numba.uint8(1))  # 128 and more for bytes above 127, and for zero
        if seen > 127 or source[length - 1] != 0:
            target[length - 1] = source[length - 1]
            # only what stands before the first zero counts
            end = at
            while end < at + length and 0 < buf[end] < 128:
                end += 1
            if end < at + length and buf[end] != 0:
                odd[i] = True
                continue
            used += end - at
        else:
            used += length - 1
    offsets[len(starts)] = used
    return used


@numba.njit(**_QUICK)
def frames(buf, bounds, offset, counts, offsets, out):
    """Read the addresses of call stacks up to their end marks; a count below 0 is unknown."""
    starts, ends = bounds
    used = 0
    for i in range(len(starts)):
        offsets[i] = used
        begin = starts[i] + offset
        count = (ends[i] - begin) // 8
        if 0 <= counts[i] < count:
            count = counts[i]
        for k in range(count):
            address = _at(buf, begin + 8 * k, 8)
            if address == 0 or address == numba.uint64(0xFFFFFFFF) or address == ~numba.uint64(0):
                break
            out[used] = numba.int64(address)
            used += 1
    offsets[len(starts)] = used
    return used


@numba.njit(**_QUICK)
def coded(values, table, known, out):
    """Number the different values; return how many there are, or -1 if `known` has no room for them."""
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
