"""Asks a kernel for all that a simulated one must know about it, and writes that down.

Recording needs no knowledge of the kernel's version.  The code bytes come from the running kernel, so they are as its
alternatives were patched for the machine that it runs on.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kprobe_vm.host.progress import Progress
from kprobe_vm.recording import btf, chains, profilefile
from kprobe_vm.recording.functions import functions
from kprobe_vm.recording.gates import Differences, check
from kprobe_vm.recording.gates import ask as ask_differences
from kprobe_vm.recording.guest import Guest, Tree
from kprobe_vm.recording.instructions import (
    Kind,
    ReadMemory,
    Special,
    Text,
    bugs,
    decode,
    jump_labels,
    merge,
    static_calls,
)
from kprobe_vm.recording.questions import Memory, ask
from kprobe_vm.recording.symboltable import (
    KallsymsEntry,
    KernelSymbols,
    Locations,
    Module,
    parse_blacklist,
    parse_kallsyms,
    parse_locations,
)

PAGE = 4096


def record(guest: Guest, into: Path, *, config: str | None = None, progress: Progress = lambda text: None) -> Path:
    """Record a guest's profile in a directory below `into`, named for its release; return that directory.

    `config` is the text of the kernel's configuration, for a kernel that doesn't have /proc/config.gz.  An older
    recording of the same release is replaced, and only once the new one is whole.  After that raise
    `UnknownAnswers` if the kernel answers a question in a way that isn't known.
    """
    answers = asked(guest, progress)
    written = write_down(guest, answers.answers, into, config, progress)
    check(answers.differences)
    return written


class Asked(NamedTuple):
    """All that a guest said, by the names of the answers; and how it differs from other kernels."""

    answers: Mapping[str, bytes]
    differences: Differences


def asked(guest: Guest, progress: Progress) -> Asked:
    """Ask a guest everything; after that nothing more is written to its files."""
    answers = ask(guest, progress)
    progress("asking for call chains")
    answers["chains"] = json.dumps(chains.ask(guest, functions(answers["kallsyms"].decode()))).encode()
    differences = ask_differences(guest, answers["version"].decode().strip(), progress)
    answers["answers"] = json.dumps(dict(differences.values)).encode()
    return Asked(answers, differences)


def write_down(files: Tree, answers: Mapping[str, bytes], into: Path, config: str | None, progress: Progress) -> Path:
    """Write a profile from a guest's answers, and its memory as its files show it; return its directory."""
    memory = Memory(files)
    try:
        if config is None and "config.gz" in answers:
            config = gzip.decompress(answers["config.gz"]).decode()
        if config is None:
            progress("its configuration isn't known: it has no /proc/config.gz, and no file was given (--config)")
        return write_profile(into, answers, memory.read, config, progress)
    finally:
        memory.close()


def write_profile(
    into: Path, answers: Mapping[str, bytes], read: ReadMemory, config: str | None, progress: Progress
) -> Path:
    """Write a profile from a guest's answers and its memory; return its directory."""
    release = answers["version"].decode().split()[2]
    with tempfile.TemporaryDirectory(dir=into, prefix=".recording-") as directory:
        fresh = Path(directory, release)
        fresh.mkdir()
        profilefile.write(fresh, answers, config)
        entries = parse_kallsyms(answers["kallsyms"].decode())
        (fresh / "symbols.bin").write_bytes(symbols(entries, answers, read, progress))
        if "btf" in answers:
            progress("reading prototypes")
            names = [entry.name for entry in entries]
            (fresh / "prototypes.bin").write_bytes(btf.prototypes(btf.Btf(answers["btf"]), names, fields=True))
        target = into / release
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
    return target


def symbols(entries: list[KallsymsEntry], answers: Mapping[str, bytes], read: ReadMemory, progress: Progress) -> bytes:
    """Return the symbol table of a guest."""
    where: dict[str, int] = {}
    for entry in entries:
        if not entry.module:
            where.setdefault(entry.name, entry.address)
    progress("decoding the kernel's text")
    starts = [entry.address for entry in entries]
    image = decode(where["_stext"], read(where["_stext"], where["_etext"] - where["_stext"]), starts)
    texts = [image]
    special = list(image.special) + list(_reserved(where, read, image))
    modules = _modules(answers["modules"].decode(), entries)
    for module in modules:
        text = decode(module.start, read(module.start, module.end - module.start), starts)
        texts.append(text)
        special += [*text.special, *_reserved_in_module(module, answers["sections"].decode(), read, text)]
    progress("finding the ftrace locations")
    if "files/available_filter_functions_addrs" in answers:
        locations = parse_locations(answers["files/available_filter_functions_addrs"].decode())
    else:
        lines = answers["files/available_filter_functions"].decode().splitlines()
        reserved = (entry.start for entry in special if entry.kind is Kind.RESERVED)
        locations = Locations(entries, texts, reserved).find(lines)
    blacklist = parse_blacklist(
        answers["blacklist"].decode(), [(where[a], where[b]) for a, b in SECTIONS if a in where]
    )
    bounds = where["_stext"], where["_end"]
    shows_lost = b"__ftrace_invalid" not in answers["files/available_filter_functions"]
    return KernelSymbols(
        entries, bounds, modules, texts, merge(special), blacklist, locations, shows_lost=shows_lost
    ).packed()


# Which functions of the image bound a table, which section of a module holds it, and what reads it.
TABLES: tuple[tuple[str, str, str, Callable[[ReadMemory, int, int, Text], list[Special]]], ...] = (
    ("__start___jump_table", "__stop___jump_table", "__jump_table", jump_labels),
    ("__start_static_call_sites", "__stop_static_call_sites", ".static_call_sites", static_calls),
    ("__start___bug_table", "__stop___bug_table", "__bug_table", bugs),
)


# No probe stands in these; before 5.0 debugfs' kprobes/blacklist doesn't list them (arch_within_kprobe_blacklist()).
SECTIONS = (("__kprobes_text_start", "__kprobes_text_end"), ("__entry_text_start", "__entry_text_end"))


def _reserved(where: Mapping[str, int], read: ReadMemory, text: Text) -> Iterable[Special]:
    for first, last, _, reader in TABLES:
        if first in where and last in where:
            yield from reader(read, where[first], where[last], text)


def _reserved_in_module(module: Module, sections: str, read: ReadMemory, text: Text) -> Iterable[Special]:
    """As `_reserved`; a module's table is known by its start, and ends where the next section starts, or the page."""
    starts: dict[str, int] = {}
    for line in sections.splitlines():
        path, _, address = line.rpartition(":")
        if path.split("/")[-3:-1] == [module.name, "sections"]:
            starts[path.rpartition("/")[2]] = int(address, 16)
    for _, _, name, reader in TABLES:
        if name in starts:
            first = starts[name]
            last = min([address for address in starts.values() if address > first], default=first | PAGE - 1)
            yield from reader(read, first, min(last, _whole_pages(first + 1)), text)


def _modules(text: str, entries: Iterable[KallsymsEntry]) -> list[Module]:
    """Return where the loaded modules are, by /proc/modules and their symbols.

    The text goes from the base to the page after the last function.  Up to 6.3 a module is one area of memory; later
    its data may be elsewhere, and those areas are taken to be the pages that hold a symbol.
    """
    modules = []
    for line in text.splitlines():
        name, size, *_, base = line.split()[:6]
        start = int(base, 16)
        symbols = [entry for entry in entries if entry.module == name]
        last = max((entry.address for entry in symbols if entry.type in "tTwW"), default=start)
        end = start + _whole_pages(int(size))
        areas = [(start, end)]
        for entry in symbols:
            if not start <= entry.address < end:
                page = entry.address & -PAGE
                if page > areas[-1][1]:
                    areas.append((page, page + PAGE))
                else:
                    areas[-1] = (areas[-1][0], max(areas[-1][1], page + PAGE))
        if len(areas) > 1:  # the size is that of all areas
            inside = [entry.address for entry in symbols if start <= entry.address < end]
            areas[0] = (start, _whole_pages(max([*inside, last]) + 1))
        modules.append(Module(name, start, min(_whole_pages(last + 1), end), tuple(areas)))
    return modules


def _whole_pages(size: int) -> int:
    return (size + PAGE - 1) & -PAGE
