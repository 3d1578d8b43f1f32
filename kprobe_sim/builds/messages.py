"""The texts of the kernel's probe errors, by the symbolic ids that the code uses.

Which ids a kernel can give follows from the rules (and so from `gates`); the texts are one table because they don't
change between the recorded builds, with the exceptions at the end.  Source: recorded error_log texts (5.10.262,
6.1.190, 6.12.117, 7.3.4); docs/kernel/errors.md#texts-of-probes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kprobe_sim.builds.gates import Gates

MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "ARGIDX_2BIG": "$argN index is too big",
        "ARGS_2LONG": "$arg* failed because the argument list is too long",
        "ARG_NAME_TOO_LONG": "Argument name is too long",
        "ARG_TOO_LONG": "Argument expression is too long",
        "ARRAY_NO_CLOSE": "Array is not closed",
        "ARRAY_TOO_BIG": "Array number is too big",
        "BAD_ADDR_SUFFIX": "Invalid probed address suffix",
        "BAD_ARG_NAME": "Argument name must follow the same rules as C identifiers",
        "BAD_ARG_NUM": "Invalid argument number",
        "BAD_ARRAY_NUM": "Invalid array size",
        "BAD_ARRAY_SUFFIX": "Array has wrong suffix",
        "BAD_ATTACH_ARG": "Attached event does not have this field",
        "BAD_ATTACH_EVENT": "Attached event does not exist",
        "BAD_BITFIELD": "Invalid bitfield",
        "BAD_BTF_TID": "Failed to get BTF type info.",
        "BAD_DEREF_OFFS": "Invalid dereference offset",
        "BAD_EVENT_NAME": "Event name must follow the same rules as C identifiers",
        "BAD_FETCH_ARG": "Invalid fetch argument",
        "BAD_FILE_OFFS": "Invalid file offset value",
        "BAD_GROUP_NAME": "Group name must follow the same rules as C identifiers",
        "BAD_HYPHEN": "Failed to parse single hyphen. Forgot '>'?",
        "BAD_IMM": "Invalid immediate value",
        "BAD_INSN_BNDRY": "Probe point is not an instruction boundary",
        "BAD_MAXACT": "Invalid maxactive number",
        "BAD_MAXACT_TYPE": "Maxactive is only for function exit",
        "BAD_MEM_ADDR": "Invalid memory address",
        "BAD_PROBE_ADDR": "Invalid probed address or symbol",
        "BAD_REFCNT": "Invalid reference counter offset",
        "BAD_REFCNT_SUFFIX": "Reference counter has wrong suffix",
        "BAD_REG_NAME": "Invalid register name",
        "BAD_RETPROBE": "Retprobe address must be an function entry",
        "BAD_STACK_NUM": "Invalid stack number",
        "BAD_STRING": "String accepts only memory argument",
        "BAD_SYMSTRING": "Symbol String doesn't accept data/userdata",
        "BAD_TP_NAME": "Invalid character in tracepoint name",
        "BAD_TYPE": "Unknown type is specified",
        "BAD_TYPE4STR": "This type does not fit for string.",
        "BAD_UPROBE_OFFS": "Invalid uprobe offset",
        "BAD_VAR": "Invalid $-variable specified",
        "BAD_VAR_ARGS": "$arg* must be an independent parameter without name etc.",
        "COMM_CANT_DEREF": "$comm can not be dereferenced",
        "DEREF_NEED_BRACE": "Dereference needs a brace",
        "DEREF_OPEN_BRACE": "Dereference brace is not closed",
        "DIFF_ARG_TYPE": "Argument type or name is different from existing probe",
        "DIFF_PROBE_TYPE": "Probe type is different from existing probe",
        "DOUBLE_ARGS": "$arg* can be used only once in the parameters",
        "EVENT_EXIST": "Given group/event name is already used by another event",
        "EVENT_TOO_BIG": "Event too big (too many fields?)",
        "EVENT_TOO_LONG": "Event name is too long",
        "FAIL_REG_PROBE": "Failed to register probe event",
        "FILE_NOT_FOUND": "Failed to find the given file",
        "FILE_ON_KPROBE": "File offset is not available with kprobe",
        "GROUP_TOO_LONG": "Group name is too long",
        "IMMSTR_NO_CLOSE": "String is not closed with '\"'",
        "MAXACT_NO_KPROBE": "Maxactive is not for kprobe",
        "MAXACT_TOO_BIG": "Maxactive is too big",
        "NEED_STRING_TYPE": "$comm and immediate-string only accepts string type",
        "NOFENTRY_ARGS": "$arg* can be used only on function entry or exit",
        "NON_UNIQ_SYMBOL": "The symbol is not unique",
        "NOSUP_BTFARG": "BTF is not available or not supported",
        "NOSUP_DAT_ARG": "Non pointer structure/union argument is not supported.",
        "NOSUP_PERCPU": "Per-cpu variable access is only for kernel probes",
        "NO_ARG_BODY": "No argument expression",
        "NO_ARG_NAME": "Argument name is not specified",
        "NO_BTFARG": "This variable is not found at this probe point",
        "NO_BTF_ENTRY": "No BTF entry for this probe point",
        "NO_BTF_FIELD": "This field is not found.",
        "NO_EP_FILTER": "No filter rule after 'if'",
        "NO_EVENT_FIELD": "This event field is not found.",
        "NO_EVENT_INFO": "This requires both group and event name to attach",
        "NO_EVENT_NAME": "Event name is not specified",
        "NO_GROUP_NAME": "Group name is not specified",
        "NO_PTR_STRCT": "This is not a pointer to union/structure.",
        "NO_REGULAR_FILE": "Not a regular file",
        "NO_RETVAL": "This function returns 'void' type",
        "NO_TRACEPOINT": "Tracepoint is not found",
        "REFCNT_OPEN_BRACE": "Reference counter brace is not closed",
        "RETVAL_ON_PROBE": "$retval is not available on probe",
        "SAME_PROBE": "There is already the exact same probe event",
        "SYM_ON_UPROBE": "Symbol is not available with uprobe",
        "TOO_MANY_ARGS": "Too many arguments are specified",
        "TOO_MANY_EARGS": "Too many entry arguments specified",
        "TOO_MANY_NESTED": "Too many nested typecasts/dereferences",
        "TOO_MANY_OPS": "Dereference is too much nested",
        "TYPECAST_BAD_ARROW": "Typecast field option does not support -> operator",
        "TYPECAST_NOT_ALIGNED": "Typecast field option is not byte-aligned",
        "TYPECAST_NOT_EVENT": "Typecasts are only for eprobe fields",
        "TYPECAST_REQ_FIELD": "Typecast requires a field access",
        "TYPECAST_SYM_OFFSET": "@SYM+/-OFFSET with typecast needs parentheses",
        "USED_ARG_NAME": "This argument name is already used",
    }
)


def message_text(message: str, gates: Gates) -> str:
    """Return the text of a message id as this kernel words it."""
    if message == "FILE_ON_KPROBE":
        return gates.file_offset_text
    return MESSAGES[message]
