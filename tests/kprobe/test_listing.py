"""Whose a line of kprobe_events is, and how exactly that one is removed; the lines are those of real kernels."""

from __future__ import annotations

import pytest

from kprobe import parse
from kprobe.kernel.listing import delete, find, guess, read_lines

LONG = "aaaaaaaaaabbbbbbbbbbcccccccccc12=+0(+0(+0(+0(+0(+0(+0(+0(%di)))))))):u64"


@pytest.mark.parametrize(
    ("definition", "line"),
    [
        ("p:x do_sys_openat2", "p:kprobes/x do_sys_openat2"),
        ("r:g/x do_sys_openat2 $retval", "r10:g/x do_sys_openat2 arg1=$retval"),
        ("r:x do_sys_openat2%return", "r10:kprobes/x do_sys_openat2"),
        ("p:x vfs_read+0x5 a=%di:u8", "p:kprobes/x vfs_read+5 a=%di:u8"),
        ("p:x vfs_read $arg1", "p:kprobes/x vfs_read file=file"),  # 6.12, by BTF
        ("p:x vfs_read $arg*", "p:kprobes/x vfs_read file=file buf=buf count=count pos=pos"),
        ("p:x vfs_read file:%pd", "p:kprobes/x vfs_read arg1=+0x0(+0x28(file)):string"),
        ("p:x ext4:ext4_open", "p:kprobes/x ext4:ext4_open"),
        ("p:x 0xffffffff813485a3", "p:kprobes/x 0x00000000ccd5942f"),
        ("p:x vfs_read", "p:kprobes/x vfs_read+0"),  # 2.6.31
    ],
)
def test_ours(definition: str, line: str) -> None:
    lines = read_lines(f"{line}\n".encode())
    assert find(lines, parse(definition)) == lines


@pytest.mark.parametrize(
    ("definition", "line"),
    [
        ("p:x do_sys_openat2", "p:kprobes/x vfs_read"),
        ("p:x do_sys_openat2", "p:kprobes/x do_sys_openat2+4"),
        ("p:x do_sys_openat2", "p:kprobes/x do_sys_openat2 a=%di"),
        ("p:x vfs_read", "p:kprobes/x fuse:vfs_read"),
        ("p:x vfs_read a=%di", "p:kprobes/x vfs_read b=%di"),
        ("p:x 0xffffffff813485a3", "p:kprobes/x vfs_read"),
    ],
)
def test_somebody_elses(definition: str, line: str) -> None:
    assert find(read_lines(f"{line}\n".encode()), parse(definition)) == []


def test_two_at_one_place_are_told_by_what_they_fetch() -> None:
    lines = read_lines(b"p:kprobes/x vfs_read arg1=%si\np:kprobes/x vfs_read arg1=%di\n")
    assert find(lines, parse("p:x vfs_read %di")) == [lines[1]]


def test_what_can_not_be_told_is_not_guessed() -> None:
    lines = read_lines(b"p:kprobes/x 0x00000000ccd5942f\np:kprobes/x 0x000000001cd59420\n")
    assert find(lines, parse("p:x 0xffffffff813485a3")) == lines


def test_a_delete_names_all_that_the_kernel_shows() -> None:
    (line,) = read_lines(b"r10:g/x vfs_read a=%di:u8 arg2=+0(%si):string\n")
    assert delete(line, [line]) == "-:g/x vfs_read a=%di:u8 arg2=+0(%si):string"


def test_a_delete_ends_before_what_is_too_long_to_be_compared() -> None:
    """5.10 refuses `-:kprobes/x vfs_read LONG` with ENOENT, and takes it without."""
    one, other, twin = read_lines(
        f"p:kprobes/x vfs_read a=%di {LONG}\np:kprobes/x vfs_write a=%di {LONG}\n"
        f"p:kprobes/x vfs_read a=%di {LONG.replace('%di', '%si')}\n".encode()
    )
    assert delete(one, [one, other]) == "-:kprobes/x vfs_read a=%di"
    assert delete(one, [one, other, twin]) is None  # it would remove both
    assert delete(one, []) is None


@pytest.mark.parametrize(
    ("definition", "command"),
    [
        ("p:x vfs_read", "-:kprobes/x vfs_read"),
        ("r:g/x vfs_read+0x0 a=$retval %ax b=%ax", "-:g/x vfs_read a=$retval"),
        ("p:x vfs_read+0x5%return", "-:kprobes/x vfs_read+5"),
        ("p:x 0xffffffff813485a3", None),
    ],
)
def test_a_delete_by_the_definition_alone(definition: str, command: str | None) -> None:
    assert guess(parse(definition)) == command
