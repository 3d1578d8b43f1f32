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

__all__ = ["main"]


def main(descriptor: int) -> None:
    """Do the shards that come over a socket, and send what came of each, and lines about what is being done."""
    signal.signal(signal.SIGTERM, _end)
    connection: Connection[Any, Any] = Connection(descriptor)
    sending = threading.Lock()

    def send(message: object) -> None:
        with sending:
            connection.send(message)

    def tell(line: str) -> None:
        with contextlib.suppress(OSError):  # nobody is there to read it; the main thread will be told
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
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would interrupt the ending of guests
    sys.exit(128 + signal.SIGTERM)


def _receive(connection: Connection[Any, Any], shards: queue.SimpleQueue[Shard]) -> None:
    """Take shards; when whoever gives them is gone, let the main thread end what it is doing."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            shards.put(connection.recv())
    os.kill(os.getpid(), signal.SIGTERM)
