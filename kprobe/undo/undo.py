"""The changes made to a tracefs, and how to undo them."""

from __future__ import annotations

import errno
from collections.abc import Callable

from kprobe.errors import UndoFailed
from kprobe.tracefs.capabilities import Capabilities

GONE = (errno.ENOENT, errno.ENODEV)  # the change is already gone
INTERRUPTS = 2  # interrupts that may hit a step before it counts as failed


class Step:
    """One thing to undo; `name` describes it in reports, and `command` is what to type if it fails.

    `is_left` checks whether there is anything to undo.  `frees`: other steps are busy until it is done.
    """

    __slots__ = ("action", "command", "frees", "interrupts", "is_left", "name")

    def __init__(
        self,
        name: str,
        action: Callable[[], object],
        command: Callable[[], str] | None,
        is_left: Callable[[], bool] | None,
        frees: bool,
    ) -> None:
        self.name = name
        self.action = action
        self.command = command
        self.is_left = is_left
        self.frees = frees
        self.interrupts = 0

    def is_done(self, error: OSError) -> bool:
        """Return whether nothing is left though the action failed: the error may have come after the effect."""
        if self.is_left is not None:
            try:
                return not self.is_left()
            except OSError:
                pass
        return error.errno in GONE


class Undo:
    """A stack of steps.

    Push a step *before* doing what it undoes, and drop it only when that was refused without effect: so neither an
    interrupt between the two nor an error after the effect leaves anything behind.
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._failed: list[tuple[Step, BaseException]] = []
        self.failures: list[tuple[str, BaseException]] = []
        self.notices: list[str] = []

    def tell(self, notice: str) -> None:
        """Note what a step left alone, and why: once, as steps may be repeated."""
        if notice not in self.notices:
            self.notices.append(notice)

    def push(
        self,
        name: str,
        action: Callable[[], object],
        *,
        command: Callable[[], str] | None = None,
        is_left: Callable[[], bool] | None = None,
        frees: bool = False,
    ) -> Step:
        """Remember a step; return it, for `drop` or `now`.

        An action that fails with ENOENT or ENODEV counts as done; with `is_left`, that decides.
        """
        step = Step(name, action, command, is_left, frees)
        self._steps.append(step)
        return step

    def drop(self, step: Step) -> None:
        """Forget a step."""
        if step in self._steps:
            self._steps.remove(step)

    def now(self, step: Step) -> None:
        """Take one step early; if it fails, it is repeated in its turn."""
        if step in self._steps and self._take(step) is None:
            self.drop(step)

    def run(self) -> None:
        """Take every step, last first; a failed step stops no other, and is repeated after them.

        Failed steps are repeated as long as some succeed, as busy files may come free.  Final failures go to
        `failures`.  An interrupt (any exception but `OSError`) repeats the step that it hit, and is raised at the end.
        """
        interrupt: BaseException | None = None
        first, before = True, 0
        while self._steps or self._failed:
            try:
                if self._steps:
                    self._pass()
                elif first or len(self._failed) < before:
                    first, before = False, len(self._failed)
                    self._steps = [step for step, _ in reversed(self._failed)]
                    self._failed = []
                else:
                    self._give_up()
            except BaseException as error:
                if interrupt is None:
                    interrupt = error
        if interrupt is not None:
            raise interrupt

    def finish(self, error: BaseException | None) -> None:
        """Take every step at the end, with the `error` under way or None.

        Raise `UndoFailed` if anything is left behind; an error under way gets that as a note.
        """
        try:
            self.run()
        except BaseException as interrupt:
            self._note(interrupt)
            raise
        if error is not None:
            self._note(error)
        elif self.failures:
            raise UndoFailed(self.failures)

    def _note(self, error: BaseException) -> None:
        if self.failures:
            error.add_note(str(UndoFailed(self.failures)))

    def _pass(self) -> None:
        while self._steps:
            step = self._steps[-1]
            try:
                failure = self._take(step)
            except BaseException as interrupt:
                step.interrupts += 1
                if step.interrupts >= INTERRUPTS:
                    self._failed.append((step, interrupt))
                    self.drop(step)
                raise
            if failure is not None:
                self._failed.append((step, failure))
            self.drop(step)

    def _give_up(self) -> None:
        failed, self._failed = self._failed, []
        for step, error in sorted(failed, key=lambda item: not item[0].frees):
            if isinstance(error, Exception) and not isinstance(error, OSError | MemoryError):
                continue  # the backend's error: it is gone with all that was in it, and the caller learns of it
            if step.command is not None:
                error.add_note(f"by hand: {step.command()}")
            self.failures.append((step.name, error))

    def _take(self, step: Step) -> OSError | None:
        try:
            step.action()
        except OSError as error:
            return None if step.is_done(error) else error
        return None


def full(tracefs: object, path: str) -> str:
    """Return a path as typed on the traced machine, as far as known here."""
    root = Capabilities(tracefs).root
    return path if root is None else f"{root}/{path}"
