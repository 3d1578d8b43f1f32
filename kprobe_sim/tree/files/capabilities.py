"""What a tracefs may offer for cleaning up after a program, beyond the methods that every tracefs has.

The simulated tracefs, a guest's and this machine's offer some of it, by attributes of these names.  What the tracer
asks of them (`threads`, `play`, `never_hits` ...) stands in kprobe/tracefs; `SimTracefs` and `SimBackend` offer it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Surroundings(Protocol):
        """The state around a tracefs that a program may change: its machine's."""

        def undo(self) -> list[str]:
            """Undo the changes; return in words those that can't be undone."""

        def filtered(self) -> list[str]:
            """Return the paths of the filters that are set."""


class Capabilities:
    """The capabilities of one tracefs; one that it doesn't offer is None.  Each is looked up when it is read."""

    __slots__ = ("_tracefs",)

    close: Callable[[], None] | None  # ends what was opened with it
    has_function: Callable[[str], bool] | None  # whether available_filter_functions has a name
    is_alive: bool | None  # False: its machine has ended
    machine: Any  # the guest that it is of; it has a `release`
    open: Callable[[str, int], Any] | None  # open(2): returns a file with read(size) and close()
    read_each: Callable[..., Mapping[str, bytes]] | None  # reads many files at once: see `leftovers.texts`
    refused: tuple[OSError, bytes] | None  # the last write that was refused, and its data
    renew: Callable[[], Any] | None  # ends its machine, and returns the tracefs of one that has just booted
    surroundings: Callable[[], Surroundings] | None

    def __init__(self, tracefs: object) -> None:
        self._tracefs = tracefs

    if not TYPE_CHECKING:  # mypy knows the names above, and no others

        def __getattr__(self, name: str) -> object:
            if name not in Capabilities.__annotations__:
                raise AttributeError(name)
            return getattr(self._tracefs, name, None)
