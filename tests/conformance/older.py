"""What older kernels have otherwise, by name, and the tests about it: there they are unsupported, if they fail.

Such a kernel is told by what isn't there yet: a word in its README, or a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kprobe_sim.builds.gates import gates_of
from kprobe_sim.builds.profile import Profile
from kprobe_sim.pytest_plugin.unsupported import REASON

from .builds import SUFFIX

__all__ = ["about", "spare_variables"]

_BEFORE_5_10: Mapping[str, tuple[str, ...]] = {
    "option pause-on-trace (none)": (
        "test_each_reader_pauses",
        "test_events_are_lost_in_a_pause",
        "test_no_snapshot_is_made_while_it_is_looked_at",
        "test_pause_on_trace",
        "test_the_size_stays_while_the_trace_is_looked_at",
        "test_the_tracer_stays_while_the_buffer_is_consumed",
        "test_trace_options",
        "test_who_only_looks_keeps_no_tracer",
    ),
    "prototypes of functions (none of this kernel)": (
        "test_a_function_and_where_its_parameters_are",
        "test_a_name_of_several_functions_is_put_to_the_kernel",
        "test_a_pattern_gives_functions_by_name",
        "test_a_wrapper_of_a_system_call",
        "test_definitions",
        "test_each_function_has_its_event",
        "test_functions",
        "test_they_give_what_happens",
        "test_what_the_kernel_refuses",
        "test_why_not",
    ),
    "symbols looked up before all else (no %return in README)": (
        "test_a_refusal_shows_the_kernels_caret",
        "test_refused",
        "test_refused_differently",
        "test_refused_without_a_word",
        "test_the_first_fault_is_told",
    ),
    "%return after a place (not in README)": (
        "test_a_uprobe_is_listed_by_both_files",
        "test_refused_uprobes",
        "test_shown_by_later_kernels",
    ),
    "refusals of synthetic events in error_log (none)": ("test_synthetic_events",),
    "numbers in the expressions of histograms (none)": ("test_it_stays_while_a_histogram_has_variables",),
    "modifier ustring of filters (none)": ("test_taken",),
    "one reader of trace_pipe (there may be several)": ("test_one_reader",),
    "functions of 5.10 between a probe and its system call": (
        "test_a_breakpoint",
        "test_a_return",
        "test_an_entry",
        "test_no_user_stack_at_a_breakpoint",
        "test_one_process_with_a_stack",
        "test_stacktrace_of_a_fork",
        "test_the_arguments_of_an_open",
        "test_two_probes_at_an_entry",
    ),
    "names and pids in one buffer of saved_cmdlines (apart)": ("test_value",),
    "sizes of buffers in whole pages (as asked)": ("test_a_buffer_larger_than_the_memory", "test_buffer_size"),
    "functions by index in set_ftrace_filter (none)": (
        "test_a_function_of_a_module_is_listed_with_it",
        "test_an_index_means_one_function_of_several_of_a_name",
        "test_available_filter_functions",
        "test_functions_by_index",
        "test_functions_by_name_and_pattern",
        "test_the_tracer_records_calls",
        "test_what_follows_an_index",
    ),
    "strings of users told apart from the kernel's (no)": (
        "test_an_empty_user_string_prints_as_a_fault",
        "test_arguments_are_gone_from_their_registers",
        "test_numbers_that_cannot_be_read",
    ),
    "hits whose reads fail counted as no misses (they are)": ("test_json_has_the_values_as_the_format_types_them",),
    "answers of 5.10 to all questions (some have none)": ("test_answers",),
}


_BEFORE_5_4: Mapping[str, tuple[str, ...]] = {
    "several probes of an event (no append in README)": (
        "test_a_long_argument",
        "test_a_probe_appended_to_an_enabled_event_is_live",
        "test_a_sibling_of_an_enabled_event_is_not",
        "test_an_event_of_two_probes",
        "test_an_event_that_has_another_probe_stays",
        "test_case",
        "test_deleted",
        "test_each_file_truncates_its_own",
        "test_ids",
        "test_kprobe_profile_of_an_event_of_two_probes",
        "test_not_deleted",
        "test_one_probe_of_an_event",
        "test_readme",
        "test_the_place_is_compared_as_it_is_shown",
        "test_who_comes_at_the_same_moment_is_told_and_left_alone",
        "test_who_joins_a_trace_is_told_and_left_alone",
    ),
    "traces emptied when an event goes that was used (they stay)": (
        "test_an_event_that_came_again_is_new",
        "test_deleting_a_used_event_empties_the_buffer",
        "test_the_whole_life",
    ),
    "files of an event that is gone (ENODEV)": (
        "test_an_open_filter_of_an_event_that_goes",
        "test_an_open_id_outlives_its_event",
    ),
    "an instance removed while others are read (busy with the same tracer)": (
        "test_two_traces_of_one_name_see_their_own_events",
    ),
    "$COMM (no)": ("test_comm",),
    "$stack of a type (no)": ("test_the_return_address_is_off_the_stack",),
    "flags of a fork apart from its signal (in one)": ("test_a_fork",),
    "ksys_fadvise64_64, which returns an int (a long)": ("test_the_return",),
    "what the log says of a snapshot that is missing": ("test_complaints",),
    "wakeup_dl for an instance (no)": ("test_the_tracers_of_an_instance",),
}
_BEFORE_5_2: Mapping[str, tuple[str, ...]] = {
    "reasons of refusals (no error_log in README)": (
        "test_a_group_filter",
        "test_a_group_filter_that_no_event_takes",
        "test_a_refusal_is_an_object",
        "test_a_refusal_says_why",
        "test_a_try_counts_and_leaves_nothing",
        "test_one_that_is_refused_leaves_none",
        "test_refusals_are_the_kernels",
        "test_the_root",
        "test_what_is_wrong_everywhere_is_an_error",
    ),
    "action trace() of histograms (by their event's name)": ("test_latencies_are_those_of_the_kernels_own_pairing",),
}
_BEFORE_5_0: Mapping[str, tuple[str, ...]] = {
    "columns of a trace (pid of five)": (
        "test_an_empty_trace",
        "test_columns",
        "test_irq_info",
        "test_record_tgid",
        "test_stacktrace",
        "test_stacktrace_with_offsets",
        "test_the_whole_text",
        "test_truncating_clears",
    ),
    "maxactive of return probes (not shown)": ("test_a_negative_maxactive", "test_shown"),
    "return probes in modules that aren't there (refused)": ("test_a_probe_in_a_module_that_is_not_there",),
    "dynamic_events (no such file)": ("test_call_chains",),
    "the function that records a mark in its stack (left out)": ("test_a_mark",),
}
_BEFORE_4_13: Mapping[str, tuple[str, ...]] = {
    "clock boot (none)": ("test_trace_clock",),
    "triggers of marks (none)": ("test_a_mark", "test_the_context_of_a_mark"),
}
_BEFORE_4_12: Mapping[str, tuple[str, ...]] = {
    "r[maxactive] (not in README)": (
        "test_a_negative_maxactive",
        "test_shown",
        "test_what_is_shown_can_be_written_again",
    ),
    "histograms by name (none)": ("test_a_histogram_shared_by_name_is_held_by_its_first_instance", "test_call_chains"),
}
# what a kernel has in its README, or as a file, that is so new
_MARKS = (
    (SUFFIX, _BEFORE_5_10),
    ("Create/append/", _BEFORE_5_4),
    ("error_log", _BEFORE_5_2),
    ("r[maxactive]", _BEFORE_4_12),
)
_FILES = (("options/record-tgid", _BEFORE_4_13), ("dynamic_events", _BEFORE_5_0))


def about(test: str, tracefs: Any, readme: str) -> str:
    """Return what a test of that name is about that a kernel with this README has otherwise; "" if nothing."""
    tables = [tests for mark, tests in _MARKS if mark not in readme]
    if tables:
        tables += [tests for path, tests in _FILES if not tracefs.exists(path)]
    return next((what for table in tables for what, tests in table.items() if test in tests), "")


def spare_variables(recorded: Profile) -> None:
    """End a test here, as unsupported, that a kernel wouldn't survive."""
    if gates_of(recorded).refused_variables_oops:
        pytest.skip(f"{REASON}a variable that is refused (it ends this kernel)")
