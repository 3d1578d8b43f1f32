"""A profile as one file: made from a profile's directory, and turned back into one.

What is made of the same recording is the same file, whoever compressed the recording.
"""

from __future__ import annotations

from pathlib import Path

from kprobe_sim.builds.packed import open_sections
from kprobe_sim.builds.portable import contents, envelope
from kprobe_sim.builds.portable.body import FACTS, Body, joined, split
from kprobe_sim.builds.portable.facts import checked
from kprobe_sim.builds.portable.sections import FORMS, loosened, made, mapped

MAGIC = {"symbols.bin": b"kprobsym", "prototypes.bin": b"kprobtyp", "tracefs.bin": b"kprobtfs"}


def packed(directory: Path) -> bytes:
    """Return the profile file of a profile's directory.  Raises ValueError for a directory that isn't a sound profile.

    Raises OSError where files can't be read.
    """
    facts = (directory / FACTS).read_bytes()
    said = checked(facts)
    files = {}
    for name in FORMS:
        path = directory / name
        if path.exists():
            files[name] = loosened(name, open_sections(path, MAGIC[name]))
    contents.check(files)
    return envelope.seal(said["release"], said["version"], joined(Body(facts, files)))


class ProfileFile:
    """A profile file that was read and found to be sound.

    Raises ValueError with the reason for one that isn't: damaged, of another format, or made to do harm.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.head, body = envelope.opened(data)
        self._body = split(body)
        facts = checked(self._body.facts)
        if (facts["release"], facts["version"]) != (self.head.release, self.head.version):
            raise ValueError(f"its head says {self.head.release}, and it is of {facts['release']}")
        contents.check(self._body.files)

    def write(self, directory: Path) -> None:
        """Write the profile's files into a directory."""
        (directory / FACTS).write_bytes(self._body.facts)
        for name, sections in self._body.files.items():
            (directory / name).write_bytes(mapped(MAGIC[name], made(name, sections)))
