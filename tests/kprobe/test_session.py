"""The life of a trace: what is written, in which order, and what is left on every way out."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from kprobe.errors import (
    AlreadyExists,
    Busy,
    FilterRefused,
    KprobeError,
    NoSuchProcess,
    NotPermitted,
    Refused,
    UndoFailed,
    UnknownSymbol,
    Unsupported,
)
from kprobe.tracing.session import Trace
from kprobe.tracing.trace_file import split_header
from kprobe.tracing.tracer import Tracer
from kprobe.undo.owners import Owner

LINE = b"             cat-2841    [000] .....  2148.505110: myopen: (do_sys_openat2+0x0/0x170)\n"
MINE = "kprobe_77_5000_0"  # the session: process 77 that started 5,000 ticks after the boot
ME = f"instances/{MINE}"
OWN = f"events/{MINE}/myopen"
EVENT = f"{ME}/{OWN}"


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trace(scripted: Any, clock: Clock, fs: Any) -> Callable[..., Trace]:
    """Make a trace of myopen on the scripted tracefs; the machine's process 42 has the threads 42 and 43."""
    for tid in (42, 43):
        fs.create_dir(f"/proc/42/task/{tid}")
        fs.makedirs(f"/proc/{tid}", exist_ok=True)
    fs.create_file("/proc/77/stat", contents="77 (kprobe) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 0 0\n")
    tracer = Tracer(scripted, owner=Owner(77, 5000), clock=clock, sleep=clock.sleep)

    def make(definition: str = "p:myopen do_sys_openat2", **options: Any) -> Trace:
        return tracer.trace(definition, **options)

    return make


def state(scripted: Any) -> tuple[dict[str, bytes], set[str]]:
    return dict(scripted.files), set(scripted.directories)


def test_a_plain_trace(scripted: Any, trace: Callable[..., Trace]) -> None:
    before = state(scripted)
    scripted.data.extend([LINE, None, LINE, b""])
    with trace() as running:
        assert list(running.lines()) == [LINE, LINE]
    assert scripted.log == [
        f"mkdir {ME}",
        f"write kprobe_events p:{MINE}/myopen do_sys_openat2",
        f"stream {ME}/trace_pipe",
        f"write {EVENT}/enable 1",
        f"write {EVENT}/enable 0",
        f"close {ME}/trace_pipe",
        f"write kprobe_events -:{MINE}/myopen",
        f"rmdir {ME}",
    ]
    assert state(scripted) == before
    assert running.notices == []


def test_everything_at_once_in_its_own_instance(scripted: Any, trace: Callable[..., Trace]) -> None:
    before = state(scripted)
    with trace(filter="a == 1", pid=42, stacktrace=True, follow=True):
        assert scripted.files[f"{EVENT}/filter"] == b"a == 1\n"
        assert scripted.files[f"{ME}/set_event_pid"] == b"42\n43\n"
        assert scripted.files[f"{ME}/options/stacktrace"] == b"1\n"
        assert scripted.files[f"{ME}/options/event-fork"] == b"1\n"
        assert scripted.files["options/stacktrace"] == b"0\n"
        assert scripted.files["set_event_pid"] == b""
    assert state(scripted) == before


def test_a_new_instance_does_not_keep_the_top_levels_stacktrace(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.files["options/stacktrace"] = b"1\n"
    with trace():
        assert scripted.files[f"{ME}/options/stacktrace"] == b"0\n"
    assert scripted.files["options/stacktrace"] == b"1\n"


@pytest.mark.parametrize("taken", [ME, f"events/{MINE}"])
def test_the_next_number_if_one_is_taken(scripted: Any, trace: Callable[..., Trace], taken: str) -> None:
    scripted.directories.add(taken)
    with trace() as running:
        assert running.instance.prefix == "instances/kprobe_77_5000_1/"
        assert running.probe.event == "kprobe_77_5000_1/myopen"
    assert taken in scripted.directories


@pytest.mark.parametrize("way", ["asked for", "no instances", "not permitted"])
def test_at_the_top_level_all_is_put_back(scripted: Any, trace: Callable[..., Trace], way: str) -> None:
    if way == "no instances":
        scripted.directories.remove("instances")
    elif way == "not permitted":
        scripted.refuse[f"mkdir {ME}"] = errno.EPERM
    before = state(scripted)
    with trace(pid=42, filter="a == 1 || b == 2", stacktrace=True, top_level=way == "asked for") as running:
        assert scripted.files["options/stacktrace"] == b"1\n"
        assert scripted.files["set_event_pid"] == b""
        assert scripted.files[f"{OWN}/filter"] == (b"(a == 1 || b == 2) && (common_pid == 42 || common_pid == 43)\n")
    assert state(scripted) == before
    said = [notice for notice in running.notices if "top level" in notice]
    assert said == (
        [f"working at the top level, whose buffer and options are everybody's ({ME}: Operation not permitted)"]
        if way == "not permitted"
        else []  # nobody has a choice where there are no instances
    )
    assert running.notices[-1] == "threads that the process starts from now on are not seen"


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EIO, errno.ENOSPC])
def test_a_failed_mkdir_is_no_reason_to_use_the_top_level(
    scripted: Any, trace: Callable[..., Trace], number: int
) -> None:
    scripted.refuse[f"mkdir {ME}"] = number
    before = state(scripted)
    with pytest.raises(Refused) as caught, trace():
        pass
    assert (caught.value.errno, caught.value.command) == (number, f"mkdir {ME}")
    assert "--top-level" in caught.value.hint
    assert scripted.log == [f"mkdir {ME}"]
    assert state(scripted) == before


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EPERM])
def test_an_instance_that_came_with_an_error_goes(scripted: Any, trace: Callable[..., Trace], number: int) -> None:
    before = state(scripted)
    made = scripted.mkdir

    def mkdir(path: str) -> None:
        made(path)
        raise OSError(number, "no", path)

    scripted.mkdir = mkdir
    with pytest.raises(KprobeError), trace():
        pass
    assert state(scripted) == before
    assert scripted.log == [f"mkdir {ME}", f"rmdir {ME}"]


def test_the_top_level_tells_of_others(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.files |= {
        "tracing_on": b"0\n",
        "current_tracer": b"function\n",
        "set_event_pid": b"1\n",
        "trace": b"# tracer: nop\n" + LINE,
    }
    with trace(top_level=True) as running:
        pass
    assert running.notices == [
        "tracing is off (tracing_on is 0 in the top level): nothing will be recorded",
        "the tracer function is at work there: its lines are shown, too",
        "set_event_pid is set there: events of other threads won't be recorded",
        "the buffer already holds others' events: they are shown, too",
    ]


def test_one_thread(scripted: Any, trace: Callable[..., Trace]) -> None:
    with trace(tid=43):
        assert scripted.files[f"{ME}/set_event_pid"] == b"43\n"


@pytest.mark.parametrize(("option", "text"), [("pid", "no process 99"), ("tid", "no thread 99")])
def test_nobody_there(scripted: Any, trace: Callable[..., Trace], option: str, text: str) -> None:
    with pytest.raises(NoSuchProcess) as caught, trace(**{option: 99}):
        pass
    assert str(caught.value) == text
    assert scripted.log == []


def test_new_threads_are_let_in(scripted: Any, trace: Callable[..., Trace], clock: Clock, fs: Any) -> None:
    def a_second_later() -> None:
        clock.now += 1.0
        fs.makedirs("/proc/42/task/44", exist_ok=True)

    scripted.data.extend([a_second_later, None, LINE])
    with trace(pid=42) as running:
        assert running.read() == LINE
        assert scripted.files[f"{ME}/set_event_pid"] == b"42\n43\n44\n"


def test_following_forks_needs_set_event_pid(scripted: Any, trace: Callable[..., Trace]) -> None:
    before = state(scripted)
    with pytest.raises(Unsupported), trace(pid=42, follow=True, top_level=True):
        pass
    assert state(scripted) == before


STEPS = [
    f"mkdir {ME}",
    "write kprobe_events",
    f"write {ME}/set_event_pid",
    f"write {EVENT}/filter",
    f"write {ME}/options/stacktrace",
    f"stream {ME}/trace_pipe",
    f"write {EVENT}/enable",
]


@pytest.mark.parametrize("step", STEPS[1:])
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EACCES, errno.EBUSY, errno.ENOMEM])
def test_a_refusal_at_any_step_leaves_nothing(
    scripted: Any, trace: Callable[..., Trace], step: str, number: int
) -> None:
    before = state(scripted)
    scripted.refuse[step] = number
    with pytest.raises(KprobeError) as caught, trace(filter="a == 1", pid=42, stacktrace=True):
        pass
    assert isinstance(caught.value, Refused | NotPermitted)
    assert caught.value.errno == number
    scripted.files["error_log"] = b""
    assert state(scripted) == before


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_at_any_step_leaves_nothing(
    scripted: Any,
    trace: Callable[..., Trace],
    step: str,
    interrupt: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interrupt comes when the kernel has done the step, but the call hasn't returned."""
    call, path = step.split(" ")
    real = getattr(scripted, call)
    left = [True]

    def interrupted(given: str, *rest: Any) -> Any:
        result = real(given, *rest)
        if given == path and left:
            left.clear()
            raise interrupt
        return result

    before = state(scripted)
    monkeypatch.setattr(scripted, call, interrupted)
    with pytest.raises(interrupt), trace(filter="a == 1", pid=42, stacktrace=True):
        pass
    assert not left
    assert state(scripted) == before


def test_an_exception_in_the_body_leaves_nothing(scripted: Any, trace: Callable[..., Trace]) -> None:
    before = state(scripted)
    with pytest.raises(LookupError), trace():
        raise LookupError
    assert state(scripted) == before


def test_an_abandoned_iteration_leaves_nothing(scripted: Any, trace: Callable[..., Trace]) -> None:
    before = state(scripted)
    scripted.data.extend([LINE, LINE])
    records = iter(trace())
    assert next(records).name == "myopen"  # type: ignore[union-attr]
    assert state(scripted) != before
    records.close()  # type: ignore[attr-defined]
    assert state(scripted) == before


def test_iteration_gives_records(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.data.extend([LINE, b"CPU:0 [LOST 3 EVENTS]\n", b"what's this\n", b""])
    with trace() as running:
        assert [type(record).__name__ for record in running] == ["Event", "Lost", "Unparsed"]


def test_a_failing_undo_stops_no_other_and_is_reported(scripted: Any, trace: Callable[..., Trace]) -> None:
    with pytest.raises(UndoFailed) as caught, trace() as running:
        scripted.refuse["write kprobe_events"] = errno.EBUSY
    assert caught.value.failures == running.undo_failures
    assert [(step, error.errno) for step, error in running.undo_failures] == [
        (f"remove {MINE}/myopen from kprobe_events", errno.EBUSY)
    ]
    assert ME not in scripted.directories


def test_a_failing_undo_does_not_hide_the_error(scripted: Any, trace: Callable[..., Trace]) -> None:
    def fail() -> None:
        scripted.refuse["write kprobe_events"] = errno.EBUSY
        raise LookupError

    with pytest.raises(LookupError) as caught, trace():
        fail()
    assert f"remove {MINE}/myopen from kprobe_events" in caught.value.__notes__[0]


def test_an_event_of_that_name_in_another_group_is_no_matter(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.write("kprobe_events", b"p:myopen vfs_read\n")
    before = state(scripted)
    with trace() as one, trace() as two:
        assert (one.probe.event, two.probe.event) == (f"{MINE}/myopen", "kprobe_77_5000_1/myopen")
    assert state(scripted) == before


def test_an_event_of_a_group_that_the_user_named_is_left_alone(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.write("kprobe_events", b"p:group/myopen vfs_read\n")
    before = state(scripted)
    with pytest.raises(AlreadyExists) as caught, trace("p:group/myopen do_sys_openat2"):
        pass
    assert caught.value.errno == errno.EEXIST
    assert "choose another name" in caught.value.hint
    assert state(scripted) == before
    assert scripted.log[1:] == ["mkdir instances/kprobe_77_5000_0_named", "rmdir instances/kprobe_77_5000_0_named"]


def test_an_event_that_exists_is_told_with_its_probes(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.write("kprobe_events", b"p:group/myopen vfs_read\n")
    with pytest.raises(AlreadyExists) as caught, trace("p:group/myopen do_sys_openat2"):
        pass
    assert caught.value.hint == (
        "p:group/myopen vfs_read is somebody's; choose another name, or remove it: "
        "echo '-:group/myopen' >> kprobe_events"
    )


def test_an_event_that_appears_meanwhile_is_left_alone(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.refuse["write kprobe_events"] = errno.EEXIST
    with pytest.raises(AlreadyExists), trace():
        pass
    assert [line for line in scripted.log if "-:" in line] == []


def test_a_refusal_carries_the_kernels_words_for_this_command(scripted: Any, trace: Callable[..., Trace]) -> None:
    written = f"p:{MINE}/myopen do_sys_opn"
    old = f"[    1.000000] trace_kprobe: error: Old news\n  Command: {written}\n           ^\n".encode()
    new = (
        b"[    2.000000] trace_kprobe: error: Invalid probed address or symbol\n"
        b"  Command: " + written.encode() + b"\n           " + b" " * (9 + len(MINE) + 1) + b"^\n"
        b"[    2.000001] trace_kprobe: error: Somebody else's\n  Command: p:x y\n           ^\n"
    )
    scripted.files["error_log"] = old
    scripted.on_write["kprobe_events"] = lambda _: scripted.files.update(error_log=old + new)
    scripted.refuse["write kprobe_events"] = errno.ENOENT
    with pytest.raises(UnknownSymbol) as caught, trace("p:myopen do_sys_opn"):
        pass
    error = caught.value
    assert (error.path, error.command, error.errno) == ("kprobe_events", "p:myopen do_sys_opn", errno.ENOENT)
    assert (error.says, error.source, error.column) == ("Invalid probed address or symbol", "trace_kprobe", 9)
    assert str(error) == (
        "kprobe_events refused 'p:myopen do_sys_opn': No such file or directory (ENOENT)\n"
        "trace_kprobe: error: Invalid probed address or symbol\n"
        "  Command: p:myopen do_sys_opn\n"
        "                    ^\n"
        "hint: this kernel has no function do_sys_opn; did you mean do_sys_openat2: 'p:myopen do_sys_openat2'"
    )


def test_a_refusal_without_the_kernels_words(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.refuse["write kprobe_events"] = errno.EINVAL
    with pytest.raises(Refused) as caught, trace():
        pass
    assert type(caught.value) is Refused
    assert (caught.value.says, caught.value.column, caught.value.hint) == ("", None, "")


def test_a_refused_filter_carries_the_kernels_words(scripted: Any, trace: Callable[..., Trace]) -> None:
    def refuse(_: bytes) -> None:
        scripted.files[f"{EVENT}/filter"] = b"fd == 1\n  ^\nparse_error: Field not found\n\n"

    scripted.on_write[f"{EVENT}/filter"] = refuse
    scripted.refuse[f"write {EVENT}/filter"] = errno.EINVAL
    with pytest.raises(FilterRefused) as caught, trace(filter="fd == 1"):
        pass
    assert (caught.value.says, caught.value.column, caught.value.errno) == ("Field not found", 2, errno.EINVAL)


def test_eperm_from_a_filter_is_no_lack_of_rights(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.refuse[f"write {EVENT}/filter"] = errno.EPERM
    with pytest.raises(FilterRefused), trace(filter="==1"):
        pass


def test_another_reader_of_trace_pipe(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.refuse["stream trace_pipe"] = errno.EBUSY
    with pytest.raises(Busy) as caught, trace(top_level=True):
        pass
    assert "one reader at a time" in caught.value.hint


def test_a_kernel_that_takes_a_definition_for_another(scripted: Any, trace: Callable[..., Trace]) -> None:
    """Before Linux 4.12 the kernel takes `r10:myopen`, but makes an event of another name."""

    def rename(_: bytes) -> None:
        scripted.on_write.clear()
        scripted._define(b"p:r_do_sys_openat2_0 do_sys_openat2\n")
        scripted.exists = lambda path, real=scripted.exists: path != OWN and real(path)
        scripted._define = lambda data, real=scripted._define: real(data) if data.startswith(b"-") else None

    scripted.on_write["kprobe_events"] = rename
    with pytest.raises(Unsupported) as caught, trace("r10:myopen do_sys_openat2"):
        pass
    assert caught.value.evidence == f"r10:{MINE}/myopen do_sys_openat2 made kprobes/r_do_sys_openat2_0 instead"
    assert scripted.files["kprobe_events"] == b""


def test_a_kernel_without_kprobe_events(scripted: Any, trace: Callable[..., Trace]) -> None:
    del scripted.files["kprobe_events"]
    before = state(scripted)
    with pytest.raises(Unsupported, match="no kprobe events"), trace():
        pass
    assert state(scripted) == before


def test_stop_drains_and_ends(scripted: Any, trace: Callable[..., Trace]) -> None:
    with trace() as running:
        scripted.data.extend([LINE, LINE])
        running.stop()
        assert running.read() == LINE
        assert scripted.files[f"{EVENT}/enable"] == b"0\n"  # no more events while the rest is read
        assert running.read() == LINE
        assert running.read() == b""


def test_stop_while_waiting(scripted: Any, trace: Callable[..., Trace]) -> None:
    with trace() as running:
        scripted.data.extend([running.stop, None])
        assert running.read() == b""


def test_read_times_out(scripted: Any, trace: Callable[..., Trace], clock: Clock) -> None:
    with trace() as running:
        scripted.data.append(lambda: clock.sleep(2.0))
        with pytest.raises(TimeoutError):
            running.read(1.0)


def test_a_duration_buffers_in_the_kernel(scripted: Any, trace: Callable[..., Trace], clock: Clock) -> None:
    with trace(duration=0.25) as running:
        scripted.files[f"{ME}/trace"] = b"# tracer: nop\n#\n" + LINE
        with pytest.raises(ValueError, match="read_buffer"):
            running.read()
        assert list(running.chunks()) == [b"# tracer: nop\n#\n" + LINE]
        assert scripted.files[f"{EVENT}/enable"] == b"0\n"
    assert sum(clock.slept) == pytest.approx(0.25)
    assert not any("trace_pipe" in line for line in scripted.log)


def test_stop_cuts_a_duration_short(scripted: Any, trace: Callable[..., Trace], clock: Clock) -> None:
    with trace(duration=100.0) as running:
        running.stop()
        running.wait()
    assert clock.slept == []


def test_header_and_missed(scripted: Any, trace: Callable[..., Trace]) -> None:
    with trace() as running:
        scripted.files[f"{ME}/trace"] = b"# tracer: nop\n#\n" + LINE + b"# not a header\n"
        scripted.files["kprobe_profile"] = (
            b"  myopen                                      20               3\n  other     1       9\n"
        )
        assert running.header() == b"# tracer: nop\n#\n"
        assert running.missed() == 3


def test_missed_of_events_with_one_name(scripted: Any, trace: Callable[..., Trace]) -> None:
    scripted.write("kprobe_events", b"p:other/myopen vfs_read\n")
    with trace() as running:
        scripted.files["kprobe_profile"] = b"  myopen     20      3\n  myopen     9      4\n"
        assert running.missed() == 4


def test_split_header() -> None:
    assert split_header(b"# a\n#\nline\n# b\n") == (b"# a\n#\n", b"line\n# b\n")
    assert split_header(b"# a") == (b"# a", b"")
    assert split_header(b"") == (b"", b"")


def test_format_adds_the_probe_for_a_moment(scripted: Any) -> None:
    before = state(scripted)
    assert Tracer(scripted, owner=Owner(77, 5000)).format("p:myopen do_sys_openat2") == b"name: x\nformat:\n"
    assert state(scripted) == before
    assert scripted.log == [
        f"write kprobe_events p:{MINE}/myopen do_sys_openat2",
        f"write kprobe_events -:{MINE}/myopen",
    ]


def test_a_trace_begins_once(trace: Callable[..., Trace]) -> None:
    with trace() as running, pytest.raises(ValueError, match="begun already"):
        running.__enter__()


def test_process_or_thread(trace: Callable[..., Trace]) -> None:
    with pytest.raises(ValueError, match="not both"):
        trace(pid=42, tid=43)


def shown_otherwise(scripted: Any, *others: bytes) -> None:
    """Have kprobe_events show the probe in a way that the tracer doesn't know, with others of the event."""
    scripted.files["README"] = b"\tCreate/append/remove/show the kernel dynamic events\n"
    define = scripted._define

    def defined(data: bytes) -> None:
        define(data)
        if not data.startswith(b"-"):
            scripted.files["kprobe_events"] = b"".join([f"p:{MINE}/myopen somewhere\n".encode(), *others])

    scripted._define = defined


def test_a_probe_that_is_shown_otherwise(scripted: Any, trace: Callable[..., Trace]) -> None:
    shown_otherwise(scripted)
    with trace():
        pass
    assert scripted.files["kprobe_events"] == b""


def test_a_probe_that_can_not_be_told_from_others_is_told(scripted: Any, trace: Callable[..., Trace]) -> None:
    shown_otherwise(scripted, f"p:{MINE}/myopen elsewhere\n".encode())
    with pytest.raises(AlreadyExists) as caught, trace():
        pass
    assert f"p:{MINE}/myopen somewhere; p:{MINE}/myopen elsewhere" in str(caught.value)
    assert "others' probes feed the event, too, and can't be told apart from ours" in caught.value.__notes__[0]
    assert f"-:{MINE}/myopen" not in " ".join(scripted.log)
