"""Profile files fetched from elsewhere into the user's data directory: `kprobe-sim profiles --fetch`.

A source is a profile, a file or a directory; a directory of profiles; or a URL of either, where a directory has a file
SHA256SUMS, as sha256sum writes it.  A URL may end with #sha256=DIGEST, that of its file or of its SHA256SUMS: nothing
else authenticates a download by http.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from kprobe_sim.builds.portable.directory import profiles_in
from kprobe_sim.builds.portable.envelope import LONGEST
from kprobe_sim.builds.portable.file import ProfileFile, packed
from kprobe_sim.builds.profile import ordered
from kprobe_sim.releases import SUFFIX, chosen

INDEX = "SHA256SUMS"
_WAIT = 30  # seconds for a server's next bytes
_ROW = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(rf"\w[\w.+~-]*{re.escape(SUFFIX)}", re.ASCII)
Offers = Mapping[str, Callable[[], bytes]]  # a profile's file by its name


def fetch(source: str, names: Sequence[str], into: Path) -> Iterator[Path]:
    """Copy profiles to a directory, each verified before it is there; yield the files.

    `names` are releases or series; none means all that the source has.  Raises OSError, and ValueError with the reason
    for what isn't there or isn't sound.
    """
    offers = _of_url(source) if "://" in source else _of_path(Path(source))
    releases = ordered(tuple(offers))
    for name in [chosen(name, releases) for name in names] or releases:
        try:
            file = ProfileFile(offers[name]())
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        into.mkdir(parents=True, exist_ok=True)
        yield save(file.data, into / f"{file.head.release}{SUFFIX}")


def unauthenticated(source: str) -> str:
    """Return a warning that nothing authenticates a source; "" if something does."""
    if not source.startswith("http://") or "#" in source:
        return ""
    return (
        f"{source}: nothing authenticates a download by http: anyone on the way can change it. "
        "Fetch it by https, or with the digest that its maker gives: URL#sha256=DIGEST"
    )


def save(data: bytes, path: Path) -> Path:
    """Write a file completely or not at all; return its path.  Raises OSError."""
    descriptor, fresh = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.chmod(fresh, 0o644)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
    return path


def _of_path(path: Path) -> Offers:
    if not path.exists():
        raise ValueError(f"{path}: no such file or directory")
    profiles = profiles_in(path)
    if not profiles:
        raise ValueError(f"{path}: no profiles there")
    return {release: _reader(profile) for release, profile in profiles.items()}


def _reader(path: Path) -> Callable[[], bytes]:
    return lambda: packed(path) if path.is_dir() else path.read_bytes()


def _of_url(url: str) -> Offers:
    scheme = url.partition("://")[0]
    if scheme == "file":
        from urllib.request import url2pathname

        return _of_path(Path(url2pathname(url.removeprefix("file://"))))
    if scheme not in ("http", "https"):
        raise ValueError(f"{url}: only http, https and file are known")
    url, _, fragment = url.partition("#")
    digest = fragment.removeprefix("sha256=")
    if fragment and not _DIGEST.fullmatch(digest):
        raise ValueError(f"{url}#{fragment}: what follows # has to be sha256= and 64 hexadecimal digits")
    if url.endswith(SUFFIX):
        name = url.rpartition("/")[2].removesuffix(SUFFIX)
        return {name: _checker(url, digest, "#sha256") if digest else lambda: _loaded(url)}
    base = url.rstrip("/")
    offers = {}
    index = f"{base}/{INDEX}"
    for line in (_checker(index, digest, "#sha256")() if digest else _loaded(index)).decode("latin-1").splitlines():
        row = _ROW.fullmatch(line)
        if row and _NAME.fullmatch(row[2]):
            offers[row[2].removesuffix(SUFFIX)] = _checker(f"{base}/{row[2]}", row[1], INDEX)
    if not offers:
        raise ValueError(f"{base}/{INDEX}: no profiles there")
    return offers


def _checker(url: str, sha256: str, source: str) -> Callable[[], bytes]:
    def load() -> bytes:
        data = _loaded(url)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"damaged: its checksum is another than {source} says")
        return data

    return load


def _loaded(url: str) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=_WAIT) as answer:
            if url.startswith("https:") and not answer.geturl().startswith("https:"):
                raise ValueError(f"it leads to {answer.geturl()}, which nothing authenticates")
            data: bytes = answer.read(LONGEST + 1)
    except URLError as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        raise ValueError(f"{url}: {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise ValueError(f"{url}: {error}") from error
    if len(data) > LONGEST:
        raise ValueError(f"{url}: too large: no kernel's profile is")
    return data
