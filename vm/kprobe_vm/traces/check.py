"""Finds changes in a kernel's text since a corpus was made: texts that are new or gone, and changed lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kprobe_vm.debian.packages import version_key
from kprobe_vm.errors import NotReady
from kprobe_vm.traces.corpus import CorpusEntry

SHOWN = 3  # lines shown of each text that differs

# Numbers keep the width of their column; names of functions are replaced.
_PID = re.compile(rb"-\d+ +(?=[\[(\d])")
_STAMP = re.compile(rb"(?<! ) ++\d++(?:\.\d++)?(?=: )")
_FLAGS = re.compile(rb"(?<=\] )[^ \d\n][^ \n]{3,7}(?= )")
_LATENCY = re.compile(rb"(-\d+ +\d+)[^ \d\n][^ \n]{3,7} +\d+(?:us.)?(?=: )")
_PLACE = re.compile(rb"(?<![\w.])[\w.]++\+0x[0-9a-f]++/0x[0-9a-f]++")
_FRAME = re.compile(rb"(?<==> )[\w.]+$", re.M)
# the scheduler's events, which may be any task's: their names and their fields
_SCHEDULED = re.compile(rb"^.* (sched_\w+: )([^\n]*)$", re.M)
_VALUE = re.compile(rb"(?<=\w=)[^\n]*?(?= \w+=| ==>|$)")
_TGID = re.compile(rb"\( *\d+\)(?= \[)")
_VERBOSE = re.compile(rb"^(.{16}) ( *\d+) ( *\d+) (?=\d+ [0-9a-f]{8} [0-9a-f]{8} \[)", re.M)
# system calls of any task, whose numbers have no 0x
_CALL = re.compile(rb"\bsys_\w+\([^\n]*")
_BARE = re.compile(rb"(?<=: )[0-9a-f]+(?=[,) ])")
_RAW_CALL = re.compile(rb"\bNR \d+ (?:\([^()\n]*\)|= -?\d+)")
# function_graph: task and CPU of a call, and whether it is one line, differ from run to run
_GRAPH = b"# tracer: function_graph"
_SWITCH = re.compile(rb"^ -{42}\n[^\n]* => [^\n]*\n -{42}\n\n", re.M)
_CONTEXT = re.compile(
    rb"^(?!# [^\d]|#\n)(?: *\d+\.\d+ \|  )?(?: *\d+\))?(?: +\S[^\n|]{0,12}-\d+ +\| )?(?: +[^ \n|]{4,6} \|)? *+"
    rb"(?:[+!#*@$] *+)?(?:\d++\.?\d*+ us)? *+\|  *",
    re.M,
)
_ENDS = re.compile(rb"(?: \{|;)$|(?<=\}) /\* [^\n]* \*/$", re.M)
_NUMBER = re.compile(rb"0x[0-9a-f]+|[0-9a-f]{8,}|-?\d+")


def model(entries: Sequence[CorpusEntry], kernel: str) -> list[CorpusEntry]:
    """Return the entries to compare a kernel with: its own, or those of the newest kernel before it."""
    guests = [entry for entry in entries if entry.about["source"] == "guest"]
    known = sorted({entry.kernel for entry in guests}, key=version_key)
    older = [name for name in known if version_key(name) <= version_key(kernel)] if kernel[:1].isdigit() else known
    if not known:
        raise NotReady("the corpus has no text of a guest: `kprobe-vm record --text -o DIRECTORY KERNEL` makes one")
    chosen = kernel if kernel in known else (older or known)[-1]
    return [entry for entry in guests if entry.kernel == chosen]


def shape(text: bytes) -> list[bytes]:
    """Return the lines of a text without what differs from run to run and from build to build, each once."""
    shown = _SCHEDULED.sub(lambda match: match[1] + _VALUE.sub(b"", match[2]), text)
    if text.startswith(_GRAPH):
        shown = _ENDS.sub(b"", _CONTEXT.sub(b"CONTEXT | ", _SWITCH.sub(b"", shown)))
    shown = _CALL.sub(lambda match: _BARE.sub(b"0", match[0]), shown)
    shown = _RAW_CALL.sub(b"NR NUMBERS", shown)
    shown = _VERBOSE.sub(lambda match: match[1] + b"#" * len(match[2] + match[3]) + b" ", shown)
    shown = _TGID.sub(lambda match: b"#" * len(match[0]), shown)
    shown = _PLACE.sub(b"SYMBOL+0x0/0x0", shown)
    shown = _FRAME.sub(b"SYMBOL", shown)
    shown = _LATENCY.sub(lambda match: b"#" * len(match[1]) + b"FLAGS TIME", shown)
    shown = _PID.sub(lambda match: b"-" + b"#" * (len(match[0]) - 1), shown)
    shown = _FLAGS.sub(lambda match: b"f" * len(match[0]), shown)
    shown = _STAMP.sub(lambda match: b"#" * len(match[0]), shown)
    return list(dict.fromkeys(_NUMBER.sub(b"0", shown).splitlines()))


def changes(before: Sequence[CorpusEntry], after: Sequence[CorpusEntry]) -> Iterator[str]:
    """Yield lines that describe the differences."""
    old, new = ({entry.name: entry for entry in entries} for entries in (before, after))
    for name in new.keys() - old.keys():
        yield f"new: {name} ({_what(new[name])})"
    for name in old.keys() - new.keys():
        yield f"gone: {name} ({_what(old[name])})"
    for name, entry in new.items():
        if name in old and "bin" not in entry.about["options"]:
            yield from _differing(name, shape(old[name].text), shape(entry.text))


def _what(entry: CorpusEntry) -> str:
    options = ",".join(entry.about["options"]) or "no options"
    return f"{options}, clock {entry.about['clock']}"


def _differing(name: str, old: list[bytes], new: list[bytes]) -> Iterator[str]:
    less = [line for line in old if line not in new][:SHOWN]
    more = [line for line in new if line not in old][:SHOWN]
    if less or more:
        yield f"differs: {name}"
        yield from (f"  - {line.decode('utf-8', 'backslashreplace')[:160]}" for line in less)
        yield from (f"  + {line.decode('utf-8', 'backslashreplace')[:160]}" for line in more)
