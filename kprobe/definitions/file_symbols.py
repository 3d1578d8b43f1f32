"""The offset of a function in a program or library of this machine, as a user-space probe needs it (ELF, 64 bits)."""

from __future__ import annotations

from struct import Struct

HEADER = Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr; the layouts are those of elf(5)
SEGMENT = Struct("<IIQQQQQQ")  # Elf64_Phdr
SECTION = Struct("<IIQQQQIIQQ")  # Elf64_Shdr
SYMBOL = Struct("<IBBHQQ")  # Elf64_Sym
LOADED, TABLES, FUNCTION = 1, (2, 11), 2  # PT_LOAD; SHT_SYMTAB, SHT_DYNSYM; STT_FUNC
MOST = 1 << 28  # most bytes of a file that are read


def offset(path: str, name: str) -> int | None:
    """Return the offset of a function's code in a file; None if it can't be read, isn't ELF, or lacks it."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST)
    except OSError:
        return None
    try:
        return _offset(data, name.encode())
    except (ValueError, IndexError, ArithmeticError, MemoryError):
        return None
    except Exception as error:  # struct.error: the file is cut short
        if type(error).__name__ != "error":
            raise
        return None


def _offset(data: bytes, name: bytes) -> int | None:
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    header = HEADER.unpack_from(data)
    segments, sections, segment_size, segment_count, section_size, section_count = *header[5:7], *header[9:13]
    tables = [SECTION.unpack_from(data, sections + at * section_size) for at in range(section_count)]
    for table in tables:
        if table[1] not in TABLES:
            continue
        names = tables[table[6]][4]
        for at in range(table[4], table[4] + table[5], SYMBOL.size):
            label, info, _, section, value, _ = SYMBOL.unpack_from(data, at)
            if info & 15 == FUNCTION and section and data.startswith(name + b"\0", names + label):
                for index in range(segment_count):
                    kind, _, start, address, _, size, _, _ = SEGMENT.unpack_from(data, segments + index * segment_size)
                    if kind == LOADED and address <= value < address + size:
                        return int(value - address + start)
    return None
