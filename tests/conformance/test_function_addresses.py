"""available_filter_functions_addrs: the functions that ftrace can stop in, by address."""

from __future__ import annotations

import os
from errno import EILSEQ
from typing import Any

from .builds import BTF
from .text import define, refused

PATH = "available_filter_functions_addrs"


def test_addresses_of_functions(tracefs: Any, choose: Any) -> None:
    """The same functions, each with the address where ftrace stops in it."""
    if not choose({"": False, BTF: True}):
        assert not tracefs.exists(PATH)
        return
    lines = [line.split(" ", 1) for line in tracefs.read(PATH).decode().splitlines()]
    assert [name for _, name in lines] == tracefs.read("available_filter_functions").decode().splitlines()
    assert all(len(address) == 16 and address.startswith("ffffffff") for address, _ in lines)
    addresses = {name: int(address, 16) for address, name in lines}
    define(tracefs, f"p:a {addresses['vfs_read']:#x}")
    assert refused(tracefs, "kprobe_events", f"p:b {addresses['vfs_read'] + 1:#x}") == EILSEQ
    with tracefs.open(PATH, os.O_RDONLY) as file:
        assert file.lseek(17) == 17
        assert file.read(len(lines[0][1]) + 1) == lines[0][1].encode() + b"\n"
