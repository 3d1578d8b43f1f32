"""The shell commands of the documents, as typed there, in a real terminal: bash inside `kprobe-sim run`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from kprobe_sim.scenarios.replays.listing import SEEDS, find

from .conftest import environment

TRACING = "/sys/kernel/debug/tracing"
EVENT = f"{TRACING}/events/kprobes/doforkprobe"
ARGUMENTS = "clone_flags=%ax stack_start=%dx regs=%cx parent_tidptr=+4($stack) child_tidptr=+8($stack)"
BASH = ["bash", "--norc", "--noprofile", "--noediting"]
Say = Callable[[str], str]
Shell = Callable[[str, str], Say]


@pytest.fixture
def shell(can_mount: None, tmp_path: Path) -> Iterator[Shell]:
    """Start bash on a kernel, with the activity of a listing; what that returns gives what a command prints there."""
    children: list[pexpect.spawn[str]] = []

    def start(kernel: str, listing: str) -> Say:
        activity = tmp_path / "activity.toml"
        text = (SEEDS / listing / "activity.toml").read_text()
        activity.write_text(f"repeat = true\n{text}")
        child = pexpect.spawn(
            sys.executable,
            ["-m", "kprobe_sim.cli", "run", "--kernel", kernel, "--activity", str(activity), "--", *BASH],
            env={**environment(), "PS1": "ready> ", "PS2": "more> ", "TERM": "dumb", "LC_ALL": "C"},
            cwd=str(tmp_path),
            encoding="utf-8",
            timeout=30,
            dimensions=(60, 400),
        )
        children.append(child)
        child.expect_exact("ready> ")

        def say(command: str) -> str:
            *parts, last = command.split("\n")
            for part in parts:
                child.sendline(part)
                child.expect_exact(f"{part}\r\nmore> ")
            child.sendline(last)
            child.expect_exact(f"{last}\r\n")
            child.expect_exact("ready> ")
            return (child.before or "").replace("\r\n", "\n")

        return say

    yield start
    for child in children:
        child.sendline("exit 0")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0


@pytest.mark.slow
def test_the_life_of_a_kprobe(shell: Shell, tmp_path: Path) -> None:
    """Wind River's use case, its four steps and its examples, in its order."""
    say = shell("4.4-wind-river", "wind-river/05-trace")
    # step 1; debugfs is mounted already
    assert say("cat /proc/sys/kernel/ftrace_enabled") == "1\n"
    assert say("echo 1 > /proc/sys/kernel/ftrace_enabled") == ""
    assert say(f"echo > {TRACING}/trace") == ""
    # step 2; in single quotes the page's backslashes would be part of the definition, and its first line end at one
    as_printed = (
        "echo 'p:doforkprobe _do_fork clone_flags=%ax stack_start=%dx \\\n"
        "        regs=%cx parent_tidptr=+4($stack) child_tidptr=+8($stack)' \\\n"
        f"        >> {TRACING}/kprobe_events"
    )
    assert say(as_printed) == "bash: echo: write error: Invalid argument\n"
    assert say(f"echo 'p:doforkprobe _do_fork {ARGUMENTS}' >> {TRACING}/kprobe_events") == ""
    assert say(f"cat {TRACING}/kprobe_events") == f"p:kprobes/doforkprobe _do_fork {ARGUMENTS}\n"
    assert modes(say(f"ls -l {TRACING}/events/kprobes/")) == {
        "doforkprobe": "drwxr-xr-x",
        "enable": "-rw-r--r--",
        "filter": "-rw-r--r--",
    }
    assert modes(say(f"ls -l {EVENT}/")) == {
        "enable": "-rw-r--r--",
        "filter": "-rw-r--r--",
        "format": "-r--r--r--",
        "id": "-r--r--r--",
    }
    # step 3
    assert say(f"cat {EVENT}/enable") == "0\n"
    assert say(f"echo 1 > {EVENT}/enable") == ""
    assert say(until_hit(8)) == ""
    name, hits, missed = say(f"cat {TRACING}/kprobe_profile").split()
    assert (name, int(hits) >= 8, missed) == ("doforkprobe", True, "0")
    assert say(f"echo 1 > {TRACING}/tracing_on") == ""
    shows(say(f"cat {TRACING}/trace"), find("wind-river", "05-trace").expected)
    # step 4
    assert say(f"echo 0 > {EVENT}/enable") == ""
    assert say(f"echo 0 > {TRACING}/tracing_on") == ""
    assert say("echo > '-:doforkprobe' >> kprobe_events") == ""  # as printed: the text is the name of a file
    assert (tmp_path / "-:doforkprobe").read_bytes() == b""
    assert say(f"cat {TRACING}/kprobe_events") == f"p:kprobes/doforkprobe _do_fork {ARGUMENTS}\n"
    assert say(f"echo '-:doforkprobe' >> {TRACING}/kprobe_events") == ""
    assert say(f"cat {TRACING}/kprobe_events {TRACING}/kprobe_profile") == ""
    gone = f"ls: cannot access '{TRACING}/events/kprobes': No such file or directory\n"
    assert say(f"ls {TRACING}/events/kprobes") == gone
    # examples
    opened = "p:myprobe do_sys_open dfd=%ax filename=%dx flags=%cx mode=+4($stack)"
    assert say(f"echo '{opened}' > {TRACING}/kprobe_events") == ""
    for line in (
        "r:myretprobe do_sys_open $retval",
        "r:fork_retprobe _do_fork $retval",
        "r:do_dentry_openprobe do_dentry_open $retval",
    ):
        assert say(f"echo '{line}' >> {TRACING}/kprobe_events") == ""
    assert say(f"cat {TRACING}/kprobe_events").splitlines() == [
        "p:kprobes/myprobe do_sys_open dfd=%ax filename=%dx flags=%cx mode=+4($stack)",
        "r:kprobes/myretprobe do_sys_open arg1=$retval",
        "r:kprobes/fork_retprobe _do_fork arg1=$retval",
        "r:kprobes/do_dentry_openprobe do_dentry_open arg1=$retval",
    ]
    assert say(f"echo > {TRACING}/kprobe_events") == ""
    assert say(f"cat {TRACING}/kprobe_events") == ""
    assert say(f"ls {TRACING}/events/kprobes") == gone


def test_the_commands_of_the_patch(shell: Shell) -> None:
    say = shell("2009", "tracer-2009/02-trace")
    define, define_return, clear, show = find("tracer-2009", "02-trace").commands
    assert say(define) == ""
    assert say(define_return) == ""
    form = find("tracer-2009", "01-format")
    assert say(form.commands[-1]) == form.expected
    assert say(until_hit(8)) == ""
    assert say(clear) == ""
    shows(say(show), find("tracer-2009", "02-trace").expected)
    assert say(f"cat {TRACING}/kprobe_events") == ""


def test_the_commands_of_the_article(shell: Shell) -> None:
    say = shell("2009-v13", "lwn-2009/01-trace")
    define, define_return, show = find("lwn-2009", "01-trace").commands
    assert say(define) == ""
    assert say(define_return) == ""
    assert say(until_hit(2)) == ""
    shows(say(show), "# tracer: nop\n#\n" + find("lwn-2009", "01-trace").expected)


def modes(listed: str) -> dict[str, str]:
    """Return the modes of files by their names, from what ls -l printed."""
    head, *rows = listed.splitlines()
    assert head == "total 0"
    return {row.split()[-1]: row.split()[0] for row in rows}


def until_hit(times: int) -> str:
    """Return the command that waits until all probes were hit so often."""
    return f"until awk '$2 < {times} {{ exit 1 }}' {TRACING}/kprobe_profile; do sleep 0.1; done"


def shows(shown: str, expected: str) -> None:
    """Hold a trace to a listing: its headings, and its lines one after the other, wherever the machine had begun.

    The times, and how many lines and CPUs there are, aren't the listing's.
    """
    counts = re.compile(r"(?m)^# entries-in-buffer/entries-written: \d+/\d+   #P:\d+$")
    stamp = re.compile(r"(?m)^(.*?\](?: \S{4})?) +\d+\.\d{6}: ")
    found, wanted = (stamp.sub(r"\1 ", counts.sub("", text)).splitlines() for text in (shown, expected))
    head = [line for line in wanted if line.startswith("#")]
    lines = [line for line in wanted if line and not line.startswith("#")]
    assert [line for line in found if line.startswith("#")] == head
    assert lines
    assert any(found[at : at + len(lines)] == lines for at in range(len(found))), shown
