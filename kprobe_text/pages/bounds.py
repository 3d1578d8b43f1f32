"""Limits for files of pages: more than any kernel writes, and no more than a small machine can hold.

Each limit is checked before its data is used, and a refusal names it.  A part that isn't needed to read records, such
as kallsyms, is left out where it is too large, with a sentence on it.
"""

from typing import Final

# For one event.  A probe has 128 arguments, arrays of 64 (kernel/trace/trace_probe.h: MAX_TRACE_ARGS, MAX_ARRAY_LEN).
FIELDS: Final = 1 << 10
LOCATIONS: Final = 1 << 13  # strings and arrays that its record points to
FORMAT: Final = 1 << 20  # bytes of its format file
NAME: Final = 1 << 8  # characters of an event's or a field's name; the kernel's macros and probes have 64
FRAMES: Final = 1 << 11  # of a call stack; the kernel's have 1024 (kernel/trace/trace.c: FTRACE_KSTACK_ENTRIES)
ENDLESS: Final = 8  # fields that reach to the record's end

# For all events together.  A record has 16 bits for the event's number.
EVENTS: Final = 1 << 16
COMPILED: Final = 1 << 14  # events that have records
ALL_FIELDS: Final = 1 << 17  # of those
READERS: Final = 1 << 15  # readers of fields that differ
FORMATS: Final = 1 << 24  # bytes of their format files

# For a trace.dat, in bytes unless said otherwise.
HEADER: Final = 1 << 16  # header_page, header_event
KALLSYMS: Final = 1 << 25
SYMBOLS: Final = 1 << 20  # lines of it
PRINTK: Final = 1 << 24
CMDLINES: Final = 1 << 23
TASKS: Final = 1 << 18  # lines of it
OPTIONS: Final = 1 << 16  # their number
OPTION_BYTES: Final = 1 << 22
BUFFERS: Final = 1 << 10  # instances, and traces that were saved as text
PLACES: Final = 1 << 17  # of CPUs' data, in all buffers
CPUS: Final = 1 << 14  # with data, in all buffers; Linux has 8192 at most (NR_CPUS)
PAGES: Final = 1 << 25  # pages that are read at once, one of each CPU
PARTS: Final = 1 << 25  # packed parts that are kept unpacked at once, one of each CPU
PART: Final = 1 << 20  # the size of an unpacked part, or PAGES_OF_PART pages: trace-cmd packs 10 at once
PAGES_OF_PART: Final = 16
SENTENCES: Final = 100  # problems that are kept, of each kind

# Unpacking may grow data by this factor, plus these bytes: a page with one event packs to a hundredth.
TIMES: Final = 256
BESIDES: Final = 1 << 24
# without the zeros that end a page: events pack to a twentieth
TIMES_FILLED: Final = 64
BESIDES_FILLED: Final = 1 << 22

HELD: Final = 1 << 15  # records that wait until those of other CPUs have come
