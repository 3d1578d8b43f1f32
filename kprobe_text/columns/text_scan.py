"""The compiled scan of trace text: its plain lines, as numbers and positions.

It takes only lines that `kprobe_text.text` reads the same way in any context, and leaves all others to it.
Its strings have no quote, no ``=`` and no byte above 127, so each can end in only one position.
"""

from typing import Any, NamedTuple

import numba

from kprobe_text.columns.compiled_texts import decimal, hexadecimal
from kprobe_text.columns.stack_scan import stack

# what a line is: unknown, one with a context in the standard layout, a probe's event that was read whole, or a stack,
# which may have several lines
OTHER, CONTEXT, EVENT, STACK, SHORT_STACK = 0, 1, 2, 3, 4

# what an argument is
POSITIVE, NEGATIVE, BIG, TEXT, FAULT, PLACE, POSITIVES, NEGATIVES, BIGS = 1, 2, 3, 4, 5, 6, 7, 8, 9

# how an argument is printed; ARRAY is added for an array.  ANY: as its text shows, where there is no schema.
ANY, DECIMAL, PREFIXED, BARE, EITHER, STRING, SYMBOL, ARRAY = 0, 1, 2, 3, 4, 5, 6, 16


class Probes(NamedTuple):
    """The known probes, as `ProbeTables` holds them: their addresses by hash, and the arguments of each."""

    hashes: Any
    rows: Any
    pool: Any  # the bytes of all texts
    plan: Any  # by the number of the probe point
    plans: Any  # first and last row of `arguments`, by the number of the plan
    has_schema: Any
    arguments: Any


class ScanTables(NamedTuple):
    """The tables that a scan fills, and the numbers of comms and flags."""

    comms: Any
    flags: Any
    counts: Any
    lines: Any
    head: Any
    cells: Any
    values: Any
    elements: Any


# numba's cache of this file outlives changes of `compiled_texts` and `stack_scan`: then change this number, 2
_QUICK = {"cache": True, "nogil": True}


@numba.njit(**_QUICK)
def _number(buf, at, kind):
    """Read a number printed as `kind`; return its value, its end (-1: not a number) and its sign or size."""
    prefixed = buf[at] == 48 and buf[at + 1] == 120
    if kind == BARE:
        value, end, big = hexadecimal(buf, at)
        return value, end, BIG if big else POSITIVE
    if kind == PREFIXED or (prefixed and kind != DECIMAL):
        if not prefixed:
            return 0, -1, POSITIVE
        value, end, big = hexadecimal(buf, at + 2)
        return value, end, BIG if big else POSITIVE
    negative = buf[at] == 45
    if negative:
        at += 1
    if kind == EITHER and buf[at] == 48 and 48 <= buf[at + 1] <= 57:
        return 0, -1, POSITIVE
    value, end, big = decimal(buf, at)
    if negative:
        return -value, -1 if big else end, NEGATIVE
    return value, end, BIG if big else POSITIVE


@numba.njit(**_QUICK)
def _word(c):
    return 97 <= c <= 122 or 48 <= c <= 57 or 65 <= c <= 90 or c == 95


@numba.njit(**_QUICK)
def _place(buf, at):
    """Return where ``symbol+0xOFFSET/0xSIZE [module]`` ends; -1 if there is none."""
    if 48 <= buf[at] <= 57:
        return -1
    start = at
    while _word(buf[at]) or buf[at] == 46:
        at += 1
    if at == start or buf[at] != 43 or buf[at + 1] != 48 or buf[at + 2] != 120:
        return -1
    _, at, _ = hexadecimal(buf, at + 3)
    if at < 0 or buf[at] != 47 or buf[at + 1] != 48 or buf[at + 2] != 120:
        return -1
    _, at, _ = hexadecimal(buf, at + 3)
    if at >= 0 and buf[at] == 32 and buf[at + 1] == 91:
        at += 2
        start = at
        while _word(buf[at]):
            at += 1
        if at == start or buf[at] != 93:
            return -1
        at += 1
    return at


@numba.njit(**_QUICK)
def _string(buf, at):
    """Return where a string ends, at its quote; -1 if that isn't plain."""
    while buf[at] != 34:
        if buf[at] < 32 or buf[at] == 61 or buf[at] > 126:
            return -1
        at += 1
    return at


@numba.njit(**_QUICK)
def _elements(buf, at, kind, count, elements, used):
    """Read the numbers of an array after its brace; return where it ends (or -1), their count and their kind."""
    worst = POSITIVE
    first = used
    while True:
        if used == len(elements):
            return -1, 0, 0
        value, at, sign = _number(buf, at, kind)
        if at < 0 or (sign != POSITIVE and worst not in (POSITIVE, sign)):
            return -1, 0, 0
        if sign != POSITIVE:
            worst = sign
        elements[used] = value
        used += 1
        if buf[at] == 125:
            break
        if buf[at] != 44:
            return -1, 0, 0
        at += 1
    if count >= 0 and used - first != count:
        return -1, 0, 0
    return at + 1, used - first, worst + (POSITIVES - POSITIVE)


@numba.njit(**_QUICK)
def _clock(buf, at):
    """Read a time; return it in nanoseconds, and its end, after colon and blank, or -1."""
    while buf[at] == 32:
        at += 1
    start = at
    seconds, at, _ = decimal(buf, at)
    if at < 0 or at - start > 10 or seconds > 9000000000 or buf[at] != 46:
        return 0, -1
    start = at + 1
    fraction, at, _ = decimal(buf, start)
    if at - start != 6 or buf[at] != 58 or buf[at + 1] != 32:
        return 0, -1
    return seconds * 1000000000 + fraction * 1000, at + 2


@numba.njit(**_QUICK)
def _eight(buf, at):
    value = numba.uint64(0)
    for i in range(8):
        value |= numba.uint64(buf[at + i]) << numba.uint64(8 * i)
    return value


@numba.njit(**_QUICK)
def _interned(table, counts, which, low, high):
    """Number a text of 16 bytes; -1 if the table is full."""
    mask = numba.uint64(table.shape[0] - 1)
    mixed = (low ^ (high * numba.uint64(0x9E3779B97F4A7C15))) * numba.uint64(0xD6E8FEB86659FD93)
    row = (mixed >> numba.uint64(32)) & mask
    while table[row, 2] != 0:
        if table[row, 0] == low and table[row, 1] == high:
            return numba.int64(table[row, 2]) - 1
        row = (row + numba.uint64(1)) & mask
    if counts[which] * 2 >= table.shape[0]:
        return -1
    counts[which] += 1
    table[row, 0], table[row, 1], table[row, 2] = low, high, numba.uint64(counts[which])
    return counts[which] - 1


@numba.njit(**_QUICK)
def _context(buf, at, interned, head, i):  # noqa: C901 - one column after the other, each where the last ends
    """Read task, CPU, flags and time into a row of `head`; return where the rest begins, or -1."""
    comms, flags, counts = interned
    low, high = _eight(buf, at), _eight(buf, at + 8)
    if (low | high) & numba.uint64(0x8080808080808080):
        return -1
    for k in range(16):
        if buf[at + k] < 32:
            return -1
    if buf[at + 16] != 45:
        return -1
    p = at + 17
    pid, end, _ = decimal(buf, p)
    if end < 0 or end - p > 9:
        return -1
    while buf[end] == 32:
        end += 1
    if not 5 <= end - p <= 21:
        return -1
    tgid = -1
    if buf[end] == 40:
        end += 1
        p = end
        while buf[end] == 32:
            end += 1
        if buf[end] == 45:
            while buf[end] == 45:
                end += 1
        else:
            tgid, end, _ = decimal(buf, end)
        if end < 0 or not 5 <= end - p <= 9 or buf[end] != 41 or buf[end + 1] != 32:
            return -1
        end += 2
    if buf[end] != 91:
        return -1
    p = end + 1
    cpu, end, _ = decimal(buf, p)
    if end < 0 or not 3 <= end - p <= 9 or buf[end] != 93 or buf[end + 1] != 32:
        return -1
    p = end + 2
    packed = numba.uint64(0)
    stamp, after = 0, -1
    if buf[p] != 32:
        end = p
        while buf[end] > 32 and end - p < 9:
            packed |= numba.uint64(buf[end]) << numba.uint64(8 * (end - p) & 63)
            end += 1
        if end - p <= 8 and buf[end] == 32 and not packed & numba.uint64(0x8080808080808080):
            stamp, after = _clock(buf, end)
    if after < 0:
        packed = numba.uint64(0)
        stamp, after = _clock(buf, p)
        # flags can look like a time, with the time after them
        if after < 0 or (buf[p] != 32 and 48 <= buf[after] <= 57):
            return -1
    comm = _interned(comms, counts, 0, low, high)
    flag = _interned(flags, counts, 1, packed, numba.uint64(0))
    if comm < 0 or flag < 0:
        return -1
    head[0, i], head[1, i], head[2, i] = comm, pid, tgid
    head[3, i], head[4, i], head[5, i] = cpu, flag, stamp
    return after


@numba.njit(**_QUICK)
def hashed(buf, start, end):
    """Hash a text for its table."""
    value = numba.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        value = (value ^ numba.uint64(buf[i])) * numba.uint64(0x100000001B3)
    return value ^ (value >> numba.uint64(29))


@numba.njit(**_QUICK)
def _site(buf, at, sites):
    """Look up ``name: (place)``; return its number and where it ends, or -1."""
    hashes, rows, pool = sites
    p = at
    while buf[p] > 32 and buf[p] != 58:
        p += 1
    if p == at or buf[p] != 58 or buf[p + 1] != 32 or buf[p + 2] != 40:
        return -1, -1
    p += 3
    while buf[p] != 41:
        if buf[p] < 32 or buf[p] == 40:
            return -1, -1
        p += 1
    p += 1
    mask = numba.uint64(len(hashes) - 1)
    value = hashed(buf, at, p)
    row = value & mask
    while rows[row, 0] >= 0:
        if hashes[row] == value and rows[row, 2] == p - at:
            start = rows[row, 1]
            same = True
            for i in range(p - at):
                if pool[start + i] != buf[at + i]:
                    same = False
                    break
            if same:
                return rows[row, 0], p
        row = (row + numba.uint64(1)) & mask
    return -1, -1


@numba.njit(**_QUICK)
def _value(buf, at, printed, room, row, used):
    """Read one value into a row of `cells`; return where it ends, or -1, and the elements of arrays used.

    `printed`: how it is printed, and its number of elements; `room`: cells, values and elements.
    """
    kind, count = printed
    cells, values, elements = room
    c = buf[at]
    if c == 34 and kind in (STRING, ANY):
        end = _string(buf, at + 1)
        values[row], cells[row, 0], cells[row, 1] = at + 1, TEXT, end - at - 1
        return (end + 1 if end >= 0 else -1), used
    if c == 40 and kind in (STRING, ANY):
        # (fault)
        if _eight(buf, at) & numba.uint64(0xFFFFFFFFFFFFFF) != numba.uint64(0x29746C75616628):
            return -1, used
        values[row], cells[row, 0], cells[row, 1] = 0, FAULT, 0
        return at + 7, used
    if kind == STRING:
        return -1, used
    if kind >= ARRAY or (kind == ANY and c == 123):
        if c != 123:
            return -1, used
        end, length, sort = _elements(buf, at + 1, kind & 15, count, elements, used)
        values[row], cells[row, 0], cells[row, 1] = used, sort, length
        return end, used + length
    if kind == SYMBOL or (kind == ANY and c != 45 and not 48 <= c <= 57):
        end = _place(buf, at)
        values[row], cells[row, 0], cells[row, 1] = at, PLACE, end - at
        return end, used
    value, end, sort = _number(buf, at, kind)
    values[row], cells[row, 0], cells[row, 1] = value, sort, 0
    return end, used


@numba.njit(**_QUICK)
def _arguments(buf, at, names, plan, room, filled):
    """Read a plan's arguments; return where the line ends (its newline), or -1, the elements used and the strings.

    `plan`: its first and last row, and whether it tells; `filled`: the first free cell and element.  It tells where
    there is no schema: then a number with 0x shows the kind of kernel, unless there are strings.  A line with a string
    is left to `kprobe_text.text` until that has learned it.
    """
    first, last, tells = plan
    cell, used = filled
    arguments, pool = names
    cells = room[0]
    texts = strings = 0
    prefixed = False
    for k in range(first, last):
        kind, start, length, count = arguments[k, 0], arguments[k, 1], arguments[k, 2], arguments[k, 3]
        for i in range(length):
            if buf[at + i] != pool[start + i]:
                return -1, used, 0
        at += length
        if kind == ANY and buf[at] == 48 and buf[at + 1] == 120:
            prefixed = True
        at, used = _value(buf, at, (kind, count), room, cell, used)
        if at < 0 or (buf[at] != 32 and buf[at] != 10):
            return -1, used, 0
        if cells[cell, 0] == TEXT:
            strings += 1
            texts += kind == ANY
        cell += 1
    # without a schema, the first of two strings may hold the second
    if buf[at] != 10 or texts > 1 or (tells and prefixed and texts == 0):
        return -1, used, 0
    return at, used, strings


@numba.njit(**_QUICK)
def scan(  # noqa: C901 - what a line is shows step by step, each where the last has ended
    buf, start, limit, is_decimal, probes, out
):
    """Read lines from `start` to `limit`, which follows a newline, until the tables are full.

    `lines` receives for each: where it begins, its kind, the number of its site (of a stack: twice the number of
    frames, plus 1 if it is a program's), its first cell, its plan, and its number of strings.  Return the number of
    lines, and where reading stopped.  After `limit` there are 64 bytes of zeros.
    """
    lines, head, cells, values, elements = out.lines, out.head, out.cells, out.values, out.elements
    interned, room = (out.comms, out.flags, out.counts), (cells, values, elements)
    sites, names = (probes.hashes, probes.rows, probes.pool), (probes.arguments, probes.pool)
    site_plan, plan_rows, has_schema = probes.plan, probes.plans, probes.has_schema
    at, n, cell, used = start, 0, 0, 0
    while at < limit and n < len(lines):
        if cell + 128 > len(values) or used + 2048 > len(elements):
            break
        lines[n, 0], lines[n, 1], lines[n, 2], lines[n, 3] = at, OTHER, -1, cell
        end = -1
        if at + 40 < limit:
            body = _context(buf, at, interned, head, n)
            if body >= 0:
                lines[n, 1] = CONTEXT
                site, rest = _site(buf, body, sites)
                if site >= 0:
                    plan = site_plan[site]
                    known = has_schema[plan]
                    wide = buf[at + 23] == 32 and (buf[at + 25] == 91 or buf[at + 25] == 40)
                    if known == 2 or wide or is_decimal:
                        first, last = plan_rows[plan, 0], plan_rows[plan, 1]
                        tells = known == 0 and not is_decimal
                        end, more, strings = _arguments(buf, rest, names, (first, last, tells), room, (cell, used))
                        if end >= 0:
                            lines[n, 1], lines[n, 2], lines[n, 4], lines[n, 5] = EVENT, site, plan, strings
                            cell += last - first
                            used = more
                elif buf[body] == 60 or buf[body] == 61:
                    after, count, is_user, is_short = stack(buf, body, limit, cells, values, cell)
                    if after >= 0:
                        lines[n, 1], lines[n, 2] = SHORT_STACK if is_short else STACK, 2 * count + is_user
                        cell += count
                        end = after - 1
        if end < 0:
            end = at
            while buf[end] != 10:
                end += 1
        at = end + 1
        n += 1
    return n, at
