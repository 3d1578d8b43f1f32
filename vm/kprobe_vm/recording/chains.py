"""The call chains of a kernel build: those of the workload's system calls, and the tracer's own frames.

They are return addresses, different in each build, that a stack trace shows.  The guest tells all of them: by stack
traces after probes, and by the trigger `stacktrace`, which doesn't skip the tracer's own functions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from kprobe_vm.recording.functions import NEWEST, Functions
from kprobe_vm.recording.guest import Guest

ADVISED = -2  # a descriptor: its register shows whether 32 or 64 bits are passed on
SIGCHLD = 17
ENTRIES = "f[:["  # how a README mentions fprobes
RETURN = "%return"
OPTIMIZATION = "proc/sys/debug/kprobes-optimization"
INNER = (5, 9)  # where what follows the call to ftrace is: without ENDBR before it, and with
TRIES = 1000  # tries, after which the probe isn't going to be optimized
TRIGGER = b'stacktrace if comm == "workload"'
CALLER = re.compile(r": chain: \((\S+)/0x[0-9a-f]+ <- ")
FRAME = re.compile(r"^ => ([^/\n]+)", re.MULTILINE)


def ask(guest: Guest, functions: Functions = NEWEST) -> dict[str, Any]:
    """Return the facts of a guest by name; places are SYMBOL+OFFSET, or an address that has no symbol."""
    facts = _Asking(guest, functions).facts()
    return facts if functions == NEWEST else {**facts, "functions": list(functions)}


class _Asking:
    def __init__(self, guest: Guest, functions: Functions) -> None:
        self._files = guest
        self._open, self._fork, self._advise = functions
        self._caller = ""  # the caller of the first of them
        self._tracefs = guest.tracefs
        self._workload = guest.workload()

    def facts(self) -> dict[str, Any]:
        tracefs = self._tracefs
        optimizes = self._files.exists(OPTIMIZATION)
        if optimizes:
            self._files.write(OPTIMIZATION, b"0")
        tracefs.write("options/sym-offset", b"1")
        try:
            facts: dict[str, Any] = self._calls() | self._tracer()
            if optimizes:
                facts["optimized"] = self._optimized(facts["breakpoint"])
            facts["marker"] = self._marker()
        finally:
            tracefs.write("options/sym-offset", b"0")
            tracefs.write("trace", b"", truncate=True)
            self._workload.close()
        return facts

    def _calls(self) -> dict[str, Any]:
        """Ask for the callers of the functions that the workload reaches, and for what they pass on."""
        tracefs = self._tracefs
        tracefs.write("options/stacktrace", b"1")
        chains = {}
        try:
            for name, function in (("openat", self._open), ("fork", self._fork), ("fadvise", self._advise)):
                text = self._traced(f"p:chain {function}", function)
                frames = _frames(text)
                above = len(_above(frames, function))
                chains[name] = frames[above + 1 :] if above < len(frames) else frames  # it doesn't exist before 4.9
        finally:
            tracefs.write("options/stacktrace", b"0")
        for name, function in (("openat", self._open), ("fork", self._fork), ("fadvise", self._advise)):
            caller = CALLER.search(self._traced(f"r:chain {function}", function))
            if caller and caller[1] not in chains[name][:1]:  # with frame pointers an entry's stack leaves it out
                chains[name].insert(0, caller[1])
        self._caller = chains["openat"][0].partition("+")[0]
        text = self._traced(f"p:chain {self._advise} %di", self._advise)
        whole = re.search(rf" arg1=(?:0x)?{ADVISED & (1 << 64) - 1:x}$", text, re.MULTILINE) is not None
        offsets = [place for place in range(0, 72, 8) if f"={SIGCHLD}\n" in self._argument(place)]
        # before 5.3 there is no struct: the signal is in a register
        return {**chains, "registers_whole": whole, **({"exit_signal": offsets[0]} if offsets else {})}

    def _argument(self, offset: int) -> str:
        return self._traced(f"p:chain {self._fork} +{offset}(%di):s32", self._fork)

    def _traced(self, definition: str, function: str) -> str:
        """Return the trace text of the workload's call of `function` with a probe defined."""
        tracefs = self._tracefs
        tracefs.write("kprobe_events", definition.encode())
        tracefs.write("events/kprobes/chain/filter", b'comm == "workload"')
        tracefs.write("events/kprobes/chain/enable", b"1")
        self._do(function)
        tracefs.write("events/kprobes/chain/enable", b"0")
        return self._taken("-:chain")

    def _tracer(self) -> dict[str, Any]:
        entry = self._triggered(f"p:chain {self._open}")
        both = self._triggered(f"p:other {self._open}", f"p:chain {self._open}")
        index = next(
            (place for place, (frame, other) in enumerate(zip(both, entry, strict=False)) if frame != other), 0
        )
        returning = self._triggered(f"r:chain {self._open}")
        return {
            "entry": _above(entry, self._open),
            "shared": [both[index]],
            "shared_index": index,
            "breakpoint": _above(self._triggered(self._inner()), self._open),
            "returning": _above(returning, self._caller),
            **(self._fprobes() if ENTRIES in self._tracefs.read("README").decode() else {}),
        }

    def _fprobes(self) -> dict[str, list[str]]:
        """Ask for the frames of fprobes, and for what calls them where there are other users of ftrace."""
        probe = f"f:kprobes/chain {self._open}"
        alone = _above(self._triggered(probe), self._open)
        others = {"listed": f"p:kprobes/other {self._open}", "listed_plain": f"f:kprobes/other {self._open}{RETURN}"}
        *own, _ = alone
        facts = {"fentry": alone, "fexit": _above(self._triggered(probe + RETURN), self._caller)}
        for way, other in others.items():
            tracefs = self._tracefs
            tracefs.write("dynamic_events", other.encode())
            tracefs.write("events/kprobes/other/enable", b"1")
            facts[way] = _above(self._triggered(probe), self._open)[len(own) :]
            tracefs.write("events/kprobes/other/enable", b"0")
            tracefs.write("dynamic_events", b"-:kprobes/other")
        return facts

    def _optimized(self, breakpoint: list[str]) -> list[str]:
        """Ask for the stack at a probe that was optimized into a jump, which takes the kernel a while."""
        self._files.write(OPTIMIZATION, b"1")
        return self._triggered(self._inner(), until=lambda frames: frames[: len(breakpoint)] != breakpoint)

    def _marker(self) -> list[str]:
        tracefs = self._tracefs
        if not tracefs.exists("events/ftrace/print/trigger"):
            return []
        tracefs.write("events/ftrace/print/trigger", b"stacktrace")
        tracefs.write("trace_marker", b"x")
        tracefs.write("events/ftrace/print/trigger", b"!stacktrace")
        return _frames(self._taken())

    def _inner(self) -> str:
        """Return a definition for the second instruction that isn't ftrace's."""
        for offset in INNER:
            definition = f"p:chain {self._open}+{offset}"
            try:
                self._tracefs.write("kprobe_events", definition.encode())
            except OSError:
                continue
            self._tracefs.write("kprobe_events", b"-:chain")
            return definition
        raise ValueError(f"no probe can be placed after the entry of {self._open}")

    def _triggered(self, *definitions: str, until: Callable[[list[str]], bool] = bool) -> list[str]:
        """Return the first suitable stack that the trigger of the probe `chain` records at an open."""
        tracefs = self._tracefs
        events = "dynamic_events" if definitions[0].startswith("f") else "kprobe_events"
        tracefs.write(events, "\n".join(definitions).encode())
        tracefs.write("events/kprobes/chain/trigger", TRIGGER)
        for _ in range(TRIES):
            tracefs.write("trace", b"", truncate=True)
            self._do(self._open)
            if until(_frames(tracefs.read("trace").decode())):
                break
        tracefs.write("events/kprobes/chain/trigger", b"!" + TRIGGER)
        names = [definition.split(":")[1].split()[0] for definition in definitions]
        return _frames(self._taken(*(f"-:{name}" for name in names), events=events))

    def _do(self, function: str) -> None:
        if function == self._open:
            self._workload.open(os.devnull)
        elif function == self._fork:
            self._workload.fork()
        else:
            self._workload.fadvise(ADVISED, 0, 0)

    def _taken(self, *deletes: str, events: str = "kprobe_events") -> str:
        """Return the contents of the buffer, empty it, and delete probes."""
        tracefs = self._tracefs
        text = tracefs.read("trace").decode()
        for line in deletes:
            tracefs.write(events, line.encode())
        tracefs.write("trace", b"", truncate=True)
        return text


def _frames(text: str) -> list[str]:
    return FRAME.findall(text)


def _above(frames: list[str], function: str) -> list[str]:
    """Return the frames up to that of a function, or all if it isn't among them."""
    names = [frame.partition("+")[0] for frame in frames]
    return frames[: names.index(function)] if function in names else frames
