"""The shell lines of the documents: echo into a file, cat, ls -l, and the command kprobe."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Mapping
from typing import Protocol

from kprobe_sim.scenarios.replays.machine import ListingTracefs

ROOT = "/sys/kernel/debug/tracing/"
Write = Callable[[bytes], object]


class Command(Protocol):
    """The command `kprobe`, as its entry point gives it."""

    def __call__(self, argv: list[str], *, tracefs: ListingTracefs) -> int: ...


class Shell:
    """Runs lines on a listing's tracefs; their output and errors go to `write`.

    `kprobe` returns the command, which prints by itself; `made` says when files were made, under "" for all others.
    """

    def __init__(
        self, tracefs: ListingTracefs, write: Write, kprobe: Callable[[], Command], made: Mapping[str, str]
    ) -> None:
        self._made = made
        self._tracefs = tracefs
        self._write = write
        self._kprobe = kprobe

    def run(self, line: str) -> None:
        """Run one line.  Raises ValueError for an unknown command."""
        lexer = shlex.shlex(line, posix=True, punctuation_chars=">")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
        target = None
        for sign in (">", ">>"):
            if sign in words:
                position = words.index(sign)
                target, truncate = words[position + 1], sign == ">"
                words = words[:position] + words[position + 2 :]
        match words:
            case ["echo", *arguments] if target is not None:
                self._put(target, " ".join(arguments), truncate=truncate)
            case ["echo", *arguments]:
                self._write(" ".join(arguments).encode() + b"\n")
            case ["cat", path]:
                self._show(_relative(path))
            case ["ls", "-l", path]:
                self._list(_relative(path))
            case ["./kprobe", *arguments]:
                self._kprobe()(arguments, tracefs=self._tracefs)
            case _:
                raise ValueError(f"no command of a listing: {line}")

    def _put(self, path: str, text: str, *, truncate: bool) -> None:
        try:
            self._tracefs.write(_relative(path), text.encode() + b"\n", truncate=truncate)
        except OSError as error:
            self._write(f"-bash: echo: write error: {error.strerror}\n".encode())

    def _show(self, path: str) -> None:
        if path.rpartition("/")[2] != "trace_pipe":
            self._write(self._tracefs.read(path))
            return
        with self._tracefs.stream(path) as stream, contextlib.suppress(TimeoutError):  # at the end of the activity
            while True:
                self._write(stream.read(0))

    def _list(self, path: str) -> None:
        """List a directory like ls -l, with the times that the listing gives."""
        tracefs = self._tracefs
        self._write(b"total 0\n")
        for name in sorted(tracefs.listdir(path)):
            entry = f"{path}/{name}"
            mode, is_dir = tracefs.mode(entry), tracefs.is_dir(entry)
            bits = zip(range(8, -1, -1), "rwx" * 3, strict=True)
            letters = "".join(letter if mode >> bit & 1 else "-" for bit, letter in bits)
            made = self._made.get(name, self._made.get("", ""))
            text = f"{'d' if is_dir else '-'}{letters} {2 if is_dir else 1} root root 0 {made} {name}\n"
            self._write(text.encode())


def _relative(path: str) -> str:
    if not path.startswith(ROOT):
        raise ValueError(f"{path} isn't below {ROOT}")
    return path.removeprefix(ROOT).rstrip("/")
