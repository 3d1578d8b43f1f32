"""Leftovers of tests in a guest outside its tracefs: programs, open files, sysctls of tracing."""

from __future__ import annotations

import contextlib
import subprocess
import time

from kprobe_vm.machine.machine import Machine

# switches that change what the tracefs shows or what is traced
_SWITCHES = (
    "proc/sys/debug/kprobes-optimization",
    "proc/sys/kernel/ftrace_dump_on_oops",
    "proc/sys/kernel/ftrace_enabled",
    "proc/sys/kernel/kptr_restrict",
    "proc/sys/kernel/perf_event_paranoid",
    "proc/sys/kernel/stack_tracer_enabled",
    "proc/sys/kernel/traceoff_on_warning",
    "proc/sys/kernel/tracepoint_printk",
    "sys/kernel/debug/kprobes/enabled",
)
_AGENT = "proc/1/fd"
_WITHIN = 5.0  # seconds within which a killed program is gone
_CLOSING = 1.0  # seconds within which the agent closes the files of an ended program
_FILTERS = """cd "$1" && grep -L '^none$' events/*/*/filter"""


class Surroundings:
    """The guest's state when this was created: its programs, open files and sysctls."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._processes = self._pids()
        self._descriptors = self._open()
        self._switches = {path: machine.files.read(path) for path in _SWITCHES if machine.files.exists(path)}

    def undo(self) -> list[str]:
        """Kill the programs started since, restore the sysctls, and return in words what is left.

        Files that a test left open in the agent stay open, as only the test knows what they are.
        """
        left = self._kill()
        files = self._machine.files
        for path, before in self._switches.items():
            if files.read(path) != before:
                with contextlib.suppress(OSError):
                    files.write(path, before)
                if files.read(path) != before:
                    left.append(f"/{path} stays {files.read(path).decode('utf-8', 'replace').strip()}")
        if more := self._still_open():
            left.append(f"{more} file{'s' if more > 1 else ''} of the guest left open")
        return left

    def filtered(self) -> list[str]:
        """Return the paths of the filters that are set, in the tracefs; asked by a program there, as there are many."""
        return self._machine.run(["sh", "-c", _FILTERS, "sh", self._machine.tracefs_path]).stdout.decode().split()

    def _kill(self) -> list[str]:
        end = time.monotonic() + _WITHIN
        # a killed program keeps its command line until it has ended, and may just be starting another
        while (running := self._running()) and time.monotonic() < end:
            with contextlib.suppress(subprocess.TimeoutExpired, OSError):
                self._machine.run(["kill", "-9", *map(str, running)], timeout=_WITHIN)
        return [f"process {pid} goes on: {name}" for pid, name in running.items()]

    def _running(self) -> dict[int, str]:
        """The programs that were started since, by pid; the kernel's threads and the dead have no command line."""
        programs = {}
        for pid in self._pids() - self._processes:
            with contextlib.suppress(OSError):
                line = self._machine.files.read(f"proc/{pid}/cmdline")
                if line:
                    programs[pid] = line.replace(b"\0", b" ").decode("utf-8", "replace").strip()
        return programs

    def _still_open(self) -> int:
        """The number of files that the agent has newly open; those of a program are closed a moment after its end."""
        end = time.monotonic() + _CLOSING
        while more := len(self._open() - self._descriptors):
            if time.monotonic() > end:
                break
            time.sleep(0.01)
        return more

    def _pids(self) -> set[int]:
        return {int(name) for name in self._machine.files.listdir("proc") if name.isdecimal()}

    def _open(self) -> set[str]:
        return set(self._machine.files.listdir(_AGENT))
