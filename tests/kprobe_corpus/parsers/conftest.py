"""A small corpus, and parsers as commands."""

import sys
from pathlib import Path

import pytest

from kprobe_corpus.traces.writing import made, write

HEADER = "# tracer: nop\n#\n"
LINE = '             cat-2841    [000] .....    10.00010{}: myopen: (do_sys_openat2+0x0/0xe0) fd={} path="{}"\n'


def truth(number: int, path: str = "/etc/passwd") -> dict[str, object]:
    return {
        "type": "event", "name": "myopen", "task": "cat", "pid": 2841, "cpu": 0, "flags": ".....", "clock": "time",
        "timestamp": 10_000_100_000 + number * 1000, "address": "do_sys_openat2+0x0/0xe0",
        "fields": {"fd": number, "path": path},
    }  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three texts: a plain one of 6.1, and of 7.2 a plain one and one with a blank in a string."""
    directory = tmp_path / "corpus"
    for kernel, name, paths, options, defects in (
        ("6.1", "plain", ["/a", "/b"], [], []),
        ("7.2", "plain", ["/a"], [], []),
        ("7.2", "blank", ["/a", "/b c"], ["stacktrace"], ["blank in a string"]),
    ):
        text = HEADER + "".join(LINE.format(number, number, path) for number, path in enumerate(paths))
        about = {
            "kernel": kernel, "release": f"{kernel}.1", "scenario": name, "options": options, "clock": "local",
            "source": "document", "truth": "activity", "defects": defects, "link": None,
        }  # fmt: skip
        records = [truth(number, path) for number, path in enumerate(paths)]
        definitions = ["p:myopen do_sys_openat2"]
        write(made(f"{kernel}/{name}", text.encode(), records, about, definitions=definitions), str(directory))
    return directory


# reads a line by its blanks, as many scripts do
BY_BLANKS = """
import json, os, sys
from kprobe_corpus.parsers import answer

def read(text):
    for line in text.decode().splitlines():
        if not line.startswith("#"):
            task, cpu, flags, time, name, place, *rest = line.split()
            fields = dict(word.partition("=")[::2] for word in rest)
            fields = {name: int(word) if word.isdigit() else word.strip('"') for name, word in fields.items()}
            stamp = int(time[:-1].replace(".", "")) * 1000
            yield {"type": "event", "name": name[:-1], "task": task[:-5], "timestamp": stamp, "fields": fields}
EXTRA
answer(read)
"""


@pytest.fixture
def by_blanks(tmp_path: Path) -> list[str]:
    """The command of a parser that fails at blanks in strings."""
    return program(tmp_path, "")


def program(directory: Path, extra: str) -> list[str]:
    """Write a parser, and return its command."""
    path = directory / "reader.py"
    path.write_text(BY_BLANKS.replace("EXTRA", extra))
    return [sys.executable, str(path)]
