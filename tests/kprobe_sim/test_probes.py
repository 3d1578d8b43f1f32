"""The registry over several writes: order, failure in the middle, siblings, deletes, busy events, limits of a line."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

KEEP = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def refused(registry: Any, data: str | bytes, *, dynamic_events: bool = False) -> str:
    """Write what must fail; return the errno's name."""
    with pytest.raises(OSError) as caught:
        registry.write(data.encode() if isinstance(data, str) else data, dynamic_events=dynamic_events)
    return errno.errorcode[caught.value.errno or 0]


def last_log(registry: Any) -> tuple[str, int]:
    """Return the newest entry's text and the caret's column."""
    lines = registry.log.text().decode().splitlines()
    return lines[-3].partition("error: ")[2], len(lines[-1]) - 12


# ----------------------------------------------------- lines of one write (fixtures/definitions/sequences.json)


def test_a_failing_line_keeps_the_earlier_and_stops_the_later(registry: Any) -> None:
    assert refused(registry, "p:a do_sys_openat2\np:b nosuch\np:c do_sys_openat2\n") == "ENOENT"
    assert registry.lines() == ["p:kprobes/a do_sys_openat2"]
    assert last_log(registry) == ("Invalid probed address or symbol", 4)


def test_comments_blank_lines_and_odd_blanks(registry: Any) -> None:
    assert registry.write(b"# hello\np:a do_sys_openat2 # x\n\n#\np:b do_sys_openat2") == 52
    assert registry.write(b"p:c\x0bdo_sys_openat2\x0c%di\n") == 23
    assert registry.write(b"p:d do_sys_openat2\r\n") == 20
    assert registry.lines() == [
        "p:kprobes/a do_sys_openat2",
        "p:kprobes/b do_sys_openat2",
        "p:kprobes/c do_sys_openat2 arg1=%di",
        "p:kprobes/d do_sys_openat2",
    ]


def padded(size: int) -> bytes:
    return b"p:a do_sys_openat2 x=%di".ljust(size)


@pytest.mark.parametrize(
    ("data", "result"),
    [
        (padded(4094), 4094),
        (padded(4095), 4095),
        (padded(4096), "EINVAL"),
        (padded(4094) + b"\n", 4095),
        (padded(4095) + b"\n", "EINVAL"),
        (b"\n" * 9000, 9000),
        (b"#" + b"x" * 4095, "EINVAL"),
        (b"p:b do_sys_openat2\n" + padded(4095), 4114),
    ],
)
def test_a_line_ends_within_4095_bytes(data: bytes, result: int | str, registry: Any) -> None:
    if isinstance(result, str):
        assert refused(registry, data) == result
        assert len(registry.log) == 0
    else:
        assert registry.write(data) == result


def test_many_lines_in_one_write(registry: Any) -> None:
    data = "".join(f"p:e{number} do_sys_openat2\n" for number in range(300)).encode()
    assert registry.write(data) == len(data) == 6490
    assert len(registry.lines()) == 300


@pytest.mark.parametrize("data", [b"p:z do_sys_openat2\0junk", b"p:z do_sys_openat2\0", b"\0"])
def test_a_nul_ends_a_line_that_then_is_not_the_last(data: bytes, registry: Any) -> None:
    assert refused(registry, data) == "EINVAL"
    assert registry.lines() == []


def test_a_nul_keeps_earlier_lines(registry: Any) -> None:
    assert refused(registry, b"p:a do_sys_openat2\np:z do_sys_openat2\0") == "EINVAL"
    assert registry.lines() == ["p:kprobes/a do_sys_openat2"]


# ------------------------------------------------------------------------------------------------ siblings and deletes


def test_an_event_takes_probes_of_the_same_arguments(registry: Any) -> None:
    registry.write(b"p:a do_sys_openat2 %di\n")
    assert refused(registry, "p:a do_sys_openat2 %di") == "EEXIST"
    assert last_log(registry) == ("There is already the exact same probe event", 0)
    registry.write(b"p:a do_sys_openat2 %si\n")
    for line, column in [
        ("p:a do_sys_openat2 arg1=%di:u8", 19),
        ("p:a do_sys_openat2 x=%di", 19),
        ("p:a do_sys_openat2 %di %si", 23),
        ("p:a do_sys_openat2", 19),
        ("p:a vfs_open %di:u64", 13),
    ]:
        assert refused(registry, line) == "EEXIST"
        assert last_log(registry) == ("Argument type or name is different from existing probe", column)
    assert refused(registry, "r:a do_sys_openat2 %di") == "EEXIST"
    assert last_log(registry) == ("Probe type is different from existing probe", 0)
    registry.write(b"p:a vfs_read %di\n")
    registry.write(b"p:a vfs_write %di:x64\n")  # no type is x64
    assert len(registry.events()) == 1
    assert registry.lines() == [
        "p:kprobes/a do_sys_openat2 arg1=%di",
        "p:kprobes/a do_sys_openat2 arg1=%si",
        "p:kprobes/a vfs_read arg1=%di",
        "p:kprobes/a vfs_write arg1=%di:x64",
    ]


def test_a_delete_may_name_place_and_leading_arguments(registry: Any) -> None:
    registry.write(b"p:a do_sys_openat2 %di\np:a do_sys_openat2 %si\np:a vfs_read %di\np:a vfs_write+5 %di")
    registry.write(b"-:a vfs_read")
    registry.write(b"-:a do_sys_openat2 arg1=%si")
    assert refused(registry, "-:a do_sys_openat2 %di") == "ENOENT"
    assert refused(registry, "-:a vfs_write") == "ENOENT"
    assert refused(registry, "-:a vfs_write+0x5") == "ENOENT"
    registry.write(b"-:a vfs_write+5")
    assert registry.lines() == ["p:kprobes/a do_sys_openat2 arg1=%di"]
    registry.write(b"-:kprobes/a")
    assert refused(registry, "-:a") == "ENOENT"
    assert registry.host.present == []


def test_deletes_by_name_group_and_both(registry: Any) -> None:
    data = b"p:g1/a do_sys_openat2\np:g1/b do_sys_openat2\np:g2/a do_sys_openat2\n"
    registry.write(data)
    registry.write(b"-:a")
    assert registry.lines() == ["p:g1/b do_sys_openat2"]
    registry.truncate()
    registry.write(data)
    registry.write(b"-:g1/")
    assert registry.lines() == ["p:g2/a do_sys_openat2"]
    assert refused(registry, "-:g2.a") == "ENOENT"
    registry.write(b"-:g2/a")
    assert registry.lines() == []


@pytest.mark.parametrize("line", ["-", "-:", "-p:a", "!p:a", "-a", " -:a"])
def test_forms_that_delete_nothing(line: str, registry: Any) -> None:
    registry.write(b"p:a do_sys_openat2")
    assert refused(registry, line) == "EINVAL"
    assert registry.lines() == ["p:kprobes/a do_sys_openat2"]
    assert len(registry.log) == 0


def test_dynamic_events_deletes_with_a_bang_too(registry: Any) -> None:
    assert registry.write(b"p:a do_sys_openat2", dynamic_events=True) == 18
    assert refused(registry, "-p:kprobes/a", dynamic_events=True) == "EINVAL"
    assert registry.write(b"!p:kprobes/a", dynamic_events=True) == 12
    assert refused(registry, "-:kprobes/a", dynamic_events=True) == "ENOENT"
    assert refused(registry, "foo bar", dynamic_events=True) == "EINVAL"
    assert refused(registry, "q:foo do_sys_openat2", dynamic_events=True) == "EINVAL"
    assert registry.write(b"\n", dynamic_events=True) == 1


# ------------------------------------------------------------------------------------------------------- busy events


def test_a_busy_event_stays_and_keeps_all_from_being_truncated(registry: Any) -> None:
    registry.write(b"p:a do_sys_openat2\np:b do_sys_openat2\n")
    registry.host.busy.add(("kprobes", "a"))
    with pytest.raises(OSError) as caught:
        registry.truncate()
    assert caught.value.errno == errno.EBUSY
    assert len(registry.lines()) == 2
    assert refused(registry, "-:a") == "EBUSY"
    registry.write(b"-:b")
    registry.write(b"p:a vfs_read")  # a sibling comes and goes while the event is in use
    assert registry.lines() == ["p:kprobes/a do_sys_openat2", "p:kprobes/a vfs_read"]
    registry.write(b"p:c do_sys_openat2")
    registry.write(b"-:a vfs_read")
    assert registry.lines() == ["p:kprobes/a do_sys_openat2", "p:kprobes/c do_sys_openat2"]
    assert len(registry.log) == 0


def test_a_busy_event_ends_a_list_of_deletes(registry: Any) -> None:
    registry.write(b"p:a do_sys_openat2\np:b do_sys_openat2\np:c do_sys_openat2\n")
    registry.host.busy.add(("kprobes", "b"))
    assert refused(registry, "-:a\n-:b\n-:c\n") == "EBUSY"
    assert registry.lines() == ["p:kprobes/b do_sys_openat2", "p:kprobes/c do_sys_openat2"]


def test_names_of_static_events_are_taken(registry: Any) -> None:
    for name in ("sched/sched_switch", "ftrace/print", "syscalls/sys_enter_openat"):
        assert refused(registry, f"p:{name} do_sys_openat2") == "EEXIST"
        assert last_log(registry) == ("Given group/event name is already used by another event", 0)
    assert registry.write(b"p:sched/foo do_sys_openat2") == 26


# ------------------------------------------------------------------------------------------------- places and profile


def test_a_probe_of_an_unloaded_module_waits(registry: Any) -> None:
    registry.write(b"r:m nosuchmod:foo+4 a=%ax")
    assert registry.lines() == ["r:kprobes/m nosuchmod:foo+4 a=%ax"]
    assert next(iter(registry)).address is None


@pytest.mark.parametrize(
    ("address", "number", "logged"),
    [
        ("0xffffffffffffffef", "EEXIST", 0),
        ("0xfffffffffffffff4", "ENOMEM", 0),
        ("0xfffffffffffffff0", "EBUSY", 1),
    ],
)
def test_some_failures_of_registration_are_not_logged(
    address: str, number: str, logged: int, registry_of: Callable[[str, int], Any]
) -> None:
    """From source (trace_kprobe.c 5.10: __trace_kprobe_create); 5.10 takes these addresses for error pointers."""
    registry = registry_of("5.10", 2)
    assert refused(registry, f"p:x {address}") == number
    assert len(registry.log) == logged


def test_probes_know_their_address(registry: Any, symbols: Any) -> None:
    registry.write(b"p:a vfs_read\np:a vfs_read+5")
    address = symbols.lookup("vfs_read")[0].address
    assert [probe.address for probe in registry] == [address, address + 5]


def test_an_address_is_hashed_in_name_and_place_and_deleted_by_that(registry: Any) -> None:
    registry.write(b"p 4096")
    hashed = registry.kprobes._pointer(4096)
    assert registry.lines() == [f"p:kprobes/p_{hashed} {hashed}"]
    assert refused(registry, f"-:p_{hashed} 4096") == "ENOENT"
    registry.write(f"-:p_{hashed} {hashed}".encode())
    assert registry.lines() == []


def test_two_addresses_with_the_same_arguments_look_the_same(registry: Any) -> None:
    """From source (trace_kprobe_has_same_kprobe, 6.1): without symbol only the name "unknown" is compared."""
    registry.write(b"p:a 4096")
    assert refused(registry, "p:a 8192") == "EEXIST"
    assert last_log(registry) == ("There is already the exact same probe event", 0)


def test_the_profile_counts_hits_and_misses(registry: Any) -> None:
    registry.write(b"p:a do_sys_openat2\nr:b do_sys_openat2")
    first, second = registry
    first.hits, second.misses = 16, 3
    assert b"".join(registry.kprobes.profile) == (
        b"  a                                                         16               0\n"
        b"  b                                                          0               3\n"
    )


# ----------------------------------------------------------------------------------------------------- any input at all

KERNEL_ERRNOS = {
    errno.EINVAL,
    errno.ENOENT,
    errno.EEXIST,
    errno.EILSEQ,
    errno.EBUSY,
    errno.E2BIG,
    errno.ERANGE,
    errno.EADDRNOTAVAIL,
    errno.EOPNOTSUPP,
}
PIECES = st.sampled_from(
    [
        *("p", "r", "-", "!", ":", "/", ".", " ", "\n", "#", "\0", "\t", "+", "5", "0x", "=", "a", "\\", '"'),
        *("do_sys_openat2", "vfs_read", "jiffies", "%di", "%return", "$arg1", "$retval", "$comm", "$stack"),
        *("@", "(", ")", "[", "]", "u8", "string", "b4@0/32", "+0(", "+u8(", "\xa0", "\xe9", "kprobes"),
        "99999999999999999999",
    ]
)


def consistent(registry: Any) -> None:
    """What hangs together stays together, whatever was written; dynamic_events takes events of other kinds, too."""
    events = registry.events()
    assert {id(probe.event) for probe in registry} <= set(map(id, events))
    assert registry.host.present == events
    assert all(registry.event(event.system, event.name) is event for event in events)
    assert len(registry.lines()) == len(events)


@given(
    st.lists(st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=14).map("".join)), max_size=4), st.booleans()
)
@example([b"s:abc u64 x", b"e:k sched/sched_switch", b"p:e vfs_read"], True)
@KEEP
def test_any_bytes_are_taken_or_refused_as_the_kernel_might(
    registry: Any, writes: list[str | bytes], dynamic: bool
) -> None:
    for written in writes:
        data = written.encode("latin-1") if isinstance(written, str) else written
        number = 0
        try:
            assert registry.write(data, dynamic_events=dynamic) == len(data)
        except OSError as error:
            number = error.errno or -1
        assert number == 0 or number in KERNEL_ERRNOS
        consistent(registry)
    assert len(registry.log) <= 8
    registry.truncate()
    assert registry.lines() == []
    consistent(registry)


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
NUMBERS = st.sampled_from(["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "x8", "x16", "x32", "x64", "symbol"])
BASES = st.sampled_from(["%di", "%si", "%orig_ax", "$stack", "$stack3", "$arg2", "\\5", "\\-1", "@jiffies", "@0x1000"])
OFFSETS = st.sampled_from(["+0", "-8", "+0x10", "+u0", "-u010", "+16"])


@st.composite
def expressions(draw: st.DrawFn) -> str:
    text = draw(BASES)
    depth = draw(st.integers(0, 3))
    for _ in range(depth):
        text = f"{draw(OFFSETS)}({text})"
    is_kernel_memory = text.startswith("@") or (depth > 0 and text[1] != "u")
    kinds = [st.just(""), NUMBERS.map(":{}".format), st.just(":b3@4/16")]
    if depth or text.startswith("@"):
        kinds.append(st.sampled_from([":string", ":ustring"]))
    if is_kernel_memory:
        kinds.append(st.sampled_from([":u8[4]", ":string[2]", ":symbol[1]"]))
    return text + draw(st.one_of(kinds))


@st.composite
def definitions(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a definition and the line that lists it."""
    is_return = draw(st.booleans())
    maxactive = draw(st.sampled_from(["", "5", "0x10"])) if is_return else ""
    group, event = draw(NAMES.filter(lambda name: name != "kprobes")), draw(NAMES)
    place = draw(
        st.sampled_from(["do_sys_openat2", "vfs_read+0", "vfs_write+0x0"] if is_return else ["vfs_read", "vfs_open"])
    )
    words, listed = [], []
    for number in range(draw(st.integers(0, 5))):
        expression = draw(expressions())
        if is_return:
            expression = expression.replace("$arg2", "$retval")
        name = f"n{number}" if draw(st.booleans()) else ""
        words.append(f"{name}={expression}" if name else expression)
        listed.append(f"{name or f'arg{number + 1}'}={expression}")
    blank = draw(st.sampled_from([" ", "  ", "\t"]))
    head = f"{'r' if is_return else 'p'}{maxactive}:{group}/{event}"
    shown = f"r{ {'': 10, '5': 5, '0x10': 16}[maxactive] }" if is_return else "p"
    symbol = place.partition("+")[0]
    return blank.join([head, place, *words]), " ".join([f"{shown}:{group}/{event}", symbol, *listed])


@pytest.mark.slow
@given(definitions())
@KEEP
def test_good_definitions_are_listed_in_normal_form_and_can_be_read_back(
    registry: Any, definition: tuple[str, str]
) -> None:
    written, listed = definition
    registry.truncate()
    registry.write(f"{written}\n".encode())
    assert registry.lines() == [listed]
    text = registry.listing()
    registry.truncate()
    registry.write(text)
    assert registry.listing() == text
    event = registry.events()[0]
    fields = event.fields
    assert [field.offset for field in fields[1:]] == [field.offset + field.size for field in fields[:-1]]
