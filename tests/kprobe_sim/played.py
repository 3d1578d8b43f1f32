"""Lines of recorded traces as the calls that made them, and these calls made on a simulated kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kprobe_sim import SimulatedKernel, Task

__all__ = ["Call", "calls", "play"]


class Call(NamedTuple):
    """One call of the function that both probes stand on, as a line tells it."""

    event: bytes  # "ent" or "ret"
    task: Task
    cpu: int
    at: int  # ns
    rest: bytes  # what stands after the event's name
    stack: tuple[int | str, ...]


def calls(lines: Sequence[bytes], forms: Iterable[re.Pattern[bytes]]) -> Iterator[Call]:
    """Yield a call for each line that has one of the forms, whose groups are named, with the stack below it."""
    known = tuple(forms)
    for number, line in enumerate(lines):
        match = next((match for form in known if (match := form.fullmatch(line))), None)
        if match is None:
            continue
        facts = match.groupdict()
        micros = (
            int(facts["hex"], 16)
            if facts.get("hex")
            else int(facts.get("s") or 0) * 1_000_000 + int(facts.get("us") or 0)
        )
        task = Task(int(facts.get("pid") or 1), facts.get("comm") or b"init")
        cpu, at = int(facts.get("cpu") or 0), micros * 1000
        yield Call(match["event"], task, cpu, at, match["rest"], tuple(_frames(lines[number + 2 :])))


def play(kernel: SimulatedKernel, made: Iterable[Call], function: str, argument: re.Pattern[bytes]) -> None:
    """Make the calls, each with the one probe on that saw it; `argument` finds the names and values of a line."""
    for call in made:
        values = dict(argument.findall(call.rest))
        entry = call.event == b"ent"
        for name in ("ent", "ret"):
            kernel.tracefs.write(f"events/kprobes/{name}/enable", b"1" if (name == "ent") == entry else b"0")
        if entry:
            # a newline in a path came as \0, so that a line stays one
            path: int | bytes = 0 if values[b"s"] == b"(fault)" else values[b"s"][1:-1].replace(b"\0", b"\n")
            kernel.call(
                function,
                task=call.task,
                args=(int(values[b"dfd"]) & 0xFFFFFFFF, path, int(values[b"flags"], 16)),
                returns=None,
                stack=call.stack,
                cpu=call.cpu,
                at=call.at,
            )
        else:
            caller = re.match(rb"\((\S+)", call.rest)
            assert caller is not None
            kernel.call(
                function,
                task=call.task,
                returns=int(values[b"raw"], 16),
                caller=caller[1].decode(),
                stack=call.stack,
                cpu=call.cpu,
                at=call.at,
                duration=0,
            )


def _frames(below: Sequence[bytes]) -> Iterator[int | str]:
    for line in below:
        if not line.startswith(b" => "):
            return
        address = re.search(rb"<([0-9a-f]{16})>", line)
        yield int(address[1], 16) if address else line[4:].decode()
