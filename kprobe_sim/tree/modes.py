"""What a tracefs is built from: permission bits, the files of an event, and the kernel's parts that they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.builds.gates import gates_of
from kprobe_sim.builds.once import once
from kprobe_sim.builds.profile import Profile
from kprobe_sim.events.instances import Instances
from kprobe_sim.events.trace_array import TraceArray
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.registry import ProbeRegistry
from kprobe_sim.tree.files.node import OpenFile
from kprobe_sim.tree.files.simple import File

if TYPE_CHECKING:
    from kprobe_sim.events.hist.files import HistFiles


class Modes(NamedTuple):
    """The permission bits of a kernel's tracefs, and what its event directories hold."""

    root: int  # of the mount point: tracefs' default, whatever the others are (fs/tracefs/inode.c)
    directory: int
    events: int  # of events/ and below, a separate file system since 6.6
    write: int
    read: int
    event_files: tuple[str, ...]  # in readdir order
    eventfs: bool  # events/ lists files first, then directories, oldest first, and counts no links
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
        """Return a file whose opens the instance counts: an instance can't be removed while a file is open."""
        return File(mode, opener, truncated, instance)


class TreeParts(NamedTuple):
    """The parts of a kernel that the files of its tracefs show and change."""

    modes: Modes
    instances: Instances
    probes: ProbeRegistry
    hists: Callable[[], HistFiles]
