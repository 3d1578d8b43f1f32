"""Writes the symbol table of a profile: the contents of /proc/kallsyms, ftrace and the code bytes, searchable in place.

The file: 8 bytes `kprobsym`, u32 number of sections, u32 zero; per section an 8-byte name, u32 start, u32 length; the
sections, each at a multiple of 8.  Everything is little endian.  An address is a u32 offset of 0xffffffff80000000;
offsets under 0x1000000 are absolute addresses (per-CPU symbols before 6.15).

    address   offsets, ascending, aliases in the order of /proc/kallsyms (packed.py says how numbers are packed)
    order     symbols sorted by name, then by position; rank: where in that order a symbol is
    names     in that order, lines, 128 to a chunk; heads: the first of each chunk, lines
    kinds     u8[n], 8192 to a chunk: lines of `kindtab`, `letter module flags`
              module: a line of `modules`, 0 the image; flags: 1 the entry is an ftrace location, 2 it is blacklisted
    regions   u32[3*k]  start, end, module: where a symbol can cover an address
    text      u32[3*k]  start, length, byte at which its bitmap of instruction starts begins
    bits      the bitmaps, 8192 bytes to a chunk
    special   starts of ranges that take no probe; speckind: 8 * length + kind (see instructions.Kind)
    black     u32[2*k]  starts and ends of blacklisted ranges, merged
    ftrace    ftrace locations, ascending
    endbr     functions that start with ENDBR and have no ftrace location after it
    weak                there if lost weak functions are listed by the name of the function before them
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kprobe_vm.recording import packed
from kprobe_vm.recording.instructions import Special, Text

HIGH = 0xFFFF_FFFF_8000_0000
LOW = 0x100_0000
CPU_ENTRY = range(0xFFFF_FE00_0000_0000, 0xFFFF_FE80_0000_0000)  # where each processor's entry code is mapped
CHUNK = 8192
BLOCK = 128
# What stands before a function's ftrace nop on kernels with IBT: ENDBR64, or what the kernel puts over needless ones.
ENDBR = (b"\xf3\x0f\x1e\xfa", b"\x66\x0f\x1f\x00", b"\x0f\x1f\x40\xd6")
# The five-byte nops that kernels put at ftrace locations; up to 5.12 the processor's vendor chose.
NOP5 = (b"\x0f\x1f\x44\x00\x00", b"\x66\x66\x66\x66\x90", b"\x3e\x8d\x74\x26\x00")


class KallsymsEntry(NamedTuple):
    """A line of /proc/kallsyms."""

    address: int
    type: str
    name: str
    module: str


class Module(NamedTuple):
    """A loaded module: where its text is, and the areas of memory in which its symbols are."""

    name: str
    start: int
    end: int
    areas: tuple[tuple[int, int], ...]


def parse_kallsyms(text: str) -> list[KallsymsEntry]:
    """Return the symbols sorted by address, aliases in the order given; those of BPF and of trampolines are left out.

    They come and go while a kernel runs ([bpf], [__builtin__ftrace], [__builtin__kprobes]); or no name finds them, such
    as __entry_SYSCALL_64_trampoline, which 4.19.108 lists and whose probe it refuses with ENOENT.
    """
    entries = []
    for line in text.splitlines():
        place, letter, rest = line.split(" ", 2)
        name, _, module = rest.partition("\t")
        module = module.strip("[]")
        if module == "bpf" or module.startswith("__builtin__"):
            continue
        address = int(place, 16)
        if address not in CPU_ENTRY:
            entries.append(KallsymsEntry(address, letter, name, module))
    entries.sort(key=lambda entry: entry.address)
    return entries


def parse_blacklist(text: str, sections: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Return the ranges of debugfs' kprobes/blacklist and those of the sections, merged and sorted."""
    ranges = list(sections)
    for line in text.splitlines():
        start, _, rest = line.partition("-")
        ranges.append((int(start, 16), int(rest.split()[0], 16)))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def parse_locations(text: str) -> list[int]:
    """Return the addresses of available_filter_functions_addrs (6.5+): lines `address name`."""
    return [int(line.split(" ", 1)[0], 16) for line in text.splitlines()]


class Locations:
    """Finds the ftrace locations that the lines of available_filter_functions stand for.

    The lines are in the order of addresses, so a name that several functions have is resolved by what surrounds it,
    and by a five-byte nop where the call would be.
    """

    def __init__(self, entries: Sequence[KallsymsEntry], texts: Sequence[Text], reserved: Iterable[int] = ()) -> None:
        self._texts = texts
        self._reserved = frozenset(reserved)  # where jump labels are: their nops look the same
        self._addresses = [entry.address for entry in entries]
        self._by_name: dict[tuple[str, str], list[int]] = {}
        for entry in entries:
            self._by_name.setdefault((entry.name, entry.module), []).append(entry.address)

    def find(self, lines: Iterable[str]) -> list[int]:
        """Return the addresses in the order of the lines; raise ValueError for a line that nothing fits."""
        addresses: list[int] = []
        last: dict[str, int] = {}
        for line in lines:
            name, _, module = line.partition(" [")
            module = module.rstrip("]")
            after = last.get(module, 0)
            if name.startswith("__ftrace_invalid_address___"):
                address = self._orphan(int(name.rpartition("___")[2]), after)
            else:
                both = (self._entry(name, module, after), self._inside(name, module, after))
                address = min((addresses for addresses in both if addresses is not None), default=None)
                if address is None:
                    address = self._lost_after(name, module, after) or self._lost_after(name, module, after, step=1)
            if address is None:
                raise ValueError(f"no function fits the ftrace line {line!r} after {after:#x}")
            last[module] = address
            addresses.append(address)
        return addresses

    def _code(self, address: int, size: int) -> bytes:
        for text in self._texts:
            if text.start <= address < text.start + len(text.code):
                return text.code[address - text.start : address - text.start + size]
        return b""

    def _entry(self, name: str, module: str, after: int) -> int | None:
        for address in self._by_name.get((name, module), ()):
            code = self._code(address, 9)
            if code[:5] in NOP5 and address > after:
                return address
            if code[:4] in ENDBR and code[4:9] in NOP5 and address + 4 > after:
                return address + 4
        return None

    def _inside(self, name: str, module: str, after: int) -> int | None:
        """Find a location of a lost function where the kernel (before 6.1) shows the name of the one before it."""
        at = bisect_right(self._addresses, after) - 1
        if at < 0 or self._addresses[at] not in self._by_name.get((name, module), ()):
            return None
        return self._lost(self._addresses[at], after)

    def _lost_after(self, name: str, module: str, after: int, *, step: int = 16) -> int | None:
        """Find a lost function after a named one that has no ftrace location itself; 16: functions are aligned."""
        addresses = (address for address in self._by_name.get((name, module), ()) if address > after)
        locations = (self._lost(address, after, step) for address in addresses)
        return next((location for location in locations if location is not None), None)

    def _lost(self, address: int, after: int, step: int = 16) -> int | None:
        following = bisect_right(self._addresses, address)
        end = self._addresses[following] if following < len(self._addresses) else address
        for location in range((address // step + 1) * step, end, step):
            if location > after and location not in self._reserved and self._code(location, 5) in NOP5:
                return location
        return None

    def _orphan(self, offset: int, after: int) -> int | None:
        """Find a location whose function is gone (a weak one): the nop that far after the symbol before it."""
        index = bisect_right(self._addresses, after - offset)
        while index < len(self._addresses):
            location = self._addresses[index] + offset
            following = bisect_right(self._addresses, self._addresses[index])
            if (
                location > after
                and (following == len(self._addresses) or location < self._addresses[following])
                and self._code(location, 5) in NOP5
            ):
                return location
            index = following
        return None


class KernelSymbols(NamedTuple):
    """The symbols of a kernel, its code, and what its tables say of both: what a symbol table is packed from.

    `image` is [_stext, _end), or the first of the `regions` that are known.  `shows_lost`: available_filter_functions
    shows a lost (weak) function by the name of the one before it (until 6.0).
    """

    entries: Sequence[KallsymsEntry]
    image: tuple[int, int]
    modules: Sequence[Module] = ()
    texts: Sequence[Text] = ()
    special: Sequence[Special] = ()
    blacklist: Sequence[tuple[int, int]] = ()
    locations: Sequence[int] = ()
    shows_lost: bool = False
    regions: Sequence[tuple[int, int]] = ()

    def packed(self) -> bytes:
        """Return the bytes of the symbol table; raise `ValueError` for an address that doesn't fit."""
        offsets = [_offset(entry.address) for entry in self.entries]
        names = [entry.name.encode() for entry in self.entries]
        order = sorted(range(len(names)), key=lambda index: (names[index], index))
        rank = [0] * len(order)
        for index_there, index in enumerate(order):
            rank[index] = index_there
        blocks = [[names[index] for index in order[at : at + BLOCK]] for at in range(0, len(order), BLOCK)]
        module_names = sorted(
            {entry.module for entry in self.entries if entry.module} | {module.name for module in self.modules}
        )
        number = {name: index for index, name in enumerate(["", *module_names])}
        traced = sorted(self.locations)
        kinds: dict[str, int] = {}
        kind_of = bytearray()
        for entry in self.entries:
            index_there = bisect_left(traced, entry.address)
            entered = index_there < len(traced) and traced[index_there] - entry.address in (0, 4)
            black = any(first <= entry.address < last for first, last in self.blacklist)
            line = f"{entry.type} {number[entry.module]} {entered | black << 1}"
            kind_of.append(kinds.setdefault(line, len(kinds)))
        covered = array("I", [self.image[0] - HIGH, self.image[1] - HIGH, 0])
        for first, last in self.regions:
            covered.extend([first - HIGH, last - HIGH, 0])
        for module in self.modules:
            for first, last in module.areas:
                covered.extend([first - HIGH, last - HIGH, number[module.name]])
        bits, text_table = bytearray(), array("I")
        for text in self.texts:
            text_table.extend([text.start - HIGH, len(text.code), len(bits)])
            bits += text.bits
        sections = {
            "address": packed.ascending(offsets),
            "order": packed.numbers(order),
            "rank": packed.numbers(rank),
            "heads": b"\n".join(block[0] for block in blocks),
            "names": packed.texts([b"\n".join(block) for block in blocks]),
            "kinds": packed.texts(_chunks(bytes(kind_of))),
            "kindtab": "\n".join(kinds).encode(),
            "modules": "\n".join(module_names).encode(),
            "regions": covered.tobytes(),
            "text": text_table.tobytes(),
            "bits": packed.texts(_chunks(bytes(bits))),
            "special": packed.ascending([entry.start - HIGH for entry in self.special]),
            "speckind": packed.numbers([8 * entry.length + entry.kind for entry in self.special]),
            "black": array("I", (bound - HIGH for pair in self.blacklist for bound in pair)).tobytes(),
            "ftrace": packed.ascending([address - HIGH for address in traced]),
            "endbr": packed.ascending([address - HIGH for address in untraced(self.entries, self.texts, traced)]),
        }
        if self.shows_lost:
            sections["weak"] = b"shown"
        return packed.file(b"kprobsym", sections)


def untraced(entries: Iterable[KallsymsEntry], texts: Iterable[Text], locations: Iterable[int]) -> list[int]:
    """Return the addresses of functions that start with ENDBR and have no ftrace location, ascending."""
    traced = frozenset(locations)
    lacking = set()
    starts = {entry.address for entry in entries}
    for text in texts:
        for start in starts:
            offset = start - text.start
            if offset >= 0 and text.code[offset : offset + 4] in ENDBR and start + 4 not in traced:
                lacking.add(start)
    return sorted(lacking)


def _chunks(data: bytes) -> list[bytes]:
    return [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]


def _offset(address: int) -> int:
    offset = address if address < LOW else address - HIGH
    if not 0 <= offset < 1 << 32 or (address >= HIGH and offset < LOW):
        raise ValueError(f"address {address:#x} doesn't fit the table")
    return offset
