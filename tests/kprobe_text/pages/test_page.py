"""Pages made by hand: every kind of event, and what isn't one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_text.pages.events import Events
from kprobe_text.pages.flags import Letters, flags_text, letters_of
from kprobe_text.pages.header import check_event_header, page_header
from kprobe_text.pages.kallsyms import Kallsyms
from kprobe_text.text import CodeAddress, Event, Header, Lost, Marker, Unnamed, Unparsed

from .made import HEADER_PAGE, MYOPEN, OPEN, event, opened, page, read, reader, words

PLACE = CodeAddress("do_sys_openat2", 0, 0x170, "", OPEN, "do_sys_openat2+0x0/0x170")
MARK = struct.pack("<HBBiQ", 5, 0, 0, 42, 0) + b"hello\n\0\0"


@pytest.mark.parametrize(
    ("uname", "shown"),
    [
        ("Linux guest 5.10.0-46-cloud-amd64 x86_64", "X..21"),
        ("Linux guest 5.18.2 x86_64", "X..12"),
        ("Linux guest 6.1.0-54-cloud-amd64 x86_64", "b..12"),
        ("Linux guest 6.12.117+deb13-cloud-amd64 x86_64", "b..12"),
        ("Linux guest 6.12.117+deb13-rt-amd64 x86_64", "bl.12"),
        ("Linux guest 7.2.13+deb14-cloud-amd64 x86_64", "bl.12"),
        ("", "bl.12"),
    ],
)
def test_letters_of_kernels(uname: str, shown: str) -> None:
    """Bottom halves off, the second bit, migration disabled twice: which of them a kernel shows."""
    assert flags_text(0x82, 0x21, letters_of(uname)) == shown


def test_an_event() -> None:
    (found,) = read(page(event(opened(b"/etc/hostname"), 7)), letters=Letters(migrate=False))
    assert isinstance(found, Event)
    assert found[:11] == (
        "cat", 42, 0, "d..2", 1_000_007, "myopen", PLACE, None, {"dfd": -100, "path": "/etc/hostname"}, None, "time",
    )  # fmt: skip
    assert (found.complete, found.guessed, found.group, found.text) == (True, frozenset(), "kprobes", "")


def test_times() -> None:
    data = page(
        event(opened(b"a"), 7),
        words(30, 5, 3),  # a time extend: 3 << 27 | 5
        event(opened(b"b")),
        words(29, 9, 12) + bytes(8),  # discarded, after 9 ns
        words(29, 1, 12) + bytes(8),  # discarded, its own time was 0
        event(opened(b"c"), 1),
        words(31, 8, 100),  # an absolute time stamp
        event(opened(b"d"), 2),
    )
    found = [record for record in read(data) if isinstance(record, Event)]
    assert [record.fields["path"] for record in found] == ["a", "b", "c", "d"]
    later = 1_000_007 + (3 << 27) + 5
    assert [record.timestamp for record in found] == [1_000_007, later, later + 10, (100 << 27) + 10]


@pytest.mark.parametrize(
    ("before", "word", "stamp"),
    [(5 << 59 | 7, 1, 5 << 59 | 1 << 27), (5 << 59 | 1 << 58, 1, 6 << 59 | 1 << 27), (7, 1, 1 << 27)],
)
def test_an_absolute_time_has_59_bits(before: int, word: int, stamp: int) -> None:
    (found,) = read(page(words(31, 0, word), event(opened(b"a")), stamp=before))
    assert isinstance(found, Event)
    assert found.timestamp == stamp


def test_a_long_event_says_its_length_in_a_word_of_its_own() -> None:
    first, second = read(page(event(opened(b"x" * 3000)), event(opened(b"y"))))
    assert isinstance(first, Event)
    assert isinstance(second, Event)
    assert (first.fields["path"], second.fields["path"]) == ("x" * 3000, "y")


def test_the_rest_of_a_page_can_be_padding() -> None:
    (found,) = read(page(event(opened(b"a")), struct.pack("<I", 29), b"\xff" * 50))
    assert isinstance(found, Event)


@pytest.mark.parametrize(
    ("flags", "tail", "count"),
    [(1 << 31, b"", None), (3 << 30, struct.pack("<Q", 77), 77), (0xFFFFFFFF << 32 | 3 << 30, b"\x05" + bytes(7), 5)],
)
def test_lost_events(flags: int, tail: bytes, count: int | None) -> None:
    """The kernel adds the flags as an int, whose sign fills the upper half (fixtures/control/raw.jsonl)."""
    lost, found = read(page(event(opened(b"a")), flags=flags, tail=tail))
    assert isinstance(lost, Lost)
    assert (lost.cpu, lost.count, len(lost.raw)) == (0, count, 16)
    assert isinstance(found, Event)


def test_a_page_without_events() -> None:
    (found,) = read(page())
    assert isinstance(found, Header)


def test_an_event_whose_format_nobody_has() -> None:
    pages = reader()
    found = pages.read(page(event(opened(b"a", number=77))), 0)[0][1]
    assert isinstance(found, Unnamed)
    assert (found.task, found.pid, found.event_id) == ("cat", 42, 77)
    assert b"a\0" in found.raw


def test_events_without_any_format() -> None:
    (found, rest) = read(page(event(opened(b"a"))), formats=())
    assert isinstance(found, Unparsed)
    assert isinstance(rest, Header)


def test_a_string_outside_its_record() -> None:
    broken = opened(b"/etc/hostname")
    broken = broken[:20] + struct.pack("<I", 14 << 16 | 30) + broken[24:]
    first, second = read(page(event(broken), event(opened(b"next"))))
    assert isinstance(first, Event)
    assert (first.complete, first.fields) == (False, {"dfd": -100})
    assert isinstance(second, Event)
    assert second.complete


def test_a_record_that_is_too_short() -> None:
    (found, _) = read(page(event(opened(b"a")[:20]), event(opened(b"b"))))
    assert isinstance(found, Event)
    assert (found.complete, found.address, found.fields) == (False, PLACE, {"dfd": -100})


@pytest.mark.parametrize(
    ("data", "kept", "said"),
    [
        (page(event(opened(b"a")))[:9], 0, "CPU 0, page at byte 8192: a page breaks off after 9 bytes; 9 bytes"),
        (page(event(opened(b"a")))[:40], 0, "a page breaks off after 40 bytes, its data goes to 48"),
        (page(event(opened(b"a")), event(opened(b"b")))[:60], 1, "a page breaks off after 60 bytes"),
        (page(flags=5000), 0, "a page says that it has 5000 bytes of data, more than it has room for"),
        (page(event(opened(b"a")), words(0, 0, 999), b"x" * 8), 1, "an event at byte 48 of a page would end at 1051"),
        (page(event(opened(b"a")), words(0, 0, 2)), 1, "an event at byte 48 of a page would end at 54"),
        (page(event(opened(b"a")), b"\x1e\0\0\0"), 1, "an event at byte 48 of a page ends before its second word"),
        (page(event(opened(b"a")), b"\x01\0"), 1, "the data of a page ends within an event, at byte 50"),
    ],
)  # fmt: skip
def test_what_is_broken_is_kept_and_told(data: bytes, kept: int, said: str) -> None:
    pages = reader()
    records = [record for _, record in pages.read(data, 0, offset=8192)]
    assert b"".join(record.raw for record in records) == data
    assert [type(record) for record in records] == [Event] * kept + [Unparsed]
    (problem,) = pages.problems
    assert said in problem


def test_a_kernel_of_32_bits() -> None:
    text = HEADER_PAGE.replace("offset:8;\tsize:8;\tsigned:1", "offset:8;\tsize:4;\tsigned:1").replace(
        "offset:16;\tsize:4080", "offset:12;\tsize:4084"
    )
    header = page_header(text)
    assert (header.long, header.data, header.size) == (4, 12, 4096)
    data = event(opened(b"a"))
    whole = (struct.pack("<QI", 5, len(data) | 3 << 30) + data + struct.pack("<I", 9)).ljust(4096, b"\0")
    lost, found = (record for _, record in reader(header).read(whole, 0))
    assert isinstance(lost, Lost)
    assert lost.count == 9
    assert isinstance(found, Event)
    assert found.fields["path"] == "a"


def test_the_other_order_of_bytes() -> None:
    header = page_header(HEADER_PAGE, order="big")
    data = event(opened(b"a", order=">"), 3, ">")
    whole = (struct.pack(">QQ", 5, len(data)) + data).ljust(4096, b"\0")
    ((stamp, found),) = reader(header).read(whole, 0)
    assert isinstance(found, Event)
    assert (stamp, found.fields, found.pid) == (8, {"dfd": -100, "path": "a"}, 42)


def test_larger_pages() -> None:
    header = page_header(HEADER_PAGE).of_size(16384)
    many = [event(opened(b"%d" % number)) for number in range(400)]
    found = [record for _, record in reader(header).read(page(*many, size=16384), 0)]
    assert [record.fields["path"] for record in found if isinstance(record, Event)] == [str(n) for n in range(400)]


def test_a_mark() -> None:
    (found, _) = read(page(event(MARK)))
    assert isinstance(found, Marker)
    assert (found.task, found.text) == ("cat", "hello")


def test_what_printed_isnt_always_a_mark() -> None:
    by_kernel = MARK[:8] + struct.pack("<Q", OPEN) + MARK[16:]
    (found,) = read(page(event(by_kernel)))
    assert isinstance(found, Event)
    assert (found.name, found.fields, found.complete) == ("print", {"ip": OPEN, "buf": "hello\n"}, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a header_page: it has no field timestamp"),
        (HEADER_PAGE.replace("commit", "commitment"), "not a header_page: it has no field commit"),
        (HEADER_PAGE.replace("offset:16", "offset:12"), "a header_page that isn't understood: timestamp at 0"),
    ],
)
def test_no_header_page(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="header_page") as refusal:
        page_header(text)
    assert said in str(refusal.value)


def test_header_event() -> None:
    text = "\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\n\tpadding     : type == 29\n"
    check_event_header(text)
    with pytest.raises(ValueError, match="padding is 28, not 29"):
        check_event_header(text.replace("29", "28"))
    with pytest.raises(ValueError, match="it doesn't say how long type_len is"):
        check_event_header("")


def test_formats_that_no_record_can_have() -> None:
    overlap = MYOPEN.replace("path;\toffset:20", "path;\toffset:18")
    far = MYOPEN.replace("path;\toffset:20", "path;\toffset:99999999")
    odd = MYOPEN.replace("common_flags;\toffset:2;\tsize:1", "common_flags;\toffset:2;\tsize:3")
    wide = MYOPEN.replace("common_type;\toffset:0;\tsize:2", "common_type;\toffset:0;\tsize:1")
    for text, said in (
        (overlap, "path overlaps another field"),
        (far, "puts path at 99999999, out of every record"),
        (odd, "says that common_flags is no number"),  # found by a fuzzer
        (wide, "says that common_type has 1 bytes"),
    ):
        events = Events([("kprobes", text)], "<", Kallsyms(None).symbol)
        assert events[1500] is None
        assert said in events.problems[0]
    with pytest.raises(ValueError, match="without an ID"):
        Events([("g", "nothing")], "<", Kallsyms(None).symbol)


def test_symbols() -> None:
    places = reader().places
    assert places[OPEN + 5].text == "do_sys_openat2+0x5/0x170"
    assert places[0xFFFFFFFFC0001004].text == "in_a_module+0x4 [ext4]"
    assert places[0xFFFFFFFFC0101004].text == "0xffffffffc0101004"
    assert places[0x10].text == "0x10"
    assert places.symbol(0x10) == 0x10
    assert Kallsyms(None)[OPEN].text == "0xffffffff81348560"
    assert Kallsyms(lambda: b"0000000000000000 T hidden\n")[OPEN].symbol == ""


@given(st.binary(max_size=200), st.integers(0, 300), st.sampled_from([0, 1 << 31, 3 << 30]), st.booleans())
def test_any_bytes_are_kept(data: bytes, commit: int, flags: int, is_cut: bool) -> None:
    whole = struct.pack("<QQ", 5, commit | flags) + data
    read(whole if is_cut else whole.ljust(4096, b"\0"))


@given(st.lists(st.tuples(st.integers(0, (1 << 27) - 1), st.binary(max_size=40)), max_size=60))
def test_what_is_put_in_comes_out(hits: list[tuple[int, bytes]]) -> None:
    made = [event(opened(path.replace(b"\0", b"")), delta) for delta, path in hits]
    found = [record for record in read(page(*made)) if isinstance(record, Event)]
    stamps = [1_000_000 + sum(delta for delta, _ in hits[: i + 1]) for i in range(len(hits))]
    assert [record.timestamp for record in found] == stamps
    texts = [path.replace(b"\0", b"").decode("utf-8", "surrogateescape") for _, path in hits]
    assert [record.fields["path"] for record in found] == texts
