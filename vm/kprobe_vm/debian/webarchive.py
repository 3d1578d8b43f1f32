"""Debian packages without apt: an archive's index, fetched by URL and verified here.

The index's signature (gpgv) covers the very bytes that are then read; they name the hash of the list of packages, and
that names the hash of each package.
"""

from __future__ import annotations

import calendar
import gzip
import hashlib
import lzma
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.utils import parsedate
from http.client import HTTPException
from pathlib import Path

from kprobe_vm.debian.packages import INDEX_AGE, Absent, Package, Progress, parse_stanzas, verified
from kprobe_vm.errors import ArchiveUnreachable, BadSignature, FetchFailed, PackageCorrupt, PackageMissing
from kprobe_vm.host import programs
from kprobe_vm.host.cache import Cache, digest
from kprobe_vm.host.progress import bytes_of, measured

SILENCE = 30.0  # seconds for which a server may be silent
PART = 1 << 18  # bytes read at once
LARGEST = 1 << 30  # bytes of any file that is fetched
AHEAD = 10.0  # seconds that an archive's clock may be fast, apt's default (Acquire::Max-FutureTime)
# The packages kept of an index: nothing requests others.
KEPT = re.compile(r"Package: (?:linux-(?:image|binary)-\d.*|busybox-static)\n")
BEGIN = b"-----BEGIN PGP SIGNED MESSAGE-----"


class WebArchive:
    """An `Archive` of one suite below a URL (http, https or file)."""

    def __init__(self, cache: Cache, url: str, suite: str, progress: Progress, keyring: Path) -> None:
        self.cache = cache
        self.url = url
        self.suite = suite
        self.progress = progress
        self.keyring = keyring
        self._file = cache.directory("web") / f"{digest(url.encode())[:12]}-{suite}.json"

    def update(self, *, at_most_old: float = INDEX_AGE) -> float:
        """Fetch and verify the index unless it is younger than `at_most_old` seconds; return when that was."""
        is_known = self.cache.note(self._file) is not None
        if not is_known or time.time() - self._file.stat().st_mtime >= at_most_old:
            with measured(self.progress, f"fetching the package index of {self.suite} from {self.url}"):
                release = signed_text(_get(f"{self.url}/dists/{self.suite}/InRelease"), self.keyring)
                rows = self._packages(self._checked(release))
            self.cache.write_note(self._file, rows)
        return self._file.stat().st_mtime

    def packages(self, pattern: str) -> list[Package]:
        """Return all versions of the kernels, and of busybox, whose name matches the regular expression."""
        rows = [Package(*row) for row in self.cache.note(self._file) or []]
        return [package for package in rows if re.fullmatch(pattern, package.name)]

    def fetch(self, package: Package) -> Path:
        """Return the verified package file, from the cache if it is there; raise `FetchFailed`."""

        def download() -> bytes:
            line = f"fetching {package.name} {package.version} ({package.size / 1e6:.1f} MB)"
            parts: list[bytes] = []
            with measured(self.progress, line, lambda: bytes_of(sum(map(len, parts)), package.size)):
                return _get(f"{self.url}/{package.filename}", package.size, parts)

        return verified(self.cache, package, self.progress, download)

    def _checked(self, release: str) -> dict[str, str]:
        """Return the fields of a Release file if it is this suite's."""
        (fields,) = parse_stanzas(release) or [{}]
        if self.suite not in (fields.get("Suite"), fields.get("Codename"), fields.get("Suite", "").rpartition("/")[2]):
            raise BadSignature(f"{self.url} gives the index of {fields.get('Codename')} for that of {self.suite}")
        index, now = f"the index of {self.suite} at {self.url}", time.time()
        times = {name: _time(fields[name]) for name in ("Valid-Until", "Date") if fields.get(name)}
        for name, stamp in times.items():
            if stamp is None:
                raise BadSignature(f"{index} can't be trusted: its {name} is no time: {fields[name][:80]!r}")
        if (until := times.get("Valid-Until")) is not None and until < now:
            raise BadSignature(
                f"{index} is expired: it was valid until {fields['Valid-Until']}, and lacks what came since; is the "
                "clock of this machine right, or is there another archive (--index)?"
            )
        if (date := times.get("Date")) is not None and date > now + AHEAD:
            raise BadSignature(
                f"{index} is not valid yet: it is of {fields['Date']}; is the clock of this machine right?"
            )
        return fields

    def _packages(self, release: dict[str, str]) -> list[Package]:
        hashes = {words[2]: words[0] for words in map(str.split, release.get("SHA256", "").splitlines()) if words}
        unpackers: dict[str, Callable[[bytes], bytes]] = {".xz": lzma.decompress, ".gz": gzip.decompress, "": bytes}
        endings = [ending for ending in unpackers if f"main/binary-amd64/Packages{ending}" in hashes]
        if not endings:
            raise Absent(f"{self.suite} at {self.url} has no packages for amd64")
        ending = endings[0]
        expected = hashes[f"main/binary-amd64/Packages{ending}"]
        base = f"{self.url}/dists/{self.suite}/main/binary-amd64"
        # by its hash: a Packages file of that name may just now be replaced by the next one
        by_hash = release.get("Acquire-By-Hash") == "yes"
        data = _get(f"{base}/by-hash/SHA256/{expected}" if by_hash else f"{base}/Packages{ending}")
        if hashlib.sha256(data).hexdigest() != expected:
            raise PackageCorrupt(f"the list of packages of {self.suite} at {self.url} is not the one that was signed")
        blocks = unpackers[ending](data).decode("utf-8", "replace").split("\n\n")
        stanzas = parse_stanzas("\n\n".join(block for block in blocks if KEPT.match(block.lstrip("\n"))))
        return [Package(s["Package"], s["Version"], int(s["Size"]), s["SHA256"], s["Filename"]) for s in stanzas]


def _time(text: str) -> int | None:
    """Return a time of a Release file in seconds since 1970; None if it is malformed."""
    try:
        parsed = parsedate(text)
        return None if parsed is None else calendar.timegm(parsed)
    except (ValueError, OverflowError, IndexError):
        return None


def signed_text(message: bytes, keyring: Path) -> str:
    """Return the part of a clear-signed message that a key of the keyring has signed; raise `BadSignature`."""
    if not keyring.exists():
        raise PackageMissing(str(keyring), "debian-archive-keyring", "verifies Debian's packages")
    if not message.startswith(BEGIN) or message.count(BEGIN) != 1:
        raise BadSignature("the index is not signed, or not in one piece")
    command = [programs.find("gpgv"), "--status-fd", "2", "--keyring", str(keyring.absolute()), "--output", "-", "-"]
    done = subprocess.run(command, input=message, capture_output=True, timeout=60, check=False)
    status = [line.split()[1:] for line in done.stderr.decode(errors="replace").splitlines() if "[GNUPG:]" in line]
    words = {row[0] for row in status if row}
    # a good signature is enough: an index is also signed by keys that are newer than the keyring
    if "VALIDSIG" not in words or words & {"BADSIG"}:
        unknown = " ".join(row[1] for row in status if row[0] == "NO_PUBKEY")
        reason = "its signature is bad" if "BADSIG" in words else f"no key of {keyring} has signed it"
        raise BadSignature(f"the index can't be trusted: {reason}{f' (but {unknown})' if unknown else ''}")
    return done.stdout.decode("utf-8", "replace")


def _get(url: str, size: int = LARGEST, parts: list[bytes] | None = None) -> bytes:
    """Return the content of a URL, at most one byte more than `size`; `parts` takes it piece by piece."""
    parts = [] if parts is None else parts
    try:
        with urllib.request.urlopen(url, timeout=SILENCE) as answer:
            left = size + 1
            while left and (part := answer.read(min(left, PART))):
                parts.append(part)
                left -= len(part)
            return b"".join(parts)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        kind = Absent if error.code in (404, 410) else FetchFailed
        raise kind(f"{url}: {error.code} {error.reason}") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError, HTTPException) as error:
        reason = getattr(error, "reason", "") or error
        if isinstance(reason, FileNotFoundError):
            raise Absent(f"{url}: {reason}") from error
        raise ArchiveUnreachable(f"{url}: {reason or type(error).__name__}") from error
    except ValueError as error:  # not a URL
        raise FetchFailed(f"{url}: {error}") from error
