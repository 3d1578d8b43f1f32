"""Developers run it when the profile format changes: profiles of kernels that only documents describe.

    tools/old_kernels/document_profiles.py [DIRECTORY]

It writes kprobe_sim/builds/documents.  Such a profile holds what a document of scenarios/replays/seeds shows or names,
and what the simulator can't do without.  Its facts `document` and `made_up` say which is which.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kprobe_vm.recording import profilefile
from kprobe_vm.recording.instructions import Text
from kprobe_vm.recording.symboltable import HIGH, KallsymsEntry, KernelSymbols

DOCUMENTS = Path(__file__).parents[2] / "kprobe_sim" / "builds" / "documents"
_IMAGE = (0xFFFFFFFF81000000, 0xFFFFFFFF81400000)
_TRAMPOLINE = 0xFFFFFFFF81367A3A  # what `ra` is in the listings
# name, address, size in bytes, and the offsets at which instructions are known to begin
_FUNCTIONS = (
    ("before_do_sys_open", 0xFFFFFFFF810E4F00, 0x100, (0, *range(0xF0, 0x100))),  # the last are nops of one byte
    ("do_sys_open", 0xFFFFFFFF810E5000, 0xD6, (0, 4)),
    ("sys_open", 0xFFFFFFFF810E50D6, 0x1D, (0, 0x1B)),
    ("sys_openat", 0xFFFFFFFF810E50F3, 0xE, (0, 0xC)),
    ("kretprobe_trampoline", _TRAMPOLINE, 0x40, (0,)),
)
_DIR, _WRITE, _READ = 0o040755, 0o100644, 0o100444
_TOP = {
    "current_tracer": _WRITE,
    "kprobe_events": _WRITE,
    "kprobe_profile": _READ,
    "trace": _WRITE,
    "trace_pipe": _READ,
    "tracing_on": _WRITE,
    "events": _DIR,
}
_EVENT = {"enabled": _WRITE, "filter": _WRITE, "format": _READ, "id": _READ}
_MADE_UP = (
    "addresses of functions, but for the trampoline of return probes, and what isn't named in the documents",
    "where instructions begin, but for entries and the places that the documents' calls return to; the code before "
    "do_sys_open",
    "the files trace_pipe and tracing_on, and the modes of all: as 3.2 has them",
    "the columns of kprobe_profile: as 3.2 has them",
    "how the name of an event is made of its place: as 2.6.33 does it",
    "tasks, the size of the buffer, the number of CPUs",
)
# by the name of the profile: the version that the patch was for, and of which document it is
_PROFILES: Mapping[str, tuple[str, str]] = {
    "2.6.32-2009": ("2.6.32", "tracer-2009"),
    "2.6.31-2009-v13": ("2.6.31", "lwn-2009"),
}
# the kernel of 32 bits: of it the document shows a definition, a place and the files of an event; the sign bit of its
# addresses is extended
_I386 = "3.13.0-i386"
_I386_IMAGE = (0xFFFFFFFFC1000000, 0xFFFFFFFFC1800000)
_I386_FUNCTIONS = (("_do_fork", 0xFFFFFFFFC102BAC0, 0x3C0, (0,)), ("do_sys_open", 0xFFFFFFFFC1150000, 0xD6, (0,)))
_I386_GROUP = {"enable": _WRITE, "filter": _WRITE}
_I386_EVENT = {"enable": _WRITE, "filter": _WRITE, "format": _READ, "id": _READ}
_I386_MADE_UP = (
    "the release: that of the recorded kernel that lists these files; and its answers, but for what 32 bits change",
    "addresses of functions, but for _do_fork, and which there are",
    "the files at the top: what the document uses, and README, without its text; the modes of all: as 3.13 has them",
    "tasks, options, the size of the buffer, the number of CPUs",
)
# the other kernel of that document, of x86-64: of it the document shows a trace, and names functions
_VENDOR = "4.4.0-wind-river"
_VENDOR_FUNCTIONS = (
    ("_do_fork", 0xFFFFFFFF81060000, 0x3C0, (0,)),
    ("do_dentry_open", 0xFFFFFFFF81120000, 0x300, (0,)),
    ("do_sys_open", 0xFFFFFFFF81121000, 0x200, (0,)),
)
_VENDOR_OPTIONS = (
    *("print-parent", "annotate", "context-info", "record-cmd", "overwrite", "irq-info", "markers"),
    *("!sym-offset", "!sym-addr", "!verbose", "!raw", "!hex", "!bin", "!block", "!latency-format", "!stacktrace"),
)
_VENDOR_MADE_UP = (
    "the release: that of a recorded kernel with such columns; and its answers, but for those of a preemptible kernel",
    "addresses of functions, the sizes of all but _do_fork, and which there are",
    "the files at the top: what the document uses, and README, without its text; modes and options: as 4.4 has them",
    "tasks, the size of the buffer",
)


def _entries(files: Mapping[str, int]) -> list[list[Any]]:
    return [[name, mode, 0, 0, 1 if mode != _DIR else 2] for name, mode in files.items()]


def _symbols(
    image: tuple[int, int],
    functions: Sequence[tuple[str, int, int, tuple[int, ...]]],
    black: Sequence[tuple[int, int]],
    traced: Sequence[int],
) -> bytes:
    entries = [KallsymsEntry(image[0], "T", "_stext", "")]
    texts = []
    starts = {address for _, address, _, _ in functions}
    for name, address, size, begins in functions:
        entries.append(KallsymsEntry(address, "T", name, ""))
        if address + size not in starts:  # what follows is another one, which has a name
            entries.append(KallsymsEntry(address + size, "t", f"after_{name}", ""))
        bits = bytearray(-(-size // 8))
        for offset in begins:
            bits[offset >> 3] |= 1 << (offset & 7)
        texts.append(Text(address, bytes(size), bits))
    entries.append(KallsymsEntry(image[1] - 16, "B", "_end", ""))
    entries.sort(key=lambda one: one.address)
    assert all(one.address >= HIGH for one in entries)
    return KernelSymbols(entries, image, [], texts, [], black, traced).packed()


def _facts(release: str, version: str, document: str, made_up: Sequence[str]) -> dict[str, Any]:
    return {
        "release": release,
        "version": version,
        "banner": f"Linux version {release} (unknown) (unknown) #1 SMP",
        "document": document,
        "made_up": list(made_up),
        "cpus": 2,
        "page_size": 4096,
        "first_dynamic_id": 75,
        "second_dynamic_id": 76,
        "options": [["context-info", True], ["record-cmd", True]],
        "clocks": ["local"],
        "default_clock": "local",
        "tracers": ["nop"],
        "buffer_size_kb": "1408\n",
        "buffer_size_kb_expanded": 1408,
        "buffer_total_size_kb_expanded": 2816,
        "saved_cmdlines_size": 128,
        "preempt_model": "server",
        "chains": {"do_sys_open": ["sys_open+0x1b"]},
        "modules": [],
        "tasks": [[1, "init"]],
        "config": None,
        "root_mode": 0o755,
        "answers": {},
        "errors": {},
    }


def _put(place: Path, facts: Mapping[str, Any], tree: Mapping[str, list[list[Any]]], symbols: bytes) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "profile.json").write_bytes(profilefile.json_bytes(facts) + b"\n")
    (place / "tracefs.bin").write_bytes(profilefile.pristine_tracefs({}, tree, {}))
    (place / "symbols.bin").write_bytes(symbols)


def write(directory: Path) -> None:
    """Write all of them below a directory."""
    first = _symbols(
        _IMAGE,
        _FUNCTIONS,
        [(_TRAMPOLINE, _TRAMPOLINE + 0x40)],
        [address for name, address, _, _ in _FUNCTIONS if "sys_open" in name],
    )
    tree = {"": _entries(_TOP), "events": [], "events/*": [], "events/*/*": _entries(_EVENT)}
    for release, (version, document) in _PROFILES.items():
        _put(directory / release, _facts(release, version, document, _MADE_UP), tree, first)
    facts = _facts(_I386, "3.13.0", "wind-river", _I386_MADE_UP) | {"answers": {"word_size": 4}, "chains": {}}
    tree = {
        "": _entries({"README": _READ, **_TOP}),
        "events": [],
        "events/*": _entries(_I386_GROUP),
        "events/*/*": _entries(_I386_EVENT),
    }
    traced = [address for _, address, _, _ in _I386_FUNCTIONS]
    _put(directory / _I386, facts, tree, _symbols(_I386_IMAGE, _I386_FUNCTIONS, [], traced))
    facts = _facts(_VENDOR, "4.4.0", "wind-river", _VENDOR_MADE_UP) | {
        "answers": {"plain_entry": [1, 1]},  # d..1: built with CONFIG_PREEMPT
        "chains": {},
        "cpus": 1,
        "options": [[name.lstrip("!"), not name.startswith("!")] for name in _VENDOR_OPTIONS],
    }
    traced = [address for _, address, _, _ in _VENDOR_FUNCTIONS]
    _put(directory / _VENDOR, facts, tree, _symbols(_IMAGE, _VENDOR_FUNCTIONS, [], traced))


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENTS)
