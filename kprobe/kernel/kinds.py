"""The kinds of probes that a kernel accepts, according to its files and its README."""

from __future__ import annotations

from kprobe.definitions.probe import ALL, KPROBES, UPROBES
from kprobe.errors import Unsupported
from kprobe.kernel.dialect import readme

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.definitions.probe import Probe
    from kprobe.tracefs.tracefs import Tracefs

WORDS = {
    "p": "kprobe events",
    "r": "kprobe events",
    "f": "function probes (f:)",
    "t": "tracepoint probes (t:)",
    "e": "event probes (e:)",
    "u": "user-space probes (u:)",
}


def check(tracefs: Tracefs, probe: Probe) -> None:
    """Raise `Unsupported` if the kernel has no probes of this kind."""
    kind = probe.kind
    if kind in ("p", "r", "u"):
        if not tracefs.exists(probe.file):
            config = "UPROBE_EVENTS, or before Linux 3.5" if kind == "u" else "KPROBE_EVENTS"
            raise Unsupported(WORDS[kind], f"there is no {probe.file}: it was built without CONFIG_{config}")
        return
    found = offered(tracefs)
    if kind not in found:
        words = ", ".join(f"{one}:" for one in found) or "none"
        other = _instead(tracefs, probe, found)
        raise Unsupported(WORDS[kind], f"it has {words}, by its README and {', '.join((KPROBES, UPROBES, ALL))}", other)


def _instead(tracefs: Tracefs, probe: Probe, offered: str) -> str:
    """Return what traces the same on a kernel without the probe's kind; "" if nothing is known to."""
    name = probe.place.symbol
    if probe.kind == "f" and "p" in offered:
        kind, called = "r" if probe.place.returns else "p", probe.name
        return f"a kprobe at the same function: '{' '.join((f'{kind}:{called}', name, *probe.args))}'"
    if probe.kind != "t":
        return ""
    try:
        groups = [group for group in tracefs.listdir("events") if tracefs.exists(f"events/{group}/{name}")]
    except OSError:
        return ""
    if groups and "e" in offered:
        return f"an event probe on the tracepoint's event: 'e:{probe.name} {groups[0]}.{name}'"
    return f"its event is there without a probe: echo 1 > events/{groups[0]}/{name}/enable" if groups else ""


def offered(tracefs: Tracefs) -> str:
    """Return the letters of the kinds that the kernel accepts."""
    forms = [line.replace("Format:", "").strip() for line in readme(tracefs).splitlines()]
    late = "".join(kind for kind in "fte" if any(form.startswith(f"{kind}[:") for form in forms))
    return "".join(
        (
            "pr" if tracefs.exists(KPROBES) else "",
            late if late and tracefs.exists(ALL) else "",
            "u" if tracefs.exists(UPROBES) else "",
        )
    )
