"""Guests on which scenarios are played one after another."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kprobe_lab.scenarios.actor import MEMORY, Actor, Cast
from kprobe_lab.scenarios.likeness import difference
from kprobe_sim.scenarios.playing import write_first
from kprobe_sim.scenarios.rendering import Rendering
from kprobe_sim.scenarios.rendering import render as simulated
from kprobe_sim.scenarios.scenario import Scenario, scenario_of
from kprobe_sim.scenarios.steps import ScenarioStep
from kprobe_vm.agent.tracefs import GuestFile
from kprobe_vm.guest.backend import VmTracefs, open_vm

__all__ = ["Rendering", "Stage", "Unplayable", "render", "stage"]

_MOST_CPUS = 2
_ROOM = 1792  # bytes of memory set at each call: the text, and zeroes after it
_OPENAT, _FADVISE = 257, 221
_MARKER, _RAW_MARKER = 50, 51  # descriptors
_U32 = 2**32 - 1
# options that change what is recorded, of events or of task names; all others only change the text
_RECORDING = frozenset(["stacktrace", "userstacktrace", "record-tgid", "norecord-cmd"])


class Unplayable(ValueError):
    """A scenario that no guest can be made to do; the text says why."""


class _Ground:
    """A guest, and its state before anything was played on it."""

    def __init__(self, kernel: str, cpus: int, progress: Callable[[str], None]) -> None:
        self.tracefs: VmTracefs = open_vm(f"{kernel},idle,cpus={cpus}", progress=progress)
        files = self.tracefs.machine.files
        # deleting a probe waits for all CPUs, which is most of the time that a scenario takes
        files.write("sys/kernel/rcu_expedited", b"1")
        # a probe optimized into a jump records other flags, and when that happens is chance
        files.write("proc/sys/debug/kprobes-optimization", b"0")
        self.cast = Cast(self.tracefs.machine)
        self.tracefs.write("buffer_size_kb", b"1408")  # from now on the buffers are expanded
        self.options = self.tracefs.read("trace_options").decode().split()
        self.cmdlines = self.tracefs.read("saved_cmdlines_size").strip()

    def close(self) -> None:
        self.tracefs.close()


@contextlib.contextmanager
def stage() -> Iterator[Callable[..., Rendering]]:
    """Yield a function like `render` that keeps its guests until the context ends."""
    stages: dict[str, Stage] = {}

    def play(scenario: Mapping[str, Any], kernel: str, options: Sequence[str] = (), clock: str = "local") -> Rendering:
        playing = stages.get(kernel) or stages.setdefault(kernel, Stage(kernel))
        return playing.render(scenario, options, clock)

    try:
        yield play
    finally:
        for one in stages.values():
            one.close()


class Stage:
    """Guests with one kernel ("6.1", a release), started when they are needed.  Close it."""

    def __init__(self, kernel: str, *, progress: Callable[[str], None] = lambda line: None) -> None:
        self._kernel = kernel
        self._progress = progress
        self._grounds: dict[int, _Ground] = {}

    def render(self, table: Mapping[str, Any], options: Sequence[str] = (), clock: str = "local") -> Rendering:
        """Play a scenario; raise Unplayable for what no guest can do, ValueError for what isn't a scenario."""
        expected = self._simulated(table, options, clock)
        with self._play(table) as play:
            ((_, text),) = play.texts([tuple(options)], clock)
            formats = {path: play.tracefs.read(path).decode("latin-1") for path in expected.formats}
            definitions = play.tracefs.read("dynamic_events").decode("latin-1").splitlines()
        untimed = [{key: value for key, value in one.items() if key != "timestamp"} for one in expected.truth]
        return Rendering(text, untimed, formats, definitions)

    def compare(
        self, table: Mapping[str, Any], sets: Sequence[tuple[str, ...]], clock: str = "local"
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield each set of options, and where the guest's text differs from the simulator's, or "".

        The scenario is played once for all options that only change how records are shown.  Raises as `render` does;
        sets of options with which no guest shows the same are left out.
        """
        expected = {
            options: self._simulated(table, options, clock) for options in sets if not self._why(table, options)
        }
        if not expected:
            raise Unplayable(self._why(table, ()) or "no set of options is left")
        for together in self._together(table, list(expected)):
            with self._play(table) as play:
                for options, text in play.texts(together, clock):
                    yield options, difference(expected[options].text, text)

    def hold(
        self, table: Mapping[str, Any], sets: Sequence[tuple[str, ...]], clock: str = "local"
    ) -> Iterator[tuple[tuple[str, ...], str, int]]:
        """Yield what `compare` does, and how often it was played: once more where the texts differed.

        A difference can be chance: the kernel stores a task's name only if no other CPU is storing one at the moment.
        """
        differing = []
        for options, unlike in self.compare(table, sets, clock):
            if unlike:
                differing.append(options)
            else:
                yield options, "", 1
        for options in differing:
            for _, unlike in self.compare(table, [options], clock):
                yield options, unlike, 2

    def _together(self, table: Mapping[str, Any], sets: list[tuple[str, ...]]) -> list[list[tuple[str, ...]]]:
        """Return groups of options that one guest can play: all, unless the scenario needs a fresh guest."""
        return list(_groups(sets).values()) if scenario_of(table).fresh else [sets]

    def close(self) -> None:
        """End the guests."""
        while self._grounds:
            self._grounds.popitem()[1].close()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _why(self, table: Mapping[str, Any], options: Sequence[str]) -> str:
        return scenario_of(table).unlike_a_guest(options)

    def _simulated(self, table: Mapping[str, Any], options: Sequence[str], clock: str) -> Rendering:
        if reason := self._why(table, options):
            raise Unplayable(reason)
        return simulated(table, self._kernel, options, clock)

    @contextlib.contextmanager
    def _play(self, table: Mapping[str, Any]) -> Iterator[_Play]:
        scenario = scenario_of(table)
        cpus = max(scenario.cpus, 1 + max(step.cpu for step in scenario.steps))
        if cpus > _MOST_CPUS:
            raise Unplayable(f"the guests have {_MOST_CPUS} CPUs at most, not {cpus}")
        if scenario.fresh and (used := self._grounds.pop(cpus, None)) is not None:
            used.close()
        if cpus not in self._grounds:
            self._grounds[cpus] = _Ground(self._kernel, cpus, self._progress)
        play = _Play(scenario, self._grounds[cpus])
        try:
            yield play
        finally:
            play.undo()


class _Play:
    """One scenario on a guest."""

    def __init__(self, scenario: Scenario, ground: _Ground) -> None:
        self.tracefs = ground.tracefs
        self._tracing: str = ground.tracefs.machine.tracefs_path
        self._scenario = scenario
        self._ground = ground
        self._prefix = scenario.prefix
        self._events: list[str] = []
        self._pipe: GuestFile | None = None
        self._text = b""
        self._is_set = False  # there is something to undo

    def texts(self, sets: Sequence[tuple[str, ...]], clock: str) -> Iterator[tuple[tuple[str, ...], bytes]]:
        """Play it for sets of options, once for those that only change how records are shown; yield each text."""
        groups = {options: [options] for options in sets} if self._scenario.reads_pipe else _groups(sets)
        for played, members in groups.items():
            self.undo()
            self._prepare(played, self._scenario.clock or clock)
            self._act_all()
            for options in members:
                yield options, self._shown([one for one in options if one not in played])

    def _act_all(self) -> None:
        for step in self._scenario.steps:
            if step.what == "write":
                write_first(self._write, [(f"{self._prefix}{step.value}", data) for data in step.more["data"]])
            elif step.what == "read":
                self._read_pipe()
            else:
                self._act(step)
        if self._scenario.reads_pipe:
            self._read_pipe()

    def _shown(self, options: Sequence[str]) -> bytes:
        """Return the text, with these options set beside those with which it was played."""
        if self._scenario.reads_pipe:
            return self._text
        before = self.tracefs.read(f"{self._prefix}trace_options").decode().split()
        for option in options:
            self._write(f"{self._prefix}trace_options", option.encode())
        text = self.tracefs.read(f"{self._prefix}trace")
        self._set_back(self._prefix, before)
        return text

    def _set_back(self, prefix: str, before: Sequence[str]) -> None:
        for now, then in zip(self.tracefs.read(f"{prefix}trace_options").decode().split(), before, strict=True):
            if now != then:
                self.tracefs.write(f"{prefix}trace_options", then.encode())

    def _prepare(self, options: Sequence[str], clock: str) -> None:
        scenario, prefix, self._is_set = self._scenario, self._prefix, True
        self.tracefs.write("saved_cmdlines_size", self._ground.cmdlines)  # which forgets all names
        if scenario.instance:
            self.tracefs.mkdir(f"instances/{scenario.instance}")
        for choice in scenario.definitions:
            write_first(self._write, [(_file_of(line), line.encode()) for line in choice])
        for event, text in scenario.filters.items():
            self._write(f"{prefix}events/{event}/filter", text.encode())
        self._write(f"{prefix}trace_clock", clock.encode())
        for option in (*scenario.options, *options):
            self._write(f"{prefix}trace_options", option.encode())
        if scenario.saved_cmdlines:
            self._write("saved_cmdlines_size", b"%d" % scenario.saved_cmdlines)
        actors = [self._actor(step) for step in scenario.steps if step.what not in ("write", "read")]
        for actor in dict.fromkeys(actors):
            actor.open(f"{self._tracing}/{prefix}trace_marker", _MARKER)
            actor.open(f"{self._tracing}/{prefix}trace_marker_raw", _RAW_MARKER)
        pids = {step.task.pid for step in scenario.steps}
        self._write(f"{prefix}set_event_pid", " ".join(map(str, sorted(pids))).encode())
        defined = self.tracefs.read("dynamic_events").decode("latin-1").splitlines()
        self._events = list(scenario.enable) or [line.split(" ")[0].partition(":")[2] for line in defined]
        for event in self._events:
            self._write(f"{prefix}events/{event}/enable", b"1")
        if scenario.buffer_kb:
            self._write(f"{prefix}buffer_size_kb", b"%d" % scenario.buffer_kb)
        self.tracefs.write(f"{prefix}trace", b"", truncate=True)

    def _actor(self, step: ScenarioStep) -> Actor:
        return self._ground.cast.actor(step.task.pid, step.task.tgid)

    def _act(self, step: ScenarioStep) -> None:
        actor = self._actor(step)
        actor.be(step.task.name, step.cpu)
        match step.what:
            case "open":
                data = (step.value + b"\0").ljust(_ROOM, b"\0")
                result = actor.call(_OPENAT, (step.more["dfd"], MEMORY, *step.more["how"]), data, step.times)
            case "fadvise":
                arguments, data = step.placed(step.value, MEMORY)
                result = actor.call(_FADVISE, arguments, data.ljust(_ROOM, b"\0") if data else b"", step.times)
            case _:
                for _ in range(step.times):
                    actor.write(_MARKER if step.what == "marker" else _RAW_MARKER, step.value)
                return
        expected = step.more["returns"]
        if result & _U32 != expected & _U32:
            raise ValueError(f"{step.what} {step.value!r} returns {result} on the guest, not {expected}")

    def _write(self, path: str, data: bytes) -> None:
        try:
            self.tracefs.write(path, data)
        except OSError as error:
            raise ValueError(f"the guest's {path} refuses {data!r}: {error.strerror}") from None

    def _read_pipe(self) -> None:
        if self._pipe is None:
            self._pipe = self.tracefs.open(f"{self._prefix}trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while piece := self._pipe.read(1 << 16):
                self._text += piece

    def undo(self) -> None:
        """Restore the guest."""
        if not self._is_set:
            return
        tracefs, prefix, self._is_set = self.tracefs, self._prefix, False
        if self._pipe is not None:
            self._pipe.close()
            self._pipe, self._text = None, b""
        for event in self._events:
            tracefs.write(f"{prefix}events/{event}/enable", b"0")
        tracefs.write(f"{prefix}set_event_pid", b"", truncate=True)
        for event in self._scenario.filters:
            with contextlib.suppress(FileNotFoundError):  # the event may not have been created
                tracefs.write(f"{prefix}events/{event}/filter", b"0")
        if self._scenario.instance:
            for step in self._scenario.steps:
                if step.what not in ("write", "read"):  # their open trace_marker files hold the instance
                    self._actor(step).open("/dev/null", _MARKER)
                    self._actor(step).open("/dev/null", _RAW_MARKER)
            tracefs.rmdir(f"instances/{self._scenario.instance}")
        else:
            self._set_back("", self._ground.options)
            tracefs.write("trace_clock", b"local")
            tracefs.write("buffer_size_kb", b"1408")
        tracefs.write("trace", b"", truncate=True)
        tracefs.write("dynamic_events", b"", truncate=True)


def _file_of(line: str) -> str:
    """Return the file that takes a definition."""
    return "kprobe_events" if line[0] in "pr" and not line.split()[1].startswith("/") else "dynamic_events"


def _groups(sets: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """Return sets of options by those of each that change what is recorded."""
    groups: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for options in sets:
        groups.setdefault(tuple(one for one in options if one in _RECORDING), []).append(options)
    return groups


def render(scenario: Mapping[str, Any], kernel: str, options: Sequence[str] = (), clock: str = "local") -> Rendering:
    """Play a scenario, the parsed TOML of one, on a guest that is started for it.

    The truth is what the scenario says, without times.  Raises ValueError for what isn't a scenario or can't be caused
    on a guest, and what starting a guest raises.
    """
    with Stage(kernel) as stage:
        return stage.render(scenario, options, clock)
