"""The part that runs on a worker of dask for one piece of work: it runs shards, and keeps guests between them."""

from __future__ import annotations

from typing import Any

from distributed import Worker, WorkerPlugin, get_worker

from kprobe_lab.scheduling.kept import Kept
from kprobe_lab.scheduling.shard import Ended, Shard, attempt

__all__ = ["UNKNOWN", "join", "leave", "run"]

UNKNOWN = "the worker takes no part in this work"


class Member(WorkerPlugin):
    """A worker's part in one piece of work; dask ends it with the worker."""

    def __init__(self) -> None:
        self.kept = Kept()

    def teardown(self, worker: Worker) -> None:
        """End the guests."""
        self.kept.close()


async def join(work: str, dask_worker: Worker) -> None:
    """Let a worker take part."""
    await dask_worker.plugin_add(Member(), name=work)


async def leave(work: str, dask_worker: Worker) -> None:
    """End a worker's part at once, interrupting its shards."""
    await dask_worker.plugin_remove(name=work)


def run(work: str, shard: Shard) -> Ended:
    """Run a shard on the worker that executes this."""
    worker: Any = get_worker()
    part: Member | None = worker.plugins.get(work)
    if part is None:
        return Ended(shard.number, worker.address, fault=UNKNOWN)
    return attempt(shard, part.kept, worker.address)
