"""Which function was meant, and what speaks against a place."""

from __future__ import annotations

import errno
from typing import Any

from kprobe.definitions.definition import Place
from kprobe.kernel.symbols import doubt, functions, successors, suggest

NAMES = frozenset(
    {
        "do_sys_open",
        "do_sys_openat2",
        "kernel_clone",
        "__x64_sys_openat",
        "ksys_read",
        "vfs_read",
        "vfs_readv",
        "vfs_write",
        "tcp_init_cwnd.isra.0",
        "bio_alloc_bioset",
        "ext4_file_open",
    }
)


def test_the_list_of_functions(scripted: Any) -> None:
    assert functions(scripted) == frozenset({"do_sys_openat2", "vfs_read", "ext4_open"})
    scripted.refuse["read available_filter_functions"] = errno.EACCES
    assert functions(scripted) is None


def test_successors() -> None:
    assert successors("do_sys_open") == ("do_sys_openat2",)
    assert successors("_do_fork") == ("kernel_clone",)
    assert successors("sys_openat") == ("__x64_sys_openat", "ksys_openat")
    assert successors("SyS_open") == ("__x64_sys_open", "ksys_open")
    assert successors("vfs_read") == ()


def test_suggestions() -> None:
    assert suggest("_do_fork", NAMES) == ["kernel_clone"]
    assert suggest("sys_openat", NAMES) == ["__x64_sys_openat", "do_sys_openat2"]
    assert suggest("tcp_init_cwnd", NAMES) == ["tcp_init_cwnd.isra.0"]
    assert suggest("bio_alloc", NAMES) == ["bio_alloc_bioset"]
    assert suggest("vfs_raed", NAMES)[0] == "vfs_read"
    assert suggest("zzz", NAMES) == []
    assert suggest("do_sys_open", None) == ["do_sys_openat2"]
    assert suggest("vfs_read.isra.0", NAMES)[0] == "vfs_read"
    assert suggest("tcp_init_cwnd.part.3", NAMES)[0] == "tcp_init_cwnd.isra.0"


def test_doubts() -> None:
    assert doubt(Place("vfs_read"), lambda: NAMES) == ""
    assert doubt(Place(address=0xFFFFFFFF81000000), lambda: None) == ""
    assert doubt(Place("vfs_raed"), lambda: NAMES) == (
        "vfs_raed is not in available_filter_functions: it doesn't exist, or can't be probed. Near: vfs_read, vfs_readv"
    )
    assert doubt(Place("zzz"), lambda: NAMES) == (
        "zzz is not in available_filter_functions: it doesn't exist, or can't be probed"
    )
    assert doubt(Place("do_sys_open"), lambda: NAMES) == (
        "this kernel also has do_sys_openat2, which took over from do_sys_open: that one may rarely fire"
    )
    assert doubt(Place("vfs_read"), lambda: None, {"vfs_read"}.__contains__) == ""
    for name in ("vfs_raed", "do_sys_open"):  # what is wrong takes the whole list to say
        assert doubt(Place(name), lambda: NAMES, NAMES.__contains__) == doubt(Place(name), lambda: NAMES) != ""
    assert doubt(Place("vfs_read"), lambda: None).startswith("can't read available_filter_functions")
