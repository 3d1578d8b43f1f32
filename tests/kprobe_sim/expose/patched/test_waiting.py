"""Waiting for an event: select, poll, epoll, threads and signals."""

from __future__ import annotations

import os
import pathlib
import select
import signal
import threading

import pytest

from kprobe_sim import SimulatedKernel, Task

from .conftest import PROBE, T


def test_select_poll_and_epoll(kernel: SimulatedKernel) -> None:
    pipe = os.open(f"{T}/trace_pipe", os.O_RDONLY)
    poll, epoll = select.poll(), select.epoll()
    poll.register(pipe, select.POLLIN)
    epoll.register(pipe, select.EPOLLIN)

    def ready() -> tuple[bool, bool, bool]:
        return bool(select.select([pipe], [], [], 0)[0]), bool(poll.poll(0)), bool(epoll.poll(0))

    assert ready() == (False, False, False)
    pathlib.Path(T, "trace_marker").write_text("hello")
    assert ready() == (True, True, True)
    os.read(pipe, 4096)
    assert ready() == (False, False, False)
    epoll.close()
    os.close(pipe)


def test_edge_triggered_epoll(kernel: SimulatedKernel) -> None:
    """One edge for each event, whether the last one was read or not; a guest answers the same (see limits.c)."""
    pipe = os.open(f"{T}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    with select.epoll() as epoll:
        epoll.register(pipe, select.EPOLLIN | select.EPOLLET)
        assert epoll.poll(0) == []
        for is_read in (True, True, True, False, False, False):
            with open(f"{T}/trace_marker", "w") as marker:
                marker.write("an event")
            assert epoll.poll(0) == [(pipe, select.EPOLLIN)]
            if is_read:
                os.read(pipe, 4096)
            assert epoll.poll(0) == []
    os.close(pipe)


def test_non_blocking_by_flag_and_later(kernel: SimulatedKernel) -> None:
    pipe = os.open(f"{T}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert not os.get_blocking(pipe)
    with pytest.raises(BlockingIOError):
        os.read(pipe, 10)
    os.close(pipe)
    with open(f"{T}/trace_pipe", "rb", buffering=0) as file:
        os.set_blocking(file.fileno(), False)
        assert file.read(10) is None


def test_a_thread_waits_for_an_event(kernel: SimulatedKernel) -> None:
    pathlib.Path(T, "kprobe_events").write_text(PROBE)
    pathlib.Path(T, "events/kprobes/probe/enable").write_text("1")
    heard: list[str] = []

    def listen() -> None:
        with open(f"{T}/trace_pipe") as file:
            heard.append(file.readline())

    thread = threading.Thread(target=listen)
    thread.start()
    kernel.call("do_sys_openat2", task=Task(42, "cat"), args=(-100, "/etc/passwd"), returns=3)
    thread.join(20)
    assert heard[0].split()[0] == "cat-42"
    assert heard[0].endswith('path="/etc/passwd"\n')


def test_a_signal_breaks_a_waiting_read(kernel: SimulatedKernel) -> None:
    class Alarm(Exception):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    old = signal.signal(signal.SIGALRM, ring)
    with open(f"{T}/trace_pipe") as file, pytest.raises(Alarm):  # noqa: PT012 - it may ring before the read waits
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        file.readline()
    signal.signal(signal.SIGALRM, old)
