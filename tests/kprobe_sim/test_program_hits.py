"""Hits of uprobes: recorded traces of programs played again, and what a program's call leaves.

fixtures/uprobes is of a program that was built for it, of which five calls of one function were traced.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from kprobe_sim import SimulatedKernel, Task

FIXTURES = Path(__file__).parents[2] / "fixtures"
REC = "/bin/rec"
ENTRY = "p:um /bin/rec:0x32ff arg1=%di arg2=%si ax=%ax:x64\n"
RETURN = "r:umr /bin/rec:0x32ff arg1=$retval\n"
LINE = re.compile(
    rb"(?P<comm>.{16})-(?P<pid>\d+) +\[(?P<cpu>\d+)\] (?P<flags>\S+) +(?P<s>\d+)\.(?P<us>\d+): (?P<event>\w+): "
    rb"\(.*\)(?: arg1=(?P<di>\w+) arg2=(?P<si>\w+) ax=(?P<ax>\w+))?"
)
CAT = Task(42, "cat")
SERIES = ("5.10", "6.1", "6.12", "7.2")
PROG = "/prog"
TARGET, ANSWER = 0x1615, 0x4A40D0
HOSTNAME, EMPTY, LONG = 0x480000, 0x480100, 0x4B0000
MEMORY = {
    0x400000 + TARGET: b"\xcc\x90\xf6\xc2",  # the breakpoint, and what the program has after it
    ANSWER: b"forty-two\0",
    HOSTNAME: b"/etc/hostname\0",
    EMPTY: b"\0\2\0\45",
    LONG: b"x" * 4999 + b"\0",
}


class Made(NamedTuple):
    """A call of the program's function: its arguments, the last two on the stack, and where it returns to."""

    dfd: int
    path: int
    number: int
    bad: int
    stacked: tuple[int, int]
    caller: int


CALLS = (
    Made(-100, HOSTNAME, 1, 0, (7, 8), 0x401686),
    Made(3, EMPTY, 2, 0x10, (0x77, 0x88), 0x4016B4),
    Made(3, 0xFFFFFFFF81000000, 3, 0xFFFFFFFF81000000, (7, 8), 0x4016E5),
    Made(3, 0xFFFF800000000000, 3, 0x7FFFFFFFF000, (7, 8), 0x401718),
    Made(3, LONG, 4, 8, (7, 8), 0x401743),
)


def machine(series: str, *definitions: str) -> SimulatedKernel:
    """Return a kernel with a program and probes on it, each enabled."""
    kernel = SimulatedKernel(series, cpus=2)
    kernel.files.add(REC)
    for definition in definitions:
        kernel.tracefs.write("uprobe_events", definition.encode())
    kernel.tracefs.write("events/uprobes/enable", b"1")
    return kernel


def shown(kernel: SimulatedKernel) -> list[str]:
    lines = kernel.tracefs.read("trace").decode().splitlines()
    return [line.split(": ", 1)[1] for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("series", ["4.4", "4.19", "5.10", "6.1", "6.12", "7.2"])
def test_hits_as_they_were_recorded(series: str) -> None:
    """4.4 has only the return probe."""
    text = (FIXTURES / "text" / series / "16_uprobe2.trace").read_bytes()
    lines = [match for line in text.splitlines() if (match := LINE.match(line))]
    kernel = machine(series, *([] if series == "4.4" else [ENTRY]), RETURN)
    first, last = lines[0], lines[-1]
    at, end = ((int(one["s"]) * 1_000_000 + int(one["us"])) * 1000 for one in (first, last))
    registers = {name: int(first[name] or "0", 16) for name in ("di", "si", "ax")}
    kernel.program_call(
        REC,
        0x32FF,
        task=Task(int(first["pid"]), first["comm"].lstrip()),
        registers=registers,
        caller=0x404274,
        cpu=int(first["cpu"]),
        at=at,
        duration=end - at,
    )
    assert len(lines) == (1 if series == "4.4" else 2)
    # by chance a reschedule was pending at one
    assert kernel.tracefs.read("trace").replace(b"dN..", b"d...") == text.replace(b"dN..", b"d...")


def program(series: str) -> SimulatedKernel:
    """Return a kernel with the recorded program and its probes."""
    kernel = SimulatedKernel(series, cpus=1)
    kernel.files.add(PROG, 800_000)
    for line in (FIXTURES / "uprobes" / "definitions").read_text().splitlines():
        kernel.tracefs.write("uprobe_events", line.encode())
    return kernel


def enable(kernel: SimulatedKernel, *events: str) -> None:
    for event in events:
        kernel.tracefs.write(f"events/uprobes/{event}/enable", b"1")


def play(kernel: SimulatedKernel, text: str) -> None:
    """Make the calls; a trace tells where the stack was, and what was far above it."""
    stacks = [int(word, 16) for word in re.findall(r" sp=(\w+) ip=0x401615", text)] or [0x7FFD00000000] * 5
    far = [int(word, 16) for word in re.findall(r" far=(\w+)", text)] or [0] * 5
    for made, stack, word in zip(CALLS, stacks, far, strict=True):
        above = {stack: struct.pack("<3Q", made.caller, *made.stacked), stack + 24000: struct.pack("<Q", word)}
        kernel.program_call(
            PROG,
            TARGET,
            task=Task(97, "prog"),
            registers={"di": made.dfd, "si": made.path, "dx": made.number, "cx": made.bad, "sp": stack},
            memory=MEMORY | above,
            caller=made.caller,
            returns=ANSWER if made.number % 2 else -2,
        )


def lines(text: str) -> list[str]:
    """Return the records without pids and times, and without a need to reschedule, which comes by chance on 5.10."""
    begin = re.compile(r" +prog-\d+ +\[000\] (?:d[N.])?(\S+) +\d+\.\d{6}:")
    return [begin.sub(r"\1", line) for line in text.splitlines() if not line.startswith("#") and line]


@pytest.mark.parametrize("series", SERIES)
def test_calls_of_a_program_as_they_were_recorded(series: str) -> None:
    """Strings that are empty, too long or not there, a word of the stack, a place in the file, and returns."""
    text = (FIXTURES / "uprobes" / f"{series}.trace").read_text()
    kernel = program(series)
    enable(kernel, "a", "b", "rb", "ra")
    play(kernel, text)
    assert lines(kernel.tracefs.read("trace").decode()) == lines(text)
    assert len(lines(text)) == 20
    assert kernel.tracefs.read("uprobe_profile") == (FIXTURES / "uprobes" / f"{series}.profile").read_bytes()


@pytest.mark.parametrize("series", SERIES)
def test_what_was_enabled_last_is_hit_first(series: str) -> None:
    text = (FIXTURES / "uprobes" / f"{series}.enabled.trace").read_text()
    kernel = program(series)
    enable(kernel, "a", "b")
    kernel.tracefs.write("events/uprobes/a/enable", b"0")
    enable(kernel, "a")
    play(kernel, text)
    assert lines(kernel.tracefs.read("trace").decode()) == lines(text)
    assert [line.split()[1] for line in lines(text)][:2] == ["a:", "b:"]


@pytest.mark.parametrize("series", SERIES)
def test_a_filter_sees_the_hits(series: str) -> None:
    text = (FIXTURES / "uprobes" / f"{series}.filter.trace").read_text()
    kernel = program(series)
    kernel.tracefs.write("events/uprobes/b/filter", b"n == 3")
    enable(kernel, "b")
    play(kernel, text)
    assert lines(kernel.tracefs.read("trace").decode()) == lines(text)
    assert len(lines(text)) == 2


def test_arguments_by_the_calling_convention() -> None:
    kernel = machine("6.12", "p:entry /bin/rec:0x100 name=+0(%di):string b=%si last=$stack1\n")
    kernel.program_call(REC, 0x100, task=CAT, args=("/tmp/x", 2, 3, 4, 5, 6, 7), base=0x555555554000)
    assert shown(kernel) == ['entry: (0x555555554100) name="/tmp/x" b=0x2 last=0x7']


def test_what_is_done_within_comes_between() -> None:
    kernel = machine("6.1", ENTRY, RETURN)
    kernel.tracefs.write("kprobe_events", b"p:k vfs_read")
    kernel.tracefs.write("events/kprobes/k/enable", b"1")
    kernel.program_call(REC, 0x32FF, task=CAT, within=lambda: kernel.call("vfs_read", task=CAT), caller=0x404274)
    assert [line.split(":")[0] for line in shown(kernel)] == ["um", "k", "umr"]


def test_what_does_not_return_is_counted_and_not_shown() -> None:
    kernel = machine("6.1", RETURN)
    kernel.program_call(REC, 0x32FF, task=CAT, returns=None)
    assert shown(kernel) == []
    assert kernel.tracefs.read("uprobe_profile").split() == [b"/bin/rec", b"umr", b"1"]


def test_one_file_by_two_names() -> None:
    """A probe stands in the file, whatever path leads there."""
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("uprobe_events", b"p:cat /bin/cat:0x1000\n")
    kernel.tracefs.write("events/uprobes/cat/enable", b"1")
    kernel.program_call("/bin/busybox", 0x1000, task=CAT)
    kernel.program_call("/usr/bin/cat", 0x1000, task=CAT)
    assert shown(kernel) == ["cat: (0x401000)"]


def test_an_event_that_is_off_or_in_an_instance_alone() -> None:
    kernel = machine("6.1", ENTRY)
    kernel.tracefs.mkdir("instances/i")
    kernel.tracefs.write("events/uprobes/um/enable", b"0")
    kernel.program_call(REC, 0x32FF, task=CAT)
    kernel.tracefs.write("instances/i/events/uprobes/um/enable", b"1")
    kernel.program_call(REC, 0x32FF, task=CAT)
    assert shown(kernel) == []
    assert kernel.tracefs.read("instances/i/trace").count(b" um: ") == 1
    assert kernel.tracefs.read("uprobe_profile").split()[-1] == b"1"


def test_letters_of_a_hit() -> None:
    """With preemption one is taken from a depth of 0, which leaves all bits; `context` says otherwise."""
    kernel = machine("6.1", ENTRY)
    assert kernel.profile.preemption
    kernel.program_call(REC, 0x32FF, task=CAT, returns=None)
    kernel.program_call(REC, 0x32FF, task=CAT, returns=None, context=(1, 0))
    assert re.findall(rb"\[000\] (\S+)", kernel.tracefs.read("trace")) == [b"DNZff", b"d...."]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"path": "/bin/no_such"}, "no file '/bin/no_such' in this machine: add it with files.add()"),
        ({"path": "/tmp"}, "'/tmp' is no program: it isn't a regular file"),
        ({"cpu": 2}, "no CPU 2: this kernel has 2"),
        ({"registers": {"rdi": 1}}, "no register 'rdi': the kernel's names are r15"),
    ],
)
def test_what_there_is_not(words: dict[str, object], said: str) -> None:
    kernel = machine("6.1", ENTRY)
    with pytest.raises(ValueError, match=re.escape(said)):
        kernel.program_call(**{"path": REC, "offset": 0x32FF, **words})  # type: ignore[arg-type]
