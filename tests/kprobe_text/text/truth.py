"""What the events of the recorded traces say, read apart from kprobe_text.text; and how what it reads compares.

The truth is made of each event's definition (its conversions as the kernel's format file has them) and of the text in
the fixture. It knows nothing of layouts: it looks for the event's name and reads to the record's end.
"""

import json
import re
from collections import Counter
from pathlib import Path

from kprobe_text.text import FAULT, Bare, CodeAddress, Event, Record, parse

TRACES = Path(__file__).parents[3] / "fixtures" / "text"

# ``p:ent do_sys_open… dfd=%di:s32 s=+0(%si):string flags=%dx:u32`` and ``r:ret do_sys_open… ret=$retval:s32
# raw=$retval``, which all recordings but 01_types have: how each series prints flags and raw.
OPENS: dict[str, list[str]] = json.loads((TRACES / "opens.json").read_text())
# as they were written, but for the place; the type of flags is x32 where the kernel knows it
DEFINITIONS = (
    "p:ent do_sys_open dfd=%di:s32 s=+0(%si):string flags=%dx:{}",
    "r:ret do_sys_open ret=$retval:s32 raw=$retval",
)
FORMAT = 'name: {}\nID: 1\nformat:\n\nprint fmt: "(%lx){}", REC->__probe_ip\n'

# those that have no arguments, of 09_irq, 11_offsets and 12_missed
PLAIN = re.compile(r"i_\w+|r_run|r_upd|r_schedule_0|f_schedule|fr_\w+|off\d*|miss")
PART = re.compile(r"\\?\"%s\\?\"|'%c'|%pS|(?:0x)?%(?:h|hh|l|ll|L)?[dux]")

Texts = dict[str, str]


def formats_of(series: str, name: str) -> Texts:
    """Give the format files of a recording's events, by event name."""
    base = name.partition(".")[0]
    path = TRACES / series / f"{base}.formats"
    if path.exists():
        texts = path.read_bytes().decode("latin-1").split("== events/")[1:]
        return {text.partition("\n")[0].split("/")[1]: text.partition("\n")[2] for text in texts}
    flags, raw = OPENS[series]
    known = {
        "ent": FORMAT.format("ent", rf" dfd=%d s=\"%s\" flags={flags}"),
        "ret": FORMAT.format("ret", f" ret=%d raw={raw}"),
    }
    data = (TRACES / series / name).read_bytes()
    for found in set(re.findall(rb"[ \t](\w+): \(", data)):
        if PLAIN.fullmatch(found.decode()):
            known[found.decode()] = FORMAT.format(found.decode(), "")
    return known


def definitions_of(series: str, name: str) -> list[str]:
    """Give the definitions of a recording's events."""
    path = TRACES / series / f"{name.partition('.')[0]}.kprobe_events"
    if path.exists():
        return path.read_text().splitlines()
    return [text.format("u32" if series in ("3.2", "3.13", "3.13fp", "4.4") else "x32") for text in DEFINITIONS]


def conversions(text: str) -> list[tuple[str, str]]:
    """Give names and conversions of a format's arguments, in their order."""
    shown = text.partition('print fmt: "')[2].rpartition('", REC')[0] or text.partition('print fmt: "')[2]
    return re.findall(rf" (\w+)=(\{{(?:{PART.pattern}|,)+\}}|{PART.pattern})", shown)


def value(conversion: str, text: bytes) -> object:
    """Read the text of one value by its conversion."""
    shown = text.decode("utf-8", "surrogateescape")
    if shown == "(fault)" and "%s" in conversion:
        return FAULT
    if conversion.startswith("{"):
        parts = PART.findall(conversion)
        if "%c" in parts[0]:
            return tuple(shown[2 + 4 * i] for i in range(len(parts)))
        return tuple(value(part, item.encode()) for part, item in zip(parts, shown[1:-1].split(","), strict=True))
    if "%s" in conversion or "%c" in conversion:
        return shown[1:-1]
    if conversion == "%pS":
        return int(shown, 16) if re.fullmatch("0x[0-9a-f]+", shown) else shown
    return int(shown, 16) if conversion.endswith("x") else int(shown)


def truth(text: str, raw: bytes, name: str) -> dict[str, object] | None:
    """Read the arguments of a record's text; None if it was broken off."""
    items = conversions(text)
    pattern = rb"\b" + name.encode() + rb": \([^()]*\)"
    for i, (label, conversion) in enumerate(items):
        if conversion.startswith("{"):
            part = rb"\{[^{}]*\}"
        elif "%s" in conversion:
            # a string holds anything, so its end is where the next argument is; the last one's, the last quote
            follow = rb" " + items[i + 1][0].encode() + rb"=" if i + 1 < len(items) else rb"\s"
            part = rb'"(?:.*)"(?=' + follow + rb")|\(fault\)"
        elif "%c" in conversion:
            part = rb"'.'"
        else:
            part = rb"[^\s]+(?: \[\w+\])?"
        pattern += rb" " + label.encode() + rb"=(" + part + rb")"
    found = re.search(pattern + rb"(?: \*/)?\n\Z", raw, re.S)
    if found is None:
        return None
    return {label: value(conversion, found[i + 1]) for i, (label, conversion) in enumerate(items)}


def count(series: str, name: str, schema: str) -> Counter[str]:
    """Count the values of a recording that are right, ambiguous, text, wrong or missing, and its events.

    ``schema`` says what the parser is given: "format", "definition" or "look" for nothing.
    """
    data = (TRACES / series / name).read_bytes()
    formats = formats_of(series, name)
    counts: Counter[str] = Counter()
    definitions = definitions_of(series, name) if schema == "definition" else ()
    records: list[Record] = parse(data, formats if schema == "format" else None, definitions=definitions)
    assert b"".join(record.raw for record in records) == data
    for event in formats:
        counts["events"] += len(re.findall(rb"(?:\A|[ \n])" + event.encode() + rb": (?=[(_])", data))
    for record in records:
        if isinstance(record, (Event, Bare)) and record.name in formats:
            counts["read"] += 1
            compare(record, formats[record.name], counts)
    return counts


def compare(record: Event | Bare, text: str, counts: Counter[str]) -> None:
    """Count the values of one record."""
    if b" __probe_" in record.raw:
        counts["by field"] += 1  # option fields, which has names and conversions of its own
        return
    true = truth(text, record.raw, record.name)
    if true is None:
        counts["broken off"] += 1
        counts["silent"] += record.complete
        return
    for label, meant in true.items():
        if label not in record.fields:
            counts["silent" if record.complete else "missing"] += 1
            continue
        read = record.fields[label]
        if isinstance(read, CodeAddress):
            read = read.text
        if label in record.guessed:
            counts["guessed"] += 1
        elif read == meant:
            counts["right"] += 1
        elif isinstance(read, str) and not isinstance(meant, str) and not record.complete:
            counts["text"] += 1
        else:
            counts["wrong"] += 1
    counts["silent"] += bool(record.complete and set(record.fields) - set(true))
