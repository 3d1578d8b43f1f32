"""A statement -> one kernel's answer, from its tracefs: accepted, with the event that it made, or refused."""

from __future__ import annotations

import errno
from contextlib import ExitStack, suppress
from functools import partial
from typing import NamedTuple

from kprobe.definitions.probe import GROUP
from kprobe.errors import Unsupported
from kprobe.kernel.corrections import KernelLanguage, corrections
from kprobe.kernel.denial import denied
from kprobe.kernel.dialect import has_groups
from kprobe.kernel.errorlog import LoggedError, parse_error_log, parse_filter_error, read_log
from kprobe.kernel.listing import Line, delete, read_lines
from kprobe.kernel.symbols import functions_and_modules
from kprobe.tracefs.capabilities import Capabilities
from kprobe.undo.instance import open_instance
from kprobe.undo.undo import Undo
from kprobe_check.sources.openings import opened
from kprobe_check.statement import APPENDING, DEFINITION, FILTER, TRUNCATING, Statement
from kprobe_text.text.format import FormatField, parse_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.owners import Owner

LIST = "dynamic_events"
OLD_LISTS = ("kprobe_events", "uprobe_events")  # the files used before Linux 5.0
NO_FILE = "Failed to find the given file"  # of a uprobe: that is the machine's answer, not its kernel's
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


class Answer(NamedTuple):
    """A kernel's answer.  Taken if `errno` is 0 and it was asked.

    `says`, `source`, `shown` and `column` are from its error_log: the message, its source, the text as the kernel
    repeats it and the column of its caret, None without one.  A definition that was taken has the event, its fields
    but the common ones, and its print fmt.
    """

    errno: int = 0
    says: str = ""
    source: str = ""
    shown: str = ""
    column: int | None = None
    event: str = ""
    fields: tuple[FormatField, ...] = ()
    prints: str = ""
    unasked: str = ""  # why it was not asked: "" if it was

    @property
    def is_taken(self) -> bool:
        """Return whether the kernel took it."""
        return not self.errno and not self.unasked


class AskedKernel:
    """A kernel to ask: everything that is written is removed at once; filters and triggers are tried in an instance.

    Without instances (Linux 3.2), filters and triggers of our events are set at the top level.

    With the patch of 2009 a single probe can't be removed, so all are: they are all ours.

    Raises `KprobeError` where asking isn't permitted, `Unsupported` where others' probes would be removed with ours.
    """

    def __init__(self, tracefs: Tracefs, owner: Owner) -> None:
        self._tracefs = tracefs
        self._language = KernelLanguage(tracefs)
        self._owner = owner
        self._lists = (LIST,) if tracefs.exists(LIST) else tuple(name for name in OLD_LISTS if tracefs.exists(name))
        self._undo = Undo()
        self._prefix = ""  # of the instance, once there is one
        self._logged: dict[str, frozenset[LoggedError]] = {}  # records that each error_log had before
        self._answers: dict[tuple[object, ...], Answer] = {}
        self._functions: dict[str, set[str]] | None = None
        self._present = {line.text for line in self._list()}  # lines of others, and ours while they are there
        self._removes_one = has_groups(tracefs)
        if self._present and not self._removes_one:
            raise Unsupported(
                "way to remove one probe of several", "so nothing can be tried beside those that are there"
            )

    def close(self) -> None:
        """Remove the instance.  Raise `UndoFailed` if it can't be."""
        self._undo.finish(None)

    def ask(self, statement: Statement) -> Answer:
        """Return the kernel's answer; the same question is asked once."""
        if statement.unclear:
            return Answer(unasked=statement.unclear)
        if statement.kind in (TRUNCATING, APPENDING):
            return Answer(*opened(statement))  # known by rule: to try it would cost others their probes
        key = (statement.file, statement.text, tuple((need.file, need.text) for need in statement.needs))
        if key not in self._answers:
            self._answers[key] = self._asked(statement)
        return self._answers[key]

    def has_function(self, name: str) -> bool:
        """Return whether the kernel lists a function of that name as one that can be traced."""
        has = Capabilities(self._tracefs).has_function
        return has(name) if has is not None else name in self.functions()

    def functions(self) -> dict[str, set[str]]:
        """Return the functions that the kernel lists, with their modules ("" for the kernel itself)."""
        if self._functions is None:
            self._functions = {}
            with suppress(OSError):
                for name, module in functions_and_modules(self._tracefs):
                    self._functions.setdefault(name, set()).add(module)
        return self._functions

    def corrections(self, definition: str) -> list[tuple[str, str]]:
        """Return lines that a definition may mean, as this kernel takes them, each with what was corrected."""
        return list(corrections(definition, self._language, guesses=False))

    def parameters(self, symbol: str) -> list[str]:
        """Return the names of a function's parameters in their order; none without BTF."""
        answer = self.ask(Statement(DEFINITION, f"p:kprobe_check {symbol} $arg*", "kprobe_events"))
        return [field.name for field in answer.fields]

    # ------------------------------------------------------------------------------------------------- asking

    def _asked(self, statement: Statement) -> Answer:
        answer = Answer()
        with ExitStack() as undo:
            for need in statement.needs:
                answer = self._define(need, undo)
                if not answer.is_taken:
                    return Answer(unasked=f"the definition that it needs isn't taken: {need.text}")
            if statement.kind == DEFINITION:
                return self._define(statement, undo)
            path = statement.file
            return self._set(path if "/" in path else f"events/{answer.event}/{path}", statement, undo)
        raise AssertionError("nothing on the stack holds exceptions back")

    def _define(self, statement: Statement, undo: ExitStack) -> Answer:
        if LIST not in self._lists and self._is_others(statement.text):
            return Answer(unasked="others have a probe of that name, which this kernel would replace")
        try:
            self._tracefs.write(statement.file, _bytes(statement.text))
        except OSError as error:
            return self._refused(error, "error_log", statement.file)
        new = [line for line in self._list() if line.text not in self._present]
        if not new:
            return Answer(unasked="it makes no event")
        line = new[-1]
        self._present.add(line.text)
        undo.callback(self._remove, line)
        try:
            text = self._tracefs.read(f"events/{line.event}/format")
            if not self._removes_one:  # the patch of 2009 has a blank, and of a tab only the "t"
                text = text.replace(b"field: ", b"field:").replace(b";tsize:", b";\tsize:")
            known = parse_format(text)
        except (OSError, ValueError):
            return Answer(event=line.event)
        fields = tuple(field for field in known.fields if not field.name.startswith(("common_", "__probe")))
        if not self._removes_one:  # its address, and the number of arguments
            fields = fields[1 + next((at for at, field in enumerate(fields) if field.name == "nargs"), -1) :]
        return Answer(event=line.event, fields=fields, prints=known.print_fmt)

    def _remove(self, line: Line) -> None:
        """Remove our probe and no other of its event; all of ours where there is no other way."""
        if not self._removes_one:
            self._remove_all()
            return
        same = [one for one in self._list() if one.event == line.event]
        command = f"-:{line.event}" if len(same) == 1 else delete(line, same)
        if command is None:
            raise OSError(
                errno.EEXIST, "others' probes feed the event, too, and can't be told apart from ours", line.event
            )
        self._tracefs.write(self._list_of(line), f"{command}\n".encode(errors="surrogateescape"))
        self._present.discard(line.text)

    def _remove_all(self) -> None:
        if others := [line.text for line in self._list() if line.text not in self._present]:
            raise OSError(errno.EEXIST, "others' probes would be removed with ours", others[0])
        for name in self._lists:
            self._tracefs.write(name, b"", truncate=True)
        self._present.clear()

    def _is_others(self, definition: str) -> bool:
        """Return whether a definition's event exists already: before Linux 5.4 it would replace that."""
        return any(self._tracefs.exists(f"events/{event}") for event in _events(definition))

    def _list_of(self, line: Line) -> str:
        """Return the file that lists a line, and takes what removes its probe."""
        return next(
            (name for name in self._lists[:-1] if line.text in [one.text for one in self._listed(name)]),
            self._lists[-1],
        )

    def _set(self, file: str, statement: Statement, undo: ExitStack) -> Answer:
        """Set a filter or trigger in the instance, and remove it."""
        group = "/".join(file.split("/")[1:3])
        path = self._place() + file
        if not self._place() and group not in {line.event for line in self._list()}:
            return Answer(unasked="this kernel has no instances to try it in, and the event is everybody's")
        if not self._tracefs.exists(path):
            return Answer(errno.ENOENT, says=self._missing(path, group))
        try:
            self._tracefs.write(path, _bytes(statement.text))
        except OSError as error:
            if statement.kind == FILTER:
                return self._refused_filter(error, path, statement)
            return self._refused(error, f"{self._place()}error_log", file)
        undone = "0" if statement.kind == FILTER else f"!{statement.text}"
        undo.callback(partial(self._tracefs.write, path, _bytes(undone)))
        return Answer()

    def _missing(self, path: str, event: str) -> str:
        """Say which part of a path is missing: the event, or its file."""
        directory, _, name = path.rpartition("/")
        if self._tracefs.exists(directory):
            return f"this kernel's events have no {name}"
        return f"there is no event {event}"

    def _place(self) -> str:
        if not self._prefix:
            self._prefix = open_instance(self._tracefs, self._undo, self._owner, is_named=True).prefix
        return self._prefix

    # ------------------------------------------------------------------------------------------------- refusals

    def _refused(self, error: OSError, log: str, file: str) -> Answer:
        if error.errno in _DENIED and not self._is_writable(file):
            raise denied(self._tracefs, file, error) from error
        if error.errno == errno.ENOSYS:
            return Answer(unasked="that isn't simulated")
        before = self._logged.get(log, frozenset())
        records = parse_error_log(read_log(self._tracefs, log))
        self._logged[log] = frozenset(records)
        new = [record for record in records if record not in before]
        number = error.errno or errno.EIO
        if not new:
            return Answer(number, says="" if self._tracefs.exists(file) else f"this kernel has no {file}")
        if new[-1].text == NO_FILE:
            return Answer(unasked="the machine that is asked has no such file")
        return Answer(number, new[-1].text, new[-1].source, new[-1].command, new[-1].column)

    def _is_writable(self, file: str) -> bool:
        """Return whether a file takes a comment: then a denial is the kernel's answer to the text.

        5.10 returns EPERM for a probe at the last address.
        """
        try:
            self._tracefs.write(file, b"#\n")
        except OSError:
            return False
        return True

    def _refused_filter(self, error: OSError, path: str, statement: Statement) -> Answer:
        said = self._refused(error, f"{self._place()}error_log", path)
        text, column = parse_filter_error(read_log(self._tracefs, path))
        self._tracefs.write(path, b"0\n")
        if said.says or not text:
            return said
        return Answer(said.errno, text, "event filter parse error", statement.text, column)

    def _list(self) -> list[Line]:
        return [line for name in self._lists for line in self._listed(name)]

    def _listed(self, name: str) -> list[Line]:
        return read_lines(self._tracefs.read(name))


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape") + b"\n"


def _events(definition: str) -> list[str]:
    """Return the events, GROUP/NAME, that kernels before 5.4 may make of a definition.

    One without a name is named after its probe point, and so is one with a maxactive before Linux 4.12.
    """
    head, _, rest = definition.strip().partition(" ")
    kind, _, name = head.partition(":")
    place = (rest.split() or [""])[0]
    path, _, inner = place.rpartition(":")
    is_user = path.startswith("/")
    symbol, _, offset = (path.rpartition("/")[2], "", inner) if is_user else inner.partition("+")
    try:
        number = int(offset or "0", 0)
    except ValueError:
        number = 0
    made = f"{kind[:1]}_{symbol}_{f'0x{number:x}' if is_user else number}"
    names = [name] if name and not kind[1:] else [name, made]
    group = "uprobes" if is_user else GROUP
    return [one if "/" in one else f"{group}/{one}" for one in names if one]
