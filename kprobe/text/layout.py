"""The layouts that the lines of a trace can have.

A comm can hold anything, a newline too, but it is padded to 16 bytes (8 in latency-format): so the patterns anchor on
the dash that follows and on the widths of the numbers, which together leave no room to imitate them within a comm.
The last two groups of each pattern are ``name: (place)`` and the rest of the line. Quantifiers with a ``+`` after them
don't give back what they took: a line that doesn't match is found out in one pass.
"""

import re
from typing import Final

_BODY = rb"([^\s:]++: (?:\([^()\n]*+\))?+)?+([^\n]*+)\n"

# %16s-%-5d (to 4.19) or %16s-%-7d; with record-tgid (%5d) or (%7d) or dashes; [%03d]; flags from 3.3 on, without a
# fixed number of characters (4, 5, more on real-time kernels); %5lu.%06lu or, for a clock that isn't in ns, %12llu.
STANDARD: Final = re.compile(
    rb"((?s:.{16})-\d[\d ]{4,20}+(?:\([ \d-]{5,20}+\) )?\[\d{3,9}\](?: [^ \n]++)?) "
    rb"(?: *+(\d{1,20}+)\.(\d{6})|(?=[ \d]{12})( *\d{1,20})): " + _BODY
)
# what stands in its first group
STANDARD_CONTEXT: Final = re.compile(
    rb"((?s:.{16}))-(\d+)[\d ]*(?:\(([ \d-]+)\) )?\[(\d+)\](?: ([^ \n]+))?",
)

# %8.8s-%-5d or %8.8s-%-7d, then %3d and the flags without a space; %4lluus and a mark of the delay, or %4llu.
LATENCY: Final = re.compile(
    rb"((?s:.{8})-\d[\d ]{4,20}) ( *\d{1,9})([^\s\d][^ \n]*) ( *\d{1,20})(us[^\n])?: " + _BODY,
)

# %16s %7d %3d, flags as a decimal number, preemption count, index, [microseconds in hexadecimal] and two times.
VERBOSE: Final = re.compile(
    rb"((?s:.{16}) +\d{1,10}) +(\d{1,9}) (\d{1,9} [0-9a-f]{8}) [0-9a-f]{8,16} \[([0-9a-f]{8,16})\] "
    rb"-?\d+(\.\d{3}ms)? \(\+-?\d+(?:\.\d{3}ms)?\): " + _BODY
)

# Option nocontext-info leaves nothing before the name.
BARE: Final = re.compile(rb"([^\s:]+: \([^()\n]*\))([^\n]*)\n")

CONTEXTS: Final = (STANDARD, LATENCY, VERBOSE)

# Options raw and hex: pid, cpu, time, number of the event; with hex an empty line follows.
RAW: Final = re.compile(rb"(\d{1,10}) (\d{1,9}) (\d{1,20}) type: (\d{1,9})\r?\n")
HEX: Final = re.compile(rb"([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{16}) type: (\d{1,9})\r?\n")

LOST: Final = re.compile(rb"CPU:(\d{1,9}) \[LOST (?:(\d{1,20}) )?EVENTS\]\r?\n")
BUFFER_STARTED: Final = re.compile(rb"##### CPU (\d{1,9}) buffer started ####\r?\n")
TRACER: Final = b"# tracer: "
FRAME: Final = b" => "
STACKS: Final = (b"<stack trace>", b"<user stack trace>")


def preferred(header: bytes) -> re.Pattern[bytes] | None:
    """Say which layout a line of the header announces; None if it announces none."""
    if b"TASK-PID " in header and b"CPU#" in header:
        return STANDARD
    if header.startswith(b"#  cmd     pid "):
        return LATENCY
    # A verbose trace has the title of latency-format, but no headings.
    return VERBOSE if b" latency trace v" in header else None
