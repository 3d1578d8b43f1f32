"""Notes of what a session must undo, kept in the kernel itself, for the next session after `kill -9`.

A marker is a probe in the session's group that is never enabled, `GROUP/kprobe_keeps_N`.  The names of its arguments
carry text, in numbered pieces: `f0_..` a file of the top level, `o0_..` what was in it, `n0_..` what the session
writes; or `d0_..` the definition, without arguments, of an event in a group that the user named, and `t0_` if it works
at the top level.  Letters and digits stand as they are, _ as __, any other byte as _xHH.
"""

from __future__ import annotations

import errno
import re

from kprobe.definitions.probe import KPROBES
from kprobe.kernel.listing import read_lines

from . import leftovers, owners

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.kernel.listing import Line
    from kprobe.tracefs.tracefs import Tracefs

NAME = "kprobe_keeps_"
FUNCTIONS = ("panic", "vfs_read")  # any kernel has one of them; the probe is never armed
PIECE = 24  # characters of text in a name, of which a kernel takes 31
MOST = 128  # arguments of a probe (MAX_TRACE_ARGS)
LACKING = (errno.ENOENT, errno.EINVAL)  # no such function, or none that takes a probe
_ARGUMENT = re.compile(r"([a-z])(\d+)_(\w*)", re.ASCII)
_ESCAPE = re.compile(r"_(_|x[0-9a-f]{2})")


class Kept:
    """A marker that was read: the `event`, and its `session`.

    `file`, `old` and `new` describe a file of the top level, `definition` and `is_top` an event; the others are "".
    """

    __slots__ = ("definition", "event", "file", "is_top", "new", "old", "session")

    def __init__(self, event: str, texts: dict[str, str]) -> None:
        self.event = event
        self.session = event.partition("/")[0]
        self.file = texts.get("f", "")
        self.old = texts.get("o", "")
        self.new = texts.get("n", "")
        self.definition = texts.get("d", "")
        self.is_top = "t" in texts

    def __str__(self) -> str:
        """Describe in one line what it keeps."""
        if self.file:
            return f"{self.file}: was {self.old}, set to {self.new}"
        return f"{self.definition}{', at the top level' if self.is_top else ''}"


def read(tracefs: Tracefs) -> list[Kept]:
    """Return the markers of all sessions, oldest first.  Raise `OSError`."""
    if not tracefs.exists(KPROBES):
        return []
    lines = read_lines(tracefs.read(KPROBES).replace(b"\t", b" "))
    found: dict[str, Kept] = {}
    for line in lines:
        marker = parse(line)
        if marker is not None:
            found.setdefault(line.event, marker)
    return list(found.values())


def parse(line: Line) -> Kept | None:
    """Return a line of kprobe_events as a marker; None if it isn't one."""
    group, _, name = line.event.partition("/")
    if not name.startswith(NAME) or owners.read_session(group) is None:
        return None
    texts: dict[str, str] = {}
    for arg in line.args:
        found = _ARGUMENT.fullmatch(arg.partition("=")[0])
        if found is None:
            return None
        texts[found[1]] = texts.get(found[1], "") + found[3]
    marker = Kept(line.event, {letter: _decoded(text) for letter, text in texts.items()})
    return marker if marker.definition or (marker.file and marker.old) else None


def holder(tracefs: Tracefs, marker: Kept, proc: str) -> str:
    """Return who may still need what it keeps, "" if its session's owner is dead."""
    session = owners.read_session(marker.session)
    return leftovers.holder(tracefs, session.owner, proc) if session is not None else ""


def free_event(tracefs: Tracefs, session: str) -> str:
    """Return the event of the session's next marker.  Raise `OSError`."""
    taken = {marker.event for marker in read(tracefs)}
    number = 0
    while f"{session}/{NAME}{number}" in taken:
        number += 1
    return f"{session}/{NAME}{number}"


def add(tracefs: Tracefs, event: str, **texts: str) -> bool:
    """Add a marker with these texts by their letter; False if this kernel takes none.

    Raise `OSError` if the kernel refuses it for any reason but the function.
    """
    words = [word for letter, text in texts.items() for word in _words(letter, text)]
    if len(words) > MOST or not tracefs.exists("README"):  # the patch of 2009 has no groups
        return False
    for function in FUNCTIONS:
        try:
            tracefs.write(KPROBES, f"p:{event} {function} {' '.join(words)}\n".encode())
        except OSError as error:
            if error.errno not in LACKING:
                raise
        else:
            return True
    return False


def remove(tracefs: Tracefs, event: str) -> None:
    """Remove a marker, unless it is gone.  Raise `OSError`."""
    if is_there(tracefs, event):
        tracefs.write(KPROBES, f"-:{event}\n".encode())


def is_there(tracefs: Tracefs, event: str) -> bool:
    """Return whether the marker exists.  Raise `OSError`."""
    return any(marker.event == event for marker in read(tracefs))


def _words(letter: str, text: str) -> list[str]:
    data = text.encode(errors="surrogateescape")
    code = "".join(
        "__" if byte == 95 else chr(byte) if byte < 128 and chr(byte).isalnum() else f"_x{byte:02x}" for byte in data
    )
    pieces = [code[at : at + PIECE] for at in range(0, len(code), PIECE)] or [""]
    return [f"{letter}{number}_{piece}=$stack" for number, piece in enumerate(pieces)]


def _decoded(code: str) -> str:
    data = b""
    at = 0
    for found in _ESCAPE.finditer(code):
        data += code[at : found.start()].encode()
        data += b"_" if found[1] == "_" else bytes([int(found[1][1:], 16)])
        at = found.end()
    return (data + code[at:].encode()).decode(errors="surrogateescape")
