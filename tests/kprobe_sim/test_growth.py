"""What an operation costs doesn't grow with the number of probes and instances: counted in calls, not in time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kprobe_sim import SimulatedKernel, Task

from .counted import count_calls

FEW, MANY, INSTANCES = 20, 500, 120
CAT = Task(42, "cat")


def work(action: Callable[[], object]) -> int:
    """Return how many functions an action calls, those in C included; what is done but once was done before."""
    action()
    return count_calls(action, "call", "c_call")


class Crowd:
    """A kernel with many probes or instances, and operations on it; names are all equally long."""

    def __init__(self, kernel: str, probes: int, instances: int = 0, letter: str = "p") -> None:
        self.kernel = SimulatedKernel(kernel)
        self.letter = letter
        self.file = "kprobe_events" if letter == "p" else "dynamic_events"
        self.group = "kprobes" if letter == "p" else "fprobes"
        self.tracefs = self.kernel.tracefs
        self.defined = self.deleted = 0
        for number in range(instances):
            self.tracefs.mkdir(f"instances/i{number:04}")
        for _ in range(probes):
            self.define()

    def define(self) -> None:
        """Add a probe on a function that others are on."""
        self.defined += 1
        registers = ("%di", "%si") if self.letter == "p" else ("$arg1", "$arg2")
        line = "{}:my{:04} do_sys_openat2 dfd={}:s32 filename=+0({}):string\n"
        self.tracefs.write(self.file, line.format(self.letter, self.defined, *registers).encode())

    def delete(self) -> None:
        """Remove the oldest probe."""
        self.deleted += 1
        self.tracefs.write("kprobe_events", f"-:my{self.deleted:04}\n".encode())

    def refuse(self) -> None:
        """Ask for a name that another has."""
        with pytest.raises(FileExistsError):
            self.tracefs.write("kprobe_events", b"p:my0010 vfs_read")

    def switch(self) -> None:
        """Enable an event and disable it again."""
        self.tracefs.write(f"events/{self.group}/my0010/enable", b"1")
        self.tracefs.write(f"events/{self.group}/my0010/enable", b"0")

    def switch_in_the_newest(self) -> None:
        """The same in the instance that was made last."""
        newest = self.tracefs.listdir("instances")[0]
        self.tracefs.write(f"instances/{newest}/events/kprobes/my0010/enable", b"1")
        self.tracefs.write(f"instances/{newest}/events/kprobes/my0010/enable", b"0")

    def instance(self) -> None:
        """Make an instance and remove it again."""
        self.tracefs.mkdir("instances/one")
        self.tracefs.write("instances/one/events/kprobes/my0010/enable", b"1")
        self.tracefs.rmdir("instances/one")

    def hit(self) -> None:
        """Let a probe be hit that was just enabled, the others not."""
        self.switch()
        self.tracefs.write(f"events/{self.group}/my0010/enable", b"1")
        self.kernel.call("do_sys_openat2", task=CAT, args=(-100, "/etc/passwd"), returns=3)

    def choose(self) -> None:
        """Enable an event and disable it again, by its name in set_event."""
        self.tracefs.write("set_event", f"{self.group}:my0010".encode())
        self.tracefs.write("set_event", f"!{self.group}:my0010".encode())

    def choose_by_a_word(self) -> None:
        """The same by its name alone, which could be that of a system, and by that in any system."""
        for word in (b"my0010", b"!my0010", b"*:my0010", b"!*:my0010"):
            self.tracefs.write("set_event", word)

    def see_what_is_on(self) -> None:
        """Read set_event while an event is on, and while none is."""
        self.tracefs.write("events/sched/sched_switch/enable", b"1")
        assert self.tracefs.read("set_event") == b"sched:sched_switch\n"
        self.tracefs.write("events/sched/sched_switch/enable", b"0")
        assert self.tracefs.read("set_event") == b""

    def read_the_profile(self) -> None:
        """Read the first line of kprobe_profile after a hit."""
        self.hit()
        with self.tracefs.open("kprobe_profile", 0) as file:
            assert file.read(40).startswith(b"  my")

    def look_up(self) -> None:
        """Read a file of an event."""
        self.tracefs.read("events/kprobes/my0010/id")


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation",
    [
        *("define", "delete", "refuse", "switch", "choose", "choose_by_a_word", "see_what_is_on", "instance", "hit"),
        *("read_the_profile", "look_up"),
    ],
)
@pytest.mark.parametrize("kernel", ["6.1", "7.2"])
def test_with_many_probes(kernel: str, operation: str) -> None:
    few, many = (Crowd(kernel, probes, 0) for probes in (FEW, MANY))
    least = work(getattr(few, operation))
    assert least > 20
    assert work(getattr(many, operation)) <= least * 1.05


@pytest.mark.parametrize("operation", ["define", "switch", "choose", "hit"])
@pytest.mark.parametrize("kernel", ["6.12", "7.2"])  # where each fprobe is a user of its own, and where all are one
def test_with_many_fprobes(kernel: str, operation: str) -> None:
    few, many = (Crowd(kernel, probes, letter="f") for probes in (FEW, MANY))
    least = work(getattr(few, operation))
    assert least > 20
    assert work(getattr(many, operation)) <= least * 1.05


@pytest.mark.parametrize(
    "operation", ["define", "delete", "switch", "switch_in_the_newest", "choose", "instance", "hit"]
)
def test_with_many_instances(operation: str) -> None:
    few, many = (Crowd("6.1", FEW, instances) for instances in (FEW, INSTANCES))
    least = work(getattr(few, operation))
    assert least > 20
    assert work(getattr(many, operation)) <= least * 1.05


def test_what_is_on_is_found_without_a_look_at_what_is_off() -> None:
    """There are more than a thousand static events."""
    crowd = Crowd("6.1", FEW)
    assert crowd.tracefs.read("available_events").count(b"\n") > 1000
    assert work(crowd.see_what_is_on) < 500
    assert work(crowd.choose_by_a_word) < 500


def test_the_lines_of_available_events_are_made_once() -> None:
    crowd = Crowd("6.1", MANY)
    lines = crowd.tracefs.read("available_events").count(b"\n")
    assert lines > 1000 + MANY
    assert work(lambda: crowd.tracefs.read("available_events")) < lines * 3


def test_a_listing_costs_the_same_for_each_entry() -> None:
    few, many = (Crowd("6.1", probes, 0) for probes in (100, MANY))

    def listing(crowd: Crowd) -> float:
        """Return the calls for each line of a listing that has changed since it was read."""

        def changed() -> None:
            crowd.define()
            with crowd.tracefs.open("kprobe_events", 0) as file:
                while file.read(4096):
                    pass

        return work(changed) / crowd.defined

    assert listing(many) <= listing(few)


def test_the_lowest_id_that_is_free_is_the_next() -> None:
    """Since 6.3; before, ids only grow."""
    ids = {}
    for series in ("6.1", "6.12"):
        crowd = Crowd(series, 6, 0)
        crowd.tracefs.write("kprobe_events", b"-:my0004\n-:my0002\n-:my0003\n")
        for _ in range(4):
            crowd.define()
        first = int(crowd.tracefs.read("events/kprobes/my0001/id"))
        ids[series] = [int(crowd.tracefs.read(f"events/kprobes/my{number:04}/id")) - first for number in range(5, 11)]
    assert ids == {"6.1": [4, 5, 6, 7, 8, 9], "6.12": [4, 5, 1, 2, 3, 6]}
