"""The position of an open file: where the kernel keeps it, and where tracefs would.

The kernel moves a position by all that was written; some files of tracefs move it by one, or not at all.  A transfer
that begins where the last one ended goes on from the file's own position; any other was sought.  With O_APPEND the
kernel begins at the size of the file, which may be FAR (see `kprobe_sim.expose.fuse.splice`), tracefs at the position.
"""

from __future__ import annotations

FAR = 1 << 46  # bytes; no file of tracefs is as long


class Positions:
    """The handles whose position is another than the kernel supposes."""

    def __init__(self) -> None:
        self._moved: dict[int, tuple[int, int]] = {}  # the kernel's, and the file's own

    def begin(self, handle: int, position: int) -> int:
        """Return where a transfer begins that the kernel wants at `position`."""
        supposed, actual = self._moved.get(handle, (position, position if position < FAR else 0))
        return actual if position == supposed else position

    def end(self, handle: int, position: int, count: int, after: int) -> None:
        """A transfer of `count` bytes, wanted at `position`, left the file's own position at `after`."""
        if position + count != after:
            self._moved[handle] = position + count, after
        else:
            self._moved.pop(handle, None)

    def forget(self, handle: int) -> None:
        """The handle is closed."""
        self._moved.pop(handle, None)
