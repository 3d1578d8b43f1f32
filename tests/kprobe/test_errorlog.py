"""The kernel's words about a refusal. The texts were recorded on the kernels named."""

from __future__ import annotations

from kprobe.kernel.errorlog import explain, normal, parse_error_log, parse_filter_error

LOG_6_1 = b"""\
[   27.094289] trace_kprobe: error: Group name is not specified
  Command: p:/ev do_sys_openat2
             ^
[   27.429402] trace_kprobe: error: Invalid register name
  Command: p:bad do_sys_openat2 a=%zz
                                  ^
[    5.386217] event filter parse error: error: Illegal integer value
  Command: dfd == 10x
                   ^
"""


def test_records() -> None:
    first, second, third = parse_error_log(LOG_6_1)
    assert (first.time, first.source, first.text) == ("27.094289", "trace_kprobe", "Group name is not specified")
    assert (first.command, first.column) == ("p:/ev do_sys_openat2", 2)
    assert (second.text, second.command, second.column) == (
        "Invalid register name",
        "p:bad do_sys_openat2 a=%zz",
        23,
    )
    assert (third.source, third.text) == ("event filter parse error", "Illegal integer value")
    assert (third.command, third.column) == ("dfd == 10x", 8)


def test_what_is_no_record_is_skipped() -> None:
    assert parse_error_log(b"# error log disabled\n\n[oops\n  Command: x\n") == []


def test_a_command_of_two_lines() -> None:
    log = (
        b"[    1.000000] event filter parse error: error: Field not found\n  Command: a == 1 ||\nb == 2\n"
        + b" " * 23
        + b"^\n"
    )
    (entry,) = parse_error_log(log)
    assert (entry.command, entry.column) == ("a == 1 ||\nb == 2", 12)


def test_5_10_cuts_a_long_command_and_its_newline() -> None:
    command = "p:x vfs_read " + "a" * 300
    cut = command[:243]
    log = f"[    1.000000] trace_kprobe: error: Invalid fetch argument\n  Command: {cut}{' ' * (11 + 13)}^\n"
    (entry,) = parse_error_log(log.encode())
    assert (entry.command, entry.column) == (cut, 13)
    assert explain(b"", log.encode(), command) == entry


def test_only_a_new_record_of_this_very_command_counts() -> None:
    again = LOG_6_1 + LOG_6_1[66:][LOG_6_1[66:].index(b"[") :].replace(b"27.429402", b"28.429402")
    entry = explain(LOG_6_1, again, "p:bad  do_sys_openat2\ta=%zz # comment")
    assert entry is not None
    assert entry.time == "28.429402"
    assert explain(LOG_6_1, again, "p:bad do_sys_openat2 a=%z") is None
    assert explain(LOG_6_1, LOG_6_1, "p:bad do_sys_openat2 a=%zz") is None
    assert explain(b"", LOG_6_1, "dfd == 10x\n") is not None


def test_normal() -> None:
    assert normal("  p:x\t vfs_read  %di#comment") == "p:x vfs_read %di"


def test_a_refused_filter_says_why_in_its_own_file() -> None:
    assert parse_filter_error(b"dfd == 10x\n        ^\nparse_error: Illegal integer value\n\n") == (
        "Illegal integer value",
        8,
    )
    assert parse_filter_error(b"==1\nError: (0)\n\n") == ("", None)
    assert parse_filter_error(b"none\n") == ("", None)
