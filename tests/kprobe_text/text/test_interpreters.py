"""Each interpreter reads a text as the others do: `re` has matched some patterns in different ways (3.11.2)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kprobe_text.text import Call, CodeAddress, Event, Function, Marker, Record, StackTrace, Unnamed, layout, parse

ROOT = Path(__file__).parents[3]
DIGEST = ROOT / "tools" / "corpus" / "record_digest.py"

HEADS = {
    "standard": b"            bash-42      [001] .....    11.791146: ",
    "narrow": b"            bash-42    [001] ....    11.791146: ",
    "2.6.33 to 3.2": b"            bash-42    [001]    11.791146: ",
    "record-tgid": b"            bash-42      (     42) [001] .....    11.791146: ",
    "a clock that counts": b"            bash-42      [001] .....        11791146: ",
    "latency-format": b"    bash-42        1.....   100us : ",
    "verbose": b"            bash      42   1 0 00000000 00000001 [00945b2c] 250.257ms (+43.788ms): ",
    "loose": b"bash-42 [001] ..... 11.791146: ",
}


def shown(record: Record) -> object:
    """Return what a record says, but for its context and text."""
    if isinstance(record, Event):
        return record.name, record.address and record.address.text, record.caller and record.caller.text, record.fields
    if isinstance(record, Function):
        return record.function.text, record.parent.text
    if isinstance(record, StackTrace):
        return record.user, [frame.text for frame in record.frames]
    if isinstance(record, Marker):
        return record.text
    if isinstance(record, Unnamed):
        return record.event_id
    if isinstance(record, Call):
        return record.kind, record.function, record.depth, record.duration
    return None


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"vfs_read <-ksys_read", (Function, ("vfs_read", "ksys_read"))),
        (
            b"ext4_x+0x1/0x2 [ext4] <ffffffff813485a1> <-f [m] <ff>",
            (Function, ("ext4_x+0x1/0x2 [ext4] <ffffffff813485a1>", "f [m] <ff>")),
        ),
        (b"<stack trace>\n => do_sys_open\n => f [m]", (StackTrace, (False, ["do_sys_open", "f [m]"]))),
        (b"<user stack trace>\n =>  <00007f00>", (StackTrace, (True, ["<00007f00>"]))),
        (b"e: (f+0x0/0x1)", (Event, ("e", "f+0x0/0x1", None, {}))),
        (b"e: (f+0x0/0x1) a=1", (Event, ("e", "f+0x0/0x1", None, {"a": 1}))),
        (b"e: (g+0x5/0x9 <- f) a={1,0x2,3}", (Event, ("e", "f", "g+0x5/0x9", {"a": (1, 2, 3)}))),
        (
            b'e: (g <- [unknown/kretprobe\'d]) s="x" c=\'y\'',
            (Event, ("e", "[unknown/kretprobe'd]", "g", {"s": "x", "c": "y"})),
        ),
        (b"e: (f) s={\"a\",\"b\"} n={'x','\"'}", (Event, ("e", "f", None, {"s": ("a", "b"), "n": ("x", '"')}))),
        (b"e: state=2 cpu_id=6", (Event, ("e", None, None, {"state": 2, "cpu_id": 6}))),
        (b"e:  (not a place", (Event, ("e", None, None, {}))),
        (b"tracing_mark_write: (a) b", (Marker, "(a) b")),
        (b"tracing_mark_write <ffffffff813485a1>: hello", (Marker, "hello")),
        (b"Unknown type 922", (Unnamed, 922)),
    ],
)  # fmt: skip
def test_each_layout_and_each_kind_of_line(head: bytes, line: bytes, said: tuple[type, object]) -> None:
    """The first two of which 3.11.2 didn't read."""
    (record,) = parse(head + line + b"\n")
    assert (type(record), shown(record)) == said


def test_a_place_with_all_its_parts() -> None:
    (record,) = parse(HEADS["standard"] + b"e: (f+0x0/0x1 [ext4] <ffffffff813485a1>)\n")
    assert isinstance(record, Event)
    assert record.address == CodeAddress(
        "f", 0, 1, "ext4", 0xFFFFFFFF813485A1, "f+0x0/0x1 [ext4] <ffffffff813485a1>"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b" 0)   0.123 us    |  f();", (Call, ("leaf", "f", 0, 123))),
        (b" 1)               |    f [ext4]() {", (Call, ("entry", "f [ext4]", 1, None))),
        (b" 1) + 10.123 us   |    } /* f */", (Call, ("exit", "f", 1, 10123))),
        (
            b"            bash-42    [000]    10.000000: e:                    (ffffffff813485a0) a=1",
            (Event, ("e", "ffffffff813485a0", None, {"a": 1})),
        ),
        (
            b"bash 42/42 [000] 22275.020343: probe:e: (ffffffff813485a0) a=1",
            (Event, ("e", "ffffffff813485a0", None, {"a": 1})),
        ),
        (
            b"bash 42 [000] 22275.020343:   1 cycles:u:  ffffffff813485a0 f (/lib/x)",
            (Event, ("cycles:u", "f <ffffffff813485a0>", None, {"period": 1})),
        ),
    ],
)  # fmt: skip
def test_lines_of_function_graph_and_of_other_programs(line: bytes, said: tuple[type, object]) -> None:
    (record,) = parse(line + b"\n")
    assert (type(record), shown(record)) == said


def plainly(pattern: re.Pattern[bytes]) -> re.Pattern[bytes]:
    """Return a pattern whose quantifiers give back what they took."""
    return re.compile(re.sub(rb"([*+?}])\+(?!\])", rb"\1", pattern.pattern), pattern.flags)


LAYOUTS = (
    layout.STANDARD, layout.LATENCY, layout.VERBOSE, layout.GRAPH, layout.REPORT, layout.REPORT_LATENCY, layout.LOOSE,
)  # fmt: skip
PLAIN = {one: plainly(one) for one in LAYOUTS}
PARTS = st.sampled_from([
    b"vfs_read", b" <-", b"e", b":", b" ", b"(", b"f+0x0/0x1", b")", b" <ffffffff813485a1>", b" [m]", b"<stack trace>",
    b" a=1", b'"', b"{", b"}", b"\xff", b" 0)   0.1 us      |  ", b"/* ", b" */", b"11.791146: ",
])  # fmt: skip


@given(st.sampled_from([*HEADS.values(), b""]), st.lists(PARTS, max_size=9).map(b"".join))
@example(HEADS["standard"], b"vfs_read <-ksys_read")
@example(HEADS["standard"], b"<stack trace>")
def test_what_gives_nothing_back_matches_as_what_does(head: bytes, rest: bytes) -> None:
    """The quantifiers of the layouts don't give back, for speed alone; 3.11.2 found other groups."""
    line = head + rest + b"\n"
    for pattern, plain in PLAIN.items():
        found, expected = pattern.match(line), plain.match(line)
        assert (found and found.groups()) == (expected and expected.groups()), pattern.pattern


def others() -> dict[str, str]:
    """Find the other interpreters of this machine that the project supports: their paths by their versions."""
    home = Path.home() / ".pyenv" / "versions"
    candidates = ["/usr/bin/python3", *(f"python3.{minor}" for minor in range(11, 15))]
    candidates += [str(path) for path in sorted(home.glob("3.*/bin/python3"))]
    found: dict[str, str] = {}
    for python in candidates:
        asked = [python, "-I", "-c", "import lzma, sys; print(*sys.version_info[:3], sep='.')"]
        try:
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
        except OSError:
            continue
        version = done.stdout.strip()
        if done.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 11, 2):
            found.setdefault(version, python)
    found.pop(".".join(map(str, sys.version_info[:3])), None)
    return found


def digest(python: str) -> str:
    asked = [python, "-I", str(DIGEST), "documents", "--altered", "5"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_other_interpreters_make_the_same_records(lacks: Callable[..., None]) -> None:
    """Of the documents' traces, and of pieces of them that were altered; the tool itself takes all kernels."""
    found = others()
    if not found:
        lacks("another Python")
    own = digest(sys.executable)
    assert own.splitlines()[-1].split()[:3] == ["all", "24", "texts"]
    assert {version: digest(python) for version, python in found.items()} == dict.fromkeys(found, own)
