"""The top level and the instances: whether each records, which threads, on which CPUs, and what it lost."""

from __future__ import annotations

from collections.abc import Iterator

from kprobe.doctor.access import FIRST_PID_NAMESPACE
from kprobe.doctor.diagnosis import NOTE, STOPS, Diagnosis, Fact
from kprobe.doctor.facts import Facts
from kprobe.events.dynamic import TOP
from kprobe.undo.instance import ROOM
from kprobe.undo.owners import read_session

SMALL = 64  # KiB for each CPU; kernels begin with 1,408
GROWN = 8  # the advised size, as a factor
SHOWN = 3  # names that are shown of a longer list
BITS = 32  # CPUs in a mask's word between commas


def of_instances(facts: Facts) -> Iterator[Diagnosis]:
    """Yield findings about the top level and all instances, except those of kprobe's sessions."""
    for prefix in facts.prefixes():
        if prefix and read_session(prefix.split("/")[1]) is not None:
            continue
        yield from recording(facts, prefix)
        yield from _pids(facts, prefix)
        yield from _buffer(facts, prefix)
        yield from _uses(facts, prefix)


def name_of(prefix: str) -> str:
    """Return the name of a prefix in messages: "the top level", "instances/NAME"."""
    return f"the {TOP}" if not prefix else prefix.rstrip("/")


def recording(facts: Facts, prefix: str) -> Iterator[Diagnosis]:
    """Yield that the top level or an instance records nothing, or not on all CPUs."""
    where = name_of(prefix)
    if facts.text(f"{prefix}tracing_on") == "0":
        is_kprobes = not prefix and not facts.tracefs.exists(ROOM)
        also = ": kprobe works there, too, as this kernel has no instances" if is_kprobes else ""
        level = STOPS if not prefix or facts.text(f"{prefix}set_event") else NOTE
        path = facts.typed(f"{prefix}tracing_on")
        what = f"recording is switched off at {where}{also}"
        yield Diagnosis(level, "tracing_on", what, (Fact(path, "0"),), f"echo 1 > {path}")
    mask = facts.text(f"{prefix}tracing_cpumask")
    cpus = sorted(int(name[3:]) for name in facts.names(f"{prefix}per_cpu") if name[3:].isdigit())
    bits = _mask(mask)
    if not cpus or bits is None:
        return
    without = [cpu for cpu in cpus if not bits >> cpu & 1]
    if without:
        path = facts.typed(f"{prefix}tracing_cpumask")
        some = f"CPU{'s' * (len(without) > 1)} {', '.join(map(str, without[:SHOWN]))}{' ...' * (len(without) > SHOWN)}"
        what = f"{where} records on no CPU" if len(without) == len(cpus) else f"{where} doesn't record on {some}"
        level = STOPS if len(without) == len(cpus) else NOTE
        yield Diagnosis(level, "tracing_cpumask", what, (Fact(path, mask or "0"),), f"echo {_all(cpus)} > {path}")


def recorded(facts: Facts, prefix: str) -> int:
    """Return how many events an instance recorded, including those read or overwritten since."""
    return sum(_stats(facts, prefix).get(key, 0) for key in ("entries", "overrun", "read events"))


def _pids(facts: Facts, prefix: str) -> Iterator[Diagnosis]:
    for name, effect in (("set_event_pid", "only"), ("set_event_notrace_pid", "all but")):
        pids = [word for word in (facts.text(prefix + name) or "").split() if word.isdigit()]
        if not pids:
            continue
        path = facts.typed(prefix + name)
        shown = f"{', '.join(pids[:SHOWN])}{' ...' * (len(pids) > SHOWN)}"
        threads = f"thread{'s' * (len(pids) > 1)} {shown}"
        gone = effect == "only" and all(_is_gone(facts, int(pid)) for pid in pids)
        what = f"at {name_of(prefix)} {effect} {threads} fire{'s' * (len(pids) == 1 and effect == 'only')} events"
        if gone:
            what += f", and {'it is' if len(pids) == 1 else 'they are'} gone"
        level = STOPS if gone else NOTE
        yield Diagnosis(level, name, what, (Fact(path, " ".join(pids)),), f"echo > {path}")


def _is_gone(facts: Facts, tid: int) -> bool:
    """True if the traced machine is known to have no such thread; a container shows other pids."""
    inside = facts.machine.link("/proc/self/ns/pid") not in ("", FIRST_PID_NAMESPACE)
    return facts.machine.is_known and not inside and facts.machine.text(f"/proc/{tid}/stat") is None


def _buffer(facts: Facts, prefix: str) -> Iterator[Diagnosis]:
    path = f"{prefix}buffer_size_kb"
    size = (facts.text(path) or "").split()
    stats = _stats(facts, prefix)
    kib = int(size[0]) if size and size[0].isdigit() else 0
    typed = facts.typed(path)
    helps = f"echo {max(SMALL, kib) * GROWN} > {typed}"
    for key, how in (("overrun", "overwritten by later ones"), ("dropped events", "dropped")):
        lost = stats.get(key, 0)
        if lost:
            events = f"{lost} events of {name_of(prefix)} were" if lost > 1 else f"1 event of {name_of(prefix)} was"
            what = f"{events} {how}: its buffer is full"
            fact = Fact(facts.typed(f"{prefix}per_cpu/*/stats"), f"{key}: {lost}")
            yield Diagnosis(NOTE, "buffer", what, (fact,), helps)
    if 0 < kib < SMALL and len(size) == 1:
        what = f"the buffer of {name_of(prefix)} is small: {kib} KiB for each CPU"
        yield Diagnosis(NOTE, "buffer", what, (Fact(typed, str(kib)),), helps)


def _stats(facts: Facts, prefix: str) -> dict[str, int]:
    """Return the numbers in the `stats` of all CPUs, added up."""
    totals: dict[str, int] = {}
    for name in facts.names(f"{prefix}per_cpu"):
        for line in (facts.text(f"{prefix}per_cpu/{name}/stats") or "").splitlines():
            key, _, value = line.partition(":")
            if value.strip().isdigit():
                totals[key] = totals.get(key, 0) + int(value)
    return totals


def _uses(facts: Facts, prefix: str) -> Iterator[Diagnosis]:
    """Yield tracers and events that others enabled in an instance."""
    tracer = facts.text(f"{prefix}current_tracer")
    if tracer not in (None, "", "nop"):
        path = facts.typed(f"{prefix}current_tracer")
        what = f"the tracer {tracer} is at work at {name_of(prefix)}"
        yield Diagnosis(NOTE, "tracer", what, (Fact(path, str(tracer)),), f"echo nop > {path}")
    events = [line.partition(" ")[0] for line in (facts.text(f"{prefix}set_event") or "").splitlines()]
    if events:
        path = facts.typed(f"{prefix}set_event")
        is_one = len(events) == 1
        what = f"{len(events)} event{'s' * (not is_one)} {'is' if is_one else 'are'} enabled at {name_of(prefix)}"
        shown = " ".join(events[:SHOWN]) + " ..." * (len(events) > SHOWN)
        yield Diagnosis(NOTE, "events", what, (Fact(path, shown),), f"echo > {path}, if nobody uses them")


def _mask(text: str | None) -> int | None:
    try:
        return int((text or "").replace(",", ""), 16)
    except ValueError:
        return None


def _all(cpus: list[int]) -> str:
    """Return the mask of these CPUs in the kernel's format."""
    bits, words = sum(1 << cpu for cpu in cpus), []
    while bits:
        words.append(bits & ((1 << BITS) - 1))
        bits >>= BITS
    first, *rest = reversed(words)
    return ",".join([f"{first:x}", *(f"{word:08x}" for word in rest)])
