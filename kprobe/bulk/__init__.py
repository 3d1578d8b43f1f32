"""Trace text -> a typed table for each event, as Parquet or Arrow files (extra ``bulk``: pyarrow, numba).

Start with `reading` (text to tables, without files), then `store`.  The values are those of `kprobe.text`.
"""

try:
    from kprobe.bulk.reading import Reading
    from kprobe.bulk.store import FORMATS, NotEmpty, Store
    from kprobe.bulk.writing import Writer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"kprobe.bulk needs {error.name}: pip install 'kprobe-sim[bulk]'", name=error.name
    ) from error

__all__ = ["FORMATS", "NotEmpty", "Reading", "Store", "Writer"]
