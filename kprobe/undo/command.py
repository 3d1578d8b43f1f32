"""`kprobe clean`: removes what killed sessions left behind, and nothing that anybody else made."""

from __future__ import annotations

from kprobe.undo import leftovers
from kprobe.undo.cleaning import Cleaning
from kprobe.undo.processes import PROC
from kprobe_text.terminal.output import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.options.command_line import CommandLine
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

OK = 0
LEFT_BEHIND = 4


def run(tracefs: Tracefs, output: Output, signals: Signals, request: CommandLine, *, proc: str = PROC) -> int:
    """Remove them (--dry-run: don't); print a line for each instance and event, and return the exit status."""
    signals.end_by(lambda: None)  # removing an instance without its events would hide whose they are
    cleaning = Cleaning(tracefs, request.dry_run, proc)
    for leftover in leftovers.find(tracefs, proc):
        cleaning.take(leftover)
    for line in cleaning.lines:
        output.write(f"{line}\n".encode(errors="surrogateescape"), lambda: bool(signals.received))
    output.finish(lambda: bool(signals.received))
    for note in cleaning.notes:
        say(note)
    if signals.received:
        return 128 + signals.received
    return LEFT_BEHIND if cleaning.has_failed else OK
