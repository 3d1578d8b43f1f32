"""The words of random definitions: each list begins with valid words, then come near misses."""

# Functions that an idle guest never calls: an event there can be enabled and stays silent.
QUIET = ("ksys_fadvise64_64", "ksys_readahead", "__x64_sys_swapon", "__x64_sys_acct", "__x64_sys_fadvise64")
KNOWN = ("do_sys_openat2", "vfs_read", "vfs_write", "kernel_clone", *QUIET)
ODD = (
    *("nosuch", "", "_", "1x", "do_sys_openat2.x", "jiffies", "init_task", "linux_banner", "_stext", "_text", "_end"),
    *("do_int3", "get_kprobe", "memcpy", "entry_SYSCALL_64", "start_kernel", "t_show", "__fentry__", "native_read_msr"),
    *("nomod:fn", "virtio:nosuch", "virtio_ring:virtqueue_add_sgs", "virtio:virtio_device_ready", ":vfs_read", "a:b:c"),
    *("virtio_console:put_chars", "virtqueue_add_sgs", "ksys_fadvise64_64:x", "x/y:1", "a/b", "%return", "+4", "-4"),
)
OFFSETS = (
    *("+0", "+1", "+4", "+5", "+0x0", "+00", "+05", "+0x5", "+", "-0", "-1", "+-1", "++1", "+x", "+5x", "+ 5", "+9"),
    *("+4294967295", "+4294967296", "+18446744073709551615", "+99999999999999999999", "+0x7fffffff", "+100", "-0x10"),
)
NUMBERS = (
    *("0", "1", "-1", "08", "010", "0x", "0x10", "0X1F", "12345", "4095", "0xffffffffffffffff", "18446744073709551616"),
    *("0xfffffffffffff001", "0xfffffffffffff000", "0x7fffffffffff", "0xffff888000000000", "0xffffffff80000000", "1 "),
)
REGISTERS = (
    *("di", "si", "dx", "cx", "r8", "r9", "ax", "bx", "bp", "r10", "r11", "r12", "r15", "orig_ax", "ip", "cs", "ss"),
    *("flags", "sp", "rdi", "eax", "al", "ds", "es", "fs", "gs", "DI", "", "r16", "d", "dii"),
)
VARIABLES = (
    *("stack", "stack0", "stack1", "stack2048", "stack2049", "stack-1", "stack0x1", "stackx", "stack4294967296"),
    *("comm", "COMM", "Comm", "comm2", "retval", "retvalx", "ret", "arg1", "arg2", "arg0", "arg6", "arg7", "arg2048"),
    *(
        "arg2049",
        "argx",
        "arg",
        "arg01",
        "arg1x",
        "arg*",
        "argN",
        "current",
        "",
        "stack18446744073709551616",
        "stack+1",
    ),
)
TYPES = (
    *("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "x8", "x16", "x32", "x64", "string", "ustring", "symbol"),
    *("symstr", "char", "b4@0/8", "b1@7/8", "b8@4/32", "b63@1/64", "b0@0/8", "b9@0/8", "b4@5/8", "b4@0/7", "b4@", "b"),
    *(
        "b4",
        "b4@0",
        "b4@0/",
        "b0x4@0x4/0x10",
        "b4@0/8x",
        "b-1@0/8",
        "b4 @0/8",
        "b1@1/128",
        "u7",
        "U8",
        "",
        "str",
        "int",
    ),
    *("s", "x", "string8", "%pd", "%pD", "b4@0/64", "b32@32/64", "b010@010/040", "b4@0/ 8", "u64 ", "%p", "x64x"),
)
LENGTHS = (
    *(
        "[1]",
        "[2]",
        "[4]",
        "[63]",
        "[64]",
        "[65]",
        "[0]",
        "[]",
        "[-1]",
        "[x]",
        "[4",
        "[4]x",
        "[0x4]",
        "[010]",
        "[4][4]",
    ),
    *("[4294967297]", "4]", "[ 4]", "[4 ]", "[+4]", "]", "["),
)
NAMES = (
    *(
        "a",
        "b",
        "arg1",
        "arg2",
        "_x",
        "A1",
        "x" * 32,
        "x" * 33,
        "common_type",
        "common_pid",
        "common_flags",
        "1a",
        "a-b",
    ),
    *("a.b", "", "__probe_ip", "__probe_func", "__probe_ret_ip", "common_tgid", "common_preempt_count", "cpu", "comm"),
    *("common_x", "é", "stacktrace", "a:b", "filter"),
)
EVENTS = (
    *(
        "a",
        "b",
        "c",
        "_",
        "A",
        "e1",
        "x" * 63,
        "x" * 64,
        "1a",
        "a-b",
        "a.b",
        "",
        "enable",
        "filter",
        "a b",
        "é",
        "format",
    ),
    *("a:b", "sched_switch", "print", "common_pid", "a/b"),
)
GROUPS = (
    *("g", "kprobes", "my", "g2", "sched", "g-h", "-g", "1g", "", "x" * 63, "x" * 64, "g.h", "é", "events"),
    *("ftrace", "syscalls", "a b", "instances", "enable", "header_page"),
)
IMMEDIATES = (
    *("5", "-5", "+5", "0x10", "0xffffffffffffffff", "18446744073709551616", "-9223372036854775808", "x", "", "08"),
    *('"abc"', '"abc', 'abc"', '"', '""', '"a"b"', "-", "+", "-0x10", "+-5", "-9223372036854775809", '"a:b"', '"a=b"'),
)
DEREFS = (
    *(
        "+0",
        "+8",
        "-8",
        "+0x10",
        "-0x10",
        "+u0",
        "-u8",
        "+u",
        "+",
        "-",
        "++8",
        "--8",
        "+-8",
        "-+8",
        "+x",
        "+8x",
        "+010",
    ),
    *(
        "+9223372036854775807",
        "+9223372036854775808",
        "-9223372036854775808",
        "+4294967296",
        "+uu0",
        "u0",
        "+ 0",
        "+u-8",
    ),
)
KINDS = (
    *(
        "p",
        "r",
        "p1",
        "r1",
        "r10",
        "r0",
        "r4096",
        "r4097",
        "r0x10",
        "r010",
        "r-1",
        "rx",
        "px",
        "r1x",
        "P",
        "R",
        "e",
        "-",
    ),
    *("", "x", "p-", "r4294967297", "r" + "0" * 64 + "1", "r+1", "s", "t", "f", "u", "pp", "rr", "p%", "r1%"),
)
SWITCHES = (b"1", b"0", b"1\n", b"0\n", b"2", b"", b"x", b" 1", b"1 ", b"01", b"+1", b"-1", b"1\0", b"1\n\n", b"1" * 30)
OPTIONS = (
    *("sym-offset", "sym-addr", "stacktrace", "overwrite", "markers", "irq-info", "context-info", "record-cmd"),
    *("record-tgid", "annotate", "pause-on-trace", "event-fork", "hash-ptr", "disable_on_free", "function-fork"),
    *("test_nop_accept", "test_nop_refuse", "userstacktrace", "sym-userobj", "print-parent", "display-graph", "nosuch"),
    *("trace_printk", "printk-msg-only", "block", "verbose", "latency-format", "function-trace", ""),
)
CONTROL_FILES = (
    *("trace_clock", "tracing_on", "buffer_size_kb", "buffer_total_size_kb", "set_event_pid", "set_event_notrace_pid"),
    *("saved_cmdlines_size", "current_tracer", "trace_options", "set_event", "error_log", "kprobe_profile"),
    *("available_tracers", "timestamp_mode", "tracing_thresh", "max_graph_depth", "buffer_percent"),
    *("per_cpu/cpu0/buffer_size_kb", "per_cpu/cpu0/trace", "options/sym-offset", "events/enable", "README", "trace"),
    *(
        "tracing_cpumask",
        "tracing_max_latency",
        "stack_max_size",
        "snapshot",
        "events/header_page",
        "events/header_event",
    ),
)
VALUES = (
    *(
        b"0",
        b"1",
        b"1\n",
        b"2",
        b"4",
        b"5",
        b"96",
        b"4096",
        b"-1",
        b"x",
        b"",
        b"\n",
        b" 1",
        b"1 ",
        b"1 2",
        b"0x10",
        b"08",
    ),
    *(b"99999999999999999999", b"4294967296", b"1\0", b"1\n2", b"+5", b"1 x", b"local", b"mono"),
)
STRUCTS = (
    *(
        "task_struct",
        "open_how",
        "file",
        "rq",
        "dentry",
        "sk_buff",
        "inode",
        "page",
        "nosuch",
        "",
        "sigval",
        "u32",
        "list_head",
    ),
    *("struct file", "task_struct*", "file,", "mm_struct", "1x"),
)
FIELDS = (
    *("pid", "comm", "flags", "mode", "f_inode", "f_path", "d_parent", "curr", "se", "cloned", "group_leader", "tasks"),
    *("nosuch", "", "1", "in_execve", "vruntime", "d_name", "name", "pkt_type", "next", "f_op", "pid:", "-pid", "mm"),
)
PER_CPU = ("this_cpu_ptr", "this_cpu_read", "this_cpu", "this_cpu_ptr ", "this_cpu_write", "THIS_CPU_READ")
