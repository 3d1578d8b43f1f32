"""The `format` file that a probe's event would have."""

from __future__ import annotations

from kprobe.kernel import denial
from kprobe.kernel.dialect import has_groups
from kprobe.kernel.patterns import expand
from kprobe.undo.instance import new_session
from kprobe.undo.undo import Undo

from .registration import add_probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.definitions.probe import Probe
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.owners import Owner


def event_format(tracefs: Tracefs, owner: Owner, probe: Probe) -> bytes:
    """Return the `format` file of the probe's event, added only to read it; for a pattern, of the first probe."""
    undo = Undo()
    if probe.place.is_pattern:
        probe = expand(tracefs, probe).probes[0]
    if not probe.has_own_group and has_groups(tracefs):
        probe = probe.in_group(new_session(tracefs, owner)[0])
    path = f"events/{probe.event}/format"
    try:
        add_probe(tracefs, undo, probe)
        data = tracefs.read(path)
    except OSError as error:
        denied = denial.denied(tracefs, path, error)
        undo.finish(denied)
        raise denied from error
    except BaseException as error:
        undo.finish(error)
        raise
    undo.finish(None)
    return data
