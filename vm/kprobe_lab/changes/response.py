"""A kernel's answer to an operation: errno, messages with their carets, and the contents of the files afterwards."""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from kprobe_lab.changes.language import Mode, Step
from kprobe_lab.operations.operation import List, Outcome, Read, Write
from kprobe_lab.operations.side import Side

_LOGGED = re.compile(r"\[(?>[^\n]*?\] )([^\n]*)\n  Command: (.*)\n( *)\^\Z", re.DOTALL)
_ENTRY = re.compile(r"^(?=\[[ .\w]*\] )", re.MULTILINE)
_BEFORE_COMMAND = len("  Command: ")
_DEFINING = ("kprobe_events", "uprobe_events", "dynamic_events", "synthetic_events")
_SILENT = ("trace_marker", "trace_marker_raw", "free_buffer", "trace_pipe")
_HEAD = re.compile(r"\A.*?^\tfield:int common_pid;[^\n]*\n+", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"^ID: .*\n", re.MULTILINE)
_MOST = 4  # events whose format is shown


class Fault(NamedTuple):
    """An entry of error_log: its message, the command, and the caret's column in that, from 0."""

    message: str
    command: str
    caret: int

    def __str__(self) -> str:
        return f"{self.message} @{self.caret}"


class Response(NamedTuple):
    """The outcome of an operation's last command, and which of the earlier ones were refused, as "1: EINVAL".

    `errno` is "" if the kernel accepted it.  `shown` is what was read, as (file, text); after a write, the read-back.
    """

    errno: str
    faults: tuple[Fault, ...] = ()
    shown: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()

    def verdict(self) -> str:
        """Return in one line "ok" for an accepted command, or else errno, messages and carets."""
        first = f"command {', '.join(self.before)}; then " if self.before else ""
        return f"{first}{self.errno or 'ok'}{': ' * bool(self.faults)}{'; '.join(map(str, self.faults))}"

    def json(self) -> dict[str, Any]:
        """Return it as in JSON."""
        faults = [fault._asdict() for fault in self.faults]
        return {"errno": self.errno, "faults": faults, "shown": dict(self.shown), "before": list(self.before)}

    def lines(self) -> Iterator[str]:
        """Return all of it as lines: the verdict, the carets, what is read."""
        yield self.verdict()
        for fault in self.faults:
            if "\n" not in fault.command:
                yield from (f"    {fault.command}", f"    {' ' * fault.caret}^")
        for path, text in self.shown:
            yield f"  {path}:" if text else f"  {path}: empty"
            yield from (f"    {line}" for line in text.splitlines())


def changed_lines(before: Response, after: Response) -> Iterator[str]:
    """Return what differs between two answers, as lines: the old with "-", the new with "+"."""
    if before[:2] != after[:2] or before.before != after.before:
        yield from (f"- {line}" for line in _verdict_lines(before))
        yield from (f"+ {line}" for line in _verdict_lines(after))
    old, new = dict(before.shown), dict(after.shown)
    for path in dict.fromkeys((*old, *new)):
        if old.get(path) == new.get(path):
            continue
        yield f"  {path}:"
        lines = difflib.unified_diff(old.get(path, "").splitlines(), new.get(path, "").splitlines(), n=0, lineterm="")
        yield from (f"{line[0]}   {line[1:]}" for line in lines if not line.startswith(("---", "+++", "@@")))


def _verdict_lines(response: Response) -> Iterator[str]:
    return response._replace(shown=()).lines()


def asked(side: Side, steps: tuple[Step, ...]) -> Response:
    """Perform an operation, reset the side, and return the response."""
    response = respond(side, steps)
    if not all(isinstance(step, Read | List | Mode) for step in steps):
        side.reset()
    return response


def respond(side: Side, steps: tuple[Step, ...]) -> Response:
    """Perform an operation and return the response; the side isn't reset."""
    before = []
    for number, step in enumerate(steps[:-1], 1):
        refused = _refusal(_done(side, step)[0][1])
        before += [f"{number}: {refused}"] * bool(refused)
    step = steps[-1]
    if not isinstance(step, Write):
        label, answer = _done(side, step)[0]
        shown = () if _refusal(answer) else ((label, _without_id(label, _text(answer))),)
        return Response(_refusal(answer), (), shown, tuple(before))
    log = _log_of(step.path)
    if side.tracefs.exists(log):
        side.tracefs.write(log, b"", truncate=True)
    refused = _refusal(_done(side, step)[0][1])
    return Response(refused, tuple(_faults(_read(side, log) or "")), tuple(_read_back(side, step.path)), tuple(before))


def _done(side: Side, step: Step) -> Outcome:
    if not isinstance(step, Mode):
        return side.run(step)
    try:
        return [(step.path, f"{_mode(side.tracefs, step.path):o}")]
    except OSError as error:
        return [("stat", errno.errorcode.get(error.errno or 0, str(error)))]


def _mode(tracefs: Any, path: str) -> int:
    """Return the permission bits; a guest has all of stat(2)."""
    mode: int = tracefs.stat(path).mode if hasattr(tracefs, "stat") else tracefs.mode(path)
    return mode & 0o7777


def _refusal(answer: Any) -> str:
    """Return the errno in an answer, "" if there is none."""
    return answer if isinstance(answer, str) and re.fullmatch("[A-Z][A-Z0-9]+", answer) else ""


def _text(answer: Any) -> str:
    if isinstance(answer, list):
        return "".join(f"{name}\n" for name in answer)
    return answer.decode("latin-1") if isinstance(answer, bytes) else f"{answer}\n" if isinstance(answer, str) else ""


def _without_id(path: str, text: str) -> str:
    """Return a text; a format file loses the event's number, which differs from build to build."""
    return _NUMBER.sub("", text) if path.endswith("/format") else text


def _read(side: Side, path: str) -> str | None:
    """Return the text of a file, None if it can't be read."""
    answer = side.run(Read(path))[0][1]
    return answer.decode("latin-1") if isinstance(answer, bytes) else None


def _log_of(path: str) -> str:
    match = re.match("instances/[^/]+/", path)
    return f"{match[0] if match else ''}error_log"


def _faults(log: str) -> Iterator[Fault]:
    for entry in _ENTRY.split(log):
        if (found := _LOGGED.match(entry.rstrip("\n"))) and ": error: " in found[1]:
            yield Fault(found[1].replace(": error: ", ": ", 1), found[2], len(found[3]) - _BEFORE_COMMAND)


def _read_back(side: Side, path: str) -> Iterator[tuple[str, str]]:
    """Return the contents of a file after a write; for a file that defines events, their formats as well."""
    if os.path.basename(path) in _SILENT:
        return
    text = _read(side, path)
    if text is None:
        return
    if path.endswith("/trigger"):  # an empty trigger file lists the available triggers
        text = "".join(line for line in text.splitlines(keepends=True) if line[0] != "#")
    yield path, text
    if path in _DEFINING:
        for line in text.splitlines()[:_MOST]:
            event = line.split()[0].partition(":")[2]
            if event and (form := _read(side, f"events/{event}/format")):
                yield f"events/{event}/format", _HEAD.sub("", form)
