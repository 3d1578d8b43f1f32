"""Synthetic events before 5.10: read word by word, and hardly checked, as a guest of 5.4.273 answered."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.events.hist.jhash import jhash

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "fixtures/early/5.4/21_synthetic.jsonl").read_text("ascii").splitlines()
]


def test_there_are_as_many_rows_as_were_asked() -> None:
    assert (len(ROWS), sum(row["errno"] is None for row in ROWS)) == (30, 20)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["input"][:40])
def test_a_definition(row: dict[str, Any]) -> None:
    tracefs = SimulatedKernel("5.4").tracefs
    number = None
    try:
        tracefs.write("synthetic_events", row["input"].encode())
    except OSError as error:
        number = errno.errorcode[error.errno or 0]
    listing = tracefs.read("synthetic_events").decode()
    assert (number, listing) == (row["errno"], row["listing"])
    assert tracefs.read("error_log") == b""  # nothing is said of them there
    if listing:
        name = listing.partition("\t")[0]
        assert tracefs.read(f"events/synthetic/{name}/format").decode().partition("\n\n")[2] == row["format"]


@pytest.mark.parametrize(("key", "number"), [(b"", 0xDEADBEEF), (b"Four score and seven years ago", 0x17770551)])
def test_the_hash_of_a_key(key: bytes, number: int) -> None:
    """The numbers are those that lookup3.c gives for itself."""
    assert jhash(key) == number


def test_entries_that_sort_equal_come_as_their_keys_are_hashed() -> None:
    """The recorded answer to the question of `sort_takes_two`."""
    kernel = SimulatedKernel("5.4")
    kernel.tracefs.write("kprobe_events", b"p:g/a do_sys_open a=%di")
    kernel.tracefs.write("events/g/a/trigger", b"hist:keys=a")
    for number in (97, 98, 99, 100):
        kernel.call("do_sys_open", args=(number, "x"))
    found = re.findall(rb"a: +(\d+) \}", kernel.tracefs.read("events/g/a/hist"))
    assert found == [b"97", b"100", b"98", b"99"]


def test_the_log_has_a_histogram_without_its_first_word() -> None:
    kernel = SimulatedKernel("5.4")
    kernel.tracefs.write("kprobe_events", b"p:g/a do_sys_open a=%di")
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.tracefs.write("events/g/a/trigger", b"hist:keys=a:vals=b")
    head, command, caret, _ = kernel.tracefs.read("error_log").decode().split("\n")
    assert head.endswith("] hist:g:a: error: Couldn't find field")
    assert (command, caret) == ("  Command: keys=a:vals=b", f"{'':23}^")


def test_4_19_knows_fewer_types_and_lists_the_newest_first() -> None:
    """As a guest of 4.19.108 answered."""
    tracefs = SimulatedKernel("4.19").tracefs
    for line in (
        b"q2 char c[16]; u64 b\n",
        b"q7 char c[16];; u64 b\n",
        b"e9 int f\n",
        b"m-4 u64 a\n",
        b"s:m7 u64 a\n",
        b"n8 ;\n",
        b"n1 char c[16]\n",
    ):
        tracefs.write("synthetic_events", line)
    for line in (b"e13 gfp_t f\n", b"e11 bool f\n"):
        with pytest.raises(OSError, match="synthetic_events") as refusal:
            tracefs.write("synthetic_events", line)
        assert refusal.value.errno == errno.EINVAL
    assert tracefs.read("synthetic_events") == (
        b"n1\tchar[16] c\nn8\t\ns:m7\tu64 a\nm-4\tu64 a\ne9\tint f\nq7\tchar[16]; c; u64 b\nq2\tchar[16] c; u64 b\n"
    )
