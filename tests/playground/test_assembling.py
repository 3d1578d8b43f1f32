"""tools/docs/playground.py: what goes into the page's library, and a package that isn't what the lock says."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kprobe_sim.builds.profile import load
from kprobe_sim.builds.prototypes import PrototypeTable

TOOL = Path(__file__).parents[2] / "tools" / "docs" / "playground.py"


@pytest.fixture
def tool(loaded: Callable[[Path], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(TOOL.parent)  # as when it is run
    return loaded(TOOL)


def test_modules(tool: ModuleType) -> None:
    found = dict(tool.modules())
    assert {"answers.py", "made_up_calls.py", "kprobe_sim/__init__.py", "kprobe_sim/kernel/simulated.py"} < set(found)
    assert "kprobe_sim/events/hist/trigger.py" in found  # imported when it is first needed
    assert [
        name for name in found if name.startswith(("kprobe/", "kprobe_sim/expose/", "kprobe_sim/pytest_plugin/"))
    ] == []


def test_a_package_with_another_checksum(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    package = tmp_path / "build" / "npm" / "toy-1.0.tgz"
    package.parent.mkdir(parents=True)
    package.write_bytes(b"right")
    right = "sha512-VclyEGoLMmex4fp699WE3c9gUe5RYw2knM6A2VOZI5DNbkxxityFK+t2GKciG346A+6ubG+1LTqIBWZcNX9rHw=="
    lock = {"name": "toy", "version": "1.0", "integrity": right}
    assert tool.fetched(lock) == package
    package.write_bytes(b"wrong")
    with pytest.raises(SystemExit, match=r"toy-1\.0\.tgz: its sha512 is .* and the lock says "):
        tool.fetched(lock)
    assert not package.exists()


def test_a_file_is_named_for_what_is_in_it(tool: ModuleType, tmp_path: Path) -> None:
    one, other = (tool.packed(tmp_path, "profiles/6.1.0-54", data) for data in (b"one" * 999, b"other"))
    assert one["file"] != other["file"]
    assert one["file"].startswith("profiles/6.1.0-54.")
    assert one["bytes"] == (tmp_path / one["file"]).stat().st_size < 60
    assert gzip.decompress((tmp_path / one["file"]).read_bytes()) == b"one" * 999


def test_prototypes_without_members(tool: ModuleType, tmp_path: Path) -> None:
    """Of 5.10, whose probes take no parameters by name: the same functions, and no structs to look into."""
    kept = load("5.10").path / "prototypes.bin"
    pruned = tmp_path / "prototypes.bin"
    pruned.write_bytes(tool.without_members(kept))
    assert pruned.stat().st_size < kept.stat().st_size // 2
    symbols = load("5.10").recorded_symbols
    before, after = PrototypeTable(kept, symbols), PrototypeTable(pruned, symbols)
    for name in ("vfs_read", "do_sys_openat2", "tcp_v4_connect", "kfree", "no_such_function"):
        assert before.find(name) == after.find(name)
    assert before.find("vfs_read") is not None
    assert before.follow("vfs_read", 0, "f_path.dentry") is not None
    assert after.follow("vfs_read", 0, "f_path.dentry") is None


def test_every_kernel_from_4_9_on_is_described_with_or_without_prototypes(tool: ModuleType, tmp_path: Path) -> None:
    directories = list(tool.directories())
    assert [path for path in directories if load(str(path)).series == "4.4"] == []
    found = {load(str(path)).series: tool.described(tmp_path, path) for path in directories[:5]}
    assert [row["name"] for row in found.values()] == ["4.9", "4.14", "4.19", "5.4", "5.10"]
    assert [name for name, _ in found["4.9"]["parts"]] == ["head", "profile.json", "symbols.bin", "tracefs.bin"]
    assert [name for name, _ in found["5.10"]["parts"]] == [
        "profile.json",
        "prototypes.bin",
        "symbols.bin",
        "tracefs.bin",
    ]
