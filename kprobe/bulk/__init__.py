"""Trace text -> a typed table for each event, as Parquet or Arrow files (extra ``bulk``: pyarrow, numba).

Start with `reading` (text to tables, without files), then `store`.  The values are those of `kprobe.text`.
"""

from kprobe.bulk.reading import Reading
from kprobe.bulk.store import FORMATS, NotEmpty, Store
from kprobe.bulk.writing import Writer

__all__ = ["FORMATS", "NotEmpty", "Reading", "Store", "Writer"]
