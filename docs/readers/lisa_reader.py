"""LISA's HRTxtTraceParser (lisa-linux 3.1.0) as a reader."""

import logging
import os
import tempfile
import warnings

import events
from lisa.trace import HRTxtTraceParser, MissingTraceEventError

from kprobe_corpus.parsers import answer

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


def read(trace):
    names = events.names(trace)
    if not names:
        return []
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "trace.txt")
        with open(path, "wb") as file:
            file.write(trace)
        parser = HRTxtTraceParser.from_txt_file(path, events=names)
        for name in names:
            try:
                frame = parser.parse_event(name)
            except MissingTraceEventError:
                continue
            records = zip(frame.index, frame.to_dict("records"), strict=True)
            rows += [(time, events.record(name, time, row)) for time, row in records]
    return [record for _, record in sorted(rows, key=lambda row: row[0])]


answer(read)
