"""Developers run `make changes` when a profile or gate changes: what each kernel changed; docs/evidence/changes.md.

Usage: changes.py [--check [BEFORE AFTER]].  It asks all kernels that can be simulated, in their order.  `--check`
compares the page with what would be written now: all sections whose two kernels can be simulated here, or that of two
kernels.  Five kernels come with the package; docs/guides/profiles.md says where to get others.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kprobe_lab.changes.compare import comparison
from kprobe_lab.changes.compare_text import markdown, sources
from kprobe_lab.changes.contrast import Comparison
from kprobe_lab.changes.kernels import in_line
from kprobe_vm.host.progress import ProgressPrinter

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "changes.md"
HEAD = """\
# What changed in tracefs, from kernel to kernel

No change log lists what programs see change: an errno, a message, a caret, a line that is listed otherwise. Here the
neighbours among the kernels that were recorded in full, Debian's from 5.10 on, are asked the same operations, with the
newest function that opens files on both. A table has what they answer otherwise:

- *operation*: one of each kind, to be pasted into a root shell in `/sys/kernel/tracing`, and how many more are like it
- *before*, *after*: the errno, error_log's messages with the caret's column (from 0), or what is read then; of the
  questions at the end of a table what they look for
- *row*: what it comes from, found by simulating either kernel with this row alone as the other has it; the sources are
  [at the end](#rows)

`kprobe-vm compare 6.1 6.12` shows all of it, with carets and read-backs, `kprobe-vm bisect 'OPERATION'` all kernels'
answers to one operation. Both take guests: `compare vm:6.1 vm:6.12`, `bisect --guests`. So 6.16 to 7.0 say `Invalid
$-valiable specified`, 6.16 to 7.1 refuse `.percent`, and `char` is `signed:0` in formats from 6.12 on.

What the page can't show:

- what nobody asked: operations are those of `vm/kprobe_lab/changes/corpus.txt`, the files, their modes, and the formats
  of events of 14 subsystems; filters and histograms are asked how they are read, not what they match and count
- which commit it was, or whether kernels of others have it: a build has the changes of its stable series, of Debian,
  and what its configuration makes of it
- when it was, between two neighbours
- guests' own words: simulators answer here. `kprobe-vm compare sim:6.1 vm:6.1` holds them to a guest: of 23,700
  operations on 13 guests two differed, since repaired

Written by `make changes`; a test holds the newest section to the simulators.
"""
ROWS = "## Rows"


def pairs() -> Iterator[tuple[str, str]]:
    """Return the specs of neighbours: from version to version, then the other flavours of one."""
    places = in_line()
    line = [place.spec for place in places if not place.beside]
    yield from itertools.pairwise(line)
    main = ""
    for place in places:
        if place.beside:
            yield main, place.spec
        else:
            main = place.spec


def sections(found: Sequence[Comparison]) -> dict[str, str]:
    """Return the sections of a page by their headings."""
    return split("\n".join(line for one in found for line in markdown(one)))


def split(page: str) -> dict[str, str]:
    """Return the sections of a page by their headings, without that of the rows."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    return {part.splitlines()[0]: part.strip() for part in parts if part.startswith("## ") and ROWS not in part}


def main(words: Sequence[str]) -> int:
    """Write the page, or check it; return 0 if it is as it should be."""
    wanted = [(words[1], words[2])] if words[1:] else list(pairs())
    found = [comparison(before, after, ProgressPrinter()) for before, after in wanted]
    made = sections(found)
    if words[:1] == ["--check"]:
        written = split(PAGE.read_text("utf-8"))
        old = [title for title, text in made.items() if title in written and written[title] != text]
        print(f"{PAGE.name}: {len(written)} sections, {len(made)} looked at", *old, sep="\n", file=sys.stderr)
        return int(bool(old) or not made.keys() & written.keys())
    rows = f"{ROWS}\n\n" + "\n".join(sources(found))
    PAGE.write_text("\n\n".join([HEAD.strip(), *made.values(), rows]) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
