"""Files of the top level that sessions change, and events in groups of the user's: what markers keep of them.

No process has the pid 4194305, which is too high.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from kprobe import Tracer
from kprobe.cli import main
from kprobe.errors import Busy
from kprobe.kernel.listing import Line
from kprobe.undo import markers
from kprobe.undo.owners import Owner, this_process
from kprobe.undo.top_files import is_value
from kprobe_sim import SimulatedKernel

SERIES = ("4.4", "4.19", "5.10", "6.1", "6.12", "7.3")
FILES = {  # option of a session, its file, what it is before and in the session, another value
    "buffer_size": ("buffer_size_kb", "300", 100, 200),
    "cpus": ("tracing_cpumask", "f", [0], [1]),
    "stacktrace": ("options/stacktrace", "0", True, None),
}
ME = this_process()
DEAD = Owner(4194305, 7, ME.namespace)


class Killed(BaseException):
    """Ends a session where it stands."""


class Dying:
    """A tracefs whose caller dies after so many writes; nothing that is done later has an effect."""

    def __init__(self, tracefs: Any, writes: int) -> None:
        self._tracefs = tracefs
        self._left = writes

    def __getattr__(self, name: str) -> Any:
        deed: Callable[..., Any] = getattr(self._tracefs, name)
        if name not in ("write", "mkdir", "rmdir"):
            return deed

        def do(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise Killed
            return deed(*args, **options)

        return do


def new_kernel(series: str) -> Any:
    kernel = SimulatedKernel(series, cpus=4)
    kernel.tracefs.write("buffer_size_kb", b"300")
    return kernel.tracefs


def state(tracefs: Any) -> dict[str, str]:
    paths = ("buffer_size_kb", "tracing_cpumask", "options/stacktrace", "kprobe_events")
    found = {path: tracefs.read(path).decode().strip("\n\0") for path in paths}
    return found | {"instances": " ".join(tracefs.listdir("instances"))}


def trace(tracefs: Any, name: str, **options: Any) -> Any:
    return Tracer(tracefs).trace(f"p:{name} vfs_read", top_level=True, duration=0.0, **options)


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("option", FILES)
def test_first_in_first_out(series: str, option: str) -> None:
    tracefs = new_kernel(series)
    path, _, value, other = FILES[option]
    before = state(tracefs)
    first, second = (trace(tracefs, name, **{option: value}) for name in "ab")
    with ExitStack() as outer:
        with first:
            set_to = state(tracefs)[path]
            assert set_to != before[path]
            outer.enter_context(second)
            if other is not None:
                with pytest.raises(Busy) as caught, trace(tracefs, "c", **{option: other}):
                    pass
                assert f"process {ME.pid} (" in caught.value.hint
                assert caught.value.errno == errno.EBUSY
        assert state(tracefs)[path] == set_to
    assert state(tracefs) == before


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("writes", range(1, 12))
def test_a_session_that_dies_after_any_write(series: str, writes: int, capfd: Any) -> None:
    tracefs = new_kernel(series)
    before = state(tracefs)
    tracer = Tracer(Dying(tracefs, writes), owner=DEAD)
    one = tracer.trace(
        "p:mygroup/mine vfs_read", "p:own vfs_write", top_level=True, stacktrace=True, buffer_size=100, cpus=[0]
    )
    with pytest.raises((Killed, ValueError)), one:
        raise ValueError
    assert state(tracefs) != before
    main(["clean", "--dry-run"], tracefs=tracefs)
    told = capfd.readouterr().out
    assert main(["clean"], tracefs=tracefs) == 0
    done = capfd.readouterr().out
    assert told.replace("would remove ", "removed ").replace("would set ", "set ") == done
    assert state(tracefs) == before
    assert main(["clean"], tracefs=tracefs) == 0
    assert capfd.readouterr().out == ""


def dead(tracefs: Any, *definitions: str, **options: Any) -> None:
    """Leave what a session leaves that is killed before its undo."""
    one = Tracer(tracefs, owner=DEAD).trace(*definitions, duration=0.0, **options)
    one.__enter__()


def test_what_somebody_changed_since_stays(capfd: Any) -> None:
    tracefs = new_kernel("6.12")
    dead(tracefs, "p:mine vfs_read", top_level=True, buffer_size=100)
    tracefs.write("buffer_size_kb", b"500")
    assert main(["clean"], tracefs=tracefs) == 0
    assert capfd.readouterr().out.splitlines()[0] == (
        "kept buffer_size_kb: it is 502, and buffer_size_kb: was 302, set to 100 by process 4194305, which is gone"
    )
    assert state(tracefs)["buffer_size_kb"] == "502"
    assert state(tracefs)["kprobe_events"] == ""


CHANGES = {("buffer_size", 100): "500", ("cpus", (0,)): "2"}  # a session's option; what another writes meanwhile


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize(("option", "value"), CHANGES)
def test_what_somebody_changes_meanwhile_stays(series: str, option: str, value: Any) -> None:
    tracefs = new_kernel(series)
    path = FILES[option][0]
    before = state(tracefs)
    with trace(tracefs, "mine", **{option: value}) as one:
        held = state(tracefs)[path]
        assert held != before[path]
        tracefs.write(path, CHANGES[option, value].encode())
        theirs = state(tracefs)[path]
    assert state(tracefs) == before | {path: theirs}
    written = {"buffer_size": "100", "cpus": "1"}[option]
    assert one.notices[-1] == (
        f"{path} stays {theirs}: somebody changed it while this trace had it at {written}; before that it was "
        f"{before[path]}"
    )


def test_a_value_that_reads_otherwise_than_any_known_kernel_shows_it_is_put_back() -> None:
    """What counts is what the file had right after our write."""
    tracefs = new_kernel("6.12")
    before = state(tracefs)
    odd = Odd(tracefs)
    one = Tracer(odd).trace("p:mine vfs_read", top_level=True, duration=0.0, buffer_size=100)
    with one:
        assert not is_value(tracefs, "buffer_size_kb", "100", odd.read("buffer_size_kb").decode().strip())
    assert state(tracefs) == before
    assert not any("somebody" in notice for notice in one.notices)


class Odd:
    """A tracefs that shows the buffer's size a KiB larger than it is, but for 302."""

    def __init__(self, tracefs: Any) -> None:
        self._tracefs = tracefs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def read(self, path: str) -> bytes:
        data: bytes = self._tracefs.read(path)
        return data if path != "buffer_size_kb" or data == b"302\n" else b"%d\n" % (int(data) + 1)


def test_what_the_living_need_stays_until_they_go(capfd: Any) -> None:
    tracefs = new_kernel("6.12")
    before = state(tracefs)
    with ExitStack() as stack:
        stack.enter_context(trace(tracefs, "first", buffer_size=100))
        group = DEAD.session(0)
        tracefs.write(
            "kprobe_events",
            f"p:{group}/kprobe_keeps_0 panic f0_buffer__size__kb=$stack o0_302=$stack n0_100=$stack\n".encode(),
        )
        assert main(["clean"], tracefs=tracefs) == 0
        (line,) = (line for line in capfd.readouterr().out.splitlines() if not line.startswith("kept "))
        assert line.startswith(f"removed {group}/kprobe_keeps_0 (buffer_size_kb stays 103 for process {ME.pid} (")
        assert state(tracefs)["buffer_size_kb"] == "103"
    assert state(tracefs) == before


def test_the_next_session_cleans() -> None:
    tracefs = new_kernel("6.12")
    before = state(tracefs)
    dead(tracefs, "p:mine vfs_read", top_level=True, buffer_size=100, stacktrace=True)
    with trace(tracefs, "next") as one:
        assert "of a kprobe that was killed: set buffer_size_kb back to 302 (process 4194305 is gone)" in one.notices
        assert "of a kprobe that was killed: set options/stacktrace back to 0 (process 4194305 is gone)" in one.notices
    assert state(tracefs) == before


def test_an_event_of_another_under_that_name_stays(capfd: Any) -> None:
    tracefs = new_kernel("6.12")
    group = DEAD.session(0, is_named=True)
    marker = f"p:{group}/kprobe_keeps_0 panic d0_p_x3amygroup_x2fmine_x20vf=$stack d1_s__read=$stack\n".encode()
    for theirs in ("p:mygroup/mine vfs_write", "r4:mygroup/mine vfs_read"):
        tracefs.write("kprobe_events", marker)
        tracefs.write("kprobe_events", f"{theirs}\n".encode())
        assert main(["clean"], tracefs=tracefs) == 0
        assert capfd.readouterr().out == f"removed {group}/kprobe_keeps_0 (it kept p:mygroup/mine vfs_read)\n"
        assert state(tracefs)["kprobe_events"] == theirs
        tracefs.write("kprobe_events", b"-:mygroup/mine\n")
    tracefs.write("kprobe_events", marker)
    tracefs.write("kprobe_events", b"p:mygroup/mine vfs_read\n")
    tracefs.write("events/mygroup/mine/enable", b"1\n")
    assert main(["clean"], tracefs=tracefs) == 0
    assert capfd.readouterr().out.splitlines()[0] == "kept mygroup/mine: it is in use in the top level"
    assert state(tracefs)["kprobe_events"] == "p:mygroup/mine vfs_read"


def test_list_says_what_a_marker_keeps(capfd: Any) -> None:
    tracefs = new_kernel("6.12")
    dead(tracefs, "p:mygroup/mine vfs_read", top_level=True, buffer_size=100)
    assert main(["list"], tracefs=tracefs) == 0
    out = capfd.readouterr().out
    assert "(marker) buffer_size_kb: was 302, set to 100\n" in out
    assert "(marker) p:mygroup/mine vfs_read, at the top level\n" in out
    owners = [line.split("  ")[0] for line in out.splitlines()[1:] if "process 4194305, dead" in line]
    assert len(owners) == 3
    assert sorted(owners)[-1] == "mygroup/mine"
    assert main(["list", "--json"], tracefs=tracefs) == 0
    assert '"keeps": "buffer_size_kb: was 302, set to 100"}' in capfd.readouterr().out


def test_a_kernel_that_takes_no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    tracefs = new_kernel("6.12")
    monkeypatch.setattr(markers, "FUNCTIONS", ("no_such_function",))
    before = state(tracefs)
    with trace(tracefs, "mygroup/mine", buffer_size=100) as one:
        assert one.notices[-2:] == [
            "this kernel takes no marker: if we are killed, buffer_size_kb stays 100 (it was 302)",
            "this kernel takes no marker: if we are killed, mygroup/mine stays",
        ]
    assert state(tracefs) == before


@pytest.mark.parametrize("text", ["ffffffff,c0000003", "options/stack_trace", "u:/bin/a_b é:0x1000", "_x41", "a" * 300])
def test_any_text_is_kept(text: str) -> None:
    tracefs = new_kernel("6.12")
    event = f"{DEAD.session(3)}/{markers.NAME}0"
    assert markers.add(tracefs, event, d=text)
    (marker,) = markers.read(tracefs)
    assert (marker.definition, marker.event, marker.session) == (text, event, DEAD.session(3))


def test_events_of_others_are_no_markers() -> None:
    for text in (
        "p:kprobe_1_2_0/kprobe_keeps_0 panic f0_x",
        "p:theirs/kprobe_keeps_0 panic d0_x",
        "p:kprobe_1_2_0/x panic",
    ):
        assert markers.parse(Line(text)) is None


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("size", [1, 7, 8, 100, 200, 1408, 1410, 5000])
def test_sizes_as_kernels_show_them(series: str, size: int) -> None:
    tracefs = new_kernel(series)
    tracefs.write("buffer_size_kb", f"{size}\n".encode())
    shown = tracefs.read("buffer_size_kb").decode().strip()
    assert is_value(tracefs, "buffer_size_kb", str(size), shown)
    assert not is_value(tracefs, "buffer_size_kb", str(size + 8), shown)
