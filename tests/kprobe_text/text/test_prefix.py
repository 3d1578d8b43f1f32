"""Traces as people quote them: something of a constant form stands before each line."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kprobe_text.text import Event, Lost, Parser, Record, StackTrace, Unparsed, parse

TRACES = Path(__file__).parents[3] / "fixtures" / "text"

Prefix = Callable[[int], bytes]

PREFIXES: dict[str, Prefix] = {
    "printk": lambda i: b"[%5d.%06d] " % (9 + i // 5, i * 37),
    "level": lambda i: b"<%d>[%5d.%06d] " % (i % 7, 9998 + i // 5, i),
    "caller": lambda i: b"[%5d.%06d][%6s] " % (9998 + i, i, b"T%d" % (i * 7) if i % 3 else b"C%d" % (i % 4)),
    "level, caller": lambda i: b"<4>[%5d.%06d][%6s] " % (26, i, b"T%d" % (i * 70)),
    "syslog": lambda i: b"Nov %2d 12:00:%02d host kernel: [%5d.%06d] " % (1 + i % 28, i % 60, 9 + i, i),
    "journalctl": lambda i: b"2026-11-26T12:00:%02d+00:00 my-host.x kernel: " % (i % 60),
    "program": lambda i: b"Nov 26 12:00:%02d host sh[%d]: " % (i % 60, i + 1),
    "RFC 5424": lambda i: b"<4>1 2026-11-26T12:00:%02d.003Z host kernel - - - " % (i % 60),
    "dmesg -T": lambda i: b"[Thu Nov 26 12:00:%02d 2026] " % (i % 60),
    "dmesg -x": lambda i: b"kern  :warn  : [%5d.%06d] " % (i, i),
    "dmesg -d": lambda i: b"[%5d.%06d <%12s>] " % (i, i, b"0.000010"),
    "/dev/kmsg": lambda i: b"4,%d,%d,-;" % (i + 1, i * 100),
    "mail": lambda _: b"> ",
    "mail without a blank": lambda _: b">",
    "mail that quotes mail": lambda _: b"> > ",
    "grep -n": lambda i: b"%d:" % (i + 1),
    "grep -n -C": lambda i: b"%d%s" % (i + 1, b":" if i % 3 else b"-"),
    "grep -n of files": lambda i: b"log/trace.txt:%d:" % (i + 1),
    "grep of files": lambda _: b"trace.txt:",
    "ts": lambda i: b"Nov 26 12:00:%02d " % (i % 60),
    "ts -i": lambda i: b"00:00:%02d " % (i % 60),
    "ts %.s": lambda i: b"1764158400.%06d " % i,
    "cat -n": lambda i: b"%6d\t" % (i + 1),
    "nl": lambda i: b"%6d  " % (i + 1),
    "four blanks": lambda _: b"    ",
    "a blank": lambda _: b" ",
    "a tab": lambda _: b"\t",
    "logcat": lambda i: b"11-26 12:00:00.%03d  1023 %5d I ftrace  : " % (i % 1000, 1000 + i),
    "compose": lambda _: b"web_1  | ",
    "CI": lambda i: b"2026-11-26T12:00:%02d.1234567Z " % (i % 60),
    "logging": lambda i: b"2026-11-26 12:00:%02d,123 INFO " % (i % 60),
    "table": lambda _: b"| ",
    "list": lambda _: b"* ",
    "comment": lambda _: b"# ",
    "patch": lambda _: b"> +",
}
# each has another layout
TEXTS = [
    "6.1/01_types.trace", "6.1/05_lost.trace_pipe", "3.2/01_types.trace", "6.12/10_fgraph_.trace",
    "6.12/10_fgraph_latency-format.trace", "6.1/03_opt_latency-format.trace", "6.1/03_opt_verbose.trace",
]  # fmt: skip


def quoted(text: bytes, prefix: Prefix) -> bytes:
    return b"".join(prefix(number) + line for number, line in enumerate(text.splitlines(keepends=True)))


def apart(records: list[Record]) -> list[Record]:
    return [record._replace(raw=b"") for record in records]


def cut(name: str) -> bytes:
    return (TRACES / name).read_bytes()[:6000].rpartition(b"\n")[0] + b"\n"


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([name for name in TEXTS if (TRACES / name).exists()]),
    st.sampled_from(sorted(PREFIXES)),
    st.lists(st.integers(0, 9000), max_size=5),
    st.booleans(),
)
def test_a_prefix_changes_nothing_but_raw(name: str, kind: str, cuts: list[int], ends: bool) -> None:
    plain = cut(name) if ends else cut(name)[:-1]
    text = quoted(plain, PREFIXES[kind])
    records = parse(text)
    assert b"".join(record.raw for record in records) == text
    assert apart(records) == apart(parse(plain))
    parser = Parser()
    pieces = [text[a:b] for a, b in pairwise([0, *sorted(cuts), len(text)])]
    fed = [record for piece in pieces for record in parser.feed(piece)] + parser.close()
    whole = Parser()
    assert fed == whole.feed(text) + whole.close()


@pytest.mark.parametrize("name", TEXTS)
def test_the_texts_are_there(name: str) -> None:
    assert (TRACES / name).exists()


OOPS = b"""\
[   26.070995] Dumping ftrace buffer:
[   26.071356] ---------------------------------
[   26.071356]     bash-42        0d..1 12345us : ent: (do_sys_openat2+0x0/0x170) dfd=-100 s="/etc/hosts"
[   26.071800] CPU:1 [LOST 5 EVENTS]
[   26.071802] usb 1-1: new high-speed USB device number 2
[   26.071820]   <idle>-0         1dNs.2 12346us!: <stack trace>
[   26.071820]  => do_idle
[   26.071820]  => cpu_startup_entry
[   26.072356] ---------------------------------
"""


def test_a_dump_of_the_buffer_on_an_oops() -> None:
    """Between other lines of the log, which don't stop it; each raw is the lines as they stood."""
    records = parse(OOPS)
    assert [type(record) for record in records] == [
        Unparsed, Unparsed, Event, Lost, Unparsed, StackTrace, Unparsed,
    ]  # fmt: skip
    event, stack = records[2], records[5]
    assert isinstance(event, Event)
    assert isinstance(stack, StackTrace)
    assert (event.task, event.pid, event.cpu, event.timestamp, event.clock) == ("bash", 42, 0, 12345000, "elapsed")
    assert event.fields == {"dfd": -100, "s": "/etc/hosts"}
    assert event.raw == OOPS.splitlines(keepends=True)[2]
    assert [frame.text for frame in stack.frames] == ["do_idle", "cpu_startup_entry"]
    assert stack.raw == b"".join(OOPS.splitlines(keepends=True)[5:8])


LINE = b'            bash-42      [001] .....    11.791146: ent: (do_sys_openat2+0x0/0x170) s="/x"\n'


def test_lines_with_and_without_a_prefix() -> None:
    """A mail has its own lines, those that it quotes, and those that these quote."""
    text = LINE + b"On Thursday somebody wrote:\n> " + LINE + b"> > " + LINE + b">\n> thanks\n" + LINE + b"> > " + LINE
    records = parse(text)
    assert b"".join(record.raw for record in records) == text
    events = [record for record in records if isinstance(record, Event)]
    assert [event.task for event in events] == ["bash"] * 5
    assert [event.raw for event in events] == [LINE, b"> " + LINE, b"> > " + LINE, LINE, b"> > " + LINE]


@pytest.mark.parametrize("line", [LINE, b"bash-42 [001] d... 11.791146: ent: (f+0x0/0x1) a=1\n"])
def test_columns_are_no_prefix(line: bytes) -> None:
    (event,) = parse(line)
    assert isinstance(event, Event)
    assert (event.task, event.instance, event.raw) == ("bash", "", line)


@pytest.mark.parametrize("task", ["-bash", "kworker/0:1-eve", "0:1", "foo.sh", "#x", "a:b"])
def test_a_tasks_name_is_no_prefix(task: str) -> None:
    name = task.encode()
    for line in (
        b"%16s-42      [001] .....    11.791146: ent: (f+0x0/0x1) a=1\n" % name,
        b"%16s    42 [001]    11.791146: probe:ent: (ffffffff813485a0) a=1\n" % name,
    ):
        (event,) = parse(line)
        assert isinstance(event, Event)
        assert (event.task, event.pid) == (task, 42)


def test_the_instance_that_trace_cmd_names_is_no_prefix() -> None:
    line = b"         foo:             bash-42    [001]    11.791146: ent:                  (do_sys_openat2+0x0) a=1\n"
    (event,) = parse(line)
    assert isinstance(event, Event)
    assert (event.instance, event.task) == ("foo", "bash")


def test_text_can_be_taken_back() -> None:
    parser = Parser()
    records = parser.feed(OOPS[:300])
    rest = parser.take_back()
    assert b"".join(record.raw for record in records) + rest == OOPS[:300]
    assert not parser.is_usual
