"""Worker processes that read parts of a text: forked, so that they share the memory of loaded code."""

from __future__ import annotations

import gc
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kprobe_text.columns.merge import as_bytes, from_bytes
from kprobe_text.columns.reading import Reading
from kprobe_text.text.parser import State

ArgumentNames = Mapping[str, tuple[str, ...]]

_LENGTH: Final = 8
# values of all kinds, to load all the code that reads them
_LINES: Final = b"""\
             cat-1       [000] .....     1.000000: e: (f+0x0/0x10) a=1 b=-1 c="x" d=0x1f e={1,2} g=f+0x1/0x2 h=(fault)
             cat-1       [000] .....     1.000001: r: (f+0x1/0x10 <- f) a=1 k={"x","y"}
             cat-1       [000] .....     1.000002: <stack trace>
 => f
"""


class Part(NamedTuple):
    """A part of a file's text, and the expected state after the text before it."""

    file: str
    is_new: bool  # forget what the reader knows of the file
    text: bytes
    offset: int
    state: State


class PartResult(NamedTuple):
    """The tables of a part, and the state after it; None if it doesn't end with a record."""

    tables: dict[str, Any]
    known: ArgumentNames
    state: State | None
    reach: int  # how far into the file its strings may reach


class Ended(Exception):
    """A process has ended, for lack of memory for example."""


def readers(reading: Callable[[str], Reading], count: int) -> list[PartReader]:
    """Start readers, before this process has threads; load compiled code first, for all of them."""
    for _ in reading("").tables([_LINES * 64]):
        pass
    gc.collect()
    gc.freeze()  # the collector ignores what they share: visiting it would copy it
    found: list[PartReader] = []
    for _ in range(count):
        found.append(PartReader(reading, found))
    return found


class PartReader:
    """A separate process that reads the parts it is given, one after the other."""

    def __init__(self, reading: Callable[[str], Reading], others: Iterable[PartReader] = ()) -> None:
        down, up = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.close(down[1])
                os.close(up[0])
                for other in others:
                    other.forget()
                # its parent ends it by closing the pipe
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                _serve(reading, down[0], up[1])
            finally:
                os._exit(0)
        os.close(down[0])
        os.close(up[1])
        self._to, self._from = down[1], up[0]

    def give(self, part: Part) -> None:
        """Give it a part; raise `Ended`."""
        try:
            _send(self._to, pickle.dumps(part, pickle.HIGHEST_PROTOCOL))
        except BrokenPipeError:
            raise Ended from None

    def take(self) -> PartResult:
        """Wait for the tables of the part given before; raise `Ended`."""
        data = _received(self._from)
        if data is None:
            raise Ended
        tables, *rest = pickle.loads(data)
        return PartResult({name: from_bytes(body) for name, body in tables.items()}, *rest)

    def forget(self) -> None:
        """Close the pipes."""
        os.close(self._to)
        os.close(self._from)

    def close(self) -> None:
        """End the process."""
        self.forget()
        os.waitpid(self.pid, 0)


def _serve(reading: Callable[[str], Reading], source: int, target: int) -> None:
    one: Reading | None = None
    while (data := _received(source)) is not None:
        part: Part = pickle.loads(data)
        if one is None or part.is_new:
            one = reading(part.file)
        one.resume(part.state, part.offset)
        tables = one.read(part.text)
        answer = {name: as_bytes(table) for name, table in tables.items()}, one.known, one.state, one.reach
        try:
            _send(target, pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))
        except BrokenPipeError:
            return


def _send(to: int, data: bytes) -> None:
    view = memoryview(len(data).to_bytes(_LENGTH, "little") + data)
    while view:
        view = view[os.write(to, view) :]


def _received(source: int) -> Any:
    head = _bytes_of(source, _LENGTH)
    return None if head is None else _bytes_of(source, int.from_bytes(head, "little"))


def _bytes_of(source: int, count: int) -> bytearray | None:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = os.readv(source, [view])
        if not got:
            return None
        view = view[got:]
    return data
