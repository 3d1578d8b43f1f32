"""What can follow, on the simulator, by what is typed; and that a kernel's functions are found at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from kprobe.completion.sources import Offered, kernels, specs
from kprobe.completion.words import after, definition


def answered(line: str) -> list[str]:
    """Return what a shell of the kind of bash is answered after that line."""
    read, write = os.pipe()
    code = f"import os, sys; os.dup2({write}, 8); from kprobe.cli import main; main([])"
    environment = {**os.environ, "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    environment |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_SHELL": "bash"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, pass_fds=(write,), capture_output=True)
    os.close(write)
    with os.fdopen(read) as file:
        assert done.returncode == 0, done.stderr
        return file.read().split("\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kprobe list --", ["--help", "--tracefs", "--version", "--json"]),
        ("kprobe functions --tracefs sim:6.12 vfs_readl", ["vfs_readlink"]),  # the option between the words
        ("kprobe top --tracefs sim:6.12 p:vfs_readl", ["p:vfs_readlink"]),
        ("kprobe top --tracefs sim:6.12 'p:x vfs_read fd=%di:s32' 'f", ["fd"]),
        ("kprobe doctor --tracefs sim:6.12 p:vfs_readl", ["p:vfs_readlink"]),
        ("kprobe doctor --tracefs sim:6.12 vfs_readl", ["vfs_readlink"]),
        ("kprobe --tracefs sim:6.12 --latency vfs_readl", ["vfs_readlink"]),
        ("kprobe --tracefs sim:6.12 --latency vfs_read r:vfs_readl", ["r:vfs_readlink"]),
        ("kprobe --tracefs sim:6.12 vfs_readl", [""]),
        ("kprobe corpus ", ["list", "check", "export"]),
        ("kprobe check --format=sa", ["--format=sarif"]),
    ],
)
def test_a_verb_has_its_own(line: str, expected: list[str]) -> None:
    assert answered(line) == expected


def test_where_a_probe_can_be() -> None:
    source = Offered("sim:6.12")
    assert set(definition("", source)) == {"p:", "r:", "f:", "t:", "e:", "u:"}
    assert sorted(definition("p:vfs_readl", source)) == ["p:vfs_readlink"]
    assert sorted(definition("r16:mine vfs_readl", source)) == ["r16:mine vfs_readlink"]
    assert "t:sched_process_fork" in definition("t:sched_pro", source)
    assert "e:mine sched.sched_process_fork" in definition("e:mine sched.", source)
    assert "e:mine sched/sched_process_fork" in definition("e:mine sched/", source)


def test_what_a_probe_can_fetch() -> None:
    source = Offered("sim:6.12")
    at_entry, at_return = definition("p:mine vfs_read ", source), definition("r:mine vfs_read a=", source)
    assert {"p:mine vfs_read $arg1", "p:mine vfs_read %di", "p:mine vfs_read +0("} <= set(at_entry)
    assert "r:mine vfs_read a=$retval" in at_return
    assert "r:mine vfs_read a=$arg1" not in at_return
    assert "p:mine vfs_read a=+0(%si):ustring" in definition("p:mine vfs_read a=+0(%si):us", source)
    fields = definition("e:mine sched.sched_process_fork c=", source)
    assert fields["e:mine sched.sched_process_fork c=$child_comm"] == "char[16]"


DEFINED = "p:mine vfs_read fd=%di:s32 path=+0(%si):string"


@pytest.mark.parametrize(
    ("typed", "some", "none"),
    [
        ("", {"fd", "path", "common_pid", "p:"}, {"&&"}),
        ("pa", {"path"}, {"fd"}),
        ("path ", {"path ~", "path =="}, {"path <"}),
        ("fd ", {"fd <", "fd &"}, {"fd ~"}),
        ("fd < ", set(), {"fd < fd"}),
        ("fd < 3 ", {"fd < 3 &&", "fd < 3 ||"}, {"fd < 3 fd"}),
        ("fd < 3 && (pa", {"fd < 3 && (path"}, set()),
    ],
)
def test_a_filter(typed: str, some: set[str], none: set[str]) -> None:
    found = set(after([DEFINED], typed, Offered("sim:6.12")))
    assert some <= found
    assert not none & found


def test_specs_and_kernels() -> None:
    assert {"local", "sim:6.12", "vm:6.12"} <= set(specs(""))
    assert f"local:{os.path.dirname(__file__)}/" in specs(f"local:{os.path.dirname(__file__)}")
    assert {"6.1,all", "6.1,6.12"} <= set(kernels("6.1,"))


def test_a_tracefs_that_cannot_be_read_offers_nothing() -> None:
    for spec in ("local:/nosuch", "nosuch:1", "sim:0.1"):
        assert Offered(spec).functions("vfs_") == []
        assert Offered(spec).events() == []


def test_no_guest_is_booted() -> None:
    assert Offered("vm:6.12").functions("vfs_readl") == ["vfs_readlink"]


def test_sixty_thousand_functions_are_looked_through_at_once(tmp_path: object) -> None:
    directory = str(tmp_path)
    with open(os.path.join(directory, "available_filter_functions"), "w", encoding="ascii") as file:
        file.writelines(f"some_long_function_name_{number} [module]\n" for number in range(60_000))
        file.write("vfs_readlink\n")
    began = time.process_time()
    assert Offered(f"local:{directory}").functions("vfs_") == ["vfs_readlink"]
    assert len(Offered(f"local:{directory}").functions("some_")) == 60_000
    assert time.process_time() - began < 1
