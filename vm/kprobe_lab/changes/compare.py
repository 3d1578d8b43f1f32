"""The verb `compare`: reports what changed between two kernels, as their answers show."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from kprobe_lab.changes import compare_text
from kprobe_lab.changes.contrast import Comparison, compared
from kprobe_lab.changes.kernels import opened, spec_of
from kprobe_vm.host.progress import Progress, say

USAGE = """\
A kernel is a series or release that can be simulated (6.1), the path of a profile, or a spec: sim:6.1, vm:6.1.
Both are asked the same: all operations of our corpus (definitions, filters, triggers), which files the tracefs has,
with which modes and contents, and the formats of static events.  Differences that have the same cause are grouped,
with the row of the simulator's tables that causes them.  Status 0; 1 if something differs, 2 for no such kernel."""


def add_parser(verbs: Any) -> None:
    """Add the verb `compare` to the command."""
    verb = verbs.add_parser(
        "compare",
        help="say what changed in the tracefs between two kernels, by their answers",
        epilog=USAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("before", metavar="A")
    verb.add_argument("after", metavar="B")
    verb.add_argument("--format", choices=("text", "json", "markdown"), default="text")
    verb.set_defaults(function=_compare)


def comparison(before: str, after: str, progress: Progress) -> Comparison:
    """Compare two kernels; raise `ValueError` if one of them isn't there, and what starting a guest raises."""
    with ExitStack() as open_until_here:
        old, new = (open_until_here.enter_context(opened(spec_of(kernel), progress)) for kernel in (before, after))
        return compared(old, new, progress)


def _compare(options: argparse.Namespace) -> int:
    try:
        result = comparison(options.before, options.after, options.progress)
    except (ValueError, LookupError) as error:
        say(f"kprobe-vm compare: {error}")
        return 2
    if options.format == "json":
        print(compare_text.as_json(result))
    elif options.format == "markdown":
        print("\n".join([*compare_text.markdown(result), *compare_text.sources([result])]))
    else:
        print("\n".join(compare_text.text(result)))
    return int(bool(result.alike or result.unseen))
