"""The documents are held to the code: their commands and examples are run, the names in them are looked up.

In a block marked `console` a line after the prompt `$` is run and its output compared; `[...]` stands for any lines, ^C
for Ctrl-C once what is above it has come.  Times, pids and the width of columns may differ.  All that follows a
`make` command in its block is its output.  A line after the prompt `#` needs root and is only read.
A block marked `python` is run; a block marked `text` after it is its output.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

import pytest

from kprobe.definitions.definition import parse
from kprobe.options.command_line import read_options
from kprobe.options.usage import help_text
from kprobe.tracefs.backends import check_spec
from kprobe_check.command import HELP as CHECK
from kprobe_corpus.parsers.command import HELP as TEST_PARSER
from kprobe_sim.builds.profile import newest
from kprobe_text.parse.command import HELP as PARSE

ROOT = Path(__file__).parent.parent
GUIDES = (
    "README.md",
    "docs/guides/tracer.md",
    "docs/start/library.md",
    "docs/guides/this-machine.md",
    "docs/guides/probing.md",
    "docs/guides/check.md",
    "docs/guides/simulator.md",
    "docs/start/guests.md",
    "docs/guides/readers.md",
    "docs/reference/limits.md",
)
DOCUMENTS = (*GUIDES, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")
PAGES = tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))
WORDS = {"README.md": 700, "ARCHITECTURE.md": 1800, "docs/guides/*.md": 900}
SECONDS = 30.0  # for a command; one in a guest has four times as long
ANY = "[...]"
INTERRUPT = "^C"
TEST = re.compile(r"# (test_\w+\.py)\n")
FUNCTION = re.compile(r"^def (test_\w+)", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")

# What of a line may be another in another run, as it stands in the text and as an expression.
LOOSE = (
    (r"-\d+ +\[\d{3}\] \S{5} +\d+\.\d{6}:", r"-\d+ +\[\d{3}\] \S{5} +\d+\.\d{6}:"),
    (r"in \d+\.\d+s", r"in \d+\.\d+s"),
    (r"-\d+-cloud-amd64", r"-\d+-cloud-amd64"),
    (r" +", r" +"),
)
# what a busy machine adds
SLOW = re.compile(r"^opening \S+ \.\.\. \d+ s\n", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: where it stands, its language, its text, and the language and text of what follows at once."""

    place: str
    language: str
    text: str
    output: str | None


class Command(NamedTuple):
    """A command of a console block and the lines that it should print."""

    place: str
    line: str
    output: tuple[str, ...]

    @property
    def needs_vm(self) -> bool:
        return "vm:" in self.line or self.line.startswith("kprobe-vm")


def document(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[Block]:
    found: list[Block] = []
    lines = document(name).split("\n")
    at = 0
    while at < len(lines):
        if not lines[at].startswith("```"):
            at += 1
            continue
        end = lines.index("```", at + 1)
        language, text = lines[at][3:].strip(), "\n".join(lines[at + 1 : end]) + "\n"
        if language == "text" and found and lines[at - 1] == "```":
            found[-1] = found[-1]._replace(output=text)
        else:
            found.append(Block(f"{name}:{at + 1}", language, text, None))
        at = end + 1
    return found


def commands(block: Block) -> Iterator[Command]:
    lines = block.text.removesuffix("\n").split("\n")
    assert lines[0].startswith("$ "), f"{block.place}: no prompt"
    while lines:
        line = lines.pop(0)[2:]
        output = []
        while lines and (line.startswith("make") or not lines[0].startswith("$ ")):
            output.append(lines.pop(0))
        yield Command(block.place, line, tuple(output))


ALL = [block for name in DOCUMENTS for block in blocks(name)]
AS_ROOT = [block for block in ALL if block.language == "console" and block.text.startswith("# ")]
COMMANDS = [
    command for block in ALL if block.language == "console" and block not in AS_ROOT for command in commands(block)
]
SCRIPTS = [block for block in ALL if block.language == "python" and not TEST.match(block.text)]
TESTS = {match[1]: block for block in ALL if block.language == "python" and (match := TEST.match(block.text))}


def expression(lines: tuple[str, ...]) -> str:
    """Return the regular expression of lines of output."""
    parts = []
    for line in lines:
        if line in (ANY, INTERRUPT):
            parts.append(r"(?:[^\n]*\n)*?")
        elif not line.strip(" ^") and line.endswith("^"):  # a caret stands under its column
            parts.append(re.escape(line) + "\n")
        else:
            parts.append(loose(line) + "\n")
    return "".join(parts)


def loose(line: str) -> str:
    pattern = "|".join(f"({text})" for text, _ in LOOSE)
    result, at = "", 0
    body = line.strip(" ")
    for match in re.finditer(pattern, body):
        result += re.escape(body[at : match.start()]) + LOOSE[int(match.lastindex or 0) - 1][1]
        at = match.end()
    return " *" + result + re.escape(body[at:]) + " *"


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of somebody who has put the commands of this Python into the PATH."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KPROBE_TRACEFS", "PYTEST_", "COV", "MAKE"))
    }
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80"}


def run(command: Command, directory: Path, environment: dict[str, str]) -> str:
    """Run a command and return its output; where the document has a ^C, end it once what is above that has come."""
    argv = shlex.split(command.line)
    if argv[0] == "make":  # in the checkout, with this Python and its environment as they are
        argv += [
            "-C",
            str(ROOT),
            "--no-print-directory",
            "-o",
            ".venv/.bare",
            "-o",
            ".venv/.dev",
            f"PY={sys.executable}",
        ]
    before = command.output[: command.output.index(INTERRUPT)] if INTERRUPT in command.output else None
    process = subprocess.Popen(
        argv,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    timer = threading.Timer(SECONDS * (4 if command.needs_vm else 1), lambda: os.killpg(process.pid, signal.SIGKILL))
    timer.start()
    text = ""
    try:
        assert process.stdout is not None
        for data in process.stdout:
            text += data.decode()
            if before is not None and re.match(expression(before), SLOW.sub("", text)):
                process.send_signal(signal.SIGINT)
                before = None
        process.wait()
    finally:
        timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            process.stdout.close()
    return text


def _id(command: Command) -> str:
    return f"{command.place} {command.line[:40]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=[pytest.mark.vm] if command.needs_vm else [], id=_id(command))
        for command in COMMANDS
    ],
)
def test_command(command: Command, tmp_path: Path, environment: dict[str, str], requires: Callable[..., None]) -> None:
    if command.line.startswith("kprobe-sim run"):
        requires("/dev/fuse", "user namespaces")
    for name, block in TESTS.items():
        (tmp_path / name).write_text(block.text, encoding="utf-8")
    text = SLOW.sub("", run(command, tmp_path, environment))
    if command.output:
        assert re.fullmatch(expression(command.output), text), f"{command.place}: {command.line}\n{text}"


@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in SCRIPTS])
def test_script(block: Block, tmp_path: Path, environment: dict[str, str]) -> None:
    script = tmp_path / "example.py"
    script.write_text(block.text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (block.output or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "test",
    [f"{name}::{test}" for name, block in TESTS.items() for test in FUNCTION.findall(block.text)],
)
def test_each_test_of_the_documents_alone_in_a_process(test: str, tmp_path: Path, environment: dict[str, str]) -> None:
    name = test.partition("::")[0]
    (tmp_path / name).write_text(TESTS[name].text, encoding="utf-8")
    shown = [word for command in COMMANDS if name in command.line for word in shlex.split(command.line)]
    argv = [sys.executable, "-m", "pytest", "-q", *(word for word in shown if word.startswith("--trace-")), test]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert re.match(r"\d+ passed in ", done.stdout.splitlines()[-1]), done.stdout


def test_every_test_of_the_documents_is_run() -> None:
    assert {name for name in TESTS if not any(name in command.line for command in COMMANDS)} == set()


@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in AS_ROOT])
def test_what_needs_root_is_written_well(block: Block) -> None:
    for line in block.text.splitlines():
        name, *arguments = shlex.split(line.removeprefix("# "))
        assert name == "kprobe"
        assert all(parse(one).name for one in read_options(arguments).definitions)


def test_blocks_have_a_known_language() -> None:
    assert {block.language for block in ALL} <= {"console", "python"}


# the names


def helps(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the help of kprobe-sim, kprobe-vm and all their verbs, by "COMMAND VERB"."""
    from kprobe_sim import cli as sim
    from kprobe_vm import cli as vm

    found = {}
    for name, main in (("kprobe-sim", sim.main), ("kprobe-vm", vm.main)):
        verbs = [""]
        for verb in verbs:
            with pytest.raises(SystemExit):
                main([verb, "--help"] if verb else ["--help"])
            found[f"{name} {verb}".strip()] = text = capsys.readouterr().out
            if not verb:
                verbs += re.findall(r"^ {4}([a-z-]+)(?: |$)", text, re.MULTILINE)
    return found


def test_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    """Every verb is named in its command's guide, after the command or in the sentence on it."""
    found = helps(capsys)
    assert {"kprobe-sim run", "kprobe-vm boot"} <= set(found)
    for command, guide in (("kprobe-sim", "docs/guides/simulator.md"), ("kprobe-vm", "docs/start/guests.md")):
        named = set(re.findall(r"[\w-]+", " ".join(SPAN.findall(document(guide)))))
        assert {name for name in found if name.startswith(command) and name.split()[-1] not in named} == set()


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    named = {option for name in DOCUMENTS for option in OPTION.findall(document(name))}
    sources = (
        "kprobe_sim/pytest_plugin/__init__.py",
        "kprobe_sim/pytest_plugin/options.py",
        "tests/conftest.py",
        "tools/setup/environment.py",
    )
    texts = [help_text(), CHECK, PARSE, TEST_PARSER, *map(document, sources), *helps(capsys).values()]
    known = {option for text in texts for option in OPTION.findall(text)} | {"--strict"}  # mypy's
    assert "--tracefs" in named
    assert named - known == set()


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z0-9-]*):", document("Makefile"), re.MULTILINE))


def test_make() -> None:
    named = {match for name in DOCUMENTS for match in re.findall(r"`make ([a-z0-9-]+)", document(name))}
    assert named >= {"demo", "test", "vm-test", "check", "bench"}
    assert named - targets() == set()
    shown = re.findall(r"^([a-z0-9-]+):.* #([#+]) ", document("Makefile"), re.MULTILINE)
    assert {name for name, _ in shown} == targets()
    assert len([name for name, mark in shown if mark == "#"]) <= 1 + 12  # help, and what it lists


def test_commands_are_named() -> None:
    scripts = tomllib.loads(document("pyproject.toml"))["tool"]["setuptools"]["script-files"]
    assert scripts == ["bin/kprobe", "bin/kprobe-sim", "bin/kprobe-vm"]
    assert [path for path in scripts if f"`{Path(path).name}" not in document("README.md")] == []


def test_variables() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in sources_of())
    named = {word for name in DOCUMENTS for word in re.findall(r"\bKPROBE_[A-Z_]+\b", document(name))}
    assert "KPROBE_TRACEFS" in named
    assert {word for word in named if f'"{word}"' not in sources and f"`{word}`" not in sources} == set()


@pytest.mark.parametrize(("pattern", "most"), WORDS.items())
def test_what_people_read_is_short(pattern: str, most: int) -> None:
    words = {path: len(path.read_text(encoding="utf-8").split()) for path in ROOT.glob(pattern)}
    assert words
    assert {str(path.relative_to(ROOT)): count for path, count in words.items() if count > most} == {}


def test_the_readme_leads_to_every_folder() -> None:
    named = set(SPAN.findall(document("README.md")))
    folders = {f"docs/{Path(page).parts[1]}/" for page in PAGES if page.count("/") == 2}
    assert folders | {"ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md"} <= named


def test_the_guide_s_parsers_are_broken_as_was_measured() -> None:
    example = document("docs/evidence/readers-table.md").partition("The guide's example:\n\n")[2]
    assert len(example.splitlines()) == 4
    assert example in document("docs/guides/readers.md")


# the site


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r"^ +- (?:Home: )?([\w/-]+\.md)$", document("mkdocs.yml"), re.MULTILINE)
    assert sorted(f"docs/{name}" for name in named) == sorted(PAGES)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, requires: Callable[..., None]) -> Path:
    """The site, built strictly: a link or an anchor that leads nowhere is an error."""
    requires("material")
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", directory],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.slow
def test_the_site_has_every_page_and_a_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert len({entry["location"].partition("#")[0] for entry in index["docs"]}) == len(PAGES)


@pytest.mark.slow
def test_the_site_asks_no_other_server_for_anything(site: Path) -> None:
    loaded = re.compile(r"<(?:script|img|iframe)[^>]*src=\"?(https?://[^\" >]+)|<link[^>]*href=\"?(https?://[^\" >]+)")
    assert {
        match for page in site.rglob("*.html") for match in loaded.findall(page.read_text(encoding="utf-8"))
    } == set()


@pytest.mark.slow
def test_lists_and_tables_are_shown_as_such(site: Path) -> None:
    """Python-Markdown wants an empty line before a list or a table, which other renderers don't."""
    paragraph = re.compile(r"<p>(?:(?!</p>).)*?\n(?:[-*] |\d+\. |\|)", re.DOTALL)
    assert {
        str(page.relative_to(site)) for page in site.rglob("index.html") if paragraph.search(page.read_text())
    } == set()


def test_a_hosted_ci_begins_with_six_lines_for_the_simulator() -> None:
    first, second = (block.text for block in blocks("docs/guides/ci.md") if block.language == "yaml")
    assert len(first.splitlines()) == 6
    assert "qemu" not in first
    assert "qemu" in second
    assert "pip install './vendor/kprobe-sim[test]'" in first
    for spec in re.findall(r"--tracefs (\S+)", first):
        check_spec(spec)


def test_specs() -> None:
    """The guide's examples of a SPEC are of backends that there are, and every backend has one."""
    table = document("docs/reference/specs.md").partition("| SPEC |")[2].partition("\n\n")[0]
    specs = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    kinds = {point.name for point in entry_points(group="kprobe.tracefs")} | {"local"}
    assert {spec.partition(":")[0] for spec in specs} == kinds
    assert f"of, {newest()} |" in table


def sources_of() -> list[Path]:
    homes = tuple(path.parent for path in (*ROOT.glob("kprobe*/__init__.py"), *ROOT.glob("vm/*/__init__.py")))
    return sorted(path for home in homes for path in home.rglob("*.py"))


def test_what_the_architecture_names_exists() -> None:
    named = re.findall(r"`((?:kprobe|kprobe_\w+)(?:\.\w+)*):([\w.]+)`", document("ARCHITECTURE.md"))
    assert len(named) > 25
    assert {f"{module}:{name}" for module, name in named if not stands_there(module, name)} == set()
    groups = re.findall(r'entry-points\."([\w.]+)"', document("pyproject.toml"))
    groups += ["kprobe.profiles", "kprobe.corpus"]  # of data packages
    dotted = set(re.findall(r"`((?:kprobe|kprobe_\w+)(?:\.\w+)+)`", document("ARCHITECTURE.md"))) - set(groups)
    assert {name for name in dotted if not stands_there(*name.rpartition(".")[::2])} == set()


def stands_there(module: str, name: str) -> bool:
    try:
        value: object = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return False
    return True


def is_there(path: str) -> bool:
    return any(True for _ in ROOT.glob(path.rstrip("/"))) if path.strip("/") else True


# docs/evidence/kernels.md quotes what kernels print; the log of changes names the paths of its day
@pytest.mark.parametrize("name", sorted({*DOCUMENTS, *PAGES} - {"docs/evidence/kernels.md", "CHANGELOG.md"}))
def test_paths(name: str) -> None:
    """A path in a span or a link exists, if it begins in this repository."""
    text = document(name)
    first = {path.name for path in ROOT.iterdir()} - {"build", "dist"}
    paths = {span for span in SPAN.findall(text) if re.fullmatch(r"[\w.*-]+(/[\w.*-]*)+", span)}
    missing = {path for path in paths if path.partition("/")[0] in first and not is_there(path)}
    here = (ROOT / name).parent
    links = {link for link in re.findall(r"\]\(([^)#\s]+)", SPAN.sub("", text)) if "://" not in link}
    assert missing | {link for link in links if not (here / link).exists()} == set()


# the comparison itself


@pytest.mark.parametrize(
    ("expected", "text", "is_same"),
    [
        (("a", ANY, "c"), "a\nc\n", True),
        (("a", ANY, "c"), "a\nb\nb\nc\n", True),
        (("a", "c"), "a\nb\nc\n", False),
        (("  cat-1 [000] .....  1.000000: e: x=1",), "  cat-22   [001] d...1 31.123456: e: x=1\n", True),
        (("  cat-1 [000] .....  1.000000: e: x=1",), "  cat-22   [001] d...1 31.123456: e: x=2\n", False),
        (("  ^",), "  ^\n", True),
        (("  ^",), "   ^\n", False),
    ],
)
def test_the_comparison(expected: tuple[str, ...], text: str, is_same: bool) -> None:
    assert bool(re.fullmatch(expression(expected), text)) == is_same
