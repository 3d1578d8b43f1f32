"""Completion of `kprobe-sim` in a shell, by argcomplete, from the command's parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def complete(parser: argparse.ArgumentParser) -> int:
    """Answer the shell as the environment demands, and end the process; return a status if that fails."""
    try:
        from argcomplete import autocomplete  # in the extra [completion]
        from argcomplete.completers import DirectoriesCompleter, SuppressCompleter
    except ImportError:
        return 1
    kinds: dict[str, Callable[..., Any]] = {
        "kernel": lambda **_: _kernels(),
        "pack": lambda **_: _kernels(),
        "activity": lambda **_: _activities(),
        "document": lambda **_: _documents(),
        "scenario": lambda **_: _scenarios(),
        "directory": DirectoriesCompleter(),
    }
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for verb in verbs.choices.values():
        for action in verb._actions:
            completed: Any = action
            if action.dest in kinds:
                completed.completer = kinds[action.dest]
            elif action.dest in ("cpus", "listing", "options", "clocks", "tracefs", "names"):
                completed.completer = SuppressCompleter()
    autocomplete(parser, always_complete_options=False)
    return 0


def _kernels() -> dict[str, str]:
    from kprobe_sim.kernel.kernels import kernels

    return {kernel.spec.partition(":")[2]: kernel.release for kernel in kernels()}


def _activities() -> list[str]:
    from kprobe_sim.kernel.activity import built_in_names

    return [*built_in_names(), "none"]


def _documents() -> list[str]:
    from kprobe_sim.scenarios.replays.listing import documents

    return list(documents())


def _scenarios() -> list[str]:
    from kprobe_sim.scenarios.shipped import names

    return names()
