"""`kprobe-vm compare`: what two kernels answer otherwise, what it comes from, and the page that is made of it."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kprobe_lab.changes import compare_text
from kprobe_lab.changes.contrast import Alike, Comparison, Contrast
from kprobe_lab.changes.corpus import corpus
from kprobe_lab.changes.language import parsed, shell
from kprobe_lab.changes.reasons import RowChange
from kprobe_lab.changes.response import Fault, Response, asked
from kprobe_lab.changes.shell_lines import as_shell
from kprobe_lab.operations.reference import simulated

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "KPROBE_SIM_PROFILES"}


def compare(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kprobe_vm", "-q", "compare", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, env=ENVIRONMENT)


@pytest.fixture(scope="module")
def newest() -> dict[str, Any]:
    """What 7.2 and 7.3 answer otherwise."""
    done = compare("7.2", "sim:7.3", "--format", "json")
    assert done.stderr == ""
    assert done.returncode == 1
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_all_is_asked(newest: dict[str, Any]) -> None:
    assert (newest["before"], newest["after"]) == ("7.2.13+deb14-cloud-amd64", "7.3-cloud-amd64")
    assert newest["asked"] > 1800
    sections = {"Definitions", "Event probes", "Files", "Function and tracepoint probes", "Static events"}
    assert sections <= {one["section"] for one in newest["differences"]}


def test_a_difference_has_the_operation_both_answers_and_where_it_comes_from(newest: dict[str, Any]) -> None:
    (found,) = [one for one in newest["differences"] if "'p:x do_sys_openat2 $current'" in one["operation"]]
    fault = {
        "message": "trace_kprobe: Invalid $-variable specified",
        "command": "p:x do_sys_openat2 $current",
        "caret": 19,
    }
    assert found == {
        "section": "Definitions",
        "operation": "echo 'p:x do_sys_openat2 $current' >> kprobe_events",
        "before": {"errno": "EINVAL", "faults": [fault], "shown": {"kprobe_events": ""}, "before": []},
        "after": {
            "errno": "",
            "faults": [],
            "shown": {
                "kprobe_events": "p:kprobes/x do_sys_openat2 arg1=$current\n",
                "events/kprobes/x/format": (
                    "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n"
                    "\tfield:u64 arg1;\toffset:16;\tsize:8;\tsigned:0;\n"
                    '\nprint fmt: "(%lx) arg1=0x%Lx", REC->__probe_ip, REC->arg1\n'
                ),
            },
            "before": [],
        },
        "rows": ["current"],
        "source": "trace_probe.c 7.3: parse_probe_var_current(); fixtures/definitions/observed.jsonl",
    }


def test_several_rows_may_stand_behind_one_answer(newest: dict[str, Any]) -> None:
    rows = {one["operation"]: one["rows"] for one in newest["differences"]}
    operation = "echo 'p:x do_sys_openat2 (task_struct)$current->pid' >> kprobe_events"
    assert set(rows[operation]) == {"current", "event_typecasts", "typecasts"}
    assert rows["ls events/syscalls"] == []


def test_a_row_that_no_operation_shows_has_its_question(newest: dict[str, Any]) -> None:
    (row,) = [row for row in newest["rows"] if row["name"] == "field_caret"]
    assert row["answers"] == ["none", "match"]
    assert row["operation"] == ("echo -n 'p:zz/q vfs_read a=file->f_flags:b99@0/32' >> kprobe_events; cat error_log")


@pytest.mark.slow
def test_a_kernel_does_not_differ_from_itself() -> None:
    done = compare("5.10", "5.10.0-46-cloud-amd64")
    title, counts = done.stdout.splitlines()
    assert title == "5.10.0-46-cloud-amd64 -> 5.10.0-46-cloud-amd64"
    assert counts.endswith(" operations asked, 0 answered differently, in 0 ways")
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("kernel", "why"),
    [("3.5", "3.5"), ("local:/sys", "local:/sys: only sim:KERNEL and vm:KERNEL can be asked"), ("/none", "/none")],
)
def test_a_kernel_that_is_not_there(kernel: str, why: str) -> None:
    done = compare("6.1", kernel)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kprobe-vm compare: ")
    assert why in done.stderr


# ---- what is said ----

LOGGED = Response("EINVAL", (Fault("trace_kprobe: Bad", "p x|y", 2),), (("kprobe_events", ""),))
TAKEN = Response("", (), (("kprobe_events", "p:kprobes/x vfs_read\n"),))
ROW = RowChange(
    "some_row", "definitions 6.1", (False, True), ("write kprobe_events p:zz/q vfs_read",), ("EINVAL", "ok")
)
SEEN = Alike((Contrast("Places", "echo 'p x|y' >> kprobe_events", LOGGED, TAKEN, ("some_row",)),) * 2, ROW)
OTHER = ROW._replace(name="other_row", steps=("hold w trace_marker", "seek 5"), answers=("5", "ESPIPE"))
MADE = Comparison("6.1-a", "6.12-b", 7, (SEEN,), (OTHER,))


def test_as_text() -> None:
    assert list(compare_text.text(MADE)) == [
        "6.1-a -> 6.12-b",
        "7 operations asked, 2 answered differently, in 1 ways",
        "",
        "echo 'p x|y' >> kprobe_events",
        "  - EINVAL: trace_kprobe: Bad @2",
        "  -     p x|y",
        "  -       ^",
        "  + ok",
        "    kprobe_events:",
        "  +   p:kprobes/x vfs_read",
        "  and 1 more: echo 'p x|y' >> kprobe_events",
        "  some_row: definitions 6.1",
        "",
        "shown only by the questions that are asked when a kernel is recorded:",
        "",
        "hold w trace_marker; seek 5",
        "  - 5",
        "  + ESPIPE",
        "  other_row: definitions 6.1",
    ]


def test_as_markdown() -> None:
    assert list(compare_text.markdown(MADE)) == [
        "## 6.1-a → 6.12-b",
        "",
        "7 operations asked, 2 answered differently, in 1 ways.",
        "",
        "| operation | before | after | row |",
        "|---|---|---|---|",
        "| `echo 'p x\\|y' >> kprobe_events`, and 1 more | `EINVAL: trace_kprobe: Bad @2` | `ok` | some_row |",
        "| `hold w trace_marker; seek 5` | `5` | `ESPIPE` | other_row |",
        "",
    ]
    assert list(compare_text.sources([MADE, MADE])) == ["- other_row: definitions 6.1", "- some_row: definitions 6.1"]


def shown(text: str) -> Response:
    return Response("", (), (("events/sched/x/format", text),))


def test_formats_that_differ_in_the_same_way_are_of_a_kind() -> None:
    signed, unsigned = (
        "\tfield:char {}[{}];\toffset:{};\tsize:{};\tsigned:1;\n",
        "\tfield:char {}[{}];\toffset:{};\tsize:{};\tsigned:0;\n",
    )
    kinds = {
        Contrast("Static events", "", shown(signed.format(*one)), shown(unsigned.format(*one))).kind()
        for one in (("comm", 16, 8, 16), ("func", 31, 12, 31))
    }
    assert kinds == {("Static events", "-   \tfield:char \tsigned:1;", "+   \tfield:char \tsigned:0;")}


def test_the_clearest_difference_is_shown_first() -> None:
    one_takes = Contrast("", "longer", LOGGED, TAKEN)
    both_refuse = Contrast("", "short", LOGGED, LOGGED._replace(errno="ENOENT"))
    assert sorted([both_refuse, one_takes], key=Contrast.weight) == [one_takes, both_refuse]


# ---- the operations ----


def test_the_corpus_is_of_the_language() -> None:
    asked = [probing.steps for probing in corpus()]
    assert len(asked) == len(set(asked))
    assert len(asked) > 700
    for steps in asked:
        assert [step[:2] for step in parsed(shell(steps))] == [step[:2] for step in steps]


@pytest.mark.parametrize(
    ("question", "line"),
    [
        (("write kprobe_events p:zz/q vfs_read", "? write kprobe_events -:zz/"), (
            "echo -n 'p:zz/q vfs_read' >> kprobe_events; echo -n '-:zz/' >> kprobe_events"
        )),
        (("write @/trace_marker hello", "read @/trace"), (
            "mkdir instances/a; echo -n hello >> instances/a/trace_marker; cat instances/a/trace"
        )),
        (("first kprobe_events p:zz/q vfs_read+{5|9}", "names events"), (
            "echo -n 'p:zz/q vfs_read+5' >> kprobe_events; ls events"
        )),
        (("hold rn @/trace_pipe", "take 4096", "open /etc/hostname"), (
            "mkdir instances/a; exec 3< instances/a/trace_pipe; dd bs=4096 count=1 <&3; cat /etc/hostname > /dev/null"
        )),
        (("hold w trace_marker", "put a b"), "exec 3>> trace_marker; echo -n 'a b' >&3"),
        (("write kprobe_events p:zz/q <module>:x",), ""),
        (("hold w trace_marker", "seek 5"), ""),
    ],
)  # fmt: skip
def test_questions_for_a_shell(question: tuple[str, ...], line: str) -> None:
    assert as_shell(question) == line


# ---- the page ----


@pytest.mark.parametrize("series", ["4.9", "4.14", "4.19", "5.4"])
def test_a_kernel_before_5_10_is_put_back_whatever_files_it_lacks(series: str) -> None:
    """They have no error_log before 5.2, no dynamic_events before 5.0, and perhaps no snapshot."""
    side = simulated(f"sim:{series}")
    lists = [name for name in ("kprobe_events", "uprobe_events", "synthetic_events") if side.tracefs.exists(name)]
    for operation in (
        *("p:x vfs_read a=%di", "p:u /bin/true:0x10", "e:z sched/sched_switch", "s:lat u64 x", "p:x vfs_read a=nosuch"),
        *("echo 'lat u64 x' >> synthetic_events", "prev_pid == 1", "prev_pid ==", "stacktrace", "hist:keys=pid"),
        "echo p:on vfs_read > kprobe_events; echo 1 > events/kprobes/on/enable; cat kprobe_events",
        *("mkdir instances/a", "echo 1 > snapshot", "echo 1 > set_event_notrace_pid"),
    ):
        assert asked(side, parsed(operation)) == asked(side, parsed(operation))
        assert [side.tracefs.read(name) for name in lists] == [b""] * len(lists)
    assert asked(side, parsed("p:x vfs_read a=nosuch")).errno == "EINVAL"
    assert bool(asked(side, parsed("p:x vfs_read a=nosuch")).faults) == (series == "5.4")


@pytest.mark.slow
def test_kernels_before_5_10_are_compared_with_the_function_that_opens_files_on_both() -> None:
    done = compare("4.9", "4.14")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("4.9.229 -> 4.14.67\n1524 operations asked, ")
    assert "echo 'rx:x do_sys_open' >> kprobe_events\n" in done.stdout
    done = compare("5.4", "5.10")
    assert (done.returncode, done.stderr) == (1, "")
    assert "ENOENT: trace_kprobe: Invalid probed address or symbol @3\n  -     r5 do_sys_open%return\n" in done.stdout
    assert "do_sys_openat2" not in done.stdout


@pytest.mark.slow
def test_the_page_is_as_the_simulators_are() -> None:
    command = [sys.executable, str(ROOT / "tools" / "docs" / "changes.py"), "--check", "7.2", "7.3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, f"run make changes\n{done.stderr}"
    assert "1 looked at" in done.stderr


def test_the_page_has_all_neighbours() -> None:
    page = (ROOT / "docs" / "evidence" / "changes.md").read_text("utf-8")
    titles = re.findall(r"^## (\d+\.\d+).* → (\d+\.\d+)(.*)$", page, re.MULTILINE)
    line = [(before, after) for before, after, _ in titles]
    newer = ["6.1", "6.12", "6.16", "6.17", "6.18", "6.19", "7.0", "7.1", "7.2", "7.3"]
    series = ["4.9", "4.14", "4.19", "5.4", "5.10", *newer]
    assert line == [*itertools.pairwise(series), ("6.12", "6.12"), ("6.12", "6.12")]
    assert [flavour for _, _, flavour in titles[-2:]] == [".117+deb13-amd64", ".117+deb13-rt-amd64"]
    named = set(re.findall(r"\| (\w+) \|$", page, re.MULTILINE)) - {"row"}
    assert named == set(re.findall(r"^- (\w+): ", page.partition("## Rows")[2], re.MULTILINE))
    assert len(named) > 60
