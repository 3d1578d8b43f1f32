"""`kprobe functions` everywhere: on a guest by its BTF, its kallsyms and its blacklist, on the simulator by its own."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe.cli import main

VFS_READ = "ssize_t vfs_read(struct file *file, char *buf, size_t count, loff_t *pos)"


def functions(tracefs: Any, capfd: Any, *words: str, status: int = 0) -> list[str]:
    capfd.readouterr()
    assert main(["functions", *words], tracefs=tracefs) == status
    out, err = capfd.readouterr()
    assert err == ""
    return [" ".join(line.split()) for line in out.splitlines()]


def address(tracefs: Any, name: str) -> str:
    lines = [line.split() for line in tracefs.kallsyms().decode().splitlines()]
    return str(next(line[0] for line in lines if line[2] == name))


@pytest.mark.slow
def test_a_function_and_where_its_parameters_are(tracefs: Any, capfd: Any) -> None:
    assert functions(tracefs, capfd, "vfs_read", "-v") == [
        "FUNCTION PROBE ADDRESS MODULE PROTOTYPE",
        f"vfs_read yes {address(tracefs, 'vfs_read')} - {VFS_READ}",
        "$arg1 %di struct file *file",
        "$arg2 %si char *buf",
        "$arg3 %dx size_t count",
        "$arg4 %cx loff_t *pos",
        "$retval %ax ssize_t",
    ]
    assert tracefs.read("kprobe_events") == b""


def test_a_pattern_gives_functions_by_name(tracefs: Any, capfd: Any) -> None:
    listed = tracefs.read("available_filter_functions").decode().split()
    shown = [line.split()[:2] for line in functions(tracefs, capfd, "vfs_re*") if line.startswith("vfs_")]
    assert shown == [[name, "yes"] for name in sorted({name for name in listed if name.startswith("vfs_re")})]
    assert ["vfs_read", "yes"] in shown


@pytest.mark.slow
def test_why_not(tracefs: Any, capfd: Any) -> None:
    lines = functions(tracefs, capfd, "do_int3", "vfs_reab", status=1)
    assert lines[1].startswith(f"do_int3 no {address(tracefs, 'do_int3')} - bool do_int3(struct pt_regs *regs)")
    assert lines[2] == "blacklisted: kprobes/blacklist has it, as a probe there could hang the kernel"
    assert lines[3] == "vfs_reab no - - -"
    assert lines[4].startswith("there is no such function: inlined, renamed, or not in this kernel. Near: vfs_read")
    assert len(lines) == 5


@pytest.mark.slow
def test_a_name_of_several_functions_is_put_to_the_kernel(tracefs: Any, capfd: Any) -> None:
    count = sum(line.split()[1:3] == ["t", "name_show"] for line in tracefs.kallsyms().decode().splitlines())
    _, line, why = functions(tracefs, capfd, "name_show", status=1)
    assert count > 1
    assert line.startswith("name_show no ")
    assert why == f"{count} functions have this name; the kernel says: The symbol is not unique"
    assert tracefs.read("kprobe_events") == b""
