"""Events of system calls, whose text is their own: lines of guests, and what trace-cmd and perf print of them."""

from __future__ import annotations

import pytest

from kprobe_text.text import Bare, Event, parse

HEAD = b"           plain-129     [000] .....    25.899799: "
CONTEXT = ("plain", 129, 0, 25_899_799_000)


def event(text: bytes) -> Event:
    """Read one line in the usual columns."""
    (record,) = parse(HEAD + text + b"\n")
    assert isinstance(record, Event)
    assert (record.task, record.pid, record.cpu, record.timestamp) == CONTEXT
    assert record.text == text.decode().removeprefix(f"{record.name}: ")
    return record


@pytest.mark.parametrize(
    ("text", "name", "fields"),
    [
        # 5.10
        (
            b"sys_openat(dfd: ffffff9c, filename: 27abdaf8, flags: 80241, mode: 1ed)", "sys_enter_openat",
            {"dfd": 0xFFFFFF9C, "filename": 0x27ABDAF8, "flags": 0x80241, "mode": 0o755},
        ),
        (b"sys_openat -> 0xfffffffffffffffe", "sys_exit_openat", {"ret": -2}),
        (b"sys_getpid()", "sys_enter_getpid", {}),
        (
            b"sys_close(unsigned int fd: 4)", "sys_enter_close", {"fd": 4},
        ),
        # 6.18
        (
            b"sys_write(fd: 0xffffffffffffffff, buf: 0x10000000, count: 0x96)", "sys_enter_write",
            {"fd": 2**64 - 1, "buf": 0x10000000, "count": 150},
        ),
        # 7.3
        (
            b'sys_openat(dfd: 4294967196, filename: 633821944 "/bin/workload", '
            b"flags: O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, mode: 0755)", "sys_enter_openat",
            {
                "dfd": 4294967196, "filename": 633821944, "__filename_val": "/bin/workload",
                "flags": "O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC", "mode": 0o755,
            },
        ),
        (
            b'sys_openat(dfd: 18446744073709551516, filename: 268435456 "/x", flags: O_RDONLY)", flags: O_RDONLY)',
            "sys_enter_openat",
            {
                "dfd": 2**64 - 100, "filename": 0x10000000, "__filename_val": '/x", flags: O_RDONLY)',
                "flags": "O_RDONLY",
            },
        ),
        (
            b'sys_rename(const char * oldname: 0x10000000 "/tmp/none", const char * newname: 0x10000100 "/tmp/other")',
            "sys_enter_rename",
            {
                "oldname": 0x10000000, "__oldname_val": "/tmp/none", "newname": 0x10000100,
                "__newname_val": "/tmp/other",
            },
        ),
        (
            b'sys_write(fd: 0xffffffffffffffff, buf: 0x10000000 (61:22:00:ff:25:73) "a"..%s", count: 6)',
            "sys_enter_write",
            {"fd": 2**64 - 1, "buf": 0x10000000, "__buf_val": (97, 34, 0, 255, 37, 115), "count": 6},
        ),
        (b"sys_write(fd: 0xff, buf: 0x10000000 (), count: 0)", "sys_enter_write",
         {"fd": 255, "buf": 0x10000000, "__buf_val": (), "count": 0}),
        (
            b"sys_enter: NR 82 (10000000, 10000100, 0, 0, 0, 0)", "sys_enter",
            {"id": 82, "args": (0x10000000, 0x10000100, 0, 0, 0, 0)},
        ),
        (b"sys_exit: NR 82 = -2", "sys_exit", {"id": 82, "ret": -2}),
    ],
)  # fmt: skip
def test_calls_as_guests_show_them(text: bytes, name: str, fields: dict[str, object]) -> None:
    record = event(text)
    assert (record.name, record.fields, record.complete, record.guessed) == (name, fields, True, frozenset())
    (bare,) = parse(text + b"\n")
    assert isinstance(bare, Bare)
    assert (bare.name, bare.fields, bare.complete) == (name, fields, True)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        # it may be two strings, or one that holds what stands between two
        (b'sys_rename(oldname: 0x10000000 "", newname: 0x10000100 "q"uote")', True),
        (b'sys_rename(oldname: 0x10000000 "a", newname: 0x1 "b", newname: 0x10000100 "c")', False),
        (b"sys_openat(dfd: ffffff9c, filename: 27ab", False),
        (b'sys_openat(dfd: 4294967196, filename: 633821944 "/bin', False),
        (b"sys_openat(dfd: odd, x: 1)", False),
    ],
)
def test_what_cannot_be_settled_is_marked(text: bytes, complete: bool) -> None:
    record = event(text)
    assert record.complete == complete
    assert not complete or {"__oldname_val", "newname", "__newname_val"} == record.guessed


def test_a_newline_in_a_string_makes_no_record() -> None:
    forged = b"/x\n           plain-129     [000] .....    25.900000: sys_close(fd: 3)\n"
    text = HEAD + b'sys_openat(dfd: 5, filename: 7 "' + forged + b'", flags: O_RDONLY)\n'
    (record,) = parse(text)
    assert isinstance(record, Event)
    assert (record.fields["__filename_val"], record.complete) == (forged.decode(), True)


def test_reports_of_other_programs() -> None:
    # trace-cmd report and perf script: by the print fmt, after the event's name
    reported = parse(
        b"           plain-129     [000] ..... 25.899799: sys_enter_openat:     dfd: 0xffffff9c, filename: 0x10000000, "
        b"flags: 0x00000000, mode: 0x00000000\n"
        b"           plain-129     [000] ..... 25.899899: sys_exit_openat:      0xfffffffffffffffe\n"
    )
    fields = {"dfd": 0xFFFFFF9C, "filename": 0x10000000, "flags": 0, "mode": 0}
    assert [(one.name, one.fields, one.complete) for one in reported if isinstance(one, Event)] == [
        ("sys_enter_openat", fields, True), ("sys_exit_openat", {"ret": -2}, True),
    ]  # fmt: skip
    (of_perf,) = parse(
        b"plain   129 [000]    25.899799: syscalls:sys_enter_openat: dfd: 0xffffff9c, filename: 0x10000000, "
        b"flags: 0x00000000, mode: 0x00000000\n"
    )
    assert isinstance(of_perf, Event)
    assert (of_perf.group, of_perf.name, of_perf.fields) == ("syscalls", "sys_enter_openat", fields)


def test_within_a_graph() -> None:
    (entered, left) = parse(
        b" 0)               |  /* sys_openat(dfd: ffffff9c, filename: 27ab, flags: 0, mode: 0) */\n"
        b" 0)               |  /* sys_openat -> 0x3 */\n"
    )
    assert isinstance(entered, Bare)
    assert isinstance(left, Bare)
    assert (entered.name, entered.fields["dfd"], left.name, left.fields) == (
        "sys_enter_openat", 0xFFFFFF9C, "sys_exit_openat", {"ret": 3},
    )  # fmt: skip
