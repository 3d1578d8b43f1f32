"""Functions that the user named: whether each can be probed, does what its name says, and is called."""

from __future__ import annotations

import re

from kprobe.definitions.definition import KINDS, parse
from kprobe.doctor.diagnosis import NOTE, STOPS, Diagnosis, Fact
from kprobe.errors import DefinitionError
from kprobe.functions.probeable import BLACKLIST, DOUBT, NO, FunctionList
from kprobe.kernel.prototypes import BTF, prototypes
from kprobe.kernel.symbols import LIST, successors, suggest
from kprobe.tracefs.capabilities import Capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from kprobe.definitions.definition import Probe
    from kprobe.doctor.facts import Facts
    from kprobe.functions.probeable import KernelFunction
    from kprobe.tracefs.tracefs import Tracefs

WRAPPERS = ("__x64_sys_", "__ia32_sys_", "__arm64_sys_")
REGISTERS = re.compile(r"\$arg1\b|%di\b")  # a wrapper's only argument, a pointer to pt_regs
OTHERS = re.compile(r"\$arg(?!1\b)|%(si|dx|cx|r8|r9)\b")
TWINS = (".isra.", ".constprop.", ".part.", ".llvm.")
TRACEITER = "__traceiter_"  # the prefix of each tracepoint's function; seen on 6.12
ON_FUNCTIONS = "prf"  # kinds of probes
KALLSYMS = "/proc/kallsyms"


def no_tracepoint(name: str) -> str:
    """Report a missing tracepoint, which kernels from 6.12 on wait for."""
    return f"there is no tracepoint {name} now: it has another name, or its module isn't loaded"


def probe_of(word: str) -> Probe:
    """Return the probe that a word means: a definition, or [MODULE:]FUNCTION.  Raise `DefinitionError`."""
    head = word.partition(":")[0]
    is_definition = ":" in word and head[:1] in tuple(KINDS) and (not head[1:] or head[1:].isdigit())
    return parse(word if is_definition else f"p:{word}")


def misread_argument(probe: Probe) -> str:
    """Return the argument that mistakes a wrapper's argument for the system call's; "" if none does."""
    if probe.is_return or not probe.place.symbol.startswith(WRAPPERS):
        return ""
    return next(filter(_is_misread, probe.args), "")


def _is_misread(argument: str) -> bool:
    """True unless the pointer is shown as an address (:x64), or followed: once to a number, twice to a string."""
    value, _, kind = argument.partition(":")
    if OTHERS.search(value):
        return True
    steps = 0 if kind.startswith("x") else 2 if "string" in kind else 1
    return REGISTERS.search(value) is not None and value.count("(") < steps


class Functions:
    """Findings about functions of the traced kernel."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._list = FunctionList(facts.tracefs)
        self._names = self._list.names()
        self._has_symbols = not any("kallsyms" in note for note in self._list.notes)
        self.notes = self._list.notes

    def of_probe(self, probe: Probe) -> Iterator[Diagnosis]:
        """Yield findings about a probe's function or event; nothing for other probe points."""
        place = probe.place
        if probe.kind == "e":
            yield from self._of_event(place.symbol)
        if probe.kind == "t" and self._names and f"{TRACEITER}{place.symbol}" not in self._names:
            fact = Fact(self._facts.typed(LIST), f"no {TRACEITER}{place.symbol}")
            helps = f"grep -i '{place.symbol}' {self._facts.typed('available_events')}"
            yield Diagnosis(NOTE, "tracepoint", no_tracepoint(place.symbol), (fact,), helps)
        if not place.symbol or probe.kind not in ON_FUNCTIONS:
            yield from self._never(probe)
            return
        (function,) = self._list.find(place.symbol)
        if place.module and place.module not in function.module.split(",") and not self._is_loaded(place.module):
            what = f"the module {place.module} isn't loaded"
            fact = Fact("/proc/modules" if self._facts.machine.is_known else LIST, f"no {place.module}")
            yield Diagnosis(STOPS, "module", what, (fact,), f"modprobe {place.module}")
            return
        if function.answer == NO or (self._has_symbols and not function.addresses and function.why.startswith(LIST)):
            yield from self._impossible(function)
            return
        if function.answer == DOUBT and self._is_unlisted(function):
            what = f"{function.name} may not be probed: it is notrace, or has no call of ftrace; the kernel knows"
            fact = Fact(self._facts.typed(LIST), f"no {function.name}")
            yield Diagnosis(NOTE, "notrace", what, (fact,), f"kprobe functions {function.name}")
        elif len(function.addresses) > 1:
            count = len(function.addresses)
            what = f"{count} functions are called {function.name}: newer kernels refuse the name alone"
            says = " ".join(f"{address:x}" for address in function.addresses)
            fact = Fact(KALLSYMS, says)
            yield Diagnosis(
                NOTE, "names", what, (fact,), f"kprobe 'p:{function.name} 0x...', with one of the addresses"
            )
        yield from self._elsewhere(probe, function.name)

    def _of_event(self, name: str) -> Iterator[Diagnosis]:
        path = f"events/{name.replace('.', '/', 1)}"
        if not self._facts.tracefs.exists(path):
            fact = Fact(self._facts.typed(path), "there is no such directory")
            helps = f"grep -i '{name.partition('.')[2]}' {self._facts.typed('available_events')}"
            yield Diagnosis(STOPS, "event", f"this kernel has no event {name}", (fact,), helps)

    def _impossible(self, function: KernelFunction) -> Iterator[Diagnosis]:
        name = function.name
        if function.addresses or function.why.startswith("blacklisted"):
            what = f"{name} can't be probed: a probe there could hang the kernel"
            fact = Fact(f"/sys/kernel/debug/{BLACKLIST}", name)
            yield Diagnosis(STOPS, "blacklist", what, (fact,), "probe a function that calls it, or that it calls")
            return
        near = suggest(name, self._names)
        listed = function.why.startswith(LIST)  # can't be read
        facts = [Fact(KALLSYMS if listed else self._facts.typed(LIST), f"no {name}")]
        twins = [other for other in near if other.startswith(f"{name}.")]
        newer = [other for other in successors(name) if other in near]
        helps = f"kprobe p:{near[0]}" if near else f"kprobe functions '*{_stem(name)}*'"
        if twins:
            what = f"{name} does not exist under this name: the compiler made {', '.join(twins)} of it"
            helps = f"kprobe 'p:{_word(name)} {twins[0]}'"
        elif newer:
            what = f"this kernel has no {name}: what it did is now done by {' or '.join(newer)}"
            helps = f"kprobe p:{newer[0]}"
        elif self._has_prototype(name):
            what = f"{name} is not a function of its own: it was inlined where it is called"
            facts.append(Fact(BTF, f"has {name}"))
            helps = "probe a function that calls it"
        else:
            what = f"this kernel has no function {name}: it was inlined, renamed, or never there"
        if near and not twins and not newer:
            facts.append(Fact("near", ", ".join(near)))
        yield Diagnosis(STOPS, "function", what, tuple(facts), helps)

    def _elsewhere(self, probe: Probe, name: str) -> Iterator[Diagnosis]:
        """Yield that calls bypass the function, or that arguments aren't where they seem."""
        more = [other for other in self._names if other.startswith(f"{name}.")]
        twins = sorted(other for other in more if other.startswith(TWINS, len(name)))
        if twins:
            what = f"some calls of {name} may run in {', '.join(twins)}, which a probe of {name} doesn't see"
            fact = Fact(KALLSYMS, " ".join(twins))
            yield Diagnosis(NOTE, "twins", what, (fact,), f"kprobe 'p:{_word(name)} {twins[0]}'")
        newer = [other for other in successors(name) if other in self._names]
        if newer:
            what = f"{name} may rarely be called: this kernel has {newer[0]}, which took over from it"
            fact = Fact(self._facts.typed(LIST), newer[0])
            yield Diagnosis(NOTE, "successor", what, (fact,), f"kprobe p:{newer[0]}")
        misread = misread_argument(probe)
        if misread:
            what = f"{name} gets one argument, a pointer to registers: the system call's arguments are behind it"
            fact = Fact("definition", misread)
            yield Diagnosis(NOTE, "wrapper", what, (fact,), f"kprobe args {name}")
        yield from self._never(probe)

    def _never(self, probe: Probe) -> Iterator[Diagnosis]:
        """Yield that this machine is known never to hit the probe."""
        reason = never(self._facts.tracefs, probe)
        if reason:
            what = f"{probe.place.symbol} is never {'called' if probe.kind in ON_FUNCTIONS else 'fired'} here"
            helps = "kprobe --tracefs sim:KERNEL,activity=FILE.toml"
            yield Diagnosis(NOTE, "calls", what, (Fact("simulator", reason),), helps)

    def _is_loaded(self, module: str) -> bool:
        text = self._facts.machine.text("/proc/modules")
        if text is None:
            return module in self._list.modules()
        return any(line.partition(" ")[0] == module for line in text.splitlines())

    def _is_unlisted(self, function: KernelFunction) -> bool:
        return bool(function.addresses) and function.why.startswith("not in ")

    def _has_prototype(self, name: str) -> bool:
        return prototypes(self._facts.tracefs)[0](name) is not None


def never(tracefs: Tracefs, probe: Probe) -> str:
    """Say why the machine is known never to hit a probe; "" if it does, or that is unknown."""
    offers = Capabilities(tracefs)
    ask = offers.never_calls if probe.kind in ON_FUNCTIONS else offers.never_fires if probe.kind in ("t", "e") else None
    return ask(probe.place.symbol) if ask is not None and probe.place.symbol else ""


def check_words(words: tuple[str, ...]) -> list[Probe]:
    """Return the probes that words mean.  Raise `DefinitionError` for the first word that can't mean one."""
    probes = []
    for word in words:
        probe = probe_of(word)
        if probe.place.is_pattern:
            raise DefinitionError("name functions; kprobe functions lists those that fit a pattern", word, 0)
        probes.append(probe)
    return probes


def _word(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name)


def _stem(name: str) -> str:
    """Return the part of a name that other kernels may have, too."""
    return next((name.removeprefix(start) for start in WRAPPERS if name.startswith(start)), name.strip("_"))
