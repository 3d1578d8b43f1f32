"""The trigger stacktrace: it shows the tracer's own functions too, by the way into them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kprobe_sim.builds.profile import Profile

from .builds import BTF, EPROBES, FPROBES_APART, FPROBES_WHOLE, LAZY, MARKS_CALL_DEEPER, UNWOUND
from .text import LINE, define

TRIGGER = b'stacktrace if comm == "workload"'
FRAME = re.compile(r"^ => (.+)$", re.MULTILINE)
EVENT = ["kprobe_trace_func", "kprobe_dispatcher"]
FTRACE = {"": ["kprobe_ftrace_handler", "ftrace_ops_assist_func", "?"], EPROBES: ["kprobe_ftrace_handler", "?"]}
RETURN = {
    "": [
        *("kretprobe_trace_func", "kretprobe_dispatcher", "__kretprobe_trampoline_handler", "trampoline_handler"),
        "[unknown/kretprobe'd]",
    ],
    EPROBES: [
        *("kretprobe_trace_func", "kretprobe_dispatcher", "kretprobe_rethook_handler", "rethook_trampoline_handler"),
        *("arch_rethook_trampoline_callback", "arch_rethook_trampoline", "__x64_sys_openat", "do_syscall_64"),
        "entry_SYSCALL_64_after_hwframe",
    ],
}
FENTRY = {  # whether the option stacktrace shows them, and whether entries and returns are two users of a function
    (False, True): ["fentry_trace_func", "fentry_dispatcher", "fprobe_handler"],
    (True, False): [
        *("fentry_trace_func", "fentry_dispatcher", "fprobe_entry", "function_graph_enter_regs", "ftrace_graph_func")
    ],
    (True, True): ["fentry_trace_func", "fentry_dispatcher", "fprobe_ftrace_entry"],
}
FEXIT = {
    BTF: [
        *("fexit_trace_func", "fexit_dispatcher", "fprobe_exit_handler", "rethook_trampoline_handler"),
        *("arch_rethook_trampoline_callback", "arch_rethook_trampoline"),
    ],
    FPROBES_WHOLE: [
        *("fexit_trace_func", "fexit_dispatcher", "fprobe_return", "ftrace_return_to_handler", "return_to_handler")
    ],
}
OPEN = ["do_sys_openat2", "__x64_sys_openat", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"]


def stacks(tracefs: Any) -> list[list[str]]:
    """Return the frames of each stack in `trace`; ? for code without a symbol, which is in another place each boot."""
    text = tracefs.read("trace").decode()
    found = [FRAME.findall(part) for part in text.split("<stack trace>\n")[1:]]
    return [["?" if re.fullmatch("0x[0-9a-f]{16}", frame) else frame for frame in frames] for frames in found]


def stack_of(tracefs: Any, workload: Any, *lines: str) -> list[str]:
    """Return the frames that an open shows for the first of some probes."""
    define(tracefs, *lines)
    tracefs.write("events/kprobes/a/trigger", TRIGGER)
    workload.open("/dev/null")
    tracefs.write("events/kprobes/a/trigger", b"!" + TRIGGER)
    found = stacks(tracefs)
    assert len(found) == 1, tracefs.read("trace").decode()
    (frames,) = found
    return frames


def test_an_entry(tracefs: Any, workload: Any, choose: Any) -> None:
    assert stack_of(tracefs, workload, "p:a do_sys_openat2") == [*EVENT, *choose(FTRACE), *OPEN]


def test_two_probes_at_an_entry(tracefs: Any, workload: Any, choose: Any) -> None:
    """The kernel has a probe of its own there for both, though only one is enabled."""
    frames = stack_of(tracefs, workload, "p:a do_sys_openat2", "p:b do_sys_openat2")
    assert frames == [*EVENT, "aggr_pre_handler", *choose(FTRACE), *OPEN]


def test_a_breakpoint(tracefs: Any, workload: Any) -> None:
    own = ["aggr_pre_handler", "kprobe_int3_handler", "exc_int3", "asm_exc_int3"]
    assert stack_of(tracefs, workload, "p:a do_sys_openat2+5") == [*EVENT, *own, *OPEN]


def test_a_return(tracefs: Any, workload: Any, choose: Any) -> None:
    assert stack_of(tracefs, workload, "r:a do_sys_openat2") == choose(RETURN)


def fprobe_stacks(tracefs: Any, workload: Any, line: str, other: str) -> tuple[list[str], list[str]]:
    """Return the frames that an open shows for a probe `a`, by the trigger and by the option."""
    for definition in filter(None, (other, line)):
        tracefs.write("dynamic_events", definition.encode())
    if other:
        tracefs.write("events/kprobes/b/enable", b"1")
    tracefs.write("events/kprobes/a/trigger", TRIGGER)
    workload.open("/dev/null")
    tracefs.write("events/kprobes/a/trigger", b"!" + TRIGGER)
    (by_trigger,) = stacks(tracefs)
    tracefs.write("trace", b"", truncate=True)
    tracefs.write("events/kprobes/a/filter", b'comm == "workload"')
    tracefs.write("events/kprobes/a/enable", b"1")
    tracefs.write("options/stacktrace", b"1")
    workload.open("/dev/null")
    tracefs.write("options/stacktrace", b"0")
    return by_trigger, stacks(tracefs)[0]


@pytest.mark.parametrize("other", ["", "p:b do_sys_openat2", "f:kprobes/b do_sys_openat2%return"])
def test_an_fprobe_on_an_entry(tracefs: Any, workload: Any, choose: Any, other: str) -> None:
    """Alone it is called by a trampoline of its own, with others by the list, with kprobes with all registers."""
    if not choose({"": False, BTF: True}):
        return
    whole, apart = choose({"": False, FPROBES_WHOLE: True}), choose({"": False, FPROBES_APART: True})
    registers = bool(other) and (other[0] == "p" or not whole)
    listed = ["arch_ftrace_ops_list_func", "ftrace_regs_call" if registers else "ftrace_call"]
    frames = [*FENTRY[whole, apart], *(listed if other and (apart or registers) else "?"), *OPEN]
    found = fprobe_stacks(tracefs, workload, "f:kprobes/a do_sys_openat2", other)
    assert found == (frames, frames if whole and not registers else OPEN)


def test_an_fprobe_on_a_return(tracefs: Any, workload: Any, choose: Any) -> None:
    if not choose({"": False, BTF: True}):
        return
    unwound = choose({"": False, UNWOUND: True})
    callers = OPEN[1:]
    whole = [*choose(FEXIT), *(callers if unwound else ())]
    by_trigger, by_option = fprobe_stacks(tracefs, workload, "f:kprobes/a do_sys_openat2%return", "")
    assert by_trigger == whole
    assert by_option in (callers if unwound else callers[:1], *choose({"": [], FPROBES_WHOLE: [whole]}))  # by chance


def test_a_mark(tracefs: Any, recorded: Profile) -> None:
    tracefs.write("events/ftrace/print/trigger", b"stacktrace")
    tracefs.write("trace_marker", b"x")
    tracefs.write("events/ftrace/print/trigger", b"!stacktrace")
    inner = [place.partition("+")[0] for place in recorded.chains["marker"][:-5]]
    assert inner in ([], ["write_marker_to_buffer"])
    outer = ["tracing_mark_write", "vfs_write", "ksys_write", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"]
    assert stacks(tracefs) == [[*inner, *outer]]


@pytest.mark.parametrize("trigger", [b"stacktrace", b"stacktrace:1"])
def test_the_context_of_a_mark(tracefs: Any, choose: Any, trigger: bytes) -> None:
    """The stack's depth is one less than the mark's, with a borrow from the flags where that is 0."""
    tracefs.write("events/ftrace/print/trigger", trigger)
    tracefs.write("trace_marker", b"x")
    tracefs.write("events/ftrace/print/trigger", b"!" + trigger)
    lines = [line for line in tracefs.read("trace").splitlines() if not line.startswith((b"#", b" =>")) and line]
    flags = [match["flags"].decode() if (match := LINE.fullmatch(line)) else line for line in lines]
    seen = [re.sub("[NnpLlBb](?!Z)", ".", one).strip() for one in flags]  # without a need to reschedule
    assert seen == choose(
        {
            "": ["....", "...."],
            EPROBES: [".....", "DNZff"],
            LAZY: [".....", "DBZff"],
            MARKS_CALL_DEEPER: ["...1.", "....."],
        }
    )
