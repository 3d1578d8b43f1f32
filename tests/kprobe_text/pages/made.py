"""Pages of the ring buffer, made by hand from what include/linux/ring_buffer.h says."""

from __future__ import annotations

import struct
from typing import Any

from kprobe_text.pages.events import Events, Format
from kprobe_text.pages.header import PageHeader, page_header
from kprobe_text.pages.kallsyms import Kallsyms
from kprobe_text.pages.page import Pages
from kprobe_text.pages.tasks import Tasks
from kprobe_text.text import Record

HEADER_PAGE = """\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
"""
COMMON = """\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

"""
MYOPEN = f"""\
name: myopen
ID: 1500
format:
{COMMON}\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;
\tfield:s32 dfd;\toffset:16;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] path;\toffset:20;\tsize:4;\tsigned:1;

print fmt: "(%lx) dfd=%d path=\\"%s\\"", REC->__probe_ip, REC->dfd, __get_str(path)
"""
PRINT = f"""\
name: print
ID: 5
format:
{COMMON}\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;
\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:1;

print fmt: "%ps: %s", (void *)REC->ip, REC->buf
"""
FORMATS: tuple[Format, ...] = (("kprobes", MYOPEN), ("ftrace", PRINT))
OPEN = 0xFFFFFFFF81348560
KALLSYMS = b"""\
0000000000000000 A fixed_percpu_data
ffffffff81348000 T before
ffffffff81348560 T do_sys_openat2
ffffffff81348560 t its_other_name
ffffffff813486d0 T after
ffffffffc0001000 t in_a_module\t[ext4]
"""


def opened(path: bytes, dfd: int = -100, *, pid: int = 42, number: int = 1500, order: str = "<") -> bytes:
    """Return a record of myopen."""
    data = path + b"\0"
    head = struct.pack(f"{order}HBBiQiI", number, 1, 2, pid, OPEN, dfd, len(data) << 16 | 24)
    return (head + data).ljust(-(-len(head + data) // 4) * 4, b"\0")


def event(data: bytes, delta: int = 0, order: str = "<") -> bytes:
    """Return an event of the ring buffer that holds a record."""
    if len(data) <= 112:
        kind, more = len(data) // 4, b""
    else:
        kind, more = 0, struct.pack(f"{order}I", len(data) + 4)
    word = delta << 5 | kind if order == "<" else kind << 27 | delta
    return struct.pack(f"{order}I", word) + more + data


def words(kind: int, delta: int, second: int) -> bytes:
    """Return an event of two words."""
    return struct.pack("<II", delta << 5 | kind, second)


def page(*events: bytes, stamp: int = 1_000_000, flags: int = 0, tail: bytes = b"", size: int = 4096) -> bytes:
    """Return a page; `flags` are what the commit has beside the length, `tail` what follows the data."""
    data = b"".join(events)
    return (struct.pack("<QQ", stamp, len(data) | flags) + data + tail).ljust(size, b"\0")


def reader(header: PageHeader | None = None, *, formats: Any = FORMATS, **options: Any) -> Pages:
    header = header or page_header(HEADER_PAGE)
    kallsyms = Kallsyms(lambda: KALLSYMS)
    events = Events(formats, "<" if header.order == "little" else ">", kallsyms.symbol, long=header.long)
    tasks = Tasks()
    tasks.read(b"42 cat\n")
    return Pages(header, events, kallsyms, tasks=tasks, **options)


def read(data: bytes, **options: Any) -> list[Record]:
    """Return the records of a page, after a look at whether all of its bytes are in them."""
    records = [record for _, record in reader(**options).read(data, 0)]
    assert b"".join(record.raw for record in records) == data
    return records
