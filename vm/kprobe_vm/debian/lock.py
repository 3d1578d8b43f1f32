"""The lock: the package that each series of kernels stands for, by name, version and hash.

It keeps `vm:6.1` the same kernel today and tomorrow, here and elsewhere.  A lock ships with this package; the user's
lock, which `kprobe-vm update` writes, overrides it, and a named one (`--lock`, `KPROBE_VM_LOCK`) overrides both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from kprobe_vm.debian.packages import Package
from kprobe_vm.errors import NotReady
from kprobe_vm.host.cache import Cache

FORMAT = 1
NAME = "kernels.lock"


class Locked(NamedTuple):
    """A package and the suite that had it."""

    suite: str
    package: Package


class Lock:
    """One lock file: kernels by series, other packages by name.  The file need not exist."""

    def __init__(self, path: Path | None, text: str) -> None:
        self.path = path
        self.kernels: dict[str, Locked] = {}
        self.packages: dict[str, Locked] = {}
        if not text:
            return
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']} instead of {FORMAT}")
            for kind, table in (("kernels", self.kernels), ("packages", self.packages)):
                for key, row in content.get(kind, {}).items():
                    fields = (row["package"], row["version"], row["size"], row["sha256"], row["path"])
                    if [*map(type, fields)] != [str, str, int, str, str] or not isinstance(row["suite"], str):
                        raise ValueError(f"odd fields of {key}")
                    table[key] = Locked(row["suite"], Package(*fields))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            odd = isinstance(error, RecursionError) or "int_max_str_digits" in str(error)
            reason = "it is nested too deeply, or has too long a number" if odd else repr(error)[:200]
            raise NotReady(
                f"{path or NAME} isn't a lock file: {reason}; without it, kprobe-vm's own lock counts"
            ) from error

    @classmethod
    def read(cls, path: Path) -> Lock:
        """Return the lock in a file, an empty one if there is none; raise `NotReady`."""
        try:
            return cls(path, path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls(path, "")
        except (OSError, UnicodeDecodeError) as error:
            raise NotReady(f"{path}: {error}") from error

    def text(self) -> str:
        """Return what the file should hold, one line for each field."""
        tables = {
            kind: {
                key: {
                    "package": row.package.name,
                    "version": row.package.version,
                    "suite": row.suite,
                    "size": row.package.size,
                    "sha256": row.package.sha256,
                    "path": row.package.filename,
                }
                for key, row in sorted(table.items(), key=lambda item: _order(item[0]))
            }
            for kind, table in (("kernels", self.kernels), ("packages", self.packages))
            if table
        }
        return json.dumps({"format": FORMAT, **tables}, indent=1) + "\n"


class Locks:
    """All locks that apply, the one that overrides the others first."""

    def __init__(self, locks: Sequence[Lock]) -> None:
        self.locks = tuple(locks)

    @classmethod
    def of(cls, environment: Mapping[str, str], cache: Cache) -> Locks:
        """Return the lock that the environment names, the user's own in the cache, and the one that came with us."""
        named = environment.get("KPROBE_VM_LOCK")
        cache.check(cache.root / NAME)
        locks = [Lock.read(cache.root / NAME)]
        if named:
            path = Path(named).expanduser()
            if not os.path.exists(path):  # also False without permission to look
                raise NotReady(f"KPROBE_VM_LOCK: there is no file {path}, or none that you can read")
            locks.insert(0, Lock.read(path))
        return cls([*locks, shipped()])

    def kernel(self, series: str) -> Locked | None:
        """Return the locked kernel of a series."""
        return next((lock.kernels[series] for lock in self.locks if series in lock.kernels), None)

    def package(self, name: str) -> Locked | None:
        """Return the locked package of a name."""
        return next((lock.packages[name] for lock in self.locks if name in lock.packages), None)

    def kernels(self) -> Iterator[Locked]:
        """Yield every locked kernel, overriding ones first."""
        for lock in self.locks:
            yield from lock.kernels.values()


def shipped() -> Lock:
    """Return the lock that came with this package."""
    return Lock(None, (resources.files("kprobe_vm") / NAME).read_text(encoding="utf-8"))


def _order(key: str) -> tuple[list[int], str]:
    return [int(part) for part in key.partition("-")[0].split(".") if part.isdecimal()], key
