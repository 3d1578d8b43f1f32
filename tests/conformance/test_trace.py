"""The trace file and what stands around the records: heading, columns, options, clearing, switching off."""

from __future__ import annotations

import re
from collections.abc import Callable
from errno import EBADF, EINVAL
from typing import Any

import pytest

from .builds import AUTO, EPROBES, Build
from .text import FOUR_LETTERS_HEADER, HEADER, define, refused, show_only, switch, traced

OPEN = "p:a do_sys_openat2 f=+0(%si):string"


@pytest.fixture
def heading(choose: Any) -> Callable[[str], str]:
    """The lines above the records, by the counts in them."""
    lines = choose({"": FOUR_LETTERS_HEADER, EPROBES: HEADER})
    return lambda entries: lines.format(entries=entries, cpus=1)


def test_an_empty_trace(tracefs: Any, heading: Any) -> None:
    assert tracefs.read("trace").decode() == heading("0/0")


def test_the_whole_text(tracefs: Any, workload: Any, build: Build, choose: Any, heading: Any) -> None:
    entry, back = choose({"": ("....", "d..."), EPROBES: (".....", ".....")})
    returned = choose({"": "0x3", "<argname>": "3"})
    define(tracefs, OPEN, "r:b do_sys_openat2 $retval")
    show_only(tracefs, "workload", "kprobes/a", "kprobes/b")
    workload.open("/dev/null")
    text = tracefs.read("trace").decode()
    assert text.startswith(heading("2/2"))
    lines = text.removeprefix(heading("2/2"))
    time = r"\d+\.\d{6}"
    task = f"workload-{workload.pid:<7}".rjust(24)
    # the second letter is need-resched, which no test decides
    entry, back = (re.escape(flags[0]) + "[.NnpLBbl]" + re.escape(flags[2:] + " ") for flags in (entry, back))
    assert re.fullmatch(
        re.escape(f"{task} [000] ")
        + entry
        + f" *{time}"
        + re.escape(f': a: ({build.openat2}) f="/dev/null"\n{task} [000] ')
        + back
        + f" *{time}"
        + re.escape(f": b: ({build.openat} <- do_sys_openat2) arg1={returned}\n"),
        lines,
    ), lines


def test_columns(tracefs: Any, workload: Any, choose: Any) -> None:
    letters = choose({"": "....", EPROBES: "....."})
    end = 32 + len(letters)
    define(tracefs, OPEN)
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null")
    line = tracefs.read("trace").decode().splitlines()[-1]
    assert line[:17] == "        workload-"
    assert line[17:25] == f"{workload.pid:<7} "
    assert line[25:31] == "[000] "
    assert line[31] + line[33:end] == letters[0] + letters[2:] + " "  # need-resched is left out
    assert re.fullmatch(r" *\d+\.\d{6}: a: ", line[end : line.index("a: ") + 3])
    assert line[end : line.index(".", end)] == f"{int(line[end : line.index('.', end)]):5}"  # seconds


def test_times_grow(tracefs: Any, workload: Any) -> None:
    define(tracefs, OPEN)
    show_only(tracefs, "workload", "kprobes/a")
    for _ in range(3):
        workload.open("/dev/null")
    times = [float(time) for time in re.findall(r" (\d+\.\d{6}): a:", tracefs.read("trace").decode())]
    assert len(times) == 3
    assert times == sorted(times)
    assert len(set(times)) == 3


def test_a_probe_inside_a_function_has_other_flags(tracefs: Any, workload: Any, build: Build) -> None:
    """It is hit by a breakpoint: NMI context, and deep in preemption and migration counts if they are shown."""
    define(tracefs, f"p:a do_sys_openat2+{build.boundary}")
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null")
    (flags,) = re.findall(r"(?m)^ +workload-.* \[000\] ([^ ]+ )", tracefs.read("trace").decode())
    assert flags[:1] + flags[2:] == build.inside[:1] + build.inside[2:]  # need-resched is left out


def test_reading_does_not_consume(tracefs: Any, workload: Any) -> None:
    define(tracefs, OPEN)
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null")
    assert tracefs.read("trace") == tracefs.read("trace")
    assert tracefs.read("per_cpu/cpu0/trace").decode().splitlines()[-1].endswith(' f="/dev/null"')


@pytest.mark.parametrize("data", [b"", b"\n", b"0", b"anything"])
def test_truncating_clears(tracefs: Any, heading: Any, data: bytes) -> None:
    tracefs.write("trace_marker", b"x")
    tracefs.write("trace", data)
    assert traced(tracefs) == ["tracing_mark_write: x"]
    tracefs.write("trace", data, truncate=True)
    assert tracefs.read("trace").decode() == heading("0/0")


def test_tracing_off(tracefs: Any, workload: Any) -> None:
    define(tracefs, OPEN)
    show_only(tracefs, "workload", "kprobes/a")
    tracefs.write("tracing_on", b"0")
    assert tracefs.read("tracing_on") == b"0\n"
    workload.open("/etc/hostname")
    assert refused(tracefs, "trace_marker", b"x") == EBADF
    assert traced(tracefs) == []
    tracefs.write("tracing_on", b"1")
    workload.open("/dev/null")
    assert len(traced(tracefs)) == 1


@pytest.mark.parametrize(("written", "read"), [("0", "0"), ("1", "1"), ("5", "1"), ("0\n", "0"), ("+1\n", "1")])
def test_tracing_on(tracefs: Any, written: str, read: str) -> None:
    tracefs.write("tracing_on", written.encode())
    assert tracefs.read("tracing_on").decode() == read + "\n"


@pytest.mark.parametrize("written", ["", "x", "-1", " 1", "1 ", "0x1", "on"])
def test_tracing_on_refused(tracefs: Any, written: str) -> None:
    assert refused(tracefs, "tracing_on", written) == EINVAL
    assert tracefs.read("tracing_on") == b"1\n"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("hello", ["hello"]),
        ("hello\n", ["hello"]),
        ("two\nlines", ["two\nlines"]),
        (' a:\tb "q" \\ %s', [' a:\tb "q" \\ %s']),
        ("", [""]),
        ("\n", [""]),
    ],
)
def test_trace_marker(tracefs: Any, written: str, shown: list[str]) -> None:
    tracefs.write("trace_marker", written.encode())
    assert traced(tracefs) == [f"tracing_mark_write: {text}" for text in shown]


def test_a_long_marker_is_cut(tracefs: Any) -> None:
    with tracefs.open("trace_marker", 1) as marker:
        taken = marker.write(b"x" * 2000)
    assert traced(tracefs) == ["tracing_mark_write: " + "x" * taken]
    if "<argname>" not in tracefs.read("README").decode():
        assert taken == 1024


def test_trace_marker_is_for_writing(tracefs: Any) -> None:
    with tracefs.open("trace_marker", 2) as marker, pytest.raises(OSError) as refusal:
        marker.read(10)
    assert refusal.value.errno == EINVAL


# What each option changes of one open: the records after the option is set.
STACK = ["do_sys_openat2", "__x64_sys_openat", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"]


def stack(*places: str) -> str:
    return "<stack trace>" + "".join(f"\n => {place}" for place in places)


def one_open(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:a do_sys_openat2", "r:b do_sys_openat2")
    show_only(tracefs, "workload", "kprobes/a", "kprobes/b")
    workload.open("/dev/null")
    switch(tracefs, 0, "kprobes/a", "kprobes/b")


def test_stacktrace(tracefs: Any, workload: Any, build: Build, choose: Any) -> None:
    """Up to 5.14 a stack ends where a return probe has put its own address."""
    entry = choose({"": ["do_sys_openat2", "[unknown/kretprobe'd]"], EPROBES: STACK})
    back = choose({"": ["[unknown/kretprobe'd]"], EPROBES: STACK[1:]})
    tracefs.write("options/stacktrace", b"1")
    one_open(tracefs, workload)
    assert traced(tracefs) == [
        f"a: ({build.openat2})",
        stack(*entry),
        f"b: ({build.openat} <- do_sys_openat2)",
        stack(*back),
    ]
    assert b" 4/4 " in tracefs.read("trace")


def test_stacktrace_of_a_fork(tracefs: Any, workload: Any, build: Build) -> None:
    tracefs.write("options/stacktrace", b"1")
    define(tracefs, "p:a kernel_clone")
    show_only(tracefs, "workload", "kprobes/a")
    workload.fork()
    assert traced(tracefs) == [
        f"a: ({build.clone})",
        stack("kernel_clone", "__do_sys_fork", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"),
    ]


def test_stacktrace_with_offsets(tracefs: Any, workload: Any, build: Build, choose: Any) -> None:
    callers = choose({"": (build.trampoline,), EPROBES: (build.openat, *build.stack)})
    back = choose({"": (build.trampoline,), EPROBES: (build.openat, *build.stack)})
    tracefs.write("options/stacktrace", b"1")
    tracefs.write("options/sym-offset", b"1")
    one_open(tracefs, workload)
    inside = build.openat2.replace("+0x0/", "+0x1/")
    assert traced(tracefs) == [
        f"a: ({build.openat2})",
        stack(inside, *callers),
        f"b: ({build.openat} <- do_sys_openat2)",
        stack(*back),
    ]


def test_sym_addr(tracefs: Any, workload: Any, build: Build) -> None:
    one_open(tracefs, workload)
    tracefs.write("options/sym-addr", b"1")
    entry, back = traced(tracefs)
    address = r" <ffffffff[0-9a-f]{8}>"
    assert re.fullmatch(rf"a: \({re.escape(build.openat2)}{address}\)", entry)
    assert re.fullmatch(rf"b: \({re.escape(build.openat)}{address} <- do_sys_openat2{address}\)", back)


def test_sym_offset_changes_no_event(tracefs: Any, workload: Any, build: Build) -> None:
    one_open(tracefs, workload)
    tracefs.write("options/sym-offset", b"1")
    assert traced(tracefs) == [f"a: ({build.openat2})", f"b: ({build.openat} <- do_sys_openat2)"]


def test_irq_info(tracefs: Any, workload: Any, build: Build) -> None:
    one_open(tracefs, workload)
    tracefs.write("options/irq-info", b"0")
    lines = tracefs.read("trace").decode().splitlines()
    assert lines[:6] == [
        "# tracer: nop",
        "#",
        "# entries-in-buffer/entries-written: 2/2   #P:1",
        "#",
        "#           TASK-PID     CPU#     TIMESTAMP  FUNCTION",
        "#              | |         |         |         |",
    ]
    assert re.fullmatch(rf"        workload-{workload.pid:<7} \[000\] +\d+\.\d{{6}}: a: .*", lines[6])


@pytest.mark.own_guest  # saved_tgids can't be emptied
def test_record_tgid(tracefs: Any, workload: Any, choose: Any) -> None:
    tracefs.write("options/record-tgid", b"1")
    one_open(tracefs, workload)
    lines = tracefs.read("trace").decode().splitlines()
    first, *last, letters = choose(
        {
            "": (
                "#                                          _-----=> irqs-off",
                "#           TASK-PID       TGID    CPU#  ||||   TIMESTAMP  FUNCTION",
                "#              | |           |       |   ||||      |         |",
                "....",
            ),
            EPROBES: (
                "#                                          _-----=> irqs-off/BH-disabled",
                "#           TASK-PID       TGID    CPU#  |||||  TIMESTAMP  FUNCTION",
                "#              | |           |       |   |||||     |         |",
                ".....",
            ),
        }
    )
    assert lines[4] == first
    assert lines[-4:-2] == last
    flags = lines[-2].removeprefix(f"        workload-{workload.pid:<7} ({workload.pid:>7}) [000] ").split()[0]
    assert flags[:1] + flags[2:] == letters[1:]  # need-resched is left out


def test_context_info(tracefs: Any, workload: Any, build: Build) -> None:
    one_open(tracefs, workload)
    tracefs.write("options/context-info", b"0")
    assert tracefs.read("trace").decode() == (
        f"# tracer: nop\n#\na: ({build.openat2})\nb: ({build.openat} <- do_sys_openat2)\n"
    )


def test_raw(tracefs: Any, workload: Any) -> None:
    one_open(tracefs, workload)
    number = int(tracefs.read("events/kprobes/a/id"))
    tracefs.write("options/raw", b"1")
    line = tracefs.read("trace").decode().splitlines()[-2]
    assert re.fullmatch(rf"{workload.pid} 0 \d+ type: {number}", line)


def test_option_files(tracefs: Any) -> None:
    assert tracefs.read("options/stacktrace") == b"0\n"
    assert tracefs.read("options/irq-info") == b"1\n"
    tracefs.write("options/stacktrace", b"1")
    assert b"\nstacktrace\n" in tracefs.read("trace_options")
    tracefs.write("trace_options", b"nostacktrace")
    assert tracefs.read("options/stacktrace") == b"0\n"
    assert b"\nnostacktrace\n" in tracefs.read("trace_options")
    tracefs.write("trace_options", b"sym-offset\n")
    assert tracefs.read("options/sym-offset") == b"1\n"


@pytest.mark.parametrize("written", ["nosuch", "Stacktrace", "stack", "stacktrace x", ""])
def test_unknown_options(tracefs: Any, written: str) -> None:
    before = tracefs.read("trace_options")
    assert refused(tracefs, "trace_options", written) == EINVAL
    assert tracefs.read("trace_options") == before


@pytest.mark.parametrize("written", ["2", "x", "", "-1"])
def test_an_option_file_takes_0_and_1(tracefs: Any, written: str) -> None:
    assert refused(tracefs, "options/stacktrace", written) == EINVAL


def test_trace_options(tracefs: Any, choose: Any) -> None:
    """The list and its defaults; later kernels have more."""
    options = tracefs.read("trace_options").decode().split()
    known = [
        "print-parent", "nosym-offset", "nosym-addr", "noverbose", "noraw", "nohex", "nobin", "noblock",
        "trace_printk", "annotate", "nouserstacktrace", "nosym-userobj", "noprintk-msg-only", "context-info",
        "nolatency-format", "record-cmd", "norecord-tgid", "overwrite", "nodisable_on_free", "irq-info", "markers",
        "noevent-fork", "nopause-on-trace", "hash-ptr", "function-trace", "nofunction-fork", "nodisplay-graph",
        "nostacktrace", "notest_nop_accept", "notest_nop_refuse",
    ]  # fmt: skip
    if not choose({"": False, EPROBES: True}):
        known.remove("hash-ptr")  # since 5.12
    assert [option for option in options if option in known] == known
    assert choose({"": options == known, "<argname>": True})


def test_buffer_size(tracefs: Any) -> None:
    """At least two pages, in pages of 4080 bytes."""
    for written, shown in (("1", "7"), ("4", "7"), ("100", "103"), ("1408", "1410")):
        tracefs.write("buffer_size_kb", written.encode())
        assert tracefs.read("buffer_size_kb").decode() == shown + "\n"
    for written in ("0", "-1", "x", ""):
        assert refused(tracefs, "buffer_size_kb", written) == EINVAL
    assert tracefs.read("per_cpu/cpu0/buffer_size_kb") == b"1410\n"


def test_trace_clock(tracefs: Any, choose: Any) -> None:
    late = choose({"": [], AUTO: ["tai"]})  # since 5.18
    clocks = tracefs.read("trace_clock").decode().replace("[", "").replace("]", "").split()
    assert clocks == ["local", "global", "counter", "uptime", "perf", "mono", "mono_raw", "boot", *late, "x86-tsc"]
    tracefs.write("trace_marker", b"x")
    tracefs.write("trace_clock", b"mono\n")
    assert b"[mono]" in tracefs.read("trace_clock")
    assert traced(tracefs) == []
    assert refused(tracefs, "trace_clock", "nosuch") == EINVAL


def test_a_counting_clock(tracefs: Any) -> None:
    tracefs.write("trace_clock", b"counter")
    tracefs.write("trace_marker", b"x")
    line = tracefs.read("trace").decode().splitlines()[-1]
    assert re.search(r" ..... {1,12}\d+: tracing_mark_write: x$", line)


def test_current_tracer(tracefs: Any) -> None:
    assert tracefs.read("current_tracer") == b"nop\n"
    assert "nop" in tracefs.read("available_tracers").decode().split()
    tracefs.write("current_tracer", b"nop\n")
    assert refused(tracefs, "current_tracer", "nosuch") == EINVAL


def test_overwritten_counts(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    tracefs.write("buffer_size_kb", b"1")
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null", repeat=600)
    switch(tracefs, 0, "kprobes/a")
    text = tracefs.read("trace").decode()
    entries, written = text.split("\n")[2].split()[2].split("/")
    assert written == "600"
    assert 0 < int(entries) < 600
    assert len(traced(tracefs)) == int(entries)
    stats = dict(line.split(": ") for line in tracefs.read("per_cpu/cpu0/stats").decode().splitlines())
    assert stats["entries"] == entries
    assert int(stats["overrun"]) == 600 - int(entries)
    assert stats["dropped events"] == "0"


def test_nooverwrite_keeps_the_oldest(tracefs: Any, workload: Any) -> None:
    define(tracefs, OPEN)
    tracefs.write("buffer_size_kb", b"1")
    tracefs.write("options/overwrite", b"0")
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/etc/hostname")
    workload.open("/dev/null", repeat=600)
    switch(tracefs, 0, "kprobes/a")
    records = traced(tracefs)
    assert records[0].endswith('f="/etc/hostname"')
    assert len(records) < 600
