"""What kernels before 5.10 have otherwise, by name, and the tests that are about it: there they are
unsupported, if they fail.

Such a kernel is told by its README, which has no `%return`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kprobe_sim.builds.gates import gates_of
from kprobe_sim.builds.profile import Profile
from kprobe_sim.testing.unsupported import REASON

from .builds import SUFFIX

__all__ = ["about", "spare_variables"]

_TESTS: Mapping[str, tuple[str, ...]] = {
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
        "test_available_filter_functions",
        "test_functions_by_index",
        "test_functions_by_name_and_pattern",
        "test_the_tracer_records_calls",
    ),
    "strings of users told apart from the kernel's (no)": (
        "test_an_empty_user_string_prints_as_a_fault",
        "test_arguments_are_gone_from_their_registers",
        "test_numbers_that_cannot_be_read",
    ),
    "hits whose reads fail counted as no misses (they are)": ("test_json_has_the_values_as_the_format_types_them",),
    "answers of 5.10 to all questions (some have none)": ("test_answers",),
}


def about(test: str, readme: str) -> str:
    """Return what a test of that name is about that a kernel with this README has otherwise; "" if nothing."""
    if SUFFIX in readme:
        return ""
    return next((what for what, tests in _TESTS.items() if test in tests), "")


def spare_variables(recorded: Profile) -> None:
    """End a test here, as unsupported, that a kernel wouldn't survive."""
    if gates_of(recorded).refused_variables_oops:
        pytest.skip(f"{REASON}a variable that is refused (it ends this kernel)")
