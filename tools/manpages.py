"""Write the manual pages of the three commands into man/, by the tables that they read their options with.

python tools/manpages.py            write them
python tools/manpages.py --check    only say which are out of date, with status 1
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kprobe.options import usage
from kprobe.options.table import OPTIONS, TRACE, Option, options_of, verbs
from kprobe_sim.cli import _parser as sim_parser
from kprobe_vm.cli import EPILOG
from kprobe_vm.cli import _parser as vm_parser

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "man"
DATE = "2026-11-23"  # of the last change of what they say beside the tables
COMMANDS = {
    "kprobe": "trace kernel probes through tracefs, and leave nothing behind",
    "kprobe-sim": "run programs on a simulated kernel's tracefs",
    "kprobe-vm": "real Linux kernels in QEMU, for probes and their tests",
}


class Section(NamedTuple):
    """A verb, or what stands before all verbs: how it is called, what it does, and its options."""

    synopsis: str
    text: str
    options: tuple[tuple[str, str], ...]


def escaped(text: str) -> str:
    """Return text as troff has it: a minus that is typed, and characters that it would print as others."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha")
    return text.replace("`", "\\(ga").replace("~", "\\(ti").replace("…", "...").replace("—", "\\(em")


def filled(text: str) -> str:
    """Return a paragraph in lines, none of which begins as a request does."""
    lines = textwrap.wrap(escaped(text), 79, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in lines) or "\\&"


def tagged(name: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f"\\fB{escaped(name)}\\fR"
    yield filled(text)


def page(name: str, sections: list[Section], rest: Iterable[str]) -> str:
    with open(ROOT / "pyproject.toml", "rb") as file:
        version = tomllib.load(file)["project"]["version"]
    lines = [f'.TH {escaped(name.upper())} 1 {DATE} "kprobe\\-sim {version}"']
    lines += [".SH NAME", f"{escaped(name)} \\- {escaped(COMMANDS[name])}", ".SH SYNOPSIS"]
    for section in sections:
        command, _, rest_of_it = section.synopsis.partition(" ")
        lines += [".PD 0", ".HP", f"\\fB{escaped(command)}\\fR", filled(rest_of_it)]
    lines += [".PD", ".SH DESCRIPTION", filled(sections[0].text), ".SH OPTIONS"]
    for option in sections[0].options:
        lines += tagged(*option)
    lines += [".SH VERBS"]
    for section in sections[1:]:
        lines += [f'.SS "{escaped(" ".join(section.synopsis.split()[:2]))}"', filled(section.text)]
        for option in section.options:
            lines += tagged(*option)
    lines += rest
    others = [f".BR {escaped(other)} (1)" for other in COMMANDS if other != name]
    lines += [".SH SEE ALSO", *(f"{other} ," for other in others[:-1]), others[-1]]
    return "\n".join(lines) + "\n"


def of_kprobe() -> str:
    ways = usage.usage().removeprefix(usage.LEAD).splitlines()
    sections = [Section(ways[0].strip(), usage.PURPOSE, tuple(map(_shown, options_of(TRACE))))]
    for verb, way in zip(verbs(), ways[1:], strict=True):
        own = [option for option in OPTIONS if verb.name in option.verbs and TRACE not in option.verbs]
        own += verb.options
        text = verb.help.removesuffix(f": kprobe {verb.name} -h")
        text = f"{text[:1].upper()}{text[1:]}."
        if verb.reads:
            text += f" kprobe {verb.name} -h has all of it."
        sections.append(Section(way.strip(), text, tuple(map(_shown, own))))
    return page("kprobe", sections, [*_language(), *_environment()])


def _shown(option: Option) -> tuple[str, str]:
    what = f" ({', '.join(option.choices)})" if option.choices else ""
    return option.shown, option.help + what


def _language() -> Iterator[str]:
    """Give what the help says after its tables: the language, the examples, and the exit status."""
    *blocks, rest = usage.LANGUAGE.strip("\n").split("\n\n")
    examples = "\n".join(block for block in blocks if block.startswith("  kprobe "))
    entries = [entry for block in blocks if not block.startswith("  ") for entry in re.split(r"\n(?! )", block)]
    yield ".SH DEFINITIONS AND FILTERS"
    for number, entry in enumerate(entries):
        yield from [".PP"] if number else []
        yield filled(" ".join(entry.split()))
    yield ".SH EXAMPLES"
    for line in examples.splitlines():
        command, _, what = line.strip().partition("  ")
        yield from tagged(command, what.strip())
    first, _, status = " ".join(rest.split()).partition("Exit status: ")
    yield from (".SH OUTPUT", filled(first.strip()), ".SH EXIT STATUS")
    for entry in re.split(r"; (?![^(]*\))", status.rstrip(".")):
        number, _, what = entry.partition(" ")
        yield from tagged(number, what)


def _environment() -> Iterator[str]:
    yield ".SH ENVIRONMENT"
    yield from tagged("KPROBE_TRACEFS", "the tracefs where --tracefs names none")
    yield from tagged("NO_COLOR", "no colours on a terminal, if it is set and not empty; nor with TERM=dumb")


def of_argparse(name: str, parser: argparse.ArgumentParser, rest: Iterable[str] = ()) -> str:
    text = (parser.description or COMMANDS[name]).strip()
    synopsis = f"{name} [--version] VERB ..."
    sections = [Section(synopsis, " ".join(text.split()), tuple(_arguments(parser)))]
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in verbs._get_subactions()}
    for verb, one in verbs.choices.items():
        synopsis = " ".join(one.format_usage().removeprefix("usage: ").split())
        said = " ".join((one.description or helps[verb]).split()).rstrip(".")
        sections.append(Section(synopsis, f"{said[:1].upper()}{said[1:]}.", tuple(_arguments(one))))
    return page(name, sections, rest)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    formatter = parser._get_formatter()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        value = formatter._format_args(action, action.dest.upper()) if action.nargs != 0 else ""
        names = ", ".join(action.option_strings)
        text = formatter._expand_help(action) if action.help else ""
        if names or text:
            yield " ".join(filter(None, (names, value))), " ".join(text.split())


def _of_guests() -> Iterator[str]:
    """Give what stands below the help of kprobe-vm: what KERNEL can be, and the exit statuses."""
    kernel, _, statuses = EPILOG.partition("The exit status is ")
    yield from (".SH KERNELS", filled(" ".join(kernel.split())), ".SH EXIT STATUS")
    yield filled("It is " + " ".join(statuses.partition("\n")[0].split()))
    for line in statuses.splitlines()[1:]:
        if not line.startswith(" "):
            yield from (".PP", filled(line))
            continue
        for number, what in re.findall(r"(\d+) (.+?)(?=  \d|$)", line):
            yield from tagged(number, what.strip())


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    os.environ["COLUMNS"] = "1000"  # by which argparse would break the lines
    return {
        "kprobe.1": of_kprobe(),
        "kprobe-sim.1": of_argparse("kprobe-sim", sim_parser()),
        "kprobe-vm.1": of_argparse("kprobe-vm", vm_parser(), _of_guests()),
    }


def main(argv: list[str]) -> int:
    old = []
    for name, text in pages().items():
        path = DIRECTORY / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            old.append(name)
            if "--check" not in argv:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if "--check" in argv and old:
        print(f"out of date: {', '.join(old)}: python tools/manpages.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
