"""Compiled handling of texts: reads the numbers in them, and copies scattered ones together."""

import numba

_QUICK = {"cache": True, "nogil": True}


@numba.njit(**_QUICK)
def gather(buf, starts, lengths, offsets, out):
    """Copy texts one after the other into `out`; `offsets` receives where each begins, and the end."""
    offset = 0
    for i in range(len(starts)):
        offsets[i] = offset
        length = lengths[i]
        source, target = buf[starts[i] : starts[i] + length], out[offset : offset + length]
        for k in range(length):
            target[k] = source[k]
        offset += length
    offsets[len(starts)] = offset


@numba.njit(**_QUICK)
def decimal(buf, offset):
    """Read an unsigned decimal number of up to 20 digits; the position after it is -1 if there is none."""
    value = 0
    start = offset
    while offset - start < 18 and 48 <= buf[offset] <= 57:
        value = value * 10 + (buf[offset] - 48)
        offset += 1
    if offset == start:
        return 0, -1, False
    if offset - start < 18 or not 48 <= buf[offset] <= 57:
        return value, offset, False
    more = numba.uint64(value)
    while offset - start < 20 and 48 <= buf[offset] <= 57:
        digit = numba.uint64(buf[offset] - 48)
        if offset - start == 19 and (
            more > numba.uint64(1844674407370955161) or (more == numba.uint64(1844674407370955161) and digit > 5)
        ):
            return 0, -1, False
        more = more * numba.uint64(10) + digit
        offset += 1
    if 48 <= buf[offset] <= 57:
        return 0, -1, False
    return numba.int64(more), offset, more >= numba.uint64(1) << numba.uint64(63)


@numba.njit(**_QUICK)
def hexadecimal(buf, offset):
    value = numba.uint64(0)
    start = offset
    while True:
        c = buf[offset]
        if 48 <= c <= 57:
            digit = c - 48
        elif 97 <= c <= 102:
            digit = c - 87
        else:
            break
        if offset - start == 16:
            return 0, -1, False
        value = (value << numba.uint64(4)) | numba.uint64(digit)
        offset += 1
    return numba.int64(value), offset if offset > start else -1, value >= numba.uint64(1) << numba.uint64(63)
