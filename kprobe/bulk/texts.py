"""Texts that stand apart, copied one after the other, compiled."""

import numba


@numba.njit(cache=True, nogil=True)
def gather(buf, starts, lengths, offsets, out):
    """Copy texts one after the other into `out`; `offsets` gets where each begins, and the end."""
    at = 0
    for i in range(len(starts)):
        offsets[i] = at
        start = starts[i]
        for k in range(lengths[i]):
            out[at + k] = buf[start + k]
        at += lengths[i]
    offsets[len(starts)] = at
