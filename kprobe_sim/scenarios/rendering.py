"""Rendering of scenarios: the text that a kernel prints for the actions, and the truth about the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kprobe_sim.builds import profile
from kprobe_sim.builds.profile import Profile
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.language.primitives.toml_values import cut
from kprobe_sim.machine.clock import VirtualClock
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.scenarios.choices import lacks
from kprobe_sim.scenarios.page_truth import PageTruth
from kprobe_sim.scenarios.playing import Playing
from kprobe_sim.scenarios.scenario import Scenario, scenario_of
from kprobe_sim.scenarios.trace_dat import trace_dat
from kprobe_sim.scenarios.truth import Truth


class Rendering(NamedTuple):
    """A trace and what belongs to it.

    `text` is what the kernel printed, `truth` what each of its lines says, in the records' schema.  `formats` has the
    format files of the enabled events by path, `definitions` the lines of dynamic_events.  `dat` has the records as a
    trace.dat, if that was requested and can be made, and `dat_truth` what each of these records says.
    """

    text: bytes
    truth: list[dict[str, Any]]
    formats: dict[str, str]
    definitions: list[str]
    dat: bytes = b""
    dat_truth: Sequence[dict[str, Any]] = ()


def render(
    scenario: Mapping[str, Any],
    kernel: str,
    options: Sequence[str] = (),
    clock: str = "local",
    dat: bool = False,
) -> Rendering:
    """Play a scenario, given as parsed TOML, on a simulated kernel ("6.1", "6.12-rt-amd64", a release).

    `options` names trace options ("latency-format", "noirq-info") that are set in addition to the scenario's; `clock`
    is used unless the scenario has one.  With `dat` a trace.dat is made, too, unless trace_pipe is read, which leaves
    no pages, or the clock doesn't count nanoseconds.  The same scenario gives the same text at each call.

    Raises ValueError for a table that isn't a scenario, a kernel without a profile, an option or clock that the kernel
    lacks, and a line that it refuses, in the kernel's words.
    """
    build = profile.load(kernel)
    return _rendered(scenario_of(scenario, build), build, options, clock, dat=dat)


def _rendered(scenario: Scenario, build: Profile, options: Sequence[str], clock: str, *, dat: bool) -> Rendering:
    clock = scenario.clock or clock
    lacking = lacks(build, (*scenario.options, *options), clock)
    if lacking:
        raise ValueError(f"{build.release} has no {cut(lacking, 200)}")
    needed = 1 + max(step.cpu for step in scenario.steps)
    if scenario.cpus and needed > scenario.cpus:
        raise ValueError(f"a call is made on CPU {needed - 1}, and there are {scenario.cpus}")
    machine = SimulatedKernel(
        build, cpus=scenario.cpus or max(needed, build.cpus), clock=VirtualClock(start=scenario.start)
    )
    playing = Playing(scenario, machine)
    playing.prepare(tuple(options), clock)
    formats = {
        (path := f"events/{event}/format"): machine.tracefs.read(path).decode("latin-1") for event in playing.enabled()
    }
    definitions = playing.definitions()
    try:
        playing.play()
    finally:
        playing.close()
    records = Truth(machine, playing.instance, playing.probes).records(playing.entries, of_pipe=scenario.reads_pipe)
    has_pages = dat and not scenario.reads_pipe
    # before the pages are consumed, while the counts of lost events are there
    paged = PageTruth(machine, playing.instance, playing.probes).records(playing.entries) if has_pages else []
    pages = trace_dat(machine, scenario.prefix, playing.enabled(), clock, playing.entries) if has_pages else b""
    return Rendering(playing.text, records, formats, definitions, pages, paged if pages else [])
