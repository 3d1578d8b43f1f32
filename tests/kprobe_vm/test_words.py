"""The words of `kprobe-vm`: which are a guest's command, and what is said of wrong ones."""

from __future__ import annotations

import shlex

import pytest

from kprobe_vm.cli import _parser, main
from kprobe_vm.commands.words import divided


@pytest.mark.parametrize(
    ("typed", "own", "command"),
    [
        ("run 6.12 uname -r", "run 6.12", "uname -r"),
        ("-q run 6.12 uname --version", "-q run 6.12", "uname --version"),
        ("run 6.12 -- uname -r", "run 6.12", "uname -r"),
        ("run 6.12 --memory 512 --boot uname -r", "run 6.12 --memory 512 --boot", "uname -r"),
        ("run --memory=512 -p curl 6.12 curl -V", "run --memory=512 -p curl 6.12", "curl -V"),
        ("run -pcurl 6.12 curl -p x", "run -pcurl 6.12", "curl -p x"),
        ("run 6.12 --mem 512 uname", "run 6.12 --mem 512", "uname"),
        ("run 6.12 --memory 512 -- uname -- x", "run 6.12 --memory 512", "uname -- x"),
        ("run 6.12 sh -c 'echo \"$@\"' -- a b", "run 6.12", "sh -c 'echo \"$@\"' -- a b"),
        ("run 6.12 --copy ./run:/tmp run --boot", "run 6.12 --copy ./run:/tmp", "run --boot"),
        ("run 6.12", "run 6.12", ""),
        ("run 6.12 --memory", "run 6.12 --memory", ""),
        ("run", "run", ""),
        ("test 6.1 6.12 -- tests/x -q", "test 6.1 6.12", "tests/x -q"),
        ("list 6.1 6.12", "list 6.1 6.12", ""),
        ("", "", ""),
    ],
)
def test_a_command_begins_after_the_kernel(typed: str, own: str, command: str) -> None:
    parser = _parser().verbs["run"]
    assert divided(shlex.split(typed), "run", parser) == (shlex.split(own), shlex.split(command))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("rnu 6.1 uname", "kprobe-vm: no verb 'rnu'; did you mean run?\nkprobe-vm --help explains\n"),
        ("run 6.1 --memroy 4 uname", "kprobe-vm run: unknown option --memroy; did you mean --memory?\n"
                                     "kprobe-vm run --help explains\n"),
        ("run", "kprobe-vm run: the following arguments are required: KERNEL\nkprobe-vm run --help explains\n"),
        ("boot 6.1 6.12", "kprobe-vm boot: one word too many: 6.12\nkprobe-vm boot --help explains\n"),
        ("zzz", "kprobe-vm: no verb 'zzz': list, update, boot, run, shell, record, test, bisect, compare, "
                "diff, matrix, check\nkprobe-vm --help explains\n"),
    ],
)  # fmt: skip
def test_wrong_words_are_said_in_one_line(typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(typed.split())
    assert (ended.value.code, capsys.readouterr().err) == (2, said)


def test_a_verb_has_a_help_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: kprobe-vm run KERNEL [OPTION ...] CMD ...\n")


@pytest.mark.vm
def test_it_runs_without_two_minuses(series: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-q", "run", series, "uname", "-r"]) == 0
    assert capfd.readouterr().out.startswith(f"{series}.")
