"""The lines of kprobe_events and similar files, and which of them belong to a given probe.

The kernel doesn't show a probe as it was written: it adds the group, names for all arguments and maxactive, shows
offsets in decimal, hashes addresses, and uses the C names of arguments that it knows by BTF.
Source: kernel 6.12, trace_kprobe_show(), trace_kprobe_match(), trace_probe_match_command_args().
"""

from __future__ import annotations

from kprobe.definitions.probe import ALL, GROUP, KPROBES, RETURN, UPROBES, Probe

COMPARED = 63  # characters of a word that a delete compares on Linux 5.10; later kernels compare all


class Line:
    """One line; `event` is its directory below events/, `args` are name=expression.

    `file` is where the probe is added and removed: kprobe_events, uprobe_events or dynamic_events.
    """

    __slots__ = ("args", "event", "file", "place", "text")

    def __init__(self, text: str) -> None:
        head, *rest = text.split(" ")
        self.text = text
        event = head.partition(":")[2]
        self.event = event if "/" in event or not event else f"{GROUP}/{event}"  # the patch of 2009 has no groups
        self.place = rest[0] if rest else ""
        self.args = tuple(rest[1:])
        self.file = ALL if head[:1] not in ("p", "r") else UPROBES if "/" in self.place else KPROBES

    def is_same(self, other: Line) -> bool:
        """Return whether both are one probe; maxactive changes when its module is loaded."""
        return (self.event, self.place, self.args) == (other.event, other.place, other.args)


def read_lines(data: bytes) -> list[Line]:
    """Return the lines of kprobe_events, oldest first."""
    return [Line(text) for text in data.decode(errors="surrogateescape").split("\n") if text]


def find(lines: list[Line], probe: Probe) -> list[Line]:
    """Return those of `lines`, all of one event, that can be `probe`: none, one, or several if in doubt."""
    found = [line for line in lines if _is_place(line.place, probe) and _may_be(line.args, probe.args)]
    sure = [line for line in found if _expressions(line.args) == _expressions(probe.args)]
    return sure or found


def delete(line: Line, lines: list[Line]) -> str | None:
    """Return the command that removes this probe and no other of `lines`; None if there is none.

    A delete names the probe point and leading arguments as shown, and removes every probe of the event that begins so
    (since Linux 5.4; before, an event has one probe).  Words longer than the kernel compares never match.  Without
    known `lines`, use only words that are compared in full.
    """
    if len(line.place) > COMPARED:
        return None
    count = next((index for index, arg in enumerate(line.args) if len(arg) > COMPARED), len(line.args))
    words = (line.place, *line.args[:count])
    if not lines and count < len(line.args):
        return None
    hit = [one for one in lines if one.event == line.event and (one.place, *one.args[:count]) == words]
    return f"-:{line.event} {' '.join(words)}" if len(hit) <= 1 else None


def guess(probe: Probe) -> str | None:
    """Return the command that removes a probe by its definition alone, for when the list can't be read."""
    if probe.place.address is not None or probe.kind == "u":
        return None
    words = [_place(probe)]
    for arg in probe.args:
        if "=" not in arg or len(arg) > COMPARED:
            break
        words.append(arg)
    return f"-:{probe.event} {' '.join(words)}" if len(words[0]) <= COMPARED else None


def _place(probe: Probe) -> str:
    return str(probe.place).removesuffix(RETURN)


def _is_place(shown: str, probe: Probe) -> bool:
    if probe.place.address is not None:
        return shown.startswith("0x")
    if probe.kind == "u":
        return _in_file(shown) == (probe.place.path, probe.place.offset, probe.place.counter)
    if probe.kind == "f":  # $retval turns an entry probe into a return probe
        return shown.removesuffix(RETURN) == _place(probe)
    return shown.removesuffix("+0") == _place(probe)


def _in_file(shown: str) -> tuple[str, int, int | None] | None:
    """Return path, offset and reference counter of FILE:0x0000000000001000(0x20); None for anything else."""
    path, _, place = shown.rpartition(":")
    offset, brace, counter = place.partition("(")
    try:
        return path, int(offset, 16), int(counter.rstrip(")"), 16) if brace else None
    except ValueError:
        return None


def _may_be(shown: tuple[str, ...], args: tuple[str, ...]) -> bool:
    """True unless a name or the number of arguments differs; $arg* stands for any number."""
    if any(arg.startswith("$arg*") for arg in args):
        return True
    named = [
        (arg.partition("=")[0], line.partition("=")[0]) for arg, line in zip(args, shown, strict=False) if "=" in arg
    ]
    return len(shown) == len(args) and all(ours == theirs for ours, theirs in named)


def _expressions(args: tuple[str, ...]) -> list[str]:
    return [arg.partition("=")[2] if "=" in arg else arg for arg in args]
