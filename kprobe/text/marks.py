"""Lines between records: those of headers, and what tells of a CPU's buffer."""

from kprobe.text.layout import BUFFER_STARTED, LOST, RAW_MARKER, REPORT_HEADER
from kprobe.text.records import BufferStarted, Lost


def is_header(raw: bytes) -> bool:
    """Say whether a line is one of a header."""
    return (raw[:1] == b"#" and RAW_MARKER.match(raw) is None) or REPORT_HEADER.fullmatch(raw) is not None


def special(raw: bytes) -> Lost | BufferStarted | None:
    """Read a line that tells of a CPU's buffer; None if it doesn't."""
    if (lost := LOST.fullmatch(raw)) is not None:
        count = lost[2] or lost[3]
        return Lost(int(lost[1]), int(count) if count else None, raw)
    if (started := BUFFER_STARTED.fullmatch(raw)) is not None:
        return BufferStarted(int(started[1]), raw)
    return None
