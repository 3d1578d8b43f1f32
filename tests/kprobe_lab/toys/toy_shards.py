"""Shards for tests: this directory is in the path of the tests that use them, and of their workers."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from kprobe_vm.errors import BootTimeout, QemuMissing


class Square(NamedTuple):
    number: int

    def run(self, kept: Any) -> int:
        return self.number**2


class Faulty(NamedTuple):
    """Fails so many times, by the lines of a file."""

    number: int
    log: str
    times: int
    kind: str = "ValueError"

    def __str__(self) -> str:
        return f"faulty shard {self.number}"

    def run(self, kept: Any) -> int:
        with open(self.log, "a") as log:
            log.write(f"{self.number}\n")
        if Path(self.log).read_text().split().count(str(self.number)) > self.times:
            return self.number**2
        match self.kind:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "BootTimeout":
                raise BootTimeout("no hello")
            case "QemuMissing":
                raise QemuMissing
        raise ValueError("no luck")


class Sleeper:
    """What stands for a guest: a process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Sleeping(NamedTuple):
    """Tells in a named pipe which process it has, and then waits until that ends; or returns at once."""

    number: int
    pipe: str = ""

    def run(self, kept: Any) -> int:
        with kept.borrow("sleeper", Sleeper) as sleeper:
            if self.pipe:
                Path(self.pipe).write_text(f"{os.getpid()} {sleeper.process.pid}")
                sleeper.process.wait()
                kept.check()
            return int(sleeper.process.pid)
