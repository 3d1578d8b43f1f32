"""The absolute paths of a simulated machine: its tracefs, and the other files that tracing tools read."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

from kprobe_sim.expose.python.event_sources import event_sources
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.tree.files.node import DirNode, Node
from kprobe_sim.tree.files.texts import Directory, TextFile

if TYPE_CHECKING:
    from kprobe_sim.events.dyn_event import DynamicEvent
    from kprobe_sim.kernel.simulated import SimulatedKernel
    from kprobe_sim.probes.kprobes import Kprobe

TRACING = "/sys/kernel/tracing"
DEBUG = "/sys/kernel/debug"
EVENT_SOURCES = "/sys/bus/event_source/devices"
_MOUNTS = (
    b"tracefs /sys/kernel/tracing tracefs rw,nosuid,nodev,noexec,relatime 0 0\n"
    b"debugfs /sys/kernel/debug debugfs rw,nosuid,nodev,noexec,relatime 0 0\n"
    b"tracefs /sys/kernel/debug/tracing tracefs rw,nosuid,nodev,noexec,relatime 0 0\n"
)
_PROC_AND_SYS = b"proc /proc proc rw,relatime 0 0\nsysfs /sys sysfs rw,relatime 0 0\n"


class MachineTree:
    """The nodes of a simulated machine by absolute path; all other paths are outside the simulator.

    `other_mounts` returns the lines of /proc/mounts for all other file systems.
    """

    def __init__(self, kernel: SimulatedKernel, other_mounts: Callable[[], bytes] = lambda: _PROC_AND_SYS) -> None:
        self._kernel = kernel
        self._other_mounts = other_mounts
        self._symbols = (-1, b"")  # number of symbols, text of kallsyms
        self._debug = Directory(0o700, lambda: {"tracing": kernel.root, "kprobes": self._kprobes})
        self._kprobes = Directory(
            0o755,
            lambda: {
                "list": TextFile(self._probe_list, 0o400),
                "blacklist": TextFile(kernel.symbols.blacklist, 0o400),
                "enabled": TextFile(lambda: b"1\n", 0o600),
            },
        )
        mounts = TextFile(self._mounts)
        self._trees: tuple[tuple[str, Node], ...] = (
            (TRACING, kernel.root),
            (DEBUG, self._debug),
            ("/proc/mounts", mounts),
            ("/proc/self/mounts", mounts),
            ("/proc/kallsyms", TextFile(self._kallsyms)),
            (EVENT_SOURCES, event_sources(kernel)),
        )

    def find(self, path: str) -> Node | None:
        """Return the node at an absolute path; None if the path is outside the simulator.

        Raises OSError ENOENT or ENOTDIR for a path inside the simulator that has no file.
        """
        path = normal(path)
        for root, node in self._trees:
            if path.startswith(root) and (len(path) == len(root) or path[len(root)] == "/"):
                return walk(node, path[len(root) :])
        if path.startswith("/proc/"):
            if path in self._kernel.sysctls:
                return self._kernel.sysctls[path]
            number, _, below = path[6:].partition("/")
            if number.isdigit() and int(number) in self._kernel.tasks:
                return walk(self._process(int(number)), below)
        return None

    def extra(self, path: str) -> list[str]:
        """Return the names that the simulated machine adds to a real directory."""
        known = (*(root for root, _ in self._trees), *self._kernel.sysctls)
        names = {posixpath.basename(root) for root in known if posixpath.dirname(root) == path}
        if path == "/proc":
            names |= {str(pid) for pid in self._kernel.tasks}
        return sorted(names)

    def _process(self, pid: int) -> Directory:
        task = self._kernel.tasks[pid]
        comm = TextFile(lambda: task.name + b"\n", 0o644)
        threads = {str(thread): self._thread for thread in self._kernel.threads(pid)}
        inside: dict[str, Node] = {"comm": comm, "task": Directory(0o555, lambda: _made(threads))}
        return Directory(0o555, lambda: inside)

    @staticmethod
    def _thread() -> Node:
        return Directory(0o555, dict)

    # texts

    def _mounts(self) -> bytes:
        return self._other_mounts() + _MOUNTS

    def _kallsyms(self) -> bytes:
        version = self._kernel.symbols.version
        if self._symbols[0] != version:
            self._symbols = (version, self._kernel.symbols.kallsyms())
        return self._symbols[1]

    def _probe_list(self) -> bytes:
        """Return the text of kprobes/list (report_probe() in kernel/kprobes.c)."""
        lines = []
        probes: dict[DynamicEvent, list[Kprobe]] = {event: [] for event in self._kernel.events.named.values()}
        for probe in self._kernel.probes.kprobes.probes():
            probes[probe.event].append(probe)
        for probe in chain(*probes.values()):
            if probe.address is None:
                continue
            symbol = self._kernel.symbols.containing(probe.address)
            name = f"{symbol.name}+0x{probe.address - symbol.address:x}" if symbol else f"0x{probe.address:x}"
            kind = "r" if probe.event.is_return else "k"
            state = "" if self._kernel.is_busy(probe.event) else "[DISABLED]"
            state += "[FTRACE]" if self._kernel.symbols.is_traceable(probe.address) else ""
            module = symbol.module if symbol and symbol.module else " "
            lines.append(f"{probe.address:016x}  {kind}  {name}  {module} {state}\n")
        return "".join(lines).encode()


def _made(entries: dict[str, Callable[[], Node]]) -> dict[str, Node]:
    return {name: make() for name, make in entries.items()}


def normal(path: str) -> str:
    """Return an absolute path without `.`, `..`, double and trailing slashes."""
    if "/." in path or "//" in path or path[-1] == "/":
        path = posixpath.normpath(path)
        return path[1:] if path.startswith("//") else path
    return path


def walk(node: Node, path: str) -> Node:
    """Return the node at a path below another node.  Raises OSError ENOENT or ENOTDIR."""
    if path and "/" not in path and isinstance(node, DirNode):
        entry = node.lookup(path)
        if entry is None:
            raise refuse(errno.ENOENT)
        return entry
    for name in path.split("/"):
        if not name:
            continue
        if not isinstance(node, DirNode):
            raise refuse(errno.ENOTDIR)
        entry = node.lookup(name)
        if entry is None:
            raise refuse(errno.ENOENT)
        node = entry
    return node
