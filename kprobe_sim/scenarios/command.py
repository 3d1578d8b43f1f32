"""`kprobe-sim text`: the text that every kernel prints for one scenario."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from kprobe_sim.builds import profile
from kprobe_sim.language.primitives.toml_values import cut
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.scenarios.choices import chosen_clocks, chosen_kernels, chosen_options, lacks
from kprobe_sim.scenarios.entry import Origin, about, entry_name, write_entry
from kprobe_sim.scenarios.rendering import Rendering, render
from kprobe_sim.scenarios.scenario import scenario_of
from kprobe_sim.scenarios.shipped import load, names
from kprobe_sim.standard_files import say, show

_OK, _REFUSED, _USAGE_ERROR = 0, 1, 2
_GROUP = "kprobe.scenarios"
_CLOCK = "local"
_LONGEST = 2000  # characters of a refusal, which may quote the file

Render = Callable[..., Rendering]


class TextRequest(NamedTuple):
    """A requested text; `named_clock` is the clock in the entry's name."""

    kernel: str
    release: str
    options: tuple[str, ...]
    clock: str
    named_clock: str


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Do what the command line says; return the exit status."""
    if arguments.list:
        return show("".join(f"{name:28} {load(name)['title']}\n" for name in names()).encode())
    if arguments.scenario is None:
        parser.error("a SCENARIO is needed, or --list")
    try:
        table = _checked(arguments.scenario)
        stage, source = _stage(arguments)
        traces = list(_traces(table, arguments))
    except (OSError, ValueError) as error:
        return _say(str(error), _USAGE_ERROR)
    if not traces:
        return _say("no kernel has the requested options and clocks", _REFUSED)
    if arguments.output is None and len(traces) > 1:
        parser.error(f"these are {len(traces)} texts: say where with -o DIR")
    with stage as maker:
        return _make(maker, source, table, traces, arguments)


def _checked(name: str) -> dict[str, Any]:
    """Return the table of a scenario.  Raises ValueError for a file that isn't a scenario."""
    table = load(name)
    try:
        scenario_of(table)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return table


def _make(
    maker: Render, source: str, table: dict[str, Any], traces: list[TextRequest], arguments: argparse.Namespace
) -> int:
    """Make the texts, and print or write them; return the exit status."""
    status = _OK
    for trace in traces:
        try:
            rendering = maker(table, trace.kernel, trace.options, trace.clock)
        except (OSError, RuntimeError, ValueError) as error:
            status = _say(f"{arguments.scenario}: {trace.kernel}: {cut(str(error), _LONGEST)}", _REFUSED)
            continue
        if arguments.output is None:
            return show(rendering.text)
        status = _write(Path(arguments.output), rendering, table, arguments.scenario, trace, source) or status
    return status


def _write(output: Path, rendering: Rendering, table: dict[str, Any], name: str, text: TextRequest, source: str) -> int:
    stem = Path(name).stem if name.endswith(".toml") else name
    kernel, release, options, clock, named_clock = text
    facts = about(rendering, table, Origin(kernel, release, stem, options, clock, source))
    directory = output / kernel / entry_name(stem, options, named_clock)
    try:
        write_entry(directory, rendering, facts)
    except OSError as error:
        return _say(f"{error.filename or directory}: {error.strerror}", _USAGE_ERROR)
    return _OK


def _traces(table: dict[str, Any], arguments: argparse.Namespace) -> Iterator[TextRequest]:
    """Yield the requested texts; report on standard error those that a kernel can't print."""
    kind, _, argument = arguments.tracefs.partition(":")
    if kind and arguments.kernels:
        raise ValueError("either --kernels or --tracefs")
    for kernel in [argument] if kind else chosen_kernels(arguments.kernels) if arguments.kernels else [""]:
        build = profile.load(kernel)
        default = table.get("clock") or _CLOCK
        for clock in chosen_clocks(arguments.clocks, build) if arguments.clocks else [default]:
            for options in chosen_options(arguments.options):
                lacking = lacks(build, options, clock)
                if lacking:
                    _say(f"{kernel or build.release} has no {cut(lacking, 200)}: no text of it", _OK)
                else:
                    named_clock = clock if arguments.clocks else ""
                    yield TextRequest(kernel or build.series, build.release, options, clock, named_clock)


def _stage(arguments: argparse.Namespace) -> tuple[AbstractContextManager[Render], str]:
    """Return a context manager whose value makes the texts, and the name of this source in an entry."""
    kind = arguments.tracefs.partition(":")[0]
    if kind in ("", "sim"):
        return nullcontext(partial(render, dat=True)), "simulator"
    from importlib.metadata import entry_points

    for point in entry_points(group=_GROUP, name=f"{kind}-stage"):
        stage: AbstractContextManager[Render] = point.load()()
        return stage, "guest"
    raise ValueError(f"nothing makes texts on {arguments.tracefs!r}: no '{kind}-stage' in the entry points {_GROUP}")


def _say(text: str, status: int) -> int:
    say(f"kprobe-sim: {text}")
    return status
