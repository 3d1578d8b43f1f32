"""The error_log: its text, its ring, its limits."""

from __future__ import annotations

from kprobe_sim.language.primitives.errlog import ErrorLog


def test_an_entry_as_6_1_shows_it() -> None:
    log = ErrorLog(lambda: 27_094_289_999)
    log.log("trace_kprobe", "Group name is not specified", "p:/ev do_sys_openat2", 2)
    assert log.text() == (
        b"[   27.094289] trace_kprobe: error: Group name is not specified\n"
        b"  Command: p:/ev do_sys_openat2\n"
        b"             ^\n"
    )


def test_times_grow_beyond_their_column() -> None:
    log = ErrorLog(lambda: 1_234_567 * 10**9)
    log.log("hist:sched:sched_switch", "x", "y", 0)
    assert log.text().startswith(b"[1234567.000000] hist:sched:sched_switch: error: x\n")


def test_the_oldest_of_nine_is_dropped() -> None:
    times = iter(range(9))
    log = ErrorLog(lambda: next(times) * 10**9)
    for number in range(9):
        log.log("trace_kprobe", f"error {number}", "p", 0)
    lines = log.text().decode().splitlines()
    assert len(log) == 8
    assert lines[0] == "[    1.000000] trace_kprobe: error: error 1"
    assert lines[21] == "[    8.000000] trace_kprobe: error: error 8"


def test_clear_forgets() -> None:
    log = ErrorLog(lambda: 0)
    log.log("a", "b", "c", 0)
    log.clear()
    assert log.text() == b""


def test_5_10_cuts_a_long_command_and_its_newline() -> None:
    log = ErrorLog(lambda: 0, 256)
    log.log("trace_kprobe", "x", "p" * 300, 4)
    assert log.text() == b"[    0.000000] trace_kprobe: error: x\n  Command: " + b"p" * 243 + b" " * 15 + b"^\n"
    log.clear()
    log.log("trace_kprobe", "x", "p" * 242, 0)
    assert log.text().endswith(b"p\n           ^\n")


def test_the_column_has_sixteen_bits() -> None:
    log = ErrorLog(lambda: 0)
    log.log("a", "b", "c", 65536 + 3)
    assert log.text().splitlines()[2] == b" " * 14 + b"^"
