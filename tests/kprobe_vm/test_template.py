"""The file that clones start from: what is kept, what is found to be damaged, what is left when saving fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprobe_vm.agent.frames import Hello
from kprobe_vm.errors import DiskFull, TemplateStale
from kprobe_vm.host.cache import Cache
from kprobe_vm.machine import template
from kprobe_vm.machine.qemu import Hardware
from kprobe_vm.machine.template import MEMORY, NONE, STATE, Contents, Template, template_key

HELLO = Hello("6.1.0-54-cloud-amd64", "#1 SMP", 4096, 1)
SIZE = 8 << 20
DATA = b"some memory"


@pytest.fixture
def memory() -> Iterator[int]:
    """Guest memory with something in one page, and holes."""
    descriptor = os.memfd_create("memory")
    os.ftruncate(descriptor, SIZE)
    os.pwrite(descriptor, DATA, 1 << 20)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def saved(tmp_path: Path, memory: int) -> Template:
    made = Template(Cache(tmp_path), "k" * 32)
    made.save(Contents(memory, b"state of the devices", HELLO, 1.5))
    return made


def opens(saved: Template) -> bool:
    with saved.opened() as contents:
        return contents is not None


def test_what_was_saved_is_there(saved: Template) -> None:
    with saved.opened() as contents:
        assert contents is not None
        assert contents.hello == HELLO
        assert os.read(contents.state, 20) == b"state of the devices"
        ram = contents.ram.descriptor
        assert ram is not None
        assert not contents.ram.shared
        assert os.pread(ram, 4096, 1 << 20) == DATA.ljust(4096, b"\0")
        assert os.pread(ram, 4096, 2 << 20) == bytes(4096)
        assert os.fstat(ram).st_blocks * 512 < 1 << 20  # the holes are still holes
    assert saved.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in saved.path.parent.iterdir()] == [saved.path.name]


def test_there_is_none_at_first(tmp_path: Path) -> None:
    assert not opens(Template(Cache(tmp_path), "k"))


def test_the_memory_may_be_in_the_state(tmp_path: Path) -> None:
    made = Template(Cache(tmp_path), "k")
    made.save(Contents(None, b"all of it", HELLO, 1.5))
    with made.opened() as contents:
        assert contents is not None
        assert contents.ram.descriptor is None
        assert os.read(contents.state, 9) == b"all of it"


def test_use_does_not_make_it_stale_but_keeps_it(saved: Template) -> None:
    os.utime(saved.path, (1_000_000, saved.path.stat().st_mtime))
    assert opens(saved)
    assert opens(saved)
    assert saved.path.stat().st_atime > 1_000_000


def keep_times(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_atime_ns, status.st_mtime_ns


@pytest.mark.parametrize(
    ("at", "what", "why"),
    [
        (1 << 20, b"X", "it was changed after it had been saved"),
        (SIZE + 3, b"X", "it was changed after it had been saved"),
    ],
)
def test_a_template_that_was_written_to_is_stale(saved: Template, at: int, what: bytes, why: str) -> None:
    with open(saved.path, "r+b") as file:
        file.seek(at)
        file.write(what)
    with pytest.raises(TemplateStale, match=why):
        opens(saved)


@pytest.mark.parametrize(
    ("at", "why"),
    [(SIZE + 3, "the state of its devices is damaged"), (-20, "its trailer is damaged"), (-1, "it has no end")],
)
def test_damage_that_shows_no_time_is_found(saved: Template, at: int, why: str) -> None:
    times = keep_times(saved.path)
    with open(saved.path, "r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        file.write(b"\xff")
    os.utime(saved.path, ns=times)
    with pytest.raises(TemplateStale, match=why):
        opens(saved)


@pytest.mark.parametrize("size", [0, 5, SIZE, SIZE + 30])
def test_a_template_that_was_cut_is_stale(saved: Template, size: int) -> None:
    times = keep_times(saved.path)
    os.truncate(saved.path, size)
    os.utime(saved.path, ns=times)
    with pytest.raises(TemplateStale, match="it has no end"):
        opens(saved)


def test_a_template_under_anothers_name_is_stale(saved: Template) -> None:
    other = Template(Cache(saved.path.parent.parent), "other")
    os.rename(saved.path, other.path)
    with pytest.raises(TemplateStale, match="it is another's"):
        opens(other)


def test_a_disk_without_room_is_told_before_anything_is_written(
    tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = os.statvfs(tmp_path)
    full = os.statvfs_result((*disk[:4], 100, *disk[5:]))  # f_bavail
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    made = Template(Cache(tmp_path), "k")
    with pytest.raises(DiskFull, match=r"no room for a template in .*: 32 MiB are needed"):
        made.save(Contents(memory, b"state", HELLO, 1.5))
    assert list(made.path.parent.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("has_unnamed_files", [True, False])
def test_a_disk_that_gets_full_leaves_nothing(
    saved: Template, memory: int, monkeypatch: pytest.MonkeyPatch, number: int, has_unnamed_files: bool
) -> None:
    """The one that was there before is still there."""

    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(template, "_copy_without_holes", full)
    if not has_unnamed_files:
        monkeypatch.setattr(os, "O_TMPFILE", 1 << 30 | os.O_DIRECTORY)  # what a file system that has none says
    with pytest.raises(DiskFull):
        saved.save(Contents(memory, b"new state", HELLO, 1.5))
    assert [path.name for path in saved.path.parent.iterdir()] == [saved.path.name]
    assert opens(saved)


def test_a_file_system_without_unnamed_files(tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    really_open = os.open

    def refuse(path: object, flags: int, *rest: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return really_open(path, flags, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    made = Template(Cache(tmp_path), "k")
    left = made.path.parent / ".new-k-of-one-who-was-killed"
    left.write_bytes(b"half")
    made.save(Contents(memory, b"state", HELLO, 1.5))
    assert [path.name for path in made.path.parent.iterdir()] == [made.path.name]
    assert opens(made)


def test_the_longest_unused_goes(tmp_path: Path) -> None:
    made = [Template(Cache(tmp_path), f"k{number}") for number in range(template.KEPT + 1)]
    for number, one in enumerate(made[:-1]):
        one.save(Contents(None, b"state", HELLO, 1.5))
        os.utime(one.path, (1_000_000 + (number + 5) % template.KEPT, one.path.stat().st_mtime))
    made[-1].save(Contents(None, b"state", HELLO, 1.5))
    assert [one.key for one in made if not one.path.exists()] == ["k7"]


def test_a_method_is_given_up_if_no_clone_ever_came_up(saved: Template) -> None:
    assert saved.method == MEMORY
    saved.failed()
    assert not saved.path.exists()
    assert saved.method == STATE
    saved.failed()
    assert saved.method == NONE


def test_a_method_that_worked_once_is_kept(saved: Template) -> None:
    saved.proven()
    saved.failed()
    assert not saved.path.exists()
    assert saved.method == MEMORY


def test_the_key_tells_apart_everything_that_matters(tmp_path: Path) -> None:
    program = tmp_path / "qemu"
    program.write_bytes(b"7.2")
    hardware = Hardware(Path("/k/vmlinux"), Path("/k/root.cpio"), "tcg", command_line="quiet")
    base = (str(program), "7.2.22", hardware, "kernel")
    assert template_key(*base) == template_key(*base)
    others = [
        (str(program), "7.2.23", hardware, "kernel"),
        (str(program), "7.2.22", hardware, "other kernel"),
        *(
            (str(program), "7.2.22", hardware._replace(**change), "kernel")
            for change in (
                {"kernel": Path("/k/vmlinuz")},
                {"initrd": Path("/k/root2.cpio")},
                {"accelerator": "tcg,thread=single"},
                {"memory": 512},
                {"cpus": 2},
                {"command_line": "quiet nosmp"},
            )
        ),
    ]
    keys = {template_key(*one) for one in [base, *others]}
    assert len(keys) == len(others) + 1
    os.utime(program, (1, 1))  # another build of the same version
    assert template_key(*base) not in keys
