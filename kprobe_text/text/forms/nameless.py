"""Text of 2009, before 2.6.33: events have no names, only places, and numbers are hexadecimal without 0x.

``do_sys_open+0x0/0xd6: dfd=3 filename=7fffd1ec4440`` and, of another patch, ``do_sys_open+0x0/0xd6: 0xffffff9c 0x8000``
(seeds/001, seeds/002). The values that have no name are arg1, arg2 and so on here.
"""

import re
from typing import Final

from kprobe_text.text.arguments import decode
from kprobe_text.text.code_address import code_address
from kprobe_text.text.context import Context
from kprobe_text.text.records import Event, Value

# a mark has such a place with option sym-offset
NAMELESS: Final = re.compile(
    rb"((?:(?!tracing_mark_write\+)[^\s:()]+\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[\w+\])?(?: <- [^\s:()]+)?"
    rb"|0(?:x[0-9a-f]{1,16})? <- [^\s:()]+): ?)"  # it returns to where no symbol is
)

# More arguments no event has; what follows them is text.
_MOST: Final = 128

_ARGUMENT: Final = re.compile(rb"(?:([A-Za-z_]\w*)=)?(?:0x)?([0-9a-f]{1,16})")


def nameless(context: Context, text: bytes, raw: bytes) -> Event:
    """Build the event of such a line."""
    task, pid, tgid, cpu, flags, stamp, clock = context
    place = NAMELESS.match(text)
    assert place is not None
    first, arrow, second = decode(place[1].rstrip(b": ")).partition(" <- ")
    address, caller = code_address(first), None
    if arrow:
        address, caller = code_address(second), address
    fields: dict[str, Value] = {}
    complete = True
    for i, word in enumerate(text[place.end() :].removesuffix(b"\r").split(None, _MOST)):
        found = _ARGUMENT.fullmatch(word)
        name = decode(found[1]) if found is not None and found[1] else f"arg{i + 1}"
        if found is None or name in fields:
            complete = False
            fields[f"arg{i + 1}"] = decode(word)
        else:
            fields[name] = int(found[2], 16)
    return Event(task, pid, cpu, flags, stamp, "", address, caller, fields, tgid, clock, raw, complete)
