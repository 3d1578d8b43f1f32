"""The simulated machine underneath the tracing: a build's symbols and memory, CPUs, clock and tasks."""

from __future__ import annotations

import re
import threading
from _blake2 import blake2b  # hashlib's own, without the import of OpenSSL, which costs as much as the simulator's
from collections.abc import Callable, Mapping
from functools import cached_property

from kprobe_sim.builds.functions import Functions
from kprobe_sim.builds.gates import filter_gates_of, gates_of
from kprobe_sim.builds.profile import Profile
from kprobe_sim.builds.symbol import with_module
from kprobe_sim.language.primitives.toml_values import CPUS
from kprobe_sim.machine.clock import TSC_KHZ, VirtualClock, clock_facts
from kprobe_sim.machine.machine_files import MachineFiles
from kprobe_sim.machine.memory import Memory, banners
from kprobe_sim.machine.task import SavedCmdlines, Task

INIT = Task(1, "init")
_TRAMPOLINES = ("arch_rethook_trampoline", "__kretprobe_trampoline", "kretprobe_trampoline")  # 5.18 and later, before
_PRINTK_FORMAT = re.compile(rb'^0x([0-9a-f]+) : "(.*)"\n', re.M)


_OF_THE_KERNEL = 6  # KERN_INFO: the level of a refusal's line wasn't recorded


class KernelLog(list[str]):
    """Lines, oldest first, each with its priority and time; `append` and `add` add one, and call `wake`."""

    def __init__(self, clock: Callable[[], int], wake: Callable[[], None]) -> None:
        super().__init__()
        self._clock = clock
        self._wake = wake
        self._heads: list[tuple[int, int]] = []  # priority and time in ns

    def append(self, line: str) -> None:
        """Add a line of the kernel itself."""
        self.add(line, _OF_THE_KERNEL)

    def add(self, line: str, priority: int) -> None:
        """Add a line; `priority` is its facility times 8 plus its level."""
        super().append(line)
        self._heads.append((priority, self._clock()))
        self._wake()

    def clear(self) -> None:
        """Forget all lines."""
        super().clear()
        self._heads.clear()

    def entry(self, number: int) -> tuple[int, int, str]:
        """Return the priority, the time in ns and the text of a line."""
        return *self._heads[number], self[number]


class KernelCondition(threading.Condition):
    """A condition that knows how many threads wait for it, so that nobody is notified where nobody waits.

    Threads that don't wait may hold `lock` instead.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.waiting = 0
        super().__init__(self.lock)

    @property
    def asleep(self) -> int:
        """How many threads wait and haven't been notified yet."""
        return len(self._waiters)  # type: ignore[attr-defined]  # of threading.Condition: the waiters that notify() would wake

    def wait(self, timeout: float | None = None) -> bool:
        """Wait as `threading.Condition` does."""
        self.waiting += 1
        try:
            return super().wait(timeout)
        finally:
            self.waiting -= 1


class SimulatedMachine:
    """What a kernel of one build runs on.

    `lock` is the only lock of the kernel, and `condition`, built on it, is what readers wait for; `tasks` are those
    that have done something, by pid; `writer` is the task that uses the tracefs; uprobes may be on `files`;
    `user_memory` is that of the system call whose events are being emitted; `tsc_khz` is the rate of x86-tsc; without
    `ftrace_enabled` functions call nobody at their entry.
    """

    def __init__(
        self, profile: Profile, cpus: int | None, clock: Callable[[], int] | None, tsc_khz: int = TSC_KHZ
    ) -> None:
        self.profile = profile
        self.release = profile.release
        self.symbols = profile.fresh_symbols()
        self.gates = gates_of(profile)
        self.filter_gates = filter_gates_of(profile)
        self.cpus = profile.cpus if cpus is None else cpus
        if not 1 <= self.cpus <= CPUS:
            raise ValueError(f"{self.cpus} CPUs: a kernel has 1 to {CPUS}")
        self.clock: Callable[[], int] = VirtualClock() if clock is None else clock
        self.clock_facts = clock_facts(profile.hz, self.gates.uptime_in_ns, tsc_khz)
        self.condition = KernelCondition()
        self.lock = self.condition.lock
        self.cmdlines = SavedCmdlines(profile.saved_cmdlines_size)
        self.memory = Memory(self.symbols, banners(profile.banner))
        self.user_memory: Mapping[int, bytes] = {}
        self.writer: Task = INIT
        self.ftrace_enabled = True
        self.tasks: dict[int, Task] = {}
        self.files = MachineFiles()
        self.log = KernelLog(self.clock, self.wake)
        self._subscribers: dict[object, Callable[[], None]] = {}
        self._hash_key = self.release.encode()
        self._functions: tuple[int, Functions] = (0, profile.functions)  # with the version of their symbols

    def threads(self, pid: int) -> list[int]:
        """Return the ids of those threads of a process that have done something; [] if unknown."""
        return sorted(
            task.pid for task in list(self.tasks.values()) if (task.pid if task.tgid is None else task.tgid) == pid
        )

    # addresses

    def hashed_pointer(self, address: int) -> int:
        """Return what printk's %p shows for an address: 32 bits of a keyed hash, always the same for this kernel."""
        digest = blake2b(address.to_bytes(8, "little"), digest_size=4, key=self._hash_key[:64]).digest()
        return int.from_bytes(digest, "little")

    def symbol_text(self, address: int, offset: bool) -> bytes:
        """Return an address as sprint_symbol() does: NAME+0xOFF/0xSIZE [MODULE], or in hex without a symbol."""
        symbol = self.symbols.containing(address)
        if symbol is None:
            return b"0x%08x" % address
        if not offset:
            return symbol.name.encode()
        return with_module(f"{symbol.name}+0x{address - symbol.address:x}/0x{symbol.size:x}", symbol.module).encode()

    def is_trampoline(self, address: int) -> bool:
        """Return True if the kernel takes an address for the trampoline: at its start, or anywhere within it."""
        start = self.return_trampoline
        return address == start or (
            self.gates.trampoline_by_name and self.symbols.containing(address) == self.symbols.containing(start)
        )

    @cached_property
    def return_trampoline(self) -> int:
        """The address that return probes put in place of a return address; 0 if there is no such symbol."""
        for name in _TRAMPOLINES:
            for symbol in self.symbols.lookup(name):
                return symbol.address
        return 0

    @property
    def marker_ip(self) -> int:
        """An address inside tracing_mark_write, as its records carry it."""
        return self.symbols.lookup("tracing_mark_write")[0].address + self.profile.marker_offset

    @cached_property
    def strings(self) -> dict[int, bytes]:
        """The kernel's own strings that records point to (tracepoint_string), by address."""
        text = self.profile.tracefs.text("printk_formats")
        return {int(address, 16): string for address, string in _PRINTK_FORMAT.findall(text)}

    def functions(self) -> Functions:
        """Return the functions that ftrace can trace; the same object until functions change."""
        version = self.symbols.version
        if self._functions[0] != version:
            self._functions = (version, Functions(self.symbols.ftrace_locations))
        return self._functions[1]

    # waking readers

    def wake(self) -> None:
        """Wake whoever waits for data; called with the kernel's lock held."""
        if self.condition.waiting:
            self.condition.notify_all()
        if not self._subscribers:
            return
        for callback in list(self._subscribers.values()):
            callback()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever data may have come (it must not call the kernel); return what ends that."""
        token = object()
        self._subscribers[token] = callback
        return lambda: self._subscribers.pop(token, None) and None
