"""The table of features that `kprobe-vm matrix` asks every kernel for: the operations, and their descriptions."""

from __future__ import annotations

from typing import NamedTuple

# The event that filters and triggers are tried on: on a function that nothing calls.
FIXED = "p:matrix/f ksys_readahead dfd=%di:s32 path=+0(%si):string bytes=+0(%si):u8[4] how=%dx:x64"


class Define(NamedTuple):
    """A line for kprobe_events or another such file, after lines that must be accepted; the answer is the listing."""

    line: str
    before: tuple[str, ...] = ()
    path: str = "kprobe_events"


class Format(NamedTuple):
    """A line for kprobe_events that must be accepted; the answer is its arguments' fields, from the format file."""

    line: str


class Filter(NamedTuple):
    """A filter on the fixed event."""

    text: str


class Trigger(NamedTuple):
    """A trigger on the fixed event."""

    text: str


class Says(NamedTuple):
    """Whether a file's text has matches of an expression, and which."""

    path: str
    pattern: str


class Exists(NamedTuple):
    """Whether there is a file."""

    path: str


class Option(NamedTuple):
    """Whether there is a trace option, and its default."""

    name: str


Act = Define | Format | Filter | Trigger | Says | Exists | Option


class Feature(NamedTuple):
    """A feature in a few words, and how it is tried."""

    what: str
    act: Act


class Section(NamedTuple):
    """Rows that belong together."""

    title: str
    rows: tuple[Feature, ...]


def _argument(what: str, text: str, prefix: str = "p") -> Feature:
    return Feature(what, Define(f"{prefix}:x do_sys_openat2 {text}"))


def _line(what: str, text: str, *before: str) -> Feature:
    return Feature(what, Define(text, before))


def _filter(what: str, text: str) -> Feature:
    return Feature(what, Filter(text))


SECTIONS = (
    Section(
        "Kinds of probe",
        (
            _line("probe on entry", "p:x do_sys_openat2"),
            _line("return probe", "r:x do_sys_openat2"),
            _line("return probe by suffix", "p:x do_sys_openat2%return"),
            _line("return probe with its number of instances", "r10:x do_sys_openat2"),
            _line("number of instances on an entry probe", "p10:x do_sys_openat2"),
            _line("unknown kind", "q:x do_sys_openat2"),
            Feature("through dynamic_events", Define("p:x do_sys_openat2", path="dynamic_events")),
            Feature("event probe", Define("e:x sched/sched_switch pid=$prev_pid", path="dynamic_events")),
            Feature("function probe", Define("f:x do_sys_openat2", path="dynamic_events")),
            Feature("function exit probe", Define("f:x do_sys_openat2%return", path="dynamic_events")),
            Feature("tracepoint probe", Define("t:x sched_switch", path="dynamic_events")),
            Feature("synthetic event", Define("s:x u64 lat", path="dynamic_events")),
            Feature("kind that dynamic_events doesn't know", Define("q:x do_sys_openat2", path="dynamic_events")),
        ),
    ),
    Section(
        "Names",
        (
            _line("no name", "p do_sys_openat2"),
            _line("no name, after the entry", "p do_sys_openat2+0"),
            _line("group with /", "p:g/x do_sys_openat2"),
            _line("group with .", "p:g.x do_sys_openat2"),
            _line("group alone", "p:g/ do_sys_openat2"),
            _line("hyphen in a group", "p:g-h/x do_sys_openat2"),
            _line("hyphen in an event", "p:a-b do_sys_openat2"),
            _line("event that begins with a digit", "p:1x do_sys_openat2"),
            _line("empty name", "p: do_sys_openat2"),
            _line("event of 64 characters", f"p:{'x' * 64} do_sys_openat2"),
            _line("second probe of an event", "p:x ksys_readahead", "p:x do_sys_openat2"),
            _line("the same probe twice", "p:x do_sys_openat2", "p:x do_sys_openat2"),
            _line("second probe with other arguments", "p:x ksys_readahead a=%di", "p:x do_sys_openat2"),
            _line("second probe of another kind", "r:x do_sys_openat2", "p:x do_sys_openat2"),
        ),
    ),
    Section(
        "Removing",
        (
            _line("by event", "-:x", "p:x do_sys_openat2"),
            _line("by group and event", "-:g/x", "p:g/x do_sys_openat2"),
            _line("a whole group", "-:g/", "p:g/x do_sys_openat2", "p:g/y do_sys_openat2"),
            _line("with a blank before it", " -:x", "p:x do_sys_openat2"),
            _line("one probe of several", "-:x ksys_readahead", "p:x do_sys_openat2", "p:x ksys_readahead"),
            _line("what isn't there", "-:nosuch"),
        ),
    ),
    Section(
        "Places",
        (
            _line("function and offset", "p:x do_sys_openat2+0"),
            _line("after ENDBR or within the call", "p:x do_sys_openat2+4"),
            _line("inside an instruction", "p:x do_sys_openat2+1"),
            _line("outside the function", "p:x do_sys_openat2+0x100000"),
            _line("negative offset", "p:x do_sys_openat2-1"),
            _line("return probe after the entry", "r:x do_sys_openat2+5"),
            _line("unknown function", "p:x no_such_function"),
            _line("several functions of that name", "p:x t_show"),
            _line("data", "p:x jiffies"),
            _line("forbidden function", "p:x do_int3"),
            # a module on some kernels, where it isn't loaded; built into others
            _line("function of virtio_ring, where that is a loaded module", "p:x virtio_ring:virtqueue_add_sgs"),
            _line("module that isn't loaded", "p:x no_such_module:function"),
            _line("no such function of virtio_ring, where that is a loaded module", "p:x virtio_ring:no_such_function"),
            _line("low address", "p:x 12345"),
            _line("nothing", "p:x"),
        ),
    ),
    Section(
        "Arguments",
        (
            _argument("register", "a=%di"),
            _argument("unknown register", "a=%rdi"),
            _argument("$argN", "a=$arg2"),
            _argument("$argN on a return probe", "a=$arg2", "r"),
            _line("$argN after the entry", "p:x do_sys_openat2+5 a=$arg2"),
            _argument("$arg0", "a=$arg0"),
            _argument("$arg7, which is on the stack", "a=$arg7"),
            _argument("$retval", "a=$retval", "r"),
            _argument("$retval on an entry probe", "a=$retval"),
            _argument("$stack", "a=$stack"),
            _argument("$stackN", "a=$stack2"),
            _argument("$stackN that overflows", "a=$stack99999999999999999999"),
            _argument("$comm", "a=$comm"),
            _argument("$COMM", "a=$COMM"),
            _argument("$comm as a number", "a=$comm:u32"),
            _argument("the current task", "a=$current"),
            _argument("unknown variable", "a=$nosuch"),
            _argument("symbol", "a=@jiffies"),
            _argument("unknown symbol", "a=@no_such_symbol"),
            _argument("address", "a=@0xffffffff81000000"),
            _argument("file offset", "a=@+0"),
            _argument("constant", "a=\\42"),
            _argument("constant text", 'a=\\"text":string'),
            _argument("dereference", "a=+8(%si)"),
            _argument("user-space dereference", "a=+u8(%si)"),
            _argument("nested dereference", "a=+0(+8(%dx))"),
            _argument("nine nested dereferences", f"a={'+0(' * 9}%si{')' * 9}"),
            _argument("parenthesis that isn't closed", "a=+0(%si"),
            _argument("argument without name", "%di %si"),
            _argument("two arguments of a name", "a=%di a=%si"),
            _argument("name that begins with a digit", "1a=%di"),
            _argument("expression of 64 bytes", f"a=+{'0' * 58}(%si)"),
            _argument("129 arguments", " ".join(f"a{number}=%di" for number in range(129))),
        ),
    ),
    Section(
        "Arguments by their names in C",
        (
            _argument("parameter", "dfd"),
            _argument("parameter with a name and a type", "path=filename:ustring"),
            _argument("all parameters", "$arg*"),
            _argument("member of a structure", "flags=how->flags"),
            _argument("unknown member", "flags=how->nosuch"),
            _argument("unknown parameter", "nosuch"),
            _argument("parameter on a return probe", "dfd", "r"),
            _argument("type of the returned value", "$retval", "r"),
            _argument("cast", "a=(open_how)how->flags"),
        ),
    ),
    Section(
        "Types",
        (
            _argument("unsigned", "a=%di:u8 b=%di:u16 c=%di:u32 d=%di:u64"),
            _argument("signed", "a=%di:s8 b=%di:s16 c=%di:s32 d=%di:s64"),
            _argument("hexadecimal", "a=%di:x8 b=%di:x16 c=%di:x32 d=%di:x64"),
            _argument("bit field", "a=%di:b4@4/32"),
            _argument("bit field that is too wide", "a=%di:b9@0/8"),
            _argument("string", "a=+0(%si):string"),
            _argument("user-space string", "a=+0(%si):ustring"),
            _argument("string of a register", "a=%si:string"),
            _argument("symbol", "a=%di:symbol"),
            _argument("symbol as text", "a=%di:symstr"),
            _argument("character", "a=%di:char"),
            _argument("name of a dentry", "a=%si:%pd"),
            _argument("name of a file", "a=%di:%pD"),
            _argument("array", "a=+0(%si):u8[4]"),
            _argument("array of strings", "a=+0(%si):string[2]"),
            _argument("array of 65", "a=+0(%si):u8[65]"),
            _argument("array of a register", "a=%si:u8[4]"),
            _argument("array that isn't closed", "a=+0(%si):u8[4"),
            _argument("unknown type", "a=%di:u7"),
            Feature("array in the format file", Format("p:x do_sys_openat2 a=+0(%si):u8[4]")),
            Feature("string in the format file", Format("p:x do_sys_openat2 a=+0(%si):string")),
            Feature("bit field in the format file", Format("p:x do_sys_openat2 a=%di:b4@4/32")),
        ),
    ),
    Section(
        "Filters",
        (
            _filter("number", "dfd == -100"),
            _filter("bits", "how & 3"),
            _filter("and, or, not", '!(dfd == 1 || dfd == 2) && path != "x"'),
            _filter("glob", 'path ~ "/etc/*"'),
            _filter("text without quotes", "path == passwd"),
            _filter("text by its address in user space", 'how.ustring ~ "/etc/*"'),
            _filter("function by name", "how.function == do_sys_openat2"),
            _filter("CPU", "CPU == 0"),
            _filter("list of CPUs", "CPU & CPUS{0-1}"),
            _filter("comm", 'COMM == "cat"'),
            _filter("field of every event", "common_pid != 0"),
            _filter("the place of the probe", "__probe_ip != 0"),
            _filter("array", "bytes == 1"),
            _filter("condition left out at the end", "dfd == 1 &&"),
            _filter("unknown field", "nosuch == 1"),
            _filter("number that isn't one", "dfd == x"),
            _filter("less, of a text", 'path < "x"'),
            _filter("glob of a number", 'dfd ~ "1*"'),
            _filter("parenthesis that isn't closed", "(dfd == 1"),
            _filter("quote that isn't closed", 'path == "x'),
        ),
    ),
    Section(
        "Triggers",
        (
            Feature("stacktrace", Trigger("stacktrace")),
            Feature("traceoff with count and filter", Trigger("traceoff:3 if dfd == 1")),
            Feature("snapshot", Trigger("snapshot")),
            Feature("enable_event", Trigger("enable_event:sched:sched_switch")),
            Feature("hist", Trigger("hist:keys=dfd")),
            Feature("hist by stack", Trigger("hist:keys=stacktrace")),
            Feature("hist by common_stacktrace", Trigger("hist:keys=common_stacktrace")),
            Feature("hist without hitcount", Trigger("hist:keys=dfd:vals=how:nohitcount")),
            Feature("hist in percent", Trigger("hist:keys=dfd:vals=hitcount.percent")),
            Feature("filter with an unknown field", Trigger("stacktrace if nosuch == 1")),
        ),
    ),
    Section(
        "Files",
        tuple(
            Feature("", Exists(path))
            for path in (
                *("available_filter_functions_addrs", "buffer_subbuf_size_kb", "dynamic_events", "enabled_functions"),
                *("error_log", "events/sched/sched_switch/hist", "last_boot_info", "osnoise", "set_event_notrace_pid"),
                *("set_event", "snapshot", "synthetic_events", "touched_functions", "trace_marker_raw"),
                *("uprobe_events", "user_events_data", "instances"),
            )
        ),
    ),
    Section(
        "Options",
        tuple(
            Feature("", Option(name))
            for name in (
                *("bin", "bitmask-list", "context-info", "copy_trace_marker", "event-fork", "fields", "func-args"),
                *("hash-ptr", "irq-info", "latency-format", "markers", "overwrite", "pause-on-trace", "raw"),
                *("record-tgid", "stacktrace", "trace_printk_dest", "userstacktrace"),
            )
        ),
    ),
    Section(
        "What the files say",
        (
            Feature(
                "README: definitions", Says("README", r"(?m)^\s+(?:Format: )?[a-z-](?:\[maxactive\])?\[?:\[[<s\[].*$")
            ),
            Feature("README: places", Says("README", r"(?m)^\s*place.*:.*$")),
            Feature("README: fetched arguments", Says("README", r"(?m)^\s+fetcharg:.*\n(?:(?!.*\w: ).*\n)*")),
            Feature(
                "README: types", Says("README", r"(?m)^\s+type:.*\n(?:\s+(?:b<|symstr|<type|string|ustring).*\n)*")
            ),
            Feature("clocks", Says("trace_clock", r".+")),
            Feature("tracers", Says("available_tracers", r".+")),
            Feature("letters before the time", Says("trace", r"(?<=-=> ).*")),
        ),
    ),
)
