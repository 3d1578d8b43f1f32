"""Functions of the traced kernel: whether a name exists and, if not, which one was meant."""

from __future__ import annotations

from kprobe.tracefs.capabilities import Capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kprobe.definitions.probe import Place
    from kprobe.tracefs.tracefs import Tracefs

LIST = "available_filter_functions"

# Functions that later kernels rename or replace, newest first.
SUCCESSORS = {
    "do_sys_open": ("do_sys_openat2",),  # Linux 5.6, commit fddb5d430ad9 "open: introduce openat2(2) syscall"
    "do_fork": ("kernel_clone", "_do_fork"),  # Linux 5.10, commit cad6967ac108 "fork: introduce kernel_clone()"
    "_do_fork": ("kernel_clone",),
}
# Linux 4.17, commit d5a00528b58c: system calls take their arguments from a pt_regs, under a prefixed name.
SYSCALL_PREFIXES = ("sys_", "SyS_")
SYSCALL_SUCCESSORS = ("__x64_sys_", "ksys_")
PADDING = "__pfx_"  # symbols of the padding before functions (since 6.2)
SUGGESTIONS = 5


def functions(tracefs: Tracefs) -> frozenset[str] | None:
    """Return the names in available_filter_functions, or None if it can't be read (no DYNAMIC_FTRACE, no rights)."""
    try:
        data = tracefs.read(LIST)
    except OSError:
        return None
    lines = data.decode(errors="replace").splitlines()
    return frozenset(line.partition(" ")[0] for line in lines)


def functions_and_modules(tracefs: Tracefs) -> list[tuple[str, str]]:
    """Return the functions in available_filter_functions, each with its module, "" if it has none.  Raise `OSError`."""
    lines = tracefs.read(LIST).decode(errors="surrogateescape").splitlines()
    return [(name, module.strip("[]\t ")) for name, _, module in (line.partition(" ") for line in lines)]


def blacklist(tracefs: Tracefs) -> list[tuple[int, int, str]]:
    """Return the ranges closed to kprobes: first address, end, function; none if the list can't be read."""
    import re

    try:
        text = Capabilities(tracefs).blacklist().decode(errors="replace")
    except OSError:
        return []
    rows = re.findall(r"0x([0-9a-f]+)-0x([0-9a-f]+)\s+(\S+)", text)
    return [(int(start, 16), int(end, 16), name) for start, end, name in rows]


def listed(tracefs: Tracefs) -> frozenset[str] | None:
    """Return the functions that a kernel lists; without such a list, the names in its kallsyms; None if neither."""
    names = functions(tracefs)
    if names is not None:
        return names
    try:
        data = Capabilities(tracefs).kallsyms()
    except OSError:
        return None
    found = frozenset(words[2].decode(errors="replace") for words in map(bytes.split, data.splitlines()) if words[2:])
    return found or None


def successors(symbol: str) -> tuple[str, ...]:
    """Return the names under which later kernels do what `symbol` did."""
    for prefix in SYSCALL_PREFIXES:
        if symbol.startswith(prefix):
            call = symbol[len(prefix) :]
            return tuple(new + call for new in SYSCALL_SUCCESSORS)
    return SUCCESSORS.get(symbol, ())


def suggest(symbol: str, names: Iterable[str] | None) -> list[str]:
    """Return names that `symbol` may mean, best first; without `names`, the known successors."""
    known = successors(symbol)
    if names is None:
        return list(known)
    names = frozenset(name for name in names if not name.startswith(PADDING))
    found = [name for name in known if name in names]
    stem = symbol.partition(".")[0]  # the compiler adds .isra.0, .constprop.0, .part.0, depending on the build
    twins = sorted(name for name in names if name == stem or name.startswith(stem + "."))
    folded = symbol.lower()
    parts = sorted((name for name in names if folded in name.lower()), key=lambda name: (len(name), name))
    found += twins + parts[:SUGGESTIONS]
    if len(found) < SUGGESTIONS:
        from difflib import get_close_matches

        near = [name for name in names if name[:2] == symbol[:2] and abs(len(name) - len(symbol)) <= 6]
        found += get_close_matches(symbol, sorted(near), SUGGESTIONS, 0.75)
    return [name for name in dict.fromkeys(found) if name != symbol][:SUGGESTIONS]


def doubt(
    place: Place, list_functions: Callable[[], frozenset[str] | None], has_function: Callable[[str], bool] | None = None
) -> str:
    """Say why a probe at `place` may fail or stay silent; "" if no reason is known.

    `has_function` looks a name up without building the list, where a backend can.
    """
    if place.address is not None or not place.symbol:
        return ""
    if has_function is not None and has_function(place.symbol) and not any(map(has_function, successors(place.symbol))):
        return ""
    names = list_functions()
    if names is None:
        return f"can't read {LIST}, so whether {place.symbol} can be probed is unknown"
    if place.symbol not in names:
        text = f"{place.symbol} is not in {LIST}: it doesn't exist, or can't be probed"
        near = suggest(place.symbol, names)
        return f"{text}. Near: {', '.join(near)}" if near else text
    newer = [name for name in successors(place.symbol) if name in names]
    if newer:
        return f"this kernel also has {newer[0]}, which took over from {place.symbol}: that one may rarely fire"
    return ""
