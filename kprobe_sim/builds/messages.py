"""The kernel's refusals of lines that define dynamic events: errno and text, by the symbolic ids used in the code.

A raise names the id; the kernel's answer is looked up here.  The rules, and so `gates`, tell which ids a kernel can
give.  Source: recorded answers of 5.10 to 7.3 (fixtures/definitions, fixtures/kinds);
docs/kernel/errors.md#texts-of-probes.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kprobe_sim.builds.gates import Gates

Errno = int | Callable[[Gates], int] | None
Wording = str | Callable[[Gates], str] | None

_BAD_ATTACH_ARG = "Attached event does not have this field"
_BAD_PROBE_ADDR = "Invalid probed address or symbol"
_NOSUP_BTFARG = "BTF is not available or not supported"
_TOO_MANY_OPS = "Dereference is too much nested"


def _bad_variable(gates: Gates) -> str:
    return gates.variable_text


# An errno is what write(2) gives, or the gate that has it; None means the errno of the step that failed, such as
# reading a number or looking up a symbol, which the raise passes on.  A text is what error_log shows; if it is None,
# nothing is logged.
# An id that extends another one is the same message with another errno.
REFUSALS: Mapping[str, tuple[Errno, Wording]] = MappingProxyType(
    {
        # probes: the kernel's ids (enum probe_log_err)
        "ARGS_2LONG": (errno.E2BIG, "$arg* failed because the argument list is too long"),
        "ARG_NAME_TOO_LONG": (errno.EINVAL, "Argument name is too long"),
        "ARG_TOO_LONG": (lambda gates: gates.argument_size_errno, "Argument expression is too long"),
        "ARRAY_NO_CLOSE": (errno.EINVAL, "Array is not closed"),
        "ARRAY_TOO_BIG": (errno.EINVAL, "Array number is too big"),
        "BAD_ADDR_SUFFIX": (errno.EINVAL, "Invalid probed address suffix"),
        "BAD_ARG_NAME": (errno.EINVAL, "Argument name must follow the same rules as C identifiers"),
        "BAD_ARG_NUM": (errno.EINVAL, "Invalid argument number"),
        "BAD_ARRAY_NUM": (errno.EINVAL, "Invalid array size"),
        "BAD_ARRAY_SUFFIX": (errno.EINVAL, "Array has wrong suffix"),
        "BAD_ATTACH_ARG": (errno.EINVAL, _BAD_ATTACH_ARG),
        # the field is looked up after the rest of its argument
        "BAD_ATTACH_ARG_LATE": (errno.ENOENT, _BAD_ATTACH_ARG),
        "BAD_ATTACH_EVENT": (errno.ENODEV, "Attached event does not exist"),
        "BAD_BITFIELD": (errno.EINVAL, "Invalid bitfield"),
        "BAD_BTF_TID": (errno.EINVAL, "Failed to get BTF type info."),
        "BAD_DEREF_OFFS": (None, "Invalid dereference offset"),
        "BAD_EVENT_NAME": (errno.EINVAL, "Event name must follow the same rules as C identifiers"),
        "BAD_FETCH_ARG": (errno.EINVAL, "Invalid fetch argument"),
        "BAD_FILE_OFFS": (None, "Invalid file offset value"),
        "BAD_GROUP_NAME": (errno.EINVAL, "Group name must follow the same rules as C identifiers"),
        "BAD_HYPHEN": (errno.EINVAL, "Failed to parse single hyphen. Forgot '>'?"),
        "BAD_IMM": (None, "Invalid immediate value"),
        "BAD_INSN_BNDRY": (errno.EILSEQ, "Probe point is not an instruction boundary"),
        "BAD_MAXACT": (errno.EINVAL, "Invalid maxactive number"),
        "BAD_MAXACT_TYPE": (errno.EINVAL, "Maxactive is only for function exit"),
        "BAD_MEM_ADDR": (None, "Invalid memory address"),
        "BAD_PROBE_ADDR": (errno.EINVAL, _BAD_PROBE_ADDR),
        # what registration finds
        "BAD_PROBE_ADDR_REG": (errno.ENOENT, _BAD_PROBE_ADDR),
        # a symbol that the kernel looks up before that, and doesn't find
        "BAD_PROBE_ADDR_SYMBOL": (lambda gates: gates.unknown_symbol_errno, _BAD_PROBE_ADDR),
        "BAD_REFCNT": (None, "Invalid reference counter offset"),
        "BAD_REFCNT_SUFFIX": (errno.EINVAL, "Reference counter has wrong suffix"),
        "BAD_REG_NAME": (errno.EINVAL, "Invalid register name"),
        "BAD_RETPROBE": (errno.EINVAL, "Retprobe address must be an function entry"),
        "BAD_STACK_NUM": (errno.EINVAL, "Invalid stack number"),
        "BAD_STRING": (errno.EINVAL, "String accepts only memory argument"),
        "BAD_SYMSTRING": (errno.EINVAL, "Symbol String doesn't accept data/userdata"),
        "BAD_TP_NAME": (errno.EINVAL, "Invalid character in tracepoint name"),
        "BAD_TYPE": (errno.EINVAL, "Unknown type is specified"),
        "BAD_TYPE4STR": (errno.EINVAL, "This type does not fit for string."),
        "BAD_UPROBE_OFFS": (None, "Invalid uprobe offset"),
        "BAD_VAR": (errno.EINVAL, _bad_variable),
        # $stack<huge>
        "BAD_VAR_RANGE": (lambda gates: gates.variable_overflow_errno, _bad_variable),
        # $arg1x, when arguments are written out
        "BAD_VAR_SUFFIX": (errno.ENOENT, _bad_variable),
        "COMM_CANT_DEREF": (errno.EINVAL, "$comm can not be dereferenced"),
        "DEREF_NEED_BRACE": (errno.EINVAL, "Dereference needs a brace"),
        "DEREF_OPEN_BRACE": (errno.EINVAL, "Dereference brace is not closed"),
        "DIFF_ARG_TYPE": (errno.EEXIST, "Argument type or name is different from existing probe"),
        "DIFF_PROBE_TYPE": (errno.EEXIST, "Probe type is different from existing probe"),
        "DOUBLE_ARGS": (errno.EINVAL, "$arg* can be used only once in the parameters"),
        "EVENT_EXIST": (errno.EEXIST, "Given group/event name is already used by another event"),
        "EVENT_TOO_BIG": (errno.E2BIG, "Event too big (too many fields?)"),
        "EVENT_TOO_LONG": (errno.EINVAL, "Event name is too long"),
        "FAIL_REG_PROBE": (None, "Failed to register probe event"),
        "FILE_NOT_FOUND": (None, "Failed to find the given file"),
        "FILE_ON_KPROBE": (errno.EINVAL, lambda gates: gates.file_offset_text),
        "GROUP_TOO_LONG": (errno.EINVAL, "Group name is too long"),
        "IMMSTR_NO_CLOSE": (errno.EINVAL, "String is not closed with '\"'"),
        "MAXACT_NO_KPROBE": (errno.EINVAL, "Maxactive is not for kprobe"),
        "MAXACT_TOO_BIG": (errno.EINVAL, "Maxactive is too big"),
        "NEED_STRING_TYPE": (errno.EINVAL, "$comm and immediate-string only accepts string type"),
        "NOFENTRY_ARGS": (errno.EINVAL, "$arg* can be used only on function entry or exit"),
        "NON_UNIQ_SYMBOL": (lambda gates: gates.ambiguous_symbol_errno, "The symbol is not unique"),
        "NOSUP_BTFARG": (errno.EINVAL, _NOSUP_BTFARG),
        # a typecast, or $arg*, where BTF gives nothing
        "NOSUP_BTFARG_TYPES": (errno.EOPNOTSUPP, _NOSUP_BTFARG),
        "NOSUP_DAT_ARG": (errno.EOPNOTSUPP, "Non pointer structure/union argument is not supported."),
        "NOSUP_PERCPU": (errno.EINVAL, "Per-cpu variable access is only for kernel probes"),
        "NO_ARG_BODY": (errno.EINVAL, "No argument expression"),
        "NO_ARG_NAME": (errno.EINVAL, "Argument name is not specified"),
        "NO_BTFARG": (errno.ENOENT, "This variable is not found at this probe point"),
        "NO_BTF_ENTRY": (errno.ENOENT, "No BTF entry for this probe point"),
        "NO_BTF_FIELD": (errno.ENOENT, "This field is not found."),
        "NO_EP_FILTER": (errno.EINVAL, "No filter rule after 'if'"),
        "NO_EVENT_FIELD": (errno.EINVAL, "This event field is not found."),
        "NO_EVENT_INFO": (errno.EINVAL, "This requires both group and event name to attach"),
        "NO_EVENT_NAME": (errno.EINVAL, "Event name is not specified"),
        "NO_GROUP_NAME": (errno.EINVAL, "Group name is not specified"),
        "NO_PTR_STRCT": (errno.EINVAL, "This is not a pointer to union/structure."),
        "NO_REGULAR_FILE": (errno.EINVAL, "Not a regular file"),
        "NO_RETVAL": (errno.ENOENT, "This function returns 'void' type"),
        "REFCNT_OPEN_BRACE": (errno.EINVAL, "Reference counter brace is not closed"),
        "RETVAL_ON_PROBE": (errno.EINVAL, "$retval is not available on probe"),
        "SAME_PROBE": (errno.EEXIST, "There is already the exact same probe event"),
        "SYM_ON_UPROBE": (errno.EINVAL, "Symbol is not available with uprobe"),
        "TOO_MANY_ARGS": (errno.E2BIG, "Too many arguments are specified"),
        "TOO_MANY_NESTED": (errno.E2BIG, "Too many nested typecasts/dereferences"),
        "TOO_MANY_OPS": (errno.EINVAL, _TOO_MANY_OPS),
        # no instruction is left for the loop over an array
        "TOO_MANY_OPS_LOOP": (lambda gates: gates.array_room_errno, _TOO_MANY_OPS),
        # none is left to store a number, or to read a string's pointer
        "TOO_MANY_OPS_VALUE": (errno.E2BIG, _TOO_MANY_OPS),
        "TYPECAST_BAD_ARROW": (errno.EINVAL, "Typecast field option does not support -> operator"),
        "TYPECAST_NOT_ALIGNED": (errno.EINVAL, "Typecast field option is not byte-aligned"),
        "TYPECAST_NOT_EVENT": (errno.EINVAL, "Typecasts are only for eprobe fields"),
        "TYPECAST_REQ_FIELD": (errno.EINVAL, "Typecast requires a field access"),
        "TYPECAST_SYM_OFFSET": (errno.EINVAL, "@SYM+/-OFFSET with typecast needs parentheses"),
        "USED_ARG_NAME": (errno.EINVAL, "This argument name is already used"),
        # refused without a message
        "BAD_DELETE": (errno.EINVAL, None),
        "BAD_EP_FILTER": (errno.EINVAL, None),
        "DENTRIES_TOO_LONG": (errno.ENOMEM, None),
        "DIFF_REFCNT": (errno.EINVAL, None),
        "FAIL_REG_UNLOGGED": (None, None),
        "NEED_STRING_TYPE_UNLOGGED": (errno.EINVAL, None),
        "NO_SYMBOL": (None, None),
        "TOO_MANY_ARGS_UNLOGGED": (errno.E2BIG, None),
        # synthetic events: the kernel's ids (trace_events_synth.c)
        "BAD_NAME": (errno.EINVAL, "Illegal name"),
        "EVENT_EXISTS": (errno.EEXIST, "Event already exists"),
        "INCOMPLETE_TYPE": (errno.EINVAL, "Incomplete type"),
        "INVALID_ARRAY_SPEC": (errno.EINVAL, "Invalid array specification"),
        "INVALID_CMD": (errno.EINVAL, "Command must be of the form: <name> field[;field] ..."),
        "INVALID_DYN_CMD": (errno.EINVAL, "Command must be of the form: s or -:[synthetic/]<name> field[;field] ..."),
        "INVALID_FIELD": (errno.EINVAL, "Invalid field"),
        "INVALID_TYPE": (errno.EINVAL, "Invalid type"),
        "TOO_MANY_FIELDS": (errno.EINVAL, "Too many fields"),
        # no kind of dynamic event takes the line
        "NO_KIND": (errno.EINVAL, "No matching dynamic event type"),
    }
)


def answer(message: str, gates: Gates, failed: int | None = None) -> tuple[int, str | None]:
    """Return how a kernel refuses: the errno, and the text in error_log (None if nothing is logged).

    `failed` is the errno of what failed, if that is passed on.
    """
    number, text = REFUSALS[message]
    if failed is None:
        failed = number(gates) if callable(number) else number
    assert failed is not None, message
    return failed, text(gates) if callable(text) else text
