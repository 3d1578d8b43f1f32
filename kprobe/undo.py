"""What was done to a tracefs, and how to take it back."""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

GONE = (errno.ENOENT, errno.ENODEV)  # what there was to undo isn't there any more


class Step:
    """One thing to take back; `name` says what, for a report."""

    __slots__ = ("action", "name")

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self.name = name
        self.action = action


class Undo:
    """A stack of steps.

    Push a step *before* doing what it undoes, and drop it when that was refused: so an interrupt between the two
    leaves nothing behind.  A step whose object is gone (ENOENT, ENODEV) counts as done.
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self.failures: list[tuple[str, OSError]] = []

    def push(self, name: str, action: Callable[[], object]) -> Step:
        """Remember a step; return it, for `drop` or `now`."""
        step = Step(name, action)
        self._steps.append(step)
        return step

    def drop(self, step: Step) -> None:
        """Forget a step."""
        if step in self._steps:
            self._steps.remove(step)

    def now(self, step: Step) -> None:
        """Take one step before its turn."""
        if step in self._steps:
            self._take(step)
            self.drop(step)

    def run(self) -> None:
        """Take every step, last first; one that fails goes to `failures` and stops no other.

        An interrupt (any exception but `OSError`) repeats the step that it hit once, and is raised at the end.
        """
        interrupt: BaseException | None = None
        while self._steps:
            step = self._steps[-1]
            try:
                self._take(step)
            except BaseException as error:
                if interrupt is None:
                    interrupt = error
                    continue
            self.drop(step)
        if interrupt is not None:
            raise interrupt

    def _take(self, step: Step) -> None:
        try:
            step.action()
        except OSError as error:
            if error.errno not in GONE:
                self.failures.append((step.name, error))
