"""Record every locked kernel into a directory of profiles that `kprobe-sim profiles --fetch` reads.

Usage: profiles.py DIRECTORY [KERNEL ...]; without a KERNEL all of the lock that comes with kprobe-vm.  A kernel that
fails is named at the end, and the others go on; what is there of an earlier run is replaced by its release.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kprobe_vm.debian.lock import shipped
from kprobe_vm.errors import MachineError
from kprobe_vm.host.progress import ProgressPrinter
from kprobe_vm.recording.booted import record_kernel
from kprobe_vm.recording.onefile import record_file

SUFFIX = ".kprofile"
INDEX = "SHA256SUMS"


def main(words: Sequence[str]) -> int:
    """Record, and write the index; return 0 if no kernel failed."""
    if not words or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    directory, kernels = Path(words[0]), list(words[1:]) or list(shipped().kernels)
    directory.mkdir(parents=True, exist_ok=True)
    failed = []
    for number, kernel in enumerate(kernels, 1):
        try:
            print(f"{number} of {len(kernels)}: {recorded(kernel, directory)}", flush=True)
        except (MachineError, OSError, ValueError) as error:
            failed.append(kernel)
            print(f"{number} of {len(kernels)}: {kernel} failed: {error}", file=sys.stderr)
    write_index(directory)
    if failed:
        print(f"failed: {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def recorded(kernel: str, directory: Path) -> str:
    """Record a kernel into RELEASE.kprofile; return a line about it."""
    began = time.monotonic()
    releases: list[str] = []

    def record(into: Path) -> Path:
        made = record_kernel(kernel, into, progress=ProgressPrinter())
        releases.append(made.name)
        return made

    fresh = record_file(record, directory / f".{kernel}{SUFFIX}")
    path = fresh.rename(directory / f"{releases[0]}{SUFFIX}")
    return f"{kernel}: {path.name}, {path.stat().st_size / 1e6:.1f} MB in {time.monotonic() - began:.0f} s"


def write_index(directory: Path) -> None:
    """Write the checksums of all profiles in a directory, as sha256sum does."""
    files = sorted(directory.glob(f"[!.]*{SUFFIX}"))
    rows = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (directory / INDEX).write_text("".join(rows), "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
