"""Trace text -> a typed table for each event, as Parquet or Arrow files (extra ``bulk``: pyarrow, numba).

The compiled `text_scan` and `page_scan` are its fast path: they leave what isn't plain to `kprobe_text.text` and
`kprobe_text.pages`, and give the same values.  Start with `reading` (text to tables, without files), then `store`.
"""

try:
    from kprobe_text.columns.reading import Reading
    from kprobe_text.columns.store import FORMATS, NotEmpty, Store
    from kprobe_text.columns.writing import Writer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"kprobe_text.columns needs {error.name}: pip install 'kprobe-sim[bulk]'", name=error.name
    ) from error

__all__ = ["FORMATS", "NotEmpty", "Reading", "Store", "Writer"]
