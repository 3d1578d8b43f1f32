"""What call chains a kernel build has: those of the workload's system calls, and the tracer's own frames.

They are return addresses, different in each build, that a stack trace shows.  All are asked of the guest: by stack
traces after probes, and by the trigger `stacktrace`, where the tracer's own functions aren't skipped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from kprobe_vm.recording.guest import Guest

__all__ = ["ask"]

OPEN, FORK, ADVISE = "do_sys_openat2", "kernel_clone", "ksys_fadvise64_64"
ADVISED = -2  # a descriptor: as a register it tells whether 32 or 64 bits are handed on
SIGCHLD = 17
ENTRIES = "f[:["  # what a README that knows fprobes says
RETURN = "%return"
OPTIMIZATION = "proc/sys/debug/kprobes-optimization"
INNER = (5, 9)  # where what follows the call to ftrace is: without ENDBR before it, and with
TRIES = 1000  # an optimisation that doesn't come is none
TRIGGER = b'stacktrace if comm == "workload"'
FRAME = re.compile(r"^ => ([^/\n]+)", re.MULTILINE)


def ask(guest: Guest) -> dict[str, Any]:
    """Return the facts of a guest by name; places are SYMBOL+OFFSET, or an address that has no symbol."""
    return _Asking(guest).facts()


class _Asking:
    def __init__(self, guest: Guest) -> None:
        self._files = guest
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
        """Ask for the callers of the functions that the workload reaches, and for what they hand on."""
        tracefs = self._tracefs
        tracefs.write("options/stacktrace", b"1")
        chains = {}
        try:
            for name, function in (("openat", OPEN), ("fork", FORK), ("fadvise", ADVISE)):
                text = self._traced(f"p:chain {function}", function)
                chains[name] = _frames(text)[1:]
        finally:
            tracefs.write("options/stacktrace", b"0")
        text = self._traced("p:chain ksys_fadvise64_64 %di:x64", ADVISE)
        whole = f"arg1={ADVISED & (1 << 64) - 1:#x}" in text
        offsets = [place for place in range(0, 72, 8) if f"={SIGCHLD}\n" in self._argument(place)]
        return {**chains, "exit_signal": offsets[0], "registers_whole": whole}

    def _argument(self, place: int) -> str:
        return self._traced(f"p:chain {FORK} +{place}(%di):s32", FORK)

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
        entry = self._triggered(f"p:chain {OPEN}")
        both = self._triggered(f"p:other {OPEN}", f"p:chain {OPEN}")
        index = next(place for place, frame in enumerate(both) if frame != entry[place])
        returning = self._triggered(f"r:chain {OPEN}")
        return {
            "entry": _above(entry, OPEN),
            "shared": [both[index]],
            "shared_index": index,
            "breakpoint": _above(self._triggered(self._inner()), OPEN),
            "returning": _above(returning, "__x64_sys_openat"),
            **(self._fprobes() if ENTRIES in self._tracefs.read("README").decode() else {}),
        }

    def _fprobes(self) -> dict[str, list[str]]:
        """Ask for the frames of fprobes, and for what calls them where there are other users of ftrace."""
        probe = f"f:kprobes/chain {OPEN}"
        alone = _above(self._triggered(probe), OPEN)
        others = {"listed": f"p:kprobes/other {OPEN}", "listed_plain": f"f:kprobes/other {OPEN}{RETURN}"}
        *own, _ = alone
        facts = {"fentry": alone, "fexit": _above(self._triggered(probe + RETURN), "__x64_sys_openat")}
        for way, other in others.items():
            tracefs = self._tracefs
            tracefs.write("dynamic_events", other.encode())
            tracefs.write("events/kprobes/other/enable", b"1")
            facts[way] = _above(self._triggered(probe), OPEN)[len(own) :]
            tracefs.write("events/kprobes/other/enable", b"0")
            tracefs.write("dynamic_events", b"-:kprobes/other")
        return facts

    def _optimized(self, breakpoint: list[str]) -> list[str]:
        """Ask for the stack at a probe that has become a jump; the kernel takes its time for that."""
        self._files.write(OPTIMIZATION, b"1")
        return self._triggered(self._inner(), until=lambda frames: frames[: len(breakpoint)] != breakpoint)

    def _marker(self) -> list[str]:
        tracefs = self._tracefs
        tracefs.write("events/ftrace/print/trigger", b"stacktrace")
        tracefs.write("trace_marker", b"x")
        tracefs.write("events/ftrace/print/trigger", b"!stacktrace")
        return _frames(self._taken())

    def _inner(self) -> str:
        """Return a definition for the second instruction that isn't ftrace's."""
        for offset in INNER:
            definition = f"p:chain {OPEN}+{offset}"
            try:
                self._tracefs.write("kprobe_events", definition.encode())
            except OSError:
                continue
            self._tracefs.write("kprobe_events", b"-:chain")
            return definition
        raise ValueError(f"no probe can be placed after the entry of {OPEN}")

    def _triggered(self, *definitions: str, until: Callable[[list[str]], bool] = bool) -> list[str]:
        """Return the stack that the trigger of the probe `chain` takes at an open, the first one that will do."""
        tracefs = self._tracefs
        events = "dynamic_events" if definitions[0].startswith("f") else "kprobe_events"
        tracefs.write(events, "\n".join(definitions).encode())
        tracefs.write("events/kprobes/chain/trigger", TRIGGER)
        for _ in range(TRIES):
            tracefs.write("trace", b"", truncate=True)
            self._do(OPEN)
            if until(_frames(tracefs.read("trace").decode())):
                break
        tracefs.write("events/kprobes/chain/trigger", b"!" + TRIGGER)
        names = [definition.split(":")[1].split()[0] for definition in definitions]
        return _frames(self._taken(*(f"-:{name}" for name in names), events=events))

    def _do(self, function: str) -> None:
        if function == OPEN:
            self._workload.open(os.devnull)
        elif function == FORK:
            self._workload.fork()
        else:
            self._workload.fadvise(ADVISED, 0, 0)

    def _taken(self, *deletes: str, events: str = "kprobe_events") -> str:
        """Return what is in the buffer, empty it, and delete probes."""
        tracefs = self._tracefs
        text = tracefs.read("trace").decode()
        for line in deletes:
            tracefs.write(events, line.encode())
        tracefs.write("trace", b"", truncate=True)
        return text


def _frames(text: str) -> list[str]:
    return FRAME.findall(text)


def _above(frames: list[str], function: str) -> list[str]:
    """Return the frames up to that of a function, all if it isn't there."""
    names = [frame.partition("+")[0] for frame in frames]
    return frames[: names.index(function)] if function in names else frames
