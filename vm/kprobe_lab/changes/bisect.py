"""The verb `bisect`: tries one operation on all kernels that can be simulated, to find where the answer changes.

Answers aren't monotonic: a change may be reverted later, or backported to older series.  So all kernels are asked, and
every change is reported, in the order of the builds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kprobe_lab.changes.kernels import OrderedKernel, in_line, opened
from kprobe_lab.changes.language import EVENT, Step, parsed, shell
from kprobe_lab.changes.response import Response, changed_lines, respond
from kprobe_vm.host.progress import Progress, say


class Answered(NamedTuple):
    """A build and its answer; `beside` is the build of its version that it is compared with, "" for a main build."""

    release: str
    response: Response
    beside: str = ""


class Change(NamedTuple):
    """Two builds, neighbours in their order, that answer differently."""

    before: Answered
    after: Answered


def answers_of(kernels: Sequence[OrderedKernel], steps: tuple[Step, ...], progress: Progress) -> list[Answered]:
    """Return the answers of kernels, in their order."""
    answers = []
    for ordered in kernels:
        progress(f"asking {ordered.spec}")
        with opened(ordered.spec, progress) as kernel:
            answers.append(Answered(kernel.release, respond(kernel.side, steps), ordered.beside))
    return answers


def changes_of(answers: Sequence[Answered]) -> Iterator[Change]:
    """Return where the answer changes, in order: from version to version, and from a build to its other flavours."""
    line: Answered | None = None
    for answer in answers:
        before = next((one for one in answers if one.release == answer.beside), line)
        if before is not None and before.response != answer.response:
            yield Change(before, answer)
        line = line if answer.beside else answer


class Confirmed(NamedTuple):
    """What a guest with a build answered, beside its simulator."""

    release: str
    simulated: Response
    guest: Response


def confirmed(changes: Sequence[Change], steps: tuple[Step, ...], progress: Progress) -> Iterator[Confirmed]:
    """Ask guests with the builds on both sides of each change, one guest after the other."""
    for answer in dict.fromkeys(answer for change in changes for answer in change):
        with opened(f"vm:{answer.release}", progress) as kernel:
            yield Confirmed(answer.release, answer.response, respond(kernel.side, steps))


# ---- the report ----


def _lines(asked: str, answers: Sequence[Answered], changes: Sequence[Change]) -> Iterator[str]:
    line = [answer for answer in answers if not answer.beside]
    yield f"asked of {len(answers)} build{'s' * (len(answers) != 1)}: {asked}"
    yield ""
    yield f"{line[0].release} answers"
    yield from (f"  {text}" for text in line[0].response.lines())
    for before, after in changes:
        yield ""
        other = ", another flavour" * bool(after.beside)
        yield f"{before.release} -> {after.release}{other}"
        yield from (f"  {text}" for text in changed_lines(before.response, after.response))
    yield ""
    count = len(changes)
    yield (
        f"{count} change{'s' * (count != 1)}" if count else f"no change: all {len(answers)} builds give the same answer"
    )


def _confirmation(answers: Confirmed) -> Iterator[str]:
    if answers.simulated == answers.guest:
        yield f"guest {answers.release}: the same"
        return
    yield f"guest {answers.release}: not as simulated"
    yield from (f"  {text}" for text in changed_lines(answers.simulated, answers.guest))


def _json(asked: str, answers: Sequence[Answered], changes: Sequence[Change], guests: Sequence[Confirmed]) -> str:
    report: dict[str, Any] = {
        "operation": asked,
        "answers": [{"release": one.release, "answer": one.response.json()} for one in answers],
        "changes": [{"before": before.release, "after": after.release} for before, after in changes],
    }
    if guests:
        report["guests"] = [{"release": one.release, "same": one.simulated == one.guest} for one in guests]
    return json.dumps(report, indent=1)


# ---- the command ----

USAGE = """\
OPERATION is a bare definition, filter or trigger, or what you would type in a shell whose directory is the tracefs:
  kprobe-vm bisect 'p:x vfs_read a=$arg1'
  kprobe-vm bisect 'echo "p:x vfs_read" > kprobe_events; ls events/kprobes'
  kprobe-vm bisect 'cat trace_clock'
The answer is the errno, error_log's messages with their carets, and what the file then says.  Every change is shown,
from the oldest build to the newest.  Status 0; 1 if a guest's answer differs from its simulator's, 2 for a bad
operation."""


def add_parser(verbs: Any) -> None:
    """Add the verb `bisect` to the command."""
    verb = verbs.add_parser(
        "bisect",
        help="try an operation on all simulated kernels, and say where the answer changes",
        epilog=USAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("operation", nargs="?", metavar="OPERATION", help="put -- before it if it begins with a -")
    verb.add_argument(
        "--kernels",
        type=lambda text: text.split(","),
        default=[],
        metavar="LIST",
        help="6.1,6.12,/path/mine.kprofile: in this order (default: all that can be simulated, oldest first)",
    )
    verb.add_argument(
        "--event", default=EVENT, metavar="SYSTEM/NAME", help=f"the event for a bare filter or trigger ({EVENT})"
    )
    verb.add_argument(
        "--guests", action="store_true", help="also ask guests with the builds on both sides of each change"
    )
    verb.add_argument("--format", choices=("text", "json"), default="text")
    verb.set_defaults(function=_bisect)


def _bisect(options: argparse.Namespace) -> int:
    try:
        steps = parsed(" ".join([*filter(None, [options.operation]), *options.command]), options.event)
        answers = answers_of(in_line(options.kernels), steps, options.progress)
        if not answers:
            raise ValueError("no kernel can be simulated")
    except (ValueError, LookupError) as error:
        say(f"kprobe-vm bisect: {error}")
        return 2
    changes = list(changes_of(answers))
    is_text = options.format == "text"
    if is_text:
        print("\n".join(_lines(shell(steps), answers, changes)), flush=True)
    guests = []
    for one in confirmed(changes, steps, options.progress) if options.guests else ():
        guests.append(one)
        if is_text:
            print("\n".join(_confirmation(one)), flush=True)
    if not is_text:
        print(_json(shell(steps), answers, changes, guests))
    return int(any(one.simulated != one.guest for one in guests))
