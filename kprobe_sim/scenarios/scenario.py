"""A scenario: its probes, the machine's actions, and how the trace is read; all keys of its TOML file.

title = "Spaces in a task's name"       # one line; then what broke, where that is public, and what the text has:
breaks = "Lines of such tasks were dropped without a word."
link = "https://github.com/…/issues/1"
defects = ["comm with spaces"]
definitions = ["p:ent <open> dfd=%di:s32 s=+0(%si):string"]
filters = { "kprobes/ent" = "dfd < 0" } # before the events are enabled
enable = ["kprobes/ent"]                # absent: all events of the definitions
options = ["stacktrace"]                # in addition to the requested options
clock = "local"                         # absent: the requested clock
cpus = 2                                # absent: as recorded, or as the calls need
start = 6593279.2                       # seconds since boot; absent: 10
buffer_kb = 8                           # of each CPU
saved_cmdlines = 128                    # tasks whose names are kept
instance = "mine"                       # absent: the top one
reader = "trace_pipe"                   # absent: trace, and trace_pipe where a call reads it
guest = "why no guest can do this"      # absent: a guest can
unlike = { stacktrace = "why" }         # options with which a guest's text differs
fresh = true                            # it needs a new guest
[[function]]                            # as in an activity
[[call]]                                # see `steps`

In a definition and a `function`, <open>, <fadvise> and <fork> mean the function that the kernel calls: do_sys_openat2,
before Linux 5.6 do_sys_open.  A definition, an option or `data` may be a list of alternatives, from which the
kernel takes the first that it accepts; "" means none.
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
_NUMBERS = {"cpus": values.CPUS, "buffer_kb": 1 << 20, "saved_cmdlines": values.PIDS}  # and their maxima
_MOST = 2_000_000  # characters of all calls made: they take some seconds
_STEP = 100  # characters that the shortest call counts as
_ELEMENT = 4  # characters that an array element counts as
_ARRAY = re.compile(r"\[([0-9]{1,2})\]")
_OTHERS = ("filters", "function", "call", "start", "fresh", "unlike")
_CALLED = re.compile(f"<({'|'.join(CALLED)})>")
_READERS = ("", "trace", "trace_pipe")


class Scenario(NamedTuple):
    """The contents of a scenario's file; missing texts are empty and missing numbers 0, `start` is in ns."""

    title: str
    breaks: str
    link: str
    clock: str
    instance: str
    reader: str
    guest: str
    definitions: tuple[tuple[str, ...], ...]  # the alternatives for each: the first that the kernel accepts
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
        """The beginning of the paths of the instance's files."""
        return f"instances/{self.instance}/" if self.instance else ""

    @property
    def reads_pipe(self) -> bool:
        """Whether the text comes from trace_pipe."""
        return self.reader == "trace_pipe" or any(step.what == "read" for step in self.steps)

    def unlike_a_guest(self, options: Sequence[str] = ()) -> str:
        """Return why no guest can do this, or why its text differs with some options; "" if a guest can."""
        for option in (*self.options, *options):
            if option in self.unlike:
                return self.unlike[option]
        if self.guest:
            return self.guest
        for step in self.steps:
            if step.what in ("function", "event"):
                return f"{step.value} is called with arguments that no guest's task can give it"
            if step.context is not None:
                return "the flags are chosen, but a guest's kernel sets them itself"
            if not step.task.known:
                return "a task is forgotten, but a guest's kernel decides that itself"
        return "functions are made up" if self.functions else ""


def scenario_of(table: Mapping[str, Any], build: Profile | None = None) -> Scenario:
    """Read a scenario from its parsed TOML, for a build or else for the newest kernels.

    Raises ValueError, which says what is wrong.
    """
    values.only(table, {*_TEXTS, *_LISTS, *_CHOICES, *_NUMBERS, *_OTHERS})
    title, breaks, link, clock, instance, reader, guest = (_text(table, key) for key in _TEXTS)
    enable, defects = (_list(table, key) for key in _LISTS)
    definitions, choices = (_choices(table, key) for key in _CHOICES)
    called = {purpose: names[0] for purpose, names in CALLED.items()} if build is None else build.called
    available = None if build is None else {name for name, _ in build.options}
    options = tuple(option for choice in choices if (option := _first(choice, available)))
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
    """Raise ValueError for calls made too often: a small file must not cause hours of work."""
    definitions = repr(table.get("definitions"))  # each call may hit all of them
    probes = len(definitions) + _ELEMENT * sum(int(count) for count in _ARRAY.findall(definitions))
    calls = values.tables(table, "call")
    size = sum(step.times * (_STEP + probes + _length(call)) for step, call in zip(steps, calls, strict=True))
    if size > _MOST:
        raise ValueError(
            f"its calls, each with the definitions and as often as `times` says, have {size} characters, "
            f"and {_MOST} are the most"
        )


def _length(value: Any) -> int:
    """Return about how many characters a value has, even one nested too deeply or a number too long for str()."""
    length, left = 0, [value]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            left += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            left += part
        else:
            length += part.bit_length() // 3 if isinstance(part, int) else len(str(part))
    return length


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key} isn't a text: {values.shown(value)}")
    return value


def _texts(table: Mapping[str, Any], key: str) -> dict[str, str]:
    value = table.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError(f"{key} isn't a table of texts: {values.shown(value)}")
    return dict(value)


def _list(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{key} isn't a list of texts: {values.shown(value)}")
    return tuple(value)


def _choices(table: Mapping[str, Any], key: str) -> list[tuple[str, ...]]:
    """Return a list of alternatives for each item, which is a text or a list of texts."""
    items = table.get(key, ())
    if not isinstance(items, list | tuple):
        raise ValueError(f"{key} isn't a list of texts: {values.shown(items)}")
    choices = [item if isinstance(item, list | tuple) else (item,) for item in items]
    if not all(choice and all(isinstance(text, str) for text in choice) for choice in choices):
        raise ValueError(f"{key} isn't a list of texts, or of lists of them: {values.shown(items)}")
    return [tuple(choice) for choice in choices]


def _first(choice: tuple[str, ...], available: set[str] | None) -> str:
    """Return the first available option, "" meaning none; if none is available, the first, to be refused later."""
    if available is None or len(choice) == 1:
        return choice[0]
    return next((name for name in choice if not name or {name, name.removeprefix("no")} & available), choice[0])


def _named(text: str, called: Mapping[str, str]) -> str:
    return _CALLED.sub(lambda match: called[match[1]], text)


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
