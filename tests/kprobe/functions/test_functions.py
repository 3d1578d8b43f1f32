"""`kprobe functions` on kernels of several eras, and where what it looks at can't be read."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from kprobe.cli import main
from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.symbol import Symbol

SAYS = "the kernel says: Failed to register probe event"


class Without:
    """A tracefs of which some things can't be read."""

    def __init__(self, tracefs: Any, *names: str) -> None:
        self._tracefs = tracefs
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            raise AttributeError(name)
        return getattr(self._tracefs, name)

    def read(self, path: str) -> bytes:
        if path in self._names:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        return bytes(self._tracefs.read(path))


def functions(tracefs: Any, capfd: Any, *words: str) -> tuple[int, list[str], str]:
    status = main(["functions", *words], tracefs=tracefs)
    out, err = capfd.readouterr()
    return status, [" ".join(line.split()) for line in out.splitlines()[1:]], err


@pytest.mark.parametrize(
    ("series", "shown"),
    [
        ("4.4", "vfs_read yes ffffffff8110bfc0 - -"),
        (
            "5.10",
            "vfs_read yes ffffffff812c79d0 - ssize_t vfs_read(struct file *file, char *buf, size_t count, loff_t *pos)",
        ),
        (
            "6.12",
            "vfs_read yes ffffffff81434a10 - ssize_t vfs_read(struct file *file, char *buf, size_t count, loff_t *pos)",
        ),
    ],
)
def test_kernels(series: str, shown: str, capfd: Any) -> None:
    assert functions(SimulatedKernel(series).tracefs, capfd, "vfs_read") == (0, [shown], "")


def test_a_function_of_a_module(capfd: Any) -> None:
    kernel = SimulatedKernel("6.1")
    kernel.symbols.add(Symbol("mine", 0xFFFFFFFFC0000000, module="mymod"))
    assert functions(kernel.tracefs, capfd, "mine") == (0, ["mine yes ffffffffc0000000 mymod -"], "")


@pytest.mark.slow
def test_a_function_that_is_not_traced(capfd: Any) -> None:
    kernel = SimulatedKernel("6.1")
    kernel.symbols.add(Symbol("quiet", 0xFFFFFFFFC0000000, traceable=False))
    why = "not in available_filter_functions: it is notrace, or has no call of ftrace for another reason"
    says = "the kernel says: Failed to register probe event"
    line = "ffffffffc0000000 - -"
    assert functions(kernel.tracefs, capfd, "quiet") == (1, [f"quiet no {line}", f"{why}; {says}"], "")
    asks = "kprobe functions quiet asks the kernel"
    assert functions(kernel.tracefs, capfd, "quie?") == (0, [f"quiet ? {line}", f"{why}; {asks}"], "")


def test_what_cannot_be_read_is_named_and_the_kernel_asked(capfd: Any) -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    without = Without(tracefs, "available_filter_functions", "kallsyms", "blacklist", "prototype")
    assert functions(without, capfd, "vfs_read") == (
        0,
        ["vfs_read yes - - -"],
        "NOTE: can't read available_filter_functions: Permission denied\n"
        "NOTE: can't read kallsyms: no addresses, and functions that share a name can't be told apart\n"
        "NOTE: can't read kprobes/blacklist of debugfs: its contents are unknown\n"
        "NOTE: no prototypes: there is no /sys/kernel/btf/vmlinux\n",
    )
    status, lines, _ = functions(without, capfd, "do_int3")
    assert (status, lines[0]) == (1, "do_int3 no - - -")
    assert lines[1].startswith("available_filter_functions can't be read; the kernel says: ")
    assert tracefs.read("kprobe_events") == b""


def test_a_pattern_that_fits_nothing(capfd: Any) -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    assert functions(tracefs, capfd, "vfs_xy*") == (1, [], "ERROR: no function is called vfs_xy*\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["functions"], "ERROR: functions takes a function's name"),
        (["functions", "--json", "a"], "ERROR: --json is for traces, list or doctor, not for functions"),
        (["functions", "-s", "a"], "ERROR: -s is for traces, not for functions"),
        (["-v", "-d", "1", "p:a"], "ERROR: use either -d or -v."),
    ],
)
def test_usage(argv: list[str], said: str, capfd: Any) -> None:
    assert main(argv) == 2
    assert said in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "status", "shown"),
    [
        ("do_int3", 1, ["do_int3 no ffffffff8103e380 - bool do_int3(struct pt_regs *regs)", SAYS]),
        ("schedule", 0, ["schedule yes ffffffff81cc3500 - void schedule(void)"]),
    ],
)
def test_a_name_is_put_to_the_kernel_where_the_blacklist_cannot_be_read(
    name: str, status: int, shown: list[str], capfd: Any
) -> None:
    tracefs = Without(SimulatedKernel("6.12").tracefs, "blacklist")
    found, lines, said = functions(tracefs, capfd, name)
    assert (found, lines) == (status, shown)
    assert said == "NOTE: can't read kprobes/blacklist of debugfs: its contents are unknown\n"
    assert tracefs.read("kprobe_events") == b""
