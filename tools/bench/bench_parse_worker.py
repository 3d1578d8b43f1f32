"""bench_parse.py starts it, one process for each way of reading what bench_parse_data.py wrote.

    python tools/bench/bench_parse_worker.py WAY DIRECTORY [LINES]

It prints the CPU seconds of the reading, without imports and one-time compilation, and by how many MiB the memory grew;
both include children.  It runs in the environments of other parsers, so each function imports what it needs.
"""

from __future__ import annotations

import gc
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PIECE = 1 << 16
SENT = 5000
HEADER = re.compile(rb"(.{16})-(\d+) +\[(\d+)\] ([^ ]+) +(\d+)\.(\d+): (?:([^ :]+): (?:\(([^)]*)\))?)?(.*)\n")


def pieces(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            yield piece


def wc(home: Path) -> None:
    subprocess.run(["wc", "-l", home / "trace.txt"], check=True, stdout=subprocess.DEVNULL)


def loop(home: Path) -> None:
    count = 0
    with open(home / "trace.txt", "rb") as file:
        for _ in file:
            count += 1


def bare_re(home: Path) -> None:
    match = HEADER.match
    with open(home / "trace.txt", "rb") as file:
        for line in file:
            found = match(line)
            if found is not None:
                found.groups()


def stream(home: Path) -> None:
    from kprobe_text.text import Parser

    parser = Parser(schema(home))
    for piece in pieces(home / "trace.txt"):
        parser.feed(piece)
    parser.close()


def schema(home: Path) -> dict[str, str]:
    return {path.parent.name: path.read_text() for path in (home / "formats" / "kprobes").glob("*/format")}


def arrow(home: Path) -> None:
    from kprobe_text.columns import Reading

    for _ in Reading(schema(home), compiled=True).tables(pieces(home / "trace.txt")):
        pass


def parquet(home: Path) -> None:
    from kprobe_text.columns import Reading

    stored(Reading(schema(home), compiled=True).tables(pieces(home / "trace.txt")))


def stored(tables: Iterator[Any]) -> None:
    from kprobe_text.columns import Store, Writer

    directory = tempfile.mkdtemp()
    try:
        writer = Writer(Store(directory, "parquet"))
        for some in tables:
            writer.add(some)
        writer.close()
    finally:
        shutil.rmtree(directory)


def raw_tables(home: Path) -> Iterator[Any]:
    from kprobe_text.columns.dat import AT_ONCE
    from kprobe_text.columns.pages import RawReading
    from kprobe_text.pages.events import Events
    from kprobe_text.pages.header import page_header
    from kprobe_text.pages.kallsyms import Kallsyms
    from kprobe_text.pages.page import Pages
    from kprobe_text.pages.tasks import Tasks

    places, tasks = Kallsyms(None), Tasks()
    tasks.read((home / "saved_cmdlines").read_bytes())
    formats = [(path.parent.parent.name, path.read_bytes()) for path in (home / "formats").glob("*/*/format")]
    header = page_header((home / "header_page").read_bytes())
    reading = RawReading(Pages(header, Events(formats, "<", places.symbol), places, tasks=tasks))
    for path in sorted(home.glob("cpu*.pages")):
        with open(path, "rb") as file:
            at = 0
            while data := file.read(AT_ONCE):
                yield reading.tables(data, int(path.stem[3:]), at)
                at += len(data)


def raw_arrow(home: Path) -> None:
    for _ in raw_tables(home):
        pass


def raw_parquet(home: Path) -> None:
    stored(raw_tables(home))


def trace_cmd(home: Path) -> None:
    command = ["trace-cmd", "report", "-i", home / "trace.dat"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def trappy(home: Path) -> None:
    import trappy as library  # type: ignore[import-not-found]

    events = ["myopen", "myret", "mynum", "myarr", "mysym", "myfault"]
    library.ftrace.GenericFTrace.disable_cache = True
    library.FTrace(str(home / "trace.txt"), events=events, normalize_time=False, scope="custom")


def lisa(home: Path) -> None:
    from lisa.trace import HRTxtTraceParser  # type: ignore[import-not-found]

    events = ["myopen", "myret", "mynum", "myarr", "mysym", "myfault"]
    parser = HRTxtTraceParser.from_txt_file(str(home / "trace.txt"), events=events)
    for event in events:
        parser.parse_event(event)


def latency(_: Path) -> list[float]:
    """Return the microseconds from the write into a pipe to the event, of each of many lines, sorted."""
    from kprobe_text.text import Event, Parser

    source, sink = os.pipe()
    line = '             cat-300     [001] .....    10.000022: e: (f+0x0/0xe0) sent=%d name="/usr/lib/libc.so"\n'
    child = os.fork()
    if not child:
        for _ in range(SENT):
            time.sleep(0.0002)
            os.write(sink, (line % time.monotonic_ns()).encode())
        os._exit(0)
    os.close(sink)
    parser = Parser(definitions=["p:e f sent=%di:u64 name=+0(%si):string"], live=True)
    found = []
    while data := os.read(source, PIECE):
        for record in parser.feed(data):
            assert isinstance(record, Event)
            sent = record.fields["sent"]
            assert isinstance(sent, int)
            found.append((time.monotonic_ns() - sent) / 1000)
    os.waitpid(child, 0)
    assert len(found) == SENT
    return sorted(found)


WAYS: dict[str, Callable[[Path], None]] = {
    "wc": wc, "loop": loop, "re": bare_re, "stream": stream, "arrow": arrow, "parquet": parquet,
    "raw_arrow": raw_arrow, "raw_parquet": raw_parquet, "trace_cmd": trace_cmd, "trappy": trappy, "lisa": lisa,
}  # fmt: skip


def spent() -> float:
    """Return the CPU seconds of this process and of its children, finer than the ticks of times(2)."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def main() -> int:
    if sys.argv[1] == "latency":
        found = latency(Path())
        print(f"{found[len(found) // 2]:.1f} {found[len(found) * 99 // 100]:.1f}")
        return 0
    way, home = WAYS[sys.argv[1]], Path(sys.argv[2])
    if sys.argv[1] in ("arrow", "parquet", "raw_arrow", "raw_parquet"):
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # as the command does
    warm = home / "warm"
    if warm.is_dir():
        way(warm)  # imports, and what is compiled or loaded once
    gc.collect()
    if sys.argv[1] in ("wc", "trace_cmd"):
        before = 0.0
    else:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak counts from here on
        before = high()
    start = spent()
    way(home)
    took = spent() - start
    memory = high() - before if before else resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{took:.6f} {memory:.1f}")
    return 0


def high() -> float:
    """Return the most memory that this process has had since that was asked to count anew, in MiB."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
