"""trace-cmd and a C program on libtracefs, unmodified, inside `kprobe-sim run`; the table: docs/evidence/programs.md.

The programs come from Debian's packages, fetched when the tests run; they aren't part of this project.  What is
expected here is what the guest with the same kernel says to the same commands.
"""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from .conftest import ROOT, Lacks, Requires, load

programs = load(ROOT / "tools" / "docs" / "programs.py")


@pytest.fixture(scope="session")
def place(can_mount: None, requires: Requires, lacks: Lacks, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The programs, unpacked."""
    requires("apt-get", "dpkg-deb", "gcc")
    found = programs.UnpackedPrograms(tmp_path_factory.mktemp("programs"))
    try:
        found.fetch()
    except subprocess.CalledProcessError as error:
        lacks("Debian's archive", why=(error.stderr or b"").decode().strip())
    return found


def said(place: Any, line: str, kernel: str = "6.1") -> str:
    """Return what a command says on the mount, without times, pids and sizes."""
    return programs.on_the_mount(programs.Command("", line, "", ()), place, kernel)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_trace_cmd_records_probes_and_static_events(place: Any, kernel: str) -> None:
    # a command that ends before trace-cmd has begun to read the buffer is not recorded: this one goes on until a page
    # of events has been read, as no more than a page is waited for
    command = "sh -c 'until cat /etc/hostname && [ -s trace.dat.cpu0 ]; do :; done'"
    knobs = "cd /sys/kernel/tracing; echo 0 > buffer_percent; echo 4096 > saved_cmdlines_size; cd - > /dev/null; "
    line = f"PROBE; {knobs}trace-cmd record -e kprobes ONLY -e sched:sched_process_exec {command} > /dev/null 2>&1; "
    text = said(place, line + "trace-cmd report | tail -n +2", kernel)
    lines = [" ".join(one.replace("[000] TIME: ", "").split()) for one in text.splitlines() if "TIME" in one]
    lines = [re.sub(r"\(\w+\)", "()", one) for one in lines]
    assert lines[:3] == [
        "sh-PID sched_process_exec: filename=/bin/sh pid=PID old_pid=PID",
        "cat-PID sched_process_exec: filename=/bin/cat pid=PID old_pid=PID",
        'cat-PID myopen: () path="/etc/hostname"',
    ]
    assert len(lines) > 20
    assert lines[3:] == lines[1:3] * ((len(lines) - 3) // 2)


@pytest.mark.slow
def test_trace_cmd_report_says_what_the_trace_says(place: Any) -> None:
    """Raw pages, decoded by trace-cmd, against the text of the same events."""
    line = (
        "trace-cmd start -e task -e sched:sched_process_exit -e raw_syscalls:sys_exit; cat /etc/hostname > /dev/null; "
        "trace-cmd stop; grep -v '^#' /sys/kernel/tracing/trace; echo ==; trace-cmd extract > /dev/null; "
        "trace-cmd report | tail -n +2"
    )
    text, _, report = said(place, line).partition("==\n")
    ours = [re.sub(r" \S{5} TIME:", " TIME:", one).split() for one in text.splitlines()]
    # plug-ins of libtraceevent show some events in their own way
    theirs = [one.split() for one in report.splitlines() if "TIME" in one]
    assert len(ours) > 20
    assert [one[:4] for one in ours] == [one[:4] for one in theirs]


@pytest.mark.slow
def test_trace_cmd_leaves_nothing(place: Any) -> None:
    line = "trace-cmd record -e sched true > /dev/null 2>&1; trace-cmd reset; trace-cmd stat"
    assert said(place, line).splitlines()[:3] == ["", "Events:", " All disabled"]


def test_trace_cmd_finds_the_simulated_machine(place: Any) -> None:
    assert said(place, "trace-cmd list -t; trace-cmd list -e '^task:'; trace-cmd list -f '^do_sys_openat'") == (
        "blk mmiotrace function_graph function nop\ntask:task_newtask\ntask:task_rename\ndo_sys_openat2\n"
    )


def test_a_client_of_libtracefs(place: Any) -> None:
    assert said(place, "client").splitlines() == [
        "at /sys/kernel/tracing",
        "systems: 87, first maple_tree",
        "tracers: 4, first blk",
        "events of sched: 27, first sched_kthread_stop",
        "probe: 0",
        "return probe: 0",
        "bad probe: -1 Success",
        "] trace_kprobe: error: Invalid register name",
        "  Command: p:mine/bad do_sys_openat2 path=+0(%zz):string",
        "                                             ^instance client: new",
        "clock local",
        "filter: 1",
        "enable: 0 0",
        "cpu 0 task: sched_process_exec: filename=/bin/cat pid=PID old_pid=PID",
        'cpu 0 task: open: (ffffffff813485a0) path="/etc/hostname" flags=0x8000',
        "iterated: 0",
        'filter is path ~ "*hostname"',
        "disable: 0",
        "p:mine/open do_sys_openat2 path=+0(%si):string flags=+0(%dx):x64",
        "r10:mine/opened do_sys_openat2 result=$retval:s32",
        "destroy: 0",
        "clear: 0",
    ]


def test_what_mounts_for_itself_does_not_reach_the_machines_own(place: Any) -> None:
    """trace-cmd mounts a tracefs where it finds none; the kernel refuses that to who is inside."""
    line = "; ".join(
        f"{command} 2> /dev/null; echo $?"
        for command in ("mount -t tracefs none .", "umount /sys/kernel/tracing", "mount -t debugfs none .")
    )
    assert [one for one in said(place, line).splitlines() if one.isdigit()] == ["32", "32", "32"]


def test_the_table_has_each_command_once() -> None:
    lines = [command.line for command in programs.commands()]
    assert len(lines) == len(set(lines))
    page = (ROOT / "docs" / "evidence" / "programs.md").read_text()
    missing = [line for line in lines if f"| `{line.replace('|', chr(92) + '|')}` |" not in page]
    assert missing == []
    assert "not explained" not in page
