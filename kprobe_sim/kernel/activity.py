"""Activities: the calls that a simulated machine makes; docs/reference/activities.md describes their files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from kprobe_sim.kernel.activity_file import Declared, read
from kprobe_sim.kernel.opens import NEWEST, before_openat2, opens
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.kernel.step import Step
from kprobe_sim.language.primitives.toml_values import cut, several, toml
from kprobe_sim.named_tuple import NamedTuple

_BUILT_IN = Path(__file__).parent / "activities"
_OPENS = "opens"
_LONGEST = 500  # characters of a message about a call

Report = Callable[[str], None]


class Activity(NamedTuple):
    """A sequence of calls, and the functions that they need; `name` is its file, "" for a built-in one."""

    functions: tuple[Declared, ...]
    steps: tuple[Step, ...]
    repeat: bool
    name: str = ""

    def prepare(self, kernel: SimulatedKernel) -> None:
        """Declare the functions, and make the tasks exist."""
        for name, size, module in self.functions:
            kernel.add_function(name, size, module)
        for step in self.steps:
            task = step.options["task"]
            kernel.tasks.setdefault(task.pid, task)

    def check(self, kernel: SimulatedKernel) -> None:
        """Raise ValueError for what a prepared kernel lacks, with the position of each such call in the file.

        The built-in activities are covered by tests.
        """
        if not self.name:
            return
        problems: dict[str, str] = {}
        for step in {id(step): step for step in self.on(kernel)}.values():
            try:
                step.check(kernel)
            except ValueError as error:
                problems[step.position] = cut(str(error), _LONGEST)
        if problems:
            lines = several(f"{position}: {problem}" for position, problem in problems.items())
            raise ValueError(_named(self.name, lines.splitlines()))

    def on(self, kernel: SimulatedKernel) -> Sequence[Step]:
        """Return the steps with this kernel's functions: before 5.6 do_sys_open() opens files."""
        opening = kernel.profile.called["open"]
        if opening == NEWEST or kernel.machine.symbols.lookup(NEWEST):
            return self.steps
        chains = kernel.profile.chains
        caller = (*chains.get("do_sys_open", ()), *chains.get("openat", ()), "")[0]
        steps: list[Step] = []
        renamed: dict[int, Step] = {}  # a step that is taken a million times is made once
        pause = 0.0
        for step in self.steps:
            if step.is_event and not self.name and not kernel.statics.has(*step.name.split("/")):
                pause += step.after  # the patch of 2009 is known only from a document, and has no static events
                continue
            if step.name == NEWEST:
                if id(step) not in renamed:
                    options = before_openat2(step.options, caller)
                    renamed[id(step)] = step._replace(name=opening, options=options)
                step = renamed[id(step)]
            steps.append(step._replace(after=step.after + pause) if pause else step)
            pause = 0.0
        return steps

    def play(self, kernel: SimulatedKernel) -> None:
        """Make all calls now; the trace shows the times that the file gives."""
        self.prepare(kernel)
        for step in self.on(kernel):
            step.take(kernel, step.options)

    def play_live(self, kernel: SimulatedKernel, stop: threading.Event, report: Report | None = None) -> None:
        """Make the calls in real time, with the pauses between them, until the end or until `stop` is set.

        `report` gets one line about each call that fails, once, and the others go on; without it the error is raised.
        """
        steps = self.on(kernel)
        failed: set[str] = set()
        while not stop.is_set():
            for step in steps:
                if stop.wait(step.after):
                    return
                try:
                    step.take(kernel, {key: value for key, value in step.options.items() if key != "at"})
                except (OSError, ValueError) as error:
                    if report is None:
                        raise
                    if step.position not in failed:
                        failed.add(step.position)
                        report(f"{self.name or 'activity'}: {step.position}: {str(error).partition(chr(10))[0]}")
            if not self.repeat:
                return


def load(name: str) -> Activity:
    """Read a built-in activity by its name, or the activity in a file, whose path has a `/` or ends with .toml.

    Raises ValueError, which names the activities or says what is wrong with the file.
    """
    if "/" not in name and not name.endswith(".toml"):
        built_in = _built_in(name)
        if built_in is None:
            hint = f" (for the file of that name write ./{name})" if name and Path(name).is_file() else ""
            raise ValueError(f"no activity {name!r}: give a TOML file, or one of {', '.join(built_in_names())}{hint}")
        return built_in
    try:
        return parse(Path(name).read_text("utf-8"), name)
    except OSError as error:
        raise ValueError(f"activity {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{name}: not TOML: it isn't text in UTF-8") from None


@lru_cache(maxsize=16)
def _built_in(name: str) -> Activity | None:
    """Return a built-in activity; each is read once."""
    if name == _OPENS:
        return _read(opens(), "")
    return parse((_BUILT_IN / f"{name}.toml").read_text("utf-8"), "") if name in built_in_names() else None


def built_in_names() -> list[str]:
    """Return the names of the built-in activities."""
    return sorted([_OPENS, *(path.stem for path in _BUILT_IN.glob("*.toml"))])


def parse(text: str, name: str = "activity") -> Activity:
    """Read an activity from its TOML text; `name` is for the errors.  Raises ValueError."""
    try:
        table = toml(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return _read(table, name, text)


def _read(table: Mapping[str, Any], name: str, source: str = "") -> Activity:
    try:
        return Activity(*read(table, source), name)
    except ValueError as error:
        raise ValueError(_named(name, str(error).splitlines())) from None


def _named(name: str, problems: Sequence[str]) -> str:
    return "\n".join(f"{name}: {problem}" for problem in problems)
