"""A shard of some work: a small value that any worker can process, and its result."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple, Protocol

from kprobe_lab.scheduling.kept import Kept
from kprobe_vm.errors import MachineError, NotReady


class Shard(Protocol):
    """A value that can be pickled; `str` of it says what it is.

    Its result is one as well, and doesn't depend on the worker or on repetition.
    """

    @property
    def number(self) -> int:
        """Its number among the shards of the work, from 0."""

    def run(self, kept: Kept) -> Any:
        """Run it with what the worker has kept."""


class Ended(NamedTuple):
    """A shard that has ended on a worker: its result, or in `fault` why there is none."""

    number: int
    worker: str
    result: Any = None
    fault: str = ""
    status: int = MachineError.exit_status  # exit status of a command for that fault
    is_not_ready: bool = False  # the worker's host lacks something


def attempt(shard: Shard, kept: Kept, worker: str) -> Ended:
    """Run a shard; an exception becomes its end."""
    try:
        return Ended(shard.number, worker, shard.run(kept))
    except MachineError as error:  # not all errors survive pickling
        return Ended(shard.number, worker, None, str(error), error.exit_status, isinstance(error, NotReady))
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        words = f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
        return Ended(shard.number, worker, None, words)
