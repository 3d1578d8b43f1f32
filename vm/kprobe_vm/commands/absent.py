"""Explains why a command can't run in the guest, and how to install what it lacks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kprobe_vm.agent.process import ENVIRONMENT
from kprobe_vm.commands.copies import interpreter

if TYPE_CHECKING:
    from kprobe_vm.machine.machine import Machine


HEAD = 256  # bytes of a script that the kernel reads for its first line (BINPRM_BUF_SIZE)
LARGEST = 1 << 16  # bytes of a program in which its loader's name is looked for
# Common programs that busybox lacks and whose Debian package has another name.
PACKAGES = {
    "cc": "gcc",
    "chrt": "util-linux",
    "dig": "dnsutils",
    "ip": "iproute2",
    "ldd": "libc-bin",
    "perf": "linux-perf",
    "python": "python-is-python3",
    "setpriv": "util-linux",
    "ss": "iproute2",
    "tput": "ncurses-bin",
}
SAME = (
    *(
        "bash",
        "bc",
        "bpftrace",
        "bpftool",
        "curl",
        "dash",
        "file",
        "fio",
        "g++",
        "gawk",
        "gcc",
        "gdb",
        "git",
        "jq",
        "ksh",
    ),
    *("lsof", "ltrace", "make", "nano", "numactl", "perl", "python3", "ruby", "socat", "strace", "stress", "stress-ng"),
    *("sudo", "tcpdump", "trace-cmd", "valgrind", "vim", "zsh"),
)


def lacking(machine: Machine, command: str) -> str:
    """Return in one line what a command lacks in the guest and how to install it; "" if that isn't known."""
    files = machine.files
    place = _path_of(machine, command)
    if not place:
        package = _package(command)
        return f"the guest has only busybox's programs; --package {package} adds it" if package else ""
    with files.open(place, os.O_RDONLY) as file:
        head = file.read(LARGEST)
    if head.startswith(b"#!"):
        line = head[:HEAD].partition(b"\n")[0][2:]
        if line.endswith(b"\r"):
            return (
                f"the first line of {command} ends with CR, which the kernel takes for part of the interpreter's name"
            )
        words = [os.fsdecode(word) for word in line.split()]
        return _interpreter(machine, command, words) if words else ""
    loader = interpreter(head)
    if loader and not files.exists(loader.lstrip("/")):
        return f"{command} needs {loader}, which the guest lacks: link it statically, or add --package libc6"
    return ""


def _interpreter(machine: Machine, command: str, words: list[str]) -> str:
    program = words[0]
    if program.rpartition("/")[2] == "env" and machine.files.exists(program.lstrip("/")):
        named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if not named or _path_of(machine, named[0]):
            return ""
        program = named[0]
    elif machine.files.exists(program.lstrip("/")):
        return ""
    package = _package(program)
    remedy = f": --package {package} adds it" if package else ""
    return f"{command} is a script for {program}, which the guest lacks{remedy}"


def _path_of(machine: Machine, command: str) -> str:
    """Return the path of a command, relative to the guest's root; "" if it isn't there."""
    if "/" in command:
        places = [command.lstrip("/")]
    else:
        places = [f"{directory.lstrip('/')}/{command}" for directory in ENVIRONMENT["PATH"].split(":")]
    return next((path for path in places if machine.files.exists(path)), "")


def _package(program: str) -> str:
    name = program.rpartition("/")[2]
    return PACKAGES.get(name, name if name in SAME else "")
