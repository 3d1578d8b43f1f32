"""What reads others' texts takes at most twice as long for twice as much of them: whole functions, from end to end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from kprobe.definitions.definition import parse as parse_definition
from kprobe.errors import KprobeError
from kprobe_check.sources.limit import TookTooLong, limited
from kprobe_check.sources.reading import FORMS, BadSource, statements
from kprobe_sim import SimulatedKernel
from kprobe_text.pages.header import check_event_header, page_header
from kprobe_text.pages.kallsyms import Kallsyms
from kprobe_text.pages.tasks import Tasks
from kprobe_text.text import parse, parse_format

RATIO = 3.0
TRIES = 5
LEAST = 0.002  # seconds: what takes less isn't compared
PUMPS = (
    *" \na0(){[]\"'\\$`<|&;:=/%@+,.*#~", "a ", "field:", "field:a", "+0(", "a=%di ", ' s="', "[000]", ": (", "$(",
    "-a ", "<<a\n",
)  # fmt: skip


def took(function: Callable[[Any], object], text: Any) -> float:
    start = time.thread_time()
    with contextlib.suppress(ValueError, OSError, KprobeError):
        function(text)
    return time.thread_time() - start


def grows(function: Callable[[Any], object], make: Callable[[int], Any], length: int) -> str:
    """Say how much longer twice as much takes; "" if not more than twice."""
    once, twice = make(length), make(2 * length)
    for _ in range(TRIES):
        first = min(took(function, once) for _ in range(2))
        second = min(took(function, twice) for _ in range(2))
        if second < LEAST or second < RATIO * first:
            return ""
    return f"{first * 1e3:.1f} ms, then {second * 1e3:.1f} ms"


def of(before: str, pump: str, after: str) -> Callable[[int], str]:
    return lambda length: before + pump * (length // len(pump)) + after


FIELD = 'name: x\nID: 1\nformat:\n\tfield:{};\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: "{}"\n'
RECORD = " " * 12 + "cat-1       [000] .....     1.000000: x: (f+0x0/0x1) @\n"
READERS: dict[str, tuple[Callable[[Any], object], str, int]] = {
    "a field": (parse_format, FIELD.format("@", ""), 8000),
    "a field with a location": (parse_format, FIELD.format("__data_loc x@", ""), 8000),
    "a print fmt": (lambda text: parse(RECORD.encode(), {"x": text}), FIELD.format("u32 a", "@"), 2000),
    "a format": (parse_format, "name: x\nID: 1\n@", 8000),
    "header_page": (page_header, "@", 8000),
    "header_event": (check_event_header, "\ttype_len    :    5 bits\n@", 8000),
    "kallsyms": (lambda text: Kallsyms(text.encode)[1 << 63], "ffffffff81000000 T a\n@", 8000),
    "saved_cmdlines": (lambda text: Tasks().read(text.encode()), "1 a\n@", 8000),
    "a trace": (lambda text: parse(text.encode()), "@", 4000),
    "a record": (lambda text: parse(text.encode()), RECORD, 4000),
    "a definition": (parse_definition, "p:x f @", 4000),
    "a word": (parse_definition, "p:x f a=@", 4000),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_a_reader(name: str) -> None:
    function, form, length = READERS[name]
    before, _, after = form.partition("@")
    found = {pump: said for pump in PUMPS if (said := grows(function, of(before, pump, after), length))}
    assert found == {}


@pytest.mark.parametrize(
    ("function", "text", "seconds"),
    [
        (parse_format, FIELD.format(" " * 30_000, ""), 0.5),
        (parse_format, FIELD.format("__data_loc x" + " " * 20_000, ""), 0.5),
        (page_header, "field:" * 4000, 0.5), (check_event_header, "\n" * 60_000, 0.5),
    ],
    ids=["30,000 blanks", "a location and 20,000 blanks", "field: 4,000 times", "60,000 newlines"],
)  # fmt: skip
def test_what_took_long(function: Callable[[Any], object], text: str, seconds: float) -> None:
    assert took(function, text) < seconds


FILES = {
    "kprobe_events": "p:y vfs_read @", "synthetic_events": "y @", "set_ftrace_filter": "@", "set_event": "@",
    "events/kprobes/x/filter": "@", "events/kprobes/x/trigger": "hist:keys=@", "trace_marker": "@",
}  # fmt: skip


@pytest.mark.parametrize("path", FILES)
def test_a_file_of_the_simulated_kernel(path: str) -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    tracefs.write("kprobe_events", b"p:x vfs_read a=%di s=+0(%si):string\n")
    before, _, after = FILES[path].partition("@")

    def write(text: str) -> None:
        tracefs.write(path, text.encode())

    found = {pump: said for pump in PUMPS if (said := grows(write, of(before, pump, after), 1800))}
    assert found == {}


WRITES = {
    "list": "p:x f @\n", "shell": "echo 'p:x f @' > kprobe_events\n", "python": "w('kprobe_events', 'p:x f @')\n",
    "go": 'package a\nvar x = "p:x f @"\n', "c": 'char *x = "p:x f @";\n',
    "rust": 'fn a() { w("kprobe_events", "p:x f @"); }\n',
    "perl": "$x = 'p:x f @';\n", "markdown": "```sh\necho 'p:x f @' > kprobe_events\n```\n",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_source_with_a_long_word(form: str) -> None:
    before, _, after = WRITES[form].partition("@")
    found = grows(lambda text: statements(text.encode(), "x", form), of(before, "a", after), 20_000)
    assert found == ""


def test_a_source_that_takes_very_long_isnt_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kprobe_check.sources.reading.SECONDS", 0.2)
    monkeypatch.setattr("kprobe_check.sources.reading.SECONDS_PER_BYTE", 0)
    text = 'kprobe_events char *x = "p:x f ' + "\n" * 40_000 + '";\n'
    with pytest.raises(BadSource, match="x: not asked: reading it took more than 0 s, as what has no end does"):
        statements(text.encode(), "x", "c")


def test_a_limit_ends_what_it_is_around() -> None:
    def endless() -> None:
        while True:
            pass

    with pytest.raises(TookTooLong), limited(0.05):
        endless()
    with limited(5):
        assert sum(range(10)) == 45
