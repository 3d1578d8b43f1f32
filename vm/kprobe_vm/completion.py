"""Completion of `kprobe-vm` in a shell, by argcomplete, from the parser of its options."""

from __future__ import annotations

import argparse
import os
from typing import Any

from kprobe_vm.debian.lock import Locks
from kprobe_vm.host.cache import Cache
from kprobe_vm.images.kernels import lock_name
from kprobe_vm.images.kerneltree import release_of


def complete(parser: argparse.ArgumentParser) -> int:
    """Answer the shell as its environment asks, and end the process; return a status if that fails."""
    try:
        from argcomplete import autocomplete  # in the extra [completion]
        from argcomplete.completers import SuppressCompleter
    except ImportError:
        return 1
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for verb in verbs.choices.values():
        for action in verb._actions:
            completed: Any = action
            if action.dest in ("kernel", "kernels", "series", "before", "after"):
                completed.completer = lambda **_: _series()
            elif action.type in (int, float):
                completed.completer = SuppressCompleter()
    autocomplete(parser, always_complete_options=False)
    return 0


def _series() -> list[str]:
    """Return the names under which kernels are locked."""
    locks = Locks.of(os.environ, Cache.of(os.environ))
    return [lock_name(release_of(row.package)) for row in locks.kernels()]
