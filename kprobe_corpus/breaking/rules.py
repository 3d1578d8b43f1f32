"""The rules of trace text, one by one: what the kernel prints, why, and the values that a search tries.

A rule's `values` take the module hypothesis.strategies; `search` imports it.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    Values = Callable[[Any], Any]  # a strategy of changes to a case: {"comm": b"a b"}

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_COMM = "prctl(PR_SET_NAME) takes any 15 bytes, and the kernel prints them as they are"
_STRING = "a string is copied from memory and printed between quotes, none of its bytes escaped"
_TYPES = "each type is printed by a conversion of its own, which the event's format file shows"
_OPTION = "a trace option adds, drops or moves columns of every line"


class Rule(NamedTuple):
    """A fact that readers must handle: `says` in one sentence, `why` from the kernel's side."""

    name: str
    says: str
    why: str
    values: Values


def rules(kernels: Sequence[str]) -> list[Rule]:
    """Return all rules; `kernels` are those whose text may be asked for."""
    return [*_comms(), *_columns(), *_clocks(), *_strings(), *_arguments(), *_lines(), *_kernels(kernels)]


def _one_of(key: str, *values: object) -> Values:
    return lambda st: st.sampled_from([{key: value} for value in values])


def _holding(key: str, part: bytes, longest: int, least: int = 0) -> Values:
    """Return a strategy of bytes that contain given bytes, with some letters before and after."""

    def values(st: Any) -> Any:
        letters = st.text(_LETTERS, min_size=least, max_size=(longest - len(part)) // 2)
        return st.tuples(letters, letters).map(lambda ends: {key: ends[0].encode() + part + ends[1].encode()})

    return values


def _comms() -> Iterator[Rule]:
    for name, words, part in (
        ("comm-space", "a space", b" "),
        ("comm-dash", "a dash", b"-"),
        ("comm-dash-number", "a dash and digits, as if its pid followed", b"-1 "),
        ("comm-colon", "a colon", b":"),
        ("comm-bracket", "brackets, as if its CPU followed", b" [001] "),
        ("comm-parenthesis", "parentheses", b"(x)"),
        ("comm-quote", "a quote", b'"'),
        ("comm-backslash", "a backslash", b"\\"),
        ("comm-tab", "a tab", b"\t"),
        ("comm-newline", "a newline", b"\n"),
        ("comm-utf-8", "letters that aren't ASCII", "é".encode()),
        ("comm-not-utf-8", "bytes that aren't UTF-8", b"\xff"),
    ):
        yield Rule(name, f"a task's name may hold {words}", _COMM, _holding("comm", part, 15, 1))
    yield Rule("comm-hash", "a task's name may begin with a hash, as a comment does", _COMM, _one_of("comm", b"#a"))
    yield Rule("comm-empty", "a task's name may be empty", _COMM, _one_of("comm", b""))
    yield Rule("comm-blank", "a task's name may be a space alone", _COMM, _one_of("comm", b" "))
    yield Rule(
        "comm-forgotten",
        "<...> may stand for a task's name",
        "the kernel keeps saved_cmdlines_size names, 128, and forgets the others",
        _one_of("is_known", False),
    )


def _columns() -> Iterator[Rule]:
    flags = "irqs off, need-resched, hard and soft interrupts and the preemption count have a letter or digit each"
    yield Rule(
        "flags-letters", "flags may be letters", flags,
        lambda st: st.sampled_from([1, 4, 8, 16, 24, 29]).map(lambda bits: {"context": (bits, 0)}),
    )  # fmt: skip
    yield Rule(
        "flags-digits", "flags may hold digits", flags, lambda st: st.integers(1, 15).map(lambda n: {"context": (0, n)})
    )
    yield Rule("pid-0", "a pid may be 0", "each CPU's idle task has it", _one_of("pid", 0))
    yield Rule(
        "pid-wide", "a pid may have seven digits", "pid_max may be 4,194,304, and the column has five places",
        lambda st: st.integers(100_000, 4_194_303).map(lambda pid: {"pid": pid}),
    )  # fmt: skip
    yield Rule(
        "cpu-wide", "a CPU may have four digits", "CPUs are printed with three digits at least, not at most",
        lambda st: st.sampled_from([1000, 1023]).map(lambda cpu: {"cpu": cpu}),
    )  # fmt: skip
    for name, says, options in (
        ("no-flags", "there may be no column of flags", ("noirq-info",)),
        ("tgid", "a column with the thread group may stand after the pid", ("record-tgid",)),
        ("tgid-no-flags", "the same where there are no flags", ("record-tgid", "noirq-info")),
        ("latency-format", "CPU and flags may be a word, times microseconds since the first", ("latency-format",)),
        ("latency-verbose", "the latency format may be verbose", ("latency-format", "verbose")),
        ("no-context", "a line may have nothing before the event's name", ("nocontext-info",)),
        ("sym-addr", "a place may have an address after it", ("sym-addr",)),
        ("sym-offset", "a place may have an offset", ("sym-offset",)),
        ("fields", "arguments may be printed by field, with types and addresses of their own", ("fields",)),
    ):
        yield Rule(name, says, f"{_OPTION}: {', '.join(options)}", _one_of("options", options))


def _clocks() -> Iterator[Rule]:
    yield Rule(
        "time-long", "times may have seven digits before the point", "uptime has no bound",
        lambda st: st.integers(100_000, 9_999_999).map(lambda start: {"start": float(start)}),
    )  # fmt: skip
    yield Rule(
        "time-whole", "a time may have no point", "clocks that don't count nanoseconds are printed as they are",
        lambda st: st.sampled_from([{"clock": clock} for clock in ("counter", "x86-tsc", "uptime")]),
    )  # fmt: skip


def _strings() -> Iterator[Rule]:
    for name, words, part in (
        ("string-space", "a space", b" "),
        ("string-equals", "an equals sign", b"="),
        ("string-argument", "what looks like a further argument", b" x=1"),
        ("string-quote", "a quote", b'"'),
        ("string-quote-argument", "a quote and what looks like a further argument", b'" x="'),
        ("string-backslash", "a backslash", b"\\"),
        ("string-comma", "a comma", b","),
        ("string-braces", "braces, as arrays have", b"{1,2}"),
        ("string-parenthesis", "parentheses", b"(x)"),
        ("string-colon", "a colon and a space", b": "),
        ("string-newline", "a newline", b"\n"),
        ("string-return", "a carriage return", b"\r"),
        ("string-tab", "a tab", b"\t"),
        ("string-control", "control characters", b"\x01"),
        ("string-separator", "a character that other languages end lines at", "\u2028".encode()),
        ("string-utf-8", "letters that aren't ASCII", "é".encode()),
        ("string-not-utf-8", "bytes that aren't UTF-8", b"\xff"),
        ("string-arrow", "the arrow of a return probe", b" <- "),
        ("string-hash", "a newline and a hash, as the header has", b"\n#"),
        ("string-lost", "what the kernel says of lost events", b"\nCPU:0 [LOST 9 EVENTS]\n"),
        ("string-event", "a whole line of another event", b'"\n  a-1 [000] ..... 1.000001: x: (y+0x0/0x1) s="'),
    ):
        yield Rule(name, f"a string may hold {words}", _STRING, _holding("path", part, 120))
    yield Rule("string-empty", "a string may be empty", _STRING, _one_of("path", b""))
    yield Rule("string-number", "a string may be a number", _STRING, _one_of("path", b"12", b"0x12"))
    yield Rule("string-fault", 'a string may be "(fault)"', _STRING, _one_of("path", b"(fault)"))
    yield Rule(
        "fault", "(fault) may stand for a value, without quotes", "memory that isn't there can't be read",
        _one_of("arguments", "s=+0(%dx):string s2=+0(+0(%dx)):u32", "s=+0(+0(%si)):string"),
    )  # fmt: skip


def _arguments() -> Iterator[Rule]:
    for name, says, *arguments in (
        ("no-arguments", "an event may have no arguments", ""),
        ("unnamed", "arguments without a name are arg1, arg2 …", "%di %si"),
        ("negative", "numbers may be negative", "a=%di:s32", "a=%di:s64"),
        ("hexadecimal", "numbers may be hexadecimal", "a=%di:x32", "a=%si"),
        ("large", "numbers may have 64 bits", "a=%si:u64", "a=\\-1:u64"),
        ("hexadecimal-beside", "a number may be hexadecimal beside one that isn't", "a=%di:s32 b=%di:x32"),
        ("two-strings", "an event may have several strings", "s=+0(%si):string t=+1(%si):string"),
        ("number-behind", "arguments may follow a string", "s=+0(%si):string a=%di:s32"),
        ("array", "an argument may be an array, in braces with commas", "a=+0(%si):u8[2]", "a=+0(%si):x16[3]"),
        ("array-of-strings", "an argument may be an array of strings", "a=+0(+0(%sp)):string[1]"),
        ("char", "an argument may be a character in single quotes", "a=+0(%si):char"),
        ("symbol", "an argument may be a place in code", "a=%ip:symbol"),
        ("bitfield", "an argument may be some bits of memory", "a=+0(%si):b4@2/32"),
        ("comm", "an argument may be the task's name", "a=$comm"),
        ("name-of-column", "an argument may have the name of a column", *(
            f"{name}=%di:s32" for name in ("pid", "cpu", "flags", "task", "timestamp", "name", "common_pid", "Time"))),
        ("name-short", "an argument's name may be a letter", "x=%di:s32"),
        ("name-upper", "an argument's name may be in capitals, with an underscore", "_A=%di:s32"),
        ("twelve", "an event may have a dozen arguments", " ".join(f"a{n}=%di:s32" for n in range(1, 13))),
    ):  # fmt: skip
        yield Rule(f"argument-{name}", says, _TYPES, _one_of("arguments", *arguments))
    yield Rule(
        "return-probe", "a return probe's place is two, with an arrow between them",
        "it says where the function returns to, and which function that was",
        lambda st: st.sampled_from([{"probe": "r", "arguments": f"r=$retval{kind}"} for kind in (":s32", "", ":x32")]),
    )  # fmt: skip


def _lines() -> Iterator[Rule]:
    yield Rule(
        "name-short", "an event's name may be one letter, or end in another's", "users choose the names",
        _one_of("name", "e", "sched_switch", "print", "_"),
    )  # fmt: skip
    yield Rule(
        "stack", "a stack may follow a line", "option stacktrace records one with each event",
        _one_of("options", ("stacktrace",), ("stacktrace", "sym-offset"), ("userstacktrace",)),
    )  # fmt: skip
    marker = "programs write any text to trace_marker"
    for name, words, data in (
        ("marker", "what a program wrote", "hello"),
        ("marker-lines", "several lines that a program wrote", "a\nb"),
        ("marker-empty", "an empty line that a program wrote", "\n"),
        ("marker-equals", "what looks like arguments", "s=1"),
        ("marker-event", "what looks like an event", 'ent: (a+0x0/0x1) s="b"'),
    ):
        yield Rule(name, f"between two lines there may be {words}", marker, _one_of("beside", (("marker", data),)))
    yield Rule(
        "lost", "the kernel may have lost events, and says so in a line",
        "a buffer that is full drops its oldest events, and trace_pipe says how many",
        lambda st: st.sampled_from([{"times": times, "more": (("buffer_kb", 4), ("reader", "trace_pipe"))}
                                    for times in (200, 400)]),
    )  # fmt: skip


def _kernels(kernels: Sequence[str]) -> Iterator[Rule]:
    arguments = ["s=+0(%si):string", "a=%di:s32 b=%si"]
    if len(kernels) > 1:
        yield Rule(
            "kernel", "flags and the layout of numbers differ between kernels",
            "columns of flags and types of arguments were added over the years",
            lambda st: st.tuples(st.sampled_from(kernels), st.sampled_from(arguments))
            .map(lambda drawn: {"kernel": drawn[0], "arguments": drawn[1]}),
        )  # fmt: skip
