import errno
import multiprocessing
import os
import shutil
import stat
from pathlib import Path

import pytest

from kprobe_vm.debian.lock import Locks
from kprobe_vm.errors import CacheUnsafe, DiskFull, NotReady
from kprobe_vm.host.cache import Cache, digest


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({"KPROBE_VM_CACHE": "/a/b", "XDG_CACHE_HOME": "/x"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/kprobe-vm"),
        ({}, str(Path.home() / ".cache/kprobe-vm")),
        ({"XDG_CACHE_HOME": ""}, str(Path.home() / ".cache/kprobe-vm")),
    ],
)
def test_where_the_cache_is(environment: dict[str, str], root: str) -> None:
    assert str(Cache.of(environment).root) == root


def test_a_digest_tells_where_parts_end() -> None:
    assert digest(b"ab", b"c") != digest(b"a", b"bc")


def test_a_file_is_made_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    made = [cache.file("kind", "name", lambda text=text: text) for text in (b"first", b"second")]
    assert made[0].read_bytes() == b"first"
    assert made[0] == made[1]
    assert stat.S_IMODE(made[0].parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [b"", b"cont", b"Content", b"content and more"])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: bytes) -> None:
    cache = Cache(tmp_path)
    path = cache.file("kind", "name", lambda: b"content")
    times = path.stat()
    path.write_bytes(damage)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # who hides it can't set ctime
    assert cache.file("kind", "name", lambda: b"content").read_bytes() == b"content"


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b"3", b'{"name": 3}', b"\xff", b'{"other": ["00", 1, 2, 3]}'])
def test_a_damaged_seal_seals_nothing(tmp_path: Path, damage: bytes) -> None:
    cache = Cache(tmp_path)
    path = cache.file("kind", "name", lambda: b"content")
    path.with_name("name.seal").write_bytes(damage)
    path.write_bytes(b"other")
    assert cache.file("kind", "name", lambda: b"content").read_bytes() == b"content"


def test_a_copied_cache_is_used_and_sealed_anew(tmp_path: Path) -> None:
    Cache(tmp_path / "a").file("kind", "name", lambda: b"content")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    seal = tmp_path / "b/kind/name.seal"
    before = seal.read_bytes()
    Cache(tmp_path / "b").file("kind", "name", lambda: b"made again")
    assert (tmp_path / "b/kind/name").read_bytes() == b"content"
    assert seal.read_bytes() != before
    assert Cache(tmp_path / "b").drop_damaged() == []


def test_reading_all_finds_what_the_disk_has_changed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = cache.file("kind", "name", lambda: b"content")
    cache.file("kind", "other", lambda: b"content")
    path.write_bytes(b"Content")
    assert cache.drop_damaged() == ["kind/name"]
    assert sorted(one.name for one in path.parent.iterdir()) == ["other", "other.seal"]


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"3", b"null", b'{"note": 1}', b'{"note": 1, "sha256": ""}', b"\xff"]
)
def test_a_damaged_note_is_none(tmp_path: Path, damage: bytes) -> None:
    cache = Cache(tmp_path)
    path = cache.directory("kind") / "note.json"
    assert cache.note(path) is None
    cache.write_note(path, {"a": [1, "b"]})
    assert cache.note(path) == {"a": [1, "b"]}
    path.write_bytes(damage)
    assert cache.note(path) is None


@pytest.mark.parametrize(
    ("place", "mode"),
    [(".", 0o770), (".", 0o707), (".", 0o777), ("agent", 0o770), ("agent", 0o777)],
)
def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path, place: str, mode: int) -> None:
    root = tmp_path / "cache"
    (root / "agent").mkdir(parents=True, mode=0o700)
    (root / place).chmod(mode)
    with pytest.raises(CacheUnsafe) as caught:
        Cache(root).directory("agent")
    assert str(caught.value) == (
        f"the cache directory {root / place} can be written to by others (mode {mode:04o}), and what they put there "
        "would be run: set KPROBE_VM_CACHE to a directory of your own, or delete it, or if you trust what it holds: "
        f"chmod go-w {root / place}"
    )


@pytest.mark.requires("root")  # who gives files away
@pytest.mark.parametrize("name", ["agent", "agent/file", "agent/file.seal", "kernels.lock", "kernels/tree", "kvm/note"])
def test_what_others_put_into_a_directory_like_tmp_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "cache"
    cache = Cache(root)
    uses = {
        "agent": lambda: cache.directory("agent"),
        "agent/file": lambda: cache.file("agent", "file", lambda: b"ours"),
        "agent/file.seal": lambda: cache.file("agent", "file", lambda: b"ours"),
        "kernels.lock": lambda: Locks.of({}, cache),
        "kernels/tree": lambda: cache.tree("kernels", "tree", lambda fresh: None),
        "kvm/note": lambda: cache.note(root / "kvm/note"),
    }
    for place in (".", "agent", "kernels", "kvm"):
        cache.directory(place).chmod(0o1777)
    cache.file("agent", "file", lambda: b"ours")
    use = uses[name]
    theirs = root / name
    if not theirs.exists():
        theirs.mkdir() if name == "kernels/tree" else theirs.write_text("{}")
    os.chown(theirs, 65534, 65534)
    with pytest.raises(CacheUnsafe, match="belongs to nobody, not to root"):
        use()


def test_another_users_directory_is_refused_by_root_above_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: root.stat().st_uid + 4321)
    with pytest.raises(CacheUnsafe, match=r"cache belongs to \w+, not to user \d+, .* chown -R"):
        Locks.of({}, Cache(root))


def test_a_cache_in_another_users_home_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "lstat", refused)
    with pytest.raises(NotReady, match="can't be looked at: Permission denied; set KPROBE_VM_CACHE to a directory"):
        Locks.of({}, Cache(tmp_path))


def test_a_link_to_a_directory_of_ones_own_may_be_the_cache(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to("there")
    assert Cache(tmp_path / "cache").file("kind", "name", lambda: b"x").read_bytes() == b"x"
    (tmp_path / "there").chmod(0o777)
    with pytest.raises(CacheUnsafe):
        Cache(tmp_path / "cache").directory("kind")


def test_a_cache_that_can_not_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for root in (tmp_path / "file", tmp_path / "file/cache"):
        with pytest.raises(NotReady, match="set KPROBE_VM_CACHE to a directory of your own"):
            Cache(root).directory("kind")


def test_a_cache_is_for_its_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        Cache(tmp_path / "cache").directory("a/b")
    finally:
        os.umask(before)
    modes = {stat.S_IMODE((tmp_path / "cache" / name).stat().st_mode) for name in (".", "a", "a/b")}
    assert modes == {0o700}


def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    left = cache.directory("kind") / ".kprobe-vm-scratch-dead"
    left.mkdir()
    (left / "file").write_bytes(b"half")
    cache.file("kind", "name", lambda: b"whole")
    assert not left.exists()


def test_a_lock_file_for_which_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    cache = Cache(tmp_path)
    cache.directory("locks")
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(DiskFull, match=r"no room in .*: No space left on device"), cache.lock("name"):
        pass


def test_a_full_file_system_is_told_from_other_errors(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def fill(fresh: Path) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with pytest.raises(DiskFull, match=r"no room in .*: Disk quota exceeded"):
        cache.tree("kernels", "one", fill)
    assert list((tmp_path / "kernels").iterdir()) == []


def test_a_failed_making_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def fill(fresh: Path) -> None:
        (fresh / "half").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cache.tree("kernels", "one", fill)
    assert list((tmp_path / "kernels").iterdir()) == []


def _make(root: Path) -> None:
    def make() -> bytes:
        with open(root / "made", "a") as log:
            log.write("x")
        return b"content"

    Cache(root).file("kind", "name", make)


def test_two_processes_make_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_make, args=(tmp_path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert (tmp_path / "made").read_text() == "x"
