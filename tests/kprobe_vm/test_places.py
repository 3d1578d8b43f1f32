"""How many guests run at once: places that processes of any user share."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from kprobe_vm.guest.slots import limit, take

HOLDER = """
import sys
from kprobe_vm.guest.slots import take
place = take(int(sys.argv[1]), prefix="\\0" + sys.argv[2])
print(place.is_held, flush=True)
if sys.stdin.readline():
    place.close()
    print("given back", flush=True)
    sys.stdin.readline()
"""


class Holder:
    """Another process that takes a place."""

    def __init__(self, count: int, prefix: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(count), prefix[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def give_back(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def prefix() -> str:
    return f"\0kprobe-vm-test/{os.getpid()}/{time.monotonic_ns()}/"


@pytest.fixture
def holder(prefix: str) -> Iterator[Holder]:
    """One who has the only place."""
    one = Holder(1, prefix)
    assert one.line() == b"True"
    yield one
    one.end()


def test_as_many_as_there_are(prefix: str) -> None:
    first = take(1, prefix=prefix)
    assert first.is_held
    first.close()
    first.close()
    assert not first.is_held
    again = take(1, prefix=prefix)
    assert again.is_held
    again.close()


def test_who_has_one_does_not_wait_for_another(prefix: str) -> None:
    with_one = take(1, prefix=prefix)
    assert not take(1, patience=600, prefix=prefix).is_held
    with_one.close()


def test_patience_ends(holder: Holder, prefix: str) -> None:
    start = time.monotonic()
    assert not take(1, patience=0.2, prefix=prefix).is_held
    assert time.monotonic() - start >= 0.2


def test_who_waits_says_so_once(holder: Holder, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kprobe_vm.guest.slots.NOTICE", 0.1)
    said: list[str] = []

    def waiting(line: str) -> None:
        said.append(line)
        holder.give_back()

    place = take(1, patience=60, prefix=prefix, waiting=waiting)
    assert place.is_held
    place.close()
    (line,) = said
    assert line.startswith("1 guest runs on this machine already: waiting for one to end, ")
    assert "KPROBE_VM_GUESTS" in line


def test_who_waits_a_moment_says_nothing(holder: Holder, prefix: str) -> None:
    said: list[str] = []
    assert not take(1, patience=0.2, prefix=prefix, waiting=said.append).is_held
    assert not take(0, patience=0, prefix=prefix, waiting=said.append).is_held
    assert said == []


@pytest.mark.parametrize("how", ["given back", "killed"])
def test_a_place_that_becomes_free_is_taken_at_once(holder: Holder, prefix: str, how: str) -> None:
    got: list[bool] = []
    seconds: list[float] = []

    def wait() -> None:
        place = take(1, patience=60, prefix=prefix)
        got.append(place.is_held)
        place.close()
        seconds.append(time.monotonic() - start)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.2)
    assert got == []
    start = time.monotonic()
    if how == "killed":
        holder.process.kill()
    else:
        holder.give_back()
    thread.join(60)
    assert got == [True]
    print(f"place {how}, taken after {seconds[0] * 1000:.1f} ms")


def test_several_processes_take_turns(prefix: str) -> None:
    """Three want two places: two have one at once, the third when one is given back."""
    three = [Holder(2, prefix) for _ in range(3)]
    try:
        lines: dict[int, bytes] = {}
        threads = [
            threading.Thread(target=lambda number=number: lines.update({number: three[number].line()}))  # type: ignore[misc]
            for number in range(3)
        ]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 30
        while len(lines) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(lines) == 2
        waiting = ({0, 1, 2} - set(lines)).pop()
        done = min(lines)
        three[done].give_back()
        threads[waiting].join(30)
        assert lines == {0: b"True", 1: b"True", 2: b"True"}
    finally:
        for one in three:
            one.end()


def test_the_limit_is_by_cores_and_memory() -> None:
    cores = len(os.sched_getaffinity(0))
    assert limit({}, 1) == cores
    assert limit({}, 1 << 30) == 1
    assert limit({"KPROBE_VM_GUESTS": "7"}, 256) == 7
    assert limit({"KPROBE_VM_GUESTS": "0"}, 256) == 1
