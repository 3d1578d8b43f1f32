"""A distribution's archives: checked against their checksums, and read without being unpacked to files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256

from kprobe_corpus.traces.entry import CorpusError, Entry

REINSTALL = "install kprobe-corpus again"


def verified(directory: str, sums: str) -> list[str]:
    """Return the archives that a directory's checksums name, each checked; empty if it has no checksums.

    Raise `CorpusError` for one that is missing, or differs from its checksum.
    """
    path = os.path.join(directory, sums)
    try:
        with open(path, encoding="ascii") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path} can't be read: {error}; {REINSTALL}") from error
    archives = []
    for number, line in enumerate(lines, 1):
        digest, blanks, name = line.partition("  ")
        if not blanks or len(digest) != 64:
            raise CorpusError(f"{path}, line {number}: no checksum and name: {line[:80]!r}; {REINSTALL}")
        archive = os.path.join(directory, name)
        try:
            with open(archive, "rb") as data:
                found = sha256(data.read()).hexdigest()
        except OSError as error:
            raise CorpusError(f"{archive}: {error.strerror}; {REINSTALL}") from error
        if found != digest:
            raise CorpusError(f"{archive} is damaged: its SHA-256 is {found}, not {digest}; {REINSTALL}")
        archives.append(archive)
    return archives


def entries_of_archive(path: str) -> Iterator[Entry]:
    """Yield the entries of an archive, whose members are KERNEL/NAME/FILE; raise `CorpusError`."""
    import tarfile

    files: dict[tuple[str, str], dict[str, bytes]] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                data = archive.extractfile(member)
                parts = member.name.split("/")
                if data is None or len(parts) != 3:
                    raise CorpusError(f"{path}: {member.name} isn't KERNEL/NAME/FILE; {REINSTALL}")
                files.setdefault((parts[0], parts[1]), {})[parts[2]] = data.read()
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise CorpusError(f"{path} can't be read: {error}; {REINSTALL}") from error
    except Exception as error:  # LZMAError: only tarfile imports lzma
        if type(error).__name__ != "LZMAError":
            raise
        raise CorpusError(f"{path} can't be unpacked: {error}; {REINSTALL}") from error
    for (kernel, name), found in files.items():
        yield Entry(kernel, name, found, path)
