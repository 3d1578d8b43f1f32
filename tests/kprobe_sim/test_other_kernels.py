"""What real kernels of other versions than the recorded ones answered (6.16.12 to 7.1.13), and 7.2.13 and 7.3-rc7."""

from __future__ import annotations

import re

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.gates import gates_for
from kprobe_sim.kernel.workload import open_workload

Version = tuple[int, int, int]


def kernel_of(version: Version) -> SimulatedKernel:
    """Return a kernel that answers as a version does, with the symbols of 7.2's recorded build."""
    kernel = SimulatedKernel("7.2")
    kernel.machine.gates = gates_for(version)
    return kernel


def lines(kernel: SimulatedKernel) -> list[str]:
    """Return what a trace shows of the workload: flags and depth, then the body."""
    text = kernel.tracefs.read("trace").decode()
    return [" ".join(pair) for pair in re.findall(r"workload-\d+ +\[\d+\] (\S+) +\d+\.\d+: (.*)", text)]


ARRAYS = b"".join(b"a%d=+0(%%di):u64[64] " % number for number in range(8))


@pytest.mark.parametrize("version", [(6, 16, 12), (6, 19, 14)])
def test_an_event_without_a_limit_of_its_size(version: Version) -> None:
    kernel = kernel_of(version)
    for count, entries in ((7, b"entries: 3\n"), (8, b"entries: 0\n")):  # 8 KB don't go on a page of the buffer
        kernel.tracefs.write("kprobe_events", b"p:big do_sys_openat2 " + ARRAYS[: 19 * count])
        kernel.tracefs.write("events/kprobes/big/enable", b"1")
        for _ in range(3):
            open_workload(kernel.tracefs).open("/etc/hostname")
        assert kernel.tracefs.read("per_cpu/cpu0/stats").startswith(entries)
        kernel.tracefs.write("trace", b"", truncate=True)
        kernel.tracefs.write("events/kprobes/big/enable", b"0")
        kernel.tracefs.write("kprobe_events", b"-:big")


@pytest.mark.parametrize("version", [(6, 12, 117), (7, 0, 13)])
def test_an_event_that_is_too_big(version: Version) -> None:
    kernel = kernel_of(version)
    with pytest.raises(OSError, match="Argument list too long"):
        kernel.tracefs.write("kprobe_events", b"p:big do_sys_openat2 " + ARRAYS[: 19 * 7])
    log = kernel.tracefs.read("error_log").splitlines()
    assert log[0].endswith(b"trace_kprobe: error: Event too big (too many fields?)")
    assert log[2].index(b"^") - len("  Command: ") == 141
    kernel.tracefs.write("kprobe_events", b"p:big do_sys_openat2 " + ARRAYS[: 19 * 6])


@pytest.mark.parametrize("version", [(6, 16, 12), (7, 2, 13), (7, 3, 0)])
def test_small_numbers_of_the_option_fields(version: Version) -> None:
    kernel = kernel_of(version)
    kernel.tracefs.write("options/fields", b"1")
    kernel.tracefs.write("kprobe_events", rb"p:q do_sys_openat2 a=\5:u64 b=\5:u32 c=\5:x64 d=\-1:s64 e=\0:u64")
    kernel.tracefs.write("events/kprobes/q/enable", b"1")
    open_workload(kernel.tracefs).open("/etc/hostname")
    assert [line.partition(") ")[2] for line in lines(kernel)] == [
        "a=0x5 (5) b=0x5 (5) c=0x5 (5) d=0xffffffffffffffff (-1) e=0x0 (0)"
    ]


@pytest.mark.parametrize(
    ("version", "shown"),
    [((6, 16, 12), "a=/a\tb"), ((6, 19, 14), "a=/a.b. (2f:61:09:62:00)"), ((7, 0, 13), "a=/a.b. (2f:61:09:62:00)")],
)
def test_unprintable_strings_of_the_option_fields(version: Version, shown: str) -> None:
    kernel = kernel_of(version)
    kernel.tracefs.write("options/fields", b"1")
    kernel.tracefs.write("kprobe_events", b"p:q do_sys_openat2 a=+0(%si):ustring")
    kernel.tracefs.write("events/kprobes/q/enable", b"1")
    open_workload(kernel.tracefs).open("/a\tb")
    assert [line.partition(") ")[2] for line in lines(kernel)] == [shown]


PROBES = {
    "q": b"f:zz/q do_sys_openat2",
    "r": b"f:zz/r do_sys_openat2%return",
    "s": b"f:zz/s do_sys_openat2",
    "k": b"p:zz/k do_sys_openat2",
    "x": b"r:zz/x do_sys_openat2",
}


@pytest.mark.parametrize(
    ("enabled", "on_6_16", "on_6_18", "on_7_1", "on_7_2"),
    [
        ("q", "... q", "... q", "... q", ".1. q"),
        ("r", ".1. r", ".1. r", ".1. r", ".1. r"),
        ("rq", "... q, .1. r", "... q, .1. r", ".1. q, .1. r", ".2. q, .1. r"),
        ("qr", "... q, .1. r", "... q, .1. r", ".1. q, .1. r", ".2. q, .1. r"),
        ("sq", "... s, ... q", "... q, ... s", "... q, ... s", ".1. q, .1. s"),
        ("kq", ".1. k, .1. q", ".1. q, .1. k", ".1. q, .1. k", ".2. q, .1. k"),
        ("qk", ".1. k, .1. q", ".1. k, .1. q", ".1. k, .1. q", ".1. k, .2. q"),
        ("kr", ".1. k, .1. r", ".1. k, .1. r", ".1. k, .1. r", ".1. k, .1. r"),
        ("xq", ".1. q, ... x", ".1. q, ... x", ".1. q, ... x", ".2. q, ... x"),
        ("xr", ".1. r, ... x", "... x, .1. r", "... x, .1. r", "... x, .1. r"),
        ("krq", ".1. k, .1. q, .1. r", ".1. q, .1. k, .1. r", ".1. q, .1. k, .1. r", ".2. q, .1. k, .1. r"),
    ],
)
def test_order_and_depth_of_fprobes(enabled: str, on_6_16: str, on_6_18: str, on_7_1: str, on_7_2: str) -> None:
    """Probes enabled in this order, on one function."""
    shown = {(6, 16, 12): on_6_16, (6, 18, 15): on_6_18, (6, 19, 14): on_7_1, (7, 1, 13): on_7_1, (7, 2, 13): on_7_2}
    for version, expected in shown.items():
        kernel = kernel_of(version)
        for name in sorted(enabled, key=list(PROBES).index):  # 6.16 goes by when they were made
            kernel.tracefs.write("dynamic_events", PROBES[name])
        for name in enabled:
            kernel.tracefs.write(f"events/zz/{name}/enable", b"1")
        open_workload(kernel.tracefs).open("/etc/hostname")
        assert ", ".join(f"{line[2:5]} {line[6]}" for line in lines(kernel)) == expected, version


def test_fprobes_of_6_16_are_there_before_they_are_enabled() -> None:
    """A guest of 6.16.12; one of 6.17.13 shows depth 0 and takes all three lines."""
    kernel = kernel_of((6, 16, 12))
    for name in "qk":
        kernel.tracefs.write("dynamic_events", PROBES[name])
    kernel.tracefs.write("events/zz/k/enable", b"1")
    open_workload(kernel.tracefs).open("/etc/hostname")
    assert [line[2:7] for line in lines(kernel)] == [".1. k"]
    kernel.tracefs.write("dynamic_events", b"t:zz/t sched_switch")
    for line in (b"t:zz/u sched_switch", b"f:zz/a vfs_read a=@nosuch"):
        with pytest.raises(OSError, match="Invalid argument"):
            kernel.tracefs.write("dynamic_events", line)


def test_names_of_dentries_on_rt() -> None:
    """6.12.117+deb13-rt-amd64: a lock in the structs is larger there."""
    kernel = kernel_of((6, 12, 117))
    kernel.machine.gates = kernel.machine.gates._replace(dentry_offsets=(0x38, 0x68))
    kernel.tracefs.write("kprobe_events", b"p:x do_sys_openat2 a=%si:%pd b=%si:%pD")
    assert kernel.tracefs.read("kprobe_events") == (
        b"p:kprobes/x do_sys_openat2 a=+0x0(+0x38(%si)):string b=+0x0(+0x38(+0x68(%si))):string\n"
    )


def test_events_of_a_module_that_may_come() -> None:
    """Guests of 6.16.12 to 7.3-rc7, all alike."""
    tracefs = kernel_of((6, 16, 12)).tracefs
    for word in (":mod:", "sched:mod:foo", "a:b:c:mod:foo", "sched:sched_switch:mod:", ":mod:a:b", "*:mod:foo"):
        tracefs.write("set_event", word.encode())
    for word in ("::mod:foo", "q::mod:foo", ":q:mod:foo", "sched:sched_waking"):
        tracefs.write("set_event", word.encode())
    assert tracefs.read("set_event").decode().splitlines() == [
        *("sched:sched_waking", "*:q:mod:foo", "q:*:mod:foo", "*:*:mod:foo", "*:*:mod:foo", "*:*:mod:a:b"),
        *("sched:sched_switch:mod:", "a:b:c:mod:foo", "sched:mod:foo", "*:*:mod:"),
    ]
    assert tracefs.read("events/sched/sched_switch/enable") == b"0\n"
    tracefs.write("set_event", b":mod:bar", truncate=True)
    assert tracefs.read("set_event") == b"*:*:mod:bar\n"


@pytest.mark.parametrize(
    ("kept", "word", "left"),
    [
        ("sched:sched_switch:mod:foo :mod:foo", "!sched:sched_switch:mod:foo", "*:*:mod:foo\n"),
        ("sched:sched_switch:mod:foo :mod:foo", "!:mod:foo", ""),
        ("sched:sched_switch:mod:foo sched:sched_waking:mod:foo", "!sched:sched_switch:mod:foo",
         "sched:sched_waking:mod:foo\n"),
        ("sched:sched_switch:mod:foo sched_waking:mod:foo", "!sched::mod:foo", "sched_waking:mod:foo\n"),
        (":mod:foo", "!sched:*:mod:foo", None),
        (":mod:foo", "!:mod:nosuch", None),
        (":mod:foo", ":mod", None),
        (":mod:foo", "mod:foo", None),
        (":mod:foo", "sched:sched_switch:mod", None),
    ],
)  # fmt: skip
def test_events_of_a_module_that_are_forgotten(kept: str, word: str, left: str | None) -> None:
    """The same guests; None: EINVAL."""
    tracefs = kernel_of((7, 1, 13)).tracefs
    for one in kept.split():
        tracefs.write("set_event", one.encode())
    if left is None:
        with pytest.raises(OSError, match="Invalid argument"):
            tracefs.write("set_event", word.encode())
    else:
        tracefs.write("set_event", word.encode())
        assert tracefs.read("set_event").decode() == left


def test_events_of_modules_before_6_14() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        kernel_of((6, 12, 117)).tracefs.write("set_event", b":mod:foo")


@pytest.mark.parametrize(("lazy", "flags"), [(False, "DNZff"), (True, "DBZff")])
def test_all_flags_of_a_stack_at_a_mark(lazy: bool, flags: str) -> None:
    """6.12.117 generic and RT: only the RT kernel knows a lazy need to reschedule."""
    kernel = kernel_of((6, 12, 117))
    kernel.machine.gates = kernel.machine.gates._replace(lazy_resched=lazy)
    kernel.tracefs.write("events/ftrace/print/trigger", b"stacktrace")
    kernel.tracefs.write("trace_marker", b"hello")
    assert re.findall(r"(\S+) +\d+\.\d+: <stack trace>", kernel.tracefs.read("trace").decode()) == [flags]


@pytest.mark.parametrize(
    ("version", "column"), [((6, 12, 117), 28), ((6, 16, 12), 26), ((6, 19, 14), 26), ((7, 0, 13), 28)]
)
def test_where_an_event_probes_variable_is_refused(version: Version, column: int) -> None:
    """Guests of those kernels; 6.16 and 6.17 also with the variable inside dereferences."""
    kernel = kernel_of(version)
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.tracefs.write("dynamic_events", b"e:zz/q sched/sched_switch a=$nosuch")
    log = kernel.tracefs.read("error_log").splitlines()
    assert log[-1].index(b"^") - len("  Command: ") == column


@pytest.mark.parametrize(("version", "taken"), [((6, 12, 117), False), ((6, 18, 15), True), ((6, 19, 14), False)])
def test_a_lone_quote(version: Version, taken: bool) -> None:
    kernel = kernel_of(version)
    line = b'p:q do_sys_openat2 a=\\"'
    if not taken:
        with pytest.raises(OSError, match="Invalid argument"):
            kernel.tracefs.write("kprobe_events", line)
        return
    kernel.tracefs.write("kprobe_events", line)
    assert kernel.tracefs.read("kprobe_events") == b'p:kprobes/q do_sys_openat2 a=\\"\n'
    kernel.tracefs.write("events/kprobes/q/enable", b"1")
    open_workload(kernel.tracefs).open("/etc/hostname")
    assert [line.partition(") ")[2] for line in lines(kernel)] == ['a=""']


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("a.stacktrace", "keys=a.stacktrace:vals=hitcount"),
        ("a,common_cpu.stacktrace", "keys=a,common_stacktrace:vals=hitcount"),
        ("cpu.stacktrace", "keys=cpu.stacktrace:vals=hitcount"),
        ("STACKTRACE", "keys=STACKTRACE.stacktrace:vals=hitcount"),
        ("stacktrace", "keys=common_stacktrace:vals=hitcount"),
        ("a:x=stacktrace", "keys=a:vals=hitcount:x=stacktrace"),
        ("a:x=a.stacktrace", "keys=a:vals=hitcount:x=a"),
        ("a:x=stacktrace:y=$x", "keys=a:vals=hitcount:x=stacktrace,y=stacktrace"),
    ],
)
def test_call_chains_of_histograms(keys: str, shown: str) -> None:
    for version in ((6, 16, 12), (7, 1, 13)):
        kernel = kernel_of(version)
        kernel.tracefs.write("kprobe_events", b"p:q do_sys_openat2 a=%di:u32")
        kernel.tracefs.write("events/kprobes/q/trigger", f"hist:keys={keys}".encode())
        assert f"hist:{shown}:sort" in kernel.tracefs.read("events/kprobes/q/trigger").decode()
        open_workload(kernel.tracefs).open("/etc/hostname")
        assert kernel.tracefs.read("events/kprobes/q/hist").endswith(b"\n    Hits: 1\n    Entries: 1\n    Dropped: 0\n")


@pytest.mark.parametrize(("version", "held"), [((6, 12, 117), False), ((6, 16, 12), True), ((7, 1, 13), True)])
def test_a_histogram_shared_by_name_holds_all_its_instances(version: Version, held: bool) -> None:
    tracefs = kernel_of(version).tracefs
    tracefs.write("kprobe_events", b"p:q do_sys_openat2 a=%di:u32")
    tracefs.mkdir("instances/one")
    trigger, named = "events/kprobes/q/trigger", b"hist:keys=a:name=n:x=a"
    tracefs.write(trigger, named)
    tracefs.write(f"instances/one/{trigger}", named)
    if held:
        for path in (trigger, f"instances/one/{trigger}"):  # the first is gone, and the instance still held
            with pytest.raises(OSError, match="busy"):
                tracefs.rmdir("instances/one")
            tracefs.write(path, b"!" + named)
    tracefs.rmdir("instances/one")
    assert tracefs.listdir("instances") == []


@pytest.mark.parametrize("version", [(6, 16, 12), (7, 2, 13)])
@pytest.mark.parametrize("name", ["stacktrace", "common_stacktrace"])
def test_a_call_chain_in_a_variable(version: Version, name: str) -> None:
    """As the guest of 6.12.43 shows it, which takes `stacktrace` for a field as 6.16 to 7.1 do."""
    kernel = kernel_of(version)
    kernel.tracefs.write("dynamic_events", b"s:chain long[] stack")
    kernel.tracefs.write("kprobe_events", b"p:q do_sys_openat2 a=%di:s32")
    action = "onmatch(kprobes.q).trace(chain,$st)"
    kernel.tracefs.write("events/kprobes/q/trigger", f"hist:keys=a:st={name}:{action}".encode())
    kernel.tracefs.write("events/synthetic/chain/enable", b"1")
    open_workload(kernel.tracefs).open("/etc/hostname")
    frames = re.findall(r"^=> (\w+)\+", kernel.tracefs.read("trace").decode(), re.MULTILINE)
    assert frames[-4:] == ["do_sys_openat2", "__x64_sys_openat", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"]


def test_names_of_variables_pile_up() -> None:
    """What 6.16.12 and 6.19.14 showed, look by look."""
    trigger, one, hist = "events/zz/r/trigger", "zz.q.x", "events/zz/r/hist"
    tracefs = kernel_of((6, 19, 14)).tracefs
    for name in ("q", "r"):
        tracefs.write("kprobe_events", f"p:zz/{name} ksys_fadvise64_64 a=%di:u32".encode())
    tracefs.write("events/zz/q/trigger", b"hist:keys=a:x=a:y=a")

    def shown(text: str, path: str = trigger) -> bool:
        return f"hist:keys=a:vals=hitcount{text} [active]\n".encode() in tracefs.read(path)

    tracefs.write(trigger, b"hist:keys=a:vals=zz.q.$x")
    assert shown(f",${one}:sort=hitcount:size=2048")
    assert shown(f",${one * 2}:sort=hitcount:size=2048", hist)
    tracefs.write(trigger, b"", truncate=True)
    tracefs.write(trigger, b"hist:keys=a:b=a-zz.q.$x")  # the text of an expression is made once
    assert shown(f":b=a-${one * 3}:sort=hitcount:size=2048")
    assert shown(f":b=a-${one * 3}:sort=hitcount:size=2048", hist)
    tracefs.write(trigger, b"", truncate=True)
    tracefs.write(trigger, b"hist:keys=a:vals=zz.q.$x:sort=a")  # names are compared until the one to sort by is found
    assert shown(f",${one * 5}:sort=a:size=2048")
    for _ in range(60):
        tracefs.read(trigger)
    assert shown(f",${one * 42}:sort=a:size=2048")
