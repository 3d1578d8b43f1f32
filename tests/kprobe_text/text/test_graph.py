"""Text of tracer function_graph: calls, and events within it."""

from collections.abc import Callable

import pytest

from kprobe_text.text import Bare, Call, Comment, Header, Parser, Record, Switch, Unparsed, parse

Recorded = Callable[[str, str], bytes]

HEADER = b"""\
# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
"""
RULE = b" ------------------------------------------\n"


def body(data: bytes) -> list[Record]:
    return [record for record in parse(data) if not isinstance(record, Header)]


def test_events_and_calls_of_3_13(recorded: Recorded) -> None:
    entry, leaf, leave = body(recorded("3.13", "10_fgraph_.trace"))[:3]
    assert isinstance(entry, Bare)
    assert (entry.name, entry.cpu, entry.task, entry.timestamp) == ("ent", 0, None, None)
    assert entry.fields == {"dfd": -100, "s": "/tmp/o0", "flags": 8000}
    assert (entry.complete, entry.guessed) == (True, {"flags"})
    assert isinstance(leaf, Call)
    assert leaf[:5] == ("leaf", "do_sys_open", 0, 331867, "")
    assert isinstance(leave, Bare)
    assert leave.address is not None
    assert leave.caller is not None
    assert (leave.address.symbol, leave.caller.text) == ("do_sys_open", "system_call_fastpath+0x16/0x1b")


def test_time_and_task_of_6_12(recorded: Recorded) -> None:
    entry, event = body(recorded("6.12", "10_fgraph_funcgraph-abstime.trace"))[:2]
    assert isinstance(entry, Call)
    assert (entry.kind, entry.function, entry.duration) == ("entry", "do_sys_openat2", None)
    assert (entry.task, entry.pid, entry.cpu, entry.timestamp) == ("init", 1, 1, 104_317_465_000)
    assert isinstance(event, Bare)
    assert (event.task, event.pid, event.cpu, event.timestamp) == ("init", 1, 1, 104_317_572_000)
    assert event.fields == {"dfd": -100, "s": "trace_options", "flags": 0x13DB8}


@pytest.mark.parametrize(
    ("series", "flags"), [("3.13", ["d...", "....", "d..."]), ("6.12", ["...2.", "...1.", "....."])]
)
def test_flags_of_latency_format(recorded: Recorded, series: str, flags: list[str]) -> None:
    records = body(recorded(series, "10_fgraph_latency-format.trace"))
    assert [record.flags for record in records[:3] if isinstance(record, (Bare, Call))] == flags


def test_the_function_that_ends(recorded: Recorded) -> None:
    exits = [
        r for r in body(recorded("6.12", "10_fgraph_latency-format.trace")) if isinstance(r, Call) and r.kind == "exit"
    ]
    assert exits[0][1:5] == ("do_sys_openat2", 0, 1_425_277, "")


@pytest.mark.parametrize(
    ("text", "kind", "function", "depth", "duration", "note"),
    [
        (" 0)               |  f() {", "entry", "f", 0, None, ""),
        (" 1)   0.123 us    |    g [mod]();", "leaf", "g [mod]", 1, 123, ""),
        (" 1) @ 10001000 us |      }", "exit", "", 2, 10_001_000_000, ""),
        (" 1) + 12.5 us     |  } /* f ret=0xfffffffe */", "exit", "f", 0, 12_500, "ret=0xfffffffe"),
        (" 1) + 12.5 us     |  } /* ret=0xfffffffe */", "exit", "", 0, 12_500, "ret=0xfffffffe"),
        (" 0)   0.1 us      |  f(fd=1, s=0x2); /* = 0x3 */", "leaf", "f", 0, 100, "fd=1, s=0x2 /* = 0x3 */"),
    ],
)  # fmt: skip
def test_a_call(text: str, kind: str, function: str, depth: int, duration: int | None, note: str) -> None:
    (record,) = body(HEADER + text.encode() + b"\n")
    assert isinstance(record, Call)
    assert record[:5] == (kind, function, depth, duration, note)


def test_another_task_runs() -> None:
    line = b" 1)     init-1     =>  fg app-1000  \n"
    data = HEADER + b" 1) + 88.431 us   |  f();\n" + RULE + line + RULE + b"\n" + b" 1) + 88.431 us   |  f();\n"
    records = body(data)
    assert records[1] == Switch(1, "init", 1, "fg app", 1000, RULE + line + RULE + b"\n")
    assert [type(record) for record in records] == [Call, Switch, Call]
    for cut in range(len(data)):
        parser = Parser()
        assert [*parser.feed(data[:cut]), *parser.feed(data[cut:]), *parser.close()] == parse(data)
    assert [type(record) for record in body(HEADER + RULE + line)] == [Unparsed, Unparsed]


def test_a_marker_is_a_comment() -> None:
    (record,) = body(HEADER + b" 0)               |  /* hello world */\n")
    assert record == Comment(
        "hello world", None, None, 0, None, None, b" 0)               |  /* hello world */\n", forgeable=True
    )


def test_a_string_with_a_newline() -> None:
    text = b' 0)               |  /* e: (f+0x0/0x1) s="a\n 0)               |  g();\nb" n=0x1 */\n'
    event, other = body(HEADER + text + b" 0)   0.1 us      |  g();\n")
    assert isinstance(event, Bare)
    assert event.fields == {"s": "a\n 0)               |  g();\nb", "n": 1}
    assert isinstance(other, Call)


def test_a_comment_without_an_end() -> None:
    text = b" 0)               |  /* hello\n"
    assert body(HEADER + text) == [Unparsed(text)]
