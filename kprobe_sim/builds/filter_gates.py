"""What event filters can do in each kernel version: one row per difference, each with its source."""

from __future__ import annotations

from functools import lru_cache

from kprobe_sim.builds.gate_rows import Version
from kprobe_sim.builds.gates import Build
from kprobe_sim.named_tuple import NamedTuple


class FilterGates(NamedTuple):
    """The answers of one kernel version.  Without arguments: those of 6.1.190."""

    ustring: bool = True  # FIELD.ustring
    function: bool = False  # FIELD.function == NAME
    cpulist: bool = False  # FIELD & CPUS{LIST}
    stacktrace_field: bool = False  # the generic fields stacktrace and STACKTRACE
    incomplete_refused: bool = False  # a trailing && or || is an error, not as if absent
    full_match_bounded: bool = True  # a pattern longer than the field can't match its unterminated head
    glob_bounded: bool = True  # a glob reads no further than the field
    glob_class_stops: bool = False  # [!x] doesn't take the end of the string for a character
    message_space: int = 4096  # bytes of the buffer in which the text of the filter file is made
    early_filters: bool = False  # filters are read by rank of operators: docs of before 4.17
    negation: bool = True  # !(...)
    bits: bool = True  # the operator &
    generic_fields: bool = True  # CPU, comm
    common_cpu: bool = True  # a generic field of this name, too
    early_globs: bool = True  # ~ knows ?, [] and a star anywhere
    comm_patterns: bool = True  # comm ~ "PATTERN"
    group_filter_refused: bool = False  # one that no event takes; an event that can't take it keeps its own
    group_filter_shown: bool = False  # a group's file shows what was written last, and else none
    trigger_errors_logged: bool = False  # a refused filter of a trigger is in error_log too


class _Row(NamedTuple):
    gate: str
    before: bool | int
    since: Version  # first mainline release with the other answer
    after: bool | int
    stable: dict[tuple[int, int], int]  # series: patch level that took it over
    source: str


NEVER = (999, 0, 0)

GATES = (
    _Row("ustring", False, (5, 17, 0), True, {(5, 10): 0}, "recorded: 4.19 refuses, 5.10.262 and later take it"),
    _Row("function", False, (6, 3, 0), True, {}, "recorded: 6.1.190 refuses, 6.12.117 takes; 6.3 from the change log"),
    _Row("cpulist", False, (6, 7, 0), True, {}, "recorded: 6.1.190 refuses, 6.12.117 takes; 6.7 from the change log"),
    _Row("stacktrace_field", False, (6, 3, 0), True, {}, "docs/kernel/filters.md#fields: not on 6.1.190, on 6.12.117"),
    _Row(
        "incomplete_refused",
        False,
        (7, 3, 1),
        True,
        {(6, 1): 191, (6, 12): 115},
        "recorded: 5.10.262, 6.1.190, 7.2.13 and 7.3-rc7 take a trailing &&, 6.12.117 and 7.3.4 don't; "
        "'tracing: Reject incomplete event filter expressions' in ChangeLog-6.1.191 and -6.12.115",
    ),
    _Row(
        "full_match_bounded",
        False,
        (7, 2, 0),  # assumed: the change logs of the newest series weren't looked at
        True,
        {(6, 1): 183, (6, 12): 103},
        "'tracing/filters: Fix false positive match in regex_match_full()' in ChangeLog-6.1.183 and -6.12.103",
    ),
    _Row(
        "glob_bounded",
        False,
        (7, 2, 0),  # assumed, as above
        True,
        {(6, 1): 178, (6, 12): 96},
        "'tracing: Prevent out-of-bounds read in glob matching' in ChangeLog-6.1.178 and -6.12.96",
    ),
    _Row("glob_class_stops", False, (6, 12, 0), True, {}, "'lib: glob.c: added null check for character class', 2024"),
    _Row(
        "message_space",
        4096,
        (6, 8, 0),
        8156,
        {},
        "docs/kernel/filters.md#length-of-a-filter: one of 3005 bytes is cut on 5.10 and 6.1, whole on 6.12 and later; "
        "include/linux/trace_seq.h of 6.12: 8192 less its own fields",
    ),
    _Row("early_filters", True, (4, 17, 0), False, {}, "recorded: filters of 4.4 and 4.19; commit 80765597bc58"),
    _Row("negation", False, (3, 19, 0), True, {}, "recorded: 3.13 refuses !(...), 4.4 takes it"),
    _Row("bits", False, (3, 3, 0), True, {}, "recorded: 3.2 refuses &, 3.13 takes it"),
    _Row("generic_fields", False, (4, 3, 0), True, {}, "recorded: 3.13 knows no CPU and comm, 4.4 does"),
    _Row(
        "common_cpu",
        False,
        (5, 4, 0),
        True,
        {},
        "guests: 4.19.108 has no field 'common_cpu > 256' speaks of, 5.4.273 has",
    ),
    _Row(
        "early_globs",
        False,
        (4, 10, 0),
        True,
        {},
        "recorded: filters of 4.4 and 4.14: 's ~ \"/tmp/f?\"'; globs came with 4.10",
    ),
    _Row("comm_patterns", False, (4, 14, 0), True, {}, "recorded: filters of 4.4 and 4.14: 'comm ~ \"r*\"'"),
    _Row(
        "group_filter_refused",
        True,
        (4, 17, 0),
        False,
        {},
        "replace_system_preds() of 3.0 and 3.13; commit 80765597bc58, which made process_system_preds() of it",
    ),
    _Row(
        "group_filter_shown",
        True,
        (3, 3, 0),
        False,
        {},
        "recorded: events/sched/filter of 3.2 is 'none', that of 3.13 isn't; apply_subsystem_event_filter() of 3.0",
    ),
    _Row(
        "trigger_errors_logged",
        False,
        (6, 12, 0),
        True,
        {},
        "docs/kernel/filters.md#filters-of-triggers: 6.1.190, 6.12.117",
    ),
)

EARLY_FILTERS = (
    "early_filters",
    "negation",
    "bits",
    "generic_fields",
    "common_cpu",
    "early_globs",
    "comm_patterns",
    "group_filter_refused",
    "group_filter_shown",
)  # rows of kernels before 5.10


@lru_cache(maxsize=64)
def filter_gates(version: Version) -> FilterGates:
    """Return what the filters of kernel `version`, as (6, 1, 190), know."""
    known = {
        row.gate: row.after
        if version >= row.since or version[2] >= row.stable.get(version[:2], NEVER[0])
        else row.before
        for row in GATES
    }
    return FilterGates(**known)  # type: ignore[arg-type]  # the rows' names are the fields' (a test holds them together)


@lru_cache(maxsize=64)
def filter_gates_of(build: Build) -> FilterGates:
    """Return what the filters of a build know: what it answered, and by its version what it wasn't asked."""
    answers = build.answers
    return filter_gates(build.number)._replace(**{row.gate: answers[row.gate] for row in GATES if row.gate in answers})
