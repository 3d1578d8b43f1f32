"""The position of an open file: where the kernel keeps it, and where tracefs would.

The kernel advances a position by all bytes written; some tracefs files advance it by one, or not at all.  A transfer
that begins where the last one ended continues from the position that tracefs would have; any other begins where it was
requested.  With O_APPEND the kernel begins at the file's size, which may be FAR (see `kprobe_sim.expose.fuse.splice`),
and tracefs at the position.
"""

from __future__ import annotations

FAR = 1 << 46  # bytes; no tracefs file is as long


class Positions:
    """The handles whose position differs from the kernel's."""

    def __init__(self) -> None:
        self._moved: dict[int, tuple[int, int]] = {}  # the kernel's position, and that of tracefs

    def begin(self, handle: int, position: int) -> int:
        """Return where a transfer really begins when the kernel requests it at `position`."""
        supposed, actual = self._moved.get(handle, (position, position if position < FAR else 0))
        return actual if position == supposed else position

    def end(self, handle: int, position: int, count: int, after: int) -> None:
        """Note that a transfer of `count` bytes, requested at `position`, left the tracefs position at `after`."""
        if position + count != after:
            self._moved[handle] = position + count, after
        else:
            self._moved.pop(handle, None)

    def forget(self, handle: int) -> None:
        """Forget a closed handle."""
        self._moved.pop(handle, None)
