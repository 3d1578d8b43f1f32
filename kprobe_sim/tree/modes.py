"""The permission bits of a kernel's tracefs, the contents of its event directories, and the files made from both."""

from __future__ import annotations

from collections.abc import Callable

from kprobe_sim.builds.gates import gates_of
from kprobe_sim.builds.once import once
from kprobe_sim.builds.profile import Profile
from kprobe_sim.events.trace_array import TraceArray
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.tree.files.node import OpenFile
from kprobe_sim.tree.files.simple import File


class Modes(NamedTuple):
    """The permission bits of a kernel's tracefs, and what its event directories hold."""

    root: int  # of the mount point: tracefs' default, whatever the rest has (fs/tracefs/inode.c)
    directory: int
    events: int  # of events/ and below, which is a file system of its own from 6.6 on
    write: int
    read: int
    event_files: tuple[str, ...]  # in readdir order
    eventfs: bool  # events/ lists files first and what was made last at the end, and counts no links
    triggers: bytes

    @staticmethod
    @once
    def of(profile: Profile) -> Modes:
        """Read them from a recorded kernel."""
        top = profile.tracefs.directory("")
        event = profile.tracefs.directory("events/*/*")
        return Modes(
            profile.root_mode,
            top.get("options", top["events"]),
            top["events"],
            top["kprobe_events"],
            top["kprobe_profile"],
            tuple(event),
            gates_of(profile).eventfs,
            profile.tracefs.text("events/*/*/trigger") if "trigger" in event else b"",
        )

    def node(
        self,
        instance: TraceArray,
        mode: int,
        opener: Callable[[int], OpenFile],
        truncated: Callable[[], None] | None = None,
    ) -> File:
        """Return a file whose opens are counted by the instance: it can't be removed while one is open."""
        return File(mode, opener, truncated, instance)
