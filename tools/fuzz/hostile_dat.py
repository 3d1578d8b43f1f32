"""Developers run it after a change to pages or trace.dat: files that ask for too much memory, time or shared space.

    tools/fuzz/hostile_dat.py --files 300 --seed 1       read 300, each in its own process, and show what each took
    tools/fuzz/hostile_dat.py --write DIR --files 20     only write them

Each kind of KINDS makes a file of about the size asked for.  A file is read by `kprobe_text.pages` and,
where numba is installed, by `kprobe_text.columns`, both ways.  A file that takes more memory or time than allowed, or
raises anything but NotTraceDat, is printed with its seed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import os
import random
import resource
import struct
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT = Path(__file__).parents[2]
for place in (str(ROOT), str(ROOT / "tools" / "fuzz")):
    if place not in sys.path:
        sys.path.insert(0, place)

made: Any = importlib.import_module("fuzz_pages")

SIZE: Final = 1 << 20
MEMORY: Final = 200 << 20  # bytes that reading a file may take at most, beside what an empty one takes
SECONDS: Final = 60
HEADER_PAGE = b"""\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
"""
HEADER_EVENT = made.HEADER_EVENT.encode()
TINY = "".join(
    f"field:{kind} common_{name};offset:{at};size:{size};\n"
    for kind, name, at, size in (
        ("u16", "type", 0, 2), ("u8", "flags", 2, 1), ("u8", "preempt_count", 3, 1), ("u8", "pid", 4, 1),
    )
)  # fmt: skip


class Made(NamedTuple):
    """A file, and what it is called."""

    name: str
    data: bytes


def event(number: int, fields: str = "", name: str = "e", common: str = made.COMMON) -> bytes:
    """Give a format."""
    return f'name: {name}\nID: {number}\nformat:\n{common}{fields}\nprint fmt: "x"\n'.encode()


def field(declared: str, at: int, size: int) -> str:
    """Give a line of a format."""
    return f"\tfield:{declared};\toffset:{at};\tsize:{size};\tsigned:0;\n"


def text(data: bytes) -> bytes:
    """Give bytes after their length."""
    return struct.pack("<Q", len(data)) + data


def others(formats: Sequence[bytes]) -> bytes:
    """Give formats as those of one system."""
    return struct.pack("<I", 1) + b"made\0" + struct.pack("<I", len(formats)) + b"".join(map(text, formats))


def record(number: int, data: bytes, delta: int = 1) -> bytes:
    """Give an event of the ring buffer."""
    body = struct.pack("<HBBi", number, 0, 0, 7) + data
    body += bytes(-len(body) % 4)
    if len(body) <= 112:
        return struct.pack("<I", delta << 5 | len(body) // 4) + body
    return struct.pack("<II", delta << 5, len(body) + 4) + body


def page(data: bytes, size: int, stamp: int = 1000) -> bytes:
    """Give a page."""
    return (struct.pack("<QQ", stamp, len(data)) + data).ljust(size, b"\0")


def filled(one: bytes, size: int, stamp: int = 1000) -> bytes:
    """Give a page full of one event."""
    return page(one * ((size - 16) // len(one)), size, stamp)


def version_6(
    cpus: Sequence[bytes] = (),
    *,
    formats: Sequence[bytes] = (),
    page_size: int = 4096,
    kallsyms: bytes = b"",
    cmdlines: bytes = b"",
    options: Sequence[tuple[int, bytes]] = (),
    events: Sequence[bytes] = (),
    extra: Callable[[int, int], Sequence[tuple[int, bytes]]] | None = None,
) -> bytes:
    """Give a file of version 6; `extra` makes more options of the place of the buffer's mark and the number of CPUs."""
    head = b"\x17\x08\x44tracing6\0\0\x08" + struct.pack("<I", page_size)
    head += b"header_page\0" + text(HEADER_PAGE) + b"header_event\0" + text(HEADER_EVENT)
    head += struct.pack("<I", len(events)) + b"".join(map(text, events)) + others(formats)
    head += struct.pack("<I", len(kallsyms)) + kallsyms + struct.pack("<I", 0) + text(cmdlines)
    head += struct.pack("<I", len(cpus)) + b"options  \0"

    def packed(some: Iterable[tuple[int, bytes]]) -> bytes:
        return b"".join(struct.pack("<HI", number, len(data)) + data for number, data in some)

    chosen = list(options)
    if extra is not None:
        length = len(packed(chosen)) + len(packed(extra(0, 0)))
        chosen += extra(len(head) + length + 2, len(cpus))
    head += packed(chosen) + struct.pack("<H", 0)
    at = len(head) + 10 + 16 * len(cpus)
    places = b""
    for data in cpus:
        places += struct.pack("<QQ", at, len(data))
        at += len(data)
    return head + b"flyrecord\0" + places + b"".join(cpus)


class Version7:
    """A file of version 7, part by part."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x17\x08\x44tracing7\0\0\x08" + struct.pack("<I", 4096) + b"zlib\0001\0" + bytes(8))
        self._start = len(self.out) - 8
        self.options = b""

    def section(self, number: int, data: bytes, *, is_packed: bool = True) -> int:
        """Add a section, and return its place."""
        at = len(self.out)
        if is_packed:
            small = zlib.compress(data, 6)
            data = struct.pack("<II", len(small), len(data)) + small
        self.out += struct.pack("<HHIQ", number, int(is_packed), 0, len(data)) + data
        return at

    def option(self, number: int, data: bytes) -> None:
        """Add an option."""
        self.options += struct.pack("<HI", number, len(data)) + data

    def point(self, number: int, data: bytes) -> None:
        """Add a section with its option."""
        self.option(number, struct.pack("<Q", self.section(number, data)))

    def header(self) -> None:
        """Add what a file with pages must have."""
        self.point(16, b"header_page\0" + text(HEADER_PAGE) + b"header_event\0" + text(HEADER_EVENT))

    def buffer(self, cpus: Iterable[bytes], page_size: int, name: bytes = b"i", *, is_packed: bool = True) -> None:
        """Add a buffer; of packed CPUs their data is what the file has: parts after their number."""
        at = self.section(3, b"", is_packed=False)
        struct.pack_into("<H", self.out, at + 2, int(is_packed))
        places = []
        for cpu, data in enumerate(cpus):
            places.append(struct.pack("<IQQ", cpu, len(self.out), len(data) - 4 * is_packed))
            self.out += data
        head = struct.pack("<Q", at) + name + b"\0local\0" + struct.pack("<II", page_size, len(places))
        self.option(3, head + b"".join(places))

    def done(self) -> bytes:
        """Give the file."""
        self.option(0, struct.pack("<Q", 0))
        at = self.section(0, self.options)
        self.out[self._start : self._start + 8] = struct.pack("<Q", at)
        return bytes(self.out)


def parts(data: bytes, count: int = 1) -> bytes:
    """Give a CPU's data, which is the same part so many times."""
    small = zlib.compress(data, 9)
    return struct.pack("<I", count) + (struct.pack("<II", len(small), len(data)) + small) * count


# --- the kinds


def _locations(size: int, rng: random.Random) -> bytes:
    """The format of ten arrays of strings, each of as many elements as can be."""
    count = rng.choice([1 << 18, 1 << 16, 1 << 12, 4096 // 10])
    fields = "".join(
        field(f"__data_loc char[] x{i}[{count}]", rng.choice([0, 8 + 4 * count * i]), 4 * count) for i in range(10)
    )
    return version_6([filled(record(9, bytes(4 * rng.choice([1, 500]))), 4096)], formats=[event(9, fields)])


def _shared_locations(size: int, rng: random.Random) -> bytes:
    """Records whose locations all point to the same bytes, as many as there are."""
    count = rng.choice([16, 17, 100, 1000, 8000])
    fields = "".join(
        field(f"__data_loc {rng.choice(['char', 'u8', 'u64'])}[] x{i}", 8 + 4 * i, 4) for i in range(min(count, 1000))
    )
    if count > 1000:
        fields = field(f"__data_loc char[] x[{count}]", 8, 4 * count)
    long = min(60_000, size // 2)
    at = 8 + 4 * count
    one = record(9, struct.pack("<I", (long - 8) << 16 | min(at, 0xFFFF)) * count + b"x" * long)
    return version_6(
        [filled(one, max(size - 4096, len(one) + 16))],
        formats=[event(9, fields)],
        page_size=max(size - 4096, len(one) + 16),
    )


def _overlapping(size: int, rng: random.Random) -> bytes:
    """Fields that lie on each other, or reach to the end of the record."""
    count = rng.choice([8, 200, 1000, 5000])
    declared, long = rng.choice(
        [("struct x y{}", 1 << 20 >> 1), ("char y{}[]", 0), ("u64 y{}[2]", 16), ("u8 y{}[1]", 1)]
    )
    fields = "".join(field(declared.format(i), 8, long) for i in range(count))
    pages = filled(record(9, bytes(rng.choice([0, 8, 100, 60000]))), size)
    return version_6([pages], formats=[event(9, fields)], page_size=size)


def _fields(size: int, rng: random.Random) -> bytes:
    """A format of very many fields."""
    count = size // 40
    fields = "".join(field(f"u8 a{i}", 8 + i, 1) for i in range(count))
    return version_6([filled(record(9, bytes(count)), 1 << 16)], formats=[event(9, fields)], page_size=1 << 16)


def _tiny(size: int, rng: random.Random) -> bytes:
    """Records as short as can be."""
    long = rng.choice([64, 4096, 65536, size - 4096])
    one = rng.choice(
        [struct.pack("<IHBB", 33, 9, 0, 0), struct.pack("<IHBBI", 34, 9, 0, 0, 1), struct.pack("<IHBB", 33, 8, 0, 0)]
    )
    count = max(1, (size - 4096) // long)
    cpus = rng.choice([1, 2, 7, count])
    data = [filled(one, long, i) * max(1, count // cpus) for i in range(cpus)]
    return version_6(
        data, formats=[event(9, "", "x" * rng.choice([1, 60, 3000]), rng.choice([TINY, made.COMMON]))], page_size=long
    )


def _stacks(size: int, rng: random.Random) -> bytes:
    """A page of different addresses, and symbols whose names are as long as can be."""
    long = (size - 8192) // 2
    name = b"s" * rng.choice([10, 511, 100_000])
    fields = field("int size", 8, 4) + field("unsigned long caller[]", 16, 0)
    start = 0xFFFFFFFF81000000
    addresses = struct.pack(f"<{long // 8}Q", *range(start, start + long // 8))
    data = record(3, struct.pack("<II", long // 8, 0) + addresses)
    symbols = b"%x T %s\n%x T end\n" % (start, name, start + (1 << 24))
    return version_6(
        [page(data, len(data) + 16)],
        events=[event(3, fields, "kernel_stack")],
        page_size=len(data) + 16,
        kallsyms=symbols,
    )


def _symbols(size: int, rng: random.Random) -> bytes:
    """A kallsyms of short lines."""
    lines = b"".join(b"%x T a\n" % number for number in range(1 << 63, (1 << 63) + size // 21))
    return version_6(
        [filled(record(9, bytes(8)), 4096)], formats=[event(9, field("void * __probe_ip", 8, 8))], kallsyms=lines
    )


def _tasks(size: int, rng: random.Random) -> bytes:
    """A saved_cmdlines of short lines."""
    return version_6(
        [filled(record(9, b""), 4096)], formats=[event(9)], cmdlines=b"".join(b"%d a\n" % i for i in range(size // 8))
    )


def _places(size: int, rng: random.Random) -> bytes:
    """Instances that all have the places of the same CPUs, none of which has data."""
    cpus = rng.choice([1, 100, 20_000, size // 40])
    count = (size - 16 * cpus) // 16
    return version_6([b""] * cpus, extra=lambda at, _: [(3, struct.pack("<Q", at) + b"\0")] * count)


def _cpus(size: int, rng: random.Random) -> bytes:
    """As many CPUs as there can be, each with a little data."""
    some = rng.choice([b"x", bytes(17), page(record(9, b""), 40)])
    return version_6(
        [some] * min(size // (16 + len(some)), rng.choice([1000, 10_000, 60_000])), formats=[event(9)], page_size=64
    )


def _one_section(size: int, rng: random.Random) -> bytes:
    """Options that all name one packed section."""
    out = Version7()
    number = rng.choice([16, 17, 18, 19, 20, 21])
    body = {17: struct.pack("<I", 1) + text(bytes(size * 200)), 18: others([bytes(size * 200)])}.get(number)
    if number in (19, 20):
        body = struct.pack("<I", size * 200) + bytes(size * 200)
    place = out.section(number, body or text(b"1 a\n" * size * 50))
    for _ in range(rng.choice([2, 40, 10_000])):
        out.option(number, struct.pack("<Q", place))
    return out.done()


def _packed_section(size: int, rng: random.Random) -> bytes:
    """Sections each of which is very long when it is unpacked."""
    out = Version7()
    out.header()
    for number in rng.sample([17, 18, 19, 20, 21], 3):
        many = rng.choice([1 << 15, 1 << 20, 1 << 22])
        if number in (17, 18):
            formats = [event(i % 65536, "", "e", TINY) for i in range(min(many, 70_000))]
            some = struct.pack("<I", len(formats)) + b"".join(map(text, formats))
            body = some if number == 17 else struct.pack("<I", 1) + b"m\0" + some
        elif number == 21:
            body = text(b"".join(b"%d a\n" % i for i in range(many)))
        else:
            lines = b"".join(b"%x T a\n" % i for i in range(1 << 63, (1 << 63) + min(many, 1 << 21)))
            body = struct.pack("<I", len(lines)) + lines
        out.point(number, body)
    one = b"".join(struct.pack("<IHBBI", 34, i, 0, 0, 1) for i in range(16384))
    out.buffer([parts(page(one, len(one) + 16))], len(one) + 16)
    return out.done()


def _packed_pages(size: int, rng: random.Random) -> bytes:
    """CPUs whose packed pages are full of the shortest records."""
    out = Version7()
    out.header()
    out.point(18, others([event(9, "", "e", TINY)]))
    long = rng.choice([64, 4096, 1 << 16, 1 << 20, 1 << 24, 1 << 25])
    one = struct.pack("<IHBBI", 34, 9, 0, 0, 1)
    data = parts(filled(one, long) * rng.choice([1, max((1 << 20) // long, 1)]), rng.choice([1, 1, 5]))
    most = max(1, size // (len(data) + 20))
    out.buffer([data] * min(most, rng.choice([1, 50, 1000, 8192, 20_000])), long)
    return out.done()


def _long_parts(size: int, rng: random.Random) -> bytes:
    """Packed parts that become very long, or many that become nothing."""
    out = Version7()
    out.header()
    data = parts(bytes(rng.choice([0, 1, 1 << 20, 1 << 24, 1 << 26])), rng.choice([1, 10]))
    count = max(1, size // len(data))
    out.buffer([data] * rng.choice([1, min(count, 3000)]), rng.choice([64, 4096, 1 << 20, 1 << 27]))
    whole = struct.pack("<I", count) + data[4:] * count
    out.buffer([whole[: size // 2]], rng.choice([64, 4096, 1 << 27]))
    return out.done()


def _instances(size: int, rng: random.Random) -> bytes:
    """As many instances as there can be, or texts."""
    out = Version7()
    out.header()
    for i in range(min(size // 64, rng.choice([500, 1000, 20_000]))):
        if rng.random() < 0.8:
            out.buffer([], 4096, b"n" * rng.choice([1, 4000]) if i < 100 else b"n", is_packed=False)
        else:
            place = out.section(22, b"x" * 8, is_packed=False)
            out.option(22, struct.pack("<Q", place) + b"t\0")
    return out.done()


def _times(size: int, rng: random.Random) -> bytes:
    """A shift of times with as many digits as there can be."""
    shift = rng.choice([b"0x" + b"f" * (size // 2), b"9" * 4000, b"0x7fffffffffffffff", b"-" + b"1" * 18]) + b"\0"
    return version_6(
        [filled(record(9, b""), 4096)], formats=[event(9)], options=[(rng.choice([1, 7]), shift)] * rng.choice([1, 3])
    )


def _names(size: int, rng: random.Random) -> bytes:
    """Names as long as can be, which each record has."""
    long = rng.choice([200, 5000, size // 4])
    fields = "".join(field(f"u8 {'x' * long}{i}", 8 + i, 1) for i in range(max(1, min(size // 2 // (long + 40), 900))))
    return version_6([filled(record(9, bytes(900)), 4096) * 20], formats=[event(9, fields, "n" * long)])


def _numbers(size: int, rng: random.Random) -> bytes:
    """A file that is as it should be, in which some numbers are very large."""
    data = bytearray(rng.choice(made.dat_seeds()))
    for _ in range(rng.choice([1, 1, 2, 5])):
        value = rng.choice(
            [0, 1, 255, 1 << 16, 1 << 20, 1 << 24, 1 << 26, 1 << 28, 1 << 31, (1 << 32) - 1, len(data), len(data) // 2]
        )
        struct.pack_into("<I", data, rng.randrange(len(data) - 4), value)
    return bytes(data)


KINDS: Final[dict[str, Callable[[int, random.Random], bytes]]] = {
    function.__name__.strip("_"): function
    for function in (
        _locations, _shared_locations, _overlapping, _fields, _tiny, _stacks, _symbols, _tasks, _places, _cpus,
        _one_section, _packed_section, _packed_pages, _long_parts, _instances, _times, _names, _numbers,
    )
}  # fmt: skip


def hostile(seed: int, size: int = SIZE, kind: str = "") -> Made:
    """Give a file of about so many bytes; one in six is packed by gzip besides."""
    rng = random.Random(seed)
    kind = kind or rng.choice([*KINDS, "numbers", "numbers", "numbers"])
    scale = rng.choice([1, 1, 2, 10, 100])
    data = KINDS[kind](max(size // scale, 20_000), rng)
    if rng.random() < 1 / 6:
        return Made(f"{kind} {seed}.gz", gzip.compress(data if rng.random() < 0.5 else data + bytes(size * 100), 6))
    return Made(f"{kind} {seed}", data)


# --- reading them


class Took(NamedTuple):
    """What reading a file took; `failed` is what was raised."""

    seconds: float
    memory: int
    failed: str


def _show(file: str) -> None:
    """Print the records as `kprobe parse` does."""
    parsing: Any = importlib.import_module("kprobe_text.parse.reading")
    shape: Any = importlib.import_module("kprobe_text.figures.shape")
    with open(os.devnull, "w", encoding="utf-8", errors="surrogateescape") as out:
        parsing.read(file, _schema(), lambda records: out.writelines(shape.text(record, "") for record in records))


def _schema() -> Any:
    return importlib.import_module("kprobe_text.parse.schema").Schema([])


def _tables(compiled: bool, file: str) -> None:
    source: Any = importlib.import_module("kprobe_text.parse.source").Source(file)
    bulk: Any = importlib.import_module("kprobe_text.columns.dat")
    dat: Any = importlib.import_module("kprobe_text.pages.dat.file")
    data = source.trace_dat()
    if data is not None:
        for _ in bulk.tables_of(dat.TraceDat(data), compiled=compiled):
            pass
    source.close()


def ways() -> dict[str, Callable[[str], None]]:
    """Give the ways in which a file can be read here."""
    found: dict[str, Callable[[str], None]] = {"records": _show}
    try:
        importlib.import_module("kprobe_text.columns.dat")
        importlib.import_module("numba")
    except ImportError:
        return found
    return found | {"tables": lambda file: _tables(False, file), "compiled": lambda file: _tables(True, file)}


def took(read: Callable[[str], None], file: str, seconds: int = SECONDS) -> Took:
    """Read a file in a process of its own."""
    start = time.monotonic()
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        os.close(receiving)
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 2)
            _forget_peak()
            read(file)
            status = 0
        except BaseException as error:
            if type(error).__name__ in ("NotTraceDat", "NotText"):
                status = 0
            else:
                os.write(sending, "".join(traceback.format_exception(error)).encode()[-3000:])
        finally:
            os.write(sending, b"\0%d" % _peak())
            os._exit(status)
    os.close(sending)
    with os.fdopen(receiving, "rb") as told:
        said, _, peak = told.read().rpartition(b"\0")
    _, status, _ = os.wait4(child, 0)
    failed = said.decode() if said or not status else f"it ended with status {status}: too long, or killed"
    return Took(time.monotonic() - start, int(peak or 0), failed)


def _forget_peak() -> None:
    """Let the peak be counted from now on: what is inherited isn't the file's."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> int:
    """Give the most memory that was used at a time, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def _run(seeds: Iterable[int], size: int, kind: str) -> Iterator[tuple[Made, str, Took]]:
    reading = ways()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.dat"
        path.write_bytes(version_6())
        empty = {name: took(read, str(path)).memory for name, read in reading.items()}
        for seed in seeds:
            found = hostile(seed, size, kind)
            path.write_bytes(found.data)
            for name, read in reading.items():
                one = took(read, str(path))
                yield found, name, one._replace(memory=max(one.memory - empty[name], 0))


def main() -> int:
    """Make files, and read or write them."""
    parser = argparse.ArgumentParser(description="trace.dat files that ask for as much as they can")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="that of the first")
    parser.add_argument("--size", type=int, default=SIZE, help="bytes of a file, about")
    parser.add_argument("--kind", choices=["", *KINDS], default="")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after so long")
    parser.add_argument("--write", type=Path, metavar="DIR")
    asked = parser.parse_args()
    seeds = range(asked.seed, asked.seed + asked.files)
    if asked.write:
        asked.write.mkdir(parents=True, exist_ok=True)
        for seed in seeds:
            found = hostile(seed, asked.size, asked.kind)
            (asked.write / found.name.replace(" ", "-")).write_bytes(found.data)
        return 0
    start, count, wrong = time.monotonic(), 0, 0
    most, longest = ("", 0), ("", 0.0)
    for found, way, one in _run(seeds, asked.size, asked.kind):
        count += 1
        name = f"{found.name} ({len(found.data)} bytes), {way}"
        most, longest = (
            max(most, (name, one.memory), key=lambda it: it[1]),
            max(longest, (name, one.seconds), key=lambda it: it[1]),
        )
        if one.failed or one.memory > MEMORY:
            wrong += 1
            print(f"{name}: {one.memory >> 20} MiB, {one.seconds:.1f} s {one.failed}", flush=True)
        if time.monotonic() - start > asked.seconds:
            break
    print(f"{count} readings, {wrong} wrong, in {time.monotonic() - start:.0f} s")
    print(f"the most memory: {most[1] >> 20} MiB, {most[0]}; the longest: {longest[1]:.1f} s, {longest[0]}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
