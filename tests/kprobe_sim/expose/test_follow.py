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
                rf"bash-{shell} +\[000\] .* myfork: \(__do_sys_fork\+0x3a/0x60 <- kernel_clone\)", followed.stdout
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
