"""Records of kernels before 5.10 other than a plain open's: offsets, missed returns, odd names, user stacks, `bin`."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kprobe_sim import SimulatedKernel, Task

from .recorded_on import recorded_on

FIXTURES = Path(__file__).parents[2] / "fixtures"
TEXTS = {series: FIXTURES / "text" / series for series in ("3.2", "3.13", "4.4", "4.19")}
TEXTS |= {series: FIXTURES / "early" / series for series in ("4.9", "4.14", "4.19.108", "5.4")}
SERIES = ("3.2", "3.13", "4.4", "4.9", "4.14", "4.19", "4.19.108", "5.4")
# a task's name is 16 wide, and may hold a newline, like a string
RECORD = re.compile(
    rb"(?P<comm>.{16})-(?P<pid>\d+) +\[(?P<cpu>\d+)\] (?P<flags>[^ ]{4})? +(?P<s>\d+)\.(?P<us>\d+): "
    rb"(?P<event>\w+): (?P<rest>[^\n]*)\n(?P<stack>(?: => [^\n]*\n)*)",
    re.DOTALL,
)
USER_STACK = re.compile(rb"^.* <user stack trace>\n =>  <([0-9a-f]{16})>\n", re.MULTILINE)
NEED = {"N": 0x24, "n": 4, "p": 0x20, ".": 0}  # to reschedule, for the task or for the preempt count


class Hit(NamedTuple):
    event: str
    task: Task
    cpu: int
    at: int
    rest: bytes
    caller: str
    context: tuple[int, int] | None


def hits(text: bytes) -> Iterator[Hit]:
    body = re.sub(rb"\A(#.*\n)*", b"", text)
    for match in RECORD.finditer(body):
        at = (int(match["s"]) * 1_000_000 + int(match["us"])) * 1000
        caller = re.match(rb"\((\S+) <- ", match["rest"])
        flags = (match["flags"] or b"").decode()
        context = None
        if flags:
            kind = {"h": 8, "s": 16, "H": 24, ".": 0}[flags[2]]
            context = ((flags[0] == "d") | NEED[flags[1]] | kind, int(flags[3].replace(".", "0")))
        name = b"\0" if match["comm"].strip() == b"" else match["comm"].lstrip(b" ")
        task = Task(int(match["pid"]), name)
        yield Hit(
            match["event"].decode(),
            task,
            int(match["cpu"]),
            at,
            match["rest"],
            caller[1].decode() if caller else "",
            context,
        )


def recorded(series: str, name: str) -> bytes:
    return (TEXTS[series] / f"{name}.trace").read_bytes()


def shown(text: bytes) -> list[bytes]:
    """Return what is compared: all but the counts in the header, which a recording that was cut has more of."""
    return [line for line in text.split(b"\n") if not line.startswith(b"# entries-in-buffer")]


def enable_only(kernel: SimulatedKernel, event: str, group: str = "kprobes") -> None:
    kernel.tracefs.write("set_event", f"!{group}:".encode())
    kernel.tracefs.write(f"events/{group}/{event}/enable", b"1")


@pytest.mark.parametrize("series", SERIES[1:])
def test_offsets_and_many_functions(series: str) -> None:
    text = recorded(series, "11_offsets")
    kernel = recorded_on(series, cpus=1 if series == "4.9" else 2)
    names = set()
    for hit in hits(text):
        place = re.match(rb"\((\w+)\+0x([0-9a-f]+)/", hit.rest)
        function = hit.rest.split(b"<- ")[1].rstrip(b")").decode() if hit.caller else place[1].decode()  # type: ignore[index]
        offset = 0 if hit.caller else int(place[2], 16)  # type: ignore[index]
        if hit.event not in names:
            kind = "r" if hit.caller else "p"
            kernel.tracefs.write("kprobe_events", f"{kind}:{hit.event} {function}+{offset}\n".encode())
            names.add(hit.event)
        enable_only(kernel, hit.event)
        words = {"task": hit.task, "cpu": hit.cpu, "at": hit.at, "context": hit.context}
        if hit.caller:
            kernel.call(function, caller=hit.caller, duration=0, **words)  # type: ignore[arg-type]
        else:
            kernel.call(function, returns=None, offset=offset, **words)  # type: ignore[arg-type]
    assert len(names) >= 8
    assert shown(kernel.tracefs.read("trace")) == shown(text)


@pytest.mark.parametrize("series", ["3.13", "4.4", "4.19"])
def test_the_returns_that_werent_missed(series: str) -> None:
    text = recorded(series, "12_missed")
    kernel = recorded_on(series, cpus=1 if series == "4.9" else 2)
    names = {hit.event for hit in hits(text)}
    for name in names:
        kernel.tracefs.write("kprobe_events", f"r:{name} schedule\n".encode())
        kernel.tracefs.write(f"events/kprobes/{name}/enable", b"1")
    for hit in hits(text):
        kernel.call(
            "schedule", task=hit.task, cpu=hit.cpu, at=hit.at, caller=hit.caller, duration=0, context=hit.context
        )
    assert kernel.tracefs.read("trace") == text  # which is whole


def probed(kernel: SimulatedKernel, series: str) -> None:
    """Define ent and ret as they were for the recordings."""
    kind = "x32" if series in ("4.9", "4.14", "4.19", "4.19.108", "5.4") else "u32"
    kernel.tracefs.write("kprobe_events", f"p:ent do_sys_open dfd=%di:s32 s=+0(%si):string flags=%dx:{kind}\n".encode())
    kernel.tracefs.write("kprobe_events", b"r:ret do_sys_open ret=$retval:s32 raw=$retval\n")


def opened(kernel: SimulatedKernel, hit: Hit, task: Task) -> None:
    """Play a record of ent or ret."""
    enable_only(kernel, hit.event)
    words = {"task": task, "cpu": hit.cpu, "at": hit.at, "context": hit.context}
    if hit.event == "ent":
        found = re.fullmatch(rb'\(\S+\) dfd=(-?\d+) s="(.*)" flags=(\w+)', hit.rest)
        assert found is not None
        args = (int(found[1]) & 0xFFFFFFFF, found[2], int(found[3], 16))
        kernel.call("do_sys_open", args=args, returns=None, **words)  # type: ignore[arg-type]
    else:
        value = int(hit.rest.rpartition(b"raw=")[2], 16)
        kernel.call("do_sys_open", returns=value, caller=hit.caller, duration=0, **words)  # type: ignore[arg-type]


def opens(kernel: SimulatedKernel, series: str, text: bytes, stacks: list[int] | None = None) -> None:
    """Play the records of ent and ret."""
    probed(kernel, series)
    for number, hit in enumerate(hits(text)):
        opened(kernel, hit, hit.task if stacks is None else hit.task._replace(user_stack=(stacks[number],)))


@pytest.mark.parametrize("series", SERIES[1:])
def test_names_with_newlines_and_control_characters(series: str) -> None:
    text = recorded(series, "17_comm_newline")
    kernel = recorded_on(series, cpus=1 if series == "4.9" else 2)
    opens(kernel, series, text)
    assert len(list(hits(text))) == (24 if series in ("4.9", "4.14", "4.19.108", "5.4") else 12)
    assert kernel.tracefs.read("trace") == text  # which is whole


@pytest.mark.parametrize("series", SERIES)
def test_user_stacks(series: str) -> None:
    """A stack's record is some microseconds later than its event's: that time isn't compared."""
    text = recorded(series, "03_opt_userstacktrace")
    frames = [int(frame, 16) for frame in USER_STACK.findall(text)]
    kernel = recorded_on(series, cpus=1 if series == "4.9" else 2)
    kernel.tracefs.write("trace_options", b"userstacktrace")
    opens(kernel, series, USER_STACK.sub(b"", text), frames)

    def unstamped(shown_text: bytes) -> list[bytes]:
        return shown(re.sub(rb"\d+\.\d+: <user", b"<user", shown_text))

    assert len(frames) >= 4
    assert unstamped(kernel.tracefs.read("trace")) == unstamped(text)


@pytest.mark.parametrize("series", SERIES)
def test_binary_entries_but_for_ids(series: str) -> None:
    text = recorded(series, "03_opt_bin")
    form = re.compile(rb"(.{4})(.{4})(.{8})type: \d+\n", re.DOTALL)
    kernel = recorded_on(series, cpus=1 if series == "4.9" else 2)
    kernel.tracefs.write("kprobe_events", b"p:ent do_sys_open\n")
    kernel.tracefs.write("trace_options", b"bin")
    kernel.tracefs.write("events/kprobes/ent/enable", b"1")
    body = re.sub(rb"\A(#[^\n]*\n)*", b"", text)
    found = [struct.unpack("<iiq", b"".join(match.groups())) for match in form.finditer(body)]
    assert len(found) >= 7
    for pid, cpu, stamp in found:
        kernel.call("do_sys_open", task=Task(pid, "any"), returns=None, cpu=cpu, at=stamp)
    numbers = re.compile(rb"type: \d+")
    assert numbers.sub(b"", kernel.tracefs.read("trace")).split(b"|\n")[-1] == numbers.sub(b"", text).split(b"|\n")[-1]
