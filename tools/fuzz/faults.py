"""Developers run `make faults` after a change to sessions: `kprobe` on a simulator that fails, lies and is noisy.

    python tools/fuzz/faults.py [COUNT] [--seed 32] [--kernel 6.1] [--only NUMBER]

A session has a view, ends after a time, by a number of events or by a signal, at the top level or not, and sometimes
beside another reader that records whenever anything is read there.  Operations fail before or after they take effect:
by an errno, an interrupt, lack of memory, silence or the end of a stream; once, now and then, or nearly always on one
kind of file.  A finding is a session that isn't over in time, that leaves something behind without naming it, or that
ends by an error of ours.

Exit status: 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from kprobe.cli import main as kprobe
from kprobe_sim import SimulatedKernel, Task

LIMIT = 20.0  # seconds that a session may take; its own time is at most a tenth of one
# but for those that tell what isn't true: that something isn't there, or is there already
ERRNOS = (
    errno.EIO,
    errno.ENOMEM,
    errno.EBUSY,
    errno.EINTR,
    errno.ENOSPC,
    errno.EPERM,
    errno.EAGAIN,
    errno.EINVAL,
    errno.EACCES,
)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OPEN = "p:myopen do_sys_openat2 name=+0(%si):string"
RETURN = "r:mygroup/myret do_sys_openat2 fd=$retval:s32"
VIEWS = (
    (OPEN,), (OPEN, RETURN, "--", "fd < 9"), ("-s", OPEN), ("-H", OPEN), ("-p", "42", OPEN), ("--json", RETURN),
    ("--csv", OPEN), ("--raw", OPEN), ("--raw", OPEN, RETURN), ("--count", "comm", OPEN), ("--count", "fd", RETURN),
    ("--hist", "fd", RETURN), ("--latency", "do_sys_openat2"), ("--stacks", OPEN), ("--json", "--count", "pid", OPEN),
    ("--buffer-size", "64", "--cpus", "0", OPEN),
)  # fmt: skip
SETTINGS = ("options/stacktrace", "set_event_pid", "tracing_on", "buffer_size_kb", "tracing_cpumask")
FILES = ("stats", "trace_pipe_raw", "trace_pipe", "enable", "kprobe_events", "format")
ENDS = (["--timeout", ".02"], ["--timeout", ".08"], ["-d", ".03"], ["--max-events", "5", "--timeout", ".1"])
STDOUT, STDERR = 1, 2
Random = random.Random


class Overdue(BaseException):
    """A session isn't over in its time."""


class Faults:
    """When which operation fails: with a chance each, or always those on paths that end in a word."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._rate = chance.choice((0, 0, 0.002, 0.01, 0.05, 0.2))
        self._always = chance.choice(
            ("", "", "", "stats", "trace_pipe_raw", "trace_pipe", "enable", "kprobe_events", "format")
        )
        self._number = chance.choice(ERRNOS)
        self._signal_at = chance.randrange(400) if chance.random() < 0.3 else -1
        self._interrupts = chance.random() < 0.3
        self._from = chance.choice((0, 40, 80, 120))
        self.operations = 0

    def comes(self, path: str) -> BaseException | None:
        """Return what goes wrong with this operation, if anything does."""
        if self.operations == self._signal_at:
            os.kill(os.getpid(), self._chance.choice(SIGNALS))
        self.operations += 1
        if self.operations < self._from:
            return None
        if self._always and path.endswith(self._always) and self._chance.random() < 0.9:
            return OSError(self._number, os.strerror(self._number), path)
        if self._chance.random() >= self._rate:
            return None
        if self._interrupts and self._chance.random() < 0.3:
            return self._chance.choice((KeyboardInterrupt, MemoryError))()
        number = self._chance.choice(ERRNOS)
        return OSError(number, os.strerror(number), path)


class Faulty:
    """A tracefs of which operations fail; `noise` is made at each look into a stream."""

    def __init__(self, kernel: SimulatedKernel, faults: Faults, noise: bool, chance: Random) -> None:
        self._kernel = kernel
        self._faults = faults
        self.noise = noise
        self.chance = chance

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "write", "listdir", "exists", "mkdir", "rmdir", "threads"):
            deed = getattr(self._kernel.tracefs, name)
            return lambda path, *rest, **options: self.do(str(path), lambda: deed(path, *rest, **options))
        raise AttributeError(name)

    def do(self, path: str, deed: Callable[[], Any]) -> Any:
        """Do it; fail before or after."""
        error = self._faults.comes(path)
        if error is not None and self.chance.random() < 0.5:
            raise error
        done = deed()
        if error is not None:
            if isinstance(done, Stream):
                done.stream.close()  # nobody has it
            raise error
        return done

    def stream(self, path: str) -> Any:
        """Open a stream."""
        return self.do(path, lambda: Stream(self, path, self._kernel.tracefs.stream(path)))

    def play(self) -> None:
        """Do what is traced."""
        for number in range(self.chance.choice((1, 30, 300))):
            args = (-100 & 0xFFFFFFFF, f"/etc/{number}", 0)
            cpu = number % 3
            self._kernel.call("do_sys_openat2", task=Task(42, "cat"), args=args, returns=number % 20, cpu=cpu)

    def mark(self) -> None:
        """Record what somebody else does at the top level."""
        self._kernel.tracefs.write("trace_marker", b"noise\n")


class Stream(NamedTuple):
    """A stream of it, which also falls silent or ends for no reason."""

    tracefs: Faulty
    path: str
    stream: Any

    def read(self, timeout: float | None = None) -> Any:
        """Read."""
        if self.tracefs.noise:
            self.tracefs.mark()
        error = self.tracefs._faults.comes(self.path)
        if error is not None:
            lie = self.tracefs.chance.random()
            if lie < 0.3:
                raise TimeoutError(errno.ETIMEDOUT, "no data", self.path)
            if lie < 0.5:
                return b""
            raise error
        return self.stream.read(timeout)

    def close(self) -> None:
        """Close it."""
        self.tracefs.do(self.path, self.stream.close)


class State(NamedTuple):
    """What there is by name, and the settings of the top level."""

    names: frozenset[str]
    settings: dict[str, bytes]

    @classmethod
    def of(cls, kernel: SimulatedKernel) -> State:
        """Return it as it is now."""
        tracefs = kernel.tracefs
        names = {line.split()[0].partition(":")[2] for line in tracefs.read("dynamic_events").decode().splitlines()}
        names |= {f"instances/{name}" for name in tracefs.listdir("instances")}
        names |= {f"enabled {name}" for name in tracefs.read("set_event").decode().split()}
        try:
            tracefs.stream("trace_pipe").close()
        except OSError:
            names.add("trace_pipe")
        return cls(frozenset(names), {path: tracefs.read(path) for path in SETTINGS})


def words_of(chance: Random) -> list[str]:
    """Return a command line."""
    words = [*chance.choice(VIEWS)]
    if "--cpus" not in words and chance.random() < 0.5:
        words.insert(0, "--top-level")
    return [*chance.choice(ENDS), *words]


@contextlib.contextmanager
def captured() -> Iterator[tuple[Any, Any]]:
    """Have what is printed go to files."""
    kept = os.dup(STDOUT), os.dup(STDERR)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        os.dup2(out.fileno(), STDOUT)
        os.dup2(err.fileno(), STDERR)
        try:
            yield out, err
        finally:
            for number, descriptor in zip((STDOUT, STDERR), kept, strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)


def session(kernel: SimulatedKernel, number: int, seed: int) -> tuple[str, str, bool]:
    """Run a session; return how it ended, what was wrong with that, and whether the kernel can be used again."""
    chance = Random(f"{seed} {number}")
    words = words_of(chance)
    tracefs = Faulty(kernel, Faults(chance), chance.random() < 0.3, chance)
    before = State.of(kernel)
    wrong, how, notes = "", "", ""

    def alarm(_number: int, _frame: FrameType | None) -> None:
        raise Overdue

    signal.signal(signal.SIGALRM, alarm)
    with captured() as (_, err):
        signal.setitimer(signal.ITIMER_REAL, LIMIT, 1)
        try:
            how = f"status {kprobe(words, tracefs=tracefs)}"
        except Overdue:
            wrong = f"not over in {LIMIT:.0f} s\n{traceback.format_exc()}"
        except (KeyboardInterrupt, MemoryError) as error:
            how, notes = type(error).__name__, "\n".join(getattr(error, "__notes__", ()))
        except BaseException:
            wrong = traceback.format_exc()
        signal.setitimer(signal.ITIMER_REAL, 0)
        err.seek(0)
        said = f"{err.read().decode(errors='replace')}\n{notes}"
    now = State.of(kernel)
    left = now.names - before.names | {path for path in SETTINGS if now.settings[path] != before.settings[path]}
    unnamed = {name for name in left if name.removeprefix("enabled ").replace(":", "/") not in said}
    if not wrong and unnamed:
        wrong = f"left unnamed: {', '.join(sorted(unnamed))}\n{said}"
    if before.names - now.names:
        wrong = f"took away {', '.join(sorted(before.names - now.names))}"
    found = f"session {number} ({' '.join(words)}{', noise' * tracefs.noise}): {wrong}" if wrong else ""
    return how + (", something left" if left else ""), found, not left and not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=32)
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--only", type=int, help="this session alone")
    given = parser.parse_args()
    began, longest, found = time.monotonic(), 0.0, 0
    ends: Counter[str] = Counter()
    kernel: SimulatedKernel | None = None
    numbers = range(given.count) if given.only is None else range(given.only, given.only + 1)
    for number in numbers:
        if kernel is None:
            kernel = SimulatedKernel(given.kernel, cpus=3)
            kernel.tracefs.write("kprobe_events", b"p:theirs do_sys_openat2\n")
            kernel.tracefs.mkdir("instances/theirs")
            kernel.tracefs.write("buffer_size_kb", b"300")
        since = time.monotonic()
        how, finding, is_good = session(kernel, number, given.seed)
        longest = max(longest, time.monotonic() - since)
        ends[how] += 1
        if finding:
            found += 1
            print(finding, flush=True)
        if not is_good:
            kernel = None
    for how, count in ends.most_common():
        print(f"{count:6} {how}")
    seconds = time.monotonic() - began
    print(f"{len(numbers)} sessions, seed {given.seed}, {seconds:.0f} s, the longest {longest:.1f} s: {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
