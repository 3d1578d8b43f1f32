"""kprobe's own parser as a function of Python: what `kprobe parse --format ndjson` prints."""

import os

from kprobe_corpus.parsers import answer
from kprobe_text.figures.shape import as_dict
from kprobe_text.parse.schema import Schema
from kprobe_text.text import Header, parse


def read(trace):
    path = os.environ.get("KPROBE_FORMATS")
    schema = Schema([path] if path else [])
    for record in parse(trace, schema.formats, definitions=schema.definitions):
        if not isinstance(record, Header):
            yield as_dict(record)


answer(read)
