"""The messages between the kernel and a FUSE server, as <linux/fuse.h> lays them out (protocol 7.31)."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from functools import lru_cache
from struct import Struct

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.named_tuple import NamedTuple

MAX_WRITE = 1 << 20  # one write(2) of up to this size arrives in one request
REQUEST_SIZE = MAX_WRITE + PAGE_SIZE  # the room that one read of /dev/fuse needs
UNKNOWN_INODE = 0xFFFFFFFF  # a directory entry that the kernel hasn't looked up yet

_VERSION = (7, 31)


class Opcode:
    """What a request asks.  Plain numbers: each start would wait while enums are made."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    IOCTL = 39
    POLL = 40
    BATCH_FORGET = 42
    FALLOCATE = 43
    RENAME2 = 45
    LSEEK = 46


# what a directory without that operation returns (fs/namei.c).  All others get ENOSYS, also those for extended
# attributes, which open(2) with O_TRUNC sends: the kernel turns it into EOPNOTSUPP and doesn't ask again
NOT_MADE: dict[int, int] = {
    Opcode.CREATE: errno.EACCES,
    Opcode.MKNOD: errno.EPERM,
    Opcode.SYMLINK: errno.EPERM,
    Opcode.LINK: errno.EPERM,
    Opcode.UNLINK: errno.EPERM,
    Opcode.RENAME: errno.EPERM,
    Opcode.RENAME2: errno.EPERM,
    Opcode.IOCTL: errno.ENOTTY,
    Opcode.FALLOCATE: errno.EOPNOTSUPP,
}


class InitFlag:
    """What kernel and server agree on."""

    ATOMIC_O_TRUNC = 1 << 3  # O_TRUNC comes with the open, which can refuse it
    BIG_WRITES = 1 << 5
    PARALLEL_DIROPS = 1 << 18
    MAX_PAGES = 1 << 22


class OpenFlag:
    """How the kernel treats an open file."""

    DIRECT_IO = 1 << 0  # every read and write comes here, whatever size stat shows
    NONSEEKABLE = 1 << 2
    STREAM = 1 << 4
    NOFLUSH = 1 << 5


READ_LOCKOWNER = 2  # read(2) sets it; a read without it fills the page cache, for splice, sendfile or mmap
GETATTR_FH = 1  # getattr for an open file, which the kernel sends only at SEEK_END
POLL_SCHEDULE_NOTIFY = 1
SETATTR_MODE, SETATTR_UID, SETATTR_GID = 1, 2, 4

_IN_HEADER = Struct("<IIQQ8xI4x")  # without the caller's uid and gid: the kernel checks permissions
_HEADED = _IN_HEADER.size
_OUT_HEADER = Struct("<IiQ")
_ANSWERED = _OUT_HEADER.size
_ATTR = Struct("<QQQQQQIIIIIIIIII")
_ENTRY = Struct("<QQQQII")
_ATTR_OUT = Struct("<QII")
_INIT_OUT = Struct("<IIIIHHIIHHI7I")
_DIRENT = Struct("<QQII")
_STATFS = Struct("<QQQQQIIII24x")
_OPEN_OUT = Struct("<QII")

INIT_IN = Struct("<IIII")
OPEN_IN = Struct("<II")
TRANSFER_IN = Struct("<QQIIQII")  # read and write: handle, offset, size, its flags, lock owner, file flags, padding
HANDLE_IN = Struct("<Q")
GETATTR_IN = Struct("<IIQ")
SETATTR_IN = Struct("<IIQQQQQQIIIIIIII")
POLL_IN = Struct("<QQII")
FORGET_IN = Struct("<Q")
_BATCH_FORGET_IN = Struct("<II")
_FORGET_ONE = Struct("<QQ")
MKDIR_IN = Struct("<II")
_INVALID_OUT = Struct("<Qqq")
_STORE_OUT = Struct("<QQII")
TWO_WORDS = Struct("<II")  # write_out and poll_out: a number and padding


class FuseRequest(NamedTuple):
    """One request: the operation, the node, and the caller's pid in the pid namespace that mounted."""

    opcode: int
    unique: int
    node: int
    pid: int
    body: memoryview

    @classmethod
    def parse(cls, message: memoryview) -> FuseRequest:
        """Read the message at the start of a buffer; the body is a view of it."""
        length, opcode, unique, node, pid = _IN_HEADER.unpack_from(message)
        return cls(opcode, unique, node, pid, message[_HEADED:length])

    def name(self, offset: int = 0) -> str:
        """Return the NUL-ended name at `offset` of the body."""
        return bytes(self.body[offset:]).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


class Attributes(NamedTuple):
    """What stat(2) shows; the size is 0, as in tracefs."""

    inode: int
    mode: int
    links: int
    uid: int
    gid: int
    time: float


@lru_cache  # the kernel asks again after it opened or wrote a file
def _packed(shown: Attributes) -> bytes:
    seconds = int(shown.time)
    nanoseconds = int((shown.time - seconds) * 1e9)
    times = (seconds, seconds, seconds, nanoseconds, nanoseconds, nanoseconds)
    return _ATTR.pack(shown.inode, 0, 0, *times, shown.mode, shown.links, shown.uid, shown.gid, 0, 4096, 0)


def reply(unique: int, body: bytes = b"") -> bytes:
    """Return the message that answers a request."""
    return _OUT_HEADER.pack(_ANSWERED + len(body), 0, unique) + body


def refusal(unique: int, number: int) -> bytes:
    """Return the message that answers a request with an errno."""
    return _OUT_HEADER.pack(_OUT_HEADER.size, -number, unique)


def poll_notice(poll_handle: int) -> bytes:
    """Return the message that makes the kernel ask again what a polled file is ready for."""
    return _OUT_HEADER.pack(_OUT_HEADER.size + 8, 1, 0) + HANDLE_IN.pack(poll_handle)


def store_notice(node: int, offset: int, data: bytes) -> bytes:
    """Return the message that puts data into the page cache, and extends the file to hold it."""
    body = _STORE_OUT.pack(node, offset, len(data), 0) + data
    return _OUT_HEADER.pack(_OUT_HEADER.size + len(body), 4, 0) + body


def invalid_notice(node: int, offset: int, length: int) -> bytes:
    """Return the message that drops a part of a file from the page cache."""
    return _OUT_HEADER.pack(_OUT_HEADER.size + _INVALID_OUT.size, 2, 0) + _INVALID_OUT.pack(node, offset, length)


def init_reply(offered: int, requested: int) -> bytes:
    """Return the body that answers INIT."""
    pages = MAX_WRITE // PAGE_SIZE
    return _INIT_OUT.pack(*_VERSION, 0, offered & requested, 16, 12, MAX_WRITE, 1, pages, 0, 0, *[0] * 7)


def entry(node: int, attributes: Attributes, entry_seconds: int, attribute_seconds: int) -> bytes:
    """Return the body that answers LOOKUP and MKDIR."""
    return _ENTRY.pack(node, 0, entry_seconds, attribute_seconds, 0, 0) + _packed(attributes)


def attributes_reply(attributes: Attributes, seconds: int) -> bytes:
    """Return the body that answers GETATTR and SETATTR."""
    return _ATTR_OUT.pack(seconds, 0, 0) + _packed(attributes)


def opened(handle: int, flags: int) -> bytes:
    """Return the body that answers OPEN and OPENDIR."""
    return _OPEN_OUT.pack(handle, flags, 0)


def statfs() -> bytes:
    """Return the body that answers STATFS: no blocks, no files, names of 255 bytes, as simple_statfs() does."""
    return _STATFS.pack(0, 0, 0, 0, 0, 4096, 255, 4096, 0)


def directory(entries: Iterable[tuple[int, str, bool]], size: int) -> bytes:
    """Return the first directory entries (next offset, name, is it a directory), as many as fit into `size` bytes."""
    records = bytearray()
    for following, name, is_dir in entries:
        encoded = name.encode("utf-8", "surrogateescape")
        record = _DIRENT.pack(UNKNOWN_INODE, following, len(encoded), 4 if is_dir else 8) + encoded
        record += bytes(-len(record) % 8)
        if len(records) + len(record) > size:
            break
        records += record
    return bytes(records)


def forgotten(body: memoryview) -> Iterator[tuple[int, int]]:
    """Yield the (node, lookups) pairs of BATCH_FORGET."""
    count, _ = _BATCH_FORGET_IN.unpack_from(body)
    for index in range(count):
        yield _FORGET_ONE.unpack_from(body, _BATCH_FORGET_IN.size + index * _FORGET_ONE.size)
