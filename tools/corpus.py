"""Make the archives of distributions/kprobe-corpus, and the index of their checksums.

Usage: corpus.py [ARCHIVE ...]; an ARCHIVE is recorded (the traces in fixtures/text) or documents (the lines in
fixtures/documents); without one it is all.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from corpus_documents import documented
from corpus_recorded import recorded

from kprobe.corpus.entry import Entry
from kprobe.corpus.writing import packed

DISTRIBUTION = Path(__file__).resolve().parent.parent / "distributions" / "kprobe-corpus" / "src" / "kprobe_corpus"
INDEX = "SHA256SUMS"
SUFFIX = ".tar.xz"

ARCHIVES: dict[str, Callable[[], list[Entry]]] = {"recorded": recorded, "documents": documented}


def main(words: Sequence[str]) -> int:
    """Make what is named, and write the index; return 2 for a name that isn't one."""
    unknown = [word for word in words if word not in ARCHIVES]
    if unknown:
        print(f"no archive {' '.join(unknown)}; there are {', '.join(ARCHIVES)}", file=sys.stderr)
        return 2
    for name in words or ARCHIVES:
        entries = ARCHIVES[name]()
        path = DISTRIBUTION / f"{name}{SUFFIX}"
        path.write_bytes(packed(entries))
        print(f"{path.name}: {len(entries)} traces, {path.stat().st_size / 1000:.0f} kB", flush=True)
    write_index(DISTRIBUTION)
    return 0


def write_index(directory: Path) -> None:
    """Write the checksums of all archives in a directory, as sha256sum does."""
    files = sorted(directory.glob(f"*{SUFFIX}"))
    rows = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (directory / INDEX).write_text("".join(rows), "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
