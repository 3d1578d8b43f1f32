"""Optional capabilities of a tracefs, beyond the methods of `Tracefs`: declared here, and looked up nowhere else.

A tracefs offers a capability by an attribute of that name and type.  It needs no base class and no registration.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .tracefs import Stream

    CTypeFields = tuple[str, str, int, bool]  # a C type: text, kind, bytes, whether it has a sign
    PrototypeFields = tuple[Sequence[tuple[str, CTypeFields]], CTypeFields]  # the parameters, the type returned


class Capabilities:
    """The capabilities of one tracefs; a missing one is None unless its comment says otherwise.

    Each is looked up when it is read.  The comments name the providers: "local" is `LocalTracefs`, "guest" a kernel in
    QEMU, "simulator" every simulated tracefs, "backend" one that `open_tracefs("sim:...")` opens, with an activity.
    """

    __slots__ = ("_tracefs",)

    # Files of the traced machine outside its tracefs.  Those that return bytes return b"" if the file can't be read.
    root: str | None  # the directory of this machine where it is mounted (local)
    machine_file: Callable[[str], bytes] | None  # reads a file by its absolute path; raises OSError (guest)
    kallsyms: Callable[[], bytes]  # /proc/kallsyms; absent: b"" (local, guest, simulator)
    btf: Callable[[], bytes]  # the kernel's BTF; absent: b"" (local, guest)
    blacklist: Callable[[], bytes]  # debugfs' kprobes/blacklist; absent: b"" (local, guest, simulator)
    # Starts to read the kernel's log; returns a function for the lines printed since (local, guest, simulator).
    kernel_log: Callable[[], Callable[[], list[str]]] | None
    # The ids of a process's threads; raises OSError if there is no such process.  This machine's are in /proc, so only
    # a tracefs of another machine offers it (guest, simulator).
    threads: Callable[[int], Iterable[int]] | None

    # Facts about the kernel's functions that need no list and no BTF.
    has_function: Callable[[str], bool] | None  # whether available_filter_functions has the name (backend)
    has_all_symbols: bool  # False: kallsyms gives other sizes of functions than traces show; absent: True (simulator)
    prototype: Callable[[str], PrototypeFields | None] | None  # of a function; None if unknown (simulator)
    # A function, the number of its parameter from 0 on, and a path a.b.c of members: the offset in bytes from each
    # pointer on the way, and the type at the end; None if it isn't known (simulator).
    member: Callable[[str, int, str], tuple[tuple[int, ...], CTypeFields] | None] | None

    # A machine with a scripted activity.
    play: Callable[[], None] | None  # starts it, and returns at once (backend)
    never_hits: Callable[[], str] | None  # why no probe can be enabled; "" if they can (backend)
    never_calls: Callable[[str], str] | None  # why a function is never called; "" if it is (backend)
    never_fires: Callable[[str], str] | None  # why a tracepoint or SYSTEM.EVENT never fires; "" if it does (backend)

    close: Callable[[], None]  # closes what was opened with it; absent: does nothing (guest, backend)

    def __init__(self, tracefs: object) -> None:
        self._tracefs = tracefs

    if not TYPE_CHECKING:  # to mypy, no other names

        def __getattr__(self, name: str) -> object:
            if name not in Capabilities.__annotations__:
                raise AttributeError(name)
            return getattr(self._tracefs, name, _ABSENT.get(name))


_ABSENT = {"kallsyms": bytes, "btf": bytes, "blacklist": bytes, "has_all_symbols": True, "close": lambda: None}


def on_its_way(stream: Stream) -> int:
    """Return the most bytes that the kernel may have handed over and no `read` of a stream has returned yet.

    A guest's stream has an attribute of this name.  For any other it is 1, which allows one more `read`.
    """
    count: int = getattr(stream, "on_its_way", 1)
    return count
