"""The compiled scan of call stacks in trace text: frames on lines after the stack's own, or all on that line."""

import numba

MOST = 120  # a stack with more frames is left to `kprobe_text.text`

_QUICK = {"cache": True, "nogil": True}
_USER = tuple(b"<user ")
_TITLE = tuple(b"stack trace>")


@numba.njit(**_QUICK)
def _title(buf, offset):
    """Return where the title of a stack at `offset` ends (`offset` if there is none), and whether it is a program's."""
    start, is_user = offset, True
    for i in range(len(_USER)):
        is_user = is_user and buf[offset + i] == _USER[i]
    if not is_user and buf[offset] != 60:
        return start, False
    offset += len(_USER) if is_user else 1
    for i in range(len(_TITLE)):
        if buf[offset + i] != _TITLE[i]:
            return start, False
    return offset + len(_TITLE), is_user


@numba.njit(**_QUICK)
def _arrow(buf, offset):
    return buf[offset] == 61 and buf[offset + 1] == 62 and buf[offset + 2] == 32


@numba.njit(**_QUICK)
def stack(buf, offset, limit, cells, values, cell):
    """Read a stack whose title is at `offset`: its frames get a row of `cells` each, and their positions in `values`.

    Return where it ends (-1: it isn't plain), the number of frames, whether it is a program's, and whether it is all
    on one line, so that the next record ends it.
    """
    end, is_user = _title(buf, offset)
    if end > offset and buf[end] == 10:
        after, count = _lines(buf, end + 1, limit, cells, values, cell)
        return after, count, is_user, False
    if end > offset:
        if buf[end] != 32:
            return -1, 0, False, False
        end += 1
    if not _arrow(buf, end):
        return -1, 0, False, False
    after, count = _line(buf, end + 3, cells, values, cell)
    return after, count, is_user, True


@numba.njit(**_QUICK)
def _lines(buf, offset, limit, cells, values, cell):
    count = 0
    while offset < limit and buf[offset] == 32 and _arrow(buf, offset + 1):
        # with a dash after 16 bytes it may be a task's name
        if count == MOST or buf[offset + 16] == 45:
            return -1, 0
        start = offset + 4
        while buf[start] == 32:  # before a program's address without a file
            start += 1
        end = start
        while 32 <= buf[end] <= 126:
            end += 1
        if buf[end] != 10 or end == start or buf[end - 1] == 32:
            return -1, 0
        values[cell + count], cells[cell + count, 1] = start, end - start
        count += 1
        offset = end + 1
    return offset, count


@numba.njit(**_QUICK)
def _line(buf, offset, cells, values, cell):
    count = 0
    while True:
        start = end = offset
        while 32 <= buf[end] <= 126 and not (buf[end] == 32 and _arrow(buf, end + 1)):
            end += 1
        if count == MOST or end == start or buf[start] == 32 or buf[end - 1] == 32:
            return -1, 0
        values[cell + count], cells[cell + count, 1] = start, end - start
        count += 1
        if buf[end] == 10:
            return end + 1, count
        if buf[end] != 32:
            return -1, 0
        offset = end + 4
