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

Source = tuple[str, str]
"""A C source or a header: the package that it comes with, and the file's name."""


def sources(package: str, names: str) -> list[Source]:
    """Return the sources of a package whose names stand in a text, separated by blanks."""
    return [(package, name) for name in names.split()]


def compiled(cache: Cache, name: str, files: Sequence[Source], flags: Sequence[str]) -> Path:
    """Return the program made of C sources and headers, from the cache if the same ones were compiled with these flags.

    Raise `CompilerMissing`, `BuildFailed` if the compiler refuses, `WrongArchitecture` if it is for another processor.
    """
    texts = {file: (resources.files(package) / file).read_bytes() for package, file in files}

    def build() -> bytes:
        compiler = programs.find("cc")
        with scratch() as directory:
            for file, text in texts.items():
                (directory / file).write_bytes(text)
            program = directory / name
            units = [str(directory / file) for file in texts if file.endswith(".c")]
            command = [compiler, *flags, "-o", str(program), *units]
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

    return cache.file(name, digest(*texts.values(), " ".join(flags).encode())[:24], build, mode=0o755)
