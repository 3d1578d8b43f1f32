"""Developers run `make corpus` when recordings change: it makes the archives of distributions/kprobe-corpus.

Usage: corpus.py [ARCHIVE ...]; an ARCHIVE is `recorded` (the traces in fixtures/text), `documents` (the lines in
fixtures/documents) or a KERNEL, whose guest is booted and recorded.  KERNEL=DIRECTORY takes what was recorded before
into DIRECTORY/KERNEL.  The default is all of them, with the cloud kernels of the lock that comes with kprobe-vm.  A
failed kernel is named at the end and doesn't stop the others.  Archives of an earlier run are replaced.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from corpus_documents import documented
from corpus_recorded import recorded

from kprobe_corpus.traces.corpora import entries
from kprobe_corpus.traces.entry import CorpusError, Entry
from kprobe_corpus.traces.writing import packed
from kprobe_vm.debian.lock import shipped
from kprobe_vm.errors import MachineError
from kprobe_vm.host.progress import ProgressPrinter
from kprobe_vm.traces import corpus

DISTRIBUTION = Path(__file__).resolve().parents[2] / "distributions" / "kprobe-corpus" / "src" / "kprobe_corpus_data"
INDEX = "SHA256SUMS"
SUFFIX = ".tar.xz"

MADE: dict[str, Callable[[], list[Entry]]] = {"recorded": recorded, "documents": documented}


def main(words: Sequence[str]) -> int:
    """Make what is named, and write the index; return 1 if a kernel failed."""
    failed = []
    for word in words or [*MADE, *(kernel for kernel in shipped().kernels if not kernel.endswith("amd64"))]:
        try:
            name, made = (word, MADE[word]()) if word in MADE else of_guest(word)
        except (MachineError, CorpusError, OSError) as error:
            failed.append(word)
            print(f"{word} failed: {error}", file=sys.stderr)
            continue
        path = DISTRIBUTION / f"{name}{SUFFIX}"
        path.write_bytes(packed(made))
        print(f"{path.name}: {len(made)} traces, {path.stat().st_size / 1000:.0f} kB", flush=True)
    write_index(DISTRIBUTION)
    if failed:
        print(f"failed: {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def of_guest(word: str) -> tuple[str, list[Entry]]:
    """Return the name of a kernel's archive, and its entries."""
    kernel, _, directory = word.partition("=")
    if directory:
        return f"guest-{kernel}", entries([kernel], directory=directory)
    with tempfile.TemporaryDirectory() as place:
        corpus.write_down(kernel, Path(place), ProgressPrinter())
        return f"guest-{kernel}", entries(directory=place)


def write_index(directory: Path) -> None:
    """Write the checksums of all archives in a directory, as sha256sum does."""
    files = sorted(directory.glob(f"*{SUFFIX}"))
    rows = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (directory / INDEX).write_text("".join(rows), "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
