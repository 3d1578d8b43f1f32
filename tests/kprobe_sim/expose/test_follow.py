"""`kprobe-sim run --follow`: what the programs inside do is what the simulated machine does."""

from __future__ import annotations

import re
import subprocess

import pytest

from .conftest import Run

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
