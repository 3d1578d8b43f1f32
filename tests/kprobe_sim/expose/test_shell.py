"""Idioms of shells inside `kprobe-sim run`, with the answers that a guest with the same kernel gives."""

from __future__ import annotations

from .conftest import Run

FOLLOW = ("--kernel", "6.1", "--activity", "none", "--follow")


def test_a_reader_that_has_enough_ends_the_writer_without_a_word(run: Run) -> None:
    done = run(["bash", "-c", "cat /sys/kernel/tracing/available_filter_functions | head -1; echo ${PIPESTATUS[@]}"])
    assert done.stdout.splitlines()[-1] == "141 0"
    assert done.stderr == ""


def test_the_types_of_file_systems(run: Run) -> None:
    """What looks for tracefs by statfs(2) finds it; tail -f goes by that, too."""
    script = """
    cd /sys/kernel/tracing
    stat -f -c '%t %s %S %b %f %a %c %d %l' . trace events/sched /sys/kernel/debug/tracing /sys/kernel/debug
    stat -f nosuch
    """
    done = run(["bash", "-c", script], ("--kernel", "6.1", "--activity", "none"))
    assert done.stdout.splitlines() == [
        *["74726163 4096 4096 0 0 0 0 0 255"] * 4,
        "64626720 4096 4096 0 0 0 0 0 255",
    ]
    assert done.stderr.splitlines()[-1].endswith("for 'nosuch': No such file or directory")


def test_only_the_tracefs_has_the_type_of_what_serves_it(run: Run) -> None:
    options = ("--activity", "none", "--only-tracefs")
    assert run(["stat", "-f", "-c", "%t", "/sys/kernel/tracing"], options).stdout == "65735546\n"


def test_there_is_nothing_to_sync_but_directories(run: Run) -> None:
    """So a program that is careful about its writes fails at kprobe_events, as on a real kernel."""
    script = "cd /sys/kernel/tracing; for i in kprobe_events trace events; do sync -d $i; echo $?; done"
    done = run(["sh", "-c", script])
    assert done.stdout == "1\n1\n0\n"
    assert [line.rpartition(": ")[2] for line in done.stderr.splitlines()] == ["Invalid argument"] * 2


def test_opens_of_the_mounts_own_files_succeed(run: Run) -> None:
    script = """
    cd /sys/kernel/tracing
    echo 'r:opened do_sys_openat2 ret=$retval:s32' > kprobe_events
    echo 1 > events/kprobes/enable
    LC_ALL=C cat tracing_on /sys/kernel/debug/tracing/events/nosuch 2> /dev/null
    echo 0 > events/kprobes/enable
    grep -o 'cat-.*ret=.*' trace | sed 's/.*ret/ret/' | tail -n 2
    """
    assert run(["bash", "-c", script], FOLLOW).stdout.splitlines() == ["1", "ret=3", "ret=-2"]


def test_kill_as_killsnoop_sees_it(run: Run) -> None:
    script = """
    cd /sys/kernel/tracing
    echo 1 > events/syscalls/sys_enter_kill/enable
    echo 1 > events/syscalls/sys_exit_kill/enable
    kill -0 $$
    kill -9 99999999 2> /dev/null
    echo $$
    grep -o 'sys_kill.*' trace
    """
    pid, *lines = run(["bash", "-c", script], FOLLOW).stdout.splitlines()
    assert lines == [
        f"sys_kill(pid: {int(pid):x}, sig: 0)",
        "sys_kill -> 0x0",
        "sys_kill(pid: 5f5e0ff, sig: 9)",
        "sys_kill -> 0xfffffffffffffffd",
    ]
