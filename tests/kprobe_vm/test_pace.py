"""A clock that goes as fast as the guest does; the numbers of schedstat are those of sched-stats.rst."""

from pathlib import Path

import pytest

from kprobe_vm.host.pace import CARRIED, NOMINAL_BOOT, SLOWEST, STRETCH, Deadline, Pace, after_start
from kprobe_vm.machine.boot import Deadlines


class Host:
    """A /proc with one process, and a clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seconds = 1000.0
        for task in ("42/task/42", "42/task/43", "self/task/7"):
            (root / task).mkdir(parents=True)
            self.waited(task, 0.0)
        self.stolen(0)

    def waited(self, task: str, seconds: float) -> None:
        (self.root / task / "schedstat").write_text(f"123456 {int(seconds * 1e9)} 78\n")

    def stolen(self, ticks: int) -> None:
        (self.root / "stat").write_text(f"cpu  1 2 3 4 5 6 7 {100 + ticks} 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")

    def pace(self) -> Pace:
        return Pace(42, proc=self.root, clock=lambda: self.seconds)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    return Host(tmp_path)


def test_on_an_idle_host_it_is_a_clock(host: Host) -> None:
    pace = host.pace()
    host.seconds += 10
    assert pace.now() == pytest.approx(10.0)


def test_what_a_processor_was_waited_for_does_not_count(host: Host) -> None:
    pace = host.pace()
    host.seconds += 10
    host.waited("42/task/43", 8.0)  # the longest wait of its threads: they wait at the same time
    host.waited("42/task/42", 3.0)
    assert pace.now() == pytest.approx(2.0)
    host.seconds += 10
    assert pace.now() == pytest.approx(12.0)


def test_whoever_hears_the_guest_may_wait_too(host: Host) -> None:
    pace = host.pace()
    pace.count(7)
    pace.now()
    host.seconds += 10
    host.waited("42/task/43", 3.0)
    host.waited("self/task/7", 4.0)
    assert pace.now() == pytest.approx(3.0)


def test_what_a_hypervisor_takes_does_not_count(host: Host) -> None:
    pace = host.pace()
    host.seconds += 10
    host.stolen(1000)  # 10 s of 100 Hz, of two processors
    assert pace.now() == pytest.approx(5.0)


def test_a_wait_is_told_when_it_is_over(host: Host) -> None:
    pace = host.pace()
    host.seconds += 3
    assert pace.now() == pytest.approx(3.0)  # nothing is known yet of a wait that goes on
    host.seconds += 3
    host.waited("42/task/42", 5.0)
    assert pace.now() == pytest.approx(3.0 + 3 / STRETCH)
    host.seconds += 3
    assert pace.now() == pytest.approx(6.0 + 3 / STRETCH - (5 - 3 * (1 - 1 / STRETCH)))


def test_however_busy_the_host_is_a_deadline_passes(host: Host) -> None:
    pace = host.pace()
    deadline = Deadline(pace, 1.0)
    for second in range(1, 101):
        assert deadline.left() > 0
        host.seconds += 1
        host.waited("42/task/42", 100.0 * second)
    assert deadline.left() == pytest.approx(0.0)
    host.seconds += CARRIED + 1  # not for ever after either
    assert pace.now() > 1.0


def test_a_deadline_of_a_guest_that_waits_for_nobody(host: Host) -> None:
    pace = host.pace()
    deadline = Deadline(pace, 9.0)
    host.seconds += 8.5
    assert deadline.left() == pytest.approx(0.5)
    host.seconds += 0.5
    assert deadline.left() == 0.0


def test_a_kernel_that_counts_no_waits(host: Host) -> None:
    for task in ("42/task/42", "42/task/43"):
        (host.root / task / "schedstat").unlink()
    (host.root / "loadavg").write_text("8.00 4.00 2.00 9/999 12345\n")
    pace = host.pace()
    host.seconds += 8
    assert pace.now() == pytest.approx(2.0)  # four times as much to do as two processors can


def test_a_process_that_has_ended(host: Host) -> None:
    pace = Pace(4711, proc=host.root, clock=lambda: host.seconds)
    host.seconds += 8
    assert pace.now() == pytest.approx(8.0)


def test_after_the_start() -> None:
    assert after_start(1.8, NOMINAL_BOOT) == 1.0  # a quick start makes nothing stricter
    assert after_start(18.0, NOMINAL_BOOT) == pytest.approx(3.0)
    assert after_start(1e9, NOMINAL_BOOT) == SLOWEST
    scaled = Deadlines().scaled(after_start(18.0, NOMINAL_BOOT))
    assert (scaled.ping, scaled.operation) == (pytest.approx(30.0), pytest.approx(180.0))
