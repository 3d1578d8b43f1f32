"""The names of tasks, which records don't contain: pids -> comms, from saved_cmdlines."""

import re
from typing import Final

IDLE: Final = "<idle>"
FORGOTTEN: Final = "<...>"  # the kernel's text for a task whose name it no longer has

# A comm can hold a newline, so a line that doesn't begin with a pid continues the one before.
_LINE: Final = re.compile(rb"^(\d{1,10}) ((?:(?!\n\d{1,10} ).){0,31})\n", re.M | re.S)


class Tasks(dict[int, str]):
    """Comms by pid: ``<idle>`` for 0, ``<...>`` for unknown ones."""

    def __missing__(self, pid: int) -> str:
        return FORGOTTEN if pid else IDLE

    def read(self, text: bytes) -> None:
        """Take in the text of saved_cmdlines; a later name for a pid replaces an earlier one."""
        for line in _LINE.finditer(text if text.endswith(b"\n") else text + b"\n"):
            self[int(line[1])] = line[2].decode("utf-8", "surrogateescape")
        self.pop(0, None)


def tgids(text: bytes) -> dict[int, int]:
    """Read the text of saved_tgids: process ids by thread id."""
    pairs = (line.split() for line in text.splitlines())
    return {int(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0].isdigit() and pair[1].isdigit()}
