"""Lists of functions: set_ftrace_filter, set_ftrace_notrace, set_graph_function, set_graph_notrace, stack_trace_filter.

A word is the name of a function, a pattern or an index; `!` removes what it names.  Commands (`FUNCTION:traceoff`) are
refused with ENOSYS where a kernel would take them.  Sources: docs/kernel/functions.md;
ftrace_process_regex(), match_records(), add_rec_by_index() and ftrace_graph_write() in kernel/trace/ftrace.c of 6.1.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence

from kprobe_sim.events.function_lists import Chosen
from kprobe_sim.events.instance import Instance
from kprobe_sim.language.primitives.kstrto import LONG_MAX, kstrtoul, simple_strtoul
from kprobe_sim.language.primitives.name_glob import matching
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.language.primitives.words import BLANKS, next_word
from kprobe_sim.tree.files.seqfile import Seq

# the text of an empty list
EMPTY = {
    "set_ftrace_filter": b"#### all functions enabled ####\n",
    "set_ftrace_notrace": b"#### no functions disabled ####\n",
    "set_graph_function": b"#### all functions enabled ####\n",
    "set_graph_notrace": b"#### no functions disabled ####\n",
    "stack_trace_filter": b"#### all functions enabled ####\n",
}
_WORD = 127  # FTRACE_BUFF_MAX
_COMMANDS = frozenset(
    {"mod", "traceon", "traceoff", "stacktrace", "dump", "cpudump", "snapshot", "enable_event", "disable_event"}
)


class FunctionList(Seq):
    """One of the files, open; what is written takes effect at the close, which also ends the last word."""

    def __init__(self, flags: int, instance: Instance, name: str) -> None:
        super().__init__(flags, self._lines, self._put)
        self._instance = instance
        self._name = name
        functions = instance.machine.functions()
        chosen = None if flags & os.O_TRUNC else instance.functions.chosen(name)
        self._new = Chosen(functions, frozenset()) if chosen is None else chosen.among(functions)
        self._partial = b""  # the start of a word whose end hasn't been written

    def _lines(self) -> Sequence[bytes]:
        instance = self._instance
        return instance.functions.lines(self._name, instance.machine.functions()) or (EMPTY[self._name],)

    def _put(self, data: bytes) -> int:
        word = next_word(data, _WORD - len(self._partial))
        ended = word.consumed > len(word.text) + (len(data) - len(data.lstrip(BLANKS)))
        text, self._partial = self._partial + word.text, b""
        if text and not ended:
            self._check_unended(text)
            self._partial = text
        elif text:
            self._take(text)
        return word.consumed

    def _check_unended(self, word: bytes) -> None:
        """Raise OSError ENOSYS for a command that the close would end: close(2) couldn't report a refusal."""
        error = self._command_error(word)
        if error == errno.ENOSYS:
            raise refuse(error)

    def _command_error(self, word: bytes) -> int:
        """Return the errno for a word with a command; 0 for one without."""
        functions, colon, parameters = word.partition(b":")
        if not colon:
            return 0
        command = parameters.partition(b":")[0].decode("latin-1")
        if command not in _COMMANDS or self._name.startswith("set_graph"):
            return errno.EINVAL
        if self._name == "stack_trace_filter":
            return errno.ENODEV
        if command == "mod":
            return errno.ENOSYS
        # set_ftrace_notrace has no commands
        is_taken = self._name == "set_ftrace_filter" and self._named(functions.removeprefix(b"!"))
        return errno.ENOSYS if is_taken else errno.EINVAL

    def _take(self, word: bytes) -> None:
        error = self._command_error(word)
        if error:
            raise refuse(error)
        named = self._named(word.removeprefix(b"!"))
        if not named:
            raise refuse(errno.EINVAL)
        functions, numbers = self._new
        self._new = Chosen(functions, numbers - named if word.startswith(b"!") else numbers | named)

    def _named(self, pattern: bytes) -> frozenset[int]:
        """Return the functions that a name, pattern or index means."""
        functions = self._new.functions
        if pattern[:1].isdigit():
            number = self._number(pattern.decode("latin-1"))
            return frozenset({number} if 0 <= number < len(functions) else ())
        if not any(sign in pattern for sign in b"*?[\\"):
            return functions.named(pattern.decode("latin-1"))
        return frozenset(matching(pattern, functions.names, self._instance.machine.filter_gates)) - functions.lost

    def _number(self, text: str) -> int:
        """Return the line of available_filter_functions that an index names, from 0; a negative number names none."""
        if self._name.startswith("set_graph"):
            return -1  # ftrace_match_record() compares no index
        if not self._instance.machine.gates.index_is_whole:
            number = simple_strtoul(text, 0)[0]
            return number - 1 if number <= LONG_MAX else -1
        try:
            return kstrtoul(text) - 1
        except OSError:
            return -1

    def released(self) -> None:
        if self.writable:
            if self._partial:
                with contextlib.suppress(OSError):  # close(2) reports no error
                    self._take(self._partial)
            self._instance.choose_functions(self._name, self._new)
