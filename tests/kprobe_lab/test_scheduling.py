"""Shards done by processes of this machine: all of them, whatever becomes of a worker, and nothing left at the end."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kprobe_lab.scheduling.kept import Kept
from kprobe_lab.scheduling.processes import Processes
from kprobe_lab.scheduling.work import ends
from kprobe_vm.errors import MachineClosed, NotReady, ShardFailed

from .conftest import is_gone


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


class Item:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_shard_ends_once(toys: Any, jobs: int) -> None:
    with closing(Processes(jobs)) as processes:
        found = [(end.number, end.result, end.fault) for end in ends(processes, map(toys.Square, range(7)))]
    assert sorted(found) == [(number, number**2, "") for number in range(7)]


def test_one_that_fails_is_tried_again_elsewhere_or_later(toys: Any, tmp_path: Path) -> None:
    lines: list[str] = []
    shards = [toys.Square(0), toys.Faulty(1, str(tmp_path / "log"), 2)]
    with closing(Processes(1)) as processes:
        found = {end.number: end.result for end in ends(processes, shards, lines.append)}
    assert found == {0: 0, 1: 1}
    assert [line.partition(" (")[0] for line in lines] == [
        "faulty shard 1, attempt 1 of 3 on worker 1: ValueError: no luck",
        "faulty shard 1, attempt 2 of 3 on worker 1: ValueError: no luck",
    ]


def test_one_that_always_fails_is_reported_and_the_others_are_done(toys: Any, tmp_path: Path) -> None:
    shards = [toys.Square(0), toys.Faulty(1, str(tmp_path / "log"), 9, "BootTimeout"), toys.Square(2)]
    with closing(Processes(1)) as processes:
        found = {end.number: end for end in ends(processes, shards)}
    assert {number: end.result for number, end in found.items()} == {0: 0, 1: None, 2: 4}
    assert found[1].fault == "faulty shard 1, attempt 3 of 3 on worker 1: no hello"
    assert found[1].status == 119
    assert (tmp_path / "log").read_text().split() == ["1"] * 3


def test_a_worker_that_is_killed_is_replaced_and_its_shard_done(toys: Any, tmp_path: Path) -> None:
    lines: list[str] = []
    shards = [toys.Square(0), toys.Faulty(1, str(tmp_path / "log"), 1, "killed"), toys.Square(2)]
    with closing(Processes(1)) as processes:
        found = {end.number: end.result for end in ends(processes, shards, lines.append)}
    assert found == {0: 0, 1: 1, 2: 4}
    assert lines == ["faulty shard 1, attempt 1 of 3 on worker 1: the process was killed by SIGKILL"]


def test_nothing_but_faults_ends_the_work(toys: Any, tmp_path: Path) -> None:
    shards = (toys.Faulty(number, str(tmp_path / "log"), 9, "BootTimeout") for number in range(1000))
    with closing(Processes(1)) as processes, pytest.raises(ShardFailed, match="no hello") as raised:
        list(ends(processes, shards))
    assert raised.value.exit_status == 119
    assert len((tmp_path / "log").read_text().split()) < 6


def test_three_given_up_in_a_row_end_the_work(toys: Any, tmp_path: Path) -> None:
    faulty = (toys.Faulty(number, str(tmp_path / "log"), 9) for number in range(1, 1000))
    with closing(Processes(1)) as processes:
        work = ends(processes, [toys.Square(0)])
        assert next(work).result == 0
        with pytest.raises(ShardFailed) as raised:
            list(ends(processes, faulty))
    assert raised.value.exit_status == 95


def test_what_this_machine_lacks_is_said_at_once(toys: Any, tmp_path: Path) -> None:
    shards = [toys.Faulty(number, str(tmp_path / "log"), 9, "QemuMissing") for number in range(5)]
    with closing(Processes(1)) as processes, pytest.raises(NotReady, match="apt-get install qemu") as raised:
        list(ends(processes, shards))
    assert raised.value.exit_status == 114
    assert (tmp_path / "log").read_text() == "0\n"


def test_a_worker_keeps_its_guest_from_shard_to_shard(toys: Any) -> None:
    with closing(Processes(1)) as processes:
        (pid,) = {end.result for end in ends(processes, map(toys.Sleeping, range(4)))}
        assert not is_gone(pid)
    assert is_gone(pid)


def test_the_end_of_the_work_is_that_of_what_runs(toys: Any, pipe: Path) -> None:
    processes = Processes(1)
    processes.submit(toys.Sleeping(0, str(pipe)))
    pids = [int(word) for word in pipe.read_text().split()]
    assert [is_gone(pid) for pid in pids] == [False, False]
    processes.close()
    assert [is_gone(pid) for pid in pids] == [True, True]


def test_an_idle_guest_is_closed_after_a_while() -> None:
    closed = threading.Event()

    class Told:
        def close(self) -> None:
            closed.set()

    kept = Kept(idle=0.01)
    with kept.borrow("told", Told):
        assert not closed.is_set()
    assert closed.wait(20)


def test_what_a_failed_shard_had_is_not_kept() -> None:
    kept = Kept()
    with kept.borrow("item", Item) as first:
        pass
    with pytest.raises(ValueError, match="broken"), kept.borrow("item", Item) as second:
        raise ValueError("broken")
    with kept.borrow("item", Item) as third:
        pass
    kept.close()
    assert first is second
    assert third is not first
    assert (first.closed, third.closed) == (1, 1)
    with pytest.raises(MachineClosed):
        kept.check()


def test_each_of_two_shards_at_once_has_its_own() -> None:
    kept = Kept()
    with kept.borrow("item", Item) as first, kept.borrow("item", Item) as second:
        assert first is not second
        kept.close()
        assert (first.closed, second.closed) == (1, 1)
