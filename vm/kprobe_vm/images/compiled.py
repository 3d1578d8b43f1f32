"""Our C programs for the guest, compiled here, linked statically, and kept in the cache."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from kprobe_vm.errors import BuildFailed, WrongArchitecture
from kprobe_vm.host import programs
from kprobe_vm.host.cache import Cache, digest
from kprobe_vm.host.scratch import scratch
from kprobe_vm.images.kerneltree import architecture

__all__ = ["compiled"]


def compiled(
    cache: Cache, package: str, name: str, flags: Sequence[str], headers: Sequence[tuple[str, str]] = ()
) -> Path:
    """Return the program made of NAME.c in a package, from the cache if it was made before with these flags.

    ``headers`` are the packages and names of those that it includes.

    Raise `CompilerMissing`, `BuildFailed` if the compiler refuses, `WrongArchitecture` if it is for another processor.
    """
    source = (resources.files(package) / f"{name}.c").read_bytes()
    included = {header: (resources.files(home) / header).read_bytes() for home, header in headers}

    def build() -> bytes:
        compiler = programs.find("cc")
        with scratch() as place:
            source_file, program = place / f"{name}.c", place / name
            source_file.write_bytes(source)
            for header, text in included.items():
                (place / header).write_bytes(text)
            command = [compiler, *flags, "-o", str(program), str(source_file)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode:
                reason = done.stderr.strip().splitlines() or ["no message"]
                raise BuildFailed(
                    f"the guest's {name} does not compile (needs: apt-get install gcc libc6-dev): {reason[0]}"
                )
            built = program.read_bytes()
            if (processor := architecture(built)) != "x86-64":
                raise WrongArchitecture(f"{compiler} compiles for {processor or 'no known processor'}, not for x86-64")
            return built

    return cache.file(name, digest(source, *included.values(), " ".join(flags).encode())[:24], build, mode=0o755)
