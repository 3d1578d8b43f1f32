"""`make corpus` imports it: the trace lines of the documents that the project implements, as entries of the corpus.

The truth is what the documents say: the definition above each listing gives the names and types of its arguments, and
the prose gives the base of a kernel's numbers (hexadecimal with 0x, or in older text without).  fixtures/documents has
the lines as printed there; those of readme.* stood in one paragraph, so we chose where they end, and their columns are
lost.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from corpus_apart import Reader, Recording
from corpus_layouts import Layout

from kprobe_corpus.traces.entry import Entry
from kprobe_corpus.traces.writing import made

LISTINGS = Path(__file__).resolve().parents[2] / "fixtures" / "documents"
COLUMNS = (
    rb" *(?P<task>[^\n]+?)-(?P<pid>\d+) +\[(?P<cpu>\d{3})\] (?:(?P<flags>[^\d\s]\S{3}) )? *(?P<stamp>\d+\.\d{6}): "
)
PERF_TOOLS = "https://github.com/brendangregg/perf-tools"
FILE = ("p:myopen do_sys_open filename=+0(%si):string", r" filename=\"%s\"")
RETVAL, RVAL = ("r:myopen do_sys_open $retval", " arg1=0x%Lx"), ("r:myopen do_sys_open rval=$retval", " rval=0x%Lx")
MODE = ("p:myopen do_sys_open mode=%cx:u16", " mode=0x%x")
FORK = (
    "p:doforkprobe _do_fork clone_flags=%ax stack_start=%dx regs=%cx parent_tidptr=+4($stack) child_tidptr=+8($stack)"
)


class Listing(NamedTuple):
    """A listing: the definition above it, and how that makes the kernel print the arguments."""

    definition: str
    shown: str
    link: str | None = PERF_TOOLS
    release: str = ""


# by the names of their files; the first definition of 2009's is of text that had no names of events
ALL = {
    **{
        f"{place}.{name}": Listing(*FILE)
        for place in ("perf-tools", "readme")
        for name in ("filename", "pid", "filter")
    },
    "perf-tools.headings": Listing(*FILE),
    **{f"{place}.retval": Listing(*RETVAL) for place in ("perf-tools", "readme")},
    **{f"{place}.rval": Listing(*RVAL) for place in ("perf-tools", "readme")},
    **{f"{place}.mode": Listing(*MODE) for place in ("perf-tools", "readme")},
    "readme.open": Listing("p:do_sys_open do_sys_open", ""),
    "readme.open-headings": Listing("p:do_sys_open do_sys_open", ""),
    "readme.open-return": Listing("r:do_sys_open do_sys_open", ""),
    "readme.registers": Listing("p:myprobe bio_alloc %ax %bx %cx %dx", " arg1=%Lx arg2=%Lx arg3=%Lx arg4=%Lx"),
    "readme.register-u32": Listing("p:myprobe bio_alloc %ax:u32", " arg1=%x"),
    "readme.register-name": Listing("p:myprobe bio_alloc ax=%ax", " ax=%Lx"),
    "readme.bio-return": Listing("r:myprobe bio_alloc $retval", " arg1=%Lx"),
    "readme.stack": Listing("p:mytcp tcp_init_cwnd", ""),
    "use-case": Listing(
        FORK,
        " clone_flags=0x%Lx stack_start=0x%Lx regs=0x%Lx parent_tidptr=0x%Lx child_tidptr=0x%Lx",
        None,
    ),
    "patch-2009": Listing("", "", None, "2.6.31"),
    "article-2009": Listing("", "", "https://lwn.net/Articles/343766/", "2.6.31"),
}


def documented() -> list[Entry]:
    """Return the entries of all listings; raise `NotAsKnown`."""
    return [entry(name, listing) for name, listing in sorted(ALL.items())]


def entry(name: str, listing: Listing) -> Entry:
    """Make an entry of one listing."""
    text = (LISTINGS / f"{name}.trace").read_bytes()
    event = re.search(r":(\w+)", listing.definition)
    fmt = f'print fmt: "(%lx){listing.shown}", REC->__probe_ip'
    columns = Layout("standard", re.compile(COLUMNS))
    truth = Reader(Recording(text, columns, {event[1]: fmt} if event else {})).records()
    defects = ["columns without their width"] if name.startswith("readme.") or name == "patch-2009" else []
    defects += ["numbers without 0x"] if "%" in listing.shown.replace("0x%", "").replace("%s", "") else []
    defects += ["events without names", "numbers without 0x"] if name == "patch-2009" else []
    defects += ["events without names", "arguments without names"] if name == "article-2009" else []
    defects += ["stacks on one line"] if name == "readme.stack" else []
    about: dict[str, Any] = {
        "kernel": "documents",
        "release": listing.release,
        "scenario": name,
        "options": ["stacktrace"] if name == "readme.stack" else [],
        "clock": "local",
        "source": "document",
        "truth": "read apart",
        "records": {"activity": 0, "read apart": len(truth)},
        "defects": defects,
        "link": listing.link,
    }
    definitions = [listing.definition] if listing.definition else []
    return made(f"documents/{name}", text, truth, about, definitions=definitions)
