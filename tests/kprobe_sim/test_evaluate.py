"""What a hit nearly always finds is evaluated by itself: the records are those of the rule for all that can happen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.builds.gates import gates_for
from kprobe_sim.builds.profile import load
from kprobe_sim.language.fetch.argument import FetchArg, compile_argument
from kprobe_sim.language.fetch.evaluate import compile_arguments, compile_exactly
from kprobe_sim.language.fetch.expression import Scope
from kprobe_sim.language.primitives.refusal import Refusal
from kprobe_sim.machine.memory import CallMemory, Memory
from kprobe_sim.machine.state import Current, State
from kprobe_sim.probes.hits.call import Call
from kprobe_sim.records.scratch_page import Hole, ScratchPages, SparseBytes

SYMBOLS = load("6.1").symbols
GATES = [gates_for(number) for number in ((5, 10, 262), (6, 1, 190), (6, 12, 117), (7, 3, 0))]
STACK_SIZE = 0x4000
USER, KERNEL, UNMAPPED = 0x7F0000000000, 0xFFFF888004000000, 0xFFFF888005000000
BANNER = SYMBOLS.lookup("linux_banner")[0].address

addresses = st.builds(
    lambda start, offset: (start + offset) & (1 << 64) - 1,
    st.sampled_from([USER, KERNEL, UNMAPPED, BANNER, 0, 0x7FFF_FFFF_F000]),
    st.integers(-9, 40),
)
sources = st.sampled_from(
    ["%di", "%si", "%ax", "$stack", "$stack1", "$stack9", "$comm", "\\1", '\\"text"', "@linux_banner"]
)


def dereferenced(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda user, offset, of: f"+{user}{offset}({of})", st.sampled_from(["", "u"]), st.integers(0, 20), inner
    )


expressions = st.recursive(sources, dereferenced, max_leaves=3)
types = st.sampled_from(
    [
        "u8",
        "s16",
        "x32",
        "u64",
        "s64",
        "b3@2/16",
        "b12@20/32",
        "string",
        "string",
        "ustring",
        "symstr",
        "symbol",
        "char",
        "",
    ]
)
lengths = st.sampled_from(["", "", "", "[1]", "[3]"])
arguments = st.builds(lambda one, kind, length: f"{one}:{kind}{length}" if kind else one, expressions, types, lengths)


class Words(NamedTuple):
    """Words that a machine's memory holds: texts of some length, and addresses to follow."""

    blocks: dict[int, bytes]
    registers: dict[str, int]


texts = st.builds(
    lambda text, nul, size: (text + nul).ljust(size, b"\0"),
    st.binary(max_size=24) | st.sampled_from([b"/etc/passwd", b"x" * 4095, b"x" * 4100]),
    st.sampled_from([b"", b"\0"]),
    st.sampled_from([0, 32]),
)
pointers = st.lists(addresses, max_size=6).map(lambda found: b"".join(one.to_bytes(8, "little") for one in found))
states = st.builds(
    Words,
    st.dictionaries(addresses, texts | pointers, max_size=4),
    st.fixed_dictionaries(dict.fromkeys(["di", "si", "ax", "sp"], addresses)),
)


def compiled(words: list[str], scope: Scope) -> list[FetchArg]:
    """Read the arguments that this kernel takes, symbols replaced by their addresses."""
    found: list[FetchArg] = []
    offset = 0
    for position, word in enumerate(words):
        word = word.replace("@linux_banner", f"@{BANNER:#x}")
        try:
            argument = compile_argument(f"a{position}={word}", position, offset, [one.name for one in found], scope)
        except Refusal:
            continue
        found.append(argument)
        offset += argument.size
    return found


def outcome(record: bytes) -> tuple[bytes, list[tuple[int, int, int | None]]]:
    """Return a record and its holes, and what becomes of a number in one."""
    holes = record.holes if isinstance(record, SparseBytes) else ()
    return bytes(record), [
        (hole.offset, hole.size, hole.change(0x0123456789ABCDEF) if hole.change else None) for hole in holes
    ]


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(arguments, min_size=1, max_size=4), st.sampled_from(GATES), st.lists(states, min_size=1, max_size=3))
@example(["+0(%si):string", "%di:s32"], GATES[1], [Words({USER: b"/etc/passwd\0"}, {"di": 5, "si": USER})])
@example(["+0(%si):string", "+0(%di):u32"], GATES[1], [Words({USER: b""}, {"di": 5, "si": USER})])
@example(["+0(+0(%si)):string", "\\1:u8"], GATES[1], [Words({USER: USER.to_bytes(8, "little")}, {"si": USER})])
def test_records_are_those_of_the_rule(words: list[str], gates: object, found: list[Words]) -> None:
    scope = Scope(is_return=False, at_entry=True, gates=gates)  # type: ignore[arg-type]  # hypothesis knows no Gates
    args = compiled(words, scope)
    some = compile_arguments(args, 16, SYMBOLS, scope.gates, STACK_SIZE)
    exactly = compile_exactly(args, 16, SYMBOLS, scope.gates, STACK_SIZE)
    machine = Memory(SYMBOLS, {"linux_banner": b"Linux version 6.1\n\0"})
    head = (7, 1, 2, 42, 0xFFFFFFFF81000000)
    for blocks, registers in found:
        state = State(registers, CallMemory(machine, blocks), (1, 2), b"cat", current=Current(KERNEL, USER, 0))
        assert outcome(some(state, head)) == outcome(exactly(state, head))


# ------------------------------------------------------------------------------------------------------ whole kernels

CAT, LESS = Task(42, "cat"), Task(43, "less", tgid=40)
DEFINITIONS = (
    b"p:a do_sys_openat2 dfd=%di:s32 file=+0(%si):string\n",
    b"p:b do_sys_openat2 how=+0(%dx):u64 file=+0(%si):ustring\n",
    b"r:c do_sys_openat2 $retval:s32 +0(%si):string\n",
    b"p:d vfs_read $arg1 +0(%di):x8[4]\n",
    b"p:e vfs_write file=+0(%si):string n=%dx:u16 c=$comm bits=%di:b4@4/16 $arg6\n",
)
calls = st.builds(
    lambda function, task, args, returns, caller, memory, cpu, offset: Call(
        function, task, args, returns, caller, memory=memory, cpu=cpu, offset=offset
    ),
    st.sampled_from(["do_sys_openat2", "vfs_read", "vfs_write"]),
    st.sampled_from([CAT, LESS]),
    st.tuples(st.sampled_from([-100, 3]), st.sampled_from(["/etc/passwd", "", b"\xff", 0x1000]), st.just(0x2000)),
    st.sampled_from([3, -2, None]),
    st.sampled_from(["", "__x64_sys_openat+0x6a"]),
    st.sampled_from([{}, {0x1000: b"mine\0"}, {0x2000: bytes(range(8)), 0xFFFFFFFFFFFFFF9C: b"four"}]),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 0, 0, 5]),
)
writes = st.sampled_from(
    [
        *[("kprobe_events", line) for line in DEFINITIONS],
        *[(f"events/kprobes/{name}/enable", state) for name in "abcde" for state in (b"1", b"1", b"0")],
        ("kprobe_events", b"-:a\n"),
        ("events/kprobes/a/filter", b"dfd == 3"),
        ("events/kprobes/a/filter", b'file ~ "*pass*" && dfd != 3'),
        ("events/kprobes/b/filter", b"how > 4 || common_pid == 43"),
        ("events/kprobes/b/filter", b"0"),
        ("events/kprobes/d/filter", b"common_pid == 43"),
        ("events/kprobes/e/filter", b'n == 7 || file ~ "*pass*"'),
        ("events/kprobes/a/trigger", b"traceoff:1 if dfd == 3"),
        ("events/kprobes/a/trigger", b"stacktrace"),
        ("events/kprobes/c/trigger", b"disable_event:kprobes:a"),
        ("events/kprobes/d/trigger", b"snapshot"),
        ("tracing_on", b"0"),
        ("tracing_on", b"1"),
        ("tracing_cpumask", b"1"),
        ("set_event_pid", b"42"),
        ("set_event_pid", b""),
        ("options/stacktrace", b"1"),
        ("options/record-cmd", b"0"),
        ("options/record-tgid", b"1"),
        ("trace_clock", b"counter"),
        ("current_tracer", b"function"),
        ("current_tracer", b"nop"),
        ("buffer_size_kb", b"8"),
        ("trace", b""),
        ("instances/other/events/kprobes/a/enable", b"1"),
        ("instances/other/events/kprobes/c/filter", b"arg1 == 3"),
    ]
)
SHOWN = ("trace", "instances/other/trace", "snapshot", "kprobe_profile", "saved_cmdlines", "per_cpu/cpu0/stats")


def looked_at(kernel: SimulatedKernel) -> Mapping[str, bytes]:
    return {path: kernel.tracefs.read(path) for path in SHOWN}


@contextmanager
def by_the_rule() -> Iterator[None]:
    """Let probes that are defined now make their records of the whole state, with all that can happen to them."""
    with (
        patch("kprobe_sim.probes.kprobes.compile_arguments", compile_exactly),
        patch("kprobe_sim.probes.kprobes.compile_direct", lambda arguments, start, gates: None),
    ):
        yield


class EagerPages(ScratchPages):
    """The pages with each record laid there at once."""

    def write(self, cpu: int, record: bytes) -> bytes:
        written = super().write(cpu, record)
        super().write(cpu, SparseBytes.of(b"", []))
        return written


def write(kernel: SimulatedKernel, path: str, data: bytes) -> int:
    """Write to a file; return the errno, 0 for none."""
    try:
        kernel.tracefs.write(path, data, truncate=not data)
    except OSError as error:
        return error.errno or -1
    return 0


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.sampled_from(["6.1", "6.12"]), st.lists(st.tuples(st.lists(calls, max_size=4), writes), min_size=3, max_size=20)
)
def test_what_was_made_for_a_hit_lasts_as_long_as_it_is_true(
    series: str, steps: list[tuple[list[Call], tuple[str, bytes]]]
) -> None:
    """One kernel makes batches of calls; the other looks at everything anew for each call, and records by the rule."""
    kernel = SimulatedKernel(series, cpus=2)
    with patch("kprobe_sim.events.tracing.ScratchPages", EagerPages):
        careful = SimulatedKernel(series, cpus=2)
    for one in (kernel, careful):
        one.tracefs.mkdir("instances/other")
    everything = [Call("do_sys_openat2", CAT, (-100, "/etc/passwd", 0x2000), 3), Call("vfs_read", LESS, (0x1000,))]
    start = [("kprobe_events", b"".join(DEFINITIONS)), ("events/kprobes/enable", b"1")]
    for batch, (path, data) in [*[([], step) for step in start], *steps]:
        kernel.calls([*batch, *everything])
        for call in [*batch, *everything]:
            careful.instances.top.tracing.rearm()
            careful.perform(call)
        with by_the_rule():
            expected = write(careful, path, data)
        assert write(kernel, path, data) == expected
    assert looked_at(kernel) == looked_at(careful)


stated = st.one_of(
    st.sampled_from(["/etc/passwd", "", "\xe4", "a\0b", b"\xff\xfe", b"", "x" * 4094, "x" * 4095, "x" * 5000]),
    st.integers(-(1 << 63), (1 << 64) - 1),
)
suffices = st.sampled_from(
    [
        *("%di:s32", "%di", "%dx:u8", "%r9:x16", "%cx:b12@20/32", "$arg2:u64", "$arg6", "$comm"),
        *("+0(%si):string", "+u0(%di):ustring", "+0($arg3):string"),
    ]
)
lacks = st.sampled_from(
    [
        *("%ax", "%ip", "$stack", "+1(%si):string", "+0(%si):x8[3]", "+0(%dx):u32", "+0(%si):string[2]", "%di:symstr"),
        *("%si:symbol", "$comm:string", "\\7:s8", '\\"text"'),
    ]
)


@settings(max_examples=60)
@given(
    st.sampled_from(["5.10", "6.1", "6.12"]),
    st.sampled_from(["do_sys_openat2", "ksys_fadvise64_64", "vfs_write"]),
    st.lists(suffices, min_size=1, max_size=5) | st.lists(suffices | lacks, min_size=1, max_size=5),
    st.lists(
        st.tuples(st.lists(stated, max_size=7), st.sampled_from([{}, {}, {"dx": 5}]), st.booleans()),
        min_size=1,
        max_size=6,
    ),
)
@example("6.1", "do_sys_openat2", ["%di", "+0(%si):string"], [([-100, "/etc/passwd"], {}, True)])
def test_records_of_what_a_call_states(
    series: str, function: str, words: list[str], made: list[tuple[list[int | str | bytes], dict[str, int], bool]]
) -> None:
    """What a call states suffices for many probes: their records are those that its registers and memory give."""
    kernel, careful = SimulatedKernel(series), SimulatedKernel(series)
    definition = f"p:a {function} {' '.join(words)}\n".encode()
    refused = write(kernel, "kprobe_events", definition)
    with by_the_rule():
        assert write(careful, "kprobe_events", definition) == refused
    for one in (kernel, careful):
        if not refused:
            one.tracefs.write("events/kprobes/a/enable", b"1")
        for args, registers, filtered in made:
            if not refused:
                one.tracefs.write("events/kprobes/a/filter", b"common_pid == 42" if filtered else b"0")
            one.call(function, task=CAT, args=args, registers=registers)
    assert kernel.tracefs.read("trace") == careful.tracefs.read("trace")


# ------------------------------------------------------------------------------------------------------ scratch pages

holes = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 8), st.booleans()), min_size=1, max_size=3)
records = st.one_of(
    st.binary(max_size=20),
    st.binary(min_size=4080, max_size=4092),
    st.builds(
        lambda places: SparseBytes.of(
            bytes(20), [Hole(at, size, (lambda old: old >> 1) if half else None) for at, size, half in places]
        ),
        holes,
    ),
)
page_steps = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 1), records), st.tuples(st.just("need"), st.booleans(), st.none())
)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(page_steps, max_size=40))
def test_records_show_what_was_rejected_before_them(steps: list[tuple[str, int, bytes | None]]) -> None:
    pages, users = ScratchPages(2), 0
    pages.need(True)
    model = [bytearray(4096), bytearray(4096)]
    for _, number, record in steps:
        if record is None:
            if number or users:
                users += 1 if number else -1
                pages.need(bool(number))
            continue
        expected = bytearray(record)
        for at, size, change in record.holes if isinstance(record, SparseBytes) else ():
            old = bytes(model[number][at : at + size])
            expected[at : at + size] = (
                old if change is None else change(int.from_bytes(old, "little")).to_bytes(size, "little")
            )
        if len(record) > 4088:  # it isn't made on the page
            expected = bytearray(record)
        assert pages.write(number, record) == bytes(expected)
        if len(record) <= 4088:
            model[number][: len(expected)] = expected


@pytest.mark.parametrize("longest", [9, 4088])
def test_of_records_of_every_size_the_newest_bytes_are_there(longest: int) -> None:
    hole = SparseBytes.of(bytes(10), [Hole(0, 10)])
    sizes = range(longest - 9, longest + 1)
    for first, second, third in product(sizes, repeat=3):
        pages = ScratchPages(2)
        pages.write(0, b"a" * first)
        pages.write(1, b"b" * second)
        pages.write(0, b"c" * second)
        pages.write(1, b"d" * first)
        pages.write(0, b"e" * third)
        found = bytes(third * b"e" + b"c" * (second - third) + b"a" * (first - max(second, third)))
        assert pages.write(0, hole) == found[:10].ljust(10, b"\0")
        assert pages.write(1, hole) == (b"d" * first + b"b" * (second - first))[:10].ljust(10, b"\0")
        last = SparseBytes.of(bytes(4088), [Hole(4078, 10)])
        assert pages.write(0, last)[4078:] == found[4078:4088].ljust(10, b"\0")


def test_the_page_is_new_when_nobody_needed_it() -> None:
    pages = ScratchPages(1)
    hole = SparseBytes.of(bytes(4), [Hole(0, 4)])
    pages.need(True)
    pages.write(0, b"abcdef")
    assert pages.write(0, hole) == b"abcd"
    pages.write(0, b"xy")
    pages.need(False)
    pages.need(True)
    assert pages.write(0, hole) == bytes(4)
