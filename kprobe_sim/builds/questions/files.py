"""Questions about the files of the tracefs that don't belong to probes: marks, pids, sizes, readers."""

from __future__ import annotations

import errno

from kprobe_sim.builds.questions.question import Question, Unasked

_SIZES = (1024, 1025, 3072, 3073, 4060, 4061, 4064, 4065)  # of raw marks


def _taken(*taken: int) -> str:
    return " ".join(map(str, taken)) + " EINVAL" * (len(_SIZES) - len(taken))


QUESTIONS = (
    Question(
        "eventfs",
        ("write kprobe_events p:zz/enable vfs_read", "names events/zz"),
        r"(enable)(?s:.*)(enable)|enable",
        {",": False, "enable,enable": True},
    ),
    Question(
        "removed_filter_is_empty",
        ("write kprobe_events p:zz/q vfs_read", "hold r events/zz/q/filter", "write kprobe_events -:zz/q", "take 100"),
        "errno",
        {"ok": True, "ENODEV": False},
    ),
    Question(
        "stops_are_hidden",
        ("write @/trace_options pause-on-trace", "hold r @/trace", "read @/tracing_on"),
        r"(\d)",
        {"0": False, "1": True},
    ),
    Question(
        "held_size_errno",
        ("hold r @/trace", "write @/buffer_size_kb 1000"),
        "errno",
        {"ENOMEM": errno.ENOMEM, "EBUSY": errno.EBUSY},
    ),
    Question(
        "pid_errno",
        ("write @/set_event_pid 2000000000",),
        "errno",
        {"EINVAL": errno.EINVAL, "EPERM": errno.EPERM},
    ),
    Question("pid_blanks_taken", ("hold w @/set_event_pid", "put 1 2   "), "errno", {"4": False, "6": True}),
    Question(
        "end_wakes",
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
    Question("marks_seek", ("hold w @/trace_marker", "seek 5"), "errno", {"5": True, "ESPIPE": False}),
    Question(
        "trace_seq_size",
        (*["write @/trace_marker " + "x" * 900] * 10, "hold rn @/trace_pipe", "take 65536"),
        r"\A(?:[^\n]*\n){5}",
        {"none": 4096, "match": 8156},
    ),
    Question(
        "raw_mark_sizes",
        ("hold w @/trace_marker_raw", *("? put abcd" + "y" * (size - 4) for size in _SIZES)),
        "errno",
        {
            _taken(1024, 1024, 1024): (3072, 1024),
            _taken(1024, 1025, 3072, 3073, 4060): (4060, 4060),
            _taken(1024, 1025, 3072, 3073, 4060, 4061, 4064): (4064, 4064),
        },
    ),
    Question("index_is_whole", ("write @/set_ftrace_filter 12abc ",), "errno", {"ok": False, "EINVAL": True}),
    Question(
        "pid_limit",
        tuple(f"? write @/set_event_pid {pid}" for pid in (32767, 32768, 4194303, 4194304, 1073741823, 1073741824)),
        "errno",
        {
            "ok" + " EINVAL" * 5: 1 << 15,
            "ok ok ok" + " EINVAL" * 3: 1 << 22,
            "ok ok ok ok ok EPERM": 1 << 30,
        },
    ),
    Question("module_events", ("write @/set_event :mod:zz_none",), "errno", {"ok": True, "EINVAL": False}),
    Question("long_pids", ("write @/set_event_pid 4294967297",), "errno", {"EINVAL": True, "ok": False}),
    Question(
        "marker_size",
        ("hold w @/trace_marker", "put " + "x" * 4500),
        "errno",
        {"1024": 1024, "4054": 4054},
    ),
)

_OUTSIDE = (
    "it isn't about the tracefs, which is all that a question sees; tests/conformance/test_sysctls.py asks guests"
)
UNASKED = tuple(
    Unasked(row, _OUTSIDE)
    for row in ("ftrace_stops", "dump_on_oops_text", "perf_paranoid", "probe_pmus", "software_pmus_named")
)
