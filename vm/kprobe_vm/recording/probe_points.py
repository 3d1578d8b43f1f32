"""The probe points that some questions need: instructions that can't be probed, symbols of modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kprobe_vm.recording.functions import functions
from kprobe_vm.recording.guest import Guest
from kprobe_vm.recording.instructions import Kind, decode
from kprobe_vm.recording.questions import Memory
from kprobe_vm.recording.symboltable import KallsymsEntry, parse_kallsyms

# Functions that end in a padded return, whose padding no table reserves; functions that return to themselves with iret,
# sync_core() of arch/x86.  The first that a kernel has counts.
FUNCTIONS = {
    "int3": (Kind.INT3, ("do_sys_openat2", "do_sys_open", "vfs_read")),
    "unsupported": (Kind.UNSUPPORTED, ("ipi_sync_core", "do_sync_core", "text_poke_early")),
}


def probe_points(guest: Guest) -> dict[str, str]:
    """Return a guest's probe points, by their names in the questions; without /proc/kcore only those in modules."""
    kallsyms = guest.read("proc/kallsyms").decode()
    entries = parse_kallsyms(kallsyms)
    points = _of_modules(entries, guest.tracefs.read("available_filter_functions").decode())
    points["open"] = functions(kallsyms).opening
    try:
        memory = Memory(guest)
    except (OSError, ValueError):
        return points
    try:
        for name, (kind, names) in FUNCTIONS.items():
            point = next(filter(None, (_instruction(entries, memory, one, kind) for one in names)), None)
            if point is not None:
                points[name] = point
    finally:
        memory.close()
    return points


def _instruction(entries: Sequence[KallsymsEntry], memory: Memory, function: str, kind: Kind) -> str | None:
    """Return the probe point at the first instruction of a kind in a function, None if there is none."""
    start = next((entry.address for entry in entries if entry.name == function and not entry.module), None)
    if not start:
        return None
    end = min(entry.address for entry in entries if entry.address > start)
    text = decode(start, memory.read(start, end - start), [start])
    return next((f"{function}+{one.start - start}" for one in text.special if one.kind is kind), None)


def _of_modules(entries: Sequence[KallsymsEntry], traceable: str) -> dict[str, str]:
    """Return the probe points in modules; `traceable` is available_filter_functions."""
    functions = [entry for entry in entries if entry.type in "tT"]
    names = Counter(entry.name for entry in functions if not entry.module)
    modules = Counter(entry.name for entry in functions if entry.module)
    bare = {line for line in traceable.splitlines() if "\t" not in line and " " not in line}
    loaded = sorted({entry.module for entry in functions if entry.module})
    shared = sorted(name for name, count in modules.items() if count == names[name] == 1 and name in bare)
    return {name: of[0] for name, of in (("module", loaded), ("shared", shared)) if of}
