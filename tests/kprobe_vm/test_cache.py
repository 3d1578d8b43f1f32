import errno
import multiprocessing
import stat
from pathlib import Path

import pytest

from kprobe_vm.cache import Cache, digest
from kprobe_vm.errors import DiskFull


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


def test_a_file_that_lost_its_content_is_made_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = cache.file("kind", "name", lambda: b"content")
    path.write_bytes(b"")
    assert cache.file("kind", "name", lambda: b"content").read_bytes() == b"content"
    path.write_bytes(b"cont")
    assert cache.file("kind", "name", lambda: b"content", size=7).read_bytes() == b"content"


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
