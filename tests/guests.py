"""Which kernels the tests with a guest run on: fixtures for the packages whose tests need one."""

from __future__ import annotations

import os

import pytest

from kprobe_vm.guest.backend import Spec


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
