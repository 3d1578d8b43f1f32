"""kprobe's own parser as a function of Python: what `kprobe parse --format ndjson` prints."""

import os

from kprobe.figures.shape import as_dict
from kprobe.parsing.schema import Schema
from kprobe.readers import answer
from kprobe.text import Header, parse


def read(trace):
    path = os.environ.get("KPROBE_FORMATS")
    schema = Schema([path] if path else [])
    for record in parse(trace, schema.formats, definitions=schema.definitions):
        if not isinstance(record, Header):
            yield as_dict(record)


answer(read)
