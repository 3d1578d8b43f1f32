"""Tests run it on every Python: one digest of all records read from the corpus, which must be the same everywhere.

    python3 tools/corpus/record_digest.py                    all archives: a line for each, and one for all
    python3 tools/corpus/record_digest.py guest-6.12         only these
    python3 tools/corpus/record_digest.py --altered 20       also 20 altered pieces of each text

It needs the standard library and this checkout alone.  Each text is read twice: with and without what is known of its
events.  The altered pieces are the same on every interpreter: of `random` only the sequence of `random()` is promised
to stay.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kprobe_corpus.traces.archive import entries_of_archive  # noqa: E402 - this checkout's, whatever is installed
from kprobe_corpus.traces.entry import Entry  # noqa: E402
from kprobe_text.text import Record, parse  # noqa: E402

CORPUS = ROOT / "distributions" / "kprobe-corpus" / "src" / "kprobe_corpus_data"
# so many lines has an altered piece
PIECE = 30
ODD = [b"+0x1/0x2", b": (f", b'" a=1', b" <-", b"[x]", b"", *(bytes([byte]) for byte in b' \n:()"}<0\xff')]


def shown(record: Record) -> bytes:
    """Return a record as text that is the same in every process: a set has no order."""
    values = [sorted(value) if isinstance(value, frozenset) else value for value in record]
    return repr((type(record).__name__, values)).encode("utf-8", "surrogateescape")


def altered(text: bytes, count: int, seed: str) -> Iterator[bytes]:
    """Yield pieces of a text in which something stands elsewhere, is missing or too much."""
    random = Random(seed)
    lines = text.splitlines(keepends=True)
    for _ in range(count if lines else 0):
        at = int(random.random() * len(lines))
        piece = b"".join(lines[at : at + PIECE])
        for _ in range(1 + int(random.random() * 12)):
            place = int(random.random() * len(piece))
            gone = int(random.random() * 4) ** 2
            piece = piece[:place] + ODD[int(random.random() * len(ODD))] + piece[place + gone :]
        yield piece


def texts(entry: Entry, count: int) -> Iterator[bytes]:
    """Yield what is read of an entry."""
    yield entry.text
    yield from altered(entry.text, count, f"{entry.kernel}/{entry.name}")


def main(arguments: list[str]) -> int:
    """Print the digests."""
    archives = sorted(CORPUS.glob("*.tar.xz"))
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("archives", nargs="*", default=[path.name.partition(".tar")[0] for path in archives])
    options.add_argument("--altered", type=int, default=0, metavar="N")
    asked = options.parse_args(arguments)
    total, entries, records = sha256(), 0, 0
    for name in asked.archives:
        digest, chosen, found = sha256(), list(entries_of_archive(str(CORPUS / f"{name}.tar.xz"))), 0
        for entry in chosen:
            for text in texts(entry, asked.altered):
                for record in (*parse(text, entry.formats, definitions=entry.definitions), *parse(text)):
                    digest.update(shown(record) + b"\n")
                    found += 1
        print(f"{name:10} {len(chosen):5} texts {found:8} records {digest.hexdigest()}", flush=True)
        total.update(digest.digest())
        entries, records = entries + len(chosen), records + found
    print(f"{'all':10} {entries:5} texts {records:8} records {total.hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
