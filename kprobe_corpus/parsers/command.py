"""`kprobe test-parser`: tests a parser's command with the texts of every kernel."""

from __future__ import annotations

import json
import time

from kprobe_corpus.parsers.reports import baseline
from kprobe_corpus.parsers.reports.baseline import Baseline, Extent
from kprobe_corpus.parsers.reports.forms import FORMATS, Results
from kprobe_corpus.parsers.running import NotStarted
from kprobe_corpus.parsers.tally import tally
from kprobe_corpus.parsers.testing import Reader, ask_all
from kprobe_corpus.traces import CorpusError, Entry, entries
from kprobe_corpus.traces.entry import DAT, TEXT
from kprobe_text.terminal.meter import Meter
from kprobe_text.terminal.output import say
from kprobe_text.terminal.verb import UsageError
from kprobe_text.terminal.verb_words import HELP_WORDS, usage_error, verb_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

WELL, MISREAD, NOT_TESTED = 0, 1, 2  # exit status

HELP = """\
USAGE: kprobe test-parser [--break] [OPTION ...] -- CMD [ARGUMENT ...]

Compare the answers of a parser of trace text with what is known to be true. CMD gets a text on its standard input and
answers in JSON Lines, one record per line: docs/reference/reader-schema.md. What a parser never reports for any text
(flags, stacks) isn't held against it, but is mentioned.

  --corpus DIR      texts with their truth as kprobe corpus export writes them (default: the installed corpus)
  --kernels LIST    only texts of these kernels, separated by commas; * stands for any text (6.*,7.2)
  --scenarios LIST  only texts of these scenarios, likewise (02_comms,04_clock_*)
  --options LIST    only texts with all of these trace options (latency-format,noirq-info); plain: with none
  --types LIST      compare only these types of records (event,lost), even if the parser never reports them
  --dat             give CMD a trace.dat instead of the text, for entries that have one (kprobe-sim text -o DIR)
  --jobs N          how many commands run at a time (default: as many as there are processors)
  --stay            start CMD once: for each line with a directory's path, it reads trace.txt there, and ends its
                    answer with an empty line
  --limit SECONDS   the time limit for one text (default 30)
  --baseline FILE   fail only by what FILE doesn't have as known, and name what of it is repaired
  --update-baseline strike off there what is repaired; without FILE write it, with all that is misread
  --format FORMAT   text (the default), json (the whole report), junit (XML), github (annotations)
  --json            the same as --format json
  --break           don't read the corpus: search for the shortest scenario that fools CMD, rule by rule, on the
                    simulator, the last of --kernels first (default: all that can be simulated)
  --seconds N       with --break: search this long at most (default 120)
  --rules LIST      with --break: only these rules, separated by commas; * stands for any text (comm-*,string-quote)
  --seed N          with --break: the seed of the search (default 0); the same seed finds the same
  --confirm SPEC    with --break: try the shortest scenario on a real kernel, too (vm:6.12)
  -h, --help        this text

CMD's environment has paths in KPROBE_TRACE (the text), KPROBE_FORMATS (format files, each after a line "== PATH"),
KPROBE_EVENTS (definitions as in kprobe_events) and KPROBE_DAT (a trace.dat, or nothing), and words in KPROBE_KERNEL,
KPROBE_OPTIONS and KPROBE_CLOCK.

  kprobe test-parser -- kprobe parse --format ndjson
  kprobe test-parser --break --confirm vm:6.12 -- mawk -f my_parser.awk
  kprobe test-parser --baseline known.txt --format github -- ./my_parser
  kprobe test-parser --kernels 6.12 --stay -- python3 -m kprobe_corpus.parsers.adapter my_module:parse

Exit status: 0 nothing was misread, or with --baseline nothing new; 1 records are wrong, missing or invented, or CMD
crashed or hung; 2 a wrong command line, no corpus, CMD can't be started, something that --break needs is missing, FILE
is no baseline or is one of another corpus.
"""
LISTS = ("--kernels", "--scenarios", "--options", "--types", "--rules")
SWITCHES = ("--stay", "--json", "--break", "--dat", "--update-baseline")
NUMBERS = ("--jobs", "--limit", "--seconds", "--seed")
SEARCHES = ("--seconds", "--seed", "--confirm", "--rules")  # with --break
TESTS = ("--corpus", "--scenarios", "--options", "--jobs", "--dat", "--baseline", "--update-baseline")  # without it
SELECT = ("--kernels", "--scenarios", "--options")  # options that select texts


class _Demand:
    """A request from the command line."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {name: [] for name in LISTS}
        self.switches: set[str] = set()
        self.numbers = {"--jobs": 0.0, "--limit": 30.0, "--seconds": 120.0, "--seed": 0.0}
        self.corpus: str | None = None
        self.confirm = ""
        self.format = "text"
        self.baseline = ""
        self.argv: list[str] = []
        self.help = False


def main(argv: list[str], output: Output, signals: Signals) -> int:
    """Run the verb with the words that follow it, and return the exit status."""
    try:
        demand = _read(argv)
    except UsageError as error:
        say(usage_error(error, HELP))
        return NOT_TESTED
    if demand.help:
        output.write(HELP.encode(), lambda: bool(signals.received))
        return WELL
    try:
        status, text = (_searched if "--break" in demand.switches else _tested)(demand)
    except (CorpusError, NotStarted) as error:
        say(f"ERROR: {error}")
        return NOT_TESTED
    output.write(text.encode("utf-8", "backslashreplace"), lambda: bool(signals.received))
    output.finish(lambda: bool(signals.received))
    return status


def _tested(demand: _Demand) -> tuple[int, str]:
    chosen = _with_options(
        entries(demand.lists["--kernels"], demand.lists["--scenarios"], directory=demand.corpus),
        demand.lists["--options"],
    )
    if "--dat" in demand.switches:
        chosen = _with_dat(chosen)
    before = _baseline(demand)
    parser = _parser(demand)
    begun = time.monotonic()
    with Meter("testing", len(chosen), "texts") as meter:
        results = ask_all(parser, chosen, lambda number: meter.add())
    report = Results(tally(results, parser.types, time.monotonic() - begun))
    if before is not None:
        report = _beside(before, report, demand)
    return WELL if report.is_well else MISREAD, FORMATS[demand.format](report)


def _scope(demand: _Demand) -> Extent:
    chosen = [f"{name} {','.join(demand.lists[name])}" for name in SELECT if demand.lists[name]]
    compared = [f"--types {','.join(demand.lists['--types'])}"] if demand.lists["--types"] else []
    compared += ["--dat"] if "--dat" in demand.switches else []
    return Extent(baseline.corpus_of(demand.corpus), " ".join(chosen) or "all", " ".join(compared) or "all")


def _baseline(demand: _Demand) -> Baseline | None:
    """Return the requested baseline; one that is to be written is still empty."""
    if not demand.baseline:
        return None
    before, updates = baseline.read(demand.baseline), "--update-baseline" in demand.switches
    if before is None:
        if not updates:
            raise baseline.BadBaseline(f"{demand.baseline}: there is no such file; --update-baseline writes it")
        return Baseline(Extent(""), frozenset())
    baseline.held(demand.baseline, before, _scope(demand), updates=updates)
    return before


def _beside(before: Baseline, report: Results, demand: _Demand) -> Results:
    """Compare the results with the baseline, and write it if requested."""
    scope, results = _scope(demand), report.tally.results
    if not before.scope.corpus:
        before = Baseline(scope, frozenset(baseline.failures(results)))
        baseline.write(demand.baseline, before)
        change = baseline.change(before, results, scope)
        return Results(report.tally, change, f"{demand.baseline}: written, {len(change.known)} known")
    change = baseline.change(before, results, scope)
    said = f"{demand.baseline}: {len(change.known)} known, {len(change.new)} new, {len(change.repaired)} repaired"
    if "--update-baseline" in demand.switches:
        baseline.write(demand.baseline, change.left(before))
        said += ", which are struck off" if change.repaired else ""
    elif change.repaired:
        said += ": --update-baseline strikes them off"
    return Results(report.tally, change, said)


def _searched(demand: _Demand) -> tuple[int, str]:
    from kprobe_corpus.breaking import findings
    from kprobe_corpus.breaking.search import confirm, kernels, renderer, search

    chosen = kernels(",".join(demand.lists["--kernels"]))
    if demand.confirm:
        renderer(demand.confirm.partition(":")[0])  # report at once what can't be confirmed in the end
    parser, names = _parser(demand), demand.lists["--rules"] or ("*",)
    found = search(parser, chosen, demand.numbers["--seconds"], int(demand.numbers["--seed"]), say, names=names)
    shortest = found.shortest
    confirmation = confirm(parser, shortest, demand.confirm) if shortest is not None and demand.confirm else None
    if demand.format == "json":
        text = json.dumps(findings.as_dict(found, confirmation), indent=1) + "\n"
    else:
        text = findings.text(found) + ("" if confirmation is None else "\n" + findings.confirmed(confirmation))
    return WELL if shortest is None else MISREAD, text


def _parser(demand: _Demand) -> Reader:
    jobs = int(demand.numbers["--jobs"]) or _processors()
    file = DAT if "--dat" in demand.switches else TEXT
    stays, types = "--stay" in demand.switches, demand.lists["--types"]
    return Reader(demand.argv, jobs, demand.numbers["--limit"], stays, types, file)


def _with_options(found: list[Entry], options: list[str]) -> list[Entry]:
    """Return the entries that have all of these options; "plain" means no option."""
    required = set() if options == ["plain"] else set(options)
    chosen = [entry for entry in found if _fits(set(entry.about.get("options", ())), required, options)]
    if not chosen:
        known = sorted({option for entry in found for option in entry.about.get("options", ())})
        raise CorpusError(f"no text has the options {','.join(options)}; there are: plain, {', '.join(known)}")
    return chosen


def _with_dat(found: list[Entry]) -> list[Entry]:
    chosen = [entry for entry in found if DAT in entry.files]
    if not chosen:
        raise CorpusError(
            f"none of these texts has a {DAT}; `kprobe-sim text SCENARIO -o DIR` makes some, for --corpus DIR"
        )
    return chosen


def _fits(has: set[str], required: set[str], options: list[str]) -> bool:
    return required <= has if required or not options else not has


def _processors() -> int:
    import os

    return len(os.sched_getaffinity(0))


def _read(argv: list[str]) -> _Demand:
    demand = _Demand()
    at = argv.index("--") if "--" in argv else len(argv)
    takes = dict.fromkeys((*LISTS, *NUMBERS, "--corpus", "--confirm", "--baseline"), ())
    options, words = verb_options(argv[:at], SWITCHES, {**takes, "--format": tuple(FORMATS)})
    for name, value in options:
        _take(demand, name, value)
    demand.argv = argv[at + 1 :]
    if demand.help:
        return demand
    if {"--dat", "--stay"} <= demand.switches:
        raise UsageError("--dat does not go with --stay")
    if words:
        raise UsageError(f"the parser's command comes after --: -- {' '.join(words)}")
    if not demand.argv:
        raise UsageError("the parser's command is missing: it comes after --")
    refused = TESTS if "--break" in demand.switches else SEARCHES
    for name, _ in options:
        if name in refused:
            raise UsageError(f"{name} {'does not go' if refused is TESTS else 'goes'} with --break")
    if "--break" in demand.switches and demand.format not in ("text", "json"):
        raise UsageError(f"--format {demand.format} does not go with --break")
    if "--update-baseline" in demand.switches and not demand.baseline:
        raise UsageError("--update-baseline goes with --baseline")
    return demand


def _take(demand: _Demand, name: str, value: str) -> None:
    if name in HELP_WORDS:
        demand.help = True
    elif name == "--json":
        demand.format = "json"
    elif name in SWITCHES:
        demand.switches.add(name)
    elif name in LISTS:
        demand.lists[name] += filter(None, value.split(","))
    elif name == "--corpus":
        demand.corpus = value
    elif name in ("--confirm", "--format", "--baseline"):
        setattr(demand, name.removeprefix("--"), value)
    else:
        demand.numbers[name] = _number(name, value)


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    least, is_whole = (0 if name == "--seed" else 1e-3), name in ("--jobs", "--seed")
    if not least <= number < 2**31 or (is_whole and number != int(number)):
        raise UsageError(f"{name} takes a {'whole ' if is_whole else ''}number, not {value!r}")
    return number
