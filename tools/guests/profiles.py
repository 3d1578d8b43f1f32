"""Developers run `make profiles` or `make distribution` to record kernels: profiles and the index of their checksums.

Usage: profiles.py DIRECTORY [KERNEL ...]; without a KERNEL it is all of the lock that comes with kprobe-vm.  A failed
kernel is named at the end and doesn't stop the others.  A profile of an earlier run is replaced by that of its release.
`kprobe-sim profiles --fetch` reads the index.

       profiles.py --distribution [KERNEL ...]; the directory is that of distributions/kprobe-sim-profiles.  Without a
KERNEL it is every kernel of the lock that the package has no profile of; if none failed, nothing else stays there.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kprobe_sim.builds.profile import available
from kprobe_sim.releases import SUFFIX, fitting
from kprobe_vm.debian.lock import shipped
from kprobe_vm.errors import MachineError
from kprobe_vm.host.progress import ProgressPrinter
from kprobe_vm.recording.booted import record_kernel
from kprobe_vm.recording.onefile import record_file

INDEX = "SHA256SUMS"
OPTION = "--distribution"
DISTRIBUTION = (
    Path(__file__).resolve().parents[2] / "distributions" / "kprobe-sim-profiles" / "src" / "kprobe_sim_profiles"
)


def main(words: Sequence[str]) -> int:
    """Record, and write the index; return 0 if no kernel failed."""
    if not words or (words[0].startswith("-") and words[0] != OPTION):
        print(__doc__, file=sys.stderr)
        return 2
    is_distribution = words[0] == OPTION
    directory, kernels = DISTRIBUTION if is_distribution else Path(words[0]), list(words[1:])
    directory.mkdir(parents=True, exist_ok=True)
    made, failed = record_all(kernels or (unpackaged() if is_distribution else list(shipped().kernels)), directory)
    if is_distribution and not kernels and not failed:
        for path in set(profiles(directory)).difference(made):
            path.unlink()
    write_index(directory)
    if failed:
        print(f"failed: {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def unpackaged() -> list[str]:
    """Return the kernels of the lock that the package has no profile of."""
    packaged = tuple(available())
    return [kernel for kernel in shipped().kernels if fitting(kernel, packaged) is None]


def record_all(kernels: Sequence[str], directory: Path) -> tuple[list[Path], list[str]]:
    """Record kernels; return the files that were made, and the kernels that failed."""
    made, failed = [], []
    for number, kernel in enumerate(kernels, 1):
        began = time.monotonic()
        try:
            path = recorded(kernel, directory)
        except (MachineError, OSError, ValueError) as error:
            failed.append(kernel)
            print(f"{number} of {len(kernels)}: {kernel} failed: {error}", file=sys.stderr)
        else:
            made.append(path)
            said = f"{path.name}, {path.stat().st_size / 1e6:.1f} MB in {time.monotonic() - began:.0f} s"
            print(f"{number} of {len(kernels)}: {kernel}: {said}", flush=True)
    return made, failed


def recorded(kernel: str, directory: Path) -> Path:
    """Record a kernel into RELEASE.kprofile; return its path."""
    releases: list[str] = []

    def record(into: Path) -> Path:
        made = record_kernel(kernel, into, progress=ProgressPrinter())
        releases.append(made.name)
        return made

    fresh = record_file(record, directory / f".{kernel}{SUFFIX}")
    return fresh.rename(directory / f"{releases[0]}{SUFFIX}")


def profiles(directory: Path) -> list[Path]:
    """Return the profile files in a directory."""
    return sorted(directory.glob(f"[!.]*{SUFFIX}"))


def write_index(directory: Path) -> None:
    """Write the checksums of all profiles in a directory, as sha256sum does."""
    rows = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in profiles(directory)]
    (directory / INDEX).write_text("".join(rows), "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
