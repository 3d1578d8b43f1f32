"""A scripted tracefs: it keeps files and directories, refuses what it is asked to, and writes down what is done to it.

It knows nothing of the kernel's rules except that events come and go with kprobe_events and instances with mkdir; what
needs more is tested on the simulator.
"""

from __future__ import annotations

import errno
import os
import sys
import tomllib
from collections import deque
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class ScriptedStream:
    """Gives what was put into `data`; None in it stands for a while with no data, b"" for the end."""

    def __init__(self, tracefs: ScriptedTracefs, path: str) -> None:
        self.tracefs = tracefs
        self.path = path
        self.closed = False

    def read(self, timeout: float | None = None) -> bytes:
        if self.closed:
            return b""
        item = self.tracefs.data.popleft() if self.tracefs.data else None
        if callable(item):
            item = item()
        if item is None:
            raise TimeoutError(errno.ETIMEDOUT, "no data", self.path)
        return item

    def close(self) -> None:
        self.closed = True
        self.tracefs.log.append(f"close {self.path}")


class ScriptedTracefs:
    """`files` maps paths to bytes, `refuse` maps calls ("write PATH", "mkdir PATH") to an errno."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {
            "README": b"",
            "kprobe_events": b"",
            "error_log": b"",
            "available_filter_functions": b"do_sys_openat2\nvfs_read\next4_open [ext4]\n",
            "tracing_on": b"1\n",
            "trace": b"# tracer: nop\n#\n",
            "trace_pipe": b"",
            "current_tracer": b"nop\n",
            "set_event_pid": b"",
            "options/stacktrace": b"0\n",
            "options/event-fork": b"0\n",
        }
        self.directories = {"", "events", "options", "instances"}
        self.refuse: dict[str, int] = {}
        self.on_write: dict[str, Callable[[bytes], None]] = {}
        self.log: list[str] = []
        self.data: deque[object] = deque()

    def _check(self, call: str, path: str) -> None:
        number = self.refuse.get(f"{call} {path}")
        if number:
            raise OSError(number, os.strerror(number), path)

    def read(self, path: str) -> bytes:
        self._check("read", path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self.files[path]

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        self.log.append(f"{'truncate' if truncate else 'write'} {path} {data.decode().rstrip()}")
        if path in self.on_write:
            self.on_write[path](data)
        self._check("write", path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if path == "kprobe_events":
            self._define(data)
        elif path.endswith("set_event_pid"):
            self.files[path] += data
        else:
            self.files[path] = data

    def _define(self, data: bytes) -> None:
        event, _, rest = data.decode().strip().partition(" ")
        kind, _, name = event.partition(":")
        group, name = name.split("/") if "/" in name else ("kprobes", name)
        lines = self.files["kprobe_events"].splitlines(keepends=True)
        if kind == "-":
            kept = [line for line in lines if not line.startswith(f"p:{group}/{name} ".encode())]
            if len(kept) == len(lines):
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", "kprobe_events")
            self.files["kprobe_events"] = b"".join(kept)
            for path in [path for path in self.files if f"events/{group}/{name}/" in path]:
                del self.files[path]
            self.directories = {path for path in self.directories if not path.endswith(f"events/{group}/{name}")}
            return
        self.files["kprobe_events"] += f"p:{group}/{name} {rest}\n".encode()
        for place in [*self._instances(), ""]:
            self.directories.add(f"{place}events/{group}/{name}")
            for file, text in (("enable", b"0\n"), ("filter", b"none\n"), ("format", b"name: x\nformat:\n")):
                self.files[f"{place}events/{group}/{name}/{file}"] = text

    def _instances(self) -> list[str]:
        return [path + "/" for path in self.directories if path.startswith("instances/")]

    def listdir(self, path: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self.directories if name.rpartition("/")[0] == path)

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.directories

    def mkdir(self, path: str) -> None:
        self.log.append(f"mkdir {path}")
        self._check("mkdir", path)
        self.directories.add(path)
        for name in ("tracing_on", "trace", "trace_pipe", "set_event_pid", "options/stacktrace", "options/event-fork"):
            if name in self.files:
                self.files[f"{path}/{name}"] = self.files[name]

    def rmdir(self, path: str) -> None:
        self.log.append(f"rmdir {path}")
        self._check("rmdir", path)
        self.directories.remove(path)
        self.files = {name: data for name, data in self.files.items() if not name.startswith(path + "/")}

    def stream(self, path: str) -> ScriptedStream:
        self.log.append(f"stream {path}")
        self._check("stream", path)
        return ScriptedStream(self, path)


@pytest.fixture
def scripted() -> ScriptedTracefs:
    """Return a fresh scripted tracefs."""
    return ScriptedTracefs()


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which the checkout's packages and entry points are found, installed or not."""
    path = [str(ROOT), str(ROOT / "vm")]
    if not any(point.name == "sim" for point in entry_points(group="kprobe.tracefs")):
        with open(ROOT / "pyproject.toml", "rb") as file:
            groups = tomllib.load(file)["project"]["entry-points"]
        info = tmp_path_factory.mktemp("site") / "kprobe_sim-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kprobe-sim\nVersion: 0\n")
        points = "".join(f"{name} = {value}\n" for name, value in groups["kprobe.tracefs"].items())
        (info / "entry_points.txt").write_text(f"[kprobe.tracefs]\n{points}")
        path.append(str(info.parent))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONWARNINGS": "error"}


def at_once(activity: str = "opens") -> str:
    """Return a program: the command on a machine that has done all its work as soon as it may begin."""
    return f"""
import sys
from kprobe.cli import main
from kprobe_sim.kernel.activity import load
from kprobe_sim.kernel.backend import open_sim
machine = open_sim("6.1")
machine.play = lambda: load({activity!r}).play(machine.kernel)
sys.exit(main(tracefs=machine))
"""


@pytest.fixture(scope="session")
def command() -> list[str]:
    """Return the words that start the command as the installed script does."""
    return [sys.executable, "-c", "import sys; from kprobe.cli import main; sys.exit(main())"]
