"""How often a probe was hit, including hits that a filter, pids or a switch kept from being recorded.

Seen on 5.10, 6.12 and 7.3: kprobe_profile counts hits that a filter, set_event_pid or tracing_on keep from the buffer.
"""

from __future__ import annotations

from kprobe.events.hits import FILES, profiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.definitions.definition import Probe
    from kprobe.events.hits import Hits
    from kprobe.tracefs.tracefs import Tracefs


def hits_of(tracefs: Tracefs, probe: Probe) -> Hits | None:
    """Return an existing probe's hits; None if they can't be read, or aren't counted (f:, t: and e:)."""
    if probe.file not in FILES:
        return None

    def read(path: str) -> bytes | None:
        try:
            return tracefs.read(path)
        except OSError:
            return None

    lines, hits = profiled(read, probe.file)
    if hits is None:
        return None
    return next((each for line, each in zip(lines, hits, strict=True) if line.event == probe.event), None)
