"""Odd comms and paths, held to what the program that did it wrote down."""

import json
from collections.abc import Callable

import pytest

from kprobe_text.text import Event, parse

SERIES = ["3.13", "3.13fp", "3.2", "4.19", "4.4", "5.10", "6.1", "6.12", "7.2"]

EMPTY = {"3.2": 3, "3.13": 3, "3.13fp": 3, "4.4": 1, "4.19": 1, "5.10": 0, "6.1": 0, "6.12": 0, "7.2": 1}

OPENS = """name: ent
ID: 1
format:

print fmt: "(%lx) dfd=%{d} s=\\"%s\\" flags={x}", REC->__probe_ip, REC->dfd, __get_str(s), REC->flags
"""
RETURNS = """name: ret
ID: 2
format:

print fmt: "(%lx <- %lx) ret=%{d} raw={x}", REC->__probe_func, REC->__probe_ret_ip, REC->ret, REC->raw
"""


def latin(text: str) -> str:
    """Give the bytes that the account has as latin-1 the way a record has them."""
    return text.encode("latin-1").decode("utf-8", "surrogateescape")


def styles(series: str) -> dict[str, str]:
    """Format files of the two probes, as the series printed their numbers."""
    d = "ld" if series in ("3.2", "3.13", "3.13fp") else "d"
    x = "%lx" if series in ("3.2", "3.13", "3.13fp") else "0x%Lx"
    returned = "%Ld" if series in ("6.12", "7.2") else x
    return {"ent": OPENS.format(d=d, x=x), "ret": RETURNS.format(d=d, x=returned)}


@pytest.mark.parametrize("with_formats", [False, True])
@pytest.mark.parametrize("series", SERIES)
def test_comms_paths_and_returns(recorded: Callable[[str, str], bytes], series: str, with_formats: bool) -> None:
    account = [json.loads(line) for line in recorded(series, "02_comms.activity.jsonl").splitlines()]
    records = parse(recorded(series, "02_comms.trace"), styles(series) if with_formats else None)
    events = [record for record in records if isinstance(record, Event)]
    old = series in ("3.2", "3.13", "3.13fp")
    checked = empty = 0
    for pid in {entry["pid"] for entry in account}:
        calls = [entry for entry in account if entry["pid"] == pid and entry["call"].startswith("open")]
        opened = [event for event in events if event.pid == pid and event.name == "ent"]
        returned = [event for event in events if event.pid == pid and event.name == "ret"]
        for call, entry, leave in zip(calls, opened, returned, strict=False):
            assert entry.task == latin(call["comm"])[:15].lstrip(" ")
            assert leave.task == entry.task
            assert leave.fields["ret"] == (-call["errno"] if call["errno"] else call["ret"])
            # before 4.4 a path that isn't paged in prints as "", like an empty one
            empty += entry.fields["s"] == ""
            if call["path"] and not (old and entry.fields["s"] == ""):
                assert entry.fields["s"] == latin(call["path"])
            assert entry.cpu == call["cpu"]
            checked += 1
    assert (checked, empty) == (68, EMPTY[series])


def test_all_the_comms(recorded: Callable[[str, str], bytes]) -> None:
    seen = dict.fromkeys(r.task for r in parse(recorded("6.1", "02_comms.trace")) if isinstance(r, Event))
    assert list(seen)[2:-1] == [
        "plain", "my app", "a-b-1", "x:y", "(z)", "a=b", "<...>", "[kw/0:1]", "-", "12345", "lead", "trail ",
        "fifteen-chars-x", "a-1 [000]", "a: b: (c+0x1/0x", "q\"uote'", "tab\there", "umläut", "\udcff\udcfe",
        "back\\slash", "=>", "# tracer: nop", "CPU:1 [LOST", "", "%s%n%p", "a,b;c", "<idle>",
    ]  # fmt: skip


@pytest.mark.parametrize("series", [series for series in SERIES if series != "3.2"])
def test_a_comm_with_a_newline(recorded: Callable[[str, str], bytes], series: str) -> None:
    events = [r for r in parse(recorded(series, "17_comm_newline.trace")) if isinstance(r, Event)]
    assert [event.task for event in events if event.task != "init"] == ["new\nline"] * 4 + ["cr\rx"] * 2 + [
        "\x01\x02"
    ] * 2
    assert [event.fields["s"] for event in events if event.name == "ent"] == [
        "tracing_on", "/tmp/o0", "/tmp/o1", "/tmp/o0", "/tmp/o0", "tracing_on",
    ]  # fmt: skip
