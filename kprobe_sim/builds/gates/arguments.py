"""Fetch arguments: how they are written and refused, and what they read."""

from __future__ import annotations

import errno

from kprobe_sim.builds.gates.gate import gate, since, until
from kprobe_sim.builds.gates.question import (
    ABSENT,
    ENABLE,
    OPEN,
    TOO_OLD,
    TRACE,
    Question,
    Unasked,
    definition,
    refusal,
    refused_variable,
    taken,
)

_FETCH = "EINVAL Invalid fetch argument @18"
_NO_BTF = "BTF is not available or not supported"
_CAST = "EINVAL Typecasts are only for eprobe fields @18"


class ArgumentGates:
    """Fetch arguments: how they are written and refused, and what they read."""

    # ---- how an argument is written ----

    # \" alone is an empty string
    lone_quote_is_empty: bool = gate(
        False,
        {(6, 16, 0): True, (6, 19, 0): False},
        "guests of 6.12.117, 6.16.12 to 6.18.15, 6.19.14 and 7.0.13: 'p:q vfs_read a=\\\\\"'",
        taken('p:zz/q vfs_read a=\\"'),
    )
    # the longest argument, in bytes
    argument_size: int = gate(
        63,
        {(7, 3, 0): 255},
        "docs/kernel/arguments.md#length-of-an-argument",
        definition("p:zz/q vfs_read a=+" + "0" * 80 + "(%di)", "errno", {"ok": 255, "EINVAL": 63, "E2BIG": 63}),
    )
    # refusal of a longer argument
    argument_size_errno: int = gate(
        errno.EINVAL,
        {(6, 12, 0): errno.E2BIG},
        "definitions 6.1 and 6.12",
        refusal("p:zz/q vfs_read a=+" + "0" * 300 + "(%di)", "EINVAL", "E2BIG"),
    )
    # refusal of an array when no instruction is left for its loop
    array_room_errno: int = gate(
        errno.EINVAL,
        {(6, 12, 0): errno.E2BIG},
        "trace_probe.c 6.1.190 and 6.12.117: LP_ARRAY",
        definition(
            "p:zz/q vfs_read a=" + "+0(" * 13 + "@0" + ")" * 13 + ":u8[4]",
            "log",
            {
                "EINVAL Dereference is too much nested @18": errno.EINVAL,
                "EINVAL Dereference is too much nested @21": errno.EINVAL,
                "E2BIG Dereference is too much nested @21": errno.E2BIG,
                "E2BIG Too many nested typecasts/dereferences @42": errno.E2BIG,  # no array is reached
            },
        ),
    )
    # message id of the refusal of more than 128 arguments; if None, the kernel drops those beyond
    too_many_arguments: str | None = gate(
        None,
        {(6, 12, 0): "TOO_MANY_ARGS_UNLOGGED", (6, 16, 0): "TOO_MANY_ARGS"},
        "definitions 6.1, 6.12 and 7.2 with 129 arguments",
        definition(
            "p:zz/q vfs_read" + " %di" * 129,
            "log",
            {
                "ok": None,
                "E2BIG": "TOO_MANY_ARGS_UNLOGGED",
                "E2BIG Too many arguments are specified @16": "TOO_MANY_ARGS",
            },
        ),
    )
    # message id of the refusal of $comm with a type other than string
    string_type_message: str = gate(
        "NEED_STRING_TYPE_UNLOGGED",
        {(6, 7, 0): "NEED_STRING_TYPE"},
        "definitions 6.1 and 6.12: '$comm:u32'",
        definition(
            "p:zz/q vfs_read a=$comm:u32",
            "log",
            {
                "EINVAL": "NEED_STRING_TYPE_UNLOGGED",
                "EINVAL $comm and immediate-string only accepts string type @24": "NEED_STRING_TYPE",
            },
        ),
    )
    # a return probe can have $argN
    entry_arguments_at_return: bool = since(
        (6, 9, 0), "docs/kernel/arguments.md#argn", taken("r:zz/q vfs_read a=$arg1")
    )
    # refusal of $stack with a number that is too large
    variable_overflow_errno: int = gate(
        errno.EINVAL,
        {(7, 3, 0): errno.ERANGE},
        "fixtures/definitions/observed.jsonl: '$stack99999999999999999999'",
        refusal("p:zz/q vfs_read a=$stack99999999999999999999", "EINVAL", "ERANGE"),
    )
    # an event whose fixed fields take more than 3072 bytes is refused
    event_size_limited: bool = gate(
        True,
        {(6, 16, 0): False, (7, 0, 0): True},
        "definitions 6.1 to 7.3, answers of 6.16.12 to 7.0.13: nine arrays u64[64]",
        definition(
            "p:zz/q vfs_read" + "".join(f" a{number}=+0(%si):u64[64]" for number in range(9)),
            "log",
            {
                "ok": False,
                "E2BIG Event too big (too many fields?) @133": True,
                "E2BIG Event too big (too many fields?) @136": True,
            },
        ),
    )
    # text of the refusal of $ with a word that isn't a variable
    variable_text: str = gate(
        "Invalid $-variable specified",
        {(6, 16, 0): "Invalid $-valiable specified", (7, 1, 0): "Invalid $-variable specified"},
        "answers of 6.12.117, 6.16.12 to 7.0.13 and 7.1.13: 'p:q vfs_read a=$nosuch'",
        definition(
            "p:zz/q vfs_read a=$nosuch",
            "log",
            {f"EINVAL {text} @18": text for text in ("Invalid $-variable specified", "Invalid $-valiable specified")},
        ),
    )
    # message id of the refusal of $arg0
    zero_argument: str = gate(
        "BAD_ARG_NUM",
        {(6, 16, 0): "NO_BTF_ENTRY", (7, 1, 0): "BAD_ARG_NUM"},
        "answers of 6.12.117, 6.16.12 to 7.0.13 and 7.1.13: 'p:q vfs_read $arg0'",
        definition(
            "p:zz/q vfs_read $arg0",
            "log",
            {
                "EINVAL Invalid argument number @16": "BAD_ARG_NUM",
                "ENOENT No BTF entry for this probe point @16": "NO_BTF_ENTRY",
            },
        ),
    )
    # BTF gives names and types of parameters, and types of return values
    btf: bool = since(
        (6, 5, 0),
        "docs/kernel/arguments.md#names-of-parameters",
        definition("p:zz/q vfs_read a=file", "log", {"ok": True, f"EINVAL {_NO_BTF} @18": True, _FETCH: False}),
    )
    # (TYPE) is known, but only in event probes
    event_typecasts: bool = gate(
        False,
        {(7, 1, 0): True, (7, 3, 0): False},
        "trace_probe.c 7.2.13: handle_typecast(); docs/kernel/arguments.md#typecasts",
        definition("p:zz/q vfs_read a=(file)$arg1->f_flags", "log", {_CAST: True, "ok": False, _FETCH: False}),
    )
    # (TYPE)X->FIELD, this_cpu_ptr(X) and this_cpu_read(X) are known
    typecasts: bool = since(
        (7, 3, 0),
        "trace_probe.c 7.3: parse_probe_arg_nested(); fixtures/definitions/observed.jsonl",
        definition("p:zz/q vfs_read a=(file)$arg1->f_flags", "log", {"ok": True, _CAST: False, _FETCH: False}),
    )
    # $current and its fields are known
    current: bool = since(
        (7, 3, 0),
        "trace_probe.c 7.3: parse_probe_var_current(); fixtures/definitions/observed.jsonl",
        definition("p:zz/q vfs_read a=$current:u64", "log", {"ok": True, **refused_variable("EINVAL {} @18", False)}),
    )
    # the caret of an error after C fields is relative to the last field
    field_caret: bool = since(
        (7, 3, 0),
        "trace_probe.c 7.2.13 and 7.3: `next - fieldname` in parse_btf_field()",
        Question(
            ("write kprobe_events p:zz/q vfs_read a=file->f_flags:b99@0/32", "read error_log"),
            r"f_flags:b99@0/32\n {49}\^",
            {"match": True, "none": False},  # up to 7.2 it is elsewhere, at a column without meaning
        ),
    )
    # $arg* of a function unknown to BTF is refused a second time, as a variable
    unknown_parameters_go_on: bool = gate(
        False,
        {(6, 16, 0): True, (7, 2, 0): False, (7, 3, 0): True},
        "trace_probe.c 7.3: traceprobe_expand_meta_args(); fixtures/definitions/observed.jsonl: 'p:v schedule $arg*'",
        definition(
            "p:zz/q schedule $arg*",
            "log",
            {
                **refused_variable(f"EINVAL {_NO_BTF} @16 {{}} @16", True),
                f"EOPNOTSUPP {_NO_BTF} @16": False,
                **refused_variable("EINVAL {} @16", False),
            },
        ),
    )
    # the caret of an error after the expression is right of its outermost dereference
    caret_shift: bool = since(
        (6, 5, 0),
        "docs/kernel/types.md#caret-of-a-type",
        definition(
            "p:zz/q vfs_read a=+0(%di):b9@0/8",
            "log",
            {"EINVAL Invalid bitfield @26": False, "EINVAL Invalid bitfield @29": True},
        ),
    )
    # the most expressions around another; None if they have no separate limit
    nesting: int | None = gate(
        None,
        {(7, 3, 0): 8},
        "trace_probe.h 7.3: TRACEPROBE_MAX_NESTED_LEVEL",
        definition(
            "p:zz/q vfs_read a=" + "+0(" * 9 + "%di" + ")" * 9,
            "log",
            {"ok": None, "E2BIG Too many nested typecasts/dereferences @42": 8},
        ),
    )
    # the type symstr
    symstr: bool = since(
        (6, 1, 190), "docs/kernel/types.md#symstr (6.2, and 6.1.190 by backport)", taken("p:zz/q vfs_read a=%di:symstr")
    )
    # the type char
    char: bool = since((6, 2, 0), "docs/kernel/types.md#char", taken("p:zz/q vfs_read a=%di:char"))
    # the types %pd and %pD
    dentry_types: bool = since((6, 10, 0), "docs/kernel/types.md#names-of-dentries", taken("p:zz/q vfs_read a=%di:%pd"))
    # offset of the name in a dentry, and of the dentry in a file
    dentry_offsets: tuple[int, int] = gate(
        (0x28, 0x48),
        {},
        "definitions 6.12 to 7.3: '%si:%pD'; an RT kernel of 6.12.117 0x38 and 0x68",
        Question(
            ("write kprobe_events p:zz/q vfs_read a=%di:%pD", "read kprobe_events"),
            r" a=\+0x0\(\+(0x\w+)\(\+(0x\w+)\(%di\)\)\):string",
            {"none": ABSENT, "0x28,0x48": (0x28, 0x48), "0x38,0x68": (0x38, 0x68)},
        ),
    )
    # text of the refusal of @+OFFSET in a kprobe
    file_offset_text: str = gate(
        "File offset is not available with kprobe",
        {(7, 3, 0): "File offset is not available for kernel probes"},
        "docs/kernel/errors.md#texts-of-probes",
        definition(
            "p:zz/q vfs_read a=@+0",
            "log",
            {
                f"EINVAL {text} @18": text
                for text in (
                    "File offset is not available with kprobe",
                    "File offset is not available for kernel probes",
                )
            },
        ),
    )

    # ---- what is read ----

    # ustring of an empty string is a fault
    empty_user_string_is_fault: bool = gate(
        False,
        {(5, 10, 0): True, (6, 16, 0): False},
        "recorded traces 4.19, 5.10, 6.1, 6.12, 6.19: an empty path",
        Question(
            ("write kprobe_events p:zz/q <open> a=+0(%si):ustring", ENABLE, "open ", *TRACE),
            r"workload-.* a=(.*)\n",
            {"(fault)": True, '""': False},
        ),
    )
    # a number at an unreadable kernel address is "zero", "one" or the address of the "task"
    failed_kernel_read: str = gate(
        "zero",
        {(6, 1, 0): "task", (6, 12, 0): "one"},
        "guests 5.10 to 7.3: 'a=@0xffffffffffe00000:x64'; __get_kernel_nofault() of 5.10 stores what its fixup made"
        " zero, later ones what the register held: `current`, or the count of disabled page faults",
        Question(
            ("write kprobe_events p:zz/q <open> a=@0xffffffffffe00000:x64", ENABLE, "open ", *TRACE),
            r"workload-.* a=0x(0|1|ffff8)",
            {"0": "zero", "1": "one", "ffff8": "task"},
        ),
    )
    # an unreadable string in an array keeps the room that was set aside for it
    failed_element_keeps_room: bool = until(
        (5, 15, 0),
        "campaign 5.10, 6.1: '+0(%si):string[2]'",
        Question(  # the pointer is the first 8 letters of a path, and the room holds what follows
            ("write kprobe_events p:zz/q <open> a=+0(%si):string[1] b=$comm", ENABLE, OPEN, *TRACE),
            r"workload-.* a=\{(.*)\} b=\"workload\"",
            {'"workload"': True, "(fault)": False},
        ),
    )
    # how faults of a probe's reads count as misses: a name of `BY_RULE`, or "" if they don't
    read_faults: str = gate(
        "",
        {(4, 19, 0): "4.19", (4, 20, 0): "", (5, 10, 0): "5.10", (5, 14, 0): ""},
        "guests of 4.19.108 and 5.10.262: kprobe_profile after 'a=@0x20000000:u64' and 60 more; commit ec6aba3d2be1."
        " Others before 5.14 count them, too, but weren't asked how many",
        Unasked("kprobe_profile counts what all tasks hit, so the misses of one hit can't be told apart"),
    )

    # ---- before 5.10 ----

    # the variable $comm
    comm_variable: bool = since((4, 8, 0), "commit 35abb67de744; definitions 4.4 and 4.19: 'a=$comm'", TOO_OLD)
    # $COMM is $comm
    capital_comm: bool = since((5, 4, 273), "definitions 4.19 and 5.4: 'a=$COMM'", TOO_OLD)
    # string reads a user address as ustring does
    strings_told_apart: bool = since(
        (5, 10, 0), "recorded traces 5.4 and 5.10: 's=+0(%si):string' of an empty path", TOO_OLD
    )
    # an unreadable string is "empty" or a "fault"
    unreadable_string: str = gate("empty", {(4, 3, 0): "fault"}, "recorded traces 3.13 and 4.4: t_ustr", TOO_OLD)
    # a uprobe can fetch more than registers
    uprobe_memory: bool = since((3, 14, 0), "definitions 3.13 and 4.4: 'p:u /bin/busybox:0x1000 $stack0'", TOO_OLD)
    # bytes of an unsigned long: 4 on i386, of which only definitions are known
    word_size: int = gate(
        8,
        {},
        "a profile of i386 answers 4: replays/seeds/wind-river/01-definitions; unsigned long in arch/x86 of 3.13",
        TOO_OLD,
    )
