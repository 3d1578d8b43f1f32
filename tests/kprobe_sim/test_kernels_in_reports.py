"""What a run of tests reports of kernels: properties in JUnit's XML, a table of several, how workers share guests."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from argparse import Namespace
from pathlib import Path

import pytest

from kprobe_sim.pytest_plugin.kernel_table import KernelTable
from kprobe_sim.pytest_plugin.workers import advice, share_by_files

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_same(tracefs, n):
    pass

@pytest.mark.parametrize("word", ["$current", "vfs_read"])
def test_new(tracefs, word):
    tracefs.write("kprobe_events", f"p:mine vfs_read a={word}".encode() if word == "$current" else b"p:mine vfs_read")

@pytest.mark.needs("syscall_user_buf_size")
def test_knows(tracefs):
    pass

def test_simulated(kernel):
    pass

def test_set_up(tracefs, broken_on_old):
    pass

@pytest.fixture
def broken_on_old(tracefs_spec):
    assert "6.1" not in tracefs_spec

def test_no_tracefs():
    pass
"""
TABLE = """\
                                         sim:6.1  sim:7.3
test_it.py::test_new[$current]           failed   passed
test_it.py::test_set_up                  error    passed

passed                                   5        7
failed                                   1        0
error                                    1        0
"""


@pytest.fixture
def run(pytester: pytest.Pytester):  # type: ignore[no-untyped-def]
    def run(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=source)
        own_process = "-n" in arguments and "--collect-only" not in arguments
        return (pytester.runpytest_subprocess if own_process else pytester.runpytest_inprocess)("-q", *arguments)

    return run


def test_each_test_has_its_tracefs_and_release(run, pytester: pytest.Pytester) -> None:  # type: ignore[no-untyped-def]
    run(
        "def test_it(tracefs): pass\ndef test_none(): pass\n",
        "--tracefs",
        "sim:6.1",
        "--tracefs",
        "sim",
        "--junitxml=x",
    )
    cases = ElementTree.parse(Path(pytester.path) / "x").iter("testcase")
    found = {
        case.attrib["name"]: {property.attrib["name"]: property.attrib["value"] for property in case.iter("property")}
        for case in cases
    }
    assert found == {
        "test_it[sim:6.1]": {"tracefs": "sim:6.1", "kernel": "6.1.0-54-cloud-amd64"},
        "test_it[sim:7.3]": {"tracefs": "sim:7.3", "kernel": "7.3-cloud-amd64"},
        "test_none": {},
    }


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "1"), marks=pytest.mark.requires("xdist"))])
def test_the_table_of_several_kernels(run, workers: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    out = run(
        TESTS.replace("syscall_user_buf_size", "kprobe_events"), "--tracefs", "sim:6.1", "--tracefs", "sim", *workers
    )
    text = out.stdout.str()
    title, _, rest = text.partition("tests that differ between kernels")[2].partition("\n")
    assert set(title) <= {" ", "="}
    lines = rest.splitlines()
    assert [line.split() for line in lines[:7]] == [line.split() for line in TABLE.splitlines()]


def test_no_table_for_one_kernel(run) -> None:  # type: ignore[no-untyped-def]
    assert "tests that differ" not in run(TESTS, "--tracefs", "sim:6.1").stdout.str()


class Terminal(list[str]):
    def section(self, title: str) -> None:
        self.append(f"= {title}")

    def line(self, text: str) -> None:
        self.append(text)


def report(nodeid: str, when: str = "call", **more: object) -> Namespace:
    outcome = {"failed": False, "skipped": False, "longrepr": None, **more}
    return Namespace(nodeid=nodeid, when=when, **outcome)


def test_how_tests_come_out() -> None:
    table = KernelTable(["vm:6.1", "vm:6.12", "sim:6.1"])
    for text in (
        report("a.py::test_x[vm:6.1]", failed=True, guest_fault=("GuestPanic", 120)),
        report("a.py::test_x[vm:6.12]"),
        report("a.py::test_x[sim:6.1]"),
        report("a.py::test_y[a-vm:6.1-b]", skipped=True, longrepr=("a.py", 1, "Skipped: unsupported: x")),
        report("a.py::test_y[a-vm:6.12-b]", skipped=True, wasxfail="why"),
        report("a.py::test_y[a-sim:6.1-b]"),
        report("a.py::test_k[vm:6.1]", skipped=True, longrepr=("a.py", 1, "Skipped: simulator only")),
        report("a.py::test_k[sim:6.1]"),
        report("a.py::test_teardown[vm:6.1]"),
        report("a.py::test_teardown[vm:6.1]", "teardown", failed=True),
        report("a.py::test_teardown[sim:6.1]"),
        report("a.py::test_teardown[sim:6.1]", "teardown"),
    ):
        table.pytest_runtest_logreport(text)
    terminal = Terminal()
    table.pytest_terminal_summary(terminal)
    assert [line.split("  ")[0] for line in terminal[:3]] == ["= tests that differ between kernels", "", "a.py::test_x"]
    assert [" ".join(line.split()) for line in terminal] == [
        "= tests that differ between kernels",
        "vm:6.1 vm:6.12 sim:6.1",
        "a.py::test_x guest failed passed passed",
        "a.py::test_y[a-b] skipped xfailed passed",
        "a.py::test_teardown error - passed",
        "",
        "passed 0 1 4",
        "error 1 0 0",
        "guest failed 1 0 0",
        "skipped 1 0 0",
        "xfailed 0 1 0",
    ]


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({"numprocesses": 2, "dist": "no"}, "loadfile"),
        ({"numprocesses": 2, "dist": "worksteal"}, "worksteal"),
        ({"numprocesses": None, "dist": "no"}, "no"),
        ({"numprocesses": 2, "dist": "no", "distload": True}, "no"),
        ({}, None),
    ],
)
def test_workers_share_guests_by_files(given: dict[str, object], mode: str | None) -> None:
    option = Namespace(**given)
    share_by_files(option)
    assert getattr(option, "dist", None) == mode


@pytest.mark.requires("xdist")
def test_another_mode_gets_advice(run) -> None:  # type: ignore[no-untyped-def]
    advised = "NOTE: --dist load gives the tests of a file to several workers, and each of them starts a guest for it; "
    nothing = "def test_it(): pass\n"
    workers = ("-n", "1", "--collect-only")  # which starts none of them
    guests = ("--tracefs", "vm:6.1", *workers)
    assert advised in run(nothing, *guests, "--dist", "load").stdout.str()
    for arguments in (guests, (*guests, "--dist", "loadscope"), (*workers, "--dist", "load")):
        assert "NOTE: --dist" not in run(nothing, *arguments).stdout.str()
    assert advice(Namespace(dist="worksteal")).startswith("NOTE: --dist worksteal gives")


@pytest.mark.slow
@pytest.mark.requires("xdist")
def test_guests_are_shared_by_files(run) -> None:  # type: ignore[no-untyped-def]
    out = run("def test_it(): pass\n", "--tracefs", "vm:6.1", "-n", "1", "-vv")
    assert "scheduling tests via LoadFileScheduling" in out.stdout.str()
    out = run("def test_it(): pass\n", "-n", "1", "-vv")
    assert "scheduling tests via LoadScheduling" in out.stdout.str()
