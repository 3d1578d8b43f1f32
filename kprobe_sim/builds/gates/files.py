"""The files of the tracefs that don't belong to one probe, and a few outside it."""

from __future__ import annotations

import errno

from kprobe_sim.builds.gates.gate import gate, since, until
from kprobe_sim.builds.gates.question import TOO_OLD, TRACE, Question, Unasked

_SIZES = (1024, 1025, 3072, 3073, 4060, 4061, 4064, 4065)  # of raw marks
_OUTSIDE = Unasked(
    "it isn't about the tracefs, which is all that a question sees; tests/conformance/test_sysctls.py asks guests"
)


def _taken(*taken: int) -> str:
    return " ".join(map(str, taken)) + " EINVAL" * (len(_SIZES) - len(taken))


class FileGates:
    """The files of the tracefs that don't belong to one probe, and a few outside it."""

    # ---- marks ----

    # common_type of a raw mark (TRACE_RAW_DATA)
    raw_data_type: int = gate(
        16,
        {(5, 14, 0): 18, (6, 16, 0): 19},
        "recorded ids of ftrace/raw_data: 5.10, 6.1, 6.12, 7.2",
        Question(("read events/ftrace/raw_data/format",), r"^ID: (\d+)", {"16": 16, "18": 18, "19": 19}),
    )
    # a mark has room for "<faulted>", and a raw one counts its id twice
    mark_room: bool = until(
        (6, 17, 0),
        "conformance suite on 6.12 and 7.2: raw marks; trace.c of 6.12.117 and 7.2.13: FAULTED_SIZE",
        Question(
            ("write @/trace_marker_raw abcdefgh", *TRACE),
            r"# 64636261 buf: 65 66 67 (68 |68\n)",
            {"68 ": True, "68\n": False},
        ),
    )
    # trace_marker has a position
    marks_seek: bool = until(
        (5, 15, 0),
        "campaign on 5.10 and 6.1: lseek(trace_marker)",
        Question(("hold w @/trace_marker", "seek 5"), "errno", {"5": True, "ESPIPE": False}),
    )
    # bytes of the longest raw mark that isn't refused, and how many of them are stored
    raw_mark_sizes: tuple[int, int] = gate(
        (3072, 1024),
        {(6, 8, 0): (4060, 4060), (6, 17, 0): (4064, 4064)},
        "trace.c 6.1, 6.12.117 and 7.2: tracing_mark_raw_write(), ring_buffer_max_event_size(); campaign on 6.12",
        Question(
            ("hold w @/trace_marker_raw", *("? put abcd" + "y" * (size - 4) for size in _SIZES)),
            "errno",
            {
                _taken(1024, 1024, 1024): (3072, 1024),
                _taken(1024, 1025, 3072, 3073, 4060): (4060, 4060),
                _taken(1024, 1025, 3072, 3073, 4060, 4061, 4064): (4064, 4064),
            },
        ),
    )
    # bytes of a write to trace_marker that are taken
    marker_size: int = gate(
        1024,
        {(6, 8, 0): 4054},
        "docs/kernel/marks.md#size-of-a-mark",
        Question(("hold w @/trace_marker", "put " + "x" * 4500), "errno", {"1024": 1024, "4054": 4054}),
    )

    # ---- events and their files ----

    # events/ is a separate file system: an event may have the name of a file
    eventfs: bool = since(
        (6, 6, 0),
        "fs/tracefs/event_inode.c; conformance suite on 6.12: an event named like a file",
        Question(
            ("write kprobe_events p:zz/enable vfs_read", "names events/zz"),
            r"(enable)(?s:.*)(enable)|enable",
            {",": False, "enable,enable": True},
        ),
    )
    # an open filter file of a removed event reads as empty, else ENODEV
    removed_filter_is_empty: bool = gate(
        False,
        {(5, 10, 0): True, (6, 12, 0): False},
        "event_filter_read() of 6.1.190 and 6.12.117; a guest of 4.9.115",
        Question(
            (
                "write kprobe_events p:zz/q vfs_read",
                "hold r events/zz/q/filter",
                "write kprobe_events -:zz/q",
                "take 100",
            ),
            "errno",
            {"ok": True, "ENODEV": False},
        ),
    )
    # open enable and filter files of a removed event read as if nothing were set
    removed_files_read: bool = gate(
        False,
        {(5, 4, 273): True, (5, 10, 0): False},
        "a guest of 4.9.115, conformance suite on 5.4.273 and 5.10: enable and filter of an event that goes while open",
        TOO_OLD,
    )
    # set_event takes EVENTS:mod:MODULE, and keeps it for a module that isn't loaded
    module_events: bool = since(
        (6, 14, 0),
        "README since 6.14; guests of 6.12.117 and 6.16.12 to 7.3-rc7: ':mod:foo'",
        Question(("write @/set_event :mod:zz_none",), "errno", {"ok": True, "EINVAL": False}),
    )

    # ---- the buffer and its readers ----

    # tracing_on doesn't show a stop by pause-on-trace
    stops_are_hidden: bool = since(
        (6, 12, 0),
        "conformance suite on 6.1 and 6.12: open readers",
        Question(
            ("write @/trace_options pause-on-trace", "hold r @/trace", "read @/tracing_on"),
            r"(\d)",
            {"0": False, "1": True},
        ),
    )
    # refusal of a write to buffer_size_kb while trace is open
    held_size_errno: int = gate(
        errno.ENOMEM,
        {(6, 12, 0): errno.EBUSY},
        "conformance suite on 6.1 and 6.12: open readers",
        Question(
            ("hold r @/trace", "write @/buffer_size_kb 1000"), "errno", {"ENOMEM": errno.ENOMEM, "EBUSY": errno.EBUSY}
        ),
    )
    # a reader that waits at trace_pipe notices that tracing went off
    end_wakes: bool = gate(
        False,
        {(6, 1, 0): True, (6, 9, 0): False},
        "trace.c: wait_pipe_cond(), commit 7af9ded0c2ca; conformance suite on 5.10, 6.1 and 6.12",
        Question(
            (
                "write @/trace_marker first",
                "hold r @/trace_pipe",
                "take 4096",
                "wait 4096",
                "write @/tracing_on 0",
                "moment",
                "write @/tracing_on 1",
                "write @/trace_marker again",
                "waited",
            ),
            r": (again)$|\A\Z",
            {"match": True, "again": False},
        ),
    )
    # a second reader of trace_pipe is refused
    one_pipe: bool = since((5, 10, 0), "conformance suite on 5.4.273 and 5.10: 'trace_pipe: a second reader'", TOO_OLD)
    # a reader of trace_pipe holds its tracer in all instances, instead of its own instance
    held_elsewhere: bool = gate(
        False,
        {(3, 19, 0): True, (5, 4, 60): False},
        "commits cf6ab6d9143b and 7ef282e05132 (5.9; 5.4.60); a guest of 4.9.115: rmdir of an instance while another's "
        "trace_pipe is open; conformance suite on 5.4.273",
        TOO_OLD,
    )
    # a resized buffer reports the size that was written, not that of its pages
    sizes_as_asked: bool = until(
        (5, 10, 0),
        "a guest of 5.4.273: buffer_size_kb after writes of 1 and 96, and 1408 when expanded; 1410 on 5.10",
        TOO_OLD,
    )
    # each event that is read makes the bytes in stats fewer; else only whole pages do
    read_bytes_counted: bool = since(
        (5, 10, 0),
        "ring_buffer_read_page() and ring_buffer_bytes_cpu() of 4.14.67; guests of it and of 5.10.262",
        TOO_OLD,
    )
    # lines of per_cpu/cpuN/stats
    stats_lines: int = gate(
        3,
        {(3, 2, 0): 6, (3, 13, 0): 8},
        "recorded traces 3.2 and 3.13: 04_clock_*.cpu0.stats; tracing_stats_read() of 3.0",
        TOO_OLD,
    )
    # the times in stats are those of the clock; else always seconds
    stats_by_clock: bool = since((3, 13, 0), "recorded traces 3.2 and 3.13: 04_clock_counter.cpu0.stats", TOO_OLD)
    # the clock uptime gives jiffies as nanoseconds; else as clock ticks, 100 a second
    uptime_in_ns: bool = until(
        (3, 16, 0), "commit 58d4e21e50ff of July 2014; recorded traces 3.13 and 4.4: 04_clock_uptime", TOO_OLD
    )
    # 1 to snapshot allocates its buffer; else it does nothing until a trigger has allocated one
    snapshot_allocates: bool = gate(
        True,
        {(4, 9, 229): False, (4, 10, 0): True},
        "a guest of 4.9.229, whose tracing_snapshot_write() lost it by backport: 1 to `snapshot`",
        TOO_OLD,
    )

    # ---- pids, masks and functions ----

    # refusal of a pid that is too large for set_event_pid
    pid_errno: int = gate(
        errno.EINVAL,
        {(5, 16, 0): errno.EPERM},
        "campaign 5.10, 6.1: trace_pid_write()",
        Question(("write @/set_event_pid 2000000000",), "errno", {"EINVAL": errno.EINVAL, "EPERM": errno.EPERM}),
    )
    # set_event_pid counts blanks after the last pid as written
    pid_blanks_taken: bool = since(
        (5, 15, 0),
        "campaign on 5.10 and 6.1: trace_pid_write()",
        Question(("hold w @/set_event_pid", "put 1 2   "), "errno", {"4": False, "6": True}),
    )
    # set_event_pid takes pids below this
    pid_limit: int = gate(
        1 << 15,
        {(5, 16, 0): 1 << 30},
        "conformance suite on 5.10 (pid_max of a small machine) and 6.1; trace_pid_list since 5.16",
        Question(
            tuple(f"? write @/set_event_pid {pid}" for pid in (32767, 32768, 4194303, 4194304, 1073741823, 1073741824)),
            "errno",
            {"ok" + " EINVAL" * 5: 1 << 15, "ok ok ok" + " EINVAL" * 3: 1 << 22, "ok ok ok ok ok EPERM": 1 << 30},
        ),
    )
    # all 64 bits of a pid count, and the refusal is EINVAL; else the lower 32, and EPERM
    long_pids: bool = until(
        (5, 16, 0),
        "conformance suite on 5.10 and 6.1: 1 << 32",
        Question(("write @/set_event_pid 4294967297",), "errno", {"EINVAL": True, "ok": False}),
    )
    # events that are added after set_event_pid was written fire for all threads
    late_events_pass: bool = until(
        (5, 15, 6),
        "commit 6cb206508b62 (5.16; 5.15.6); a guest of 4.9.115: a probe that is added after set_event_pid was written",
        TOO_OLD,
        backports=((5, 4, 163), (5, 10, 83)),
    )
    # a function's index is a number to its end; else what follows the digits is ignored
    index_is_whole: bool = since(
        (6, 12, 0),
        "conformance suite on 5.10, 6.1 and 6.12: '12abc' to set_ftrace_filter",
        Question(("write @/set_ftrace_filter 12abc ",), "errno", {"ok": False, "EINVAL": True}),
    )
    # tracing_cpumask has room for each CPU and one byte more: its line is followed by zeros
    mask_padded: bool = until(
        (4, 14, 67),
        "recorded: tracing_cpumask of 3.2, 3.13 and 4.4, of two CPUs, has three bytes, that of 4.19 two; "
        "commit 90e406f96f63 of 4.15, which 4.9 and 4.14 took over",
        TOO_OLD,
        backports=((4, 9, 229),),
    )
    # tracing_cpumask takes empty words, and blanks anywhere between words
    empty_masks: bool = since(
        (5, 10, 0), "__bitmap_parse() of 5.4.273; conformance suite: a newline to tracing_cpumask", TOO_OLD
    )

    # ---- outside the tracefs ----

    # /proc/sys/kernel/ftrace_enabled takes 0, else EOPNOTSUPP
    ftrace_stops: bool = until(
        (7, 3, 0),
        "commit b0c857049153; guests of 5.10.262 to 7.2.13 and of 7.3-rc7: echo 0 > /proc/sys/kernel/ftrace_enabled",
        _OUTSIDE,
    )
    # /proc/sys/kernel/ftrace_dump_on_oops takes any text: names of instances
    dump_on_oops_text: bool = since(
        (6, 9, 0), "commit 19f0423fd55c; guests of 6.1.190 and 6.12.117: echo foo > it", _OUTSIDE
    )
    # /proc/sys/kernel/perf_event_paranoid at boot, unless the distribution sets another
    perf_paranoid: int = gate(1, {(4, 6, 0): 2}, "commit 0161028b7c8a", _OUTSIDE)
    # /sys/bus/event_source/devices has kprobe and uprobe
    probe_pmus: bool = since(
        (4, 17, 0), "commits e12f03d7031a and 33ea4b24277b; guests of 5.10.262 to 7.3-rc7", _OUTSIDE
    )
    # the software clocks are PMUs too, so that later ones have a number higher by two
    software_pmus_named: bool = since(
        (6, 12, 0), "guests of 6.1.190 (kprobe has type 6) and 6.12.117 to 7.3-rc7 (8)", _OUTSIDE
    )
