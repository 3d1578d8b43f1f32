"""Developers run `make bench` after a change that may cost speed; it measures ours beside something plain, by turns.

Each figure and its anchor (something plain) are measured several times in turn.  The table shows the medians and the
median of the rounds' ratios.  Compare ratios: the times are those of this machine and moment.  --before DIR measures an
older checkout by turns with this one.  Times are CPU time of the measuring process, except where several processes work
together.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, TextIO

import bench_expose
import bench_groups
import bench_history
from bench_figure import Figure, Group, shown
from bench_history import Landed, Result

ROUNDS = 5
QUICK_ROUNDS = 3
QUICK_SECONDS = 45.0  # after which the check begins no further group

Rounds = list[dict[str, float]]


class Checkout:
    """A checkout whose packages a process of its own measures."""

    def __init__(self, name: str, ask: Callable[[str, str], Any]) -> None:
        self.name = name
        self.ask = ask


@contextmanager
def checkout(name: str, root: Path) -> Iterator[Checkout]:
    """Start a process that measures a checkout, and end it."""
    worker = Path(__file__).with_name("bench_worker.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "vm")])}
    process = subprocess.Popen(
        [sys.executable, worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        into, out = process.stdin, process.stdout

        def ask(verb: str, group: str) -> Any:
            print(json.dumps({verb: group}), file=into, flush=True)
            answer = out.readline()
            if not answer:
                raise SystemExit(f"bench: the process that measures {root} has ended, at {group!r}")
            return json.loads(answer)

        yield Checkout(name, ask)
        into.close()


def measured(group: Group, checkouts: Sequence[Checkout], rounds: int) -> dict[str, Rounds]:
    """Return the rounds of each checkout; none of an older one that can't do it."""
    able = []
    for one in checkouts:
        answer = one.ask("prepare", group.name)
        if answer is True:
            able.append(one)
        elif one is checkouts[0]:
            raise SystemExit(f"bench: {group.name}: {answer}")
        else:
            print(f"{one.name}: no {group.name}: {answer}", file=sys.stderr)
    found: dict[str, Rounds] = {one.name: [] for one in checkouts}
    for number in range(rounds):
        for one in able if number % 2 else reversed(able):
            found[one.name].append(one.ask("round", group.name))
    for one in able:
        one.ask("drop", group.name)
    return found


def result(figure: Figure, rounds: Rounds) -> tuple[Result, float] | None:
    """Return what a figure came to, and its anchor: medians of the rounds that have it; None if none has."""
    pairs = [(one[figure.key], one[figure.anchor]) for one in rounds if figure.key in one]
    if not pairs:
        return None
    ratio = median(figure.ratio(*pair) for pair in pairs)
    return Result(median(pair[0] for pair in pairs), ratio), median(pair[1] for pair in pairs)


def heading(*, compared: bool) -> str:
    """Return the first line of the table."""
    text = f"{'what':<44}{'now':>10}  {'goal':<11}{'against':<30}{'it takes':>10}{'ratio':>9}"
    return text + f"{'before':>12}{'gain':>9}" if compared else text


def row(figure: Figure, now: Rounds, before: Rounds | None) -> tuple[str, Result | None]:
    """Return a figure's line of the table, and what it came to."""
    found = result(figure, now)
    if found is None:
        return f"{figure.what:<44}{'—':>10}  {figure.goal:<11}{figure.anchor:<30}", None
    ours, anchor = found
    missed = " " if figure.is_met(*ours) else "!"
    text = f"{figure.what:<44}{shown(ours.value, figure.unit):>10}{missed} {figure.goal:<11}{figure.anchor:<30}"
    text += f"{shown(anchor, figure.unit):>10}{ours.ratio:>9.3g}"
    if before is not None:
        old = result(figure, before)
        gain = "—" if old is None else _gain(figure.ratio(old[0].value, ours.value))
        text += f"{'—' if old is None else shown(old[0].value, figure.unit):>12}{gain:>9}"
    return text, ours


def _gain(times: float) -> str:
    """Return how many times as fast this checkout is."""
    return f"{times:,.0f} ×" if times >= 100 else f"{times:.2f} ×"


def table(groups: Sequence[Group], before: Path | None, rounds: int, *, seconds: float | None) -> dict[str, Result]:
    """Measure groups and print their lines as they come; return what they came to."""
    results: dict[str, Result] = {}
    start = time.monotonic()
    with ExitStack() as stack:
        checkouts = [stack.enter_context(checkout("now", bench_history.ROOT))]
        if before is not None:
            checkouts.append(stack.enter_context(checkout("before", before)))
        print(heading(compared=before is not None), flush=True)
        for group in groups:
            if seconds is not None and time.monotonic() - start > seconds:
                print(f"not measured for want of time: {group.name}")
                continue
            _progress(f"{group.name} ...", sys.stderr)
            found = measured(group, checkouts, rounds)
            _progress("", sys.stderr)
            for figure in group.figures:
                text, ours = row(figure, found["now"], found.get("before"))
                print(text, flush=True)
                if ours is not None:
                    results[figure.key] = ours
    return results


def _progress(text: str, terminal: TextIO) -> None:
    if terminal.isatty():
        print(f"\r\x1b[K{text}", end="", file=terminal, flush=True)


def check() -> int:
    """Compare a short run with the last landed figures, and warn of what is worse; measured again, it must be still."""
    landed = bench_history.last(bench_history.HISTORY, bench_history.this_kind())
    if landed is None:
        print("benchmarks/ has no figures yet: make bench RECORD=1")
        return 0
    groups = [group for group in bench_groups.GROUPS if group.is_quick]
    start = time.monotonic()
    results = table(groups, None, QUICK_ROUNDS, seconds=QUICK_SECONDS)
    worse = bench_history.worse(results, landed.results)
    left = QUICK_SECONDS - (time.monotonic() - start)
    if worse and left > 0:
        keys = {one.key for one in worse}
        suspects = [group for group in groups if any(figure.key in keys for figure in group.figures)]
        print("\nthese seem worse, so once more:\n")
        again = table(suspects, None, QUICK_ROUNDS, seconds=left)
        better = {key: min(results[key], again.get(key, results[key]), key=lambda one: one.ratio) for key in results}
        worse = bench_history.worse(better, landed.results)
    print(f"\nagainst {landed.commit} of {landed.date}, on {landed.kind}:")
    figures = bench_groups.figures()
    for one in worse:
        than = f"{one.now / one.landed:.2f} times the landed {one.landed:.3g}"
        print(f"warning: {one.key} ({figures[one.key].what}): {one.now:.3g} × its anchor, {than}")
    if not worse:
        print(f"no ratio is more than {bench_history.WORSE:g} times the landed one")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Benchmarks, as ratios measured side by side.")
    parser.add_argument("--before", type=Path, help="an older checkout to measure beside this one")
    parser.add_argument("--only", default="", help="groups whose name has this word, or figures")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--record", action="store_true", help="append the figures to the history of this kind of machine"
    )
    parser.add_argument("--check", action="store_true", help="a short run, compared with the last landed figures")
    options = parser.parse_args()
    if options.check:
        return check()
    groups = [group for group in bench_groups.GROUPS if _is_meant(group, options.only)]
    if options.before is not None and not (options.before / "kprobe_sim").is_dir():
        parser.error(f"{options.before} is no checkout")
    print(f"Python {sys.version.split()[0]}, medians of {options.rounds} rounds; ! misses its goal\n")
    results = table(groups, options.before, options.rounds, seconds=None)
    if options.record:
        today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        landed = Landed(bench_history.this_kind(), bench_history.commit(), today, results)
        print(f"\nrecorded in {bench_history.write(bench_history.HISTORY, landed).relative_to(bench_history.ROOT)}")
    return 0 if options.only else bench_expose.main()


def _is_meant(group: Group, word: str) -> bool:
    return word in group.name or any(word in figure.key for figure in group.figures)


if __name__ == "__main__":
    sys.exit(main())
