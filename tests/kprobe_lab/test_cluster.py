"""Shards done by dask's workers, started here as processes: refused, lost, killed; and verbs that use them."""

from __future__ import annotations

import functools
import itertools
import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import pytest

from kprobe_lab.campaign.shards import Plan, Stretch
from kprobe_lab.campaign.tally import Tally
from kprobe_lab.scheduling.cluster import Cluster
from kprobe_lab.scheduling.edition import files
from kprobe_lab.scheduling.kept import Kept
from kprobe_lab.scheduling.processes import Processes
from kprobe_lab.scheduling.work import Scheduler, ends
from kprobe_vm import cli
from kprobe_vm.errors import NoWorkers

from .conftest import TOYS, is_gone

REMEDY = "`pip install '.[campaign,scale]'` there, in a checkout of"
PLAN = Plan("6.1", "sim:6.12")
SHARDS = [Stretch(PLAN, 11, number, operations=10) for number in range(8)]


def drain(pipe: IO[str]) -> None:
    """Read a pipe on, lest it fills."""
    with pipe:
        deque(pipe, 0)


class Dask:
    """A scheduler, and workers as processes without a nanny, so that who is killed stays so."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.workers: dict[str, subprocess.Popen[str]] = {}
        programs = place / "bin"
        programs.mkdir()
        for name in ("qemu-system-x86_64", "cc", "setpriv"):
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(TOYS),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "KPROBE_VM_CACHE": str(place / "cache"),
        }
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        self.scheduler, self.address = self._start([*command, "--no-dashboard"], r"Scheduler at: +tcp://(\S+)")

    def start(self) -> str:
        """Start a worker; return its address as soon as the scheduler knows it."""
        command = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://{self.address}"]
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self.place)]
        process, address = self._start([*command, *options], r"Start worker at: +(\S+)(?s:.*)Registered to: ")
        self.workers[address] = process
        return address

    def _start(self, command: list[str], said: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True, cwd=self.place)
        assert process.stderr is not None
        text = ""
        for line in process.stderr:
            text += line
            if match := re.search(said, text):
                threading.Thread(target=drain, args=(process.stderr,), daemon=True).start()
                return process, match[1]
        raise AssertionError(f"{command} did not start: {text}")

    def kill(self, address: str) -> None:
        """Kill a worker, as a machine that goes down does."""
        process = self.workers.pop(address)
        process.kill()
        process.wait()

    def close(self) -> None:
        for process in [*self.workers.values(), self.scheduler]:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    with closing(Dask(tmp_path_factory.mktemp("dask"))) as dask:
        yield dask


@pytest.fixture
def dask(started: Dask) -> Dask:
    """A scheduler with three workers or more; a test may kill some."""
    while len(started.workers) < 3:
        started.start()
    return started


def cluster(dask: Dask, lines: list[str] | None = None) -> Cluster:
    return Cluster(dask.address, str, (lines if lines is not None else []).append)


def done(shards: list[Stretch], scheduler: Scheduler) -> Tally:
    tally = Tally()
    for end in ends(scheduler, shards):
        assert not end.fault
        tally = tally.merged(end.result)
    return tally


@pytest.fixture(scope="module")
def tallies() -> list[Tally]:
    """What each shard comes to, done here one after the other."""
    with closing(Kept()) as kept:
        return [shard.run(kept) for shard in SHARDS]


@pytest.fixture(scope="module")
def whole(tallies: list[Tally]) -> Tally:
    return functools.reduce(Tally.merged, tallies)


@pytest.mark.slow
def test_merging_has_no_order(tallies: list[Tally], whole: Tally) -> None:
    assert whole.operations >= 8 * 10
    assert len({found.difference.signature() for found in whole.sightings}) == len(whole.sightings) > 5
    assert whole.total > len(whole.sightings)  # some were found by several shards
    for order in itertools.islice(itertools.permutations(tallies), 0, 40320, 2017):
        assert functools.reduce(Tally.merged, order) == whole
        left, right = (functools.reduce(Tally.merged, half) for half in (order[:3], order[3:]))
        assert left.merged(right) == right.merged(left) == whole
    assert whole.merged(Tally()) == whole


@pytest.mark.slow
def test_a_worker_that_is_killed_in_the_middle_makes_no_difference(dask: Dask, whole: Tally) -> None:
    """Three workers, of which one is killed while it does a shard: all shards are done, with the same results."""
    tally = Tally()
    with closing(cluster(dask)) as scheduler:
        assert scheduler.free() == len(dask.workers) >= 3
        work = ends(scheduler, SHARDS)
        first = next(work)
        busy = next(address for address in dask.workers if address != first.worker)
        dask.kill(busy)
        ended = [first, *work]
    for end in ended:
        assert not end.fault
        tally = tally.merged(end.result)
    assert tally == whole
    assert sorted(end.number for end in ended) == list(range(8))


@pytest.mark.slow
def test_processes_come_to_the_same(whole: Tally) -> None:
    with closing(Processes(2)) as scheduler:
        assert done(SHARDS, scheduler) == whole


def test_one_that_fails_is_tried_again(dask: Dask, tmp_path: Path, toys: Any) -> None:
    lines: list[str] = []
    shards = [toys.Square(2), toys.Faulty(3, str(tmp_path / "log"), 1)]
    with closing(cluster(dask)) as scheduler:
        assert {end.number: end.result for end in ends(scheduler, shards, lines.append)} == {2: 4, 3: 9}
    (line,) = lines
    assert re.match(r"faulty shard 3, attempt 1 of 3 on tcp://127.0.0.1:\d+: ValueError: no luck ", line)


@pytest.mark.slow
def test_a_worker_that_comes_takes_part(dask: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kprobe_lab.scheduling.cluster.CHECK", 0)
    with closing(cluster(dask)) as scheduler:
        before = scheduler.free()
        dask.start()
        while scheduler.free() == before:
            assert scheduler.wait(0.05) == []
        assert scheduler.workers() == f"{before + 1} workers"


def test_the_end_of_the_work_is_that_of_its_guests(dask: Dask, tmp_path: Path, toys: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    scheduler = cluster(dask)
    scheduler.submit(toys.Sleeping(0, str(tmp_path / "pipe")))
    worker, guest = (int(word) for word in (tmp_path / "pipe").read_text().split())
    scheduler.close()
    assert is_gone(guest)
    assert not is_gone(worker)


@pytest.mark.parametrize(
    ("distribution", "here", "why"),
    [
        (
            "kprobe-sim",
            ("9.9", ""),
            f"it has kprobe-sim {version('kprobe-sim')}, and here is 9.9: {REMEDY} 9.9",
        ),
        (
            "kprobe-nosuch",
            ("9.9", ""),
            f"kprobe-nosuch isn't installed: {REMEDY} 9.9",
        ),
        (
            "kprobe-sim",
            (version("kprobe-sim"), "1234"),
            f"its kprobe-sim {version('kprobe-sim')} has other files (digest {files()}, here 1234): "
            f"{REMEDY} {version('kprobe-sim')} as it is here",
        ),
    ],
    ids=["version", "absent", "files"],
)
def test_workers_with_another_kprobe_sim_are_named_with_the_remedy(
    dask: Dask, monkeypatch: pytest.MonkeyPatch, distribution: str, here: tuple[str, str], why: str
) -> None:
    monkeypatch.setattr("kprobe_lab.scheduling.cluster.DISTRIBUTION", distribution)
    monkeypatch.setattr("kprobe_lab.scheduling.cluster.here", lambda: here)
    lines: list[str] = []
    with pytest.raises(NoWorkers, match=f"the dask scheduler at {dask.address} has no worker that can do this"):
        cluster(dask, lines)
    assert sorted(lines) == sorted(f"worker {address} is not used: {why}" for address in dask.workers)


def test_a_worker_without_the_kernel(dask: Dask, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["diff", "--kernel", "6.1", "--operations", "1", "--scheduler", f"dask://{dask.address}"])
    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert status == 97
    why = "it hasn't the kernel 6.1.0-54-cloud-amd64: run `kprobe-vm boot 6.1.0-54-cloud-amd64` there"
    for address in dask.workers:
        assert f"kprobe-vm: worker {address} is not used: {why}" in lines
        assert f"  {address}: {why}" in lines
    assert f"kprobe-vm: the dask scheduler at {dask.address} has no worker that can do this" in lines
    assert printed.out == ""


def test_a_matrix(dask: Dask, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specs = ["sim:6.1", "sim:5.10"]
    command = ["-q", "matrix", *(f"--simulator={spec}" for spec in specs), f"--scheduler=dask://{dask.address}"]
    assert cli.main([*command, "--out", str(tmp_path)]) == 0
    assert [line.split("\t")[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["simulator 6.1", "6.1.0-54-cloud-amd64"],
        ["simulator 5.10", "5.10.0-46-cloud-amd64"],
    ]
    assert {page.name for page in tmp_path.iterdir()} == {"kernels.md", "kernels.html"}


def test_an_address_where_nobody_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("kprobe_lab.scheduling.cluster.CONNECTING", 0.5)
    assert cli.main(["diff", "--against", "sim:6.12", "--scheduler", "dask://127.0.0.1:1"]) == 98
    assert capsys.readouterr().err.startswith("kprobe-vm: no dask scheduler answers at 127.0.0.1:1: ")
