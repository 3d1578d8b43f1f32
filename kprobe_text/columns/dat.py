"""A trace.dat -> tables, one for each event; each CPU's rows in the order of time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kprobe_text.columns.rows import Rows
from kprobe_text.pages.dat.file import TraceDat

AT_ONCE = 1 << 21  # bytes of pages that are read at once
_RECORDS = 10_000


def tables_of(trace_dat: TraceDat, file: str = "", *, compiled: bool = True) -> Iterator[dict[str, pa.Table]]:
    """Yield tables by name; the values are those of `TraceDat.records`.

    `offset` is where a record begins in the data of its CPU.  Without numba, if not `compiled`, or where the file holds
    text or shifts its times, records are read one by one, those of all CPUs in the order of time; their `offset` is
    where they would begin if they followed each other.
    """
    contents = trace_dat.contents
    if compiled and not contents.texts and not contents.added:
        try:
            import numba  # noqa: F401 - whether it is there
        except ImportError:
            pass
        else:
            yield from _paged(trace_dat, file)
            return
    rows = Rows(file, lambda name: {}, is_text=False)
    offset = 0
    count = start = 0
    for record in trace_dat.records():
        rows.add(offset, record)
        offset += len(record.raw)
        count += 1
        if count >= _RECORDS or offset - start >= AT_ONCE:
            yield rows.tables()
            count, start = 0, offset
    yield rows.tables()


def _paged(trace_dat: TraceDat, file: str) -> Iterator[dict[str, pa.Table]]:
    from kprobe_text.columns.pages import LARGEST, RawReading

    for buffer in trace_dat.contents.buffers:
        reading = RawReading(trace_dat.reader(buffer), file=file)
        for place in buffer.cpus:
            held: list[bytes] = []
            start = size = 0
            for offset, page in trace_dat.pages(buffer, place):
                if buffer.page_size > LARGEST:
                    yield from reading.one_by_one(page, [[0]], place.cpu, offset)
                    continue
                if size >= AT_ONCE:
                    yield reading.tables(b"".join(held), place.cpu, start)
                    held, start, size = [], offset, 0
                held.append(page)
                size += len(page)
            if held:
                yield reading.tables(b"".join(held), place.cpu, start)
