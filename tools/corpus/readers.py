"""Developers run `make readers` after a change to test-parser: it tests five parsers; docs/evidence/readers-table.md.

Usage: readers.py [--seconds 300] [--only NAME].  Without --only it writes the page and compares the guide's example
with the result.  It also searches for texts that fool each parser.  trappy and LISA need old versions of pandas, so
they get virtual environments of their own in .readers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "readers-table.md"
GUIDE = ROOT / "docs" / "guides" / "readers.md"
ENVIRONMENTS = ROOT / ".readers"
ADAPTERS = ROOT / "docs" / "readers"
FAULTS = ("wrong", "missing", "invented", "crashed", "hung")
SHOWN = {"trappy": "string-argument", "LISA": "flags-digits"}  # in the guide: a rule that each breaks

HEAD = """\
# Parsers, measured

`make readers` holds five parsers to the corpus and writes this page: ours (`kprobe parse --format ndjson --schema`),
LISA's (`HRTxtTraceParser`), trappy's (which raises on the `(ip)` of probes, so its adapter cuts that out), a regular
expression of 20 lines, and awk. Their programs are in `docs/readers/`; {kernels}.
"""


class Parser(NamedTuple):
    """A parser: its name, its command, what pip installs for it, and whether its command stays."""

    name: str
    argv: tuple[str, ...]
    needs: tuple[str, ...] = ()
    stays: bool = True
    searched: tuple[str, ...] = ()  # the command that the search asks, where a start takes longer than an answer


def parsers() -> list[Parser]:
    """Return the parsers; the first is ours."""
    ours = f'{Path(sys.executable).parent / "kprobe"} parse --format ndjson --schema "$KPROBE_FORMATS"'
    return [
        Parser("ours", ("sh", "-c", ours), stays=False, searched=(sys.executable, str(ADAPTERS / "kprobe_reader.py"))),
        Parser("LISA", ("lisa_reader.py",), ("lisa-linux==3.1.0", "pandas<3")),
        Parser("trappy", ("trappy_reader.py",), ("trappy==6.0.1", "pandas<2", "numpy<2")),
        Parser("regex", (sys.executable, str(ADAPTERS / "regex_reader.py"))),
        Parser("awk", ("mawk", "-f", str(ADAPTERS / "reader.awk")), stays=False),
    ]


def command(parser: Parser) -> list[str]:
    """Return a parser's command line; what it needs is installed first."""
    if not parser.needs:
        return list(parser.argv)
    home = ENVIRONMENTS / parser.name
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        print(f"installing {' '.join(parser.needs)}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *parser.needs], check=True)
        (home / "installed").touch()
    return [str(python), str(ADAPTERS / parser.argv[0])]


def asked(parser: Parser, *options: str) -> dict[str, Any]:
    """Return the report of kprobe test-parser."""
    argv = [sys.executable, "-m", "kprobe", "test-parser", "--json", *options, *(["--stay"] if parser.stays else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*argv, "--", *command(parser)], stdout=subprocess.PIPE, env=environment, cwd=ROOT)
    if done.returncode not in (0, 1):
        raise SystemExit(f"readers: {parser.name}: exit status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def table(rows: Sequence[Sequence[object]]) -> str:
    """Return rows as a table in Markdown."""
    lines = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]) + "\n"


def totals(reports: dict[str, dict[str, Any]]) -> str:
    """Return how many records each parser read how."""
    kinds = ("right", "marked", "wrong", "missing", "invented", "crashed", "hung")
    rows = [["parser", *kinds, "seconds"]]
    for name, report in reports.items():
        rows.append([name, *(str(report["total"].get(kind, 0)) for kind in kinds), f"{report['seconds']:.0f}"])
    return table(rows)


def by(title: str, reports: dict[str, dict[str, Any]], key: Callable[[dict[str, Any]], Iterable[str]]) -> str:
    """Return how many records each parser misread, by what `key` says of an entry."""
    counts: dict[str, dict[str, Counter[str]]] = {}
    texts: Counter[str] = Counter()
    for parser, report in reports.items():
        for entry in report["entries"]:
            for name in key(entry):
                texts[name] += parser == "ours"
                own = counts.setdefault(name, {}).setdefault(parser, Counter())
                own.update({kind: entry.get(kind, 0) for kind in (*FAULTS, "marked")})
    rows = [[title, "texts", *reports]]
    for name, found in counts.items():
        rows.append([name, str(texts[name]), *(cell(found.get(parser, Counter())) for parser in reports)])
    return table(rows)


def cell(counts: Counter[str]) -> str:
    """Return what a table shows of an entry's records."""
    faults = sum(counts[kind] for kind in FAULTS)
    return str(faults) if faults else "?" if counts["marked"] else "."


def options_of(entry: dict[str, Any]) -> list[str]:
    """Return the options of an entry, and its clock where it isn't the usual one."""
    clock = [f"clock {entry['clock']}"] if entry["clock"] != "local" else []
    return [", ".join([*entry["options"], *clock]) or "plain"]


def rules(searches: dict[str, dict[str, Any]]) -> str:
    """Return which rules the parsers break, each by what."""
    broken: dict[str, dict[str, str]] = {}
    order: list[str] = []
    places: dict[str, int] = {}
    for parser, found in searches.items():
        order += found["tried"]
        for one in found["broken"]:
            says = "; ".join(rule["says"] for rule in one["rules"])
            places.setdefault(says, order.index(one["rules"][0]["name"]) + 1000 * (len(one["rules"]) > 1))
            broken.setdefault(says, {})[parser] = f"`{one['what']}`" if one["what"] else "so"
    rows = [["rule", *searches]]
    for says in sorted(broken, key=lambda says: places[says]):
        rows.append([says, *(broken[says].get(parser, ".") for parser in searches)])
    return table(rows)


def searched(searches: dict[str, dict[str, Any]]) -> str:
    """Return what the search came to for each parser."""
    rows = [["parser", "rules broken", "of", "texts", "seconds", "shortest", "its line", "seconds"]]
    for parser, found in searches.items():
        shortest = found["broken"][0] if found["broken"] else None
        names = {rule["name"] for one in found["broken"] for rule in one["rules"]}
        head = [parser, len(names), len(found["tried"]), found["texts"], f"{found['seconds']:.0f}"]
        if shortest is None:
            rows.append([*map(str, head), "none", "", ""])
        else:
            says = "; ".join(rule["says"] for rule in shortest["rules"])
            rows.append([*map(str, head), says, f"`{line_of(shortest)}`", f"{shortest['seconds']:.1f}"])
    return table(rows)


def line_of(one: dict[str, Any]) -> str:
    """Return the line of a scenario's text that matters, with what can't be shown escaped."""
    lines = [line for line in one["text"].split("\n") if line and not line.startswith("#")]
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in " ⏎ ".join(lines)).strip()


def example(searches: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines of the guide's block."""
    lines = []
    for parser, name in SHOWN.items():
        one = next(one for one in searches[parser]["broken"] if [rule["name"] for rule in one["rules"]] == [name])
        said = json.dumps(one["answer"][0]["fields"], sort_keys=True) if one["answer"] else "nothing"
        lines += [f"{parser}: {line_of(one)}", f"{' ' * len(parser)}  {said}"]
    return lines


def page(reports: dict[str, dict[str, Any]], searches: dict[str, dict[str, Any]]) -> str:
    """Return the page."""
    entries = reports["ours"]["entries"]
    kernels = f"{len(entries)} texts of {len({entry['kernel'] for entry in entries})} kernels"
    parts = [
        HEAD.format(kernels=kernels),
        "Records, and how often a parser crashed or hung:\n",
        totals(reports),
        "How many were misread (`.` none, `?` none but some are marked as guesses):\n",
        by("kernel", reports, lambda entry: [entry["kernel"]]),
        by("options", reports, options_of),
        by("defect", reports, lambda entry: entry["defects"] or ["none"]),
        "## Broken\n\nWhat `kprobe test-parser --break` found in one run of each:\n",
        searched(searches),
        "All rules that one of them breaks, each with the shortest scenario that was found:\n",
        rules(searches),
        "The guide's example:\n",
        "".join(f"    {line}\n" for line in example(searches)),
    ]
    return "\n".join(parts)


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--seconds", default="300", help="for a search at most")
    reader.add_argument("--only", default="", help="this parser alone; nothing is written")
    wanted = reader.parse_args()
    reports, searches = {}, {}
    for parser in parsers():
        if wanted.only in ("", parser.name):
            print(f"{parser.name}: the corpus", flush=True)
            reports[parser.name] = asked(parser)
            print(f"{parser.name}: the search", flush=True)
            if parser.searched:
                parser = parser._replace(argv=parser.searched, stays=True)
            searches[parser.name] = asked(parser, "--break", "--seconds", wanted.seconds)
    if wanted.only:
        print(totals(reports), searched(searches), rules(searches), sep="\n")
        return 0
    PAGE.write_text(page(reports, searches), encoding="utf-8")
    missing = [line for line in example(searches) if f"    {line}\n" not in GUIDE.read_text(encoding="utf-8")]
    for line in missing:
        print(f"docs/guides/readers.md lacks: {line}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
