"""The shards of some work, handed to a scheduler's workers: a failed one is retried a few times, on any worker."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from kprobe_lab.scheduling.shard import Ended, Shard
from kprobe_vm.errors import ShardFailed

ATTEMPTS = 3  # at each shard
GIVEN_UP = 3  # consecutive failed shards that end the work
TICK = 0.5  # seconds between two checks for more work


class Scheduler(Protocol):
    """Runs shards on workers: processes, or those of another engine."""

    def free(self) -> int:
        """Return how many more shards can be started now."""

    def submit(self, shard: Shard) -> None:
        """Give it to a worker."""

    def wait(self, seconds: float) -> list[Ended]:
        """Return the shards that have ended since the last call, waiting up to `seconds`; raise `MachineError`.

        A lost worker ends its shard, or the shard continues elsewhere; either way it ends once.
        """

    def workers(self) -> str:
        """Return who works, in words: "3 workers"."""

    def close(self) -> None:
        """End everything that still runs at once, guests included."""


def ends(
    scheduler: Scheduler, shards: Iterable[Shard], progress: Callable[[str], None] = lambda line: None
) -> Iterator[Ended]:
    """Yield the end of each shard as it comes; a faulty one has used all its attempts.

    Shards are taken one ahead of the workers, so that their source can stop at any time.  Raise `ShardFailed` if
    nothing but faults comes.
    """
    source = iter(shards)
    again: deque[Shard] = deque()
    running: dict[int, Shard] = {}
    attempts: Counter[int] = Counter()
    given_up = GIVEN_UP - 1  # the very first shard has to succeed

    def following() -> Shard | None:
        return again.popleft() if again else next(source, None)

    shard = following()
    while shard is not None or running:
        while shard is not None and scheduler.free() > 0:
            running[shard.number] = shard
            attempts[shard.number] += 1
            scheduler.submit(shard)
            shard = following()
        for end in scheduler.wait(TICK):
            ended = running.pop(end.number)
            if not end.fault:
                given_up = 0
                yield end
                continue
            message = f"{ended}, attempt {attempts[end.number]} of {ATTEMPTS} on {end.worker}: {end.fault}"
            if attempts[end.number] < ATTEMPTS:
                progress(message.partition("\n")[0])
                again.append(ended)
                continue
            given_up += 1
            if given_up >= GIVEN_UP:
                raise ShardFailed(message, end.status)
            yield end._replace(fault=message)
        shard = shard or following()
