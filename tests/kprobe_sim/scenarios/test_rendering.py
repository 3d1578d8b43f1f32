"""Scenarios rendered: the text of each kernel, and what is true of it."""

import json
import re
from importlib.metadata import entry_points
from typing import Any

import pytest

from kprobe_sim.scenarios.rendering import render

OPENS = {
    "definitions": ["p:ent do_sys_openat2 dfd=%di:s32 s=+0(%si):string", "r:ret do_sys_openat2 r=$retval:s32"],
    "call": [{"open": "/etc/hostname", "returns": 3, "task": "my app-42"}],
}


def lines(text: bytes) -> list[bytes]:
    return [line for line in text.splitlines() if not line.startswith(b"#")]


def one(call: dict[str, Any], *options: str, kernel: str = "6.1", **more: Any) -> tuple[list[bytes], list[Any]]:
    rendering = render({"definitions": OPENS["definitions"][:1], "call": [call], **more}, kernel, options)
    return lines(rendering.text), rendering.truth


def test_an_open_as_6_1_shows_it() -> None:
    rendering = render(OPENS, "6.1")
    assert lines(rendering.text) == [
        b"          my app-42      [000] .....    10.000102: "
        b'ent: (do_sys_openat2+0x0/0x170) dfd=-100 s="/etc/hostname"',
        b"          my app-42      [000] .....    10.000103: ret: (__x64_sys_openat+0x6a/0xa0 <- do_sys_openat2) r=3",
    ]
    context = {"task": "my app", "pid": 42, "cpu": 0, "flags": ".....", "clock": "time"}
    assert rendering.truth == [
        {
            "type": "event",
            "name": "ent",
            **context,
            "timestamp": 10_000_102_000,
            "address": "do_sys_openat2+0x0/0x170",
            "fields": {"dfd": -100, "s": "/etc/hostname"},
        },
        {
            "type": "event",
            "name": "ret",
            **context,
            "timestamp": 10_000_103_000,
            "address": "do_sys_openat2",
            "caller": "__x64_sys_openat+0x6a/0xa0",
            "fields": {"r": 3},
        },
    ]
    assert rendering.definitions[0] == "p:kprobes/ent do_sys_openat2 dfd=%di:s32 s=+0(%si):string"
    assert rendering.formats["events/kprobes/ent/format"].startswith("name: ent\nID: ")


def test_what_an_option_hides_isnt_in_the_truth() -> None:
    call = {"open": "x", "task": "a-long-name-7/5", "cpu": 1}
    _, (event,) = one(call, "noirq-info", "record-tgid")
    assert "flags" not in event
    assert event["tgid"] == 5
    _, (event,) = one(call, "nocontext-info")
    assert set(event) == {"type", "name", "address", "fields"}
    _, (event,) = one(call, "latency-format")
    assert (event["task"], event["clock"]) == ("a-long-n", "elapsed")


def test_arguments_are_as_the_definition_takes_them() -> None:
    definition = "p:f ksys_fadvise64_64 a=%di:s32 b=%cx:x8 c=+0(%si):u8[3] d=+0(%si):string e=+0(%dx):string f=$comm"
    call = {"fadvise": [-2, "text", 1, 0x1FF], "task": "w-9"}
    rendering = render({"definitions": [definition], "call": [call]}, "6.12")
    assert rendering.truth[0]["fields"] == {"a": -2, "b": 255, "c": [116, 101, 120], "d": "text", "e": None, "f": "w"}
    assert lines(rendering.text)[0].endswith(b' a=-2 b=0xff c={116,101,120} d="text" e=(fault) f="w"')


def test_a_character_is_the_byte_that_is_printed() -> None:
    definition = "p:f ksys_fadvise64_64 a=+0(%si):char b=+0(%si):char[2]"
    rendering = render({"definitions": [definition], "call": [{"fadvise": [0, "é", 0, 0], "task": "w-9"}]}, "6.12")
    assert lines(rendering.text)[0].endswith(b" a='\xc3' b={'\xc3','\xa9'}")
    assert rendering.truth[0]["fields"] == {"a": "\udcc3", "b": ["\udcc3", "\udca9"]}


@pytest.mark.parametrize(
    ("mark", "option", "is_doubted"),
    [
        ("a\nsys_open(", "nocontext-info", True), ("a\nsys_open(", "noirq-info", False),
        ("a\ntracing_mark_write: b", "nocontext-info", True), ("a\nb", "nocontext-info", False),
    ],
)  # fmt: skip
def test_without_context_a_mark_may_be_two_records_where_it_holds_a_name(
    mark: str, option: str, is_doubted: bool
) -> None:
    (truth,) = render({"definitions": ["p:f do_sys_openat2"], "call": [{"marker": mark}]}, "6.12", [option]).truth
    assert ("ambiguous" in truth) is is_doubted


def test_losses_stand_where_trace_pipe_says_them() -> None:
    scenario = {
        "definitions": ["p:f ksys_fadvise64_64 n=%dx:u64"],
        "buffer_kb": 8,
        "reader": "trace_pipe",
        "call": [{"fadvise": [-2, 0, 7], "times": 1000}],
    }
    rendering = render(scenario, "6.1")
    first, second = rendering.text.splitlines()[:2]
    lost = int(re.fullmatch(rb"CPU:0 \[LOST (\d+) EVENTS\]", first)[1])  # type: ignore[index]
    assert second.endswith(b" n=7")
    assert rendering.truth[0] == {"type": "lost", "cpu": 0, "count": lost}
    assert len(rendering.truth) == 1 + 1000 - lost


def test_marks_and_what_is_read_between() -> None:
    calls = [{"marker": "one\n"}, {"read": True}, {"marker": {"hex": "ff0a41"}}]
    rendering = render({"call": calls}, "6.1")
    assert [record["text"] for record in rendering.truth] == ["one", "\udcff\nA"]
    assert rendering.text.endswith(b"tracing_mark_write: \xff\nA\n")
    assert json.loads(json.dumps(rendering.truth)) == rendering.truth


def test_flags_and_forgotten_tasks_are_as_the_call_says() -> None:
    shown, (event,) = one({"open": "x", "task": "a-7", "known": False, "flags": 0x11, "preempt_count": 2})
    assert shown[0].startswith(b"           <...>-7       [000] d.s2. ")
    assert (event["task"], event["flags"]) == ("<...>", "d.s2.")


def test_an_instance_shows_its_own() -> None:
    shown, _ = one({"open": "x"}, instance="mine")
    assert len(shown) == 1


def test_the_same_scenario_gives_the_same_text() -> None:
    assert render(OPENS, "7.3", ["stacktrace"]) == render(OPENS, "7.3", ["stacktrace"])


def test_a_clock_that_counts() -> None:
    rendering = render(OPENS, "6.1", clock="counter")
    # the buffer and its spare were reset with the clock, and the buffer once more
    assert [(record["timestamp"], record["clock"]) for record in rendering.truth] == [(4, "count"), (5, "count")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"call": []}, "no calls"),
        ({"calls": []}, "unknown key 'calls'"),
        ({"call": [{"opens": "x"}]}, r"call 1: it has to be one of open, .*"),
        ({"call": [{"open": "x", "returned": 1}]}, "call 1: unknown key 'returned' of open"),
        ({"call": [{"open": "x", "task": "nobody"}]}, "call 1: task 'nobody' isn't COMM-PID"),
        ({"call": [{"open": "x", "task": "a-4194304"}]}, "call 1: pid 4194304: pids go from 0 to 4194303"),
        ({"definitions": "p:x y"}, "definitions isn't a list of texts: 'p:x y'"),
        ({"definitions": ["p:x nowhere"]}, "kprobe_events refuses 'p:x nowhere': ENOENT .*"),
        ({"clock": "sundial"}, "6.1.0-54-cloud-amd64 has no clock 'sundial'"),
        ({"options": ["fields"]}, "6.1.0-54-cloud-amd64 has no option 'fields'"),
        ({"cpus": 1, "call": [{"open": "x", "cpu": 1}]}, "a call is made on CPU 1, and there are 1"),
        ({"reader": "cat"}, "reader 'cat' is neither trace nor trace_pipe"),
    ],
)
def test_what_isnt_a_scenario_is_refused_with_a_reason(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        render({**OPENS, **change}, "6.1")


def test_a_kernel_without_error_log_refuses_with_its_errno() -> None:
    with pytest.raises(ValueError, match=r"kprobe_events refuses 'p:ent do_sys_openat2 .*': ENOENT No such file"):
        render(OPENS, "4.19")


def test_the_entry_point_is_this() -> None:
    (point,) = entry_points(group="kprobe.scenarios", name="sim")
    assert point.load() is render
