"""The options of the plugin, and their values: specs of tracefs, and how long a test may wait."""

from __future__ import annotations

import os

import pytest

_VARIABLE = "KPROBE_TRACEFS"
SIMULATOR_ONLY = "simulator only"
CLEAN = "kprobe_check_clean"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kprobe", "kernel probes")
    group.addoption(
        "--guest-per",
        choices=["module", "test"],
        default="module",
        help="how often tests get a new machine where that is a guest: with each module (the default) or each test",
    )
    group.addoption(
        "--tracefs",
        action="append",
        default=[],
        metavar="SPEC",
        help="where to run tests that ask for a tracefs; may be given several times: sim (the default), sim:6.1, "
        "vm:6.1 (a real kernel in QEMU), vm:/path/to/bzImage, local; the default is $KPROBE_TRACEFS",
    )
    group.addoption(
        "--kprobe-timeout",
        type=float,
        metavar="SECONDS",
        help="how long a test may wait for a trace in total; 0: for ever",
    )
    parser.addini("kprobe_timeout", "how many seconds a test may wait for a trace in total; 0: for ever", default="30")
    group.addoption(
        "--kprobe-check-clean",
        action="store_true",
        help="fail each test that leaves anything in its tracefs, or removes what wasn't its own",
    )
    parser.addini(CLEAN, "true: as --kprobe-check-clean does", type="bool", default=False)
    group.addoption("--trace-corpus", metavar="DIR", help="texts for trace_text, instead of the installed ones")
    for name in ("kernels", "scenarios"):
        group.addoption(
            f"--trace-{name}",
            default="",
            metavar="LIST",
            help=f"only texts of these {name} for trace_text, separated by commas; * stands for any text",
        )


def limit(node: pytest.Item | pytest.Session) -> float | None:
    """Return how many seconds a test may wait for a trace; None means for ever."""
    given = node.config.getoption("kprobe_timeout")
    marker = node.get_closest_marker("kprobe_timeout")
    if marker is not None and marker.args:
        given = marker.args[0]
    text = node.config.getini("kprobe_timeout") if given is None else given
    try:
        return float(text) or None
    except ValueError:
        raise pytest.UsageError(f"kprobe_timeout: {text!r} is not a number of seconds") from None


def specs(config: pytest.Config) -> list[str]:
    """Return the specs to test on: those of `--tracefs`, else $KPROBE_TRACEFS, else the simulator."""
    return list(config.getoption("tracefs")) or [os.environ.get(_VARIABLE) or "sim"]


def source(config: pytest.Config) -> str:
    """Return the option or variable that the specs came from."""
    return "--tracefs " if config.getoption("tracefs") else f"{_VARIABLE}="


def has_guests(config: pytest.Config) -> bool:
    return any(kind(spec) == "vm" for spec in specs(config))


def kind(spec: str) -> str:
    return spec.partition(":")[0]


def full_spec(spec: str) -> str:
    if spec != "sim":
        return spec
    from kprobe_sim.builds.profile import newest

    return f"sim:{newest()}"


def checks_clean(node: pytest.Item) -> bool:
    """Return whether a test must leave its tracefs as it was: the nearest marker decides, else the options."""
    marker = node.get_closest_marker("check_clean")
    if marker is not None:
        return bool(marker.args[0]) if marker.args else True
    return bool(node.config.getoption(CLEAN) or node.config.getini(CLEAN))
