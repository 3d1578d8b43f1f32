"""Names for a command line: kernels, processes, and the functions, events and fields of the chosen tracefs."""

from __future__ import annotations

import os

from kprobe.tracefs.backends import chosen, open_tracefs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.tracefs.tracefs import Tracefs

FUNCTIONS = "available_filter_functions"


def specs(prefix: str) -> dict[str, str]:
    """Return the backend specs with this beginning, each with a description."""
    if prefix.startswith("local:"):
        directory = os.path.dirname(prefix[6:])
        try:
            names = sorted(entry.name for entry in os.scandir(directory or ".") if entry.is_dir())
        except OSError:
            return {}
        return {f"local:{os.path.join(directory, name)}/": "" for name in names}
    from kprobe.tracefs.kernels import kernels
    from kprobe_text.entry_points import names as backends

    found = {"local": "this machine's own", "local:": "a directory of this machine"}
    for kernel in kernels():
        found[kernel.spec] = f"simulated {kernel.release}"
    series = dict.fromkeys(kernel.series for kernel in kernels())
    if "vm" in backends("kprobe.tracefs"):
        found |= {f"vm:{one}": "a guest with that kernel" for one in series}
    return found


def kernels(prefix: str) -> list[str]:
    """Return the lists of kernels that continue a list with commas between them."""
    from kprobe.tracefs.kernels import kernels as known

    before = prefix[: prefix.rfind(",") + 1]
    return [before + name for name in ("all", *(kernel.name for kernel in known()))]


def pids() -> dict[str, str]:
    """Return the processes of this machine, each with its name."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", errors="replace") as file:
                found[pid] = file.read().strip()
        except OSError:
            continue
    return found


class Offered:
    """The names in one tracefs; none if it can't be read."""

    def __init__(self, spec: str | None) -> None:
        self._spec = chosen(spec)
        self._tracefs: Tracefs | None = None

    def functions(self, prefix: str) -> list[str]:
        """Return the probeable functions with this beginning."""
        data, start = b"\n" + self._read(FUNCTIONS), b"\n" + prefix.encode()
        found, at = [], data.find(start)
        while at >= 0:
            end = data.find(b"\n", at + 1)
            found.append(data[at + 1 : end if end >= 0 else len(data)].partition(b" ")[0].decode(errors="replace"))
            at = data.find(start, at + 1)
        return found

    def events(self) -> list[str]:
        """Return all events: "sched/sched_switch"."""
        return [line.replace(":", "/") for line in self._read("available_events").decode(errors="replace").split()]

    def fields(self, event: str) -> dict[str, str]:
        """Return the fields of an event, each with its C type."""
        found = {}
        for line in self._read(f"events/{event}/format").decode(errors="replace").splitlines():
            declaration = line.partition("field:")[2].partition(";")[0]
            kind, _, name = declaration.rpartition(" ")
            if name:
                found[name.partition("[")[0]] = kind + "".join(name.partition("[")[1:])
        return found

    def _read(self, path: str) -> bytes:
        try:
            if self._tracefs is None:
                name, colon, argument = self._spec.partition(":")
                # a guest takes seconds to boot; the records of the locked kernels have the same names
                self._tracefs = open_tracefs(f"sim{colon}{argument}" if name == "vm" else self._spec)
            return self._tracefs.read(path)
        except Exception:  # a shell can't show an error during completion
            return b""
