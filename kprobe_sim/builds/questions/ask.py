"""Asks a kernel one question, through its tracefs and a task that does what the question needs, and undoes it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from kprobe_sim.builds.gates.question import Question
from kprobe_sim.builds.profile import CALLED
from kprobe_sim.kernel.workload import Workload

INSTANCE = "instances/zz_questions"
_FLAGS = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR, "rn": os.O_RDONLY | os.O_NONBLOCK}
_CHOICE = re.compile(r"\{([^{}|]*\|[^{}]*)\}")
_ENTRY = re.compile(rb"^(?=\[ *[0-9]+\.[0-9]+\] )", re.MULTILINE)  # of error_log
_FAULT = re.compile(rb"\[(?>[^\n]*?: error: )([^\n]*)\n(?:.*\n)?( *)\^\n\Z", re.DOTALL)
_BEFORE_COMMAND = len("  Command: ")
_MOMENT = 0.1  # seconds in which a reader gets as far as it can
_GLANCE = 0.0005  # seconds between checks of a simulated one
_AGES = 10.0  # seconds in which it surely reads all that is there
_NAMES = {**errno.errorcode, errno.EOPNOTSUPP: "EOPNOTSUPP"}


OPENING = CALLED["open"][0]
PLACES = {
    "open": "the function that opens a file",
    "int3": "the address of an int3 that no table reserves",
    "unsupported": "the address of an instruction that can't be emulated",
    "module": "a loaded module",
    "shared": "a function that a loaded module and the kernel itself have, each once",
}
_PLACE = re.compile("<(" + "|".join(PLACES) + ")>")
NO_PLACES: Mapping[str, str] = MappingProxyType({})


class AskedTracefs(Protocol):
    """What the questions use of a tracefs; paths are relative, and all failures are `OSError`."""

    def read(self, path: str) -> bytes: ...
    def write(self, path: str, data: bytes) -> None: ...
    def listdir(self, path: str) -> list[str]: ...
    def mkdir(self, path: str) -> None: ...
    def rmdir(self, path: str) -> None: ...
    def open(self, path: str, flags: int) -> Any: ...


class Asker:
    """Asks one kernel; `places` has the known `PLACES`.

    Raises OSError if the effects of a question can't be undone.
    """

    def __init__(self, tracefs: AskedTracefs, workload: Workload, places: Mapping[str, str] = NO_PLACES) -> None:
        self._tracefs = tracefs
        self._places = {"open": OPENING, **places}
        self._reader: _Waiter | None = None
        self._workload = workload
        self._held: Any = None
        self._instance = False
        self._renamed = False
        self._triggers: list[tuple[str, bytes]] = []
        self._before = self._events()
        self._verbs: Mapping[str, Callable[[str], str | bytes | None]] = {
            "write": self._write,
            "first": self._first,
            "read": lambda path: tracefs.read(_path(path)),
            "names": lambda path: "\n".join(tracefs.listdir(_path(path))).encode(),
            "mkdir": lambda path: tracefs.mkdir(_path(path)),
            "rmdir": self._rmdir,
            "hold": self._hold,
            "put": lambda text: str(self._file.write(_bytes(text))),
            "take": lambda size: self._file.read(int(size)),
            "seek": lambda offset: str(self._file.lseek(int(offset))),
            "release": self._release,
            "wait": self._wait,
            "moment": self._settle,
            "waited": self._waited,
            "open": lambda path: str(workload.open(path)),
            "fork": lambda _: str(workload.fork()),
            "rename": self._rename,
        }

    def missing(self, question: Question) -> str:
        """Return what a question needs and the caller lacks; "" if it can be asked."""
        names = _PLACE.findall(" ".join(question.steps))
        return ", ".join(PLACES[name] for name in names if name not in self._places)

    def ask(self, question: Question) -> str:
        """Return the answer to a question; the tracefs is then as before, except for error_log.

        Raise KeyError if something is `missing`.
        """
        steps = [_PLACE.sub(lambda name: self._places[name[1]], step) for step in question.steps]
        marked = [step for step in steps if step.startswith("? ")] or [steps[-1]]
        seen = []
        self._instance = any(" @" in step for step in steps)
        if self._instance:
            self._tracefs.mkdir(INSTANCE)
        try:
            for step in steps:
                if step in marked:
                    seen.append(self._reading(step.removeprefix("? "), question.reading))
                else:
                    with contextlib.suppress(OSError):
                        self._do(step)
        finally:
            self._undo()
        return " ".join(seen)

    # ---- steps ----

    def _do(self, step: str) -> str | bytes | None:
        verb, _, words = step.partition(" ")
        return self._verbs[verb](words)

    def _write(self, words: str) -> None:
        path, _, text = words.partition(" ")
        self._tracefs.write(_path(path), _bytes(text))
        if path.endswith("/trigger") and not text.startswith("!"):
            self._triggers.append((_path(path), _bytes("!" + text)))

    def _first(self, words: str) -> None:
        choices = _CHOICE.search(words)
        assert choices is not None, words
        *others, last = (words.replace(choices[0], choice) for choice in choices[1].split("|"))
        for other in others:
            with contextlib.suppress(OSError):
                return self._write(other)
        return self._write(last)

    def _rmdir(self, path: str) -> None:
        self._tracefs.rmdir(_path(path))
        if path == "@":  # its triggers are gone, too
            self._instance = False
            self._triggers = [(path, text) for path, text in self._triggers if not path.startswith(INSTANCE + "/")]

    def _hold(self, words: str) -> None:
        flags, _, path = words.partition(" ")
        self._release()
        self._held = self._tracefs.open(_path(path), _FLAGS[flags])

    @property
    def _file(self) -> Any:
        if self._held is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._held

    def _wait(self, size: str) -> None:
        self._reader = _Waiter(self._file, int(size))
        self._reader.start()
        self._settle()

    def _settle(self, _: str = "") -> None:
        """Let the reader get as far as it can: give it a moment, or see it wait where that can be seen."""
        reader, kernel = self._waiting, getattr(self._tracefs, "kernel", None)
        if kernel is None:
            reader.join(_MOMENT)
            return
        until = time.monotonic() + _AGES
        while reader.is_alive() and not kernel.condition.asleep and time.monotonic() < until:
            reader.join(_GLANCE)

    @property
    def _waiting(self) -> _Waiter:
        if self._reader is None:
            raise OSError(errno.ECHILD, os.strerror(errno.ECHILD))
        return self._reader

    def _waited(self, _: str) -> bytes:
        self._waiting.join(_AGES)
        return self._waiting.read

    def _release(self, _: str = "") -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _rename(self, name: str) -> None:
        self._renamed = True
        self._workload.rename(name)

    # ---- what is seen ----

    def _reading(self, step: str, reading: str) -> str:
        log = self._log() if reading == "log" else b""
        try:
            result = self._do(step)
        except OSError as error:
            number = error.errno or 0
            return _NAMES.get(number, str(number)) + (self._faults(log) if reading == "log" else "")
        if reading in ("errno", "log"):
            return result if isinstance(result, str) else "ok"
        assert isinstance(result, bytes), step
        match = re.search(reading.encode(), result, re.MULTILINE)
        if match is None:
            return "none"
        return ",".join((group or b"").decode("latin-1") for group in match.groups()) or "match"

    def _log(self) -> bytes:
        """Return error_log, and that of the instance, which has what was refused there."""
        log = self._tracefs.read("error_log")
        return log + self._tracefs.read(INSTANCE + "/error_log") if self._instance else log

    def _faults(self, before: bytes) -> str:
        """Return the faults that were logged since."""
        old = set(_ENTRY.split(before))
        faults = [_FAULT.match(entry) for entry in _ENTRY.split(self._log()) if entry not in old]
        return "".join(f" {fault[1].decode('latin-1')} @{len(fault[2]) - _BEFORE_COMMAND}" for fault in faults if fault)

    # ---- undoing ----

    def _events(self) -> list[str]:
        return self._tracefs.read("dynamic_events").decode("latin-1").splitlines()

    def _undo(self) -> None:
        self._release()
        if self._renamed:
            self._workload.rename(self._workload.comm)
            self._renamed = False
        while self._triggers:
            self._tracefs.write(*self._triggers.pop())
        if self._instance:
            self._tracefs.rmdir(INSTANCE)
        for line in reversed(self._events()):
            if line not in self._before:
                self._tracefs.write("dynamic_events", _deletion(line))


class _Waiter(threading.Thread):
    """Reads a file once; `read` is the data, b"?" until it comes and if it is refused."""

    def __init__(self, file: Any, size: int) -> None:
        super().__init__(name="question", daemon=True)
        self._file = file
        self._size = size
        self.read = b"?"

    def run(self) -> None:
        with contextlib.suppress(OSError):
            self.read = self._file.read(self._size)


def _deletion(line: str) -> bytes:
    """Return what deletes the dynamic event that a line of dynamic_events shows."""
    kind, _, definition = line.partition(":")
    name = definition.split()[0].rstrip(";")
    return _bytes(f"-:{'synthetic/' * (kind == 's')}{name.removeprefix('synthetic/')}")


def _path(path: str) -> str:
    return INSTANCE + path[1:] if path.startswith("@") else path


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")
