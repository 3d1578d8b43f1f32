"""What `--follow` reports of results, against what the kernel that ran the program gave it: tests/programs/calls.c.

The same holds on a guest: the probes of a real kernel see what the program says.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from .conftest import ROOT, Requires, Run

OPTIONS = ("--kernel", "6.1", "--activity", "none", "--follow")
SCRIPT = """
cd /sys/kernel/tracing
echo 'r:opened do_sys_openat2 ret=$retval:s64' >> kprobe_events
echo 'r:forked kernel_clone ret=$retval:s32' >> kprobe_events
echo 'p:ended do_exit code=%di:s64' >> kprobe_events
echo 1 > events/kprobes/enable
for i in execve execveat symlink chdir kill; do echo 1 > events/syscalls/sys_exit_$i/enable; done
echo 1 > events/sched/sched_process_exit/enable
cd $OLDPWD
CALLS
echo 0 > /sys/kernel/tracing/events/enable
echo ==
cat /sys/kernel/tracing/trace
"""
_SEEN = re.compile(
    r"^ *.*-(\d+) +\[\d+\] \S+ +[\d.]+: (?:(opened|forked): .* ret=(-?\d+)|ended: .* code=(\d+)|sys_(\w+) -> (0x\w+))$",
    re.MULTILINE,
)
_NAMES = {"opened": "open", "forked": "fork"}

Results = Mapping[tuple[int, str], list[int]]


@pytest.fixture(scope="module")
def program(requires: Requires, tmp_path_factory: pytest.TempPathFactory) -> Path:
    requires("gcc")
    found = tmp_path_factory.mktemp("calls") / "calls"
    source = ROOT / "tests" / "programs" / "calls.c"
    command = ["gcc", "-O1", "-Wall", "-Werror", "-Wno-unused-result", "-static", "-pthread"]
    subprocess.run([*command, str(source), "-o", str(found)], check=True)
    return found


def said(text: str) -> Results:
    """Return what the program said of each task's calls of one kind."""
    found = defaultdict(list)
    for line in text.splitlines():
        task, name, result = line.split()
        found[int(task), name].append(int(result))
    return ordered(found)


def seen(trace: str) -> Results:
    found = defaultdict(list)
    for task, function, result, code, call, value in _SEEN.findall(trace):
        if function:
            found[int(task), _NAMES[function]].append(int(result))
        elif code:
            found[int(task), "end"].append(int(code))
        else:
            number = int(value, 16)
            found[int(task), call].append(number - (number >> 63 << 64))
    return ordered(found)


def ordered(found: Mapping[tuple[int, str], list[int]]) -> Results:
    """Threads are reported as they come to speak, not as they were made."""
    return {key: sorted(values) if key[1] == "fork" else values for key, values in found.items()}


def test_results(run: Run, program: Path, tmp_path: Path) -> None:
    done = run(["sh", "-c", f"cd {tmp_path}; {SCRIPT.replace('CALLS', str(program))}"], OPTIONS)
    assert done.stderr == ""
    holds(done.stdout)


@pytest.mark.vm
def test_results_on_a_guest(program: Path) -> None:
    command = [sys.executable, "-m", "kprobe_vm", "-q", "run", "6.1", "--copy", f"{program}:/bin/calls", "--"]
    script = f"mkdir -p /tmp/calls; cd /tmp/calls; {SCRIPT.replace('CALLS', '/bin/calls')}"
    done = subprocess.run([*command, "sh", "-c", script], capture_output=True, text=True, timeout=110)
    assert done.stderr == ""
    holds(done.stdout)


def holds(output: str) -> None:
    """What the program said is what the probes saw."""
    text, _, trace = output.partition("==\n")
    expected, found = said(text), seen(trace)
    assert len(expected) > 60
    assert {key: found.get(key) for key in expected} == expected | {
        (task, "execve"): [0, *results] for (task, name), results in expected.items() if name == "execve" and results[0]
    }
    ends = re.findall(r"-(\d+) +\[.* sched_process_exit: comm=\S+ pid=(\d+) ", trace)
    assert all(task == pid for task, pid in ends)
    tasks = {task for task, name in expected if name == "end"}
    assert sorted(int(pid) for _, pid in ends if int(pid) in tasks) == sorted(tasks)
