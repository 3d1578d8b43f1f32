"""Lines of tracer function_graph -> records."""

import re
from typing import Final

from kprobe_text.text.arguments import decode
from kprobe_text.text.context import GraphContext
from kprobe_text.text.layout import GRAPH_END, GRAPH_RULE, GRAPH_SWITCH
from kprobe_text.text.records import Call, Comment, Record, Switch

# ``f() {``, ``f();`` and ``}``, each with what newer kernels say of arguments, the return address and the value
_CALL: Final = re.compile(rb"(?=[^\n]*+\Z)([^\s(){}]++(?: \[[^\]\s]++\])?)\(([^\n]*?)\)( \{|;)([^\n]*)")
_EXIT: Final = re.compile(rb"\}(?: /\* ([^\n]*) \*/)?;?")
_NAME: Final = re.compile(r"[^\s=<>]+(?: \[[^\]\s]+\])?")


def call(line: re.Match[bytes], context: GraphContext, rest: bytes, raw: bytes) -> Record | None:
    """Build the record of a line without an event; None if it isn't one."""
    rest = rest.rstrip(b" \r")
    duration = None if line["duration"] is None else round(float(line["duration"]) * 1000)
    depth = len(line["indent"]) // 2
    if line["comment"] is not None:
        return Comment(decode(rest.removesuffix(GRAPH_END)), *context, raw) if rest.endswith(GRAPH_END) else None
    # that one of the two is there at all is found out sooner
    if (b") {" in rest or b");" in rest) and (parts := _CALL.fullmatch(rest)) is not None:
        function, values, end, note = (decode(part) for part in parts.groups())
        if end == ";":
            return Call("leaf", function, depth, duration, (values + note).strip(), *context, raw)
        return Call("entry", function, depth, duration, (values + note).strip(), *context, raw)
    if (leave := _EXIT.fullmatch(rest)) is not None:
        note = decode(leave[1] or b"")
        # the option funcgraph-tail names the function; others may follow, or stand alone
        named = _NAME.match(note)
        function = named[0] if named is not None and "=" not in note[: named.end() + 1] else ""
        return Call("exit", function, depth, duration, note[len(function) :].strip(" ,"), *context, raw)
    return None


def switch(text: bytes, position: int, limit: int) -> Switch | int | None:
    """Read the four lines that tell of another task; None if they aren't there, 0 if more text may complete them."""
    if not text.startswith(GRAPH_RULE, position):
        return None
    found = GRAPH_SWITCH.match(text, position, limit)
    if found is None:
        return 0 if text.count(b"\n", position, limit) < 4 else None
    cpu, previous, previous_pid, task, pid = found.groups()
    return Switch(int(cpu), decode(previous), int(previous_pid), decode(task), int(pid), found[0])
