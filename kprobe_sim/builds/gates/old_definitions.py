"""Definitions of kprobes and uprobes on kernels before 5.0."""

from __future__ import annotations

import errno

from kprobe_sim.builds.gates.gate import gate, since, until
from kprobe_sim.builds.gates.question import TOO_OLD, Question, Unasked


class OldDefinitionGates:
    """Definitions of kprobes and uprobes on kernels before 5.0."""

    # ---- the patch of 2009 ----

    # arguments are aN, sN, sa, rv, ra; events have no group, and are enabled when they are created
    first_language: bool = until(
        (2, 6, 33),
        "scenarios/replays/seeds: tracer-2009 and lwn-2009 against wind-river; commits 413d37d1eb69, 52a11f354970",
        Unasked("only kernels that are too old to be asked differ in it"),
    )
    # arguments have names: NAME= in the definition, NAME=VALUE in the trace
    first_names: bool = since(
        (2, 6, 32),
        "scenarios/replays/seeds: lwn-2009 (revision 13), tracer-2009; commit eca0d916f642",
        Unasked("only kernels that are too old to be asked differ in it"),
    )

    # ---- before 4.20 ----

    # kprobes and uprobes have their own readers: one probe per event, no error_log
    early: bool = gate(
        False, {(2, 6, 33): True, (4, 20, 0): False}, "definitions 3.2 to 4.19; dynamic events came with 5.0", TOO_OLD
    )
    # an enabled event can't be removed or replaced: EBUSY
    used_kept: bool = since((3, 1, 1), "commit 16fd0c4105bb: unregister_trace_probe() of 3.1.0 and 3.1.1", TOO_OLD)
    # the log names the location where no probe can be, and an unknown symbol is ENOENT; else EINVAL
    place_said: bool = since(
        (3, 1, 0), "__register_trace_probe() of 3.0 and 3.1; kprobe_addr() of kernel/kprobes.c", TOO_OLD
    )
    # the log names each probe that can't be inserted, whatever else it says, and not what ftrace lacks
    insertion_said: bool = until((4, 18, 0), "definitions 4.14 and 4.19: the log of 'p:x jiffies'", TOO_OLD)
    # no probe can be in a function that ftrace doesn't know
    notrace_checked: bool = since(
        (4, 18, 0), "definitions 4.14 and 4.19: 'p:x memcpy', refused before all else", TOO_OLD
    )
    # a probe at an address where none can be is taken, and never hit
    unplaceable_taken: bool = gate(
        False,
        {(3, 1, 0): True, (3, 4, 0): False},
        "register_kprobe() of 3.0 and 3.1, kernel_text_address() in it; definitions 3.2 and 3.13: 'p:x jiffies'",
        TOO_OLD,
    )
    # what isn't a number is taken for a symbol, and names of events are sanitized
    address_or_symbol: bool = since(
        (4, 13, 0),
        "commit 9e52b3256712 of 4.13; definitions 4.4, 4.9.229 (by backport) and 4.14: 'p:x 0xzz', 'p:x 1abc'; "
        "4.9.0 had said 'Failed to parse address.'",
        # a module that isn't loaded, whose name begins with a digit: a digit alone meant an address
        Question(("write kprobe_events p:zz/q 8nomod:nofunc",), "errno", {"ok": True, "EINVAL": False}),
        backports=((4, 9, 229),),
    )
    # SYM-OFFS
    signed_offsets: bool = since(
        (4, 17, 0),
        "definitions 4.4, 4.9 and 4.14 (by backports), and 4.19: 'p:x do_sys_open-4'",
        TOO_OLD,
        backports=((4, 9, 229), (4, 14, 67)),
    )
    # a return probe off a function's entry, or on nothing, is EINVAL
    returns_checked: bool = since((4, 12, 0), "definitions 4.9 and 4.14: 'r:x no_such_function_xyz'", TOO_OLD)
    # a return probe may be at an address
    return_addresses: bool = since((4, 12, 0), "definitions 4.9 and 4.14: 'r:x 0xffffffff81000000'", TOO_OLD)
    # r<digits>:
    early_maxactive: bool = since((4, 12, 0), "commit 696ced4fb1d7; definitions 4.4 and 4.19: 'r10:x'", TOO_OLD)
    # errno if a file has the event's name; if None, a second event gets the name
    name_in_use: int | None = gate(
        errno.EPERM, {(3, 11, 0): None}, "definitions 3.2 and 3.13: 'p:g/enable', 'p:sched/sched_switch'", TOO_OLD
    )
    # $arg0 to $arg16 of functions, before arguments had types
    early_arguments: bool = until((2, 6, 34), "commit 14640106f243; trace_kprobe.c of 2.6.33", TOO_OLD)
    # an argument without a name is argN, and names are C identifiers; else its text is its name
    arguments_checked: bool = since(
        (2, 6, 36), "commits aba91595cfce, da34634fd399; trace_kprobe.c of 2.6.35 and 2.6.36", TOO_OLD
    )
    # the type string
    strings: bool = since((2, 6, 36), "commit e09c8614b329; trace_kprobe.c of 2.6.35 and 2.6.36", TOO_OLD)
    # the types bWIDTH@POSITION/SIZE
    bitfields: bool = since((2, 6, 39), "commit 1ff511e35ed8; trace_kprobe.c of 2.6.38 and 2.6.39", TOO_OLD)
    # a line may have 4,095 bytes, else 127
    long_lines: bool = since((2, 6, 39), "commit e3745369986d; WRITE_BUFSIZE of 2.6.38 and 2.6.39", TOO_OLD)

    # ---- the kernel's log ----

    # lines in the kernel's log begin with the name of their source
    printed_sources: bool = since((4, 14, 0), "definitions 4.9 and 4.14: the kernel's log", TOO_OLD)
    # what the log says of a line that doesn't fit the buffer
    too_long_said: str = gate(
        "Line length is too long: Should be less than 128.",
        {
            (2, 6, 39): "Line length is too long: Should be less than 4096.",
            (4, 9, 0): "Line length is too long: Should be less than 4096",
            (4, 14, 0): "trace_probe: Line length is too long: Should be less than 4094",
            (4, 18, 0): "Line length is too long: Should be less than 4094",
        },
        "commit e3745369986d; definitions 4.4, 4.9, 4.14 and 4.19: the log of a line of 5,000 bytes",
        TOO_OLD,
    )
    # which file system the log names if a name is in use
    directory_said: str = gate(
        "debugfs",
        {(4, 1, 0): "tracefs"},
        "definitions 3.13 and 4.4: the log of 'p:g/enable do_sys_open'; tracefs came with 4.1",
        TOO_OLD,
    )
    # the log has a blank between "after" and "target module"
    spaced_target: bool = since((4, 9, 229), "definitions 4.4 and 4.9: the log of 'p:x nomod:nofunc'", TOO_OLD)
    # the log also has a line for a uprobe whose file is missing or not given
    missing_file_said: bool = until(
        (4, 18, 0),
        "definitions 4.9, 4.14 (by backport) and 4.19: 'p:u /nonexistent:0x10'",
        TOO_OLD,
        backports=((4, 14, 67),),
    )
    # the log's lines about uprobes begin with trace_kprobe
    uprobes_named_kprobes: bool = gate(
        False, {(4, 14, 0): True, (4, 18, 0): False}, "definitions 4.14 and 4.19: the log of 'p:u /bin:0x10'", TOO_OLD
    )
    # the addresses of probe points are printed hashed
    pointers_hashed: bool = since((4, 15, 0), "commit ad67b74d2469; definitions 3.2: 'p:x 12345'", TOO_OLD)
