"""Questions about the lines that define probes: names, places, arguments, and how they are refused."""

from __future__ import annotations

import errno
from typing import Any

from kprobe_sim.builds.questions.question import ABSENT, Question, Unasked, refused_variable

_FETCH = "EINVAL Invalid fetch argument @18"
_NO_BTF = "BTF is not available or not supported"
_CAST = "EINVAL Typecasts are only for eprobe fields @18"
_SYMBOL = "Invalid probed address or symbol"
_LONG = "a" * 30 + "=" + "+0(" * 8 + "%di" + ")" * 8


def _defined(row: str, line: str, look: str, values: dict[str, Any]) -> Question:
    return Question(row, (f"write kprobe_events {line}",), look, values)


def _errno(row: str, line: str, *names: str) -> Question:
    """Return the question whose answer is the errno of a refused line."""
    return _defined(row, line, "errno", {name: getattr(errno, name) for name in names})


def _offered(row: str, line: str) -> Question:
    """Return the question whether a line is taken or EINVAL."""
    return _defined(row, line, "errno", {"ok": True, "EINVAL": False})


QUESTIONS = (
    Question(
        "delete_is_raw",
        ("write kprobe_events p:zz/q vfs_read", "write kprobe_events  -:zz/q"),
        "errno",
        {"EINVAL": True, "ok": False},
    ),
    Question(
        "delete_group",
        ("write kprobe_events p:zz/q vfs_read", "write kprobe_events -:zz/"),
        "errno",
        {"ok": True, "EINVAL": False},
    ),
    _offered("lone_quote_is_empty", 'p:zz/q vfs_read a=\\"'),
    Question(
        "delete_compares",
        (
            f"write kprobe_events p:zz/q vfs_read {_LONG}",
            f"? write kprobe_events -:zz/q vfs_read {_LONG[:63]}",
            f"? write kprobe_events -:zz/q vfs_read {_LONG}",
        ),
        "errno",
        {"ok ENOENT": 63, "ENOENT ok": None},
    ),
    _offered("dot_separates_group", "p:zz.q vfs_read"),
    _offered("hyphen_in_group", "p:zz-z/q vfs_read"),
    _offered("empty_event_is_auto", "p:zz/ vfs_read"),
    _defined(
        "maxactive_on_probe",
        "p10:zz/q vfs_read",
        "log",
        {
            "EINVAL Maxactive is not for kprobe @1": "MAXACT_NO_KPROBE",
            "EINVAL Maxactive is only for function exit @1": "BAD_MAXACT_TYPE",
        },
    ),
    _errno("unknown_symbol_errno", "p:zz/q no_such_function_xyz", "ENOENT", "EINVAL"),
    _errno("ambiguous_symbol_errno", "p:zz/q t_show", "EADDRNOTAVAIL", "EINVAL"),
    _defined(
        "module_symbols_counted",
        "p:zz/q <module>:no_such_function_xyz",
        "log",
        {"EINVAL Invalid probed address or symbol @7": True, "ENOENT Invalid probed address or symbol @7": False},
    ),
    _defined(
        "vmlinux_wins",
        "p:zz/q <shared>",
        "log",
        {
            "ok": True,
            "EADDRNOTAVAIL The symbol is not unique @7": False,
            "EINVAL The symbol is not unique @7": False,
        },
    ),
    _errno("int3_errno", "p:zz/q <int3>", "EINVAL", "EILSEQ"),
    _defined(
        "unsupported_instruction_errno",
        "p:zz/q <unsupported>",
        "errno",
        {"ok": 0, "EINVAL": errno.EINVAL, "EOPNOTSUPP": errno.EOPNOTSUPP},
    ),
    _defined(
        "uniqueness_first",
        "r:zz/q t_show+1",
        "log",
        {
            "EINVAL Retprobe address must be an function entry @7": False,
            "EINVAL The symbol is not unique @7": True,
        },
    ),
    _defined(
        "looks_up_address",
        "p:zz/q 12345",
        "log",
        {"ok": True, "EINVAL Failed to register probe event @7": False},
    ),
    _defined(
        "names_missing_entry",
        "p:zz/q vfs_read+1 a=$arg1",
        "log",
        {
            "EINVAL $arg* can be used only on function entry or exit @20": True,
            **refused_variable("EINVAL {} @20", False),
        },
    ),
    _offered("endbr", "r:zz/q __x64_sys_openat+4"),
    _defined(
        "argument_size", "p:zz/q vfs_read a=+" + "0" * 80 + "(%di)", "errno", {"ok": 255, "EINVAL": 63, "E2BIG": 63}
    ),
    _errno("argument_size_errno", "p:zz/q vfs_read a=+" + "0" * 300 + "(%di)", "EINVAL", "E2BIG"),
    _defined(
        "array_room_errno",
        "p:zz/q vfs_read a=" + "+0(" * 13 + "@0" + ")" * 13 + ":u8[4]",
        "log",
        {
            "EINVAL Dereference is too much nested @18": errno.EINVAL,
            "EINVAL Dereference is too much nested @21": errno.EINVAL,
            "E2BIG Dereference is too much nested @21": errno.E2BIG,
            "E2BIG Too many nested typecasts/dereferences @42": errno.E2BIG,  # so far no array comes
        },
    ),
    _defined(
        "too_many_arguments",
        "p:zz/q vfs_read" + " %di" * 129,
        "log",
        {
            "ok": None,
            "E2BIG": "TOO_MANY_ARGS_UNLOGGED",
            "E2BIG Too many arguments are specified @16": "TOO_MANY_ARGS",
        },
    ),
    _defined(
        "string_type_message",
        "p:zz/q vfs_read a=$comm:u32",
        "log",
        {
            "EINVAL": "NEED_STRING_TYPE_UNLOGGED",
            "EINVAL $comm and immediate-string only accepts string type @24": "NEED_STRING_TYPE",
        },
    ),
    _offered("entry_arguments_at_return", "r:zz/q vfs_read a=$arg1"),
    _errno("variable_overflow_errno", "p:zz/q vfs_read a=$stack99999999999999999999", "EINVAL", "ERANGE"),
    _defined(
        "event_size_limited",
        "p:zz/q vfs_read" + "".join(f" a{number}=+0(%si):u64[64]" for number in range(9)),
        "log",
        {
            "ok": False,
            "E2BIG Event too big (too many fields?) @133": True,
            "E2BIG Event too big (too many fields?) @136": True,
        },
    ),
    _defined(
        "variable_text",
        "p:zz/q vfs_read a=$nosuch",
        "log",
        {f"EINVAL {text} @18": text for text in ("Invalid $-variable specified", "Invalid $-valiable specified")},
    ),
    _defined(
        "zero_argument",
        "p:zz/q vfs_read $arg0",
        "log",
        {
            "EINVAL Invalid argument number @16": "BAD_ARG_NUM",
            "ENOENT No BTF entry for this probe point @16": "NO_BTF_ENTRY",
        },
    ),
    _defined(
        "btf",
        "p:zz/q vfs_read a=file",
        "log",
        {"ok": True, f"EINVAL {_NO_BTF} @18": True, _FETCH: False},
    ),
    _defined(
        "event_typecasts", "p:zz/q vfs_read a=(file)$arg1->f_flags", "log", {_CAST: True, "ok": False, _FETCH: False}
    ),
    _defined("typecasts", "p:zz/q vfs_read a=(file)$arg1->f_flags", "log", {"ok": True, _CAST: False, _FETCH: False}),
    _defined(
        "current", "p:zz/q vfs_read a=$current:u64", "log", {"ok": True, **refused_variable("EINVAL {} @18", False)}
    ),
    Question(
        "field_caret",
        ("write kprobe_events p:zz/q vfs_read a=file->f_flags:b99@0/32", "read error_log"),
        r"f_flags:b99@0/32\n {49}\^",
        {"match": True, "none": False},  # elsewhere up to 7.2, at a column that means nothing
    ),
    _defined(
        "unknown_parameters_go_on",
        "p:zz/q schedule $arg*",
        "log",
        {
            **refused_variable(f"EINVAL {_NO_BTF} @16 {{}} @16", True),
            f"EOPNOTSUPP {_NO_BTF} @16": False,
            **refused_variable("EINVAL {} @16", False),
        },
    ),
    _defined(
        "caret_shift",
        "p:zz/q vfs_read a=+0(%di):b9@0/8",
        "log",
        {"EINVAL Invalid bitfield @26": False, "EINVAL Invalid bitfield @29": True},
    ),
    _defined(
        "nesting",
        "p:zz/q vfs_read a=" + "+0(" * 9 + "%di" + ")" * 9,
        "log",
        {"ok": None, "E2BIG Too many nested typecasts/dereferences @42": 8},
    ),
    _offered("symstr", "p:zz/q vfs_read a=%di:symstr"),
    _offered("char", "p:zz/q vfs_read a=%di:char"),
    _offered("dentry_types", "p:zz/q vfs_read a=%di:%pd"),
    Question(
        "dentry_offsets",
        ("write kprobe_events p:zz/q vfs_read a=%di:%pD", "read kprobe_events"),
        r" a=\+0x0\(\+(0x\w+)\(\+(0x\w+)\(%di\)\)\):string",
        {"none": ABSENT, "0x28,0x48": (0x28, 0x48), "0x38,0x68": (0x38, 0x68)},
    ),
    _defined(
        "file_offset_text",
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
    Question(
        "error_log_command_size",
        ("write kprobe_events p:zz/q vfs_read a=%di:nosuch" + " b=%di" * 60, "read error_log"),
        r"a=%di:nosuch(?: b=%di){40}",
        {"none": 256, "match": None},
    ),
    _defined(
        "end_is_inside",
        "r:zz/q _end",
        "log",
        {
            "EINVAL Failed to register probe event @7": True,
            "ENOENT Invalid probed address or symbol @7": False,
            "EINVAL Invalid probed address or symbol @7": False,
        },
    ),
)

UNASKED = (
    Unasked("sanitized", "only the place of an fprobe can hold a *, and no name is made of one that is refused"),
)
