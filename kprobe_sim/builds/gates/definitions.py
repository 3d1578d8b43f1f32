"""How a kprobe is defined and deleted: the line, its names, and the probe point."""

from __future__ import annotations

import errno

from kprobe_sim.builds.gates.gate import gate, since, until
from kprobe_sim.builds.gates.question import TOO_OLD, Question, Unasked, definition, refusal, refused_variable, taken

_LONG = "a" * 30 + "=" + "+0(" * 8 + "%di" + ")" * 8


class DefinitionGates:
    """How a kprobe is defined and deleted: the line, its names, and the probe point."""

    # ---- the line ----

    # a delete needs "-" as its very first byte; else blanks may precede it
    delete_is_raw: bool = since(
        (5, 12, 0),
        "commit d262271d0483; definitions 5.10 and 6.1: ' -:foo'",
        Question(
            ("write kprobe_events p:zz/q vfs_read", "write kprobe_events  -:zz/q"),
            "errno",
            {"EINVAL": True, "ok": False},
        ),
    )
    # -:GRP/ deletes a group
    delete_group: bool = since(
        (6, 0, 0),
        "commit 95c104c378dc; definitions 6.1: '-:kprobes/'",
        Question(
            ("write kprobe_events p:zz/q vfs_read", "write kprobe_events -:zz/"), "errno", {"ok": True, "EINVAL": False}
        ),
    )
    # how many characters of a probe's location and arguments a delete compares; None means all
    delete_compares: int | None = gate(
        63,
        {(5, 15, 0): None, (6, 16, 0): 63, (7, 1, 0): None},
        "conformance suite on 5.10 and 6.1: a delete's arguments; answers of 6.12.117 to 7.2.13",
        Question(
            (
                f"write kprobe_events p:zz/q vfs_read {_LONG}",
                f"? write kprobe_events -:zz/q vfs_read {_LONG[:63]}",
                f"? write kprobe_events -:zz/q vfs_read {_LONG}",
            ),
            "errno",
            {"ok ENOENT": 63, "ENOENT ok": None},
        ),
    )
    # p:GRP.EVENT names a group
    dot_separates_group: bool = since(
        (5, 18, 0), "docs/kernel/definitions.md#group-and-event; definitions 6.1: 'p:my.ev'", taken("p:zz.q vfs_read")
    )
    # a group's name may have a hyphen
    hyphen_in_group: bool = since(
        (5, 15, 0),
        "docs/kernel/definitions.md#group-and-event; definitions 6.1: 'p:g-h/ev'",
        taken("p:zz-z/q vfs_read"),
    )
    # p:GRP/ takes the default event name
    empty_event_is_auto: bool = since(
        (6, 0, 0), "commit 95c104c378dc; definitions 6.1: 'p:grp/'", taken("p:zz/ vfs_read")
    )
    # characters of a default event name that become _
    sanitized: str = gate(
        ":.",
        {(6, 5, 0): ":.*"},
        "docs/kernel/definitions.md#default-names",
        Unasked("only an fprobe's probe point can hold a *, and a refused one gives no name"),
    )
    # message id of the refusal of p<digits>
    maxactive_on_probe: str = gate(
        "MAXACT_NO_KPROBE",
        {(6, 5, 0): "BAD_MAXACT_TYPE"},
        "definitions 6.1 and 6.12: 'p10:x'",
        definition(
            "p10:zz/q vfs_read",
            "log",
            {
                "EINVAL Maxactive is not for kprobe @1": "MAXACT_NO_KPROBE",
                "EINVAL Maxactive is only for function exit @1": "BAD_MAXACT_TYPE",
            },
        ),
    )
    # the default maxactive is max(10, 2 * cpus), else cpus
    maxactive_floor: bool = since(
        (5, 11, 0),
        "commit 3b7ddab8a19a; definitions 5.10 (r2:) and 6.1 (r10:)",
        Question(
            ("write kprobe_events r:zz/q vfs_read", "read kprobe_events"), r"^r(10|\d+):zz/q", {"10": True, "1": False}
        ),
    )
    # bytes of a command that error_log shows; None means all
    error_log_command_size: int | None = gate(
        256,
        {(5, 17, 0): None},
        "commit 1581a884b7ca; docs/kernel/errors.md#long-commands",
        Question(
            ("write kprobe_events p:zz/q vfs_read a=%di:nosuch" + " b=%di" * 60, "read error_log"),
            r"a=%di:nosuch(?: b=%di){40}",
            {"none": 256, "match": None},
        ),
    )

    # ---- the probe point ----

    # refusal of an unknown symbol
    unknown_symbol_errno: int = gate(
        errno.ENOENT,
        {(6, 12, 0): errno.EINVAL},
        "definitions 6.1 and 6.12: 'p:x no_such_function_xyz'",
        refusal("p:zz/q no_such_function_xyz", "ENOENT", "EINVAL"),
    )
    # refusal of a symbol that several functions have
    ambiguous_symbol_errno: int = gate(
        errno.EADDRNOTAVAIL,
        {(6, 12, 0): errno.EINVAL},
        "definitions 6.1 and 6.12: 'p:x t_show'",
        refusal("p:zz/q t_show", "EADDRNOTAVAIL", "EINVAL"),
    )
    # MOD:SYM of a loaded module is looked up when the line is read
    module_symbols_counted: bool = since(
        (6, 12, 0),
        "docs/kernel/places.md#symbols-of-modules",
        definition(
            "p:zz/q <module>:no_such_function_xyz",
            "log",
            {"EINVAL Invalid probed address or symbol @7": True, "ENOENT Invalid probed address or symbol @7": False},
        ),
    )
    # symbols of modules make one ambiguous only if vmlinux lacks it
    vmlinux_wins: bool = since(
        (7, 2, 13),
        "trace_kprobe.c 7.2.13: number_of_same_symbols(); docs/kernel/places.md#uniqueness",
        definition(
            "p:zz/q <shared>",
            "log",
            {
                "ok": True,
                "EADDRNOTAVAIL The symbol is not unique @7": False,
                "EINVAL The symbol is not unique @7": False,
            },
        ),
    )
    # refusal of a probe on a breakpoint instruction in the code itself
    int3_errno: int = gate(
        errno.EINVAL,
        {(6, 2, 0): errno.EILSEQ},
        "arch/x86/kernel/kprobes/core.c 6.1 and 6.12",
        refusal("p:zz/q <int3>", "EINVAL", "EILSEQ"),
    )
    # refusal of a far or memory-indirect branch; 0 if it is taken
    unsupported_instruction_errno: int = gate(
        0,
        {
            (5, 10, 0): errno.EINVAL,
            (5, 10, 262): errno.EOPNOTSUPP,
            (5, 11, 0): errno.EINVAL,
            (5, 13, 0): errno.EOPNOTSUPP,
        },
        "commit 6256e668b7af; an iret in guests of 5.4.273 (taken), 5.10.262 (backport), 6.1, 6.12, 7.2 and 7.3",
        definition("p:zz/q <unsupported>", "errno", {"ok": 0, "EINVAL": errno.EINVAL, "EOPNOTSUPP": errno.EOPNOTSUPP}),
    )
    # an ambiguous or unknown symbol is refused before a return probe off the entry
    uniqueness_first: bool = since(
        (6, 12, 0),
        "trace_kprobe.c 6.12.117: validate_probe_symbol(); docs/kernel/definitions.md#order-of-checks",
        definition(
            "r:zz/q t_show+1",
            "log",
            {"EINVAL Retprobe address must be an function entry @7": False, "EINVAL The symbol is not unique @7": True},
        ),
    )
    # registration first asks which symbol covers an address
    looks_up_address: bool = since(
        (5, 18, 0),
        "definitions 5.10 and 6.1: 'p:x 12345', 'p:x 0xffffffffffffffff'",
        definition("p:zz/q 12345", "log", {"ok": True, "EINVAL Failed to register probe event @7": False}),
    )
    # $argN off the entry has its own message
    names_missing_entry: bool = since(
        (6, 9, 0),
        "definitions 6.1 and 6.12: 'p:x do_sys_openat2+5 a=$arg1'",
        definition(
            "p:zz/q vfs_read+1 a=$arg1",
            "log",
            {
                "EINVAL $arg* can be used only on function entry or exit @20": True,
                **refused_variable("EINVAL {} @20", False),
            },
        ),
    )
    # entries may start with ENDBR: probes go after it
    endbr: bool = since(
        (6, 12, 0),
        "docs/kernel/places.md#endbr (CONFIG_X86_KERNEL_IBT of the recorded builds)",
        taken("r:zz/q __x64_sys_openat+4"),
    )
    # the address _end still belongs to the kernel
    end_is_inside: bool = until(
        (5, 16, 0),
        "kallsyms.c 6.1.190: is_ksym_addr(); guests 5.10 and 6.1: 'r _end'",
        definition(
            "r:zz/q _end",
            "log",
            {
                "EINVAL Failed to register probe event @7": True,
                "ENOENT Invalid probed address or symbol @7": False,
                "EINVAL Invalid probed address or symbol @7": False,
            },
        ),
    )

    # ---- before 5.10 ----

    # the most characters of an event's name
    name_size: int = gate(64, {(5, 10, 0): 63}, "definitions 5.4 and 5.10: a name of 64 letters", TOO_OLD)
    # the symbol of a location is looked up before the rest is read; one that several functions have is refused
    symbols_counted: bool = since((5, 10, 0), "definitions 5.4 and 5.10: 'p:x s_show', 'p ev do_sys_open'", TOO_OLD)
    # a location may end in %return
    percent_return: bool = since((5, 10, 0), "definitions 5.4 and 5.10: 'p:x do_sys_open%return'", TOO_OLD)
