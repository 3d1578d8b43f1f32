"""The words of a shell command: those before its name, its script, and the files that it writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kprobe_check.sources.shell.syntax import LITERAL, Command, Compound, Node, Pipeline, Word
from kprobe_check.sources.texts import Text

SHELLS = frozenset(["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "su"])
DECLARING = frozenset(["export", "local", "readonly", "declare", "typeset"])
SILENT = frozenset(
    [
        ":",
        "true",
        "false",
        "[",
        "[[",
        "test",
        "cd",
        "sleep",
        "set",
        "shift",
        "read",
        "return",
        "exit",
        "break",
        "continue",
        "export",
        "local",
        "readonly",
        "declare",
        "typeset",
        "unset",
        "trap",
        "wait",
        "kill",
        "mkdir",
        "rmdir",
        "rm",
        "mv",
        "cp",
        "touch",
        "chmod",
        "chown",
        "mount",
        "umount",
        "modprobe",
        "insmod",
        "rmmod",
        "let",
        "((",
        "source",
        ".",
        "umask",
        "ulimit",
        "shopt",
        "alias",
        "exec",
        "pushd",
        "popd",
        "logger",
        "sync",
    ]
)
_CARRIERS = frozenset(
    [
        "sudo",
        "doas",
        "env",
        "nohup",
        "nice",
        "ionice",
        "timeout",
        "command",
        "builtin",
        "exec",
        "stdbuf",
        "setsid",
        "time",
        "busybox",
        "toybox",
        "unshare",
        "chroot",
        "nsenter",
        "docker",
        "podman",
        "kubectl",
        "lxc",
        "lxc-attach",
        "taskset",
        "chrt",
        "strace",
        "if",
        "then",
        "else",
        "elif",
        "while",
        "until",
        "do",
        "!",
        "{",
    ]
)
_NEAR = 20  # words after `sudo` and the like among which the command is looked for
_REMOTE = frozenset(["ssh", "adb", "sshpass", "rsh", "vagrant", "gcloud", "hdc"])
_WRITING = frozenset(["echo", "printf", "tee", "cat", "dd", "eval", "kprobe"])
_ASSIGNMENT = re.compile(r"(\w+)(?:\[[^]]*\])?(\+?)=")
_VALUED_BY_SSH = frozenset("BbcDEeFIiJLlmOopQRSWw")


def without_assignments(each: Sequence[Word]) -> tuple[Word, ...]:
    """Return the words from the command's name on; a declaration's words are all assignments."""
    index = next((index for index, word in enumerate(each) if not holds_assignment(word)), len(each))
    if index < len(each) and each[index].text in DECLARING and any(holds_assignment(word) for word in each[index:]):
        return ()
    return tuple(each[index:])


def holds_assignment(word: Word) -> bool:
    """Return whether a word assigns to a variable."""
    return bool(word.parts) and not word.parts[0].is_quoted and _ASSIGNMENT.match(_start(word)) is not None


def assignment(word: Word) -> tuple[str, bool, Word]:
    """Return the variable that a word assigns to ("" if to none), whether it adds to it, and the value as a word."""
    found = _ASSIGNMENT.match(_start(word))
    if found is None:
        return "", False, word
    first = word.parts[0]
    value = first._replace(text=first.text[found.end() :])
    return found[1], bool(found[2]), word._replace(parts=(value, *word.parts[1:]) if value.text else word.parts[1:])


def _start(word: Word) -> str:
    return word.parts[0].text if word.parts and word.parts[0].kind == LITERAL else ""


def assigned(each: Iterable[Node]) -> Iterator[str]:
    """Yield the names of the variables that commands may set."""
    for node in each:
        if isinstance(node, Command):
            for word in node.words:
                if holds_assignment(word):
                    yield assignment(word)[0]
            if node.words and node.words[0].text in ("read", "mapfile", "readarray", "unset", "getopts", "let"):
                yield from (word.text for word in node.words[1:] if word.text.isidentifier())
        elif isinstance(node, Pipeline):
            yield from assigned(node.stages)
        elif isinstance(node, Compound):
            if node.name:
                yield node.name
            for body in node.bodies:
                yield from assigned(body)


def grown(each: Iterable[Node]) -> Iterator[str]:
    """Yield the names of the variables to which commands add something: X+=…, X="$X …"."""
    for node in each:
        if isinstance(node, Command):
            for word in node.words:
                name, is_added, value = assignment(word) if holds_assignment(word) else ("", False, word)
                if name and (is_added or any(part.name == name for part in value.parts)):
                    yield name
        else:
            for body in (node.stages,) if isinstance(node, Pipeline) else node.bodies:
                yield from grown(body)


def bare(fields: Sequence[Text]) -> list[Text]:
    """Return the words of the command that finally runs: without `sudo`, `env` and their options."""
    index = 0
    while index < len(fields) and fields[index].text.rpartition("/")[2] in _CARRIERS:
        index += 1
        near = range(index, min(index + _NEAR, len(fields)))
        known = next((one for one in near if _is_known(fields[one].text)), None)
        if known is not None:
            index = known
            continue
        while index < len(fields) and (fields[index].text.startswith("-") or _ASSIGNMENT.match(fields[index].text)):
            index += 1
    return list(fields[index:])


def _is_known(text: str) -> bool:
    name = text.rpartition("/")[2]
    return name in SHELLS or name in _WRITING or name in _REMOTE


def is_exec(fields: Sequence[Text]) -> bool:
    """Return whether a command is an `exec` that redirects all further output."""
    return bool(fields) and fields[0].text == "exec"


def reads_script(fields: Sequence[Text]) -> bool:
    """Return whether a command runs a shell that reads its script: `ssh h`, `adb shell`, `sudo -s`."""
    texts = [field.text for field in fields]
    return bool(texts) and (
        texts[0].rpartition("/")[2] in _REMOTE or (texts[0] == "sudo" and any(one in ("-s", "-i") for one in texts))
    )


def script(name: str, arguments: Sequence[Text]) -> Text | None:
    """Return the script among a shell's words; None if there is none."""
    if name == "eval":
        return _joined(arguments)
    if name == "adb" or name == "hdc":
        index = next(
            (index for index, field in enumerate(arguments) if field.text in ("shell", "exec-out", "exec-in")), None
        )
        return _joined(arguments[index + 1 :]) if index is not None else None
    if name == "ssh" or name == "rsh":
        return _joined(arguments[_host(arguments) + 1 :])
    if name in SHELLS or name in _REMOTE:
        options = [index for index, field in enumerate(arguments) if re.fullmatch(r"-[a-z]*c|--command", field.text)]
        given = next((field for field in arguments if field.text.startswith("--command=")), None)
        if given is not None:
            return given._replace(text=given.text.removeprefix("--command="))
        return arguments[options[0] + 1] if options and options[0] + 1 < len(arguments) else None
    return None


def _host(arguments: Sequence[Text]) -> int:
    index = 0
    while index < len(arguments) and arguments[index].text.startswith("-"):
        option = arguments[index].text
        index += 2 if len(option) == 2 and option[1] in _VALUED_BY_SSH else 1
    return index


def _joined(arguments: Sequence[Text]) -> Text | None:
    if not arguments:
        return None
    unknowns = tuple(dict.fromkeys(one for field in arguments for one in field.unknowns))
    return arguments[0]._replace(text=" ".join(field.text for field in arguments), unknowns=unknowns)


def files(name: str, arguments: Sequence[Text]) -> list[Text]:
    """Return the files that tee or dd writes."""
    if name == "tee":
        return [field for field in arguments if not field.text.startswith("-")]
    return [field._replace(text=field.text[3:]) for field in arguments if field.text.startswith("of=")]


def is_adding(name: str, arguments: Sequence[Text]) -> bool:
    """Return whether tee or dd keeps the contents of its files."""
    if name == "tee":
        return any(re.fullmatch(r"-[b-z]*a[a-z]*|--append", field.text) for field in arguments)
    return any(field.text.startswith("conv=") and "notrunc" in field.text for field in arguments)
