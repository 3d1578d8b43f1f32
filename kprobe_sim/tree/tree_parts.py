"""The parts of the kernel that the files in the tree's directories show and change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.events.instances import Instances
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.registry import ProbeRegistry
from kprobe_sim.tree.modes import Modes

if TYPE_CHECKING:
    from kprobe_sim.events.hist.files import HistFiles


class TreeParts(NamedTuple):
    """The parts of one kernel that its tracefs stands on."""

    modes: Modes
    instances: Instances
    probes: ProbeRegistry
    hists: Callable[[], HistFiles]
