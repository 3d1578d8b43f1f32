"""One line of kprobe_events: what it says, and where it is at fault."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kprobe_sim.builds.gates import Gates, gates_for
from kprobe_sim.builds.messages import answer
from kprobe_sim.language.primitives.kstrto import kstrtol, kstrtouint, kstrtoul, simple_strtoul, tokens
from kprobe_sim.language.primitives.refusal import Declined, Refusal
from kprobe_sim.probes.command import Creation, Deletion, read_creation, read_deletion
from kprobe_sim.probes.probe_point import ProbeLocation, ProbePoints

GATES = gates_for((6, 1, 190))


def read(symbols: Any, line: str, gates: Gates = GATES) -> Creation:
    return read_creation(tokens(line), ProbePoints(symbols, gates), lambda address: f"0x{address:016x}", gates)


def test_a_probe(symbols: Any) -> None:
    creation = read(symbols, "p:grp/ev do_sys_openat2+0x10 a=%di")
    assert (creation.is_return, creation.maxactive, creation.group, creation.event) == (False, 0, "grp", "ev")
    assert creation.point == ProbeLocation("do_sys_openat2", 16, 0)
    assert [argument.name for argument in creation.arguments] == ["a"]


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("p do_sys_openat2", "p_do_sys_openat2_0"),
        ("r do_sys_openat2+0x0", "r_do_sys_openat2_0"),
        ("p do_sys_openat2%return", "r_do_sys_openat2_0"),
        ("p:g/ do_sys_openat2+5", "p_do_sys_openat2_5"),
        ("p nosuchmod:fn.part.3+4", "p_nosuchmod_fn_part_3_4"),
        ("p 0x1000", "p_0x0000000000001000"),
        ("p nosuchmod:" + "f" * 70, "p_nosuchmod_" + "f" * 51),
    ],
)
def test_default_names(line: str, event: str, symbols: Any) -> None:
    assert read(symbols, line).event == event


@pytest.mark.parametrize(
    ("head", "is_return", "maxactive"),
    [
        ("r16:x", True, 16),
        ("r0x10:x", True, 16),
        ("r010", True, 8),
        ("rx:x", True, 0),
        ("r-1:x", True, 0),
        ("px:x", False, 0),
    ],
)
def test_heads(head: str, is_return: bool, maxactive: int, symbols: Any) -> None:
    creation = read(symbols, f"{head} do_sys_openat2")
    assert (creation.is_return, creation.maxactive) == (is_return, maxactive)


@pytest.mark.parametrize(
    "line", ["p", "r", "p:foo", "q do_sys_openat2", "P do_sys_openat2", "p a:b/c", "p /bin/sh:0x100"]
)
def test_lines_that_are_no_kprobe(line: str, symbols: Any) -> None:
    with pytest.raises(Declined):
        read(symbols, line)


@pytest.mark.parametrize(
    ("line", "message", "token", "offset", "number"),
    [
        ("p1:x do_sys_openat2", "MAXACT_NO_KPROBE", 0, 1, errno.EINVAL),
        ("r0 do_sys_openat2", "BAD_MAXACT", 0, 1, errno.EINVAL),
        ("r4097 do_sys_openat2", "MAXACT_TOO_BIG", 0, 1, errno.EINVAL),
        ("r" + "0" * 63 + "1 do_sys_openat2", "BAD_MAXACT", 0, 1, errno.EINVAL),
        ("p do_sys_openat2%ret", "BAD_ADDR_SUFFIX", 1, 14, errno.EINVAL),
        ("p do_sys_openat2+4294967296", "BAD_PROBE_ADDR", 1, 0, errno.EINVAL),
        ("p nosuch", "BAD_PROBE_ADDR_SYMBOL", 1, 0, errno.ENOENT),
        ("p t_show", "NON_UNIQ_SYMBOL", 1, 0, errno.EADDRNOTAVAIL),
        ("r t_show+4", "BAD_RETPROBE", 1, 0, errno.EINVAL),  # looked at before uniqueness
        ("p:g/ nosuch %zz", "BAD_PROBE_ADDR_SYMBOL", 1, 0, errno.ENOENT),
        ("p:1 do_sys_openat2 %zz", "BAD_EVENT_NAME", 0, 2, errno.EINVAL),
        ("p:abc/ab-c do_sys_openat2", "BAD_EVENT_NAME", 0, 6, errno.EINVAL),
        ("p:x do_sys_openat2 a=%di a=%si", "USED_ARG_NAME", 3, 0, errno.EINVAL),
        ("p:x do_sys_openat2+5 $arg1", "BAD_VAR", 2, 0, errno.EINVAL),
        ("r:x 0xffffffff813485a0 $retval", "RETVAL_ON_PROBE", 2, 0, errno.EINVAL),  # an address never is a return
    ],
)
def test_refusals(line: str, message: str, token: int, offset: int, number: int, symbols: Any) -> None:
    with pytest.raises(Refusal) as refused:
        read(symbols, line)
    refusal = refused.value
    assert (refusal.message, refusal.token, refusal.offset) == (message, token, offset)
    assert answer(message, GATES, refusal.errno)[0] == number


def test_the_129th_argument_is_dropped(symbols: Any) -> None:
    line = "p:x do_sys_openat2 " + " ".join(["%di:u8"] * 129)
    assert len(read(symbols, line).arguments) == 128


@pytest.mark.parametrize(
    ("line", "deletion"),
    [
        ("-:ev", Deletion(None, "ev", ())),
        ("-:g/ev sym a=%di", Deletion("g", "ev", ("sym", "a=%di"))),
        ("-:g/", Deletion("g", "", ())),
        ("-:/ev", Deletion("", "ev", ())),
        ("!p:g/ev", Deletion("g", "ev", ())),
    ],
)
def test_deletes(line: str, deletion: Deletion) -> None:
    assert read_deletion(tokens(line), GATES) == deletion


@pytest.mark.parametrize("line", ["-", "-:", "-p:a", "!p", "!p:"])
def test_bad_deletes(line: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_deletion(tokens(line), GATES)
    assert answer(refused.value.message, GATES) == (errno.EINVAL, None)


def test_older_kernels_know_no_group_delete() -> None:
    with pytest.raises(Refusal):
        read_deletion(["-:g/"], gates_for((5, 10, 262)))


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("010", 8), ("0x10", 16), ("0X1f", 31), ("+5", 5), ("18446744073709551615", 2**64 - 1), ("5\n", 5)],
)
def test_unsigned_numbers(text: str, value: int) -> None:
    assert kstrtoul(text) == value


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", errno.EINVAL),
        ("+", errno.EINVAL),
        ("-1", errno.EINVAL),
        ("++1", errno.EINVAL),
        ("08", errno.EINVAL),
        ("0x", errno.EINVAL),
        ("5 ", errno.EINVAL),
        ("5\n\n", errno.EINVAL),
        ("18446744073709551616", errno.ERANGE),
        ("99999999999999999999x", errno.ERANGE),
        ("\u0665", errno.EINVAL),
    ],
)
def test_bad_unsigned_numbers(text: str, number: int) -> None:
    with pytest.raises(OSError) as refused:
        kstrtoul(text)
    assert refused.value.errno == number


def test_signed_and_narrow_numbers() -> None:
    assert kstrtol("-9223372036854775808") == -(2**63)
    assert kstrtol("-0x10") == -16
    assert kstrtouint("4294967295") == 2**32 - 1
    for function, text in [
        (kstrtol, "9223372036854775808"),
        (kstrtol, "-9223372036854775809"),
        (kstrtouint, "4294967296"),
    ]:
        with pytest.raises(OSError) as refused:
            function(text)
        assert refused.value.errno == errno.ERANGE


def test_numbers_within_text() -> None:
    assert simple_strtoul("b12@", 1) == (12, 3)
    assert simple_strtoul("b0x1f@", 1) == (31, 5)
    assert simple_strtoul("b@", 1) == (0, 1)
    assert simple_strtoul("08", 0) == (0, 1)
