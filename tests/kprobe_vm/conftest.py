"""A guest for the tests that only look, and an agent on this very machine for those that need no kernel."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kprobe_vm import Machine
from kprobe_vm.agent.channel import Channel
from kprobe_vm.errors import MachineClosed, MachineDied
from kprobe_vm.host.cache import Cache
from kprobe_vm.images.root import agent

from ..guests import pytest_generate_tests, series  # noqa: TID252  # the tests are no package that has a name

__all__ = ["pytest_generate_tests", "series"]


@pytest.fixture(scope="session")
def machine(series: str) -> Iterator[Machine]:
    """A guest that tests share: they undo what they do."""
    with Machine(series) as running:
        yield running


@pytest.fixture(scope="session")
def agent_program(requires: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    requires("cc")
    return agent(Cache(tmp_path_factory.mktemp("cache")))


class Lost(list[str]):
    """Notes what the channel reported of its end."""

    def lost(self, reason: str) -> MachineDied:
        self.append(reason)
        return MachineClosed("lost")

    def stuck(self, reason: str) -> MachineDied:
        self.append(reason)
        return MachineClosed("stuck")


@pytest.fixture
def local_channel(agent_program: Path) -> Iterator[Channel]:
    """A channel to an agent that runs here, as an ordinary process."""
    ours, theirs = socket.socketpair()
    with subprocess.Popen([agent_program, str(theirs.fileno())], pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        notes = Lost()
        channel = Channel(ours, lost=notes.lost, stuck=notes.stuck)
        try:
            yield channel
        finally:
            channel.fail(MachineClosed("the test has ended"))
            channel.close()
            process.wait(10)
