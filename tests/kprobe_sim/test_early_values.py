"""Values of all types as kernels before 5.10 recorded them: the same calls give the same text, but for the times.

What a call's registers, stack and memory held is read off the probes that show them whole (t_none, t_u64, t_stk,
t_ustr2, t_mem); all others must agree.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel, Task

from .recorded_on import recorded_on

TEXTS = Path(__file__).parents[2] / "fixtures" / "text"
SERIES = ("3.2", "3.13", "4.4", "4.19")
LINE = re.compile(rb"( *(.{1,16}?)-(\d+) +\[(\d+)\] (?:\S{4} )?) +\d+\.\d+: (\w+): (.*)", re.DOTALL)


def events(text: bytes) -> list[re.Match[bytes]]:
    """Return what was recorded, a match for each event: a newline in a string is no end of one."""
    whole = re.sub(rb"^ +(\S.*?-\d+ +\[)", rb"\0\1", text, flags=re.MULTILINE)
    found = [LINE.fullmatch(part) for part in re.sub(rb"^#.*\n", b"", whole, flags=re.MULTILINE).split(b"\0")[1:]]
    assert all(found)
    return [match for match in found if match]


def calls(text: bytes) -> list[dict[bytes, bytes]]:
    """Return the text of each whole call's events by their names: the last was cut."""
    each: list[dict[bytes, bytes]] = [{}]
    for match in events(text):
        each[-1][match[5]] = match[6]
        each[-1] |= {b"task": match[2], b"pid": match[3], b"cpu": match[4]}
        if match[5].startswith(b"r_"):
            each.append({})
    return each[:-1]


def value(text: bytes, name: str) -> int:
    found = re.search(rb"\b%b=(?:0x)?([0-9a-f]+)" % name.encode(), text)
    assert found is not None
    return int(found[1], 16)


def play(kernel: SimulatedKernel, call: dict[bytes, bytes]) -> None:
    none, stack = call[b"t_none"], call[b"t_stk"]
    strings = re.fullmatch(rb'.* a="(.*)" b=".*" c=(.*)\n', call[b"t_ustr2"], re.DOTALL)
    assert strings is not None
    path = value(none, "arg2")
    memory = {path: strings[1] + b"\0"}
    if strings[2] not in (b'""', b"(fault)"):
        memory[path + 1000] = strings[2][1:-1] + b"\0"
    if b"t_mem" in call:
        banner = re.search(rb' b="(.*)" c="', call[b"t_mem"], re.DOTALL)
        assert banner is not None
        symbols = kernel.machine.symbols
        (jiffies,), (linux_banner,) = symbols.lookup("jiffies"), symbols.lookup("linux_banner")
        memory[jiffies.address] = value(call[b"t_mem"], "a").to_bytes(8, "little")
        memory[linux_banner.address] = banner[1] + b"\0"
    words = [value(stack, "arg2"), value(stack, "arg3")]
    memory[value(stack, "arg1")] = b"".join(word.to_bytes(8, "little") for word in words)
    wide = call[b"t_x64" if b"t_x64" in call else b"t_u64"]
    registers = {"di": value(none, "arg1"), "si": path, "dx": value(none, "arg3"), "cx": value(wide, "cx")}
    registers |= {"ip": value(none, "ip"), "sp": value(none, "sp"), "flags": value(none, "fl")}
    caller = re.match(rb"\((\S+) <- do_sys_open\)", call[b"r_do_sys_open_0"])
    assert caller is not None
    kernel.call(
        "do_sys_open",
        task=Task(int(call[b"pid"]), call[b"task"]),
        registers=registers,
        memory=memory,
        returns=value(call[b"r_do_sys_open_0"], "arg1"),
        caller=caller[1].decode(),
        cpu=int(call[b"cpu"]),
    )


@pytest.mark.parametrize("series", SERIES)
def test_values_of_all_types(series: str) -> None:
    text = (TEXTS / series / "01_types.trace").read_bytes()
    recorded = calls(text)
    assert len(recorded) == 2
    kernel = recorded_on(series, cpus=1 if series == "4.9" else 2)
    for line in (TEXTS / series / "01_types.kprobe_events").read_bytes().splitlines(keepends=True):
        kernel.tracefs.write("kprobe_events", line)
    for system in ("kprobes", "g1"):
        kernel.tracefs.write(f"events/{system}/enable", b"1")
    for call in recorded:
        play(kernel, call)
    shown = [(match[1], match[5], match[6]) for match in events(kernel.tracefs.read("trace"))]
    del shown[0]  # the newest event was still off in the first call: it opened the file that enabled it
    wanted = [(match[1], match[5], match[6]) for match in events(text)]
    kept = [line for line in shown if line in wanted or line[1] != b"t_many"]  # one of them was cut out
    assert kept == wanted[: len(kept)]
    assert len(kept) == sum(len(call) - 3 for call in recorded)
