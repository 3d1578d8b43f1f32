"""trace.dat files of scenarios: what is true of them, and that our reader says it, in literal values."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe_corpus.parsers.answers import sizeless
from kprobe_corpus.parsers.comparison import compare
from kprobe_sim.scenarios import shipped
from kprobe_sim.scenarios.rendering import render
from kprobe_text.figures.shape import as_dict
from kprobe_text.pages.dat.file import TraceDat
from kprobe_text.text import Header

WITHOUT = ("clock_counter", "clock_tsc", "lost_in_pipe", "read_between")  # that have no file: no nanoseconds, no pages
SWITCH = {"prev_pid": 4805, "prev_prio": 120, "next_prio": 120}
ENTERED = {"__syscall_nr": 257, "dfd": 18446744073709551516, "filename": 268435456, "flags": 0, "mode": 0}
FAR = "an_exceedingly_long_function_name_that_goes_on_and_on_and_on__+0x1fff0"
KERNEL = ["do_syscall_64+0x5d", "entry_SYSCALL_64_after_hwframe+0x6e"]


def both(scenario: str, kernel: str) -> tuple[list[Any], list[Any]]:
    """Return what is true of a scenario's file, and what our reader says, as they are compared."""
    rendering = render(shipped.load(scenario), kernel, dat=True)
    found = TraceDat(rendering.dat)
    said = [as_dict(record) for record in found.records() if not isinstance(record, Header)]
    assert found.problems == []
    return sizeless(rendering.dat_truth), sizeless(said)


@pytest.mark.parametrize(
    ("scenario", "kernel", "key", "values"),
    [
        # 6.1 has no lazy need to reschedule: there the second bit says that interrupts aren't known of
        ("rt_columns", "6.1", "flags", ["....1", "...12", "D..11", "Xn.23", "Xp..1"]),
        ("rt_columns", "7.2", "flags", ["....1", "...12", "D..11", ".b.23", ".L..1"]),
        ("rt_columns", "5.10", "flags", ["...10", "...21", "d..11", "Xn.32", "Xp.10"]),
        ("comm_newline", "6.1", "task", ["a\nb", "a\nb", "\n", "\n", "x\r", "x\r"]),
        # pages have differences of times, so none is before the one before it on its CPU
        ("times_out_of_order", "7.2", "timestamp", [19_750_000_000, 20_000_000_000, 20_000_000_000]),
        (
            "sched_switch", "6.1", "fields",
            [
                {**SWITCH, "prev_comm": "cat", "prev_state": 1, "next_comm": "swapper/0", "next_pid": 0},
                {**SWITCH, "prev_comm": "a next_pid=7", "prev_state": 0, "next_comm": "b ==> c", "next_pid": 4806},
                {**SWITCH, "prev_comm": "x prev_pid=1", "prev_state": 2, "next_comm": "kworker/0:1H", "next_pid": 17},
            ],
        ),
        (
            "static_beside", "7.2", "fields",
            [
                {**ENTERED, "__filename_val": "/etc/hostname"},
                {"dfd": -100, "s": "/etc/hostname"},
                {"__syscall_nr": 257, "ret": 3},
                {**ENTERED, "__filename_val": "/nosuch"},
                {"dfd": -100, "s": "/nosuch"},
                {"__syscall_nr": 257, "ret": -2},
            ],
        ),
        ("workqueue", "6.1", "fields", [{"work": 18446612682131189208, "function": 18446744071578845184}]),
        # the trampoline of return probes, which text calls [unknown/kretprobe'd]
        ("nested_returns", "6.1", "caller", ["arch_rethook_trampoline", "__x64_sys_openat+0x6a"]),
        ("nested_returns", "7.2", "caller", ["arch_rethook_trampoline", "__x64_sys_openat+0x61"]),
        ("place_wide", "6.1", "address", [FAR]),
        ("stacks_of_users", "6.1", "frames", [["0x4013a9"], ["0x4013a9"]]),
        ("module_function", "6.1", "frames", [["made_up_open+0x1", *KERNEL], KERNEL]),
        ("lost_in_trace", "6.1", "count", [127, 127]),
    ],
)  # fmt: skip
def test_values(scenario: str, kernel: str, key: str, values: list[Any]) -> None:
    for records in both(scenario, kernel):
        assert [record[key] for record in records if key in record] == values


@pytest.mark.parametrize("kernel", ["6.1", "7.2"])
@pytest.mark.parametrize("scenario", [name for name in shipped.names() if name not in WITHOUT])
def test_all_that_is_true_is_read(scenario: str, kernel: str) -> None:
    truth, said = both(scenario, kernel)
    found = compare(truth, said)
    assert (found.readings, found.right) == ((), len(truth))
