"""Developers run `make kill9` after a change to sessions: kills `kprobe` at random moments, and checks what it leaves.

    python tools/fuzz/kill9.py [SERIES] [--seed 18] [--count 500] [--seconds 0.15]     on a mounted simulator
    python tools/fuzz/kill9.py [SERIES] --guest …        within a guest
    python tools/fuzz/kill9.py --root DIR …              on that tracefs, as the two above do
    python tools/fuzz/kill9.py --signals …               by other signals, beside a neighbour

Each shape of session first runs undisturbed, to learn how long it takes.  Then each is killed in turn by SIGKILL, at a
moment drawn evenly from that whole time, from the start of Python to the end.  The state of the tracefs is compared
with the state before: at once, and again after the next session, after `kprobe clean`, or after a next session that is
killed too and then `kprobe clean`.  Exit status: 0 if those always left nothing, 1 otherwise.

With `--signals` the sessions get signals that they answer, while another process records at the top level all the time.
They must end within a few seconds and leave nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TRACER = ("kprobe", "kprobe_text")  # what a guest needs to run `kprobe`
OPEN = "p:kopen do_sys_openat2 name=+0(%si):ustring"
RETURN = "r:kret do_sys_openat2 fd=$retval:s32"
TOP = "--top-level"
PATIENCE = 10.0  # seconds in which the kernel must have freed what nobody holds, and a command must have ended
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FOR_EVER = 60.0  # seconds that a session would trace, if no signal came
THEIRS = "theirs"  # what somebody else made is called so
STATE = 1 << 16  # bytes of a file that are compared
WHOLE = 100  # kills from one look at everything to the next
# shapes of sessions, by the words after `kprobe`; two of them are side by side, and the first is killed
SHAPES: dict[str, tuple[str, ...] | tuple[tuple[str, ...], tuple[str, ...]]] = {
    "p": (OPEN,),
    "r": (RETURN,),
    "r100": ("r100:kret do_sys_openat2",),
    "f": ("f:kf vfs_read",),
    "f return": ("f:kf vfs_read%return n=$retval:s64",),
    "t": ("t:kt sched_switch",),
    "e": ("e:ke syscalls.sys_enter_openat dfd=$dfd:s32",),
    "several": (OPEN, RETURN, "--", "fd < 0"),
    "pattern": ("p:vfs_re*",),
    "pattern of f": ("f:vfs_rea*",),
    "filter": (OPEN, 'name ~ "*host*"'),
    "process": ("-p", "1", OPEN),
    "thread": ("-L", "1", "-s", OPEN),
    "follow": ("-p", "1", "--follow", OPEN),
    "buffered": ("-d", "SECONDS", OPEN),
    "ranges": ("--cpus", "0", "--buffer-size", "100", "--max-events", "1000", OPEN),
    "raw": ("--raw", OPEN),
    "json": ("--json", OPEN),
    "csv": ("--csv", OPEN),
    "latency": ("--latency", "do_sys_openat2"),
    "hist": ("--hist", "fd", RETURN),
    "count": ("--count", "comm", OPEN),
    "stacks": ("--stacks", OPEN),
    "top": ("top", "-d", "SECONDS", OPEN),
    "format": ("-v", OPEN),
    "doctor": ("doctor", "--try", "SECONDS", "do_sys_openat2"),
    "group": ("p:mygroup/mine do_sys_openat2", "r:mygroup/back do_sys_openat2"),
    "group of e": ("e:mygroup/mine syscalls.sys_enter_openat dfd=$dfd:s32",),
    "top level": (TOP, OPEN),
    "top level: filter and process": (TOP, "-p", "1", OPEN, 'name ~ "*host*"'),
    "top level: buffer": (TOP, "--buffer-size", "100", OPEN),
    "top level: CPUs": (TOP, "--cpus", "0", OPEN),
    "top level: stacks": (TOP, "-s", OPEN),
    "top level: all, in a group": (TOP, "-s", "--cpus", "0", "--buffer-size", "64", "p:mygroup/mine vfs_read", RETURN),
    "top level: e": (TOP, "e:ke syscalls.sys_enter_openat dfd=$dfd:s32"),
    "two of one name": ((OPEN,), (OPEN,)),
    "two at the top level": (  # which has one reader of trace_pipe
        ("-d", "SECONDS", TOP, "--buffer-size", "100", "-s", OPEN),
        ("-d", "SECONDS", TOP, "--buffer-size", "100", "-s", OPEN),
    ),
}
TIMED = ("-d", "-v", "doctor")  # these end without --timeout
# what differs from look to look though nobody changes anything, can't be read, or is the buffers' own
SKIPPED_FILES = (
    "trace trace_pipe trace_pipe_raw trace_marker trace_marker_raw free_buffer snapshot README dyn_ftrace_total_info "
    "saved_cmdlines saved_tgids available_filter_functions available_filter_functions_addrs available_events format "
    "touched_functions printk_formats kprobe_profile uprobe_profile hist hist_debug inject id buffer_total_size_kb "
    "header_page header_event trace_options error_log"
)
SKIPPED_DIRECTORIES = "per_cpu rv osnoise trace_stat hwlat_detector"
ARMED = "/sys/kernel/debug/kprobes/list"

State = dict[str, str]


class Tally:
    """What became of the kills of a shape; `left` of them left something at once, `kept` after the next run."""

    def __init__(self, length: float) -> None:
        self.length = length
        self.kills = self.late = self.left = self.kept = 0


class Bench:
    """A tracefs whose sessions are killed; `seconds` are how long each traces."""

    def __init__(self, root: str, seed: int, seconds: float) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.seconds = seconds
        self.static = frozenset(os.listdir(f"{root}/events")) - {THEIRS}
        self.files, self.directories = frozenset(SKIPPED_FILES.split()), frozenset(SKIPPED_DIRECTORIES.split())
        self.before: State = {}

    def start(self, words: Iterable[str], seconds: float | None = None) -> subprocess.Popen[bytes]:
        """Start a session that ends by itself after so many seconds, or another command."""
        length = f"{self.seconds if seconds is None else seconds:g}"
        given = [length if word == "SECONDS" else word for word in words]
        timed = ["--timeout", length] if not set(TIMED) & {*given} and given[0] != "clean" else []
        command = [sys.executable, "-m", "kprobe", *given[:1], *timed, *given[1:], "--tracefs", f"local:{self.root}"]
        if given[0] not in ("top", "doctor", "clean"):
            command[3:] = ["--tracefs", f"local:{self.root}", *timed, *given]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def end(self, process: subprocess.Popen[bytes], what: str) -> None:
        """Wait for a command that nobody disturbs.  Raise `SystemExit` if it fails."""
        _, errors = process.communicate(timeout=self.seconds + PATIENCE * 6)
        if process.returncode:
            raise SystemExit(f"{what}: status {process.returncode}\n{errors.decode(errors='replace')}")

    def state(self, *, whole: bool) -> State:
        """Return what the files say: those of the top level, of instances and dynamic events; `whole`: all events'."""
        found: State = {}
        for path in self._paths("", whole):
            text = read(f"{self.root}/{path}")
            found[path] = text.rpartition("(expanded: ")[2].rstrip(")") if path.endswith("buffer_size_kb") else text
        found["instances"] = " ".join(sorted(os.listdir(f"{self.root}/instances")))
        if os.path.ismount(self.root) and os.path.exists(ARMED):
            found[ARMED] = " ".join(sorted(line.partition("  ")[2] for line in read(ARMED).splitlines()))
        return found

    def _paths(self, directory: str, whole: bool) -> Iterator[str]:
        for entry in sorted(os.scandir(f"{self.root}/{directory}"), key=lambda entry: entry.name):
            path = f"{directory}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                is_static = directory.endswith("events/") and entry.name in self.static
                if entry.name not in self.directories and (whole or not is_static):
                    yield from self._paths(f"{path}/", whole)
            elif entry.name not in self.files:
                yield path

    def differs(self, *, whole: bool = False) -> list[str]:
        """Return in which paths the state isn't what it was."""
        now = self.state(whole=whole)
        paths = {*now} if not whole else {*now, *self.before}
        gone = {path for path in self.before if path not in now and "/" not in path}
        return sorted(path for path in paths | gone if now.get(path) != self.before.get(path))

    def settled(self, *, whole: bool) -> list[str]:
        """Return the same once the kernel has freed what it frees later."""
        end = time.monotonic() + PATIENCE
        while (found := self.differs(whole=whole)) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def kill(self, words: tuple[str, ...], length: float) -> bool:
        """Kill a session at a moment of its time; False if it had ended by then."""
        moment = self.random.uniform(0, length)
        began = time.monotonic()
        process = self.start(words)
        try:
            process.communicate(timeout=max(0.0, began + moment - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        return process.returncode == -signal.SIGKILL

    def signal(self, words: tuple[str, ...], length: float) -> tuple[float, str]:
        """Send a session a signal at a moment of its time; return how long its end took, and what was wrong."""
        number = self.random.choice(SIGNALS)
        moment = self.random.uniform(0, length)
        process = self.start(words, FOR_EVER)
        try:
            process.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            began = time.monotonic()
            process.send_signal(number)
            try:
                process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return PATIENCE, f"not over in {PATIENCE:.0f} s after {number.name}"
            return time.monotonic() - began, ""
        return 0.0, f"over by itself, with status {process.returncode}"

    def after(self, words: tuple[str, ...], length: float) -> str:
        """Let come what comes after a kill; return what that was."""
        what = self.random.choice(("the next session", "kprobe clean", "one that is killed, and kprobe clean"))
        if what.startswith("one"):
            self.kill(words, length)
        self.end(self.start(("clean",) if what.endswith("clean") else words), what)
        return what


class Session(NamedTuple):
    """A shape, with how many seconds it takes; `beside` runs at the same time, if there is any."""

    name: str
    words: tuple[str, ...]
    beside: tuple[str, ...]
    length: float


def split(shape: tuple[str, ...] | tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the session that is killed, and the one beside it, () for none."""
    first, *rest = shape
    if isinstance(first, tuple):
        return first, tuple(rest[0])
    return tuple(word for word in shape if isinstance(word, str)), ()


def measured(bench: Bench) -> Iterator[Session]:
    """Run shapes undisturbed, in an order of chance; raise `SystemExit` if one fails or leaves anything."""
    for name in bench.random.sample(list(SHAPES), len(SHAPES)):
        words, beside = split(SHAPES[name])
        began = time.monotonic()
        bench.end(bench.start(words), name)
        length = time.monotonic() - began
        left = bench.settled(whole=False)
        if left:
            raise SystemExit(f"{name}, which nobody killed, left {', '.join(left)}")
        yield Session(name, words, beside, length)


def furnish(root: str) -> None:
    """Let there be what is somebody else's, which must stay: an event, an instance that uses it, a size, a filter."""
    for path, text in (
        ("kprobe_events", "p:theirs/theirs vfs_rmdir"),
        ("events/theirs/theirs/filter", "__probe_ip != 1"),
        ("buffer_size_kb", "300"),
    ):
        write(f"{root}/{path}", text)
    os.mkdir(f"{root}/instances/theirs")
    write(f"{root}/instances/theirs/events/theirs/theirs/enable", "1")


def write(path: str, text: str) -> None:
    """Write to a file in one write(2), without truncating it."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)


def read(path: str) -> str:
    """Return the beginning of a file, or why it can't be read, by as few system calls as that takes."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        return f"errno {error.errno}"
    try:
        data = b""
        while len(data) < STATE and (piece := os.read(descriptor, STATE)):
            data += piece
    except OSError as error:
        return f"errno {error.errno}"
    finally:
        os.close(descriptor)
    return data.decode(errors="replace").strip()


def campaign(root: str, seed: int, count: int, seconds: float, *, quick: bool) -> int:
    """Kill so many sessions on a tracefs; print what became of it, and return the exit status."""
    furnish(root)
    bench = Bench(root, seed, seconds)
    bench.before = bench.state(whole=not quick)
    tallies: dict[str, Tally] = {}
    total = 0
    for session in cycle(measured(bench)):
        if total == count:
            break
        tally = tallies.setdefault(session.name, Tally(session.length))
        beside = bench.start(session.beside) if session.beside else None
        is_killed = bench.kill(session.words, session.length)
        if beside is not None:
            bench.end(beside, f"beside {session.name}")
        left = bench.differs()
        what = bench.after(session.words, session.length)
        total += is_killed
        kept = bench.settled(whole=not quick and (total % WHOLE == 0 or total == count))
        tally.kills += is_killed
        tally.late += not is_killed
        tally.left += bool(left)
        tally.kept += bool(kept)
        if kept:
            print(f"{session.name}: left by {what}: {', '.join(kept)}", flush=True)
            bench.before = bench.state(whole=not quick)
    print("shape                          seconds  killed  ended before  left at once  left after")
    for name, tally in sorted(tallies.items()):
        numbers = f"{tally.length:7.2f}{tally.kills:8}{tally.late:14}{tally.left:14}{tally.kept:12}"
        print(f"{name:31}{numbers}")
    left_at_once, kept_after = (sum(getattr(one, key) for one in tallies.values()) for key in ("left", "kept"))
    print(f"{total} killed in {len(tallies)} shapes, {len(bench.before)} files compared, seed {seed}:", end=" ")
    print(f"{left_at_once} left something at once, {kept_after} after the next run", flush=True)
    return 1 if kept_after else 0


def campaign_of_signals(root: str, seed: int, count: int, seconds: float) -> int:
    """Signal so many sessions on a tracefs, beside a neighbour; print what became of it, and return the exit status."""
    furnish(root)
    bench = Bench(root, seed, seconds)
    bench.before = bench.state(whole=False)
    # two that are side by side, or one that is over at once, don't wait for a signal
    sessions = (one for one in measured(bench) if not one.beside and "-v" not in one.words)
    names = set()
    longest, findings, began = 0.0, 0, time.monotonic()
    with neighbour(root):
        for number, session in zip(range(count), cycle(sessions)):
            names.add(session.name)
            took, wrong = bench.signal(session.words, session.length)
            longest = max(longest, took)
            left = bench.settled(whole=False)
            if wrong or left:
                findings += 1
                print(f"{number}: {session.name}: {wrong}{'; left ' * bool(left)}{', '.join(left)}", flush=True)
                bench.before = bench.state(whole=False)
    passed = time.monotonic() - began
    print(f"{count} sessions of {len(names)} shapes signalled, seed {seed}, {passed:.0f} s:", end=" ")
    print(f"the longest end took {longest:.1f} s; {findings} findings", flush=True)
    return 1 if findings else 0


@contextmanager
def neighbour(root: str) -> Iterator[None]:
    """Have somebody record at the top level, a hundred times a second."""
    is_over = threading.Event()

    def mark() -> None:
        while not is_over.wait(0.01):
            write(f"{root}/trace_marker", "noise")

    thread = threading.Thread(target=mark, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def mounted(series: str) -> Iterator[str]:
    """Mount a simulator of that series, and take that back."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "kprobe_sim.cli", "mount", "--kernel", series, place]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            assert server.stdout is not None
            said = server.stdout.readline()
            if " on " not in said:
                raise SystemExit(said.strip())
            try:
                yield place
            finally:
                server.send_signal(signal.SIGINT)
                server.wait(PATIENCE)


def in_guest(series: str, words: list[str]) -> int:
    """Do it within a guest of that series, by the Python of its distribution."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for package in TRACER:
            shutil.copytree(ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
        script = place / Path(__file__).resolve().relative_to(ROOT)
        script.parent.mkdir(parents=True)
        shutil.copy(__file__, script)
        points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
        facts = place / "kprobe_sim-0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: kprobe-sim\nVersion: 0\n", "utf-8")
        text = "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in points.items()
        )
        (facts / "entry_points.txt").write_text(text, "utf-8")
        own = ["python3", f"/repo/{script.relative_to(place)}", "--root", "/sys/kernel/tracing", *words]
        compiled = " ".join(f"/repo/{package}" for package in TRACER)
        line = f"export PYTHONPATH=/repo; python3 -m compileall -q {compiled}; exec {' '.join(own)}"
        command = [sys.executable, "-m", "kprobe_vm", "-q", "run", series, "--memory", "768", "--package", "python3"]
        return subprocess.run([*command, "--copy", f"{place}:/repo", "--", "sh", "-c", line]).returncode


def main() -> int:
    """Read the command line, and do it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("series", nargs="?", default="6.12")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--quick", action="store_true", help="leave out the kernel's own events")
    parser.add_argument("--signals", action="store_true", help="other signals, beside somebody who records on and on")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--guest", action="store_true")
    place.add_argument("--root")
    words = parser.parse_args()
    if words.guest:
        numbers = ("seed", "count", "seconds")
        given = [f"--{name}={getattr(words, name)}" for name in numbers]
        return in_guest(words.series, [*given, *(f"--{name}" for name in ("quick", "signals") if getattr(words, name))])
    with nullcontext(words.root) if words.root else mounted(words.series) as root:
        if words.signals:
            return campaign_of_signals(root, words.seed, words.count, words.seconds)
        return campaign(root, words.seed, words.count, words.seconds, quick=words.quick)


if __name__ == "__main__":
    sys.exit(main())
