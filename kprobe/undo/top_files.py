"""Top-level files that sessions change, in turn or at the same time, each with a marker of its original value.

The first session that changes a file keeps the old value; a session that wants the same value joins it, and the last
one to leave restores the old value.  A session that wants another value is refused meanwhile.
"""

from __future__ import annotations

import errno
import re

from kprobe.definitions.probe import KPROBES
from kprobe.errors import Busy
from kprobe.kernel.denial import denied
from kprobe.tracefs.turn import Turn
from kprobe.tracefs.value import value

from . import markers
from .undo import full

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.tracefs.tracefs import Tracefs

    from .markers import Kept
    from .undo import Undo

SIZE = "buffer_size_kb"
HEADER = "events/header_page"
PAGE = 4080  # bytes of events in a page, if the kernel doesn't tell


class TopFile:
    """A file of the top level, as one session changes it; `proc` is where processes are listed."""

    def __init__(self, tracefs: Tracefs, undo: Undo, session: str, path: str, proc: str) -> None:
        self._tracefs = tracefs
        self._undo = undo
        self._session = session
        self._path = path
        self._proc = proc
        self._event = ""
        self._new = ""
        self._shown = ""  # what the file had right after our write; "" if it couldn't be read

    def set(self, new: str, old: str) -> str:
        """Write a value in place of `old`; the undo restores that, unless somebody changed the file meanwhile.

        Return what the user should know, or "".

        Raise `Busy` if another session holds another value, or the kernel's refusal.
        """
        with Turn(self._tracefs):
            try:
                return self._set(new, old)
            except OSError as error:
                raise denied(self._tracefs, str(error.filename or self._path), error) from error

    def _set(self, new: str, old: str) -> str:
        tracefs, path = self._tracefs, self._path
        shown = current(tracefs, path)
        for marker in markers.read(tracefs):
            if marker.file != path:
                continue
            holder = markers.holder(tracefs, marker, self._proc)
            is_kept = is_value(tracefs, path, marker.new, shown)
            if holder and not (is_kept and is_value(tracefs, path, marker.new, new)):
                raise self._held(marker, holder, new, shown if not is_kept else "")
            if is_kept:
                old = marker.old
        if is_value(tracefs, path, new, shown) and is_value(tracefs, path, old, shown):
            return ""
        self._event, self._new = markers.free_event(tracefs, self._session), new
        self._undo.push(
            f"set {path} back to {old}",
            lambda: self._put_back(old),
            command=lambda: self._command(old),
            is_left=lambda: self._is_left(old),
        )
        is_marked = markers.add(tracefs, self._event, f=path, o=old, n=new)
        tracefs.write(path, new.encode() + b"\n")
        self._shown = self._current()
        return "" if is_marked else f"this kernel takes no marker: if we are killed, {path} stays {new} (it was {old})"

    def _current(self) -> str:
        """Return the file's value, or "": then it is compared with the formats of known kernels."""
        try:
            return current(self._tracefs, self._path)
        except OSError:
            return ""

    def _held(self, marker: Kept, holder: str, new: str, shown: str) -> Busy:
        what = f"{holder} has set it to {marker.new} for its trace, and puts {marker.old} back at its end"
        if shown:
            what += f"; somebody has changed it to {shown} since"
        return Busy(self._path, new, errno.EBUSY, hint=f"{what}; an instance of one's own has a value of its own")

    def _put_back(self, old: str) -> None:
        """Undo the change, in one turn; a value that others share or changed stays."""
        with Turn(self._tracefs):
            if self._is_ours(old):
                if not self._others():
                    self._tracefs.write(self._path, old.encode() + b"\n")
            elif (shown := current(self._tracefs, self._path)) and not is_value(self._tracefs, self._path, old, shown):
                self._undo.tell(
                    f"{self._path} stays {shown}: somebody changed it while this trace had it at {self._new}; "
                    f"before that it was {old}"
                )
            markers.remove(self._tracefs, self._event)

    def _is_left(self, old: str) -> bool:
        return markers.is_there(self._tracefs, self._event) or (self._is_ours(old) and not self._others())

    def _is_ours(self, old: str) -> bool:
        """True if the file shows what it did right after our write, and that differs from before."""
        shown = current(self._tracefs, self._path)
        has_new = shown == self._shown or is_value(self._tracefs, self._path, self._new, shown)
        return has_new and not is_value(self._tracefs, self._path, old, shown)

    def _others(self) -> list[Kept]:
        return holders(self._tracefs, self._path, self._event, self._proc)

    def _command(self, old: str) -> str:
        path, probes = full(self._tracefs, self._path), full(self._tracefs, KPROBES)
        return f"echo {old} > {path}\n    by hand: echo '-:{self._event}' >> {probes}"


def holders(tracefs: Tracefs, path: str, event: str, proc: str) -> list[Kept]:
    """Return the markers of other living sessions on a file.  Raise `OSError`."""
    found = [one for one in markers.read(tracefs) if one.file == path and one.event != event]
    return [one for one in found if markers.holder(tracefs, one, proc)]


def current(tracefs: Tracefs, path: str) -> str:
    """Return the value in a file; for the buffer's size, the value once it is used.  Raise `OSError`."""
    shown = value(tracefs, path)
    return shown.rpartition("(expanded: ")[2].rstrip(")") if path == SIZE else shown


def is_value(tracefs: Tracefs, path: str, value: str, shown: str) -> bool:
    """True if a file that shows `shown` holds `value`, which kernels may show in another form.

    A mask loses leading zeros.  A size is shown as written, or rounded up to whole pages, at least two: 1408 becomes
    1410 (ring_buffer_resize(); recorded on 5.10 and 6.12).
    """
    if value == shown:
        return True
    if path == SIZE and value.isdigit():
        page = _page(tracefs)
        return shown == str(max(2, -(-int(value) * 1024 // page)) * page // 1024)
    return _bits(value) is not None and _bits(value) == _bits(shown) if path != SIZE else False


def _page(tracefs: Tracefs) -> int:
    try:
        found = re.search(rb"char data;\s*offset:\d+;\s*size:(\d+);", tracefs.read(HEADER))
    except OSError:
        return PAGE
    return int(found[1]) if found and int(found[1]) else PAGE


def _bits(mask: str) -> int | None:
    try:
        return int(mask.replace(",", ""), 16)
    except ValueError:
        return None
