"""The scheduler for this machine alone: our own processes, with one shard at a time in each."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from kprobe_lab.scheduling.shard import Ended, Shard
from kprobe_vm.errors import NotReady

PATIENCE = 10.0  # seconds for a worker to end its guests
PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from kprobe_lab.scheduling.worker import main
main(int(sys.argv[1]))
"""


class _Worker:
    """A child process, which ends when its socket to us closes."""

    def __init__(self, name: str) -> None:
        ours, theirs = socket.socketpair()
        self.name = name
        self.shard: Shard | None = None  # what it does
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM, str(theirs.fileno()), json.dumps(sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # stdout belongs to the command
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for us; we end the worker
            )
        self.connection: Connection[Any, Any] = Connection(ours.detach())

    def end(self) -> None:
        """Tell it to end, unless it has."""
        self.connection.close()
        self.process.terminate()

    def wait(self) -> int:
        """Wait until it has ended; return how it ended."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Processes:
    """Up to `jobs` processes, started when there are shards for them."""

    def __init__(self, jobs: int, progress: Callable[[str], None] = lambda line: None) -> None:
        self._jobs = jobs
        self._progress = progress
        self._workers: list[_Worker] = []
        self._begun = 0

    def free(self) -> int:
        """Return how many more shards can be started now."""
        return self._jobs - sum(worker.shard is not None for worker in self._workers)

    def submit(self, shard: Shard) -> None:
        """Give it to an idle worker, or to a new one."""
        worker = next((worker for worker in self._workers if worker.shard is None), None) or self._another()
        worker.shard = shard
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the worker is lost, which `wait` notices
            worker.connection.send(shard)

    def wait(self, seconds: float) -> list[Ended]:
        """Return the shards that have ended; raise `NotReady` if this machine lacks what they need."""
        ready = wait([worker.connection for worker in self._workers], seconds)
        ended = []
        for worker in [worker for worker in self._workers if worker.connection in ready]:
            try:
                message = worker.connection.recv()
            except (EOFError, ConnectionResetError):
                ended += self._lost(worker)
                continue
            if isinstance(message, str):
                self._progress(message if self._jobs == 1 else f"{worker.name}: {message}")
                continue
            worker.shard = None
            end: Ended = message._replace(worker=worker.name)
            if end.is_not_ready:  # every other worker lacks it, too
                error = NotReady(end.fault)
                error.exit_status = end.status
                raise error
            ended.append(end)
        return ended

    def workers(self) -> str:
        """Return the number of workers, in words."""
        return "" if self._jobs == 1 else f"{self._jobs} workers"

    def close(self) -> None:
        """End all workers, and with them their guests."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.end()
        for worker in workers:
            worker.wait()

    def _another(self) -> _Worker:
        self._begun += 1
        worker = _Worker(f"worker {self._begun}")
        self._workers.append(worker)
        return worker

    def _lost(self, worker: _Worker) -> list[Ended]:
        self._workers.remove(worker)
        worker.connection.close()
        status = worker.wait()
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return [Ended(worker.shard.number, worker.name, fault=f"the process {how}")] if worker.shard else []
