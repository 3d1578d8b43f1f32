"""fuzz.py and hostile_dat.py import it: the targets that are bytes: raw pages, and trace.dat of versions 6 and 7."""

from __future__ import annotations

import functools
import importlib
import struct
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

PAGE = 256
COMMON = """\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

"""
HEADER_PAGE = f"""\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:{PAGE - 16};\tsigned:1;
"""
HEADER_EVENT = "\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n"
# number, name, fields (declaration, offset, size, signed), print fmt
EVENTS = (
    (1, "print", (("unsigned long ip", 8, 8, 0), ("char buf[]", 16, 0, 1)), '"%ps: %s", (void *)REC->ip, REC->buf'),
    (2, "kernel_stack", (("int size", 8, 4, 1), ("unsigned long caller[8]", 16, 64, 0)), '"x"'),
    (3, "raw_data", (("unsigned int id", 8, 4, 0), ("char buf[]", 12, 0, 1)), '"x"'),
    (
        4, "probe", (
            ("unsigned long __probe_ip", 8, 8, 0), ("s32 dfd", 16, 4, 1), ("__data_loc char[] path", 20, 4, 1),
            ("__data_loc char[] both[2]", 24, 8, 1), ("u16 three[3]", 32, 6, 0), ("u8 letter", 38, 1, 0),
            ("u64 place", 39, 8, 0),
        ),
        r'''"(%lx) dfd=%d path=\"%s\" both={\"%s\",\"%s\"} three={%u,%u,%u} letter='%c' place=%pS", REC->__probe_ip''',
    ),
    (5, "static", (("__rel_loc u32[] list", 8, 4, 0), ("char comm[16]", 12, 16, 0), ("uuid_t id", 28, 16, 0)), '"x"'),
)  # fmt: skip
KALLSYMS = b"ffffffff81000000 T _stext\nffffffff81000100 T f\nffffffff81000200 T g\t[m]\n"
CMDLINES = b"42 cat\n"


def formats() -> list[tuple[str, bytes]]:
    """Give the formats of the made-up kernel."""
    found = []
    for number, name, fields, shown in EVENTS:
        lines = "".join(f"\tfield:{d};\toffset:{o};\tsize:{s};\tsigned:{g};\n" for d, o, s, g in fields)
        text = f"name: {name}\nID: {number}\nformat:\n{COMMON}{lines}\nprint fmt: {shown}\n"
        found.append(("ftrace" if number < 4 else "made", text.encode()))
    return found


def _record(number: int, data: bytes, delta: int = 5) -> bytes:
    data = struct.pack("<HBBi", number, 1, 0, 42) + data
    data += bytes(-len(data) % 4)
    if len(data) > 112:
        return struct.pack("<II", delta << 5, len(data) + 4) + data
    return struct.pack("<I", delta << 5 | len(data) >> 2) + data


def _page(*events: bytes, flags: int = 0, tail: bytes = b"") -> bytes:
    data = b"".join(events)
    return (struct.pack("<QQ", 1000, len(data) | flags) + data + tail).ljust(PAGE, b"\0")


def pages() -> list[bytes]:
    """Give pages with every kind of event."""
    place = 0xFFFFFFFF81000110
    probe = struct.pack("<QiIII3HBQ", place, -100, 5 << 16 | 47, 3 << 16 | 47, 0, 1, 2, 3, 65, place) + b"/etc\0x\0"
    return [
        _page(_record(1, struct.pack("<Q", place) + b"hello\n\0"), _record(3, b"\x01\0\0\0abcd")),
        _page(_record(2, struct.pack("<ixxxxQQQ", 2, place, place + 9, 0)), flags=3 << 30, tail=struct.pack("<Q", 9)),
        _page(_record(4, probe), struct.pack("<II", 3 << 5 | 30, 4), _record(4, probe), _record(1, bytes(130))),
        _page(_record(5, struct.pack("<I16s16s3I", 12 << 16 | 32, b"cat", b"x" * 16, 1, 2, 3)), flags=1 << 31),
        _page(struct.pack("<II", 1 << 5 | 29, 12) + bytes(8), struct.pack("<II", 9 << 5 | 31, 8), _record(9, b"abcd")),
    ]


def page_seeds() -> list[bytes]:
    """Give pages after a byte that says how they are read."""
    return [bytes([way]) + b"".join(pages()[i:]) for i in range(5) for way in (0, 1, 2, 4)]


def read_pages(
    plain: Callable[[str], ModuleType], slow: Callable[[Callable[[], object], int, int], float], data: bytes
) -> None:
    """Every byte of every page is in a record, nothing is raised, and no record takes long."""
    way, rest = data[:1] or b"\0", data[1:]

    def read(module: Callable[[str], ModuleType]) -> list[tuple[int, Any]]:
        order: Any = "big" if way[0] & 2 else "little"
        header = module("kprobe_text.pages.header").page_header(HEADER_PAGE, order=order)
        if way[0] & 4:
            header = header._replace(long=4, data=12)
        kallsyms = module("kprobe_text.pages.kallsyms").Kallsyms(lambda: KALLSYMS)
        known = formats()[: 0 if way[0] & 1 else None]
        events = module("kprobe_text.pages.events").Events(
            known, ">" if order == "big" else "<", kallsyms.symbol, long=header.long
        )
        reader = module("kprobe_text.pages.page").Pages(header, events, kallsyms)
        found = []
        for at in range(0, len(rest), PAGE):
            page = rest[at : at + PAGE]
            records = reader.read(page, 0, offset=at)
            assert b"".join(record.raw for _, record in records) == page, "bytes were lost"
            found += records
        return found

    records = read(importlib.import_module)
    times = slow(lambda: read(plain), len(records) + 5 * len(EVENTS), len(rest))
    assert not times, f"{times:.1f} ms a record"


def _text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def _parts() -> tuple[bytes, bytes, bytes]:
    """Give header info, formats of group ftrace, and other formats, as both versions have them."""
    info = b"header_page\0" + _text(HEADER_PAGE.encode()) + b"header_event\0" + _text(HEADER_EVENT.encode())
    ftrace = [_text(text) for group, text in formats() if group == "ftrace"]
    others = [_text(text) for group, text in formats() if group != "ftrace"]
    return (
        info,
        struct.pack("<I", len(ftrace)) + b"".join(ftrace),
        struct.pack("<I", 1) + b"made\0" + struct.pack("<I", len(others)) + b"".join(others),
    )


def _version_6() -> bytes:
    data = [b"".join(pages()[:2]), b"".join(pages()[2:])]
    head = b"\x17\x08\x44tracing6\0\0\x08" + struct.pack("<I", PAGE) + b"".join(_parts())
    head += struct.pack("<I", len(KALLSYMS)) + KALLSYMS + struct.pack("<I", 0) + _text(CMDLINES)
    head += struct.pack("<I", 2) + b"options  \0"
    for number, option in ((1, b"0x10\0"), (4, b"[local] global\0"), (8, struct.pack("<I", 2))):
        head += struct.pack("<HI", number, len(option)) + option
    head += struct.pack("<H", 0) + b"flyrecord\0"
    at = len(head) + 32
    return head + struct.pack("<4Q", at, len(data[0]), at + len(data[0]), len(data[1])) + b"".join(data)


def _version_7(pack: bool) -> bytes:
    name = b"zlib\0001\0" if pack else b"none\0\0"
    out = bytearray(b"\x17\x08\x44tracing7\0\0\x08" + struct.pack("<I", PAGE) + name + bytes(8))
    start = len(out) - 8
    options = b""

    def section(number: int, data: bytes) -> int:
        at = len(out)
        if pack:
            packed = zlib.compress(data)
            data = struct.pack("<II", len(packed), len(data)) + packed
        out.extend(struct.pack("<HHIQ", number, int(pack), 0, len(data)) + data)
        return at

    texts = (struct.pack("<I", len(KALLSYMS)) + KALLSYMS, struct.pack("<I", 0), _text(CMDLINES))
    for number, data in zip((16, 17, 18, 19, 20, 21), (*_parts(), *texts), strict=True):
        options += struct.pack("<HIQ", number, 8, section(number, data))
    at = len(out)
    out.extend(struct.pack("<HHIQ", 3, int(pack), 0, 0))
    buffer = struct.pack("<Q", at) + b"one\0local\0" + struct.pack("<II", PAGE, 2)
    for cpu, data in enumerate((b"".join(pages()[:2]), b"".join(pages()[2:]))):
        size = len(data)
        if pack:
            packed = zlib.compress(data)
            size = 8 + len(packed)
            data = struct.pack("<III", 1, len(packed), len(data)) + packed
        buffer += struct.pack("<IQQ", cpu, len(out), size)
        out.extend(data)
    options += struct.pack("<HI", 3, len(buffer)) + buffer + struct.pack("<HIQ", 0, 8, 0)
    out[start : start + 8] = struct.pack("<Q", section(0, options))
    return bytes(out)


@functools.cache
def dat_seeds() -> list[bytes]:
    """Give a small trace.dat of version 6, and two of version 7."""
    return [_version_6(), _version_7(False), _version_7(True)]


def read_dat(
    plain: Callable[[str], ModuleType], slow: Callable[[Callable[[], object], int, int], float], data: bytes
) -> None:
    """A file is refused by NotTraceDat, or all bytes of its pages are in records; no record takes long."""

    def read(module: Callable[[str], ModuleType]) -> tuple[int, int]:
        file = module("kprobe_text.pages.dat.file")
        try:
            found = file.TraceDat(data)
            records = list(found.records())
            places = [(buffer, cpu) for buffer in found.contents.buffers for cpu in buffer.cpus]
            held = [page for buffer, cpu in places for _, page in found.pages(buffer, cpu)]
        except file.NotTraceDat:
            return 1, len(data)
        texts = found.contents.texts
        assert texts or sum(len(r.raw) for r in records) == sum(map(len, held)), "bytes were lost"
        return len(records), sum(map(len, held)) + len(data)

    records, length = read(importlib.import_module)
    times = slow(lambda: read(plain), records + 5 * len(EVENTS), length)
    assert not times, f"{times:.1f} ms a record"
