from pathlib import Path

import pytest

from kprobe_vm.debian.lock import Lock, Locked, Locks, shipped
from kprobe_vm.debian.packages import Package
from kprobe_vm.errors import NotReady
from kprobe_vm.host.cache import Cache

OTHER = Locked("bookworm", Package("linux-image-6.1.0-56-cloud-amd64", "6.1.192-2", 26713492, "e7d0", "pool/x.deb"))


def test_what_6_1_is() -> None:
    """The kernel whose recorded profile and answers the simulator is held to."""
    assert shipped().kernels["6.1"] == Locked(
        "bookworm-security",
        Package(
            "linux-image-6.1.0-54-cloud-amd64",
            "6.1.190-1",
            26639112,
            "1868212d13c009807ddf76a495f7dc2da99e7b4dacf8ddd8117cc1850992989b",
            "pool/updates/main/l/linux-signed-amd64/linux-image-6.1.0-54-cloud-amd64_6.1.190-1_amd64.deb",
        ),
    )


def test_which_series_are_locked() -> None:
    flavours = ["6.12", "6.12-amd64", "6.12-rt-amd64"]
    series = ["5.10", "6.1", *flavours, "6.16", "6.17", "6.18", "6.19", "7.0", "7.1", "7.2", "7.3"]
    assert list(shipped().kernels) == series
    # the package that holds the kernel, from 6.19 on
    prefixes = [shipped().kernels[name].package.name.split("-")[1] for name in series]
    assert prefixes == ["image"] * 8 + ["binary"] * 5
    assert list(shipped().packages) == ["busybox-static"]


def test_a_lock_survives_a_round_trip() -> None:
    lock = shipped()
    again = Lock(None, lock.text())
    assert again.kernels == lock.kernels
    assert again.packages == lock.packages


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2}', '{"format": 1, "kernels": {"6.1": {}}}'])
def test_what_is_no_lock(tmp_path: Path, text: str) -> None:
    (tmp_path / "kernels.lock").write_text(text)
    with pytest.raises(NotReady, match=r"kernels\.lock isn't a lock file"):
        Lock.read(tmp_path / "kernels.lock")


def write(path: Path, series: str) -> None:
    lock = Lock(path, "")
    lock.kernels[series] = OTHER
    path.parent.mkdir(exist_ok=True)
    path.write_text(lock.text())


def test_the_users_own_lock_goes_before_the_shipped_one(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert Locks.of({}, cache).kernel("6.1") == shipped().kernels["6.1"]
    write(cache.root / "kernels.lock", "6.1")
    assert Locks.of({}, cache).kernel("6.1") == OTHER
    assert Locks.of({}, cache).kernel("5.10") == shipped().kernels["5.10"]
    assert Locks.of({}, cache).kernel("9.9") is None


def test_a_named_lock_goes_before_both(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    write(cache.root / "kernels.lock", "6.12")
    write(tmp_path / "mine.lock", "7.2")
    locks = Locks.of({"KPROBE_VM_LOCK": str(tmp_path / "mine.lock")}, cache)
    assert [locks.kernel(series) == OTHER for series in ("6.1", "6.12", "7.2")] == [False, True, True]


def test_a_named_lock_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="KPROBE_VM_LOCK: there is no file"):
        Locks.of({"KPROBE_VM_LOCK": str(tmp_path / "none.lock")}, Cache(tmp_path))
