"""A small Debian archive: built and signed here, served on 127.0.0.1, with faults on request."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import lzma
import random
import shutil
import struct
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from kprobe_vm.debian.packages import Package

# of what doesn't compress, as kernels here, xz by its fastest preset takes twice as long to find that out
QUICKLY = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 4096, "nice_len": 3, "mf": lzma.MF_HC3, "depth": 1}]
ELF_X86_64 = b"\x7fELF\2\1\1" + bytes(9) + b"\2\0\x3e\0"
# the note by which QEMU enters a kernel (XEN_ELFNOTE_PHYS32_ENTRY), and the program header that leads to it, after the
# head of the file
NOTE = struct.pack("<III4sI", 4, 4, 18, b"Xen\0", 0x1000000)
HEAD = struct.pack("<I3QI6H", 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
PROGRAM = struct.pack("<2I6Q", 4, 4, 120, 0, 0, len(NOTE), len(NOTE), 4)


def vmlinux(release: str) -> bytes:
    """What unpacks from a kernel image: an ELF file that QEMU can enter, with what doesn't compress."""
    version = b"Linux version " + release.encode() + b" (x)\0"
    return ELF_X86_64 + HEAD + PROGRAM + NOTE + version + random.Random(release).randbytes(1_200_000)


@functools.cache
def bzimage(release: str, loadflags: int = 1) -> bytes:
    """A kernel image as Documentation/arch/x86/boot.rst lays it out, gzip-compressed."""
    kernel = vmlinux(release)
    payload = gzip.compress(kernel, 1, mtime=0) + struct.pack("<I", len(kernel))
    image = bytearray(2048)
    image[0x1F1] = 1
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x206, 0x20F)
    struct.pack_into("<H", image, 0x20E, 0x400 - 0x200)
    image[0x236] = loadflags
    image[0x400 : 0x400 + len(release) + 10] = release.encode() + b" (x) #1 S\0"
    struct.pack_into("<II", image, 0x248, 1024, len(payload))
    return bytes(image) + payload


def tar(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            member.mode = 0o755
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def deb(control: str, files: Mapping[str, bytes], compression: str = "xz") -> bytes:
    """A package file (deb(5))."""
    packers = {
        "xz": lambda data: lzma.compress(data, filters=QUICKLY),
        "gz": gzip.compress,
        "zst": lambda data: subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout,
    }
    parts = {
        "debian-binary": b"2.0\n",
        f"control.tar.{compression}": packers[compression](tar({"control": control.encode()})),
        f"data.tar.{compression}": packers[compression](tar(files)),
    }
    packed = b"!<arch>\n"
    for name, data in parts.items():
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
        packed += header.encode() + data + b"\n" * (len(data) % 2)
    return packed


def package_of(release: str) -> str:
    """The name of the package that holds a kernel."""
    major, minor = map(int, release.split(".")[:2])
    return f"linux-{'binary' if (major, minor) >= (6, 19) else 'image'}-{release}"


@functools.cache
def kernel_deb(release: str, version: str, architecture: str = "amd64", *, image: bytes = b"") -> bytes:
    """A package with a kernel, where the series has it."""
    place = f"usr/lib/modules/{release}/vmlinuz" if release.startswith("7.") else f"boot/vmlinuz-{release}"
    control = f"Package: {package_of(release)}\nVersion: {version}\nArchitecture: {architecture}\n"
    return deb(control, {place: image or bzimage(release)})


class Key:
    """A throw-away key, and the keyring that holds it."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="kprobe-key-"))  # short: the agent's socket is in it
        self._signed: dict[bytes, bytes] = {}
        self._gpg("--quick-gen-key", "tests@example.org", "ed25519", "sign", "never")
        self.keyring = self.home / "keyring.gpg"
        self.keyring.write_bytes(self._gpg("--export"))

    def clearsign(self, text: bytes) -> bytes:
        if text not in self._signed:
            self._signed[text] = self._gpg("--clearsign", "--output", "-", text=text)
        return self._signed[text]

    def forget(self) -> None:
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "all"], check=False, capture_output=True)
        shutil.rmtree(self.home, ignore_errors=True)

    def _gpg(self, *arguments: str, text: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--pinentry-mode", "loopback"]
        command += ["--passphrase", "", *arguments]
        return subprocess.run(command, input=text, capture_output=True, check=True, timeout=60).stdout


class LocalArchive:
    """An archive with one suite, as a server and as a proxy for the archive's own names.

    `files` is what it serves, `asked` which paths were asked for; what is in `stuck` is served by half, and then
    nothing more comes until `close`.
    """

    def __init__(self, key: Key, suite: str = "bookworm") -> None:
        self.key = key
        self.suite = suite
        self.files: dict[str, bytes] = {}
        self.packages: list[Package] = []
        self.asked: list[str] = []
        self.stuck: set[str] = set()
        self.halfway = threading.Event()
        self.times = "Date: Sat, 21 Nov 2026 00:00:00 UTC\n"  # the index's
        self._closed = threading.Event()
        archive = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                archive._answer(self)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Not a word of clients that went away: that is what they are here for."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.base}/debian"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def add(self, name: str, version: str, data: bytes) -> Package:
        """Put a package into the pool and the index; `publish` it then."""
        path = f"pool/main/l/linux/{name}_{version}_amd64.deb"
        package = Package(name, version, len(data), hashlib.sha256(data).hexdigest(), path)
        self.files[f"/debian/{path}"] = data
        self.packages.append(package)
        return package

    def add_kernel(self, release: str, version: str) -> Package:
        """Put a kernel into the pool and the index."""
        return self.add(package_of(release), version, kernel_deb(release, version))

    def publish(self, key: Key | None = None) -> None:
        """Write and sign the index."""
        stanzas = [
            f"Package: {p.name}\nVersion: {p.version}\nArchitecture: amd64\nMaintainer: x\nDescription: x\n"
            f"Filename: {p.filename}\nSize: {p.size}\nSHA256: {p.sha256}\n"
            for p in self.packages
        ]
        lists = {"main/binary-amd64/Packages": "\n".join(stanzas).encode()}
        lists["main/binary-amd64/Packages.xz"] = lzma.compress(lists["main/binary-amd64/Packages"], preset=0)
        hashes = "".join(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n" for name, data in lists.items())
        release = (
            f"Origin: Debian\nSuite: oldstable\nCodename: {self.suite}\n{self.times}"
            f"Architectures: amd64\nComponents: main\nSHA256:\n{hashes}"
        )
        where = f"/debian/dists/{self.suite}"
        self.files |= {f"{where}/{name}": data for name, data in lists.items()}
        self.files[f"{where}/InRelease"] = (key or self.key).clearsign(release.encode())

    def close(self) -> None:
        """Serve nothing more: the port is closed."""
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path.replace("%2b", "+").replace("%7e", "~")
        self.asked.append(path)
        data = self.files.get(path)
        if data is None:
            request.send_error(404)
            return
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if path in self.stuck:
            request.wfile.write(data[: len(data) // 2])
            request.wfile.flush()
            self.halfway.set()
            self._closed.wait(60)
            request.close_connection = True
            return
        request.wfile.write(data)
