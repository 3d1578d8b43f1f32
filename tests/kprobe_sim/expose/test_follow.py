"""`kprobe-sim run --follow`: what the programs inside do is what the simulated machine does."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import KPROBE_SIM, Run

OPTIONS = ("--kernel", "6.1", "--activity", "none", "--follow")
SCRIPT = """
cd /sys/kernel/tracing
echo 'p:myopen do_sys_openat2 path=+0(%si):string flags=+0(%dx):x64' >> kprobe_events
echo 'r:myfork kernel_clone' >> kprobe_events
echo 'p:myexit do_exit code=%di' >> kprobe_events
echo 1 > events/kprobes/enable
echo $$
cat /nosuch 2> /dev/null
(exit 3) & wait; echo $!
echo 0 > events/kprobes/enable
grep -v '^#' trace
"""


@pytest.fixture(scope="module")
def followed(run: Run) -> subprocess.CompletedProcess[str]:
    return run(["bash", "-c", SCRIPT], OPTIONS)


def test_an_open_has_the_programs_name_pid_and_path(followed: subprocess.CompletedProcess[str]) -> None:
    assert followed.stderr == ""
    assert re.search(
        r'^ +cat-\d+ +\[000\] \S+ +\d+\.\d{6}: myopen: \(do_sys_openat2\+0x0/0x170\) path="/nosuch" flags=0x8000$',
        followed.stdout,
        re.MULTILINE,
    )


@pytest.mark.parametrize("series", ["4.9", "4.14", "4.19", "5.4"])
def test_opens_and_forks_are_there_before_5_6_by_the_names_that_the_kernel_has(
    run: Run, series: str, tmp_path: Path
) -> None:
    script = """
    cd /sys/kernel/tracing
    echo 'p:opens do_sys_open at=%di:s32 path=+0(%si):string flags=%dx:x32 mode=%cx:x16' > kprobe_events
    echo 'r:forks _do_fork child=$retval:s32' >> kprobe_events
    echo 1 > events/kprobes/enable
    cd "$0"; (: > by-shell); cat /nosuch 2> /dev/null & wait; echo $!
    echo 0 > /sys/kernel/tracing/events/kprobes/enable
    cd /sys/kernel/tracing; grep -o 'at=.* path="\\(by-\\|/nosuch\\).*' trace; grep -o 'child=.*' trace
    """
    done = run(["bash", "-c", script, str(tmp_path)], ("--kernel", series, "--activity", "none", "--follow"))
    assert done.stderr == ""
    child, shell, cat, *forked = done.stdout.splitlines()
    assert shell == 'at=-100 path="by-shell" flags=0x8241 mode=0x1b6'
    assert cat == 'at=-100 path="/nosuch" flags=0x8000 mode=0x0'
    assert f"child={child}" in forked


OPENERS = """
import ctypes, os
call = ctypes.CDLL(None).syscall
how = (ctypes.c_uint64 * 3)(os.O_RDWR | os.O_CREAT, 0o640, 0)
os.chdir(sys.argv[1])
directory = os.open(".", os.O_RDONLY)
print(directory)
call(2, b"by-open", os.O_WRONLY | os.O_CREAT, 0o600)
call(85, b"by-creat", 0o604)
call(257, directory, b"by-openat", os.O_RDWR | os.O_CREAT, 0o644)
call(437, directory, b"by-openat2", how, 24)
"""


def test_each_way_to_open_has_its_arguments(run: Run, tmp_path: Path) -> None:
    script = """
    cd /sys/kernel/tracing
    echo 'p:opens do_sys_openat2 at=%di:s32 path=+0(%si):string flags=+0(%dx):x64 mode=+8(%dx):x64' >> kprobe_events
    echo 1 > events/kprobes/enable
    "$0" -c "import sys; $1" "$2"
    echo 0 > events/enable
    grep -o 'at=.* path="by-.*' trace
    """
    done = run(["sh", "-c", script, sys.executable, OPENERS, str(tmp_path)], OPTIONS)
    assert done.stderr == ""
    directory, *lines = done.stdout.splitlines()  # 3, or 4 where importing ctypes leaves a file open
    assert lines == [
        'at=-100 path="by-open" flags=0x8041 mode=0x180',
        'at=-100 path="by-creat" flags=0x8241 mode=0x184',
        f'at={directory} path="by-openat" flags=0x8042 mode=0x1a4',
        f'at={directory} path="by-openat2" flags=0x8042 mode=0x1a0',
    ]


def test_forks_and_exits(followed: subprocess.CompletedProcess[str]) -> None:
    shell, child = (line for line in followed.stdout.splitlines() if line.isdigit())
    assert (
        len(
            re.findall(
                rf"bash-{shell} +\[000\] .* myfork: \(__do_sys_clone\+0x0/0xb0 <- kernel_clone\)", followed.stdout
            )
        )
        == 2
    )
    assert re.search(rf"bash-{child} +\[000\] .* myexit: \(do_exit\+0x0/0x\w+\) code=0x300\n", followed.stdout)


def test_a_pid_filter_follows_forks(run: Run) -> None:
    script = """
    cd /sys/kernel/tracing
    echo 'p:myexit do_exit' >> kprobe_events
    echo 1 > options/event-fork
    echo $$ > set_event_pid
    echo 1 > events/kprobes/enable
    (exit 3) & wait
    echo $!
    cat trace | grep -c myexit
    """
    found = run(["bash", "-c", script], OPTIONS).stdout.split()
    assert found[1] == "1"


def test_without_it_nothing_follows(run: Run) -> None:
    done = run(["bash", "-c", SCRIPT], OPTIONS[:-1])
    assert "myopen" not in done.stdout


def test_the_exit_status_is_the_commands(run: Run) -> None:
    assert run(["sh", "-c", "true; exit 7"], OPTIONS).returncode == 7
    assert run(["/nosuch"], OPTIONS).returncode == 127


EVENTS = """
cd /sys/kernel/tracing
echo 1 > events/syscalls/enable
echo 1 > events/sched/enable
echo 1 > events/task/enable
cat /nosuch 2> /dev/null
echo $!
echo 0 > events/enable
grep -v '^#' trace
"""


def test_static_events_of_what_programs_do(run: Run) -> None:
    done = run(["bash", "-c", EVENTS], OPTIONS)
    shown = [re.sub(r"^ *(\S+-\d+) .*?\d+\.\d+: ", r"\1 ", line) for line in done.stdout.splitlines()[1:]]
    forks = [line for line in shown if " sched_process_fork: " in line]
    match = re.fullmatch(
        r"(bash-(\d+)) sched_process_fork: comm=bash pid=\2 child_comm=bash child_pid=(?P<child>\d+)", forks[0]
    )
    assert match, forks
    shell, child = match[1], int(match["child"])
    ours = [line for line in shown if line.startswith(shell + " ")]
    born = ours.index(f"{shell} sched_process_fork: comm=bash pid={match[2]} child_comm=bash child_pid={child}")
    assert re.fullmatch(rf"{shell} sys_clone3?\(.*\)", ours[born - 2])
    assert re.fullmatch(
        rf"{shell} task_newtask: pid={child} comm=bash clone_flags=1200000 oom_score_adj=0", ours[born - 1]
    )
    assert ours[born + 1 : born + 3] == [
        f"{shell} sched_wakeup_new: comm=bash pid={child} prio=120 target_cpu=000",
        f"{shell} sys_clone -> {child:#x}",
    ]
    cat = [line.partition(" ")[2] for line in shown if line.endswith(str(child)) or f"-{child} " in line]
    assert any(
        re.fullmatch(r"sys_execve\(filename: [0-9a-f]+, argv: [0-9a-f]+, envp: [0-9a-f]+\)", line) for line in cat
    )
    assert f"task_rename: pid={child} oldcomm=bash newcomm=cat oom_score_adj=0" in cat
    assert re.search(rf"sched_process_exec: filename=\S*/cat pid={child} old_pid={child}\n", "\n".join(cat))
    assert "sys_execve -> 0x0" in cat
    assert "sys_openat -> 0xfffffffffffffffe" in cat
    assert cat[-5:] == [
        "sys_exit_group(error_code: 1)",
        f"sched_process_exit: comm=cat pid={child} prio=120",
        f"sched_waking: comm=bash pid={match[2]} prio=120 target_cpu=000",
        f"sched_wakeup: comm=bash pid={match[2]} prio=120 target_cpu=000",
        f"sched_switch: prev_comm=cat prev_pid={child} prev_prio=120 prev_state=Z ==> "
        "next_comm=swapper/0 next_pid=0 next_prio=120",
    ]


@pytest.mark.slow
def test_a_signal_that_comes_meanwhile_interrupts_no_kill(run: Run) -> None:
    """kill(2) never ends with EINTR, as much as there is to follow; a shell that gets it goes on without."""
    script = """
    cd /sys/kernel/tracing/instances
    slam() { while :; do mkdir $1; rmdir $1; done 2> /dev/null; }
    for round in 1 2 3; do
        pids=
        for name in a b c d e; do slam $name & pids="$pids $!"; done
        sleep 0.3
        for pid in $pids; do kill -1 $pid && echo killed || kill -1 $pid; done
        wait
    done
    """
    done = run(["dash", "-c", script], OPTIONS)
    assert "Interrupted" not in done.stderr
    assert done.stdout == "killed\n" * 15


IGNORED = """
import ctypes, os, select, signal
libc = ctypes.CDLL(None, use_errno=True)
tracing, wakes = '/sys/kernel/tracing/', os.pipe()
child = os.fork()
if not child:
    pipe, buffer = os.open(tracing + 'trace_pipe', os.O_RDONLY), ctypes.create_string_buffer(4096)
    libc.read(pipe, buffer, 4096)
    print(buffer.value[-6:], flush=True)
    poll = select.epoll()
    poll.register(wakes[0])
    print(libc.epoll_wait(poll.fileno(), buffer, 1, -1), flush=True)
    signal.signal(signal.SIGURG, lambda *_: None)
    print(libc.epoll_wait(poll.fileno(), buffer, 1, -1) if os.read(wakes[0], 1) else 0, ctypes.get_errno(), flush=True)
    os._exit(0)
def asleep():
    while open(f'/proc/{child}/stat').read().rpartition(')')[2].split()[0] != 'S': pass
def interrupt(*numbers):
    for number in numbers:
        asleep()
        os.kill(child, number)
    asleep()
interrupt(signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG)
open(tracing + 'trace_marker', 'w').write('hello')
interrupt(signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG)
os.write(wakes[1], b'1')
while not int(open(f'/proc/{child}/status').read().partition('SigCgt:')[2].split()[0], 16) >> 22 & 1: pass
interrupt(signal.SIGWINCH)
os.kill(child, signal.SIGURG)
os.wait()
"""


@pytest.mark.parametrize("options", [OPTIONS, OPTIONS[:-1]])
def test_a_signal_that_is_ignored_interrupts_nothing(run: Run, options: tuple[str, ...]) -> None:
    """The kernel stops who is traced for each signal, and ends such waits by that; one with a handler does end them."""
    done = run([sys.executable, "-c", IGNORED], options)
    assert (done.stdout, done.stderr) == ("b'hello\\n'\n1\n-1 4\n", "")


def test_a_call_is_seen_while_it_waits(run: Run, tmp_path: Path) -> None:
    script = """
    mkfifo $1/pipe
    cd /sys/kernel/tracing
    echo 'p:enters do_sys_openat2 path=+0(%si):string' >> kprobe_events
    echo 'r:leaves do_sys_openat2 result=$retval:s32' >> kprobe_events
    for event in enters leaves; do echo 'common_pid == 0' > events/kprobes/$event/filter; done
    (
        for event in enters leaves; do echo "common_pid == $BASHPID" > events/kprobes/$event/filter; done
        echo 1 > events/kprobes/enable
        exec 3< $1/pipe
        echo read
    ) &
    until grep -q 1 events/kprobes/enable; do :; done  # while trace is open for reading, that would be EBUSY
    until grep -q pipe trace; do :; done
    grep -o '\\(path=.*/\\|result=\\).*' trace | tail -n 1
    exec 4> $1/pipe
    wait
    grep -o '\\(path=.*/\\|result=\\).*' trace | grep -A 1 pipe
    """
    done = run(["bash", "-c", script, "bash", str(tmp_path)], OPTIONS)
    assert done.stderr == ""
    waiting, _, after = done.stdout.partition("read\n")
    assert re.fullmatch(r'path=".*/pipe"\n', waiting)
    assert re.fullmatch(r'path=".*/pipe"\nresult=\d+\n', after)


def test_a_thread_that_executes_takes_its_leaders_pid(run: Run) -> None:
    program = """
import os, threading
print(os.getpid(), flush=True)
threading.Thread(target=os.execv, args=("/bin/true", ["true"])).start()
threading.Event().wait()
"""
    script = """
    cd /sys/kernel/tracing
    echo 1 > events/sched/sched_process_exec/enable
    echo 1 > events/sched/sched_process_exit/enable
    "$0" -c "$1"
    echo 0 > events/enable
    grep -o 'sched_process.*' trace
    """
    done = run(["sh", "-c", script, sys.executable, program], OPTIONS)
    pid, *lines = done.stdout.splitlines()
    ours = [line for line in lines if f"pid={pid} " in line]
    assert re.fullmatch(rf"sched_process_exec: filename=\S+ pid={pid} old_pid={pid}", ours[0])
    assert re.fullmatch(rf"sched_process_exit: comm=\S+ pid={pid} prio=120", ours[1])
    assert re.fullmatch(rf"sched_process_exec: filename=/bin/true pid={pid} old_pid=(?!{pid})\d+", ours[2])
    assert ours[3:] == [f"sched_process_exit: comm=true pid={pid} prio=120"]


def test_who_is_followed_cannot_be_traced_by_another_one(run: Run) -> None:
    done = run([*KPROBE_SIM, "run", *OPTIONS, "--", "true"], OPTIONS)
    assert done.returncode == 125
    assert done.stderr.startswith("kprobe-sim: run: following callers needs ptrace(2): Operation not permitted")


def test_kprobe_sim_is_killed(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    """Its command ends with it, and so do those that wait in a call, or are stopped."""
    child = start(
        ["sh", "-c", "mkfifo $0; cat $0 & sleep 100 & kill -STOP $!; echo $!; cat $0", f"{tmp_path}/pipe"], OPTIONS
    )
    assert child.stdout is not None
    stopped = os.pidfd_open(int(child.stdout.readline()))
    child.kill()
    child.communicate(timeout=20)  # the pipes' ends: nobody holds them any more
    poller = select.poll()
    poller.register(stopped, select.POLLIN)
    assert poller.poll(20_000), "it hasn't ended"
    os.close(stopped)
