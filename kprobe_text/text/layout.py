"""The layouts that lines of a trace can have, as patterns, and lines without a layout.

A comm can hold anything, even a newline, but it is padded to 16 bytes (8 in latency-format). So the patterns anchor on
the dash that follows, and on the widths of the numbers: a comm has no room to imitate both.
In each, group ``site`` is ``name: (place)``, and ``rest`` is what follows it. Quantifiers with a ``+`` after them
don't give back what they took: a line that doesn't match is found out in one pass.

Layouts come in families, and a text keeps to one: what looks like a line of another family is part of a string.
"""

import re
from functools import cache
from typing import Final

from kprobe_text.text.records import BufferStarted, Coded, Lost, Record

# option sym-addr puts the address of tracing_mark_write after that name
_BODY = rb"(?:(?P<site>[^\s:]++(?:: | <[0-9a-f]{8,16}+>: )(?:\([^()\n]*+\)|))|)(?P<rest>[^\n]*+)\n"

# The longest comm, 15 bytes, with the longest line endings in it.
NAME: Final = 23

_COLUMNS = rb"(?P<columns> (?s:.{15})-\d[\d ]{4,20}+(?:\([ \d-]{5,20}+\) )?\[\d{3,9}\](?: [^ \n]++)?) "
_TASK_PID = rb"(?P<task_pid>(?s:.{8})-\d[\d ]{4,20}) (?P<cpu> *\d{1,9})(?P<flags>[^\s\d][^ \n]*) "

# %16s-%-5d (to 4.19) or %16s-%-7d; with record-tgid (%5d) or (%7d) or dashes; [%03d]; flags from 3.3 on, without a
# fixed number of characters (4, 5, more on real-time kernels); %5lu.%06lu or, for a clock that isn't in ns, %12llu.
# A name has 15 bytes at most, so a blank comes first, wherever a name is padded to 16.
STANDARD: Final = re.compile(
    _COLUMNS + rb"(?: *+(?P<seconds>\d{1,20}+)\.(?P<fraction>\d{6})|(?=[ \d]{12})(?P<count> *\d{1,20})): " + _BODY
)
# The same for most lines, a probe's event with a time, in a faster form: for text that was read as Latin-1, without a
# newline in the comm. Any other line leaves all groups empty.
PROBE_LINE: Final = re.compile(
    r"(?!\Z)(?:( .{15}-[0-9][0-9 ]{4,20}+(?:\([ 0-9-]{5,20}+\) )?\[[0-9]{3,9}\](?: [^ \n]++)?) ++"
    r"([0-9]{1,20}+)\.([0-9]{6}): ([0-9A-Za-z_]++: \([^()\n]*+\))(.*+)|.*+)(?:\n|\Z)",
    re.ASCII,
)
# what group ``columns`` and the first group of PROBE_LINE hold
STANDARD_CONTEXT: Final = re.compile(rb"((?s:.{16}))-(\d++)[\d ]*+(?:\(([ \d-]+)\) )?\[(\d+)\](?: ([^ \n]+))?")

# %8.8s-%-5d or %8.8s-%-7d, then %3d and the flags without a space; %4lluus and a mark of the delay, or %4llu.
LATENCY: Final = re.compile(_TASK_PID + rb"(?P<time> *\d{1,20})(?P<unit>us[^\n])?: " + _BODY)

# %16s %7d %3d, flags as a decimal number, preemption count, index, [microseconds in hexadecimal] and two times.
VERBOSE: Final = re.compile(
    rb"(?P<task_pid> (?s:.{15}) {1,16}+\d{1,10}) {1,16}+(?P<cpu>\d{1,9}) (?P<flags>\d{1,9} [0-9a-f]{8}) [0-9a-f]{8,16} "
    rb"\[(?P<time>[0-9a-f]{8,16})\] -?\d+(?P<unit>\.\d{3}ms)? \(\+-?\d+(?:\.\d{3}ms)?\): " + _BODY
)

# The name of a mark: with option sym-offset it has an offset, with sym-addr an address, too.
MARK: Final = rb"tracing_mark_write(?:\+0x[0-9a-f]+/0x[0-9a-f]+)?(?: <[0-9a-f]+>)?: "

# Option nocontext-info leaves nothing before the name. In a text's first lines that may be a mere likeness, so an event
# that isn't a probe's must have arguments.
BARE: Final = re.compile(
    rb"(?:(?P<site>(?!sys_\w{1,64}\()[^\s:]{1,128}+: \([^()\n]*+\)|" + MARK + rb"|\w{1,128}+: (?=\w+=|NR -?\d))"
    rb"|(?=<(?:user )?stack trace>\r?\n|# [0-9a-f]{1,8} buf:[ \r\n]|UNKNOWN TYPE \d"
    rb"|sys_\w{1,64}(?:\(| -> 0x)))(?P<rest>[^\n]*)\n"
)
# A mark as option raw shows it, behind whatever stands before it.
RAW_MARK: Final = re.compile(rb"# (?:[0-9a-f]{8}){1,2} ")
# marks that aren't lines of the header, although they begin with #
MARKED: Final = re.compile(rb"# [0-9a-f]{1,8} buf:|" + RAW_MARK.pattern)

TRACEFS: Final = (STANDARD, LATENCY, VERBOSE)

# Tracer function_graph: what stands before the duration depends on the options funcgraph-abstime, -cpu, -proc and
# latency-format; then the depth, two blanks for each call, and an event within a comment.
_DURATION = rb"(?:[ +!#*@$]{1,2} {0,6}(?P<duration>\d{1,12}(?:\.\d{1,3})?) us| {14}) {0,8}"
GRAPH: Final = re.compile(
    rb"(?: {0,12}(?P<seconds>\d{1,12})(?:\.(?P<fraction>\d{6})| us) \|  )?(?: {0,8}(?P<cpu>\d{1,9})\) )?"
    rb"(?: {0,10}(?P<task>[^\s][^\n]{0,6}?)-(?P<pid>\d{1,10}) {1,9}\| )?"
    rb"(?: (?P<flags>[.\w#]{4,8}) ?(?:\| )?)?" + _DURATION + rb"\|  (?P<indent> *+)(?P<comment>/\* )?" + _BODY
)
GRAPH_END: Final = b" */"
# Another task runs on a CPU: a rule, ``0)  cat-1  =>  sh-2``, a rule and an empty line.
GRAPH_RULE: Final = b" ------------------------------------------"
GRAPH_SWITCH: Final = re.compile(
    GRAPH_RULE + rb"\r?\n *(\d{1,9})\) +(\S[^\n]{0,15}?)-(\d{1,10}) +=> +(\S[^\n]{0,15}?)-(\d{1,10}) *\r?\n"
    + GRAPH_RULE + rb"\r?\n\r?\n"
)  # fmt: skip

# What `trace-cmd report` prints: the columns of tracefs, after the name of an instance if there are several, and names
# of events padded to 20; the time in nanoseconds with -t. With -l the columns are those of latency-format.
# A line that begins like a mark without context is one.
_PADDED = rb"(?:(?P<site>[^\s:]++: ++(?:\([^()\n]*+\)|))|)(?P<rest>[^\n]*+)\n"
# --raw-ts prints no fraction; --ts-diff the time since the last event behind it
_FRACTION = rb"(?:\.(?P<fraction>\d{6}(?:\d{3})?))?: (?:\(\+\d{1,20}\) {1,8}| {9}(?=\S))?"
REPORT: Final = re.compile(
    rb"(?:(?!tracing_mark_write: )(?P<instance> {0,64}+[^\s:]{1,64}+): (?=[^\n]{16})"
    rb"|(?=[^\n]{17}[^\n-]{0,63}+-) {1,64}?(?=[^\n]{16}-\d))??"
    + _COLUMNS
    + rb" *+(?P<seconds>\d{1,20}+)"
    + _FRACTION
    + _PADDED
)
REPORT_LATENCY: Final = re.compile(_TASK_PID + rb" *(?P<seconds>\d{1,20})" + _FRACTION + _PADDED)
REPORTS: Final = (REPORT, REPORT_LATENCY)
REPORT_HEADER: Final = re.compile(rb"(?:cpus=\d{1,9}|version = \d{1,9}|CPU \d{1,9} is empty)\r?\n")
REPORT_FRAME: Final = (b"\t=> ", b" => ", b"=> ")
# how wide an event's name is there, with its colon and two blanks
REPORT_NAME: Final = 22

# Events of the processor and of the kernel's own counters, as perf names them: they have modifiers and no group.
_SAMPLED = (
    rb"(?:cpu|bus|ref|idle|stalled)-cycles(?:-\w+)?|cycles|instructions|branch(?:es|-\w+)|cache-\w+|(?:L1|LLC|[di]TLB|node)-[\w-]+"
    rb"|(?:cpu|task)-clock|(?:page-|minor-|major-|alignment-|emulation-)?faults|context-switches|cs|(?:cpu-)?migrations"
    rb"|cgroup-switches|bpf-output|dummy|slots|topdown-[\w-]+|r[0-9a-f]{2,16}"
)
# What `perf script` prints: %16s or the bare comm, pid or pid/tid, CPU (where that was recorded), time, [period],
# GROUP:NAME or NAME:MODIFIERS.
PERF: Final = re.compile(
    rb" {0,64}+(?P<task>[^\n]{1,16}?) {1,64}+(?P<pid>\d{1,10})(?:/(?P<thread>\d{1,10}))? {1,64}+"
    rb"(?:\[(?P<cpu>\d{3,9})\] (?:(?P<flags>[^\s\d]\S{1,7}) )?)? *+"
    rb"(?P<seconds>\d{1,20})\.(?P<fraction>\d{6}(?:\d{3})?): ++(?:(?P<period>\d{1,20}+) ++)?"
    rb"(?:(?!(?:" + _SAMPLED + rb"):[ukhpPGHSDIWeb]{1,13}: ++(?!\())(?P<group>[\w-]++):(?=\w))?"
    rb"(?:(?P<site>(?:(?:" + _SAMPLED + rb"):[ukhpPGHSDIWeb]{1,13}|[^\s:]++): ++(?:\([^()\n]*+\)|))|)"
    rb"(?P<rest>[^\n]*+)\n"
)
# where a sample without its call chain was taken
SAMPLE: Final = re.compile(rb" *+(?:([0-9a-f]{1,16}) ([^\n]*?))?\r?")
PERF_FRAME: Final = re.compile(rb"\t *+([0-9a-f]{1,16}) ([^\n]*+)\n")

# Columns that lost their width, as in mail and on pages.
LOOSE: Final = re.compile(
    rb"(?! (?s:.{15})-\d)[ \t]{0,256}+(?P<task>[^\n]{1,16}?)-(?P<pid>\d{1,10}) ++(?:\((?P<tgid>[ \d-]{1,20}+)\) ++)?"
    rb"\[(?P<cpu>\d{1,9})\] ++(?:(?P<flags>[^\s:]{1,12}+) ++)??(?P<seconds>\d{1,20}+)\.(?P<fraction>\d{6}(?:\d{3})?): "
    + _BODY
)

# A task's name that has a newline, in columns that have lost the blanks before it: the end of a line can have CR LF.
NAMED: Final = re.compile(
    rb"(?=[^\n]{1,15}\n)(?s:.{2,%d}?)(?:-\d{1,10}[ \t]"
    rb"| {1,64}\d{1,10}(?:/\d{1,10})? {1,64}(?:\[\d{3,9}\] |\d{1,20}\.\d{6}))" % NAME
)

FAMILIES: Final = (TRACEFS, (GRAPH,), (REPORT, REPORT_LATENCY), (PERF,), (BARE,))
ANY: Final = (STANDARD, REPORT, LATENCY, REPORT_LATENCY, VERBOSE, PERF, GRAPH, LOOSE)
"""In this order; the layout with loose columns never excludes others."""

# Options raw and hex: pid, cpu, time, number of the event; with hex an empty line follows. A mark is text in both.
RAW: Final = re.compile(rb"(?:(\d{1,10}) (\d{1,9}) (\d{1,20}) )?type: (\d{1,9})\r?\n")
RAW_TEXT: Final = re.compile(rb"(?:\d{1,10} \d{1,9} \d{1,20} )?" + RAW_MARK.pattern + rb"[^\n]*\n")
HEX: Final = re.compile(rb"([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{16}) type: (\d{1,9})\r?\n")

# trace-cmd says it in its own words
LOST: Final = re.compile(rb"CPU:(\d{1,9}) \[(?:LOST (?:(\d{1,20}) )?EVENTS|(?:(\d{1,20}) )?EVENTS DROPPED)\]\r?\n")
BUFFER_STARTED: Final = re.compile(rb"##### CPU (\d{1,9}) buffer started ####\r?\n")
# Where another record can begin within the text of a record: behind the task's name.
_FURTHER: Final = 17
# The longest piece of a record that isn't a string.
PIECE: Final = 64
# A line with which a record can end whose string began in an earlier one: the last quote is followed by arguments.
ENDS: Final = re.compile(rb"[^\n]*[\"'}](?:\Z|(?=[ ,)][^\"'}]*\Z))")
# How each line of a text ends that is a string in the script of a web page.
SCRIPTED: Final = b"\\n\\"
# With this a web page ends the text, as no script can contain it.
PAGE_END: Final = re.compile(rb"[ \t]{0,64}</script>[ \t]{0,64}\r?\n")
TRACER: Final = b"# tracer: "
# some programs put it before text that they save
BOM: Final = b"\xef\xbb\xbf"
FRAME: Final = b" => "
STACKS: Final = (b"<stack trace>", b"<user stack trace>")


def preferred(header: bytes) -> re.Pattern[bytes] | None:
    """Say which layout a line of the header announces; None if it announces none."""
    if header.startswith(b"# tracer: function_graph"):
        return GRAPH
    if b"TASK-PID " in header and b"CPU#" in header:
        return STANDARD
    if header.startswith(b"#  cmd     pid "):
        return LATENCY
    # A verbose trace has the title of latency-format, but no headings.
    return VERBOSE if b" latency trace v" in header else None


def family(layout: re.Pattern[bytes]) -> tuple[re.Pattern[bytes], ...]:
    """Give the layouts that may stand in a text beside this one."""
    for layouts in FAMILIES:
        if layout in layouts:
            return layouts
    return ANY


@cache
def broken_off(layout: re.Pattern[bytes]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Give two patterns of text before a line that begins within another line.

    The first takes any text of at most PIECE bytes; the second text without quotes that ends with the name of an
    argument, of which an event has at most 128.
    """
    line = b"(?=" + layout.pattern + b")"
    return re.compile(rb"(?s:.{0,%d}?)" % PIECE + line), re.compile(rb'(?>[^"]*? \w++=){1,128}?' + line)


@cache
def _broken() -> tuple[re.Pattern[bytes], ...]:
    return tuple(re.compile(rb"[={,](?=" + layout.pattern + rb")") for layout in TRACEFS)


def holds_another_on_its_line(raw: bytes, is_loose: bool) -> bool:
    """Say whether a record's text may hold two records, the first of which has lost its newline.

    A record that the kernel broke off loses it where a value was to come; a mark anywhere, by a NUL in it. With
    `is_loose` there are marks, so what was read may be a line of one.
    """
    if raw.count(b": ") <= 2:  # the time and the name have one each
        return False
    if is_loose:
        return any(layout.search(raw, _FURTHER) is not None for layout in TRACEFS)
    return any(broken.search(raw, _FURTHER) is not None for broken in _broken())


_DIFFERENCE: Final = re.compile(rb"\(\+\d{1,20}\) {1,8}[^\s:]+: ")


def reported(line: re.Match[bytes]) -> bool:
    """Say whether a line in the standard layout is trace-cmd's, by the width of the event's name."""
    site, rest = line["site"], line["rest"]
    if site is None and _DIFFERENCE.match(rest) is not None:
        return True
    if site is None or site[-1:] != b" " or rest[:1] != b" " or site.startswith(b"tracing_mark_write"):
        return False
    shown = rest.lstrip(b" ")
    return len(site) + len(rest) - len(shown) >= REPORT_NAME


def titled(text: bytes, position: int, end: int, limit: int) -> bytes:
    """Return the part of a line that belongs to a header: all of it, a byte order mark, or nothing."""
    raw = text[position:end]
    if raw.startswith(BOM):
        return BOM
    if raw[:1] != b"#":
        return raw if REPORT_HEADER.fullmatch(raw) is not None else b""
    # a task may be called #, and function_graph marks a long duration with one
    is_record = MARKED.match(raw) is not None or any(layout.match(text, position, limit) for layout in ANY)
    return b"" if is_record else raw


def special(raw: bytes) -> Lost | BufferStarted | None:
    """Read a line about a CPU's buffer; None if it isn't one."""
    if (lost := LOST.fullmatch(raw)) is not None:
        count = lost[2] or lost[3]
        return Lost(int(lost[1]), int(count) if count else None, raw)
    if (started := BUFFER_STARTED.fullmatch(raw)) is not None:
        return BufferStarted(int(started[1]), raw)
    return None


def coded(text: bytes, position: int, end: int, limit: int, whole: bool) -> tuple[int, Record | None] | None:
    """Read a record as the options hex and raw print it; after one of hex there is an empty line.

    Returns where it ends, and the record; -position - 1 and no record if that takes more text; None if the line isn't
    such a record.
    """
    raw = text[position:end]
    found, base = HEX.fullmatch(raw), 16
    if found is None:
        found, base = RAW.fullmatch(raw), 10
        if found is None:
            return None
    elif end == limit and not whole:
        return -position - 1, None
    elif text[end : end + 1] == b"\n":
        end += 1
    elif text[end : end + 2] == b"\r\n":
        end += 2
    pid, cpu, stamp = (None if found[i] is None else int(found[i], base) for i in (1, 2, 3))
    return end, Coded(pid, cpu, stamp, int(found[4]), text[position:end])
