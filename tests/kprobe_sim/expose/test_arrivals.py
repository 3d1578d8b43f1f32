"""How the server of a mount waits: when it looks for the next request, and what it may spend on looking in vain."""

from __future__ import annotations

from kprobe_sim.expose.fuse.arrivals import Arrivals

MICROSECOND = 1000
READY = [(3, 1)]


class Requests:
    """Requests that arrive some time after the server began to wait, on a machine where a poll takes a microsecond."""

    def __init__(self) -> None:
        self.now = 0
        self.due = 0
        self.looked = self.slept = 0  # how many polls came back at once, and how many waited
        self.arrivals = Arrivals(self.poll, lambda: self.now)

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        self.now += MICROSECOND
        if timeout is None:
            self.slept += 1
            self.now = max(self.now, self.due)
        else:
            assert timeout == 0
            self.looked += 1
        return READY if self.now >= self.due else []

    def serve(self, *gaps: int, times: int = 1) -> tuple[int, int]:
        """Wait for requests that come so many microseconds apart; return how often it slept and looked."""
        self.looked = self.slept = 0
        for gap in gaps * times:
            self.due = self.now + gap * MICROSECOND
            assert self.arrivals.wait() == READY
        return self.slept, self.looked


def test_a_caller_that_goes_on_at_once_is_served_without_sleeping() -> None:
    assert Requests().serve(1, times=1000) == (0, 1000)


def test_requests_a_few_microseconds_apart_are_served_without_sleeping() -> None:
    slept, looked = Requests().serve(20, times=1000)
    assert (slept, looked) == (0, 20_000)


def test_a_look_ends_after_50_microseconds() -> None:
    assert Requests().serve(1_000_000) == (1, 51)  # one at first, and what is found there is no look


def test_what_looks_find_pays_for_one_in_vain() -> None:
    """A program that opens, writes and closes once in a millisecond."""
    requests = Requests()
    assert requests.serve(1000, 15, 15, times=1000)[0] == 1000
    assert requests.serve(15, 15) == (0, 30)


def test_looks_in_vain_are_given_up() -> None:
    """A caller on the server's own CPU: it can't go on before the server sleeps."""
    slept, looked = Requests().serve(60, times=10_000)
    assert slept == 10_000
    assert looked == 14 * 51  # 5, and one each after 16, 32, 64 … 4096 waits: 0.7 ms in 0.6 s


def test_looks_in_vain_stay_rare() -> None:
    requests = Requests()
    requests.serve(60, times=10_000)
    slept, looked = requests.serve(60, times=1_000_000)
    assert slept == 1_000_000
    assert looked // 51 in (244, 245)  # one in 4097


def test_a_server_that_gave_up_soon_notices_that_looking_pays_again() -> None:
    requests = Requests()
    requests.serve(60, times=10_000)
    slept, _ = requests.serve(15, times=10_000)
    assert 0 < slept <= 4096
    assert requests.serve(15, times=10_000)[0] == 0


def test_a_look_that_lost_its_cpu_to_others_costs_no_more_than_one_in_vain() -> None:
    """On a busy machine the clock goes on by a whole time slice between two polls."""
    requests = Requests()
    real, requests.due = requests.poll, 0

    def preempted(timeout: float | None = None, /) -> list[tuple[int, int]]:
        requests.now += 3000 * MICROSECOND
        return real(timeout)

    requests.arrivals = Arrivals(preempted, lambda: requests.now)
    slept, looked = requests.serve(10_000, times=16 + 2)
    assert slept == 18
    assert looked == 2 + 2  # one look, and one when 16 waits were slept through
