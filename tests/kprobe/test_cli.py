"""The command, in process, on a scripted tracefs."""

from __future__ import annotations

import errno
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kprobe.cli import main
from kprobe_text.terminal.output import Output

LINE = b"             cat-2841    [000] .....  2148.505110: myopen: (do_sys_openat2+0x0/0x170)\n"
HEADER = b"# tracer: nop\n#\n"


def state(scripted: Any) -> tuple[dict[str, bytes], set[str]]:
    return dict(scripted.files), set(scripted.directories)


def test_the_kernels_bytes_on_stdout_the_rest_on_stderr(scripted: Any, capfdbinary: Any) -> None:
    before = state(scripted)
    odd = b"  \xff\x00 not text\n"
    scripted.data.extend([LINE, odd, b""])
    assert main(["p:myopen do_sys_openat2"], tracefs=scripted) == 0
    out, err = capfdbinary.readouterr()
    assert out == LINE + odd
    assert err == b"Tracing kprobe myopen. Ctrl-C to end.\n\nEnding tracing...\n1 event, 0 lost\n"
    assert state(scripted) == before


def test_headings(scripted: Any, capfdbinary: Any) -> None:
    scripted.files["trace"] = HEADER
    scripted.data.extend([LINE, b""])
    assert main(["-H", "p:myopen do_sys_openat2"], tracefs=scripted) == 0
    assert capfdbinary.readouterr().out == HEADER + LINE


@pytest.mark.parametrize(("options", "head"), [([], b""), (["-H"], HEADER)])
def test_a_duration_prints_the_buffer_at_the_end(
    scripted: Any, capfdbinary: Any, options: list[str], head: bytes
) -> None:
    scripted.files["trace"] = HEADER + LINE + LINE
    assert main([*options, "-d", "0.0", "p:myopen do_sys_openat2"], tracefs=scripted) == 0
    out, err = capfdbinary.readouterr()
    assert out == head + LINE + LINE
    assert err == b"Tracing kprobe myopen for 0.0 seconds (buffered)...\n\nEnding tracing...\n2 events, 0 lost\n"


def test_view(scripted: Any, capfdbinary: Any) -> None:
    assert main(["-v", "p:myopen do_sys_openat2"], tracefs=scripted) == 0
    assert capfdbinary.readouterr() == (b"name: x\nformat:\n", b"")


@pytest.mark.parametrize("before", [None, "much longer than a format is\n"])
def test_view_into_a_file(scripted: Any, capfdbinary: Any, tmp_path: Path, before: str | None) -> None:
    file = tmp_path / "format"
    if before is not None:
        file.write_text(before)
    assert main(["-v", "-o", str(file), "p:myopen do_sys_openat2"], tracefs=scripted) == 0
    assert file.read_text() == "name: x\nformat:\n"
    assert capfdbinary.readouterr() == (b"", b"")


def test_options_reach_the_trace(scripted: Any, capfdbinary: Any) -> None:
    def look() -> bytes:
        (event,) = (path for path in scripted.files if path.startswith("instances/") and path.endswith("/filter"))
        place = event.partition("/events")[0]
        assert scripted.files[event] == b"a == 1\n"
        assert scripted.files[f"{place}/options/stacktrace"] == b"1\n"
        assert b"%d\n" % os.getpid() in scripted.files[f"{place}/set_event_pid"]
        return b""

    scripted.data.append(look)
    assert main(["-s", "-p", str(os.getpid()), "p:myopen do_sys_openat2", "a == 1"], tracefs=scripted) == 0


ENDING = [
    (signal.SIGINT, 0),
    (signal.SIGTERM, 143),
    (signal.SIGHUP, 129),
    (signal.SIGQUIT, 131),
    (signal.SIGPIPE, 141),
    (signal.SIGUSR1, 138),
    (signal.SIGXCPU, 152),
]


@pytest.mark.parametrize(("number", "status"), ENDING)
def test_a_signal_drains_and_tidies(scripted: Any, capfdbinary: Any, number: int, status: int) -> None:
    before = state(scripted)
    handlers = [signal.getsignal(each) for each, _ in ENDING]
    scripted.data.extend([LINE, lambda: signal.raise_signal(number), LINE, None])
    assert main(["p:myopen do_sys_openat2"], tracefs=scripted) == status
    out, err = capfdbinary.readouterr()
    assert out == LINE + LINE
    assert err.endswith(b"\nEnding tracing...\n2 events, 0 lost\n")
    assert state(scripted) == before
    assert [signal.getsignal(each) for each, _ in ENDING] == handlers


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_during_the_set_up_or_the_undo_cuts_nothing_in_half(
    scripted: Any, capfdbinary: Any, number: int
) -> None:
    before = state(scripted)
    for path in ("kprobe_events", "error_log"):
        scripted.on_write[path] = lambda _: signal.raise_signal(number)
    main(["p:myopen do_sys_openat2"], tracefs=scripted)
    assert state(scripted) == before


def test_a_reader_that_goes_away(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(scripted)
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as out:
        monkeypatch.setattr("sys.stdout", out)
        scripted.data.extend([LINE, lambda: os.close(read_end), LINE])
        assert main(["p:myopen do_sys_openat2"], tracefs=scripted) == 141
    assert state(scripted) == before


def test_a_reader_that_goes_away_while_nothing_fires(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(scripted)
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as out:
        monkeypatch.setattr("sys.stdout", out)
        assert main(["p:myopen do_sys_openat2"], tracefs=scripted) == 141
    assert state(scripted) == before


def test_a_reader_that_sleeps_does_not_hold_up_the_end() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as out:
        assert not Output(out).write(b"x" * (1 << 20), lambda: True)
    os.close(read_end)


def test_a_pipe_is_written_without_blocking_those_who_share_it() -> None:
    """What has no room waits for it; the pipe that others have from our parent still blocks for them."""
    read_end, write_end = os.pipe()
    data = bytes(range(256)) * 1024  # four times what a pipe holds
    with open(read_end, "rb") as pipe, open(write_end, "wb", 0) as out, ThreadPoolExecutor(1) as pool:
        output = Output(out)
        came = pool.submit(pipe.read, len(data))
        assert output.write(data, lambda: False)
        assert came.result(10) == data
        assert os.get_blocking(write_end)
        output.close()
        out.close()
        assert pipe.read() == b""  # nobody else has its other end


def test_a_pipe_that_nobody_reads_any_more_is_told() -> None:
    read_end, write_end = os.pipe()
    with open(write_end, "wb", 0) as out:
        output = Output(out)
        os.close(read_end)
        with pytest.raises(BrokenPipeError):
            output.write(b"x", lambda: False)
        output.close()


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        ([], 2, "ERROR: a definition is missing"),
        (["-x", "p:a"], 2, "ERROR: unknown option -x"),
        (["--nosuch", "p:a"], 2, "ERROR: unknown option --nosuch"),
        (["-p"], 2, "ERROR: -p takes a value"),
        (["-p", "x", "p:a"], 2, "ERROR: -p takes a number, not 'x'"),
        (["-d", "-1", "p:a"], 2, "ERROR: -d takes a number of seconds, not '-1'"),
        (["-d", "nan", "p:a"], 2, "ERROR: -d takes a number of seconds, not 'nan'"),
        (["-p", "1", "-L", "1", "p:a"], 2, "ERROR: use at most one of -p and -L."),
        (["-vd1", "p:a"], 2, "ERROR: use either -d or -v."),
        (["--follow", "p:a"], 2, "ERROR: --follow needs -p."),
        (["p:a", "b", "c"], 2, "ERROR: too many arguments: quote the definition, and the filter: kprobe 'p:a b c'"),
        (["p:x a", "p:x b"], 2, "ERROR: another probe is called x, too: their lines couldn't be told apart\n  p:x b\n"),
        (["p:a", "--", "x == 1", "y"], 2, "ERROR: after -- comes the filter, as one word: quote it: -- 'x == 1 y'"),
        (["p:a", "--"], 2, "ERROR: after -- comes the filter, as one word: quote it\n"),
        (
            ["p:a", "b", "--", "x == 1"],
            2,
            "ERROR: 'b' isn't a definition; if it belongs to one, quote both: kprobe 'p:a b'",
        ),
        (["p:a", "-d", "5"], 2, "ERROR: options come before the definition: -d"),
        (["p:a", "-s"], 2, "ERROR: options come before the definition: -s"),
        (["p:a", "--tracefs=sim"], 2, "ERROR: options come before the definition: --tracefs=sim"),
        (
            ["p:myopen", "do_sys_openat2"],
            2,
            "ERROR: 'do_sys_openat2' isn't a filter; if it belongs to the definition, quote both: "
            "kprobe 'p:myopen do_sys_openat2'\n",
        ),
        (["p:do_sys_openat2", "file=+0(%si):string"], 2, "ERROR: 'file=+0(%si):string' isn't a filter"),
        (["r:vfs_read", "$retval"], 2, "ERROR: '$retval' isn't a filter"),
        (["vfs_read"], 2, "ERROR: 'vfs_read' is neither a definition (p:vfs_read traces calls of that function"),
        (["clean", "p:a"], 2, "ERROR: clean takes no 'p:a'"),
        (["clean", "-s"], 2, "ERROR: -s is for traces, not for clean"),
        (["-d", "5", "clean"], 2, "ERROR: -d is for traces or top, not for clean"),
        (["--dry-run", "p:a"], 2, "ERROR: --dry-run goes with clean"),
        (["--kernels", "6.1", "p:a"], 2, "ERROR: unknown option --kernels"),
        (["--version=2"], 2, "ERROR: --version takes no value"),
        (["q:a"], 2, "ERROR: a probe starts with p: or r:, f:, t:, e: or u:\n  q:a\n  ^"),
        (["-p", "999999999", "p:a"], 2, "ERROR: no process 999999999"),
    ],
)
def test_usage(scripted: Any, capfd: Any, argv: list[str], status: int, said: str) -> None:
    assert main(argv, tracefs=scripted) == status
    out, err = capfd.readouterr()
    assert said in err
    assert out == ""
    assert scripted.log == []


def test_help(capfd: Any) -> None:
    assert main(["-h"]) == 0
    assert capfd.readouterr().out.startswith(
        "USAGE: kprobe [-FhHsv] [-d secs] [-p PID] [-L TID] [--tracefs SPEC] [-o FILE] definition ... [filter]\n"
    )
    assert main(["--version"]) == 0
    assert capfd.readouterr().out.startswith("kprobe ")


def test_a_refusal(scripted: Any, capfd: Any) -> None:
    before = state(scripted)
    scripted.refuse["write kprobe_events"] = errno.EILSEQ
    assert main(["-F", "p:x vfs_read+1"], tracefs=scripted) == 1
    assert capfd.readouterr().err == (
        "ERROR: kprobe_events refused 'p:x vfs_read+1': Invalid or incomplete multibyte or wide character (EILSEQ)\n"
        "hint: no instruction starts at vfs_read+1; vfs_read+0 is one, others are in its disassembly\n"
    )
    assert state(scripted) == before


def test_no_permission(scripted: Any, capfd: Any) -> None:
    scripted.refuse["write kprobe_events"] = errno.EACCES
    assert main(["p:vfs_read"], tracefs=scripted) == 3
    said = capfd.readouterr().err
    assert "ERROR: kprobe_events: Permission denied" in said
    assert said.endswith("\nkprobe doctor looks for the reason\n")


def test_no_tracefs(capfd: Any) -> None:
    assert main(["--tracefs", "local:/nosuch", "p:vfs_read"]) == 3
    assert "no tracefs found. Looked at:\n  /nosuch: No such file or directory" in capfd.readouterr().err


def test_the_environment_names_the_tracefs(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPROBE_TRACEFS", "local:/from-the-environment")
    assert main(["p:vfs_read"]) == 3
    assert "/from-the-environment" in capfd.readouterr().err


def test_no_such_backend(capfd: Any) -> None:
    assert main(["--tracefs", "nosuch:1", "p:vfs_read"]) == 3
    assert "ERROR: no tracefs backend 'nosuch'; known: " in capfd.readouterr().err


def test_something_left_behind(scripted: Any, capfd: Any) -> None:
    scripted.data.extend([lambda: scripted.refuse.update({"write kprobe_events": errno.EBUSY}), b""])
    assert main(["p:myopen do_sys_openat2"], tracefs=scripted) == 4
    assert "left behind, because undoing it failed:\n  remove kprobe_" in capfd.readouterr().err


def test_warnings_and_force(scripted: Any, capfd: Any) -> None:
    scripted.data.extend([b"", b""])
    assert main(["p:vfs_rea"], tracefs=scripted) == 0
    assert "WARNING: vfs_rea is not in available_filter_functions" in capfd.readouterr().err
    assert main(["-F", "p:vfs_rea"], tracefs=scripted) == 0
    assert "WARNING" not in capfd.readouterr().err


def test_missed_hits(scripted: Any, capfd: Any) -> None:
    scripted.files["kprobe_profile"] = b"  vfs_read     5         2\n"
    scripted.data.append(b"")
    assert main(["r:vfs_read"], tracefs=scripted) == 0
    assert "WARNING: the kernel missed 2 hits of vfs_read: give it more instances (r100:...)" in capfd.readouterr().err


def test_a_silent_duration_is_explained(scripted: Any, capfd: Any) -> None:
    scripted.files["trace"] = HEADER
    assert main(["-d", "0.25", "p:vfs_read"], tracefs=scripted) == 0
    assert "NOTE: nothing in 0.25 seconds: vfs_read " in capfd.readouterr().err
    scripted.files["trace"] = HEADER + LINE
    assert main(["-d", "0.0", "p:vfs_read"], tracefs=scripted) == 0
    assert "NOTE" not in capfd.readouterr().err


def test_silence_is_explained_once(scripted: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kprobe.running.TICK", 0.0)
    monkeypatch.setattr("kprobe.running.SILENCE", 0.0)
    scripted.data.extend([None, None, None, b""])
    assert main(["p:vfs_read"], tracefs=scripted) == 0
    assert capfd.readouterr().err.count("NOTE: nothing in 0 seconds: ") == 1


def test_the_machine_plays_once_tracing_is_on(scripted: Any) -> None:
    def play() -> None:
        scripted.log.append("play")

    scripted.play = play
    scripted.data.append(b"")
    assert main(["p:vfs_read"], tracefs=scripted) == 0
    enabled = next(index for index, line in enumerate(scripted.log) if line.endswith("enable 1"))
    assert scripted.log[enabled + 1] == "play"


class Dead(Exception):
    exit_status = 121


def test_a_machine_that_dies_is_told_with_its_own_status(
    scripted: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(spec: str) -> Any:
        return scripted

    def dies() -> None:
        raise Dead("the guest panicked: Attempted to kill init")

    scripted.play = dies
    monkeypatch.setattr("kprobe.tracefs.backends.open_tracefs", opened)
    before = state(scripted)
    assert main(["--tracefs", "vm:6.1", "p:myopen do_sys_openat2"]) == 121
    assert "ERROR: vm:6.1: the guest panicked: Attempted to kill init\n" in capfd.readouterr().err
    assert state(scripted) == before
