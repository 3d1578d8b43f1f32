"""The extras: each that is named exists, each library is in one, and what lacks a library says which extra has it."""

from __future__ import annotations

import ast
import os
import pty
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("kprobe", "kprobe_text", "kprobe_corpus", "kprobe_check", "kprobe_sim", "vm/kprobe_vm", "vm/kprobe_lab")
OURS = ("dev", "docs", "fuzz", "playground")  # of those who work on kprobe-sim
APART = (*OURS, "engines", "all")  # not in [all]: engines are for a page's queries
# the extra that errors name for each library that the packages import
EXTRA = {
    "argcomplete": "completion",
    "capstone": "record",
    "distributed": "scale",
    "markdown_it": "check",
    "numba": "bulk",
    "numpy": "bulk",
    "pexpect": "vm",
    "pyarrow": "bulk",
    "pyfakefs": "test",
    "pygments": "check",
    "pytest": "test",
    "qemu": "vm",
    "rich": "top",
    "tqdm": "bulk",
    "zstandard": "bulk",
}
DRAWS = {
    "kprobe_corpus/breaking/search.py": "break",
    "vm/kprobe_lab/campaign/shrink.py": "campaign",
}  # of hypothesis
NAMED = (
    re.compile(r"kprobe-sim\[([\w,]+)\]"),  # pip install 'kprobe-sim[top]'
    re.compile(r"pip install [^\n`]*?\[([\w,]+)\]'"),  # pip install '.[test,vm]'
    re.compile(r"extras? `?`?\[?([\w,]+)\]?`"),  # the extra `[vm]`
    re.compile(r"extra \[(\w+)\]"),
)


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def extras() -> dict[str, list[str]]:
    """Return what each extra needs, by the names of the requirements; those of extras that it has are among them."""
    declared = project()["optional-dependencies"]

    def names(extra: str) -> Iterator[str]:
        for one in declared[extra]:
            found = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", one)
            assert found is not None
            if found[1] == "kprobe-sim":
                for other in found[2].split(","):
                    yield from names(other)
            else:
                yield found[1]

    return {extra: sorted(names(extra)) for extra in declared}


def texts() -> Iterator[tuple[str, str]]:
    for pattern in ("*.md", "docs/**/*.md", "distributions/**/*.md", "man/*", "bin/*", "tools/*/*.py", *places()):
        for path in sorted(ROOT.glob(pattern)):
            if path.name != "CHANGELOG.md":
                yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def places() -> list[str]:
    return [f"{package}/**/*.py" for package in PACKAGES]


def imports() -> Iterator[tuple[str, str]]:
    """Yield each library of others that a module of the packages imports."""
    known = {*sys.stdlib_module_names, *(Path(package).name for package in PACKAGES)}
    for pattern in places():
        for path in sorted(ROOT.glob(pattern)):
            source = path.read_text("utf-8")
            if not set(re.findall(r"^ *(?:from|import) +(\w+)", source, re.MULTILINE)) - known:
                continue
            for node in ast.walk(ast.parse(source)):
                found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level:
                    found = [node.module or ""]
                for name in {name.partition(".")[0] for name in found}:
                    if name not in known:
                        yield str(path.relative_to(ROOT)), name


def test_every_extra_that_is_named_exists() -> None:
    known, strange, seen = set(extras()), set(), set()
    for name, text in texts():
        for pattern in NAMED:
            for found in pattern.findall(text):
                seen |= set(found.split(","))
                strange |= {(name, one) for one in found.split(",") if one not in known}
    assert strange == set()
    assert seen >= {"test", "vm", "bulk", "top", "completion", "break", "record", "campaign", "scale", "all"}


def test_every_library_is_in_an_extra() -> None:
    found = extras()
    for module, library in imports():
        extra = DRAWS[module] if library == "hypothesis" else EXTRA[library]
        requirement = {"qemu": "qemu.qmp", "markdown_it": "markdown-it-py"}.get(library, library)
        assert requirement in found[extra], (module, library)


def test_all_is_all_that_users_may_want() -> None:
    assert set(extras()["all"]) == {name for extra, names in extras().items() if extra not in APART for name in names}


def test_the_table_of_extras_is_that_of_the_project() -> None:
    page = (ROOT / "docs" / "start" / "install.md").read_text("utf-8")
    rows = {row[0]: row[1] for row in re.findall(r"^\| `([\w-]+)` \| ([^|]*) \|", page, re.MULTILINE)}
    assert set(rows) - {"kprobe-sim-profiles", "kprobe-sim-profiles-old", "kprobe-corpus"} == set(extras()) - set(OURS)
    for extra, names in extras().items():
        if extra in rows and extra != "all":
            has, _, others = rows[extra].partition(", and those of ")
            said = has.split(", ") + (extras()[others.strip("`")] if others else [])
            assert sorted(said) == names, extra


@pytest.mark.parametrize("name", ["kprobe-sim-profiles", "kprobe-sim-profiles-old", "kprobe-corpus"])
def test_the_table_has_every_distribution(name: str) -> None:
    page = (ROOT / "docs" / "start" / "install.md").read_text("utf-8")
    assert f"| `pip install ./distributions/{name}` |" in page
    declared = tomllib.loads((ROOT / "distributions" / name / "pyproject.toml").read_text("utf-8"))
    assert declared["project"]["name"] == name


# without a library


@pytest.fixture
def zstd(tmp_path: Path) -> str:
    path = tmp_path / "trace.txt.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    return str(path)


def without(library: str, statement: str, *words: str, terminal: bool = False) -> tuple[int, str]:
    """Run a Python that lacks a library; return its status and what it says on standard error, or on a terminal."""
    script = f"import sys; sys.modules[{library!r}] = None; {statement}"
    command = [sys.executable, "-c", script, *words]
    if not terminal:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", 0) as screen:
        process = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs)
        os.close(theirs)
        said = b""
        try:
            while data := screen.read(4096):
                said += data
        except OSError:  # EIO: nobody has the terminal open any more
            pass
        return process.wait(60), said.decode().replace("\r\n", "\n")


KPROBE = "from kprobe.cli import main; sys.exit(main())"
VM = "from kprobe_vm.cli import main; sys.exit(main(sys.argv[1:]))"
BREAK = ("test-parser", "--break", "--", "true")
PARQUET = ("parse", "--format", "parquet", "-o", "out", "x")
PARQUET_SAYS = (
    "ERROR: --format parquet needs pyarrow, which isn't installed: pip install 'kprobe-sim[bulk]', "
    "or use --format ndjson or csv\n"
)
TABLES = "kprobe_text.columns needs pyarrow: pip install 'kprobe-sim[bulk]'\n"
MACHINES = "kprobe_vm needs the Python packages pexpect and qemu.qmp: pip install 'kprobe-sim[vm]'\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "program", "words", "status", "said"),
    [
        ("pyarrow", KPROBE, PARQUET, 2, PARQUET_SAYS),
        ("hypothesis", KPROBE, BREAK, 2, "ERROR: --break needs hypothesis: pip install 'kprobe-sim[break]'\n"),
        (
            *("argcomplete", KPROBE, ("completion", "bash"), 1),
            "ERROR: completion needs argcomplete: pip install 'kprobe-sim[completion]', "
            "or Debian's python3-argcomplete\n",
        ),
        ("pexpect", VM, ("boot", "6.1"), 112, f"kprobe-vm: {MACHINES}"),
        ("qemu.qmp", VM, ("run", "6.1", "--", "true"), 112, f"kprobe-vm: {MACHINES}"),
        ("pexpect", KPROBE, ("--tracefs", "vm:6.1", "p:x vfs_read"), 112, f"ERROR: vm:6.1: {MACHINES}"),
        (
            *("hypothesis", VM, ("diff",), 112),
            "kprobe-vm: kprobe-vm diff shrinks with hypothesis: pip install 'kprobe-sim[campaign]', or --no-shrink\n",
        ),
        (
            *("distributed", VM, ("diff", "--against", "sim:6.12", "--scheduler", "dask://127.0.0.1:1"), 112),
            "kprobe-vm: --scheduler dask://... needs the Python package distributed: pip install 'kprobe-sim[scale]'\n",
        ),
        (
            *("capstone", VM, ("-q", "record", "/no/kernel", "out"), 112),
            "kprobe-vm: recording needs the Python package capstone: pip install 'kprobe-sim[record]'\n",
        ),
        (
            *("pytest", VM, ("test", "6.1"), 112),
            "kprobe-vm: kprobe-vm test needs pytest: pip install 'kprobe-sim[test]'\n",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 15 else "",
)
def test_a_command_names_the_extra(
    library: str, program: str, words: tuple[str, ...], status: int, said: str, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert without(library, program, *words) == (status, said)


def test_what_is_packed_by_zstd_names_the_extra(zstd: str) -> None:
    status, said = without("zstandard", KPROBE, "parse", zstd)
    assert status == 1
    assert said.startswith(
        f"ERROR: {zstd} is packed by zstd: zstdcat {zstd} | kprobe parse, or pip install 'kprobe-sim[bulk]'"
    )


def test_top_on_a_terminal_names_the_extra() -> None:
    status, said = without("rich", KPROBE, "--tracefs", "sim", "top", "p:vfs_read", terminal=True)
    assert (status, re.sub(r"\x1b\[[0-9;]*m", "", said)) == (
        2, "ERROR: kprobe top needs rich on a terminal: pip install 'kprobe-sim[top]', or use | cat for text\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("library", "statement", "said"),
    [
        ("pyarrow", "import kprobe_text.columns", f"ModuleNotFoundError: {TABLES}"),
        ("pexpect", "from kprobe_vm import Machine", f"kprobe_vm.errors.ExtraMissing: {MACHINES}"),
    ],
)  # fmt: skip
def test_an_import_names_the_extra(library: str, statement: str, said: str) -> None:
    status, text = without(library, statement)
    assert (status, text.splitlines(keepends=True)[-1]) == (1, said)
