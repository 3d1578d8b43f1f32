"""Boots a guest that performs a known activity; gives its text under all options and clocks, each with its truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kprobe_vm.host.progress import Progress
from kprobe_vm.machine.machine import Machine
from kprobe_vm.recording.functions import OPENING
from kprobe_vm.traces.activity import CALLS, LOST, NASTY, PLAIN, PROBES, TYPES, calls, many, torn
from kprobe_vm.traces.recorder import CPUS, OF_ALL, OF_SOME, STATIC, GuestText, Recorder
from kprobe_vm.traces.truth import piped

# functions that call each other, as far as a kernel has them
GRAPHED = (*OPENING, "getname", "getname_flags", "do_filp_open", "path_openat")
GRAPHS = (
    (), ("funcgraph-tail",), ("funcgraph-proc",), ("funcgraph-abstime", "funcgraph-proc"), ("latency-format",),
    ("nofuncgraph-cpu",), ("nofuncgraph-overhead",),
)  # fmt: skip
PIECES = (1, 3, 7, 16, 33, 61, 100, 127)  # bytes read at once, by turns
ENDS = (620, 640, 665, 690)  # where a first read of trace_pipe ends, in different columns of a line


def record(kernel: str, progress: Progress = lambda text: None, **machine: Any) -> Iterator[tuple[str, GuestText]]:
    """Boot a kernel and yield its release with each text; raise `MachineError`."""
    with Machine(kernel, cpus=CPUS, progress=progress, **machine) as guest:
        recorder = Recorder(guest)
        recorder.define([*PROBES, LOST, *TYPES])
        probes = ["kprobes"]
        for part in PARTS:
            progress(f"recording text of {guest.release}: {part.__name__.strip('_').replace('_', ' ')}")
            for text in part(recorder, probes):
                yield guest.release, text


def _shown(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield a buffer with all names of tasks, and one with a few, under options that change how they are shown."""
    defects = ["task names", "every type", "newline in a string", "quotes", "non-UTF-8", "faults", "forged events"]
    yield from _under(recorder, probes, "opens", NASTY, OF_ALL, defects)
    others = (*OF_SOME, *recorder.unknown())
    yield from _under(recorder, probes, "types", PLAIN, others, ["every type", "newline in a string", "quotes"])


def _under(
    recorder: Recorder, probes: Sequence[str], scenario: str, names: Sequence[bytes], options: Sequence[str],
    defects: Sequence[str],
) -> Iterator[GuestText]:  # fmt: skip
    with recorder.set(["record-tgid"] if recorder.has("record-tgid") else []):
        done = recorder.run(lambda: recorder.perform(names, types=True), probes)
    plain = recorder.trace()
    recorder.learn_functions(recorder.trace(["sym-offset"]))
    known = [option for option in options if all(recorder.has(name) for name in option.split(","))]
    texts = {option: recorder.trace(option.split(",")) for option in known}
    recorded = recorder.recorded(done, plain)
    yield recorder.text(scenario, (), plain, recorded, defects=defects)
    for option, text in texts.items():
        yield recorder.text(f"{scenario}.{option}", option.split(","), text, recorded, defects=defects)


def _by_field(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield a text with option fields, where strings have no quotes: a forged record in one would be one."""
    if recorder.has("fields"):
        done = recorder.run(lambda: recorder.perform(types=True), probes)
        text = recorder.trace(["fields"])
        recorded = recorder.recorded(done, text)
        yield recorder.text("types.fields", ("fields",), text, recorded, defects=["values twice"])


def _by_clock(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield a text for each clock, and that in latency-format."""
    for clock in recorder.clocks:
        recorder.reset(clock)
        done = recorder.run(recorder.perform, probes)
        text, latency = recorder.trace(), recorder.trace(["latency-format"])
        recorded = recorder.recorded(done, text, clock)
        yield recorder.text(f"clock.{clock}", (), text, recorded, ["clock"])
        options = ["latency-format"]
        yield recorder.text(f"clock.{clock}.latency-format", options, latency, recorded, ["clock"])
    recorder.reset("local")


def _stacks(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield stacks of the kernel and of programs."""
    for kind in ("stacktrace", "userstacktrace"):
        with recorder.set([kind]):
            done = recorder.run(recorder.perform, probes)
        shown = [()] if kind == "userstacktrace" else [(), ("sym-offset",), ("sym-addr",), ("latency-format",)]
        texts = {options: recorder.trace(options) for options in shown}
        recorded = recorder.recorded(done, texts[()])
        for options, text in texts.items():
            name = ".".join(["stacks" if kind == "stacktrace" else "user-stacks", *options])
            yield recorder.text(name, (kind, *options), text, recorded, defects=["stacks"])


def _without_names(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield a text whose tasks the kernel doesn't remember."""
    with recorder.set(["norecord-cmd"]):
        done = recorder.run(recorder.perform, probes)
    text = recorder.trace()
    recorded = recorder.recorded(done, text)
    yield recorder.text("nameless", ("norecord-cmd",), text, recorded, defects=["forgotten task names"])


def _mixed(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield markers, and static events beside probes."""
    done = recorder.run(lambda: [*recorder.mark(), *recorder.perform()], ["kprobes/ent", "kprobes/ret"])
    texts = {options: recorder.trace(options) for options in ((), ("latency-format",), ("noirq-info",))}
    recorded = recorder.recorded(done, texts[()])
    for options, text in texts.items():
        name = ".".join(["markers", *options])
        yield recorder.text(name, options, text, recorded, defects=["markers", "forged events"])
    done = recorder.run(recorder.perform, [*probes, *STATIC])
    texts = {options: recorder.trace(options) for options in ((), ("latency-format",))}
    recorded = recorder.recorded(done, texts[()])
    for options, text in texts.items():
        name = ".".join(["static", *options])
        yield recorder.text(name, options, text, recorded, defects=["static events beside probes"])


def _function(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield the tracer function beside probes."""
    if "function" not in recorder.tracers:
        return
    recorder.limit([recorder.functions.opening])
    recorder.tracer("function")
    try:
        done = recorder.run(recorder.perform, probes)
        text = recorder.trace()
        recorded = recorder.recorded(done, text)
        yield recorder.text("function", (), text, recorded, defects=["tracer function"])
    finally:
        recorder.tracer("nop")
        recorder.limit()


def _lost(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield what is left of a buffer that was overwritten, as trace and as trace_pipe have it."""
    recorder.keep(4)
    recorder.filter("lost/ent", 's ~ "/tmp/p*"')
    try:
        done = recorder.run(lambda: recorder.do(many(CPUS, 400)), ["lost/ent"])
        stats = [recorder.stats(cpu) for cpu in range(CPUS)]
        yield recorder.piped("lost.trace_pipe", recorder.pipe(), done, stats)
        done = recorder.run(lambda: recorder.do(many(CPUS, 400)), ["lost/ent"])
        text = recorder.trace()
        recorded = recorder.recorded(done, text)
        yield recorder.text("lost", (), text, recorded, defects=["lost events"], complete=False)
    finally:
        recorder.filter("lost/ent", "")
        recorder.keep(1408)


def _graph(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield the tracer function_graph, whose comments are the probes' events, and calls with their arguments."""
    if "function_graph" not in recorder.tracers:
        return
    recorder.limit(GRAPHED)
    columns = recorder.trace()  # whose header says which flags there are
    recorder.tracer("function_graph")
    try:
        done = recorder.run(recorder.perform, ["kprobes/ent", "kprobes/ret"])
        usable = [options for options in GRAPHS if all(recorder.offers(name) for name in options)]
        texts = {options: recorder.trace(options) for options in usable}
        recorded = recorder.recorded(done, columns)
        for options, text in texts.items():
            yield recorder.graph(".".join(["graph", *options]), options, text, recorded)
        if recorder.offers("funcgraph-args"):
            with recorder.set(["funcgraph-args"]):
                done = recorder.run(recorder.perform, ["kprobes/ent", "kprobes/ret"])
                text = recorder.trace()
            recorded = recorder.recorded(done, columns)
            yield recorder.graph("graph.funcgraph-args", ["funcgraph-args"], text, recorded)
    finally:
        recorder.tracer("nop")
        recorder.limit()


def _calls(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield events of system calls beside probes."""
    if not recorder.calls:
        return
    for path in recorder.calls:
        recorder.filter(path, CALLS[path])
    done = recorder.run(lambda: recorder.do(calls(CPUS)), ["kprobes/ent", "kprobes/ret", *recorder.calls])
    shown = ((), ("verbose",), ("latency-format",), ("noirq-info",), ("nocontext-info",), ("raw",))
    texts = {options: recorder.trace(options) for options in shown}
    recorded = recorder.recorded(done, texts[()])
    defects = ["system calls", "newline in a string", "quotes", "forged events"]
    for options, text in texts.items():
        yield recorder.text(".".join(["syscalls", *options]), options, text, recorded, defects=defects)
    for path in recorder.calls:
        recorder.filter(path, "")


def _torn(recorder: Recorder, probes: Sequence[str]) -> Iterator[GuestText]:
    """Yield what trace_pipe returns to reads that are smaller than a line, and a first read that ends within one."""
    recorder.filter("lost/ent", 's ~ "/tmp/p*"')
    try:
        for nasty, name in ((False, "torn.pieces"), (True, "torn.lines")):
            done = recorder.run(lambda nasty=nasty: recorder.do(torn(CPUS, nasty=nasty)), ["lost/ent"])  # type: ignore[misc]
            truth = piped(done, [recorder.stats(cpu) for cpu in range(CPUS)])
            yield recorder.torn(name, recorder.read(PIECES), truth)
        for size in ENDS:
            done = recorder.run(lambda: recorder.do(torn(CPUS, nasty=False)), ["lost/ent"])
            truth = piped(done, [recorder.stats(cpu) for cpu in range(CPUS)])
            pieces = recorder.read([size], 1)
            # no name has a newline in it here
            yield recorder.torn(f"torn.{size}", pieces, truth[: pieces[0].count(b"\n")])
    finally:
        recorder.filter("lost/ent", "")


PARTS = (
    _shown, _by_field, _by_clock, _stacks, _without_names, _mixed, _function, _lost, _graph, _calls, _torn,
)  # fmt: skip
