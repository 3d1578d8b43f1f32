"""The differences between kernel versions: the features of probes, traces and their files, as code queries them.

What a kernel answered when it was recorded is its profile's; of other rows the version tells (see `gate_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

from kprobe_sim.builds.gate_rows import ROWS, Version
from kprobe_sim.named_tuple import NamedTuple


class Build(Protocol):
    """What the gates of one kernel build are known by: its version, and what it answered when it was recorded."""

    @property
    def number(self) -> Version: ...
    @property
    def answers(self) -> Mapping[str, Any]: ...


class Gates(NamedTuple):
    """The answers of one kernel; every attribute is a row of `ROWS`."""

    version: Version
    # the patch of 2009
    first_language: bool  # arguments are aN, sN, sa, rv, ra; events have no group, and are enabled as they are made
    first_names: bool  # arguments have names there: NAME=, and NAME=VALUE in the trace
    # before 4.20, when kprobes and uprobes had readers of their own
    early: bool  # these read the lines: one probe an event, no error_log
    used_kept: bool  # an event that is enabled can't be removed or replaced: EBUSY
    place_said: bool  # the log names a place where no probe can stand; ENOENT where there is no symbol, else EINVAL
    early_arguments: bool  # $arg0 to $arg16 of functions, as long as nothing had a type
    bitfields: bool  # the types bWIDTH@POSITION/SIZE
    long_lines: bool  # a line may have 4,095 bytes, else 127
    strings: bool  # the type string
    arguments_checked: (
        bool  # an argument without a name is argN, and names are C identifiers; else it is named by itself
    )
    third_common: str  # the field of formats that nobody uses
    early_maxactive: bool  # r<digits>:
    address_or_symbol: bool  # what is no number is taken for a symbol, and names of events are sanitized
    returns_checked: bool  # a return probe that isn't on a function's entry, or nowhere, is EINVAL
    spaced_target: bool  # the log has a blank between "after" and "target module"
    signed_offsets: bool  # SYM-OFFS
    comm_variable: bool  # $comm
    missing_file_said: bool  # the log has a line also of a uprobe whose file isn't there or isn't given
    return_addresses: bool  # a return probe may stand at an address
    directory_said: str  # which file system the log names where a name is in use
    number_texts: str  # "bare" hexadecimal, "prefixed", or "decimal" with the types x8 to x64
    uprobe_memory: bool  # uprobes can fetch more than registers
    unplaceable_taken: bool  # a probe where none can stand is taken, and never hit
    name_in_use: int | None  # errno where a file of the event's name is there; None: a second event has the name
    pointers_hashed: bool  # addresses of places are hashed
    unreadable_string: str  # a string that can't be read is "empty", or a "fault"
    common_padding: bool  # formats have a field after the common ones
    trigger_blanks_kept: bool  # triggers: blanks are part of what stands after them, and `traceon:` has an empty filter
    hist_sym_offset: bool  # .sym-offset is taken: once its minus was an operator
    hist_variables: bool  # NAME=FIELD in a histogram
    hist_added_last: bool  # among the triggers of an event; else before all others, as others are
    hist_buckets: bool  # .buckets=N
    pid_width: int  # of the pid's column
    header: str  # of the trace: "bare" of counts and irq-info, "narrow", "uncounted" with irq-info, or "wide"
    latency_blanks: bool  # the header of latency-format has more blanks at the ends of its last lines
    long_delays: bool  # latency-format has marks for delays of more than 100 us
    uptime_in_ns: bool  # the clock `uptime` gives its jiffies as nanoseconds; else as the users' ticks, 100 a second
    preempt_resched: bool  # a preempt count that says to reschedule has a flag of its own; else N is the task's alone
    plain_entry: tuple[int, int]  # common_flags and common_preempt_count of a probe on a function's entry
    graph_known: bool  # what the tracer function_graph shows is known here
    graph_options: tuple[str, ...]  # of that tracer, where they weren't recorded
    options_come: bool  # options/ has files of the current tracer's options alone, since a tracer was first chosen
    graph_latency_apart: bool  # latency-format has a column of its own for the irq-info
    graph_leaf_arrow: bool  # an interrupt's end is shown after a call in one line too
    graph_is_user: bool  # that tracer is a user of ftrace as others are: who came last sees a function first
    graph_exit_deep: bool  # common_preempt_count of its record of a return counts its own handler
    graph_arrow_letters: bool  # the irq-info is shown beside an interrupt's begin and end
    removed_are_unknown: bool  # records of an event that was removed stay in the buffer, and are of unknown type
    entry_stack: str  # at an entry it begins with the "function", or with its "callers"
    return_stack: str  # at a return it is what is "above" the caller, "both" the trampoline and that, or "usual"
    last_byte_unused: bool  # the text of an entry is a byte shorter than trace_seq_size
    word_size: int  # bytes of an unsigned long: 4 on i386, of which only definitions are known
    insertion_said: (
        bool  # the log names each probe that can't be put in, whatever more it says; and not what ftrace lacks
    )
    notrace_checked: bool  # no probe can stand in a function that ftrace doesn't know
    too_long_said: str  # what the log says of a line that doesn't fit the buffer
    uprobes_named_kprobes: bool  # the log's lines about uprobes begin with trace_kprobe
    strings_told_apart: bool  # string reads an address of the user's as ustring does
    percent_return: bool  # a place may end in %return
    capital_comm: bool  # $COMM is $comm
    snapshot_allocates: bool  # 1 to `snapshot` makes room for one; else it does nothing until a trigger has
    late_events_pass: bool  # events that are added after set_event_pid was written fire for all threads
    held_elsewhere: bool  # who reads trace_pipe holds its tracer in all instances, not the instance alone
    one_pipe: bool  # trace_pipe is refused to a second reader
    mask_padded: bool  # tracing_cpumask has a byte for each CPU and one more: after its line come zeros
    stats_lines: int  # of per_cpu/cpuN/stats
    stats_by_clock: bool  # its times are as the clock gives them; else always in seconds
    empty_masks: bool  # tracing_cpumask takes empty words, and blanks anywhere between words
    removed_files_read: bool  # enable and filter of an event that went while they were open read as nothing set
    name_size: int  # characters that an event's name can have
    symbols_counted: bool  # before all else of a place is read, its symbol is looked up; one that many have is refused
    refused_variables_oops: (
        bool  # histograms: a variable of a field that isn't there ends the kernel; here it is refused
    )
    hist_log_is_whole: (
        bool  # error_log shows a histogram with its `hist:`, and what is wrong with an assignment or sort
    )
    hist_values_checked: bool  # values and variables with a modifier that doesn't fit them are refused
    hist_arithmetic: (
        bool  # expressions have *, / and numbers and are taken apart at the last operator, else at the first
    )
    hist_name_variables: bool  # a variable of common_pid.execname is the task's name
    hist_actions_first: bool  # actions are made before it is looked whether the histogram can be entered
    hist_frames_skipped: int  # of those that a stacktrace trigger shows: HIST_STACKTRACE_SKIP is 5 in all
    hist_keys_ordered: bool  # entries that sort equal come in the order of their keys, else of the hashes of these
    synthetic_checked: bool  # names, lengths and types in synthetic events are checked, and refusals logged
    synthetic_fits_by_size: bool  # what has the size and sign of a synthetic event's field fits; else its type alone
    synthetic_newest_first: bool  # synthetic_events lists the newest first
    synthetic_semicolon_kept: bool  # one after an array in a synthetic event is a part of the type
    synthetic_gfp: bool  # gfp_t is a type of a synthetic event's field
    synthetic_fields: int  # the most of a synthetic event, and parameters of an action
    synthetic_string: int  # bytes that a synthetic event's string takes
    printed_sources: bool  # lines in the kernel's log begin with what printed them
    # the line
    delete_is_raw: bool  # a delete needs "-" as the very first byte (else blanks may stand before it)
    delete_group: bool  # -:GRP/ deletes a group
    delete_compares: int | None  # characters of a probe's place and arguments that a delete's words are compared with
    dot_separates_group: bool  # p:GRP.EVENT
    hyphen_in_group: bool
    empty_event_is_auto: bool  # p:GRP/ takes the default event name
    sanitized: str  # characters of a default event name that become _
    maxactive_on_probe: str  # message id for p<digit>
    maxactive_floor: bool  # default maxactive is max(10, 2 * cpus), else cpus
    # the place
    unknown_symbol_errno: int
    ambiguous_symbol_errno: int
    module_symbols_counted: bool  # MOD:SYM of a loaded module is looked for when the line is read
    vmlinux_wins: bool  # modules count for ambiguity only when vmlinux has no such symbol
    uniqueness_first: bool  # an ambiguous or unknown symbol is refused before a return probe off the entry
    looks_up_address: bool  # registration asks first which symbol covers an address
    names_missing_entry: bool  # $argN after the entry has a message of its own
    int3_errno: int  # a breakpoint instruction in the code itself
    unsupported_instruction_errno: int  # far or memory-indirect branch; 0: it is taken
    endbr: bool  # entries may start with ENDBR: probes go after it
    # arguments
    argument_size: int  # longest expression, in bytes
    argument_size_errno: int
    array_room_errno: int  # no instruction is left for the loop over an array
    too_many_arguments: str | None  # id of the refusal of more than 128; None drops them
    string_type_message: str  # id of the refusal of $comm with another type than string
    entry_arguments_at_return: bool  # $argN on return probes
    variable_overflow_errno: int  # $stack<huge>
    event_size_limited: bool  # an event whose fixed fields are larger than 3072 bytes is refused
    variable_text: str  # the refusal of $ with a word that is no variable
    zero_argument: str  # message id for $arg0 where arguments may be named by their number alone
    btf: bool  # parameters by name, types of parameters and return values
    event_typecasts: bool  # (TYPE) is known, but only for event probes
    typecasts: bool  # (TYPE)X->FIELD, this_cpu_ptr(X), this_cpu_read(X)
    current: bool  # $current and its fields
    field_caret: bool  # what is wrong after C fields is shown relative to the last field
    unknown_parameters_go_on: bool  # $arg* of a function unknown to BTF is refused a second time, as a variable
    caret_shift: bool  # errors after the expression point right of its outermost dereference
    nesting: int | None  # expressions around one
    symstr: bool
    char: bool
    dentry_types: bool  # %pd and %pD
    dentry_offsets: tuple[int, int]  # of a dentry's name, and of a file's dentry
    file_offset_text: str
    empty_user_string_is_fault: bool
    lone_quote_is_empty: bool  # \" alone is the empty string
    # what is shown
    array_length_in_format: bool  # format shows u8 a[4], not u8 a[]
    error_log_command_size: int | None
    context_letters: int  # of the irq-info column
    bh_letters: bool  # the first of them shows bottom halves that are off
    lazy_resched: bool  # common_flags 2 is a lazy need to reschedule, not "irqs unknown"
    plain_return: tuple[int, int]  # common_flags and common_preempt_count of a return probe's record
    breakpoint: tuple[int, int]  # those of a probe that uses a breakpoint
    program_depth_taken: bool  # of a uprobe's record one is taken from a preemption depth of 0; else interrupts are off
    returns_unwound: bool  # a stack goes on after a return address that a probe replaced
    stops_are_hidden: bool  # tracing_on doesn't show a stop by pause-on-trace
    read_bytes_counted: bool  # bytes of stats are less by each event that was read, else by whole pages alone
    held_size_errno: int  # of buffer_size_kb while trace is open
    sizes_as_asked: bool  # a resized buffer is said to have the size that was written, not that of its pages
    nested_returns_know: bool  # of several return probes on a function all know the caller
    trampoline_by_name: bool  # with offsets the trampoline of return probes is shown by its own name
    mark_room: bool  # a mark has room for "<faulted>", and a raw one counts its id twice
    failed_element_keeps_room: bool  # a string of an array that can't be read keeps the room it could have had
    failed_kernel_read: str  # a number at a kernel address that can't be read is "zero", "one" or the "task"'s address
    read_faults: str  # how faults of a probe's reads count as its misses, a name of `BY_RULE`; "": not at all
    pid_errno: int  # of pids that are too big for set_event_pid
    pid_blanks_taken: bool  # blanks after the last pid that set_event_pid takes count as written
    marks_seek: bool  # trace_marker has a position
    trace_seq_size: int  # bytes of text that a read of trace_pipe can give
    fields_as_symbols: bool  # the option fields shows 64-bit numbers as symbols
    fields_strings_in_hex: bool  # and strings with unprintable bytes in hexadecimal too
    raw_mark_sizes: tuple[int, int]  # bytes of a raw mark that aren't refused, and that are taken
    end_is_inside: bool  # the address _end still belongs to the kernel
    eventfs: bool  # events/ is a file system of its own: an event may stand beside a file of its name
    index_is_whole: bool  # what follows the digits of a function's index makes it none, else isn't looked at
    pid_limit: int  # pids that set_event_pid takes are less
    module_events: bool  # set_event takes EVENTS:mod:MODULE, and keeps it for a module that isn't there
    long_pids: bool  # all 64 bits of it count, and the refusal is EINVAL; else the lower 32, and EPERM
    end_wakes: bool  # a reader that waits at trace_pipe sees that tracing went off
    marker_stack: bytes  # common_flags and common_preempt_count of the stack that a trigger takes at a mark
    marker_depth: int  # common_preempt_count of a mark
    syscall_event_depth: int  # common_preempt_count of the events in syscalls
    rename_depth: int  # that of task_rename
    syscalls_show_user_memory: bool  # system calls are shown with the strings that they point to, small numbers decimal
    syscall_numbers_prefixed: bool  # numbers from 10 on are shown with 0x
    marker_size: int  # bytes of a write to trace_marker that are taken
    eprobes: bool  # e: in dynamic_events
    fprobes: bool  # f: and t:
    fprobe_maxactive: bool  # f<digits>:
    fprobes_late: bool  # refusals of fprobes and tracepoint probes are EINVAL; they are made of the function graph
    fprobes_wait: bool  # they come to their functions when they are enabled, else when they are made
    fprobe_entry_depth: int  # what common_preempt_count of an fprobe on an entry has for its own handler
    fprobe_stacks_whole: bool  # the stack of an fprobe on an entry begins in the tracer, where no kprobe is there too
    fprobe_returns_unwound: bool  # that of one on a return goes on after the return address
    fprobes_apart: bool  # fprobes on a function's entry and on its return are two users of it
    eprobe_fields_late: bool  # a field is looked up after all else of its argument
    event_variable_caret: bool  # $ with a word that is no field is refused at the $, else at the argument's start
    event_fields_by_name: bool  # event probes take FIELD as well as $FIELD
    event_arrays_are_addresses: bool  # of a field that is an array an event probe takes the address, not 8 bytes
    registers_refused_twice: bool  # %REG of an event probe or fprobe is logged as two faults
    uprobes_reject_symbols: bool  # types symbol and symstr
    synthetic_spaces: bool  # print fmt has blanks between the fields of a synthetic event, no commas
    sort_takes_two: bool  # sort() takes two from its heap at once
    unmatched_is_logged: bool  # dynamic_events logs "No matching dynamic event type"
    removed_filter_is_empty: bool  # an open filter file of a removed event reads as empty, else ENODEV
    raw_data_type: int  # common_type of a raw mark (TRACE_RAW_DATA)
    hist_hitcount: bool  # hist triggers take nohitcount, and hitcount as a field with a modifier
    hist_percent: bool  # values take .percent and .graph
    hist_comm: bool  # they take common_comm, comm and COMM
    hist_cpu_twice: bool  # the trigger file shows common_cpu, and then the field's name
    hist_stacktrace_checked: bool  # .stacktrace is refused of what is no call chain
    hist_stack_fields: bool  # stacktrace and STACKTRACE are fields, shown by these names, but as a key of that name
    hist_held_by_names: bool  # each instance whose triggers share a histogram with variables by name is held by it
    hist_log2_wraps: bool  # the logarithm of what is above 2**63 is 0, not 64
    hist_dollar_within: bool  # a variable of another event is SYSTEM.EVENT.$NAME, not $SYSTEM.EVENT.NAME
    hist_names_pile_up: bool  # such a variable's text comes after all that were shown of such before
    hist_refused_fields: bool  # a refused action leaves the histograms that were made for fields of other events
    ftrace_stops: bool  # /proc/sys/kernel/ftrace_enabled takes 0, else EOPNOTSUPP
    dump_on_oops_text: bool  # /proc/sys/kernel/ftrace_dump_on_oops takes any text, names of instances
    perf_paranoid: int  # /proc/sys/kernel/perf_event_paranoid at boot, where no distribution has set another
    probe_pmus: bool  # /sys/bus/event_source/devices has kprobe and uprobe
    software_pmus_named: bool  # the software clocks are PMUs too: two numbers less for those that come later
    hist_depth: int  # by how much common_preempt_count of a histogram's synthetic event is more than its trigger's


@lru_cache(maxsize=64)
def gates_for(version: Version) -> Gates:
    """Return the gates of a kernel version, as (6, 1, 190)."""
    values = {row.name: [value for first, value in row.values if first <= version][-1] for row in ROWS}
    return Gates(version=version, **values)


@lru_cache(maxsize=64)
def gates_of(build: Build) -> Gates:
    """Return the gates of a build: what it answered, and by its version what it wasn't asked."""
    answers = {row.name: like(build.answers[row.name], row.values[0][1]) for row in ROWS if row.name in build.answers}
    return gates_for(build.number)._replace(**answers)


def like(answer: Any, value: Any) -> Any:
    """Return an answer, as JSON has it, as a value of the same type as another of the row."""
    return type(value)(answer) if isinstance(value, (tuple, bytes)) else answer
