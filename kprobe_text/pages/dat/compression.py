"""The compression of parts of a trace.dat: zlib, or zstd with whichever library for it is installed."""

import zlib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final

from kprobe_text.pages.bounds import FORMATS, KALLSYMS
from kprobe_text.pages.dat.cursor import NotTraceDat

# The standard library's from 3.14 on, the same for older Pythons, and the one of the extra [bulk].
ZSTD: Final = ("compression.zstd", "backports.zstd", "zstandard")
LARGEST: Final = max(KALLSYMS, 2 * FORMATS)  # bytes that one part may become


def unpacker(name: str) -> Callable[[bytes, int], bytes]:
    """Return a function of (packed bytes, unpacked size) for a compression that a trace.dat names.

    Raises NotTraceDat if no library here can unpack it; the function raises it if the size is wrong.
    """
    if name == "zlib":
        unpack: Callable[[bytes, int], bytes] = _zlib
    elif name == "zstd":
        unpack = _zstd()
    else:
        raise NotTraceDat(f"it is packed by {name!r}: zlib and zstd can be read, and what isn't packed")

    def checked(packed: bytes, size: int) -> bytes:
        if size > LARGEST:
            raise NotTraceDat(f"a packed part of {len(packed)} bytes would become {size}, more than {LARGEST}")
        try:
            data = unpack(packed, size)
        except Exception as error:  # each library has its own errors
            raise NotTraceDat(f"a part packed by {name} can't be unpacked: {error}") from error
        if len(data) != size:
            raise NotTraceDat(f"a part packed by {name} became {len(data)} bytes, not {size}")
        return data

    return checked


def _zlib(packed: bytes, size: int) -> bytes:
    return zlib.decompressobj().decompress(packed, size + 1)


def _zstd() -> Callable[[bytes, int], bytes]:
    for library in ZSTD:
        try:
            module: Any = import_module(library)
        except ImportError:
            continue
        return partial(_zstandard if library == "zstandard" else _standard, module)
    raise NotTraceDat("it is packed by zstd, and no library for that is installed: pip install 'kprobe-sim[bulk]'")


def _standard(module: Any, packed: bytes, size: int) -> bytes:
    # one byte above the limit shows that there are more
    return bytes(module.ZstdDecompressor().decompress(packed, max_length=size + 1))


def _zstandard(module: Any, packed: bytes, size: int) -> bytes:
    said = module.frame_content_size(packed)
    if said > size:
        raise ValueError(f"it would become {said} bytes, not {size}")
    return bytes(module.ZstdDecompressor().decompress(packed, max_output_size=size))
