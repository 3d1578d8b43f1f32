"""What a profile records wins over what is usual: profiles whose facts were changed, and what a kernel does then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.builds import profile
from kprobe_sim.builds.packed import NamedTexts, open_sections
from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.builds.recorded_tracefs import MAGIC
from kprobe_vm.recording import packed

CAT = Task(42, "cat")
Change = Callable[..., SimulatedKernel]


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Change:
    """Return what makes a kernel of a profile with other facts, configuration or texts of files."""

    def make(
        series: str,
        facts: dict[str, object] | None = None,
        config: dict[str, str] | None = None,
        files: dict[str, str] | None = None,
    ) -> SimulatedKernel:
        recorded = profile.load(series).path
        copy = tmp_path / recorded.name
        copy.mkdir()
        for path in recorded.iterdir():
            (copy / path.name).symlink_to(path)
        said = json.loads((recorded / "profile.json").read_bytes())
        said |= facts or {}
        said["config"] |= config or {}
        sections = {name: bytes(data) for name, data in open_sections(recorded / "tracefs.bin", MAGIC).items()}
        texts = NamedTexts(memoryview(sections["files"]))
        more = {path: text.encode() for path, text in (files or {}).items()}
        sections["files"] = packed.named({path: texts[path] for path in texts} | more)
        for name, data in (
            ("profile.json", json.dumps(said).encode()),
            ("tracefs.bin", packed.file(MAGIC, sections)),
        ):
            (copy / name).unlink()
            (copy / name).write_bytes(data)
        monkeypatch.setattr(profile, "PROFILES", tmp_path)
        return SimulatedKernel(series)

    return make


def last_line(kernel: SimulatedKernel) -> str:
    return kernel.tracefs.read("trace").decode().splitlines()[-1]


@pytest.mark.parametrize(("hz", "stamp"), [("100", "1201"), ("250", "1200"), ("300", "1200"), ("1000", "1201")])
def test_the_clock_of_jiffies_shows_whole_ones_in_the_users_ticks(changed: Change, hz: str, stamp: str) -> None:
    kernel = changed("6.1", config={"HZ": hz})
    kernel.tracefs.write("trace_clock", b"uptime")
    kernel.tracefs.write("kprobe_events", b"p:p vfs_read")
    kernel.tracefs.write("events/kprobes/p/enable", b"1")
    kernel.call("vfs_read", task=CAT, at=12_011_000_000)
    assert last_line(kernel).split()[3] == f"{stamp}:"
    kernel.tracefs.mkdir("instances/i")
    kernel.tracefs.write("instances/i/trace_clock", b"uptime")
    kernel.tracefs.write("instances/i/events/kprobes/p/enable", b"1")
    kernel.call("vfs_read", task=CAT, at=12_011_000_000)
    assert f" {stamp}: " in kernel.tracefs.read("instances/i/trace").decode().splitlines()[-1]


@pytest.mark.parametrize(("config", "words"), [({}, 2048), ({"KASAN": "y"}, 4096)])
@pytest.mark.parametrize("start", ["p:p vfs_read", "f:p vfs_read", "e:p sched/sched_switch"])
def test_as_many_words_of_the_stack_can_be_named_as_it_has(
    changed: Change, config: dict[str, str], words: int, start: str
) -> None:
    kernel = changed("6.12", config=config)
    if not start.startswith("e"):
        kernel.tracefs.write("dynamic_events", f"{start} a=$stack{words}".encode())
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.tracefs.write("dynamic_events", f"{start.replace(':p', ':q')} a=$stack{words + 1}".encode())


@pytest.mark.parametrize(("config", "end"), [({}, 0xFFFF_C900_0001_4000), ({"KASAN": "y"}, 0xFFFF_C900_0001_8000)])
def test_words_beyond_the_stack_are_zero(changed: Change, config: dict[str, str], end: int) -> None:
    """A word is read as long as it is on the stack that the stack pointer is on (regs_within_kernel_stack)."""
    kernel = changed("6.1", config=config)
    kernel.tracefs.write("kprobe_events", b"p:p vfs_read below=$stack1:x64 within=$stack2:x64 beyond=$stack3:x64")
    kernel.tracefs.write("events/kprobes/p/enable", b"1")
    pointer = end - 24
    words = {pointer + 8: b"\x11" * 32}  # one word of it beyond the end
    kernel.call("vfs_read", task=CAT, registers={"sp": pointer}, memory=words)
    assert last_line(kernel).endswith("below=0x1111111111111111 within=0x1111111111111111 beyond=0x0")


@pytest.mark.parametrize(("size", "shown"), [("63", '"/etc/hostname"'), ("9", '"/etc/host..."')])
def test_an_event_holds_as_much_of_the_users_memory_as_is_recorded(changed: Change, size: str, shown: str) -> None:
    kernel = changed("7.2", files={"syscall_user_buf_size": f"{size}\n"})
    kernel.tracefs.write("events/syscalls/sys_enter_openat/enable", b"1")
    with kernel.system_call("openat", task=CAT, args=(-100, "/etc/hostname", 0, 0)):
        pass
    assert shown in last_line(kernel)


@pytest.mark.parametrize(("series", "grows"), [("6.1", True), ("6.12", False)])
def test_ids_are_given_again_where_that_was_seen(changed: Change, series: str, grows: bool) -> None:
    recorded = profile.load(series)
    assert recorded.reuses_ids is not grows
    kernel = changed(series, {"second_dynamic_id": recorded.first_dynamic_id + (not grows)})  # the other way round
    for number in (recorded.first_dynamic_id, recorded.first_dynamic_id + (not grows)):
        kernel.tracefs.write("kprobe_events", b"p:p vfs_read")
        assert kernel.tracefs.read("events/kprobes/p/id") == f"{number}\n".encode()
        kernel.tracefs.write("kprobe_events", b"-:p")


def test_names_are_saved_as_many_as_recorded(changed: Change) -> None:
    kernel = changed("6.1", {"saved_cmdlines_size": 2})
    assert kernel.tracefs.read("saved_cmdlines_size") == b"2\n"
    kernel.tracefs.write("kprobe_events", b"p:p vfs_read")
    kernel.tracefs.write("events/kprobes/p/enable", b"1")
    for pid in (101, 102, 103):
        kernel.call("vfs_read", task=Task(pid, "cat"))
    assert kernel.tracefs.read("saved_cmdlines") == b"102 cat\n103 cat\n"


def test_another_size_of_pages_is_no_kernel_that_is_simulated(changed: Change) -> None:
    with pytest.raises(ValueError, match="was recorded with pages of 16384 bytes; x86-64 has 4096"):
        changed("6.1", {"page_size": 16384})


@pytest.mark.parametrize("release", profile.available())
def test_all_profiles_have_the_pages_of_the_architecture(release: str) -> None:
    assert profile.load(release).page_size == PAGE_SIZE


def test_the_mode_of_the_root(changed: Change) -> None:
    """The guest of 6.18.15 has 0755, that of 7.0.13 again 0700."""
    assert SimulatedKernel("6.1").tracefs.mode("") == 0o700
    assert changed("6.1", {"root_mode": 0o755}).tracefs.mode("") == 0o755
