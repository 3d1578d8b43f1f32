"""The outside of a profile file: a header that describes its contents, and the compressed body.

The file: lines `kprobe-sim profile FORMAT`, `release`, `version`, `unpacked` (the bytes of the body), `length` (those
of the compressed body), `sha256` (of all lines before it and of that), an empty line, the compressed body (xz).

To open a file that was unpacked before, only its head is read; nothing is imported for that.
"""

from __future__ import annotations

from kprobe_sim.named_tuple import NamedTuple

FORMAT = 1
LONGEST = 16 << 20  # bytes of a file; the largest kernel that was recorded takes 3 MB
LARGEST = 96 << 20  # bytes of a body; that kernel's is 15 MB
HEAD_SIZE = 512  # no head is longer
TITLE = "kprobe-sim profile "
_MEMORY = 96 << 20  # bytes that unpacking may take beside the body


class Head(NamedTuple):
    """What the head of a profile file says; `text` are its bytes."""

    text: bytes
    release: str
    version: str
    unpacked: int
    length: int
    sha256: str

    @property
    def size(self) -> int:
        """The bytes of the whole file."""
        return len(self.text) + self.length


def read_head(start: bytes) -> Head:
    """Read the head from the first `HEAD_SIZE` bytes of a file.  Raises ValueError with what is wrong with it."""
    text, end, _ = start.partition(b"\n\n")
    title, *lines = text.decode("latin-1").split("\n")
    if not title.startswith(TITLE):
        raise ValueError("not a profile of kprobe-sim")
    number = title.removeprefix(TITLE)
    if number != str(FORMAT):
        raise ValueError(f"a profile in format {number[:12]!r}; this kprobe-sim reads format {FORMAT}")
    try:
        release, version, unpacked, length, sha256 = (line.partition(" ")[2] for line in lines)
        head = Head(text + end, release, version, int(unpacked), int(length), sha256)
    except ValueError:
        raise ValueError("damaged: its head can't be read") from None
    if _lines(*head[1:5]) + f"sha256 {sha256}\n\n" != head.text.decode("latin-1") or not _is_digest(sha256):
        raise ValueError("damaged: its head can't be read")
    if not 0 < head.size <= LONGEST or not 0 < head.unpacked <= LARGEST:
        raise ValueError(f"too large: {head.size} bytes, {head.unpacked} unpacked; no kernel's profile is")
    return head


def _lines(release: str, version: str, unpacked: int, length: int) -> str:
    """Return the lines of a head before the checksum."""
    first = f"{TITLE}{FORMAT}\nrelease {release}\nversion {version}\n"
    return first + f"unpacked {unpacked}\nlength {length}\n"


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def check_size(head: Head, size: int) -> None:
    """Raise ValueError for a file that isn't as long as its head says."""
    if size < head.size:
        raise ValueError(f"truncated: it has {size} of {head.size} bytes")
    if size > head.size:
        raise ValueError(f"damaged: it has {size} bytes, and should have {head.size}")


def seal(release: str, version: str, body: bytes) -> bytes:
    """Return the file of a body; the same body gives the same file."""
    import lzma

    # The best on all recorded kernels: texts outweigh numbers, so a byte's position in a word of four doesn't matter.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 4, "pb": 0, "dict_size": 16 << 20}]
    packed = lzma.compress(body, check=lzma.CHECK_NONE, filters=filters)
    lines = _lines(release, version, len(body), len(packed)).encode()
    return b"%bsha256 %b\n\n%b" % (lines, _digest(lines, packed).encode(), packed)


def opened(data: bytes) -> tuple[Head, bytes]:
    """Return the head and the body of a file.  Raises ValueError with the reason for a damaged one."""
    import lzma

    head = read_head(data[:HEAD_SIZE])
    check_size(head, len(data))
    packed = data[len(head.text) :]
    if _digest(head.text.partition(b"sha256 ")[0], packed) != head.sha256:
        raise ValueError("damaged: its checksum is another than the head says")
    try:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY)
        body = decompressor.decompress(packed, head.unpacked + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise ValueError(f"damaged: {error}") from error
    if len(body) != head.unpacked or not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"damaged: it doesn't unpack to {head.unpacked} bytes")
    return head, body


def start_of(packed: bytes, most: int) -> bytes:
    """Return the first bytes of a compressed body, as many as asked for or as can be unpacked."""
    import lzma

    try:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY).decompress(packed, most)
    except (lzma.LZMAError, EOFError):  # opening the profile reports why
        return b""


def _digest(lines: bytes, packed: bytes) -> str:
    import hashlib

    digest = hashlib.sha256(lines)
    digest.update(packed)
    return digest.hexdigest()
