"""A scenario: its probes, the machine's actions, and how the trace is read; all keys of its TOML file.

title = "Spaces in a task's name"       # one line; what broke, where that is public, and what is nasty in the text:
breaks = "Lines of such tasks were dropped without a word."
link = "https://github.com/…/issues/1"
defects = ["comm with spaces"]
definitions = ["p:ent <open> dfd=%di:s32 s=+0(%si):string"]
filters = { "kprobes/ent" = "dfd < 0" } # before the events are enabled
enable = ["kprobes/ent"]                # absent: all that the definitions make
options = ["stacktrace"]                # beside those that are asked for
clock = "local"                         # absent: what is asked for
cpus = 2                                # absent: as recorded, or what the calls need
start = 6593279.2                       # seconds since boot; absent: 10
buffer_kb = 8                           # of each CPU
saved_cmdlines = 128                    # tasks whose names are kept
instance = "mine"                       # absent: the top one
reader = "trace_pipe"                   # absent: trace, and trace_pipe where a call reads it
guest = "why no guest can do this"      # absent: one can
unlike = { stacktrace = "why" }         # options with which a guest's text is another
fresh = true                            # a guest has to be new for it
[[function]]                            # as in an activity
[[call]]                                # see `steps`

In a definition and a `function`, <open>, <fadvise> and <fork> are what the kernel calls for that: do_sys_openat2,
before Linux 5.6 do_sys_open.  In place of a definition, an option or `data` there may be a list of them: the first that
the kernel takes is meant, of which "" is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kprobe_sim.builds.profile import CALLED, Profile
from kprobe_sim.language.primitives import toml_values as values
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.scenarios.steps import ScenarioStep, steps_of

_TEXTS = ("title", "breaks", "link", "clock", "instance", "reader", "guest")
_LISTS = ("enable", "defects")
_CHOICES = ("definitions", "options")
_NUMBERS = {"cpus": values.CPUS, "buffer_kb": 1 << 20, "saved_cmdlines": values.PIDS}  # and the most that each may be
_MOST = 2_000_000  # characters of all calls that are made: some seconds
_STEP = 100  # characters that the shortest counts for
_ELEMENT = 4  # characters that one of an array counts for
_ARRAY = re.compile(r"\[([0-9]{1,2})\]")
_OTHERS = ("filters", "function", "call", "start", "fresh", "unlike")
_CALLED = re.compile(f"<({'|'.join(CALLED)})>")
_READERS = ("", "trace", "trace_pipe")


class Scenario(NamedTuple):
    """What a scenario's file says; texts that it doesn't have are empty, numbers 0, `start` is in ns."""

    title: str
    breaks: str
    link: str
    clock: str
    instance: str
    reader: str
    guest: str
    definitions: tuple[tuple[str, ...], ...]  # of each what may be written: the first that the kernel takes
    enable: tuple[str, ...]
    options: tuple[str, ...]
    defects: tuple[str, ...]
    cpus: int
    buffer_kb: int
    saved_cmdlines: int
    start: int
    fresh: bool
    filters: Mapping[str, str]
    unlike: Mapping[str, str]
    functions: tuple[tuple[str, int | None, str], ...]  # name, size, module
    steps: tuple[ScenarioStep, ...]

    @property
    def prefix(self) -> str:
        """What the paths of the instance's files begin with."""
        return f"instances/{self.instance}/" if self.instance else ""

    @property
    def reads_pipe(self) -> bool:
        """Whether the text is that of trace_pipe."""
        return self.reader == "trace_pipe" or any(step.what == "read" for step in self.steps)

    def unlike_a_guest(self, options: Sequence[str] = ()) -> str:
        """Why no guest can be made to do it, or shows something else with some options; empty if neither."""
        for option in (*self.options, *options):
            if option in self.unlike:
                return self.unlike[option]
        if self.guest:
            return self.guest
        for step in self.steps:
            if step.what in ("function", "event"):
                return f"{step.value} is called with arguments that no guest's task can give it"
            if step.context is not None:
                return "flags are chosen, which a guest's kernel sets"
            if not step.task.known:
                return "a task is forgotten, which a guest's kernel does when it wants"
        return "functions are made up" if self.functions else ""


def scenario_of(table: Mapping[str, Any], build: Profile | None = None) -> Scenario:
    """Read a scenario from its parsed TOML, as it is on a build; without one as it is on the newest kernels.

    Raises ValueError, which says what is wrong.
    """
    values.only(table, {*_TEXTS, *_LISTS, *_CHOICES, *_NUMBERS, *_OTHERS})
    title, breaks, link, clock, instance, reader, guest = (_text(table, key) for key in _TEXTS)
    enable, defects = (_list(table, key) for key in _LISTS)
    definitions, choices = (_choices(table, key) for key in _CHOICES)
    called = {does: names[0] for does, names in CALLED.items()} if build is None else build.called
    there = None if build is None else {name for name, _ in build.options}
    options = tuple(option for choice in choices if (option := _first(choice, there)))
    lines = tuple(tuple(_named(line, called) for line in choice) for choice in definitions)
    cpus, buffer_kb, saved_cmdlines = (_number(table, key) for key in _NUMBERS)
    filters, unlike = (_texts(table, key) for key in ("filters", "unlike"))
    steps = tuple(
        step._replace(value=_named(step.value, called)) if step.what == "function" else step
        for step in steps_of(values.tables(table, "call"))
    )
    if not steps:
        raise ValueError("no calls")
    _bounded(steps, table)
    if reader not in _READERS:
        raise ValueError(f"reader {values.shown(reader)} is neither trace nor trace_pipe")
    start = values.nanoseconds(table.get("start", 10), "start")
    functions, fresh = tuple(_functions(table)), values.truth(table.get("fresh", False), "fresh")
    return Scenario(
        *(title, breaks, link, clock, instance, reader, guest),
        *(lines, enable, options, defects),
        *(cpus, buffer_kb, saved_cmdlines, start),
        fresh,
        *(filters, unlike, functions, steps),
    )


def _bounded(steps: Sequence[ScenarioStep], table: Mapping[str, Any]) -> None:
    """Raise ValueError for calls that are made too often: few bytes of a file are no hours of work."""
    definitions = repr(table.get("definitions"))  # each call may hit all of them
    probes = len(definitions) + _ELEMENT * sum(int(count) for count in _ARRAY.findall(definitions))
    calls = values.tables(table, "call")
    size = sum(step.times * (_STEP + probes + _length(call)) for step, call in zip(steps, calls, strict=True))
    if size > _MOST:
        raise ValueError(
            f"its calls are {size} characters, each with the definitions and as often as `times` says: "
            f"{_MOST} are the most"
        )


def _length(value: Any) -> int:
    """Return about how many characters a value has; it may be nested, and a number be longer, than Python writes."""
    length, left = 0, [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            left += one
        else:
            length += one.bit_length() // 3 if isinstance(one, int) else len(str(one))
    return length


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key} isn't a text: {values.shown(value)}")
    return value


def _texts(table: Mapping[str, Any], key: str) -> dict[str, str]:
    value = table.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError(f"{key} isn't a table of texts: {values.shown(value)}")
    return dict(value)


def _list(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{key} isn't a list of texts: {values.shown(value)}")
    return tuple(value)


def _choices(table: Mapping[str, Any], key: str) -> list[tuple[str, ...]]:
    """Return a list whose items are texts, or lists of those from which one is chosen."""
    items = table.get(key, ())
    if not isinstance(items, list | tuple):
        raise ValueError(f"{key} isn't a list of texts: {values.shown(items)}")
    choices = [one if isinstance(one, list | tuple) else (one,) for one in items]
    if not all(choice and all(isinstance(one, str) for one in choice) for choice in choices):
        raise ValueError(f"{key} isn't a list of texts, or of lists of them: {values.shown(items)}")
    return [tuple(choice) for choice in choices]


def _first(choice: tuple[str, ...], there: set[str] | None) -> str:
    """Return the first option that is there, "" for none; where none of them is, the first, which is then refused."""
    if there is None or len(choice) == 1:
        return choice[0]
    return next((one for one in choice if not one or {one, one.removeprefix("no")} & there), choice[0])


def _named(text: str, called: Mapping[str, str]) -> str:
    return _CALLED.sub(lambda found: called[found[1]], text)


def _number(table: Mapping[str, Any], key: str) -> int:
    return values.number(table[key], key, 1, _NUMBERS[key]) if key in table else 0


def _functions(table: Mapping[str, Any]) -> Sequence[tuple[str, int | None, str]]:
    functions = []
    for number, entry in enumerate(values.tables(table, "function"), 1):
        try:
            values.only(entry, ("name", "size", "module"))
            size = values.number(entry["size"], "size", 1, (1 << 31) - 1) if "size" in entry else None
            module = values.text(entry["module"], "module") if "module" in entry else ""
            functions.append((values.text(entry.get("name"), "name"), size, module))
        except ValueError as error:
            raise ValueError(f"function {number}: {error}") from None
    return functions
