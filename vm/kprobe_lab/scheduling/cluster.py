"""The scheduler for many machines: the workers of a running dask.distributed, by the address of its scheduler."""

from __future__ import annotations

import contextlib
import logging
import queue
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from importlib import metadata
from typing import Any, NamedTuple

from kprobe_lab.scheduling.edition import DISTRIBUTION, files, here
from kprobe_lab.scheduling.shard import Ended, Shard
from kprobe_vm.errors import ExtraMissing, NoWorkers, SchedulerLost, SchedulerUnreachable

try:
    from distributed import Client, Future
    from distributed.scheduler import KilledWorker

    from kprobe_lab.scheduling import member
except ModuleNotFoundError:
    raise ExtraMissing(
        "--scheduler dask://... needs the Python package distributed: pip install 'kprobe-sim[scale]'"
    ) from None


CONNECTING = 5.0  # seconds within which the scheduler must answer
CHECK = 2.0  # seconds between two checks for new workers
WITHOUT = 30.0  # seconds to wait without any worker


class _Handed(NamedTuple):
    """A shard that dask has, and the addresses of the workers that may run it."""

    shard: Shard
    workers: frozenset[str]


class Cluster:
    """The workers of a scheduler that can do the work; they may come and go.

    `check` runs on each of them, and returns "" or what it lacks, with the remedy: then `progress` reports it, and the
    worker isn't used.  Raise `SchedulerUnreachable`, or `NoWorkers` if none can do it.
    """

    def __init__(self, address: str, check: Callable[[], str], progress: Callable[[str], None]) -> None:
        for name in ("distributed", "distributed.client"):  # we report errors ourselves
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._address = address
        self._check = check
        self._progress = progress
        self._work = f"kprobe-vm-{uuid.uuid4().hex}"
        try:
            self._client = Client(f"tcp://{address}", timeout=CONNECTING, set_as_default=False)
        except (OSError, ValueError) as error:
            raise SchedulerUnreachable(f"no dask scheduler answers at {address}: {error}") from error
        self._threads: dict[str, int] = {}  # of the workers that take part, by address
        self._refused: dict[str, str] = {}  # why others don't
        self._running: dict[Future[Any], _Handed] = {}
        self._ended: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._attempts = 0
        self._looked = self._had = time.monotonic()
        try:
            self._refresh()
            if not self._threads:
                raise NoWorkers(self._nobody())
        except BaseException:
            self.close()
            raise

    def free(self) -> int:
        """Return how many more shards can be begun now: one for each thread of the workers."""
        return sum(self._threads.values()) - len(self._running)

    def submit(self, shard: Shard) -> None:
        """Hand it to dask, which chooses a worker."""
        self._attempts += 1
        key = f"{self._work}-{shard.number}-{self._attempts}"
        workers = frozenset(self._threads)
        future = self._client.submit(member.run, self._work, shard, key=key, workers=list(workers), pure=False)
        self._running[future] = _Handed(shard, workers)
        future.add_done_callback(self._ended.put)

    def wait(self, seconds: float) -> list[Ended]:
        """Return the shards that have ended; raise `SchedulerLost`, or `NoWorkers` after a while without any."""
        ended = []
        try:
            future = self._ended.get(timeout=seconds)
            while True:
                if future in self._running:
                    ended.append(self._end(future))
                future = self._ended.get_nowait()
        except queue.Empty:
            pass
        if self._client.status != "running":
            raise self._lost()
        if time.monotonic() - self._looked > CHECK:
            ended += self._refresh()
        return ended

    def workers(self) -> str:
        """Return the number of workers, in words."""
        return f"{len(self._threads)} worker{'s' * (len(self._threads) != 1)}"

    def close(self) -> None:
        """End our part on the workers, with their guests; the workers stay."""
        if self._client.status == "running":
            self._client.cancel(list(self._running), force=True)
            with contextlib.suppress(OSError):  # the scheduler is gone, and so its workers know
                present = self._client.nthreads()  # dask would wait for a worker that has gone since
                self._on(self._threads.keys() & present.keys(), member.leave, self._work)
        self._running.clear()
        self._client.close(timeout=CONNECTING)

    def _end(self, future: Future[Any]) -> Ended:
        shard, _ = self._running.pop(future)
        try:
            end: Ended = future.result()
        except KilledWorker as error:
            return Ended(shard.number, str(error.last_worker.address), fault="each worker that began it was lost")
        except CancelledError:
            return Ended(shard.number, self._address, fault="dask cancelled it")
        except Exception as error:  # on its way to the worker or back
            return Ended(shard.number, self._address, fault=f"{type(error).__name__}: {error}")
        if end.fault == member.UNKNOWN:  # restarted at its old address: the next check will ask it
            self._threads.pop(end.worker, None)
        return end

    # ---- which workers ----

    def _refresh(self) -> list[Ended]:
        """Admit new workers that are able; return the shards that have no worker left."""
        try:
            return self._joined(self._client.nthreads())
        except OSError as error:
            raise self._lost() from error

    def _joined(self, present: dict[str, int]) -> list[Ended]:
        self._refused = {address: why for address, why in self._refused.items() if address in present}
        self._threads = {address: count for address, count in self._threads.items() if address in present}
        new = [address for address in present if address not in self._threads and address not in self._refused]
        able = self._able(new) if new else []
        joined = self._on(able, member.join, self._work)
        self._threads |= {address: present[address] for address in able if joined.get(address, self) is None}
        self._looked = time.monotonic()
        if self._threads:
            self._had = self._looked
        elif self._looked - self._had > WITHOUT:
            raise NoWorkers(self._nobody())
        return self._stranded()

    def _able(self, addresses: list[str]) -> list[str]:
        """Return the workers that are able to do the work; report the others."""
        ours, our_files = here()
        remedy = f"`pip install '.[campaign,scale]'` there, in a checkout of {ours}"
        for address, version in self._on(addresses, metadata.version, DISTRIBUTION).items():
            if isinstance(version, metadata.PackageNotFoundError):
                why = f"{DISTRIBUTION} isn't installed"
                self._refuse(address, f"{why}: {remedy}")
            elif version != ours:
                why = f"it has {DISTRIBUTION} {version}, and here is {ours}"
                self._refuse(address, f"{why}: {remedy}")
        alike = [address for address in addresses if address not in self._refused]
        for address, theirs in self._on(alike, files).items():
            if theirs != our_files:
                why = f"its {DISTRIBUTION} {ours} has other files (digest {theirs}, here {our_files})"
                self._refuse(address, f"{why}: {remedy} as it is here")
        alike = [address for address in alike if address not in self._refused]
        for address, lacking in self._on(alike, self._check).items():
            if lacking:
                self._refuse(address, str(lacking))
        return [address for address in alike if address not in self._refused]

    def _lost(self) -> SchedulerLost:
        return SchedulerLost(f"the dask scheduler at {self._address} is gone")

    def _refuse(self, address: str, why: str) -> None:
        self._refused[address] = why
        self._progress(f"worker {address} is not used: {why}")

    def _nobody(self) -> str:
        lines = [f"  {address}: {why}" for address, why in self._refused.items()]
        return "\n".join([f"the dask scheduler at {self._address} has no worker that can do this", *lines])

    def _on(self, addresses: Iterable[str], function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call a function on workers; return each result or exception."""
        chosen = list(addresses)
        if not chosen:
            return {}
        return dict(self._client.run(function, *arguments, workers=chosen, on_error="return"))

    def _stranded(self) -> list[Ended]:
        """End the shards whose workers have all gone."""
        stranded = [future for future, handed in self._running.items() if handed.workers.isdisjoint(self._threads)]
        for future in stranded:
            future.cancel()
        numbers = [self._running.pop(future).shard.number for future in stranded]
        return [Ended(number, self._address, fault="all workers that could do it are gone") for number in numbers]
