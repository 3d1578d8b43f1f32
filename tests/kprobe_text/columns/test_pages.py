"""Raw pages as tables: what `kprobe_text.pages` gives of them, every row and every value."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_text.columns.column_types import escaped
from kprobe_text.columns.dat import tables_of
from kprobe_text.columns.merge import conformed, merged, schema_of
from kprobe_text.columns.pages import RawReading
from kprobe_text.columns.rows import stem
from kprobe_text.pages.dat.file import MAGIC, TraceDat
from kprobe_text.pages.events import Events
from kprobe_text.pages.header import PageHeader, page_header
from kprobe_text.pages.kallsyms import Kallsyms
from kprobe_text.pages.page import Pages
from kprobe_text.pages.tasks import Tasks
from kprobe_text.text import FAULT, CodeAddress, Event, StackTrace

DEFINITIONS = (
    "p:opens do_sys_openat2 path=+0(%si):string flags=%dx:u16 pid=%di:s32",
    "r:ret do_sys_openat2 ret=$retval:s64",
    "p:sizes vfs_write a=+0(%si):s16[3] h=%di:symbol x=%dx:x64",
    "p:odd vfs_read n=+0(%si):string[2]",
)


def machine(kernel: SimulatedKernel) -> SimulatedKernel:
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", "\n".join(DEFINITIONS).encode())
    tracefs.write("options/record-tgid", b"1")
    tracefs.write("events/kprobes/sizes/trigger", b"stacktrace")
    tracefs.write("events/kprobes/enable", b"1")
    return kernel


def happen(kernel: SimulatedKernel, count: int, *, odd: bool) -> None:
    chance = random.Random(3)
    open_ = kernel.symbols.lookup("do_sys_openat2")[0].address
    at = 5_000_000_000
    for number in range(count):
        at += chance.choice((200, 3000, 1 << 28))
        common: dict[str, Any] = {"task": Task(40 + number % 5, f"cat {number % 5}", tgid=40), "at": at}
        which = number % 4
        if which == 0:
            path: Any = 0xDEAD000 if number % 8 else f"/tmp/{number}"
            kernel.call("do_sys_openat2", args=(-100, path, 70000 + number), returns=-number, **common)
        elif which == 1 and odd:
            kernel.call("do_sys_openat2", args=(-100, b"/tmp/\xff\xc3\xa4", number), returns=None, **common)
        elif which == 2 and odd:
            kernel.call("vfs_read", args=(65, 0), **common)
        else:
            memory = {0x7F0000001000: bytes(range(250, 256))}
            place = open_ + 4 if number % 3 else 0x1234
            kernel.call("vfs_write", args=(place, 0x7F0000001000, (1 << 64) - number), memory=memory, **common)


def pages_of(kernel: SimulatedKernel) -> tuple[PageHeader, list[bytes]]:
    header = page_header(kernel.tracefs.read("events/header_page"))
    stream = kernel.tracefs.stream("per_cpu/cpu0/trace_pipe_raw")
    data = b""
    while True:
        try:
            data += stream.read(0)
        except TimeoutError:
            break
    return header, [data[at : at + header.size] for at in range(0, len(data), header.size)]


def readers(kernel: SimulatedKernel, header: PageHeader) -> tuple[RawReading, Pages]:
    formats = [
        (group, kernel.tracefs.read(f"events/{group}/{name}/format"))
        for group, names in (("kprobes", ("opens", "ret", "sizes", "odd")), ("ftrace", ("print", "kernel_stack")))
        for name in names
    ]
    tasks = Tasks()
    tasks.read(kernel.tracefs.read("saved_cmdlines"))
    made: list[Pages] = []
    for _ in range(2):
        places = Kallsyms(lambda: b"ffffffff81000000 T start\nffffffff82000000 T end\n")
        events = Events(formats, "<", places.symbol)
        made.append(Pages(header, events, places, tasks=tasks, tgids={40: 40, 41: 40}))
    return RawReading(made[0]), made[1]


def value(read: Any, kind: pa.DataType) -> Any:
    if isinstance(read, int) and pa.types.is_string(kind):
        return hex(read)
    if isinstance(read, (str, CodeAddress)):
        return escaped(str(read))
    if isinstance(read, tuple):
        return [value(part, kind.value_type) for part in read]
    return None if read is FAULT else read


@pytest.mark.slow
@pytest.mark.parametrize("release", ["5.10", "6.1", "7.3"])
@pytest.mark.parametrize("odd", [False, True])
def test_every_row_and_value(release: str, odd: bool) -> None:
    kernel = machine(SimulatedKernel(release))
    happen(kernel, 2000, odd=odd)
    kernel.tracefs.write("trace_marker", b"hello\n")
    header, pages = pages_of(kernel)
    assert len(pages) > 20
    reading, plain = readers(kernel, header)
    parts: dict[str, list[pa.Table]] = {}
    # the first page by itself: what it has is known from then on
    for first, last in ((0, 1), (1, 9), (9, len(pages))):
        for name, table in reading.tables(b"".join(pages[first:last]), 0, first * header.size).items():
            parts.setdefault(name, []).append(table)
    tables = {name: merged(found) for name, found in parts.items()}
    rows = {name: iter(table.to_pylist()) for name, table in tables.items()}
    at = count = stacks = 0
    for number, page in enumerate(pages):
        for _, record in plain.read(page, 0, offset=number * header.size):
            if isinstance(record, Event):
                name = stem(record.name)
                row = next(rows[name])
                count += 1
                for field, read in record.fields.items():
                    kind = tables[name].schema.field("arg_" + field).type
                    assert row["arg_" + field] == value(read, kind), (record, field)
                for column in ("task", "pid", "tgid", "cpu", "flags", "timestamp", "clock", "complete", "group"):
                    assert row[column] == getattr(record, column)
                assert row["address"] == (record.address and record.address.text)
                assert row["caller"] == (record.caller and record.caller.text)
                assert row["offset"] == at
            elif isinstance(record, StackTrace):
                row = next(rows["_stacks"])
                assert row["frames"] == [frame.text for frame in record.frames]
                read = (record.task, record.timestamp, record.user, at)
                assert (row["task"], row["timestamp"], row["user"], row["offset"]) == read
                stacks += 1
            at += len(record.raw)
    assert at == len(pages) * header.size
    assert count > 2000
    assert stacks >= 500
    assert tables["print"]["arg_buf"].to_pylist() == ["hello\n"]
    assert {name for name in rows if next(rows[name], None) is not None} <= {"_others"}
    assert str(tables["opens"].schema.field("arg_flags").type) == "uint16"


@pytest.mark.slow
def test_bytes_that_are_no_pages() -> None:
    kernel = machine(SimulatedKernel("6.12"))
    happen(kernel, 300, odd=True)
    header, pages = pages_of(kernel)
    chance = random.Random(5)
    for _ in range(60):
        reading, plain = readers(kernel, header)
        reading.tables(pages[0], 0)
        broken = bytearray(b"".join(pages))
        for _ in range(8):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        data = bytes(broken[: chance.randrange(len(broken))])
        expected = 0
        for begin in range(0, len(data), header.size):
            records = plain.read(data[begin : begin + header.size], 0, offset=begin)
            expected += sum(isinstance(record, Event) for _, record in records)
        tables = reading.tables(data, 0)
        assert sum(len(table) for name, table in tables.items() if not name.startswith("_")) == expected


RECORDED = sorted((Path(__file__).parents[3] / "fixtures" / "dat").glob("*/*.dat*"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.parametrize("compiled", [True, False])
def test_recorded_trace_dat(path: Path, compiled: bool) -> None:
    """Every event of the files that trace-cmd wrote, with all of its values."""
    data = path.read_bytes()
    if not data.startswith(MAGIC):
        data = gzip.decompress(data)
    expected: dict[str, list[Event]] = {}
    for record in TraceDat(data).records():
        if isinstance(record, Event):
            expected.setdefault(stem(record.name), []).append(record)
    parts: dict[str, list[pa.Table]] = {}
    for tables in tables_of(TraceDat(data), compiled=compiled):
        for name, table in tables.items():
            parts.setdefault(name, []).append(table)
    assert expected
    assert expected.keys() == {name for name in parts if not name.startswith("_")}
    for name, records in expected.items():
        # in a file the rows of one CPU come before those of the next
        table = pa.concat_tables([conformed(part, schema_of(parts[name])) for part in parts[name]])
        rows = sorted(table.to_pylist(), key=lambda row: (row["timestamp"], row["cpu"], row["offset"]))
        records.sort(key=lambda record: (record.timestamp, record.cpu))
        assert len(rows) == len(records)
        for row, record in zip(rows, records, strict=True):
            for column in ("task", "pid", "cpu", "flags", "timestamp", "complete"):
                assert row[column] == getattr(record, column)
            for field, read in record.fields.items():
                assert row["arg_" + field] == value(read, table.schema.field("arg_" + field).type), (record, field)
