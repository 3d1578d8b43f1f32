"""One examination: every check, with what can be read."""

from __future__ import annotations

from kprobe.doctor import access
from kprobe.doctor.diagnosis import STOPS
from kprobe.doctor.events import of_events, of_function, overview
from kprobe.doctor.facts import Facts
from kprobe.doctor.functions import ON_FUNCTIONS, Functions, check_words
from kprobe.doctor.instances import of_instances
from kprobe.doctor.kprobes import of_kprobes
from kprobe.doctor.machine import machine_of
from kprobe.doctor.others import of_others
from kprobe.errors import NotPermitted
from kprobe.tracefs.capabilities import Capabilities
from kprobe.undo.processes import PROC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from kprobe.definitions.definition import Probe
    from kprobe.doctor.diagnosis import Diagnosis
    from kprobe.doctor.machine import Machine
    from kprobe.errors import TracefsMissing
    from kprobe.tracefs.tracefs import Tracefs

UNTRIED = "whether the kernel takes '{0}', which was not tried: kprobe doctor --try 1 '{0}'"
OUTSIDE = "what is outside of the tracefs: lockdown, switches of kprobes and ftrace, modules, who reads trace_pipe"


class Examination:
    """The findings, those that stop tracing first; `unknown` says what could not be examined.

    `probes` are those that the user asked about.
    """

    def __init__(
        self, findings: Sequence[Diagnosis], unknown: Sequence[str] = (), probes: Sequence[Probe] = ()
    ) -> None:
        self.findings = tuple(sorted(findings, key=lambda finding: finding.level != STOPS))
        self.unknown = tuple(unknown)
        self.probes = tuple(probes)

    @property
    def stops(self) -> bool:
        """True if a finding stops tracing."""
        return any(finding.level == STOPS for finding in self.findings)


def examine(
    tracefs: Tracefs, words: Sequence[str] = (), machine: Machine | None = None, proc: str = PROC
) -> Examination:
    """Examine a tracefs and what `words` name: definitions or functions.  Nothing is written.

    Raise `DefinitionError` for any other word.
    """
    probes = check_words(tuple(words))
    facts = Facts(tracefs, machine_of(tracefs) if machine is None else machine)
    root = Capabilities(tracefs).root
    findings = [
        *access.of_machine(facts.machine, root),
        *of_kprobes(facts),
        *of_instances(facts),
        *of_others(facts, proc),
    ]
    events = overview(facts)
    findings += of_events(facts, events)
    notes: list[str] = []
    if probes:
        functions = Functions(facts)
        for probe in probes:
            findings += functions.of_probe(probe)
            if probe.place.symbol and probe.kind in ON_FUNCTIONS:
                findings += of_function(facts, events, probe.place.symbol)
        notes = functions.notes
    findings += access.of_files(facts)
    untried = [
        UNTRIED.format(word) for word, probe in zip(words, probes, strict=True) if probe.args or word[1:2] == ":"
    ]
    return Examination(findings, [*_unknown(facts.machine), *notes, *untried], probes)


def unopened(error: TracefsMissing | NotPermitted, machine: Machine | None = None) -> Examination:
    """Examine this machine, whose tracefs could not be opened."""
    machine = machine_of(None) if machine is None else machine
    told = access.closed(error, machine) if isinstance(error, NotPermitted) else access.missing(error, machine)
    return Examination([*access.of_machine(machine), *told], _unknown(machine))


def _unknown(machine: Machine) -> list[str]:
    if not machine.is_known:
        return [OUTSIDE]
    unknown = list(access.unread(machine))
    return unknown if machine.is_own else [*unknown, "who reads trace_pipe"]
