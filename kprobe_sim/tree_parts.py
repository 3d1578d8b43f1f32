"""What the directories of the tree are made of: the parts of the kernel that their files show and change."""

from __future__ import annotations

from typing import NamedTuple

from kprobe_sim.hist_file import HistFiles
from kprobe_sim.instances import Instances
from kprobe_sim.modes import Modes
from kprobe_sim.probes import ProbeRegistry


class TreeParts(NamedTuple):
    """The parts of one kernel that its tracefs stands on."""

    modes: Modes
    instances: Instances
    probes: ProbeRegistry
    hists: HistFiles
