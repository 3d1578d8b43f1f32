"""The search for the shortest scenario that fools a parser: hypothesis draws, a simulated kernel prints."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from random import Random
from typing import Any, NamedTuple

from kprobe_corpus.breaking.case import PLAINEST, Case
from kprobe_corpus.breaking.rules import Rule, rules
from kprobe_corpus.parsers.testing import Reader, Result, settled, variables
from kprobe_corpus.traces.entry import CorpusError
from kprobe_corpus.traces.writing import made, write
from kprobe_text.entry_points import find as installed

GROUP = "kprobe.scenarios"
CHOSEN = "kprobe.kernels.named"
EXAMPLES = 25  # values of one rule; once one fools the parser, shorter ones are tried as well
TOGETHER = 4  # values of several rules at once, for each rule that holds alone
PLAIN = Rule("plain", "a line may be as plain as can be", "", lambda st: st.just({}))


class NoSearch(CorpusError):
    """A dependency of the search isn't installed; the text says which."""


class Broken(NamedTuple):
    """The shortest known scenario for its rules that fools a parser; `seconds` is the time that it took."""

    rules: tuple[Rule, ...]
    case: Case
    result: Result
    seconds: float

    @property
    def length(self) -> tuple[int, int, int]:
        """Its length: the number of rules, and the lines and bytes of the text."""
        text = self.result.entry.text
        return (len(self.rules), text.count(b"\n"), len(text))


class Search(NamedTuple):
    """The result of a search: the rules that were tried, in their order, and the scenarios that fooled the parser."""

    tried: tuple[Rule, ...]
    untried: tuple[Rule, ...]
    broken: tuple[Broken, ...]
    texts: int
    seconds: float

    @property
    def broken_rules(self) -> set[str]:
        """The names of the rules that were broken, alone or together with others."""
        return {rule.name for one in self.broken for rule in one.rules}

    @property
    def fails_plainest(self) -> bool:
        """True if the parser reads no kernel's plainest text; then no rule is tried."""
        return self.tried == (PLAIN,)

    @property
    def shortest(self) -> Broken | None:
        """The shortest of all."""
        return min(self.broken, key=lambda one: one.length, default=None)


def search(
    parser: Reader,
    kernels: Sequence[str],
    seconds: float,
    seed: int,
    tell: Callable[[str], None] = lambda words: None,
    *,
    names: Collection[str] = ("*",),
) -> Search:
    """Search for some seconds at most; the same seed finds the same, given enough time.

    Its texts are those of the last of the kernels whose plainest text the parser reads; `names` are patterns of the
    rules that are tried.
    Raise `NoSearch` and `NotStarted`.
    """
    rule_list = [rule for rule in rules(kernels) if any(fnmatchcase(rule.name, name) for name in names)]
    if not rule_list:
        raise NoSearch(
            f"no rule is called {', '.join(names)}; there are: {', '.join(rule.name for rule in rules(kernels))}"
        )
    with _Trial(parser, kernels, seconds) as trial:
        broken, tried = [], []
        if plain := trial.plain(seed):
            return Search((PLAIN,), tuple(rule_list), (plain,), trial.texts, trial.passed())
        for rule in rule_list:
            if trial.is_over():
                break
            tried.append(rule)
            if one := trial.shortest((rule,), seed, EXAMPLES):
                broken.append(one)
                tell(f"broken: {rule.says}")
        held = [rule for rule in tried if all(rule not in one.rules for one in broken)]
        if len(held) > 1 and not trial.is_over() and (one := trial.together(held, seed)):
            broken.append(one)
        return Search(tuple(tried), tuple(rule_list[len(tried) :]), tuple(broken), trial.texts, trial.passed())


class Confirmation(NamedTuple):
    """A scenario's result on a guest; `result` is None if there is none, which `words` explain."""

    spec: str
    result: Result | None
    words: str


def confirm(parser: Reader, broken: Broken, spec: str) -> Confirmation:
    """Ask the parser for the text that a guest ("vm:6.12") makes of a scenario.  Raise `NoSearch`."""
    kind, _, kernel = spec.partition(":")
    render, case = renderer(kind), broken.case
    try:
        rendered = render(case.scenario(), kernel)
    except Exception as error:  # the guest's error: it can't do that, or died
        return Confirmation(spec, None, str(error))
    with tempfile.TemporaryDirectory(prefix="kprobe-") as directory, parser.command() as command:
        result = ask(
            parser, command, case._replace(kernel=kernel), rendered, directory, broken.result.comparison.reported
        )
    return Confirmation(spec, result, "")


class _Trial:
    """Tries a parser on one case after the other."""

    def __init__(self, parser: Reader, kernels: Sequence[str], seconds: float) -> None:
        self.texts = 0
        self._kernels = kernels
        self._kernel = kernels[-1]
        self._parser = parser
        self._seconds = seconds
        self._begun = time.monotonic()
        self._render = renderer("sim")
        self._command = parser.command()
        self._reported: set[str] = set()
        self._results: dict[Case, Result | None] = {}

    def __enter__(self) -> _Trial:
        self._directory = tempfile.TemporaryDirectory(prefix="kprobe-")
        # texts with a bit of everything show what the parser reports
        for more in ({}, {"options": ("stacktrace",)}, {"beside": (("marker", "x"),)}, {"probe": "r", "arguments": ""}):
            for kernel in {self._kernels[0], self._kernels[-1]}:
                result = self._asked(PLAINEST._replace(kernel=kernel, **more))
                self._reported |= result.comparison.reported if result is not None else set()
        self._results.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._command.close()
        self._directory.cleanup()

    def passed(self) -> float:
        """Return the seconds since the search began."""
        return time.monotonic() - self._begun

    def is_over(self) -> bool:
        """True once the time is up."""
        return self.passed() >= self._seconds

    def plain(self, seed: int) -> Broken | None:
        """Choose the last kernel whose plainest text the parser reads; if it reads none, return that of the last."""
        for kernel in reversed(self._kernels):
            self._kernel = kernel
            if self.shortest((PLAIN,), seed, 1) is None:
                return None
        self._kernel = self._kernels[-1]
        return self.shortest((PLAIN,), seed, 1)

    def shortest(self, broken: tuple[Rule, ...], seed: int, examples: int) -> Broken | None:
        """Return the shortest case of one rule that fools the parser, if there is any."""
        from hypothesis import strategies as st

        return self._shortest_of(broken[0].values(st), lambda changes: (broken, changes), seed, examples)

    def together(self, held: Sequence[Rule], seed: int) -> Broken | None:
        """Return the shortest case of several rules that don't fool the parser alone."""
        from hypothesis import strategies as st

        one = st.integers(0, len(held) - 1).flatmap(lambda at: st.tuples(st.just(at), held[at].values(st)))
        several = st.lists(one, min_size=2, max_size=4, unique_by=lambda drawn: drawn[0])

        def merged(drawn: list[tuple[int, dict[str, Any]]]) -> tuple[tuple[Rule, ...], dict[str, Any]]:
            changes: dict[str, Any] = {}
            for _, more in drawn:
                changes |= {key: value for key, value in more.items() if key not in changes}
            return tuple(held[at] for at, _ in drawn), changes

        return self._shortest_of(several, merged, seed, TOGETHER * len(held))

    def _shortest_of(
        self, strategy: Any, read: Callable[[Any], tuple[tuple[Rule, ...], Mapping[str, Any]]], seed: int, examples: int
    ) -> Broken | None:
        from hypothesis import HealthCheck, Phase, find, settings
        from hypothesis.errors import NoSuchExample

        begun = self.passed()
        search_ = settings(
            database=None,
            deadline=None,
            max_examples=examples,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )

        def case(drawn: Any) -> Case:
            return PLAINEST._replace(**{"kernel": self._kernel, **read(drawn)[1]})

        def fools(drawn: Any) -> bool:
            result = None if self.is_over() else self._asked(case(drawn))
            return result is not None and not result.is_well

        try:
            drawn = find(strategy, fools, settings=search_, random=Random(seed))
        except NoSuchExample:
            return None
        result = self._asked(case(drawn))
        assert result is not None
        return Broken(read(drawn)[0], case(drawn), result, self.passed() - begun)

    def _asked(self, case: Case) -> Result | None:
        """Return the parser's result for a case; None if the kernel has no such option or clock."""
        if case not in self._results:
            try:
                rendered = self._render(case.scenario(), case.kernel)
            except ValueError:  # not every kernel has every option
                self._results[case] = None
            else:
                self.texts += 1
                self._results[case] = ask(
                    self._parser, self._command, case, rendered, self._directory.name, self._reported
                )
        return self._results[case]


def renderer(kind: str) -> Callable[..., Any]:
    """Return the renderer of scenarios, on a simulated kernel ("sim") or a guest ("vm").  Raise `NoSearch`."""
    try:
        import hypothesis  # noqa: F401  # is told before anything is begun
    except ModuleNotFoundError as error:
        raise NoSearch(f"--break needs {error.name}: pip install 'kprobe-sim[break]'") from error
    point = installed(GROUP, kind)
    if point is None:
        raise NoSearch(f"nothing that is installed makes texts of scenarios on {kind!r} (entry points {GROUP})")
    render: Callable[..., Any] = point.load()
    return render


def kernels(words: str) -> list[str]:
    """Return the simulated kernels that words mean ("6.1,6.12", or "" for all), as the backend `sim` names them.

    Raise `NoSearch`.
    """
    point = installed(CHOSEN, "chosen")
    if point is None:
        raise NoSearch(f"nothing that is installed knows kernels (entry points {CHOSEN})")
    try:
        return [kernel.spec.removeprefix("sim:") for kernel in point.load()(words or "all")]
    except ValueError as error:
        raise NoSearch(str(error)) from error


def ask(parser: Reader, command: Any, case: Case, rendered: Any, directory: str, reported: Collection[str]) -> Result:
    """Return a parser's answer to a case's text, compared with its truth."""
    about = {"kernel": case.kernel, "options": list(case.options), "clock": case.clock, "source": "simulator"}
    entry = made(
        f"{case.kernel}/case", rendered.text, rendered.truth, about,
        formats=rendered.formats, definitions=rendered.definitions,
    )  # fmt: skip
    write(entry, directory)
    outcome = command.ask(os.path.join(directory, entry.kernel, entry.name), variables(entry))
    result = parser.result(entry, outcome)._replace(output=outcome.output)
    return settled([result], parser.types, reported)[0]
