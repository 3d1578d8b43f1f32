"""The help of each verb, and what is said of a command line that makes no sense."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kprobe.cli import main
from kprobe.options.table import Verb, options_of, verbs
from kprobe_sim import SimulatedKernel

OWN = [pytest.param(verb, id=verb.name) for verb in verbs() if not verb.reads]


@pytest.mark.parametrize("verb", [pytest.param(verb, id=verb.name) for verb in verbs()])
def test_a_verb_has_a_help_of_its_own(verb: Verb, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([verb.name, "--help"]) == 0
    out, err = capfd.readouterr()
    assert (out.splitlines()[0].split()[:3], err) == (["USAGE:", "kprobe", verb.name], "")
    others = [one.name for one in verbs() if one is not verb]
    assert not [name for name in others if f"\n       kprobe {name} " in out]
    assert max(map(len, out.splitlines())) <= 120


@pytest.mark.parametrize("verb", OWN)
def test_it_has_all_options_of_the_verb_and_no_others(verb: Verb, capfd: pytest.CaptureFixture[str]) -> None:
    main([verb.name, "-h"])
    shown = [line[2:].split("  ")[0] for line in capfd.readouterr().out.splitlines() if line.startswith("  -")]
    assert shown == [option.shown for option in options_of(verb.name)]


def test_the_help_of_top(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "-d", "3", "--help"]) == 0
    assert capfd.readouterr().out == (
        "USAGE: kprobe top definition ... [filter] [-d secs] [-p PID] [-L TID] [--tracefs SPEC]\n\n"
        "Show live how often events fire, in which tasks and on which CPUs (needs kprobe-sim[top] on a terminal).\n\n"
        "  -d secs          end after this many seconds\n"
        "  -p PID           trace only this process, with all its threads\n"
        "  -L TID           trace only this thread\n"
        "  -h, --help       this text\n"
        "  --tracefs SPEC   which tracefs: local (this machine's own), local:DIR, sim:6.1 (simulated), vm:6.1 (a "
        "guest); the\n                   default is $KPROBE_TRACEFS, else local\n"
        "  --follow         with -p: also the processes that it forks\n"
        "  --version        print the version\n"
        "\n"
        "  kprobe top p:vfs_read p:vfs_write                     how often each is called\n"
        "  kprobe top 'p:vfs_read $arg3' 'arg1 > 4096'           of a definition, with a filter: kprobe --help has the "
        "language\n\n"
        "q or Ctrl-C ends it.\n"
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["lsit"], "'lsit' is neither a definition (p:lsit traces calls of that function, r:lsit its returns) nor a "
                   "verb; did you mean list?\nkprobe --help explains\n"),
        (["--tracef", "sim", "list"], "unknown option --tracef; did you mean --tracefs?\nkprobe --help explains\n"),
        (["-tracefs", "sim", "list"], "unknown option -tracefs; did you mean --tracefs?\nkprobe --help explains\n"),
        (["-json", "p:vfs_read"], "unknown option -json; did you mean --json?\nkprobe --help explains\n"),
        (["list", "--jsno"], "unknown option --jsno; did you mean --json?\nkprobe list --help explains\n"),
        (["list", "-json"], "unknown option -json; did you mean --json?\nkprobe list --help explains\n"),
        (["list", "--json=1"], "--json takes no value\nkprobe list --help explains\n"),
        (["list", "--tracefs"], "--tracefs takes a value\nkprobe list --help explains\n"),
        (["list", "-s"], "-s is for traces, not for list\nkprobe list --help explains\n"),
        (["list", "--kernels", "6.1"], "--kernels is for check, corpus or test-parser, not for list\n"
                                       "kprobe list --help explains\n"),
        (["list", "p:x"], "list takes no 'p:x'\nkprobe list --help explains\n"),
        (["functions"], "functions takes a function's name\nkprobe functions --help explains\n"),
        (["--kernels", "6.1", "p:x"], "unknown option --kernels: it is for check, corpus or test-parser, and stands "
                                      "behind that word\nkprobe --help explains\n"),
        (["--tracefs", "sim", "check", "p:x"], "check comes first, before its options\nkprobe check --help explains\n"),
        (["check", "--kernel", "6.1"], "unknown option --kernel; did you mean --kernels?\n"
                                       "kprobe check --help explains\n"),
        (["check", "--format", "jsn", "p:x"], "--format is one of text, markdown, json, sarif, github, junit, not "
                                              "'jsn'; did you mean json?\nkprobe check --help explains\n"),
        (["parse", "--sumary"], "unknown option --sumary; did you mean --summary?\nkprobe parse --help explains\n"),
        (["parse", "-jobs", "2"], "unknown option -jobs; did you mean --jobs?\nkprobe parse --help explains\n"),
        (["corpus", "lst"], "the action is one of list, check, export, not lst; did you mean list?\n"
                            "kprobe corpus --help explains\n"),
        (["completion", "ksh"], "completion is for bash, zsh or fish, not 'ksh'\nkprobe completion --help explains\n"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_one_line_and_where_to_look(
    argv: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(argv, tracefs=SimulatedKernel("6.12").tracefs) == 2
    assert capfd.readouterr() == ("", f"ERROR: {said}")


def test_values_may_begin_with_a_minus_and_options_stand_anywhere(capfd: pytest.CaptureFixture[str]) -> None:
    tracefs = SimulatedKernel("6.12").tracefs
    assert main(["doctor", "vfs_read", "--try", "-1"], tracefs=tracefs) == 2
    assert capfd.readouterr().err.startswith("ERROR: --try takes a number of seconds, not '-1'\n")
    assert main(["top", "-d-1", "p:vfs_read"], tracefs=tracefs) == 2
    assert capfd.readouterr().err.startswith("ERROR: -d takes a number of seconds, not '-1'\n")
    assert main(["functions", "vfs_read", "--tracefs=local", "--", "vfs_write"], tracefs=tracefs) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()[1:]] == ["vfs_read", "vfs_write"]


def test_a_trace_and_the_help_don_t_import_argparse() -> None:
    code = (
        "import sys\nfrom kprobe.cli import main\nfrom kprobe_sim import SimulatedKernel\n"
        "for name in [name for name in sys.modules if name in ('argparse', 'difflib')]: del sys.modules[name]\n"
        "main(['--help'])\n"
        "main(['-v', 'p:vfs_read'], tracefs=SimulatedKernel('6.12').tracefs)\n"
        "print([name for name in ('argparse', 'difflib') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")
