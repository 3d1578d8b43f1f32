"""`make corpus` imports it: reads recorded traces independently of kprobe_text.text, for the corpus' truth.

It is used where no account of the traced program says what is true.  The columns are those that the recording is known
to have (corpus_layouts), the values those that the event's conversions allow.  A record that doesn't fit is an error,
so nothing in the text is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from corpus_layouts import Layout, context, decoded

PART = re.compile(r"\\?\"%s\\?\"|'%c'|%pS|(?:0x)?%(?:h|hh|l|ll|L)?[dux]")
NAME = re.compile(rb"([^\s:]+): (?:\(([^()\n]*)\))?")
FRAMES = re.compile(rb"<(user )?stack trace>\n((?: => [^\n]*\n)*)")
ONE_LINE = re.compile(rb"((?:=> [^\s]+ ?)+)\n")
# of 2009: a place in place of a name, and numbers in hexadecimal
NAMELESS = re.compile(rb"(\S+\+0x[0-9a-f]+/0x[0-9a-f]+)(?: <- (\w+))?: ([^\n]*)\n")
FUNCTION = re.compile(rb"(\S+) <-(\S+)\n")
CALL = re.compile(rb"(?:(\S+)\(\)(;)?( \{)?|\}(?: /\* (\S+) \*/)?)\n")
RAW_MARKER = re.compile(rb"# ([0-9a-f]+) buf:((?: [0-9a-f]{2})*)\n")
LOST = re.compile(rb"CPU:(\d+) \[LOST (\d+) EVENTS\]\n")
STARTED = re.compile(rb"##### CPU (\d+) buffer started ####\n")
FIELD = re.compile(rb" (\w+)=(?:(0x[0-9a-f]+|[\w.]+\+0x[0-9a-f]+/0x[0-9a-f]+) \((-?\d+)\)|([^ \n]*))")

# as the kernel's own print fmt has them
STATIC = {
    "sched_switch": "prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s ==> next_comm=%s next_pid=%d next_prio=%d",
    "sched_wakeup": "comm=%s pid=%d prio=%d target_cpu=%d",
    "sched_wakeup 3.2": "comm=%s pid=%d prio=%d success=%d target_cpu=%d",
    "sched_process_fork": "comm=%s pid=%d child_comm=%s child_pid=%d",
}

Truth = dict[str, Any]


class NotAsKnown(Exception):
    """A record that hasn't the columns or arguments that it is known to have; the text says where."""


class Arguments:
    """The arguments of a probe's event, by the conversions of its print fmt."""

    def __init__(self, print_fmt: str, following: bytes) -> None:
        shown = print_fmt.partition('print fmt: "')[2].rpartition('", REC')[0] or print_fmt.partition('print fmt: "')[2]
        self.items: list[tuple[str, str]] = re.findall(rf" (\w+)=(\{{(?:{PART.pattern}|,)+\}}|{PART.pattern})", shown)
        # a string may go on in the next line, but not where a record begins
        self.string = rb'("(?:[^\n]|\n(?!' + following + rb'))*?"|\(fault\))'
        parts = [rb" " + name.encode() + rb"=" + self._part(conversion) for name, conversion in self.items]
        ends = [rb"(?=" + following + rb"|\Z)"] * len(parts) + [rb"\n(?=" + following + rb"|\Z)"]
        patterns = [b"".join(parts[:count]) + end for count, end in enumerate(ends)]
        self.patterns = [re.compile(pattern, re.S) for pattern in patterns]

    def _part(self, conversion: str) -> bytes:
        if conversion.startswith("{"):
            return rb"(\{[^{}]*\})"
        if "%s" in conversion:
            return self.string
        return rb"('.')" if "%c" in conversion else rb"([^\s]+(?: \[\w+\])?)"

    def read(self, data: bytes, at: int) -> tuple[dict[str, Any], bool, int] | None:
        """Read them; return them, whether that is all of them, and where the record ends."""
        for count in range(len(self.items), -1, -1):
            if (found := self.patterns[count].match(data, at)) is not None:
                values = zip(self.items[:count], found.groups(), strict=True)
                read = {name: value(how, text) for (name, how), text in values}
                return read, count == len(self.items), found.end()
        return None


def value(conversion: str, text: bytes) -> Any:
    """Read the text of one value by its conversion."""
    shown = decoded(text)
    if shown == "(fault)" and "%s" in conversion:
        return None
    if conversion.startswith("{"):
        parts = PART.findall(conversion)
        if "%c" in parts[0]:
            return [shown[2 + 4 * i] for i in range(len(parts))]
        return [value(part, item.encode()) for part, item in zip(parts, shown[1:-1].split(","), strict=True)]
    if "%s" in conversion or "%c" in conversion:
        return shown[1:-1]
    if conversion == "%pS":
        return int(shown, 16) if re.fullmatch("0x[0-9a-f]+", shown) else shown
    return int(shown, 16) if conversion.endswith("x") else int(shown)


class Recording(NamedTuple):
    """A text and what is known of it."""

    text: bytes
    layout: Layout
    formats: Mapping[str, str]  # by the events' names
    options: Sequence[str] = ()


class Reader:
    """Reads the records of one recording in their order."""

    def __init__(self, recording: Recording) -> None:
        self.data, self.layout, self.formats = recording.text, recording.layout, recording.formats
        self.by_field = "fields" in recording.options
        names = b"|".join(re.escape(name.encode()) for name in recording.formats)
        # where a record begins: its context, and then what it can be
        begins = _unnamed(self.layout.context.pattern)
        if self.layout.kind == "bare":
            begins = rb"(?:" + names + rb"): \("
        self.following = rb"(?:(?s:" + begins + rb")|CPU:\d+ \[LOST|##### CPU )"
        self.arguments = {name: Arguments(text, self.following) for name, text in recording.formats.items()}

    def records(self) -> list[Truth]:
        """Read all; raise `NotAsKnown`."""
        truth: list[Truth] = []
        at = 0
        if self.layout.kind == "binary":
            return []
        while at < len(self.data):
            if self.data.startswith(b"#", at) and not self.data.startswith(b"#####", at):
                at = self.data.index(b"\n", at) + 1
                continue
            record, end = self._record(at)
            if record is not None:
                truth.append(record)
            at = end
        return truth

    def _record(self, at: int) -> tuple[Truth | None, int]:
        if (found := LOST.match(self.data, at)) is not None:
            return {"type": "lost", "cpu": int(found[1]), "count": int(found[2])}, found.end()
        if (found := STARTED.match(self.data, at)) is not None:
            return {"type": "started", "cpu": int(found[1])}, found.end()
        if self.layout.kind == "graph" and self.data.startswith((b"\n", b" ---")):
            return None, self.data.index(b"\n", at) + 1
        head = self.layout.context.match(self.data, at)
        if head is None:
            raise NotAsKnown(f"no {self.layout.kind} columns at byte {at}: {self.data[at : at + 100]!r}")
        shown = context(self.layout, head)
        if self.layout.kind in ("numbers", "hex"):
            return {"type": "coded", "event_id": int(head["event"]), **shown}, head.end()
        if self.layout.kind == "graph":
            return self._of_graph(shown, head)
        return self._body(shown, head.end())

    def _body(self, shown: Truth, at: int) -> tuple[Truth, int]:
        """Read what follows the context."""
        if (stack := self._stack(shown, at)) is not None:
            return stack
        if (found := NAMELESS.match(self.data, at)) is not None:
            return self._nameless(shown, found), found.end()
        if (found := re.compile(rb"Unknown type (\d+)\n").match(self.data, at)) is not None:
            return {"type": "unnamed", "event_id": int(found[1]), **shown}, found.end()
        if (found := FUNCTION.match(self.data, at)) is not None:
            return {
                "type": "function",
                "function": decoded(found[1]),
                "parent": decoded(found[2]),
                **shown,
            }, found.end()
        if (found := RAW_MARKER.match(self.data, at)) is not None:
            data = found[2].replace(b" ", b"").decode()
            return {"type": "rawmarker", "identifier": int(found[1], 16), "data": data, **shown}, found.end()
        named = NAME.match(self.data, at)
        if named is None:
            raise NotAsKnown(f"neither an event nor a stack at byte {at}: {self.data[at : at + 100]!r}")
        name = named[1].decode()
        if name == "tracing_mark_write":
            end = re.compile(rb"\n(?=" + self.following + rb"|\Z)").search(self.data, at)
            assert end is not None
            text = decoded(self.data[at + len(name) + 2 : end.start()])
            return {"type": "marker", "text": text, **shown}, end.end()
        if name.startswith("sched_"):
            return self._static(name, shown, named)
        if self.by_field:
            return self._fields(name, shown, at + len(name) + 1)
        return self._event(name, shown, named)

    def _stack(self, shown: Truth, at: int) -> tuple[Truth, int] | None:
        if (found := FRAMES.match(self.data, at)) is not None:
            frames = [decoded(line[4:]).lstrip(" ") for line in found[2].splitlines()]
            return {"type": "stack", "frames": frames, "user": found[1] is not None, **shown}, found.end()
        if (found := ONE_LINE.match(self.data, at)) is not None:
            frames = decoded(found[1]).removeprefix("=> ").split(" => ")
            return {"type": "stack", "frames": frames, "user": False, **shown}, found.end()
        return None

    @staticmethod
    def _nameless(shown: Truth, found: re.Match[bytes]) -> Truth:
        """Read an event of 2009; arguments without a name have their number's, as the kernel's later default is."""
        words = [decoded(word).rpartition("=") for word in found[3].split()]
        fields = {name or f"arg{i}": int(text, 16) for i, (name, _, text) in enumerate(words, 1)}
        places = {"address": decoded(found[1])}
        if found[2] is not None:
            places = {"address": decoded(found[2]), "caller": decoded(found[1])}
        return {"type": "event", "name": "", **shown, **places, "fields": fields}

    def _event(self, name: str, shown: Truth, named: re.Match[bytes]) -> tuple[Truth, int]:
        if name not in self.arguments or named[2] is None:
            raise NotAsKnown(f"event {name} isn't known at byte {named.start()}")
        place, arrow, function = decoded(named[2]).partition(" <- ")
        places = {"address": function, "caller": place} if arrow else {"address": place}
        read = self.arguments[name].read(self.data, named.end())
        if read is None:
            raise NotAsKnown(f"other arguments of {name} at byte {named.end()}: {self.data[named.end() :][:100]!r}")
        fields, is_whole, end = read
        record = {"type": "event", "name": name, **shown, **places, "fields": fields}
        return record if is_whole else {**record, "complete": False}, end

    def _static(self, name: str, shown: Truth, named: re.Match[bytes]) -> tuple[Truth, int]:
        for key in (name, f"{name} 3.2"):
            items = re.findall(r"(\w+)=(%[sd])", STATIC.get(key, ""))
            pattern = re.escape(STATIC.get(key, "(?!)")).encode().replace(b"%s", b"(.*?)").replace(b"%d", rb"(-?\d+)")
            if (
                found := re.compile(pattern.replace(rb"\ ", b" ") + rb"\n", re.S).match(self.data, named.end())
            ) is None:
                continue
            read = zip(items, found.groups(), strict=True)
            fields = {label: int(text) if how == "%d" else decoded(text) for (label, how), text in read}
            return {"type": "event", "name": name, **shown, "fields": fields}, found.end()
        raise NotAsKnown(f"other arguments of {name} at byte {named.end()}: {self.data[named.end() :][:100]!r}")

    def _fields(self, name: str, shown: Truth, at: int) -> tuple[Truth, int]:
        """Read an event by option fields: names, values in hexadecimal, and in parentheses as they are."""
        fields: dict[str, Any] = {}
        while (found := FIELD.match(self.data, at)) is not None:
            if found[3] is None or found[1].startswith(b"__probe"):
                fields[found[1].decode()] = decoded(found[2] or found[4])
            else:
                fields[found[1].decode()] = int(found[3])
            at = found.end()
        end = re.compile(rb" *\n").match(self.data, at)
        if end is None:
            raise NotAsKnown(f"other fields of {name} at byte {at}: {self.data[at : at + 100]!r}")
        places: Truth = {}
        if "__probe_func" in fields:
            places = {"address": fields.pop("__probe_func"), "caller": fields.pop("__probe_ret_ip")}
        elif "__probe_ip" in fields:
            places = {"address": fields.pop("__probe_ip")}
        return {"type": "event", "name": name, **shown, **places, "fields": fields}, end.end()

    def _of_graph(self, shown: Truth, head: re.Match[bytes]) -> tuple[Truth, int]:
        """Read a call, or an event in a comment."""
        at = head.end()
        if not self.data.startswith(b"/* ", at):
            found = CALL.match(self.data, at)
            if found is None:
                raise NotAsKnown(f"no call at byte {at}: {self.data[at : at + 100]!r}")
            kind = "exit" if found[1] is None else "leaf" if found[2] else "entry"
            record = {"type": "call", "kind": kind, "function": decoded(found[1] or found[4] or b"")}
            record["depth"] = len(head["indent"]) // 2
            if (duration := head["duration"]) is not None:
                record["duration"] = round(float(duration) * 1000)
            return {**record, **shown}, found.end()
        end = self.data.index(b" */\n", at)
        inner = Reader(Recording(self.data[at + 3 : end] + b"\n", Layout("bare", re.compile(b"")), self.formats))
        record, _ = inner._body(shown, 0)
        if record["type"] == "marker":
            record = {**record, "type": "comment", "text": f"tracing_mark_write: {record['text']}"}
        return record, end + 4


def _unnamed(pattern: bytes) -> bytes:
    """Return a pattern whose groups have no names, as it may be there several times."""
    return re.sub(rb"\(\?P<\w+>", b"(?:", pattern)
