"""The loop of a worker process of `processes`: shards as they arrive, until nobody waits for results."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from kprobe_lab.scheduling.kept import Kept
from kprobe_lab.scheduling.shard import Shard, attempt


def main(descriptor: int) -> None:
    """Run the shards that come over a socket; send each result, and lines of progress."""
    signal.signal(signal.SIGTERM, _end)
    connection: Connection[Any, Any] = Connection(descriptor)
    sending = threading.Lock()

    def send(message: object) -> None:
        with sending:
            connection.send(message)

    def tell(line: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads any more, which the main thread will notice
            send(line)

    kept = Kept(tell)
    shards: queue.SimpleQueue[Shard] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, shards), name="kprobe-vm shards", daemon=True).start()
    try:
        while True:
            send(attempt(shards.get(), kept, ""))
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        kept.close()


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal would interrupt the ending of guests
    sys.exit(128 + signal.SIGTERM)


def _receive(connection: Connection[Any, Any], shards: queue.SimpleQueue[Shard]) -> None:
    """Receive shards; when their source has gone, interrupt the main thread."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            shards.put(connection.recv())
    os.kill(os.getpid(), signal.SIGTERM)
