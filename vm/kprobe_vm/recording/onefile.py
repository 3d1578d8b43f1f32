"""A recorded profile as one file, packed by the simulator's package through an entry point."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from kprobe_vm.errors import MachineError, NotReady

GROUP, NAME = "kprobe.profile", "pack"


def record_file(record: Callable[[Path], Path], output: Path) -> Path:
    """Write the profile that `record` writes below a directory and returns, as one file; return the file.

    The file is replaced once it is whole.  Raises OSError before anything is recorded if it can't be written where it
    is to be, and `MachineError` for a recording that the simulator finds unsound.
    """
    pack: Callable[[Path], bytes] | None = None
    for point in entry_points(group=GROUP, name=NAME):
        pack = pack or point.load()
    if pack is None:
        raise NotReady(f"no installed package has an entry point {NAME!r} in the group {GROUP}")
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".recording-") as parent:
        directory = record(Path(parent))
        fresh = Path(parent, "profile")
        try:
            fresh.write_bytes(pack(directory))
        except ValueError as error:
            raise MachineError(f"the recording of {directory.name} is unsound: {error}") from error
        fresh.rename(output)
    return output
