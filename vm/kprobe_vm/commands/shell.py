"""A shell on the guest's console, connected to the terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty

from kprobe_vm.machine.machine import Machine

ESCAPE = b"\x1d"  # Ctrl-]
# The agent's children are session leaders: the first terminal that one opens is its controlling terminal.
COMMAND = ["sh", "-c", "exec sh -l </dev/ttyS0 >/dev/ttyS0 2>&1"]


def shell(machine: Machine) -> int:
    """Run a shell on the guest's console until it ends or Ctrl-] is typed; return its exit status."""
    keyboard = sys.stdin.fileno()
    console = machine.boot.console
    size = os.get_terminal_size(keyboard) if os.isatty(keyboard) else os.terminal_size((80, 24))
    before = termios.tcgetattr(keyboard) if os.isatty(keyboard) else None
    process = machine.start_process(
        COMMAND, env={"TERM": os.environ.get("TERM", "vt100"), "COLUMNS": str(size.columns), "LINES": str(size.lines)}
    )
    try:
        if before is not None:
            tty.setraw(keyboard)
        with console.listen(_put):
            while process.returncode is None:
                if machine.channel.failure is not None:
                    raise machine.channel.failure.again()
                if not select.select([keyboard], [], [], 0.1)[0]:
                    continue
                typed = os.read(keyboard, 4096)
                if not typed or ESCAPE in typed:
                    break
                console.write(typed)
    finally:
        if before is not None:
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
    return process.returncode or 0


def _put(data: bytes) -> None:
    os.write(sys.stdout.fileno(), data)
