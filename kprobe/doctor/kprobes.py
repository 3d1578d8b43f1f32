"""The kernel's kprobes as a whole: whether there are any, and whether they are switched on."""

from __future__ import annotations

from collections.abc import Iterator

from kprobe.definitions.probe import KPROBES as PATH
from kprobe.doctor.access import NO_KERNEL, config
from kprobe.doctor.diagnosis import NOTE, STOPS, Diagnosis, Fact
from kprobe.doctor.facts import Facts
from kprobe.tracefs.capabilities import Capabilities

ENABLED = "/sys/kernel/debug/kprobes/enabled"
OPTIMIZATION = "/proc/sys/debug/kprobes-optimization"
EVENTS = "events"
FTRACE = "/proc/sys/kernel/ftrace_enabled"


def of_kprobes(facts: Facts) -> Iterator[Diagnosis]:
    """Yield what prevents all kprobes."""
    if not facts.tracefs.exists(PATH) and not facts.tracefs.exists(EVENTS):
        fact = Fact(facts.typed(EVENTS), "there is no such directory")
        yield Diagnosis(STOPS, "mount", "this isn't a tracefs", (fact,), "kprobe doctor --tracefs local")
        return
    if not facts.tracefs.exists(PATH):
        if not config(facts.machine)[1]:  # otherwise the configuration tells it
            what = "this kernel has no kprobe events: built without CONFIG_KPROBE_EVENTS"
            yield Diagnosis(STOPS, "kernel", what, (Fact(facts.typed(PATH), "there is no such file"),), NO_KERNEL)
        return
    never = Capabilities(facts.tracefs).never_hits
    if never is not None and (reason := never()):
        what = "a probe can be defined here, but not enabled"
        yield Diagnosis(STOPS, "kprobes", what, (Fact("simulator", reason),), "kprobe --tracefs sim: or vm:")
    yield from switched_off(facts)
    if facts.machine.text(OPTIMIZATION) == "0":
        what = "probes aren't optimised: each hit that doesn't come through ftrace costs a breakpoint"
        fact = Fact(OPTIMIZATION, "0")
        yield Diagnosis(NOTE, "optimisation", what, (fact,), "sysctl debug.kprobes-optimization=1")


def switched_off(facts: Facts) -> Iterator[Diagnosis]:
    """Yield the switches that keep probes from being hit, though they can be added and enabled.

    Seen on 5.10, 6.1 and 6.12: with ftrace_enabled 0 a probe at an entry or a return is never hit (7.3 refuses the 0).
    """
    if facts.machine.text(ENABLED) == "0":
        what = "kprobes are switched off: probes can be added, but none is hit"
        yield Diagnosis(STOPS, "kprobes", what, (Fact(ENABLED, "0"),), f"echo 1 > {ENABLED}")
    if facts.machine.text(FTRACE) == "0":
        what = "ftrace, through which probes at functions' entries are hit, is switched off"
        yield Diagnosis(STOPS, "ftrace", what, (Fact(FTRACE, "0"),), "sysctl kernel.ftrace_enabled=1")
