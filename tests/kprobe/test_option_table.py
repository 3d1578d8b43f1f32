"""The table of options and verbs, and what is made of it."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from kprobe.options.command_line import CommandLine
from kprobe.options.table import OPTIONS, TRACE, Verb, options_of, verbs
from kprobe.options.usage import help_text

READING = [pytest.param(verb, id=verb.name) for verb in verbs() if verb.reads]


@pytest.mark.parametrize("verb", READING)
def test_it_has_the_options_of_verbs_that_read_them(verb: Verb) -> None:
    """Completion knows them by the table, the verb by its own help."""
    help_of_verb = import_module(verb.module).HELP
    shown = re.findall(r"^  (-[-\w, ]*?)(?: [A-Z]+)?(?:  +| (?=[a-z]))", help_of_verb, re.MULTILINE)
    named = {name for names in shown for name in names.split(", ") if name != "-"}
    assert {name for option in options_of(verb.name) for name in option.names} == named


def test_every_option_of_a_trace_and_every_verb_is_explained() -> None:
    explained = help_text()
    for option in options_of(TRACE):
        assert re.search(rf"^  {re.escape(option.shown)}\s", explained, re.MULTILINE), option.shown
    for verb in verbs():
        assert f"\n       kprobe {verb.name} " in explained
        assert re.search(rf"^  {verb.name}\s", explained, re.MULTILINE), verb.name
    assert max(map(len, explained.splitlines())) <= 120


def test_each_sets_something_that_there_is() -> None:
    ours = {TRACE, *(verb.name for verb in verbs() if not verb.reads)}
    for option in OPTIONS:
        if ours & set(option.verbs):
            assert hasattr(CommandLine(), option.sets), option.shown


def test_a_name_takes_a_value_with_every_verb_or_with_none() -> None:
    """Options may stand before the verb, where it isn't known yet."""
    ours = {TRACE, *(verb.name for verb in verbs() if not verb.reads)}
    takes: dict[str, set[tuple[bool, str]]] = {}
    for option in OPTIONS:
        if ours & set(option.verbs):
            for name in option.names:
                takes.setdefault(name, set()).add((bool(option.metavar), option.sets))
    assert {name: found for name, found in takes.items() if len(found) > 1} == {}
