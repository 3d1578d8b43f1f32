"""The pristine tracefs of a build as it was recorded, shared by its kernels: looked up by name in a mapped file.

Opening it reads nothing but its directory.  A text is unpacked when it is asked for, and so are the names and ids of a
system's events, and the formats of a few events that stand together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kprobe_sim.builds.packed import NamedTexts, Texts, open_sections
from kprobe_sim.named_tuple import NamedTuple

MAGIC = b"kprobtfs"
FORMATS = 16  # formats of events that are compressed together


class FileEntry(NamedTuple):
    """An entry of a directory of the pristine tracefs; `mode` has the type bits of st_mode."""

    name: str
    mode: int
    uid: int
    gid: int
    links: int

    @property
    def is_dir(self) -> bool:
        return self.mode >> 12 == 4

    @property
    def permissions(self) -> int:
        return self.mode & 0o7777


class EventFacts(NamedTuple):
    """A static event: the files of its directory in readdir order, and its id."""

    system: str
    name: str
    id: int
    files: tuple[str, ...]


class _Kind(NamedTuple):
    """What all events of a kind have in common: their directory's mode, uid, gid and links, and what is in it."""

    own: tuple[int, int, int, int]
    entries: tuple[FileEntry, ...]
    files: tuple[str, ...]


class _System(NamedTuple):
    """A system of static events, in readdir order."""

    files: tuple[FileEntry, ...]  # of the system itself
    files_first: bool  # they come before the events
    members: Mapping[str, tuple[int, int, int]]  # an event's id, kind, and number among all events


class RecordedTracefs:
    """The texts of files, the directories and the static events of a booted kernel whose tracefs nobody touched.

    Paths are relative to the tracefs, except for things made later: `instances/*` and below it is a new
    instance; `events/*/*` and below a new probe event, `events/*` its group.

    The file (`tracefs.bin`, written by `kprobe-vm record`) has the form of symbols.bin.  `files` texts by path; `tree`
    directories by path, each a JSON list of [name, mode, uid, gid, links] in readdir order; `kinds` the JSON list of
    [own mode, uid, gid, links; entries] of events that have the same files; `events` systems by name in readdir order,
    each the JSON list of its files, whether these come before the events, and events as [name, id, kind, number];
    `formats` texts of events by number, 16 to a chunk, NUL between them.
    """

    def __init__(self, path: Path) -> None:
        sections = open_sections(path, MAGIC)
        self._texts = NamedTexts(sections["files"])
        self._tree = NamedTexts(sections["tree"])
        self._packed_systems = NamedTexts(sections["events"])
        self._packed_kinds = Texts(sections["kinds"])
        self._formats = Texts(sections["formats"])
        self._systems: dict[str, _System] = {}
        self._directories: dict[str, Mapping[str, int]] = {}

    # -------------------------------------------------------------------------------------------------------- files

    def paths(self) -> Iterable[str]:
        """Return the paths whose text is recorded."""
        return self._texts

    def text(self, path: str) -> bytes:
        """Return the text of a file; KeyError if it wasn't recorded."""
        return self._texts[path]

    def has_text(self, path: str) -> bool:
        """Return whether the text of a file was recorded; a sparse recording has few."""
        return path in self._texts

    def entries(self, path: str) -> list[FileEntry]:
        """Return a directory in readdir order; KeyError if there is none."""
        if path in self._tree:
            return [FileEntry(*entry) for entry in json.loads(self._tree[path])]
        parts = path.split("/")
        if parts[0] != "events" or len(parts) not in (2, 3):
            raise KeyError(path)
        system = self._system(parts[1])
        if len(parts) == 3:
            return list(self._kinds[system.members[parts[2]][1]].entries)
        events = [FileEntry(name, *self._kinds[kind].own) for name, (_, kind, _) in system.members.items()]
        return [*system.files, *events] if system.files_first else [*events, *system.files]

    def directory(self, path: str) -> Mapping[str, int]:
        """Return name -> permission bits of a directory, in readdir order."""
        modes = self._directories.get(path)
        if modes is None:
            modes = MappingProxyType({entry.name: entry.permissions for entry in self.entries(path)})
            self._directories[path] = modes
        return modes

    # ------------------------------------------------------------------------------------------------------- events

    def events(self, system: str | None = None) -> list[EventFacts]:
        """Return all static events, or those of an existing system; systems and events in readdir order."""
        systems = self._packed_systems if system is None else (system,)
        return [self._event(system, name) for system in systems for name in self._system(system).members]

    def event(self, system: str, name: str) -> EventFacts | None:
        """Return a static event, or None."""
        return self._event(system, name) if self.has_event(system, name) else None

    def has_system(self, system: str) -> bool:
        """Return whether the kernel has static events in a system of that name."""
        return system in self._packed_systems

    def has_event(self, system: str, name: str) -> bool:
        """Return whether the kernel has a static event of that name."""
        return self.has_system(system) and name in self._system(system).members

    def event_format(self, system: str, name: str) -> bytes:
        """Return the text of a static event's `format` file; KeyError if there is no such event."""
        chunk, index = divmod(self._system(system).members[name][2], FORMATS)
        return self._formats[chunk].split(b"\0")[index]

    def _event(self, system: str, name: str) -> EventFacts:
        number, kind, _ = self._system(system).members[name]
        return EventFacts(system, name, number, self._kinds[kind].files)

    def _system(self, name: str) -> _System:
        system = self._systems.get(name)
        if system is None:
            files, files_first, members = json.loads(self._packed_systems[name])
            system = self._systems[name] = _System(
                tuple(FileEntry(*entry) for entry in files),
                files_first,
                MappingProxyType({event: (number, kind, index) for event, number, kind, index in members}),
            )
        return system

    @cached_property
    def _kinds(self) -> tuple[_Kind, ...]:
        kinds: list[Any] = json.loads(self._packed_kinds[0])
        return tuple(
            _Kind(tuple(own), tuple(FileEntry(*entry) for entry in entries), tuple(entry[0] for entry in entries))
            for own, entries in kinds
        )
