"""Every feature of the table, tried on one tracefs, and its answer."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kprobe_lab.matrix.features import (
    FIXED,
    SECTIONS,
    Act,
    Define,
    Exists,
    Feature,
    Filter,
    Format,
    Option,
    Says,
    Trigger,
)
from kprobe_lab.operations.side import event_lists
from kprobe_sim.tree.files.tracefs import Tracefs
from kprobe_vm.recording.functions import OPENING

# the functions' names in the table, and their names before 5.6 and 4.18
_CALLED = (OPENING, ("ksys_readahead", "SyS_readahead"))
_FIXED_EVENT = FIXED.split()[0].partition(":")[2]
_HASHED = re.compile(r"0x(?:00000000[0-9a-f]{8}|\(____ptrval____\))")
_LOGGED = re.compile(r"^\[ *\d+\.\d{6}\] (\w[^:]*): error: (.*)$")
_NOT_FIELDS = ("common_", "__probe_")


class Answer(NamedTuple):
    """The outcome of a row: "ok", "refused", or "absent" for a file, an option or a text that isn't there.

    `text` is the read-back, or the kernel's message for a refusal; `command` and `caret` are those of error_log, the
    caret a column, or -1 if the kernel logged nothing.
    """

    state: str
    text: str = ""
    errno: str = ""
    command: str = ""
    caret: int = -1


class Column(NamedTuple):
    """One kernel: its answers, row by row of all sections, and those of the simulator of its series, None if none."""

    name: str
    release: str
    build: str
    answers: tuple[Answer, ...]
    simulated: tuple[Answer, ...] | None = None
    is_simulator: bool = False

    def differs(self, index: int) -> bool:
        """Return whether the simulator answers a row differently."""
        return self.simulated is not None and self.simulated[index] != self.answers[index]

    @property
    def differences(self) -> int:
        """Return in how many rows the simulator answers differently."""
        return sum(self.differs(index) for index in range(len(self.answers)))


def rows() -> list[Feature]:
    """Return the rows of all sections."""
    return [row for section in SECTIONS for row in section.rows]


def measure(tracefs: Tracefs) -> tuple[Answer, ...]:
    """Try all rows on a tracefs on which nothing is set; it is reset after each row.

    Functions are called by their names on this kernel.  A kernel without arrays, before 5.0, has a fixed event without
    one.
    """
    names = {
        newest: next((name for name in others if _takes(tracefs, f"p:matrix/f {name}")), newest)
        for newest, *others in _CALLED
        if not _takes(tracefs, f"p:matrix/f {newest}")
    }
    fixed = _named(FIXED, names)
    if not _takes(tracefs, fixed):
        fixed = re.sub(r" \S+\[4\]", "", fixed)
    return tuple(_ask(tracefs, _named(row.act, names), fixed) for row in rows())


def _takes(tracefs: Tracefs, definition: str) -> bool:
    try:
        tracefs.write("kprobe_events", definition.encode())
    except OSError:
        return False
    tracefs.write("kprobe_events", b"", truncate=True)
    return True


def _named(value: Any, names: Mapping[str, str]) -> Any:
    """Return a text, or an act, with the kernel's own names of functions."""
    if isinstance(value, str):
        for name, other in names.items():
            value = value.replace(name, other)
        return value
    parts = [_named(part, names) for part in value]
    return tuple(parts) if type(value) is tuple else type(value)(*parts)


def _ask(tracefs: Tracefs, act: Act, fixed: str) -> Answer:
    if tracefs.exists("error_log"):  # kernels have it since 5.2
        tracefs.write("error_log", b"", truncate=True)
    try:
        answer = _do(tracefs, act, fixed)
    except OSError as error:
        answer = _refusal(tracefs, error)
    except Exception as error:  # an exception of the simulator, which no kernel gives
        answer = Answer("fault", f"{type(error).__name__}: {error}")
    _put_back(tracefs, act)
    return answer


def _do(tracefs: Tracefs, act: Act, fixed: str) -> Answer:
    match act:
        case Define(line, before, path):
            for earlier in before:
                tracefs.write("kprobe_events", earlier.encode())
            tracefs.write(path, line.encode())
            return Answer("ok", _plain(tracefs.read(path)))
        case Format(line):
            tracefs.write("kprobe_events", line.encode())
            name = tracefs.read("kprobe_events").decode().split()[0].partition(":")[2]
            return Answer("ok", "\n".join(_fields(tracefs.read(f"events/{name}/format").decode())))
        case Filter(text):
            return _of_fixed(tracefs, fixed, "filter", text)
        case Trigger(text):
            return _of_fixed(tracefs, fixed, "trigger", text)
        case Says(path, pattern):
            matches = re.finditer(pattern, tracefs.read(path).decode())
            texts = [line.strip() for match in matches for line in match[0].strip().split("\n")]
            return Answer("ok", "\n".join(texts)) if texts else Answer("absent")
        case Exists(path):
            return Answer("ok" if tracefs.exists(path) else "absent")
        case Option(name):
            words = tracefs.read("trace_options").decode().split()
            return (
                Answer("ok", "on")
                if name in words
                else Answer("ok", "off")
                if f"no{name}" in words
                else Answer("absent")
            )


def _of_fixed(tracefs: Tracefs, fixed: str, file: str, text: str) -> Answer:
    tracefs.write("kprobe_events", fixed.encode())
    path = f"events/{_FIXED_EVENT}/{file}"
    tracefs.write(path, text.encode())
    return Answer("ok", _plain(tracefs.read(path)))


def _fields(text: str) -> Iterator[str]:
    for match in re.finditer(r"\tfield:([^;\t]*);\toffset:\d+;\t(.*)", text):
        if not match[1].split()[-1].startswith(_NOT_FIELDS):
            yield f"{match[1]};  {match[2]}".replace("\t", " ")


def _plain(text: bytes) -> str:
    return _HASHED.sub("0x(hashed)", text.decode(errors="replace")).rstrip("\n")


def _refusal(tracefs: Tracefs, error: OSError) -> Answer:
    """Return the errno of a refusal, with the last entry of error_log."""
    name = errno.errorcode.get(error.errno or 0, str(error))
    lines = _plain(tracefs.read("error_log")).split("\n") if tracefs.exists("error_log") else []
    starts = [index for index, line in enumerate(lines) if _LOGGED.match(line)]
    if not starts:
        return Answer("refused", "", name)
    first, *following = lines[starts[-1] :]
    logged = _LOGGED.match(first)
    assert logged is not None
    column = len(following[-1]) - 1 - len("  Command: ") if following and following[-1].strip() == "^" else -1
    command = "\n".join(following[:-1] if column >= 0 else following).removeprefix("  Command: ")
    return Answer("refused", f"{logged[1]}: {logged[2]}", name, command, column)


def _put_back(tracefs: Tracefs, act: Act) -> None:
    if isinstance(act, Trigger):
        with contextlib.suppress(OSError):  # the kernel may have refused it
            tracefs.write(f"events/{_FIXED_EVENT}/trigger", b"!" + act.text.encode())
    if isinstance(act, Define | Format | Filter | Trigger):
        for path in event_lists(tracefs.listdir("")):
            tracefs.write(path, b"", truncate=True)
