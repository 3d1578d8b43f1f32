"""Lines of a trace that are longer than the buffer in which the kernel makes them."""

from __future__ import annotations

import itertools
import os
import re
from typing import Any

import pytest


@pytest.mark.parametrize(("bytes_", "shown"), [(2684, 2684), (3000, 2700)])
def test_a_raw_mark_is_cut_with_its_newline(tracefs: Any, choose: Any, bytes_: int, shown: int) -> None:
    """Since 6.8 a mark may be that long, and 8156 bytes are what a line has at most; before, both are less."""
    tracefs.write("trace_marker_raw", b"zzzz" + b"y" * (bytes_ - 4))
    tracefs.write("trace_marker", b"next")
    text = tracefs.read("trace").partition(b" buf:")[2]
    short = choose({"": True, "<argname>": False})
    data = re.match(rb"(?: [0-9a-f]{2})*", text)  # the next line may follow at once, and have a 79 in its time
    assert data is not None
    assert data[0].count(b" 79") == (1020 if short else shown - 4)
    assert (b" 79\n" in text or b" 00\n" in text or b" 74\n" in text) is (short or shown == bytes_)
    assert text.endswith(b": tracing_mark_write: next\n")


PIECE = re.compile(r" f\d+=|[{,}]|0x[0-9a-f]+")
NOTE = "[LINE TOO BIG]\n"


@pytest.mark.parametrize("file", ["trace", "trace_pipe"])
def test_a_probe_s_line_is_cut_between_its_pieces(tracefs: Any, workload: Any, choose: Any, file: str) -> None:
    """A name, a brace, a comma or an element is written whole or not at all; a note follows if it fits."""
    limit = choose({"": 4095, "<argname>": 8155})
    names = " ".join(f"f{n}=@linux_banner:x8[64]" for n in range(27))
    tracefs.write("kprobe_events", f"p:long do_sys_openat2 {names}".encode())
    tracefs.write("events/kprobes/long/filter", f"common_pid == {workload.pid}".encode())
    tracefs.write("events/kprobes/long/enable", b"1")
    workload.open("/etc/hosts")
    tracefs.write("events/kprobes/long/enable", b"0")
    tracefs.write("trace_marker", b"next")
    if file == "trace":
        text = tracefs.read("trace").decode()
    else:  # one read, which ends after such a line
        with tracefs.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK) as pipe:
            text = pipe.read(20000).decode()
            if len(text) == limit:  # the buffer's last byte, if it is filled, comes alone
                text += pipe.read(1).decode()
    head = re.match(r"(?:#.*\n)*", text)
    assert head is not None
    place, bracket, rest = text[head.end() :].partition(" f0=")
    elements = rest.partition("}")[0] + "}"
    assert elements.count(",") == 63
    whole = "".join(f" f{n}={elements}" for n in range(27))
    pieces = PIECE.findall(whole)
    shown = max(itertools.accumulate(pieces), key=lambda text: (bracket + rest).startswith(text) * len(text))
    used = len(place) + len(shown)
    following = pieces[len(PIECE.findall(shown))]
    put = following in "{,}"  # may be the last byte of the buffer
    assert limit - len(following) < used <= limit + 1
    assert used + len(following) > limit + put
    assert (shown + NOTE in text) is (used + len(NOTE) <= limit + 1)
    assert text.endswith("next\n") is (file == "trace")
