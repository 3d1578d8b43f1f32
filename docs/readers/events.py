"""What the adapters of trappy and LISA share: the events of a text, and rows of data frames as records."""

import os
import re


def names(trace):
    """Return the names of the events that have a format, or else those that the text seems to have."""
    known = []
    if path := os.environ.get("KPROBE_FORMATS"):
        with open(path, "rb") as file:
            known = re.findall(rb"^name: (\w+)", file.read(), re.M)
    known = known or re.findall(rb"\d: +(\w+): \(", trace)
    return sorted({name.decode() for name in known if name + b": " in trace})


def record(name, seconds, row):
    """Return a row as a record: times from seconds to nanoseconds, strings without their quotes."""
    return {
        "type": "event",
        "name": name,
        "task": str(row["__comm"]),
        "pid": int(row["__pid"]),
        "cpu": int(row["__cpu"]),
        "timestamp": round(seconds * 1e6) * 1000,
        "fields": {key: value(read) for key, read in row.items() if not key.startswith("__") and read == read},
    }


def value(read):
    if hasattr(read, "item"):
        read = read.item()  # a number of numpy's
    if isinstance(read, float) and read == int(read):
        return int(read)  # pandas makes floats of whole numbers where another line lacks them
    text = read.decode("utf-8", "surrogateescape") if isinstance(read, bytes) else str(read)
    if text == "(fault)":  # without quotes, so it is not a string
        return None
    if isinstance(read, int) or re.fullmatch(r"0x[0-9a-f]+", text):
        return int(text, 0)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
