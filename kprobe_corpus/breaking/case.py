"""A small scenario to try on a parser: one task opens a file under a probe, with something unusual about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

ARGUMENT = "s=+0(%si):string"
PATH = b"/etc/passwd"  # exists on a guest, unlike drawn names
FOUND, ENOENT = 3, -2


class Case(NamedTuple):
    """A scenario and its kernel; the defaults are the plainest."""

    kernel: str = ""
    options: tuple[str, ...] = ()
    clock: str = "local"
    comm: bytes = b"cat"
    pid: int = 2841
    cpu: int = 0
    is_known: bool = True  # whether the kernel still knows the task's name
    context: tuple[int, int] | None = None  # flags and preemption count of the record
    start: float | None = None  # seconds since boot
    path: bytes = PATH
    probe: str = "p"
    name: str = "ent"
    arguments: str = ARGUMENT
    more: tuple[tuple[str, Any], ...] = ()  # further keys of the scenario
    beside: tuple[tuple[str, Any], ...] = ()  # a further call, before the last
    times: int = 1

    def changes(self) -> dict[str, Any]:
        """Return the values that differ from the plainest."""
        pairs = zip(self._fields, self, PLAINEST, strict=True)
        return {name: value for name, value, plain in pairs if value != plain}

    def scenario(self) -> dict[str, Any]:
        """Return it as a scenario for TOML."""
        task: Any = {"comm": text(self.comm), "pid": self.pid}
        returns = FOUND if self.path == PATH else ENOENT
        call: dict[str, Any] = {"open": text(self.path), "returns": returns, "task": task}
        call |= {"cpu": self.cpu} if self.cpu else {}
        call |= {} if self.is_known else {"known": False}
        if self.context is not None:
            call["flags"], call["preempt_count"] = self.context
        table: dict[str, Any] = {
            "title": "found by kprobe test-parser --break",
            "definitions": [f"{self.probe}:{self.name} <open> {self.arguments}".rstrip()],
        }
        table |= {"options": list(self.options)} if self.options else {}
        table |= {"clock": self.clock} if self.clock != "local" else {}
        table |= {} if self.start is None else {"start": self.start}
        table |= dict(self.more)
        calls = [call] * self.times
        if self.beside:
            calls.insert(len(calls) - 1, {"task": task, **({"cpu": self.cpu} if self.cpu else {}), **dict(self.beside)})
        return {**table, "call": calls}


PLAINEST = Case()


def text(data: bytes) -> Any:
    """Return bytes in a scenario's form: a string, or { hex = … } if they aren't UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def toml(scenario: Mapping[str, Any]) -> str:
    """Return a scenario as TOML."""
    lines = [f"{key} = {_value(value)}" for key, value in scenario.items() if not _are_tables(value)]
    for key, value in scenario.items():
        for table in value if _are_tables(value) else ():
            lines += ["", f"[[{key}]]", *(f"{name} = {_value(one)}" for name, one in table.items())]
    return "".join(line + "\n" for line in lines)


def _are_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_letter(letter) for letter in value) + '"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(one)}" for name, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)


def _key(name: str) -> str:
    is_bare = name.replace("_", "").replace("-", "").isalnum() and name.isascii()
    return name if is_bare else _value(name)


def _letter(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
