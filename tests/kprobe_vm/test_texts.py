"""`kprobe-vm record --text`: raw pages decoded, what text shows of them, the account of the tasks, and what changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kprobe_corpus.traces import Entry, entries
from kprobe_corpus.traces.writing import made
from kprobe_sim import SimulatedKernel
from kprobe_vm.cli import main
from kprobe_vm.errors import NotReady
from kprobe_vm.traces import check
from kprobe_vm.traces.account import Disagreement, confirmed
from kprobe_vm.traces.activity import (
    BEGIN,
    LOST,
    PROBES,
    TYPES,
    Done,
    SystemCall,
    Task,
    arguments,
    numbers,
    opens,
)  # fmt: skip
from kprobe_vm.traces.columns import CodePlaces, Columns, context, flags
from kprobe_vm.traces.pages import Event, RawRecord, events, records
from kprobe_vm.traces.recorder import Recorder
from kprobe_vm.traces.truth import in_order, piped, started, truth_of

if TYPE_CHECKING:
    from kprobe_vm.machine.machine import Machine

# of a guest of 7.3: the first page of a CPU's buffer, after ``cat`` of a task named "a b-1 [000]"; the rest are zeros
PAGE = bytes.fromhex(
    "4c1b339200000000 2c00000000000000 0a000000 8206 00 00 73000000 f03a8281ffffffff 9cffffff 18000e00"
    "2f6574632f686f73746e616d6500 0000"
).ljust(4096, b"\0")
FORMAT = """name: ent
ID: 1666
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long __probe_ip;	offset:8;	size:8;	signed:0;
	field:s32 dfd;	offset:16;	size:4;	signed:1;
	field:__data_loc char[] s;	offset:20;	size:4;	signed:1;

print fmt: "(%lx) dfd=%d s=\\"%s\\"", REC->__probe_ip, REC->dfd, __get_str(s)
"""
KALLSYMS = """ffffffff81823a00 t before
ffffffff81823af0 T do_sys_openat2
ffffffff81823af0 T its_alias
ffffffff81823bd0 t after
ffffffffc0000000 t inside\t[ext4]
ffffffffc0000100 t last\t[ext4]
"""
SYMBOLS = CodePlaces(KALLSYMS)
GUEST = Columns(SYMBOLS, {115: "a b-1 [000]", 116: " lead"}, {115: 114}, 5, False, False)


@pytest.fixture
def known() -> dict[int, Event]:
    return events({"events/kprobes/ent/format": FORMAT})


def test_a_page_of_a_guest(known: dict[int, Event]) -> None:
    """Its text was ``a b-1 [000]-115     [002] .....     2.452823: ent: (do_sys_openat2+0x0/0xe0) dfd=-100 s="…"``."""
    (record,) = records(PAGE, 2)
    assert (record.cpu, record.timestamp, record.ident, record.pid, record.flags, record.preempt_count) == (
        2, 2452822860, 1666, 115, 0, 0,
    )  # fmt: skip
    assert list(truth_of([record], known, GUEST, ())) == [
        {
            "type": "event", "name": "ent", "task": "a b-1 [000]", "pid": 115, "cpu": 2, "flags": ".....",
            "timestamp": 2452823000, "clock": "time", "address": "do_sys_openat2+0x0/0xe0",
            "fields": {"dfd": -100, "s": "/etc/hostname"},
        }
    ]  # fmt: skip


def test_times_and_padding_within_a_page() -> None:
    def event(delta: int, data: bytes) -> bytes:
        return (len(data) // 4 | delta << 5).to_bytes(4, "little") + data

    extend = (30 | 5 << 5).to_bytes(4, "little") + (2).to_bytes(4, "little")
    stamp = (31 | 9 << 5).to_bytes(4, "little") + (1).to_bytes(4, "little")
    gone = (29 | 7 << 5).to_bytes(4, "little") + (8).to_bytes(4, "little") + bytes(4)
    long = (0 | 1 << 5).to_bytes(4, "little") + (4 + 120).to_bytes(4, "little") + bytes(120)
    body = event(3, bytes(8)) + extend + event(0, bytes(12)) + gone + long + stamp + event(1, bytes(8))
    data = (1000).to_bytes(8, "little") + (len(body) | 1 << 31).to_bytes(8, "little") + body
    found = records(data.ljust(4096, b"\0"), 0)
    late = 1003 + 5 + (2 << 27)
    assert [(one.timestamp, len(one.data)) for one in found] == [
        (1003, 8), (late, 12), (late + 8, 120), (9 + (1 << 27) + 1, 8),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("nocontext-info",), {}),
        (("noirq-info",), {"task": "a b-1 [000]", "pid": 115, "cpu": 2, "timestamp": 5000, "clock": "time"}),
        (("latency-format",), {"task": "a b-1 [0", "pid": 115, "cpu": 2, "flags": "d.h1."}),
        (
            ("latency-format", "verbose"),
            {"task": "a b-1 [000]", "pid": 115, "cpu": 2, "flags": "9 00000001", "timestamp": 5000, "clock": "time"},
        ),
        (
            ("record-tgid", "noirq-info"),
            {"task": "a b-1 [000]", "pid": 115, "cpu": 2, "tgid": 114, "timestamp": 5000, "clock": "time"},
        ),
    ],
)
def test_what_options_show(options: tuple[str, ...], said: dict[str, object]) -> None:
    record = RawRecord(2, 4501, bytes([0, 0, 9, 1, 115, 0, 0, 0]))
    assert context(record, GUEST, options) == said


def test_tasks_that_are_not_known() -> None:
    assert context(RawRecord(0, 1, bytes([0, 0, 0, 0, 9, 0, 0, 0])), GUEST, ("noirq-info",))["task"] == "<...>"
    assert context(RawRecord(0, 1, bytes(8)), GUEST, ("noirq-info",))["task"] == "<idle>"
    assert context(RawRecord(0, 1, bytes([0, 0, 0, 0, 116, 0, 0, 0])), GUEST, ())["ambiguous"] == ["task"]


@pytest.mark.parametrize(
    ("raw", "count", "letters", "shown"),
    [
        (0, 0, 5, "....."), (1, 1, 4, "d..1"), (0x80, 0, 5, "b...."), (0x81, 0x12, 5, "D..21"), (4, 0, 5, ".n..."),
        (0x24, 0, 5, ".N..."), (2, 0, 5, ".l..."), (8, 0, 5, "..h.."), (0x18, 0, 5, "..H.."), (0x10, 0, 5, "..s.."),
        (0x48, 0xFF, 5, "..Zff"), (0x40, 0, 4, "..z."),
    ],
)  # fmt: skip
def test_flags(raw: int, count: int, letters: int, shown: str) -> None:
    assert flags(RawRecord(0, 0, bytes([0, 0, raw, count, 0, 0, 0, 0])), letters) == shown


def test_places() -> None:
    assert SYMBOLS.text(0xFFFFFFFF81823AF1) == "do_sys_openat2"
    assert SYMBOLS.text(0xFFFFFFFF81823AF1, ["sym-offset"]) == "do_sys_openat2+0x1/0xe0"
    assert SYMBOLS.text(0xFFFFFFFF81823AF0, ["sym-addr"], offset=True) == (
        "do_sys_openat2+0x0/0xe0 <ffffffff81823af0>"
    )  # fmt: skip
    assert SYMBOLS.text(0xFFFFFFFFC0000010, offset=True) == "inside+0x10/0x100 [ext4]"
    assert SYMBOLS.text(0x1234, offset=True) == "0x1234"


def test_strings_whose_ends_nobody_can_tell(known: dict[int, Event]) -> None:
    two = FORMAT.replace("field:s32 dfd;	offset:16;", "field:__data_loc char[] a;	offset:16;").replace(
        'dfd=%d s=\\"%s\\""', 'a=\\"%s\\" s=\\"%s\\""'
    )
    data = bytes.fromhex("8206 00 00 73000000 f03a8281ffffffff")
    first, second = b'x" s="y\0', b"z\0"
    places = (len(first) << 16 | 24).to_bytes(4, "little") + (len(second) << 16 | 32).to_bytes(4, "little")
    record = RawRecord(0, 0, data + places + first + second)
    (said,) = truth_of([record], events({"events/kprobes/ent/format": two}), GUEST, ("nocontext-info",))
    assert (said["fields"], said["ambiguous"]) == ({"a": 'x" s="y', "s": "z"}, ["a", "s"])


def test_records_of_several_cpus() -> None:
    same = [RawRecord(1, 5, b""), RawRecord(0, 5, b""), RawRecord(3, 4, b"")]
    assert [(one.cpu, one.timestamp) for one in in_order(same)] == [(3, 4), (0, 5), (1, 5)]
    lines = started([{"cpu": 1}, {"cpu": 0}, {"cpu": 1}, {"cpu": 2}])
    assert [one.get("type", one["cpu"]) for one in lines] == [1, "started", 0, 1, "started", 2]


# --- the account


def test_the_activity_is_fixed() -> None:
    tasks = opens(4)
    assert len(tasks) == 33
    assert [task.cpu for task in tasks[:5]] == [0, 1, 2, 3, 0]
    assert {b"", b"<...>", b"new\nline", b"\xff\xfe", b"a-1 [000]", b"a: b: (c+0x1/0x"} <= {task.comm for task in tasks}
    assert max(len(task.comm) for task in tasks) == 15
    act = numbers().acts[7]
    assert act.arguments[2] == 2**32 - 1
    said = arguments(act)
    assert [said[name] for name in "abcdefgh"] == [255, 65535, 2**32 - 1, 2**32 - 1, -1, -1, -1, 2**32 - 1]


DONE = Done(7, Task(b"cat", 1, ()), SystemCall(257, (-100, 0, 0, 0), path=b"/x"), 3)
ENT = {
    "type": "event",
    "name": "ent",
    "task": "cat",
    "pid": 7,
    "cpu": 1,
    "timestamp": 1,
    "fields": {"dfd": -100, "s": "/x", "how": 1},
}


def test_truth_is_held_to_the_account() -> None:
    ret = {**ENT, "name": "ret", "fields": {"ret": 3, "raw": 3}}
    assert confirmed([ENT, ret, {**ENT, "pid": 8}], [DONE]) == 2
    for wrong in ({"cpu": 2}, {"task": "dog"}, {"fields": {"dfd": -100, "s": "/y"}}):
        with pytest.raises(Disagreement, match="the account of its task has"):
            confirmed([{**ENT, **wrong}], [DONE])
    with pytest.raises(Disagreement, match="more than the 1 calls of its task"):
        confirmed([ENT, ENT], [DONE])
    with pytest.raises(Disagreement, match="1 calls of openat left 0 events"):
        confirmed([], [DONE])


def test_a_clock_of_jiffies_gives_what_a_task_did_first_on_another_cpu_the_same_time() -> None:
    begun = {**ENT, "cpu": 3, "timestamp": 448, "fields": {"dfd": -100, "s": "/dev/null"}}
    assert confirmed([{**ENT, "timestamp": 448}, begun], [DONE._replace(act=BEGIN), DONE]) == 2
    with pytest.raises(Disagreement, match="the account of its task has"):
        confirmed([{**ENT, "timestamp": 448}, {**begun, "timestamp": 449}], [DONE._replace(act=BEGIN), DONE])


def test_what_is_left_of_a_buffer_is_known_by_the_account() -> None:
    begun = DONE._replace(act=BEGIN)
    done = [begun, *(DONE._replace(act=DONE.act._replace(path=f"/{number}".encode())) for number in range(5))]
    truth = piped(done, [{"entries": 0, "overrun": 0}, {"entries": 2, "overrun": 4}])
    assert truth[0] == {"type": "lost", "cpu": 1, "count": 4}
    assert [record["fields"]["s"] for record in truth[1:]] == ["/3", "/4"]


# --- what changed


def entry(name: str, text: bytes, kernel: str = "7.3", options: tuple[str, ...] = ()) -> Entry:
    about = {"release": f"{kernel}.1", "options": list(options), "clock": "local", "source": "guest"}
    return made(f"{kernel}/{name}", text, [], about)


LINE = b"            cat-117     [002] .....     2.452823: ent: (do_sys_openat2+0x0/0xe0) dfd=-100 how=0xc90\n"


def test_numbers_names_and_times_are_no_change() -> None:
    other = b"            cat-9       [001] d..1.   112.000001: ent: (vfs_open+0x10/0xf0) dfd=3 how=0xc9077\n"
    assert check.shape(LINE) == check.shape(other)
    assert list(check.changes([entry("opens", LINE)], [entry("opens", other)])) == []


def test_times_in_other_layouts_are_no_change() -> None:
    short, long = b"     cat-117       2...1. 119147us*: e: (f)\n", b"     cat-9         0d..1. 3127us#: e: (f)\n"
    assert check.shape(short) == check.shape(long) == [b"     cat############FLAGS TIME: e: (f)"]
    verbose = b"             cat     117   2 %s 00000001 0000000a [%s] %sms (+0.004ms): e: (f)\n"
    first = verbose % (b"0", b"00d9e2e3", b"29.375")
    assert check.shape(first) == check.shape(verbose % (b"9", b"12345678", b"1029.375"))


def test_events_of_the_scheduler_are_of_any_task() -> None:
    head = b"          <idle>-0       [003] d..2.     2.5: sched_switch: "
    args = b"prev_comm=a b prev_pid=7 prev_state=S ==> next_comm=%s next_pid=%d\n"
    other = b"   kworker/0:1-9       [000] .....     3.5: sched_switch: "
    assert check.shape(head + args % (b"x y", 7)) == check.shape(other + args % (b"z", 123))
    assert check.shape(head + args % (b"x", 7)) == [
        b"sched_switch: prev_comm= prev_pid= prev_state= ==> next_comm= next_pid="
    ]


def test_what_a_new_kernel_changed_is_told() -> None:
    before = [entry("opens", LINE), entry("types.old", LINE, options=("old",))]
    after = [entry("opens", LINE.replace(b"]", b"] ")), entry("types.new", LINE, options=("new",))]
    assert list(check.changes(before, after)) == [
        "new: types.new (new, clock local)",
        "gone: types.old (old, clock local)",
        "differs: opens",
        "  -             cat-########[0] fffff#############: ent: (SYMBOL+0/0) dfd=0 how=0",
        "  +             cat-########[0]  .....#############: ent: (SYMBOL+0/0) dfd=0 how=0",
    ]


def test_a_kernel_is_compared_with_itself_or_the_newest_before() -> None:
    known = [entry("opens", LINE, kernel) for kernel in ("6.2", "6.12", "7.3")]
    assert [one.kernel for one in check.model(known, "6.12")] == ["6.12"]
    assert [one.kernel for one in check.model(known, "6.19")] == ["6.12"]
    assert [one.kernel for one in check.model(known, "8.0")] == ["7.3"]
    assert [one.kernel for one in check.model(known, "/boot/bzImage")] == ["7.3"]
    with pytest.raises(NotReady, match="the corpus has no text of a guest"):
        check.model([], "7.3")


@pytest.mark.parametrize("words", [["--text"], ["--check"], ["--text", "-o", "x", "--answers"]])
def test_wrong_command_lines(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "7.3", *words]) == 2
    assert capfd.readouterr().err == (
        "kprobe-vm record: --text takes -o DIRECTORY, --text --check at most a DIRECTORY\n"
    )


def test_no_corpus_to_compare_with(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["-q", "record", "--text", "--check", "7.3", str(tmp_path / "nowhere")])
    assert (status, capfd.readouterr().err) == (
        NotReady.exit_status, f"kprobe-vm: {tmp_path / 'nowhere'}: there is no such directory\n",
    )  # fmt: skip


@pytest.mark.vm
def test_a_kernel_recorded_again_is_as_the_corpus_has_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-q", "record", "--text", "-o", str(tmp_path), "6.1"]) == 0
    names = capfd.readouterr().out.splitlines()
    assert str(tmp_path / "6.1" / "opens.latency-format,verbose") in names
    new = {one.name: one for one in entries(directory=str(tmp_path))}
    old = {one.name: one for one in entries(["6.1"]) if one.about["source"] == "guest"}
    assert sorted(new) == sorted(old)
    assert new["lost.trace_pipe"].truth()[0]["type"] == "lost"


GRAPH = b"""# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
 0)   %b    |  getname_flags();
 ------------------------------------------
 0)   %b-115    =>  workloa-116
 ------------------------------------------

 0) # 1627.282 us |  }
"""


def test_a_graph_of_other_tasks_and_times_looks_the_same() -> None:
    one, two = GRAPH % (b"7.291 us", b"plain"), GRAPH % (b"1.532 us", b"my app")
    assert check.shape(one) == check.shape(two)
    assert check.shape(one)[-2:] == [b"CONTEXT | getname_flags()", b"CONTEXT | }"]
    assert check.shape(one) != check.shape(one.replace(b"getname_flags();", b"getname_flags(flags=1);"))


class AsGuest:
    """A simulator, as far as a recorder looks at a guest before it records."""

    def __init__(self, series: str) -> None:
        self._kernel = SimulatedKernel(series)
        self.tracefs, self.files = self._kernel.tracefs, self

    def read(self, path: str) -> bytes:
        assert path == "proc/kallsyms"
        return self._kernel.symbols.kallsyms()


@pytest.mark.parametrize(
    ("series", "opening", "advising", "types"),
    [("5.4", "do_sys_open", "ksys_fadvise64_64", 8), ("4.9", "do_sys_open", "SyS_fadvise64", 3)],
)
def test_an_old_kernel_is_recorded_by_its_own_functions(series: str, opening: str, advising: str, types: int) -> None:
    recorder = Recorder(cast("Machine", AsGuest(series)))
    recorder.define([*PROBES, LOST, *TYPES])
    entry, returned, lost, *others = recorder.definitions
    assert entry == f"p:ent {opening} dfd=%di:s32 s=+0(%si):string how=%dx:x64"
    assert returned == f"r:ret {opening} ret=$retval:s32 raw=$retval:x64"
    assert lost == f"p:lost/ent {opening} dfd=%di:s32 s=+0(%si):string"
    assert [line.split()[1] for line in others] == [advising] * types
    assert recorder.torn("torn", [], []).definitions == [lost]
