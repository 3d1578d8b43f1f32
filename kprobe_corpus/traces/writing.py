"""Entries written as files: into a directory, or into an archive of a distribution."""

from __future__ import annotations

import io
import json
import os
from hashlib import sha256

from kprobe_corpus.traces.entry import ABOUT, DAT, DAT_TRUTH, FILES, TEXT, TRUTH, CorpusError, Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def made(
    path: str,
    text: bytes,
    truth: Iterable[Mapping[str, Any]],
    about: Mapping[str, Any],
    *,
    formats: Mapping[str, str] | None = None,
    definitions: Sequence[str] = (),
) -> Entry:
    """Make the entry of a path, KERNEL/NAME; lines and checksum are added to ``about``.

    ``formats`` are format files by their paths, ``definitions`` the lines of kprobe_events.
    """
    kernel, _, name = path.partition("/")
    facts = {**about, "lines": text.count(b"\n"), "sha256": sha256(text).hexdigest()}
    listed = "".join(f"== {file}\n{body.rstrip(chr(10))}\n" for file, body in (formats or {}).items())
    files = {
        TEXT: text,
        TRUTH: "".join(_encode(record) + "\n" for record in truth).encode(),
        "formats": listed.encode("utf-8", "surrogateescape"),
        "kprobe_events": "".join(line + "\n" for line in definitions).encode("utf-8", "surrogateescape"),
        ABOUT: (json.dumps(facts, indent=1) + "\n").encode(),
    }
    return Entry(kernel, name, files, kernel)


def write(entry: Entry, directory: str) -> None:
    """Write an entry below a directory, as KERNEL/NAME/FILE; raise `CorpusError` with a path that can't be written."""
    home = os.path.join(directory, entry.kernel, entry.name)
    try:
        os.makedirs(home, exist_ok=True)
        for file in (*FILES, *(file for file in (DAT, DAT_TRUTH) if file in entry.files)):
            with open(os.path.join(home, file), "wb") as out:
                out.write(entry.files[file])
    except OSError as error:
        raise CorpusError(f"{error.filename or home}: {error.strerror}") from error


def packed(entries: Iterable[Entry]) -> bytes:
    """Pack entries into an archive; the same entries give the same bytes."""
    import tarfile

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz", preset=9, format=tarfile.USTAR_FORMAT) as archive:
        for entry in entries:
            for file in FILES:
                member = tarfile.TarInfo(f"{entry.kernel}/{entry.name}/{file}")
                member.size = len(entry.files[file])
                archive.addfile(member, io.BytesIO(entry.files[file]))
    return data.getvalue()
