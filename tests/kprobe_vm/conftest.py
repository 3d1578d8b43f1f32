"""A guest for the tests that only look, and an agent on this very machine for those that need no kernel."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kprobe_vm import Machine
from kprobe_vm.agent.channel import Channel
from kprobe_vm.errors import MachineClosed, MachineDied
from kprobe_vm.guest.backend import Spec
from kprobe_vm.host.cache import Cache
from kprobe_vm.images.root import agent


def asked(config: pytest.Config) -> list[str]:
    """The kernels that the tests with a guest run on: those of `--tracefs vm:...`, else $KERNEL, else 6.1."""
    specs = [spec.partition(":") for spec in config.getoption("tracefs", None) or []]
    kernels = [Spec.parse(argument).kernel for name, _, argument in specs if name == "vm"]
    return kernels or [os.environ.get("KERNEL", "6.1")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With several kernels each test that asks for one runs on each."""
    kernels = asked(metafunc.config)
    own = any("series" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if len(kernels) > 1 and "series" in metafunc.fixturenames and not own:
        metafunc.parametrize("series", kernels, scope="session")


@pytest.fixture(scope="session")
def series(pytestconfig: pytest.Config) -> str:
    """The kernel that a test with a guest runs on."""
    return asked(pytestconfig)[0]


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


TOYS = Path(__file__).parent / "toys"


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The shards for tests, which the workers can import too."""
    monkeypatch.syspath_prepend(str(TOYS))
    import toy_shards

    yield toy_shards
    del sys.modules["toy_shards"]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
