"""Fprobes, tracepoint probes and event probes at a hit: lines of real traces, the columns before the time included."""

from __future__ import annotations

import re

import pytest

from kprobe_sim import SimulatedKernel, Task

LINE = re.compile(r" +(\S+)-\d+ +\[\d{3}\] (\S+) +[\d.]+: (.*)")
CAT = Task(121, "cat")
PLACE = "(do_sys_openat2+0x0/0xe0)"
RETURNS = {
    "6.12": "(__x64_sys_openat+0x55/0xa0 <- do_sys_openat2)",
    "7.2": "(__x64_sys_openat+0x61/0xa0 <- do_sys_openat2)",
    "7.3": "(__x64_sys_openat+0x61/0xa0 <- do_sys_openat2)",
}
CALLERS = {"6.12": "__x64_sys_openat+0x55", "7.2": "__x64_sys_openat+0x61", "7.3": "__x64_sys_openat+0x61"}
FE, F2, FR, FR2 = (
    "f:fe do_sys_openat2",
    "f:f2 do_sys_openat2",
    "f:fr do_sys_openat2%return",
    "f:fr2 do_sys_openat2%return",
)


def trace(kernel: SimulatedKernel) -> list[tuple[str, str]]:
    """Return the irq-info letters and the text of each line."""
    lines = kernel.tracefs.read("trace").decode().splitlines()
    return [(found[2], found[3]) for line in lines if (found := LINE.fullmatch(line))]


def opened(series: str, *definitions: str) -> list[tuple[str, str]]:
    """Return what cat's open of /etc/hostname leaves in the trace."""
    kernel = SimulatedKernel(series)
    for definition in definitions:
        kernel.tracefs.write("dynamic_events", definition.encode())
        kernel.tracefs.write("set_event", definition.split()[0].partition(":")[2].encode())
    arguments = (-100, "/etc/hostname", 0)
    kernel.call("do_sys_openat2", task=CAT, args=arguments, returns=3, caller=CALLERS[series])
    return trace(kernel)


@pytest.mark.parametrize(("series", "letters"), [("6.12", "....."), ("7.2", "...1."), ("7.3", "...1.")])
def test_an_entry(series: str, letters: str) -> None:
    assert opened(series, f"{FE} f=filename:ustring c=$comm") == [(letters, f'fe: {PLACE} f="/etc/hostname" c="cat"')]


@pytest.mark.parametrize("series", ["6.12", "7.2", "7.3"])
def test_a_return_has_the_arguments_of_the_entry(series: str) -> None:
    assert opened(series, f"{FR} r=$retval f=filename:ustring") == [
        ("...1.", f'fr: {RETURNS[series]} r=3 f="/etc/hostname"')
    ]


@pytest.mark.parametrize(("series", "letters"), [("6.12", "...1."), ("7.2", "...2."), ("7.3", "...2.")])
def test_entry_and_return_are_two_users_of_the_function(series: str, letters: str) -> None:
    assert opened(series, FE, FR) == [(letters, f"fe: {PLACE}"), ("...1.", f"fr: {RETURNS[series]}")]


@pytest.mark.parametrize("series", ["6.12", "7.2", "7.3"])
def test_the_newest_entry_comes_first(series: str) -> None:
    assert opened(series, FE, F2) == [("...1.", f"f2: {PLACE}"), ("...1.", f"fe: {PLACE}")]


@pytest.mark.parametrize(("series", "letters"), [("6.12", "...1."), ("7.2", "...2."), ("7.3", "...2.")])
def test_a_kprobe_beside_it_is_one_level_deeper_too(series: str, letters: str) -> None:
    assert opened(series, FE, "p:kp do_sys_openat2") == [("...1.", f"kp: {PLACE}"), (letters, f"fe: {PLACE}")]
    assert opened(series, "p:kp do_sys_openat2") == [(".....", f"kp: {PLACE}")]


def test_returns_in_the_order_of_the_kernel() -> None:
    older = opened("6.12", FR, FR2)
    assert older == [("...1.", f"fr: {RETURNS['6.12']}"), ("...1.", f"fr2: {RETURNS['6.12']}")]
    newer = opened("7.2", FR, FR2)
    assert newer == [("...1.", f"fr2: {RETURNS['7.2']}"), ("...1.", f"fr: {RETURNS['7.2']}")]


def test_a_return_probe_hides_the_caller_from_7_2() -> None:
    both = (FR, "r:kr do_sys_openat2")
    assert opened("6.12", *both) == [("...1.", f"fr: {RETURNS['6.12']}"), (".....", f"kr: {RETURNS['6.12']}")]
    assert opened("7.2", *both) == [
        ("...1.", "fr: ([unknown/kretprobe'd] <- do_sys_openat2)"),
        (".....", f"kr: {RETURNS['7.2']}"),
    ]


@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_a_tracepoint_probe_is_on_the_stub(series: str) -> None:
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("dynamic_events", b"t:tp sys_enter id")
    kernel.tracefs.write("events/tracepoints/tp/enable", b"1")
    kernel.call("__probestub_sys_enter", task=CAT, args=(0, 0xFFFFC900005DBF58, 257))
    assert [text for _, text in trace(kernel)] == ["tp: (__probestub_sys_enter+0x4/0x10) id=257"]


@pytest.mark.parametrize(("series", "letters"), [("6.12", "...2."), ("7.2", "...1.")])
def test_an_event_probe_of_a_system_call(series: str, letters: str) -> None:
    kernel = SimulatedKernel(series)
    fields = b"file=+0($filename):ustring f=$filename:ustring dfd=$dfd:s32 $comm:string"
    kernel.tracefs.write("dynamic_events", b"e:eo syscalls/sys_enter_openat " + fields)
    kernel.tracefs.write("dynamic_events", b"e:three syscalls/sys_enter_openat if dfd == 3")
    kernel.tracefs.write("events/eprobes/enable", b"1")
    with kernel.system_call("openat", task=CAT, args=(-100, "/etc/hostname", 0, 0)):
        pass
    body = 'eo: (syscalls.sys_enter_openat) file="/etc/hostname" f="/etc/hostname" dfd=-100 arg4="cat"'
    assert trace(kernel) == [(letters, body)]
    kernel.tracefs.write("events/eprobes/enable", b"0")
    with kernel.system_call("openat", task=CAT, args=(-100, "/etc/hostname", 0, 0)):
        pass
    assert len(trace(kernel)) == 1


@pytest.mark.parametrize("series", ["6.1", "6.12", "7.2"])
def test_an_event_probe_takes_strings_of_the_record(series: str) -> None:
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("dynamic_events", b"e:ex sched/sched_process_exec file=$filename:string pid=$pid")
    kernel.tracefs.write("events/eprobes/enable", b"1")
    kernel.exec(CAT, "/bin/cat")
    assert trace(kernel) == [("...1.", 'ex: (sched.sched_process_exec) file="/bin/cat" pid=0x79')]
