"""The simulated machine's memory: what was put there, and zeroes where the kernel has data."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.builds.symbols import SymbolTable
from kprobe_sim.machine.state import TASK_SIZE

_USER_START = 0x7F0000000000  # where a call's strings are put
_DATA_TYPES = frozenset("dDbBrRvV")
_NO_BLOCKS: Mapping[int, bytes] = {}


class Memory:
    """Bytes by address; reading an unmapped address is a fault."""

    def __init__(self, symbols: SymbolTable, contents: Mapping[str, bytes] | None = None) -> None:
        self._symbols = symbols
        self._starts: list[int] = []
        self._blocks: list[bytes | bytearray] = []
        for name, data in (contents or {}).items():
            for symbol in symbols.lookup(name)[:1]:
                self.put(symbol.address, data)

    def put(self, address: int, data: bytes | bytearray) -> None:
        """Map `data` at an address; it hides what was mapped there before.  A bytearray may be changed later."""
        index = bisect_right(self._starts, address)
        if index and self._starts[index - 1] == address:
            self._blocks[index - 1] = data
            return
        self._starts.insert(index, address)
        self._blocks.insert(index, data)

    def stretch(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes of the block at an address; b"" for a fault."""
        index = bisect_right(self._starts, address)
        if index:
            start, block = self._starts[index - 1], self._blocks[index - 1]
            if address < start + len(block):
                return bytes(block[address - start : address - start + size])
        if address < TASK_SIZE:
            return b""
        symbol = self._symbols.containing(address)
        if symbol is None or symbol.type not in _DATA_TYPES:
            return b""
        end = symbol.address + symbol.size
        if index < len(self._starts):
            end = min(end, self._starts[index])
        return b"\0" * min(size, end - address)


class CallMemory:
    """The memory that one call sees: its strings, blocks and stack, then the machine's memory."""

    __slots__ = ("_blocks", "_memory", "_next")

    def __init__(self, memory: Memory, blocks: Mapping[int, bytes] = _NO_BLOCKS) -> None:
        self._memory = memory
        # by address: where the block ends, and its bytes without the zeroes at the end
        self._blocks = {start: (start + len(data), bytes(data)) for start, data in blocks.items()} if blocks else {}
        self._next = _USER_START

    def put_string(self, text: bytes) -> int:
        """Put a string into user memory, NUL then zeroes up to the page's end; return its address."""
        address = self._next
        end = address + -(-(len(text) + 1) // PAGE_SIZE) * PAGE_SIZE
        self._blocks[address] = end, text
        self._next = end + PAGE_SIZE  # an unmapped page between
        return address

    def put(self, address: int, data: bytes, zeroes: int = 0) -> None:
        """Map bytes for the call, followed by a number of zeroes."""
        self._blocks[address] = address + len(data) + zeroes, data

    def overlaid(self, address: int, data: bytes) -> CallMemory:
        """Return this memory with other bytes at an address."""
        other = CallMemory(self._memory)
        other._next = self._next
        other._blocks = dict(self._blocks)
        for start, (end, block) in self._blocks.items():
            if start <= address < end:
                old = block.ljust(end - start, b"\0")
                after = address + len(data)
                other._blocks[start] = end, (old[: address - start] + data + old[after - start :])[: end - start]
                return other
        other.put(address, data)
        return other

    def read(self, address: int, size: int) -> bytes | None:
        """Return `size` bytes at an address, or None for a fault."""
        found = self._stretch(address, size)
        while len(found) < size:
            more = self._stretch(address + len(found), size - len(found))
            if not more:
                return None
            found += more
        return found

    def string(self, address: int, limit: int) -> bytes | None:
        """Return the bytes before the first NUL, at most `limit`; None for a fault before that."""
        for start, (end, block) in self._blocks.items():
            if start <= address < end:  # nearly every string ends in the block in which it begins
                text, nul, _ = block[address - start : address - start + limit].partition(b"\0")
                if nul or len(text) == limit or start + len(block) < end:
                    return text
                break
        content = b""
        while len(content) < limit:
            more = self._stretch(address + len(content), limit - len(content))
            if not more:
                return None
            text, nul, _ = more.partition(b"\0")
            content += text
            if nul:
                break
        return content

    def _stretch(self, address: int, size: int) -> bytes:
        for start, (end, block) in self._blocks.items():
            if start <= address < end:
                found = block[address - start : address - start + size]
                return found if len(found) == size else found.ljust(min(size, end - address), b"\0")
        return self._memory.stretch(address, size)


def banners(banner: str) -> dict[str, bytes]:
    """Return linux_banner, and linux_proc_banner, a format for the system's name, release and version."""
    built = banner[banner.index(" (") : banner.rindex(") #") + 1]
    return {
        "linux_banner": banner.encode() + b"\n\0",
        "linux_proc_banner": f"%s version %s{built} %s\n\0".encode(),
    }
