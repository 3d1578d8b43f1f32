"""What `kprobe check` finds in shell scripts: what the shell would write, what can't be known, how files are opened."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kprobe_check import Statement, statements
from kprobe_check.sources.shell.printing import Unclear, dollar_quoted, echo, printf


def asked(text: str, head: str = "#!/bin/bash\n") -> list[str]:
    return [one.text for one in found(text, head) if one.kind != "truncating" and not one.unclear]


def unasked(text: str, head: str = "#!/bin/bash\n") -> list[tuple[int, str, str]]:
    return [(one.position.line - head.count("\n"), one.text, one.unclear) for one in found(text, head) if one.unclear]


def found(text: str, head: str = "#!/bin/bash\n") -> list[Statement]:
    return statements((head + text).encode(), "x.sh")


A, B = "p:a vfs_read", "p:b vfs_write"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("printf 'p:a %s\\n' vfs_read >> kprobe_events", [A]),
        ("printf 'p:%s %s\\n' a vfs_read b vfs_write >> kprobe_events", [A, B]),
        ("printf -- 'p:a vfs_read a=%%di\\n' >> kprobe_events", ["p:a vfs_read a=%di"]),
        ("printf 'p:a%d vfs_read+0x%x\\n' 7 255 >> kprobe_events", ["p:a7 vfs_read+0xff"]),
        ("printf '%b' 'p:a vfs_read\\np:b vfs_write' >> kprobe_events", [A, B]),
        ("echo -e 'p:a vfs_read\\np:b vfs_write' >> kprobe_events", [A, B]),
        ("echo -ne 'p:a\\x20vfs_read' >> kprobe_events", [A]),
        ("echo $'p:a vfs_read\\np:b vfs_write' >> kprobe_events", [A, B]),
        ("{ echo p:a vfs_read; sleep 1; echo p:b vfs_write; } >> kprobe_events", [A, B]),
        ("( echo p:a vfs_read; echo p:b vfs_write ) >> kprobe_events", [A, B]),
        ("for f in a; do echo p:$f vfs_read; done >> kprobe_events", [A]),
        ("for f in a b; do echo p:$f vfs_$f; done >> kprobe_events", ["p:a vfs_a", "p:b vfs_b"]),
        ("if true; then echo p:a vfs_read; else echo p:b vfs_write; fi >> kprobe_events", [A, B]),
        ("w() { echo p:a vfs_read; } >> kprobe_events\nw", [A]),
        ("w() { echo p:a vfs_read; }\nw >> kprobe_events", [A]),
        ("w() { echo \"p:$1 $2\" >> kprobe_events; }\nw a vfs_read; w b vfs_write", [A, B]),
        ("exec >> kprobe_events\necho p:a vfs_read", [A]),
        ("exec 3>> kprobe_events\necho p:a vfs_read >&3\necho no >&2", [A]),
        ("tee -a kprobe_events <<EOF\np:a vfs_read\np:b vfs_write\nEOF", [A, B]),
        ("cat <<EOF > kprobe_events\np:a vfs_read\nEOF", [A]),
        ("cat <<-'EOF' >> kprobe_events\n\tp:a vfs_read \\\n\tEOF", ["p:a vfs_read \\"]),
        ("cat <<< 'p:a vfs_read' >> kprobe_events", [A]),
        ("echo p:a vfs_read | dd of=kprobe_events conv=notrunc", [A]),
        ("echo p:a vfs_read | sudo tee -a kprobe_events > /dev/null", [A]),
        ("echo p:a vfs_read | sudo sh -c 'cat >> kprobe_events'", [A]),
        ("{ echo p:a vfs_read; echo p:b vfs_write; } | tee -a kprobe_events", [A, B]),
        ("sudo sh -c 'echo p:a vfs_read >> kprobe_events'", [A]),
        ("bash -c \"echo 'p:a vfs_read' >> kprobe_events\"", [A]),
        ("ssh -p 22 h \"echo 'p:a vfs_read' >> /sys/kernel/tracing/kprobe_events\"", [A]),
        ("ssh h <<'E'\necho p:a vfs_read >> kprobe_events\nE", [A]),
        ("adb -s x shell \"echo 'p:a vfs_read' >> kprobe_events\"", [A]),
        ("F=${1:-vfs_read}\necho \"p:a $F\" >> kprobe_events", [A]),
        ("echo \"p:a ${FUNC:-vfs_read}\" >> kprobe_events", [A]),
        ("N=a\nexport G=vfs_read\necho \"p:${N} $G\" >> $T/kprobe_events", [A]),
        ("D=$(cat <<EOF\np:a vfs_read\nEOF\n)\necho \"$D\" >> kprobe_events", [A]),
        ("P='p:a vfs_read'\necho $P >> kprobe_events", [A]),
        ("if x; then N=a F=vfs_read; else N=b F=vfs_write; fi\necho p:$N $F >> kprobe_events", [A, B]),
        ("A=('p:a vfs_read' 'p:b vfs_write')\nfor p in \"${A[@]}\"; do echo \"$p\" >> kprobe_events; done", [A, B]),
        ("case $1 in a) echo p:a vfs_read;; *) echo p:b vfs_write;; esac >> kprobe_events", [A, B]),
        ("writefile kprobe_events 'p a'", ["p a"]),
        ("echo 'p:a vfs_read' >> $KPROBE_EVENTS", [A]),
        ("echo > kprobe_events; : > kprobe_events; echo 0 > events/kprobes/a/enable", []),
    ],
)  # fmt: skip
def test_what_a_shell_writes(text: str, expected: list[str]) -> None:
    assert (asked(text), unasked(text)) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("printf 'p:a %s\\n' \"$F\" >> kprobe_events", (1, "p:a $F", "the shell replaces $F with something else")),
        (
            "\n{ printf 'p:a %s\\n' \"$F\"; } >> kprobe_events",
            (2, "p:a $F", "the shell replaces $F with something else"),
        ),
        ("\ncat probes >> kprobe_events", (2, "$(cat probes)", "what `cat probes` prints isn't known")),
        (
            "sed s/x/y/ list | sudo tee -a kprobe_events",
            (1, "$(sed s/x/y/ list)", "what `sed s/x/y/ list` prints isn't known"),
        ),
        (
            "while read f; do echo p:$f $f; done >> kprobe_events",
            (1, "p:$f $f", "the shell replaces $f with something else"),
        ),
        ("printf 'p:a %d\\n' x >> kprobe_events", (1, "p:a %d\\n x", "printf takes 'x' for no number")),
        ('echo "$1" >> kprobe_events', (1, "$1", "the shell replaces $1 with something else")),
        ("adb shell \"echo 'p:a $F' >> kprobe_events\"", (1, "p:a $F", "the shell replaces $F with something else")),
        (
            "check trace_kprobe 'p:^a vfs_read' kprobe_events",
            (1, "p:^a vfs_read", "no kernel takes the ^, which check may take out"),
        ),
    ],
)
def test_what_a_shell_does_not_say_is_not_asked(text: str, expected: tuple[int, str, str]) -> None:
    assert (asked(text), unasked(text)) == ([], [expected])


@pytest.mark.parametrize("head", ["#!/bin/sh\n", "#!/bin/dash\n"])
def test_what_shells_print_differently_is_not_asked(head: str) -> None:
    ((line, _, because),) = unasked("echo 'p:a vfs_read\\np:b vfs_write' >> kprobe_events", head)
    assert line == 1
    assert because == "echo doesn't print the same in every sh: bash and dash treat backslashes differently"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo p:a vfs_read > kprobe_events", ("> kprobe_events", ">> kprobe_events")),
        (": > /x/kprobe_events", ("> /x/kprobe_events", ">> /x/kprobe_events")),
        ("echo p:a vfs_read | tee kprobe_events", ("tee kprobe_events", "tee -a kprobe_events")),
        ("dd of=kprobe_events < x", ("dd of=kprobe_events", "dd oflag=append conv=notrunc of=kprobe_events")),
        ("sudo sh -c 'echo > uprobe_events'", ("> uprobe_events", ">> uprobe_events")),
    ],
)
def test_what_removes_everybodys_probes_is_a_finding(text: str, expected: tuple[str, str]) -> None:
    each = [one for one in found(text) if one.kind == "truncating"]
    assert [(one.text, one.instead) for one in each] == [expected]


@pytest.mark.parametrize(
    "text", ["echo p:a vfs_read >> kprobe_events", "echo x | tee -a kprobe_events", "echo 1 > events/x/y/filter"]
)
def test_what_adds_is_none(text: str) -> None:
    assert [one for one in found(text) if one.kind == "truncating"] == []


def test_a_prefix_of_what_is_written_is_not_asked() -> None:
    text = "P='p:a sys_execve'\nfor i in $N; do P=\"$P +0(%si):string\"; done\necho $P >> kprobe_events"
    assert asked(text) == []
    assert len(unasked(text)) == 1


# ------------------------------------------------------------------------------------------------- printf and echo

PIECES = st.sampled_from(
    [
        *("p:a vfs_read", "%s", "%d", "%x", "%%", "%5s", "%-6s|", "%.2s", "%05d", "%#x", "%b", "%c", "%o", "%X", "%u"),
        *(
            "%+d",
            "% d",
            "%*d",
            "%3.1d",
            "\\n",
            "\\t",
            "\\x41",
            "\\101",
            "\\0101",
            "\\\\",
            "\\q",
            "\\c",
            "a",
            "7",
            "012",
        ),
        *("0x1f", "-5", "'A", "-n", "-e", "-en", "-E", "--", " ", "$x", "\\a"),
    ]
)
WORDS = st.lists(st.lists(PIECES, min_size=1, max_size=3).map("".join), min_size=1, max_size=4)
COMMANDS = st.lists(st.tuples(st.sampled_from(["echo", "printf"]), WORDS), min_size=20, max_size=20)


@pytest.mark.parametrize(("shell", "is_bash"), [("bash", True), ("dash", False)])
@settings(max_examples=15)
@given(commands=COMMANDS)
def test_echo_and_printf_print_what_the_shells_print(
    shell: str, is_bash: bool, commands: list[tuple[str, list[str]]]
) -> None:
    script = "".join(f"{name} {shlex.join(words)} 2>/dev/null; printf '\\001'\n" for name, words in commands)
    done = subprocess.run([shell], input=script.encode(), capture_output=True, timeout=60)
    printed = done.stdout.decode().split("\001")[:-1]
    assert len(printed) == len(commands)
    for (name, words), real in zip(commands, printed, strict=True):
        try:
            said = (echo if name == "echo" else printf)(words, is_bash=is_bash)
        except Unclear:
            continue
        assert (words, said.rstrip("\n")) == (words, real.rstrip("\n"))


def test_what_cannot_be_known_of_printf_says_why() -> None:
    with pytest.raises(Unclear, match=r"^printf takes 'x' for no number$"):
        printf(["%d", "x"], is_bash=True)
    with pytest.raises(Unclear, match=r"^what printf makes of %q isn't known$"):
        printf(["%q", "x"], is_bash=True)


def test_what_stands_in_dollar_and_quotes() -> None:
    assert dollar_quoted(r"p:a\tx\n\x41\101\'\e\q") == "p:a\tx\nAA'\x1b\\q"


@pytest.mark.parametrize(
    "text", ["if " * 2000, "$(" * 2000, "{" * 5000, "X=$X$X\n" * 100 + "echo $X > kprobe_events", "f() { f; f; }; f"]
)
def test_hostile_scripts_end(text: str) -> None:
    assert asked(text) == []
