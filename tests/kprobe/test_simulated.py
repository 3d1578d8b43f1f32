"""The tracer and the command on a simulated 6.1 kernel, in process: what is traced, and that all is as before."""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from typing import Any

import pytest

from kprobe import (
    AlreadyExists,
    Busy,
    Event,
    FilterRefused,
    NoSuchProcess,
    NotABoundary,
    Refused,
    Trace,
    Tracer,
    UnknownSymbol,
)
from kprobe.cli import main
from kprobe.tracefs.tracefs import Tracefs
from kprobe.undo.owners import this_process
from kprobe_sim import SimulatedKernel, Task

OPEN = "p:myopen do_sys_openat2 filename=+0(%si):string"
FILES = (
    "kprobe_events",
    "dynamic_events",
    "set_event",
    "set_event_pid",
    "trace_options",
    "tracing_on",
    "current_tracer",
    "trace",
    "error_log",
    "events/enable",
)


@pytest.fixture
def kernel() -> SimulatedKernel:
    return SimulatedKernel("6.1")


def opens(kernel: SimulatedKernel, *names: str, task: Task | None = None) -> None:
    for name in names:
        kernel.call(
            "do_sys_openat2",
            task=task or Task(42, "cat"),
            args=(-100 & 0xFFFFFFFF, name, 0),
            returns=3,
            caller="__x64_sys_openat+0x6a",
        )


def state(kernel: SimulatedKernel) -> dict[str, object]:
    """Return what a trace could leave behind."""
    tracefs = kernel.tracefs
    found: dict[str, object] = {path: tracefs.read(path) for path in FILES if path != "error_log"}
    found["instances"] = tracefs.listdir("instances")
    found["groups"] = sorted(tracefs.listdir("events"))
    found["stacktrace"] = tracefs.read("options/stacktrace")
    return found


class Playing:
    """A simulated tracefs whose machine opens files when told to play, and then has a signal sent to us."""

    def __init__(self, kernel: SimulatedKernel, play: Callable[[], None], number: int = signal.SIGINT) -> None:
        self._tracefs = kernel.tracefs
        self._play = play
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def play(self) -> None:
        self._play()
        signal.raise_signal(self._number)


def test_the_events_alone_without_stacks_and_what_was_lost(kernel: SimulatedKernel) -> None:
    with Tracer(kernel.tracefs).trace(OPEN, stacktrace=True) as trace:
        opens(kernel, "/one", "/two", "/three")
        trace.stop()
        events = trace.events()
        assert next(events).fields == {"filename": "/one"}
        assert [event.fields["filename"] for event in events] == ["/two", "/three"]
        assert next(events, None) is None


def test_the_events_of_a_trace_that_has_not_begun_begin_it_and_end_it(kernel: SimulatedKernel) -> None:
    before = state(kernel)
    trace = Tracer(kernel.tracefs, sleep=lambda seconds: opens(kernel, "/one")).trace(OPEN, duration=0.05)
    for event in trace.events():
        assert event.fields["filename"] == "/one"
        assert state(kernel) != before
        break
    assert state(kernel) == before


def test_the_simulated_tracefs_fits(kernel: SimulatedKernel) -> None:
    tracefs: Tracefs = kernel.tracefs
    assert tracefs.read("kprobe_events") == b""


@pytest.mark.parametrize("top_level", [False, True])
def test_events(kernel: SimulatedKernel, top_level: bool) -> None:
    before = state(kernel)
    with Tracer(kernel.tracefs).trace(OPEN, filter='filename ~ "*host*"', top_level=top_level) as trace:
        opens(kernel, "/etc/hostname", "/etc/passwd", "/etc/hosts")
        trace.stop()
        events = list(trace)
    assert [(event.name, event.pid, event.fields) for event in events if isinstance(event, Event)] == [
        ("myopen", 42, {"filename": "/etc/hostname"}),
        ("myopen", 42, {"filename": "/etc/hosts"}),
    ]
    assert state(kernel) == before


@pytest.mark.parametrize("top_level", [False, True])
def test_a_process_is_all_its_threads(kernel: SimulatedKernel, top_level: bool) -> None:
    first, second, other = Task(42, "cat"), Task(43, "cat", 42), Task(50, "dog")
    for task in (first, second, other):
        opens(kernel, "/before", task=task)
    before = state(kernel)
    with Tracer(kernel.tracefs).trace(OPEN, pid=42, filter='filename != "/no"', top_level=top_level) as trace:
        for task in (first, other, second):
            opens(kernel, "/yes", "/no", task=task)
        trace.stop()
        assert [event.pid for event in trace if isinstance(event, Event)] == [42, 43]
    assert state(kernel) == before


def test_one_thread(kernel: SimulatedKernel) -> None:
    with Tracer(kernel.tracefs).trace(OPEN, tid=43) as trace:
        opens(kernel, "/a", task=Task(42, "cat"))
        opens(kernel, "/b", task=Task(43, "cat", 42))
        trace.stop()
        assert [event.pid for event in trace if isinstance(event, Event)] == [43]


def test_nobody_there(kernel: SimulatedKernel) -> None:
    before = state(kernel)
    with pytest.raises(NoSuchProcess), Tracer(kernel.tracefs).trace(OPEN, pid=99):
        pass
    assert state(kernel) == before


def test_other_peoples_settings_stay(kernel: SimulatedKernel) -> None:
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", b"p:theirs do_sys_openat2\n")
    tracefs.write("events/kprobes/theirs/filter", b"common_pid == 1\n")
    tracefs.write("events/kprobes/theirs/enable", b"1\n")
    tracefs.write("options/stacktrace", b"1\n")
    before = state(kernel)
    with Tracer(tracefs).trace(OPEN) as trace:
        opens(kernel, "/etc/hostname")
        trace.stop()
        assert b"<stack trace>" not in b"".join(trace.chunks())
    assert state(kernel) == before
    assert tracefs.read("events/kprobes/theirs/filter") == b"common_pid == 1\n"
    assert tracefs.read("events/kprobes/theirs/enable") == b"1\n"


def test_an_event_in_a_group_that_the_user_named_is_left_alone(kernel: SimulatedKernel) -> None:
    kernel.tracefs.write("kprobe_events", b"p:group/myopen vfs_read\n")
    before = state(kernel)
    with pytest.raises(AlreadyExists), Tracer(kernel.tracefs).trace("p:group/myopen do_sys_openat2"):
        pass
    assert state(kernel) == before


@pytest.mark.parametrize(
    ("definition", "kind", "number", "says", "column"),
    [
        ("p:x do_sys_opn", UnknownSymbol, errno.ENOENT, "Invalid probed address or symbol", 4),
        ("p:x vfs_read+1", NotABoundary, errno.EILSEQ, "Probe point is not an instruction boundary", 4),
        ("p:x vfs_read %rax", Refused, errno.EINVAL, "Invalid register name", 13),
        ("p:x vfs_read a=%di:string", Refused, errno.EINVAL, "String accepts only memory argument", 19),
        ("p:x vfs_read $retval", Refused, errno.EINVAL, "$retval is not available on probe", 13),
        ("r:x vfs_read+5 $retval", Refused, errno.EINVAL, "Retprobe address must be an function entry", 4),
        ("p:x vfs_read %di:u65", Refused, errno.EINVAL, "Unknown type is specified", 17),
        ("p:sched/sched_switch2 jiffies", Refused, errno.EINVAL, "Failed to register probe event", 22),
    ],
)
def test_refusals(
    kernel: SimulatedKernel, definition: str, kind: type[Refused], number: int, says: str, column: int
) -> None:
    before = state(kernel)
    with pytest.raises(Refused) as caught, Tracer(kernel.tracefs).trace(definition):
        pass
    error = caught.value
    assert (type(error), error.errno, error.says, error.column) == (kind, number, says, column)
    assert error.command == definition
    assert state(kernel) == before


def test_a_refused_type_shows_those_of_this_kernel(kernel: SimulatedKernel) -> None:
    with pytest.raises(Refused) as caught, Tracer(kernel.tracefs).trace("p:x vfs_read %di:u65"):
        pass
    assert caught.value.hint.startswith("this kernel's types: s8/16/32/64, u8/16/32/64, x8/16/32/64, string, symbol,")
    assert caught.value.hint.endswith("<type>\\[<array-size>\\]")


def test_a_refused_filter(kernel: SimulatedKernel) -> None:
    before = state(kernel)
    with pytest.raises(FilterRefused) as caught, Tracer(kernel.tracefs).trace(OPEN, filter="nosuch == 1"):
        pass
    assert (caught.value.errno, caught.value.says, caught.value.column) == (errno.EINVAL, "Field not found", 7)
    assert state(kernel) == before


def test_tracing_that_is_off_is_said(kernel: SimulatedKernel) -> None:
    kernel.tracefs.write("tracing_on", b"0\n")
    with Tracer(kernel.tracefs).trace(OPEN, top_level=True) as trace:
        assert trace.notices == ["tracing is off (tracing_on is 0 in the top level): nothing will be recorded"]


def test_another_reader_of_trace_pipe(kernel: SimulatedKernel) -> None:
    stream = kernel.tracefs.stream("trace_pipe")
    before = kernel.tracefs.read("kprobe_events")
    with pytest.raises(Busy), Tracer(kernel.tracefs).trace(OPEN, top_level=True):
        pass
    assert kernel.tracefs.read("kprobe_events") == before
    stream.close()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
@pytest.mark.parametrize("options", [[], ["-s"], ["-H"], ["-d", "60"], ["--top-level", "-s"]], ids=" ".join)
def test_the_command_leaves_nothing(
    kernel: SimulatedKernel, capfdbinary: Any, options: list[str], number: int, status: int
) -> None:
    opens(kernel, "/before")
    before = state(kernel)
    tracefs = Playing(kernel, lambda: opens(kernel, "/etc/hostname", "/etc/passwd"), number)
    assert main([*options, OPEN, 'filename ~ "*host*"'], tracefs=tracefs) == status
    out = capfdbinary.readouterr().out
    assert out.count(b'myopen: (do_sys_openat2+0x0/0x170) filename="/etc/hostname"\n') == 1
    assert b"/etc/passwd" not in out
    assert (b"<stack trace>" in out) == ("-s" in options)
    assert out.startswith(b"# tracer: nop\n#\n") == ("-H" in options)
    assert state(kernel) == before


def test_the_command_shows_the_format(kernel: SimulatedKernel, capfd: Any) -> None:
    before = state(kernel)
    assert main(["-v", OPEN], tracefs=kernel.tracefs) == 0
    out = capfd.readouterr().out
    assert out.startswith("name: myopen\nID: ")
    assert "\tfield:__data_loc char[] filename;\toffset:16;\tsize:4;\tsigned:1;\n" in out
    assert state(kernel) == before


def test_the_command_shows_a_refusal_with_its_caret(kernel: SimulatedKernel, capfd: Any) -> None:
    before = state(kernel)
    assert main(["p:myopen do_sys_openat2 filename=%si:string"], tracefs=kernel.tracefs) == 1
    assert capfd.readouterr().err == (
        "ERROR: kprobe_events refused 'p:myopen do_sys_openat2 filename=%si:string': Invalid argument (EINVAL)\n"
        "trace_kprobe: error: String accepts only memory argument\n"
        "  Command: p:myopen do_sys_openat2 filename=%si:string\n"
        "                                                ^\n"
        "hint: strings and arrays are read from memory: 'p:myopen do_sys_openat2 filename=+0(%si):string'\n"
    )
    assert state(kernel) == before


def test_the_command_tells_who_joined(kernel: SimulatedKernel, capfd: Any) -> None:
    tracefs = Playing(kernel, lambda: kernel.tracefs.write("kprobe_events", b"p:group/same vfs_read\n"))
    assert main(["p:group/same do_sys_openat2"], tracefs=tracefs) == 0
    said = "WARNING: hits of others' probes were recorded, too: p:group/same vfs_read joined group/same\n"
    assert capfd.readouterr().err.endswith(f"Ending tracing...\n0 events, 0 lost, 0 missed\n{said}")
    assert kernel.tracefs.read("kprobe_events") == b"p:group/same vfs_read\n"


def test_the_command_tells_what_is_left_and_how_to_remove_it(
    kernel: SimulatedKernel, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = kernel.tracefs.write

    def refusing(path: str, data: bytes, *, truncate: bool = False) -> None:
        if data.startswith(b"-:"):
            raise OSError(errno.EIO, "Input/output error", path)
        write(path, data, truncate=truncate)

    tracefs = Playing(kernel, lambda: monkeypatch.setattr(kernel.tracefs, "write", refusing))
    assert main(["p:mine do_sys_openat2"], tracefs=tracefs) == 4
    event = f"{this_process().session(0)}/mine"
    assert capfd.readouterr().err.endswith(
        "ERROR: left behind, because undoing it failed:\n"
        f"  remove {event} from kprobe_events: [Errno 5] Input/output error: 'kprobe_events'\n"
        f"    by hand: echo '-:{event}' >> kprobe_events\n"
    )
    assert kernel.tracefs.listdir("instances") == []


@pytest.mark.parametrize(
    ("definition", "hint"),
    [
        (
            "p:0xffffffff813485a3",
            "no instruction starts at 0xffffffff813485a3; a disassembly shows where they start; "
            "a function's name is safer",
        ),
        (
            "p:do_int3",
            "do_int3 can be traced, but not by a kprobe: "
            "it is on the kernel's blacklist of kprobes (kprobes/blacklist in debugfs)",
        ),
        (
            "r:x vfs_read ret=",
            "an argument is NAME=EXPRESSION; a shell replaces a $word in double quotes: use single",
        ),
        ("p:x vfs_read a=%di a=%si", "a2 for the name a: 'p:x vfs_read a=%di a2=%si'"),
    ],
)
def test_hints_of_the_first_hour(kernel: SimulatedKernel, definition: str, hint: str) -> None:
    with pytest.raises(Refused) as caught, Tracer(kernel.tracefs).trace(definition):
        pass
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("comm = 3", "numbers have == != < <= > >= &, strings have == != ~"),
        ("comm == cat*", 'strings have quotes, and patterns a ~: comm == "cat", comm ~ "cat*"'),
        ("nosuch == 3", ""),
    ],
)
def test_hints_for_filters(kernel: SimulatedKernel, text: str, hint: str) -> None:
    with pytest.raises(FilterRefused) as caught, Tracer(kernel.tracefs).trace("p:vfs_read", filter=text):
        pass
    fields = "the event's fields: __probe_ip common_type common_flags common_preempt_count common_pid"
    assert caught.value.hint == "; ".join(filter(None, (hint, fields)))


@pytest.mark.parametrize(
    ("definition", "hint"),
    [
        (
            "e:sched/sched_process_exec x=$nope",
            "the variables of an event probe are the fields of sched/sched_process_exec: $filename $pid $old_pid",
        ),
        (
            "p:sched/sched_switch vfs_read",
            "events/sched/sched_switch is another event, which kprobe_events doesn't list: choose another name",
        ),
        ("p:vfs_read $nope", "the variables are $stack, $stackN, $retval, $comm, and on newer kernels $argN"),
    ],
)
def test_hints_help_with_this_probe(definition: str, hint: str) -> None:
    with pytest.raises(Refused) as caught, Tracer(SimulatedKernel("6.12").tracefs).trace(definition):
        pass
    assert caught.value.hint == hint


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("read", [list, Trace.read, Trace.read_records, Trace.read_buffer, Trace.stacks])
def test_a_trace_that_has_ended_says_so(read: Callable[[Trace], object], raw: bool) -> None:
    """As where `for event in trace` stands behind the `with` block."""
    with Tracer(SimulatedKernel("6.12").tracefs).trace(OPEN, raw=raw) as trace:
        trace.stop()
    with pytest.raises(ValueError, match=r"^this trace has ended: read it before its `with` does$"):
        read(trace)


@pytest.mark.parametrize("latency", [False, True])
def test_what_can_not_be_a_definition(latency: bool) -> None:
    tracer = Tracer(SimulatedKernel("6.12").tracefs)
    wrong: Any = OPEN.encode()
    with pytest.raises(TypeError, match=r"^a definition is a str or a Probe, not bytes$"):
        tracer.trace(OPEN, wrong, latency=latency)
