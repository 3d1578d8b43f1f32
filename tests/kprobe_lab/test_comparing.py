"""What the campaign is made of, tried on two simulators: no difference between them, and one that is put there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kprobe_lab.campaign.difference import Difference, _unequal, first_difference
from kprobe_lab.campaign.regression import answers, proposed_name, write_test
from kprobe_lab.campaign.shrink import shrink
from kprobe_lab.generators.cases import AREAS, Cases
from kprobe_lab.generators.grammar import is_of_kprobes
from kprobe_lab.operations.backends import open_simulator
from kprobe_lab.operations.operation import Handle, Hit, List, Make, Observed, Operation, Read, Sweep, Write, perform
from kprobe_lab.operations.side import Side
from kprobe_lab.operations.symbols import Symbols
from kprobe_sim.kernel.workload import open_workload

KALLSYMS = b"""\
ffffffff8134aea0 T vfs_read
ffffffff813485a0 t do_sys_openat2
ffffffff82c36404 D no_iommu
ffffffffc0201000 t virtqueue_add\t[virtio_ring]
"""


class Deaf:
    """A tracefs that takes every write to kprobe_events that has a 7 in it."""

    def __init__(self, tracefs: Any) -> None:
        self._tracefs = tracefs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def open(self, path: str, flags: int) -> Any:
        file = self._tracefs.open(path, flags)
        if path == "kprobe_events" and flags & os.O_ACCMODE != os.O_RDONLY:
            write = file.write
            file.write = lambda data: len(data) if b"7" in data else write(data)
        return file


def side(tracefs: Any = None) -> Side:
    opened = open_simulator("6.1")
    return Side(opened if tracefs is None else tracefs(opened), open_workload(opened))


def test_symbols() -> None:
    symbols = Symbols.read(KALLSYMS)
    assert [name for name, _ in symbols.text] == ["vfs_read", "do_sys_openat2", "virtio_ring:virtqueue_add"]
    assert symbols.data == [("no_iommu", 0xFFFFFFFF82C36404)]


@pytest.mark.parametrize("area", list(AREAS))
def test_two_simulators_are_the_same(area: str) -> None:
    cases = Cases(Random(area), Symbols.read(KALLSYMS))
    left, right = side(), side()
    for _ in range(10):
        left.reset()
        right.reset()
        assert first_difference(area, cases.next(area).operations, left, right) is None


def test_no_call_is_done_where_the_oracle_has_no_events() -> None:
    """As on kernels before 4.20, which refuse its arrays: the call would hit other probes, and nobody saw with what."""

    class Workload:
        pid = 1
        comm = "workload"

        def call(self, number: int, arguments: tuple[int, ...], data: bytes = b"") -> int:
            raise AssertionError("called")

    asked = Side(open_simulator("6.1"), Workload())
    observed = Observed("vfs_read", 0, (3, 0, 1), b"", (), hits=None)
    assert asked.observe(observed) == observed._replace(hits=())


def test_a_seed_gives_the_same_operations() -> None:
    first, second = (Cases(Random(5), Symbols.read(KALLSYMS)) for _ in range(2))
    assert [first.next() for _ in range(20)] == [second.next() for _ in range(20)]


def test_a_difference_is_found_and_shrunk() -> None:
    operations = [
        Read("trace"),
        Write("kprobe_events", b"p:a do_sys_openat2\np:b do_sys_openat2+77 %di\n"),
        Sweep(),
        Read("kprobe_events"),
    ]
    good, deaf = side(), side(Deaf)

    def differs(candidate: Any) -> bool:
        good.reset()
        deaf.reset()
        return first_difference("", candidate, good, deaf) is not None

    assert differs(operations)
    smallest = shrink(operations, differs)
    assert smallest == [Write("kprobe_events", b"7")]


def test_a_pause_between_records_makes_no_difference() -> None:
    stats = b"entries: 2\noverrun: 0\nbytes: %d\nread events: 0\n"
    assert _unequal([("stats", stats % 524)], [("stats", stats % 516)]) is None
    assert _unequal([("stats", stats % 524)], [("stats", stats % 520)]) == ("stats", stats % 524, stats % 520)
    more = stats.replace(b"2", b"3") % 516
    assert _unequal([("stats", stats % 524)], [("stats", more)]) == ("stats", stats % 524, more)


def test_three_of_forty_operations_are_left_in_their_order() -> None:
    operations = [Write("trace_marker", b"%d some words\n" % number) for number in range(40)]
    wanted = [b"3", b"17", b"38"]

    def differs(candidate: Any) -> bool:
        written = [word for write in candidate for word in write.data.split()]
        return [word for word in written if word in wanted] == wanted

    assert shrink(operations, differs) == [Write("trace_marker", data) for data in wanted]


def test_steps_of_an_open_file_are_shrunk() -> None:
    steps = (("read", 5), ("write", b"set the 7th"), ("lseek", 0, 0), Read("trace"), ("read", 9))
    operations = [Read("trace"), Handle("set_event", os.O_RDWR, steps)]

    def differs(candidate: Any) -> bool:
        seen = [step for operation in candidate if isinstance(operation, Handle) for step in operation.steps]
        return any(step[0] == "write" and b"7" in step[1] for step in seen) and ("read", 9) in seen

    assert shrink(operations, differs) == [Handle("set_event", os.O_RDWR, (("write", b"7"), ("read", 9)))]


def test_what_keeps_others_out_of_a_trace_is_kept() -> None:
    operations = [Write("events/zz_o/filter", b"comm == 1"), Make("instances/zz_o"), Read("README"), Read("trace")]
    assert shrink(operations, lambda candidate: Read("trace") in candidate) == [*operations[:2], Read("trace")]


@pytest.mark.slow
def test_shrinking_asks_no_more_than_it_may() -> None:
    asked = []
    operations = [Write("trace_marker", b"%d" % number) for number in range(30)]
    assert shrink(operations, lambda candidate: bool(asked.append(candidate)), attempts=7) == operations
    assert len(asked) == 7


def test_what_shrinks_is_said_where_it_is_missing() -> None:
    script = "import sys; sys.modules['hypothesis'] = None; from kprobe_vm.cli import main; sys.exit(main(['diff']))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.stderr == (
        "kprobe-vm: kprobe-vm diff shrinks with hypothesis: pip install 'kprobe-sim[campaign]', or --no-shrink\n"
    )
    assert ended.returncode == 112


def test_an_answer_is_bytes_a_number_or_the_name_of_an_errno() -> None:
    tracefs = open_simulator("6.1")
    assert perform(Write("tracing_on", b"0"), tracefs) == [("write", 1)]
    assert perform(Read("tracing_on"), tracefs) == [("tracing_on", b"0\n")]
    assert perform(Write("tracing_on", b"x"), tracefs) == [("write", "EINVAL")]
    assert perform(Handle("tracing_on", os.O_RDONLY, (("read", 1), ("lseek", -9, 0))), tracefs) == [
        ("read 1", b"0"),
        ("lseek -9 0", "EINVAL"),
    ]


@pytest.mark.parametrize(
    ("data", "answer"),
    [(b"p:a vfs_read\n-:a", True), (b"e:a s.c", False), (b"p /bin/sh:1", False), (b"# e\n!p:a", True), (b"", True)],
)
def test_lines_that_are_for_kprobes(data: bytes, answer: bool) -> None:
    assert is_of_kprobes(data) is answer


def test_a_difference_is_written_as_a_test_that_fails_until_it_is_repaired(tmp_path: Path) -> None:
    operations = [Write("kprobe_events", b"p:a do_sys_openat2+7"), Read("kprobe_events")]
    found = first_difference("definitions", operations, side(), side(Deaf))
    assert found is not None
    assert found.answers == [[("write", 20)], [("kprobe_events", b"")]]
    path = write_test(found, "6.1", "6.1.0-54-cloud-amd64", 5, tmp_path / "new")
    assert path.read_text().startswith('"""TO BE RENAMED, file and function too: ')
    assert '["sim:6.1", pytest.param("vm:6.1.0-54-cloud-amd64", marks=pytest.mark.vm)]' in path.read_text()
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    (test,) = (value for name, value in space.items() if name.startswith("test_"))
    with pytest.raises(AssertionError):
        test("sim:6.1")
    space["KERNEL"][1] = [("kprobe_events", b"p:kprobes/a do_sys_openat2+7\n")]
    test("sim:6.1")


@pytest.mark.parametrize(
    ("operation", "ours", "theirs", "name"),
    [
        (Write("kprobe_events", b"r _end"), "ENOENT", "EINVAL", "definitions_kprobe_events_einval"),
        (Read("events/g/a/format"), b"name: a\nID: 1\n", b"name: a\nID: 2\n", "definitions_format"),
        (
            Read("error_log"),
            b"",
            b"[time] event_probe: error: Invalid $-variable specified\n  Command: e:my/a g.f $current\n",
            "definitions_error_log_invalid_variable_specified",
        ),
        (List("events/g"), ["a"], ["a", "filter"], "definitions_g_filter"),
    ],
)
def test_a_name_is_proposed_by_area_file_and_answer(operation: Operation, ours: Any, theirs: Any, name: str) -> None:
    assert proposed_name(Difference("definitions", [operation], "", ours, theirs)) == name


def test_another_difference_of_the_same_name_is_written_beside_it(tmp_path: Path) -> None:
    found = [
        Difference("definitions", [Write("kprobe_events", data)], "write", "ENOENT", "EINVAL", [[("write", "EINVAL")]])
        for data in (b"r _end", b"r _end", b"r _end+1")
    ]
    paths = [write_test(each, "6.1", "6.1.0-54-cloud-amd64", 0, tmp_path).name for each in found]
    stem = "test_definitions_kprobe_events_einval"
    assert paths == [f"{stem}.py", f"{stem}.py", f"{stem}_2.py"]


def test_what_an_oracle_saw_is_played_again() -> None:
    registers = {"di": 0xFFFFFFFE, "si": 0x1000, "sp": 0xFFFFC90000123000}
    memory = {0x1000: b"seen\0", 0xFFFFC90000123000: bytes(8) + (7).to_bytes(8, "little")}
    hit = Hit(registers, memory, (), 5)
    operations = [
        Write(
            "kprobe_events",
            b"p:g/a ksys_fadvise64_64 a=%di:s32 b=+0(%si):string c=$stack1\nr:g/b ksys_fadvise64_64 $retval",
        ),
        Write("trace_options", b"nocontext-info"),
        Write("events/g/enable", b"1"),
        Observed("ksys_fadvise64_64", 221, (-2, 0x1000, 0, 0), b"", hits=(hit,)),
        Read("trace"),
    ]
    text = b"# tracer: nop\n#\n"
    text += b'a: (ksys_fadvise64_64+0x0/0xa0) a=-2 b="seen" c=0x7\n'
    text += b"b: (0 <- ksys_fadvise64_64) arg1=0x5\n"
    assert answers("sim:6.1", operations)[-1] == [("trace", text)]
