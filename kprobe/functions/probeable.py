"""Functions of the traced kernel by name or pattern: whether each can be probed, and if not, why not."""

from __future__ import annotations

import re
from fnmatch import translate

from kprobe.errors import KprobeError, NotPermitted, Refused
from kprobe.kernel.symbols import LIST, blacklist, functions_and_modules, suggest
from kprobe.tracefs.capabilities import Capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kprobe.tracefs.tracefs import Tracefs

TEXT = "tTwW"  # letters of functions in kallsyms
GLOB = "*?["
YES, NO, DOUBT = "yes", "no", "?"
BLACKLIST = "kprobes/blacklist"
ABSENT = f"not in {LIST}: it is notrace, or has no call of ftrace for another reason"


class KernelFunction:
    """A function by one name; `answer` is YES, NO or DOUBT, and `why` says why if it isn't YES.

    `addresses` are those of all functions of that name, 0 where hidden; `module` is "" for the kernel itself.
    """

    __slots__ = ("addresses", "answer", "module", "name", "why")

    def __init__(self, name: str, module: str, addresses: Sequence[int], answer: str, why: str) -> None:
        self.name = name
        self.module = module
        self.addresses = tuple(addresses)
        self.answer = answer
        self.why = why


class FunctionList:
    """A kernel's functions; `notes` name what could not be read.

    `ask` adds a probe at a function, and removes it: it raises `Refused` if the kernel does.  Without it, doubts stay.
    """

    def __init__(self, tracefs: Tracefs, ask: Callable[[str], object] | None = None) -> None:
        self.notes: list[str] = []
        self._ask = ask
        self._listed = self._read_list(tracefs)
        self._symbols = self._read_symbols(tracefs)
        self._ranges, self._names = self._read_blacklist(tracefs)

    def find(self, pattern: str) -> list[KernelFunction]:
        """Return the functions that a name or a pattern (* ? [...]) means, by name; [] if a pattern matches none."""
        if not any(mark in pattern for mark in GLOB):
            return [self._asked(self._function(pattern), pattern)]
        fits = re.compile(translate(pattern)).match
        names = {name for name in (*self._symbols, *(self._listed or ())) if fits(name)}
        return [self._unasked(self._function(name)) for name in sorted(names)]

    def names(self) -> frozenset[str]:
        """Return the names of all known functions."""
        return frozenset((*self._symbols, *(self._listed or ())))

    def modules(self) -> set[str]:
        """Return the names of the modules that have functions."""
        return {module for there in self._symbols.values() for _, module in there}.union(*(self._listed or {}).values())

    def _function(self, name: str) -> KernelFunction:
        there = self._symbols.get(name, [])
        modules = sorted({module for _, module in there} or (self._listed or {}).get(name, set()))
        addresses = [address for address, _ in there]
        answer, why = self._judged(name, addresses, modules)
        return KernelFunction(name, ",".join(modules), addresses, answer, why)

    def _judged(self, name: str, addresses: list[int], modules: list[str]) -> tuple[str, str]:
        if name in self._names or any(
            start <= address < end for address in addresses for start, end in self._ranges if address
        ):
            return NO, f"blacklisted: {BLACKLIST} has it, as a probe there could hang the kernel"
        if self._listed is None:
            return DOUBT, f"{LIST} can't be read"
        if name not in self._listed:
            if addresses:
                return DOUBT, ABSENT
            near = suggest(name, [*self._listed, *self._symbols] if self._symbols else self._listed)
            hint = f". Near: {', '.join(near)}" if near else ""
            return NO, f"there is no such function: inlined, renamed, or not in this kernel{hint}"
        if len(addresses) > 1:
            return DOUBT, f"{len(addresses)} functions have this name"
        return YES, ""

    def _unasked(self, function: KernelFunction) -> KernelFunction:
        if function.answer != DOUBT:
            return function
        why = f"{function.why}; kprobe functions {function.name} asks the kernel"
        return KernelFunction(function.name, function.module, function.addresses, DOUBT, why)

    def _asked(self, function: KernelFunction, name: str) -> KernelFunction:
        """Settle a doubt by asking the kernel; without a readable blacklist there is always one."""
        is_sure = function.answer == NO or (function.answer == YES and bool(self._ranges))
        if is_sure or self._ask is None:
            return function
        lead = f"{function.why}; " if function.why else ""
        try:
            self._ask(name)
        except Refused as error:
            says = f"the kernel says: {error.says or error.args[0].partition(chr(10))[0]}"
            return KernelFunction(function.name, function.module, function.addresses, NO, lead + says)
        except NotPermitted:
            return function
        except KprobeError as error:
            return KernelFunction(function.name, function.module, function.addresses, DOUBT, f"{lead}{error}")
        why = f"{lead}this kernel takes it" if len(function.addresses) > 1 else ""
        return KernelFunction(function.name, function.module, function.addresses, YES, why)

    def _read_list(self, tracefs: Tracefs) -> dict[str, set[str]] | None:
        modules: dict[str, set[str]] = {}
        try:
            for name, module in functions_and_modules(tracefs):
                modules.setdefault(name, set()).add(module)
        except OSError as error:
            self.notes.append(f"can't read {LIST}: {error.strerror}")
            return None
        return modules

    def _read_symbols(self, tracefs: Tracefs) -> dict[str, list[tuple[int, str]]]:
        """Return address and module of the functions in kallsyms by their names."""
        try:
            data = Capabilities(tracefs).kallsyms()
        except OSError:
            data = b""
        if not data:
            self.notes.append("can't read kallsyms: no addresses, and functions that share a name can't be told apart")
        found: dict[str, list[tuple[int, str]]] = {}
        for line in data.decode(errors="surrogateescape").splitlines():
            words = line.split()
            if len(words) > 2 and words[1] in TEXT:
                found.setdefault(words[2], []).append((int(words[0], 16), words[3].strip("[]") if words[3:] else ""))
        return found

    def _read_blacklist(self, tracefs: Tracefs) -> tuple[list[tuple[int, int]], set[str]]:
        rows = blacklist(tracefs)
        if not rows:
            self.notes.append(f"can't read {BLACKLIST} of debugfs: its contents are unknown")
        return [(start, end) for start, end, _ in rows], {name for _, _, name in rows}
