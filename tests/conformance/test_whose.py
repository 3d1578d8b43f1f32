"""What the machine has once: its memory, and the instance that trace_printk() writes to."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from .text import refused

DESTINATION = "options/trace_printk_dest"
OTHER = "instances/conformance_printk"


@pytest.mark.parametrize("size", [b"1048576000", b"4294967296", b"99999999999"])
def test_a_buffer_larger_than_the_memory(tracefs: Any, size: bytes) -> None:
    tracefs.write("buffer_size_kb", b"12")
    assert refused(tracefs, "buffer_size_kb", size) == errno.ENOMEM
    assert tracefs.read("buffer_size_kb") == b"15\n"
    assert refused(tracefs, "per_cpu/cpu0/buffer_size_kb", size) == errno.ENOMEM
    assert tracefs.read("buffer_size_kb") == b"15\n"


def printk(tracefs: Any) -> list[bytes]:
    return [tracefs.read(DESTINATION), tracefs.read(f"{OTHER}/{DESTINATION}")]


def test_the_destination_of_trace_printk(tracefs: Any) -> None:
    tracefs.mkdir(OTHER)
    try:
        if not tracefs.exists(DESTINATION):  # before 6.10 it is the top one always
            assert b"printk_dest" not in tracefs.read("trace_options")
            return
        assert printk(tracefs) == [b"1\n", b"0\n"]
        assert refused(tracefs, DESTINATION, b"0") == errno.EINVAL
        assert refused(tracefs, "trace_options", b"notrace_printk_dest") == errno.EINVAL
        tracefs.write(f"{OTHER}/{DESTINATION}", b"1")
        assert printk(tracefs) == [b"0\n", b"1\n"]
        assert b"\nnotrace_printk_dest\n" in tracefs.read("trace_options")
        tracefs.write(f"{OTHER}/{DESTINATION}", b"0")
        assert printk(tracefs) == [b"1\n", b"0\n"]
        tracefs.write(f"{OTHER}/trace_options", b"trace_printk_dest")
    finally:
        tracefs.rmdir(OTHER)
    assert tracefs.read(DESTINATION) == b"1\n"
