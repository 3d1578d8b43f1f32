"""A tree whose files are restored: everything written through it is undone, however the recording ends."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable

from kprobe_vm.recording.guest import TRACING, File, Tree

_EVENTS = ("kprobe_events", "uprobe_events", "dynamic_events", "synthetic_events")
# They are empty when a recording begins (survey.py), so emptying them restores them.
_LISTS = re.compile(r"set_(event|ftrace|graph)\w*")
_EMPTIED = ("trace", "error_log")
# writes to these leave nothing behind but records in `trace`
_LEFT = ("trace_marker", "trace_marker_raw", "free_buffer")


class Below:
    """A tree's part below a directory."""

    def __init__(self, tree: Tree, directory: str) -> None:
        self._tree = tree
        self._directory = directory

    def read(self, path: str) -> bytes:
        return self._tree.read(self._path(path))

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        self._tree.write(self._path(path), data, truncate=truncate)

    def listdir(self, path: str) -> list[str]:
        return self._tree.listdir(self._path(path))

    def exists(self, path: str) -> bool:
        return self._tree.exists(self._path(path))

    def mkdir(self, path: str) -> None:
        self._tree.mkdir(self._path(path))

    def rmdir(self, path: str) -> None:
        self._tree.rmdir(self._path(path))

    def open(self, path: str, flags: int) -> File:
        return self._tree.open(self._path(path), flags)

    def _path(self, path: str) -> str:
        return f"{self._directory}/{path}" if path else self._directory


class Restored:
    """A tree that notes each change before it is made; `restore` undoes them in reverse."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._before: dict[str, bytes | None] = {}
        self._made: dict[str, None] = {}
        self._triggers: list[tuple[str, bytes]] = []
        self._open: list[File] = []
        self._events: set[bytes] | None = None
        self.before_each: Callable[[], None] = lambda: None  # called before each change that isn't part of restoring

    def read(self, path: str) -> bytes:
        self.before_each()
        return self._tree.read(path)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        self.before_each()
        self._note(path)
        if path.endswith("/trigger") and not data.startswith(b"!"):
            self._triggers.append((path, data))
        self._tree.write(path, data, truncate=truncate)

    def listdir(self, path: str) -> list[str]:
        return self._tree.listdir(path)

    def exists(self, path: str) -> bool:
        return self._tree.exists(path)

    def mkdir(self, path: str) -> None:
        self.before_each()
        self._made[path] = None
        self._tree.mkdir(path)

    def rmdir(self, path: str) -> None:
        self._tree.rmdir(path)

    def open(self, path: str, flags: int) -> File:
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._note(path)
        self.before_each()
        file = self._tree.open(path, flags)
        self._open.append(file)
        return file

    def _note(self, path: str) -> None:
        name = path.rpartition("/")[2]
        if path in self._before:
            return
        before = None
        if name in _EVENTS:
            self._events = self._events if self._events is not None else set(self._definitions())
        elif name not in (*_EMPTIED, *_LEFT):
            with contextlib.suppress(OSError):  # it can't be read, so there is nothing to compare
                before = self._tree.read(path)
        self._before[path] = before

    # ---- restoring ----

    def restore(self) -> list[str]:
        """Undo everything; return what could not be undone, one line each."""
        left: list[str] = []

        def done(what: str, step: Callable[[], None]) -> None:
            try:
                step()
            except (FileNotFoundError, NotADirectoryError):  # already gone, with its directory
                pass
            except OSError as error:
                left.append(f"{what}: {error.strerror}")

        for file in self._open:
            with contextlib.suppress(OSError):  # closed by its opener
                file.close()
        for path, data in reversed(self._triggers):  # in their order: histograms refer to earlier ones
            with contextlib.suppress(OSError):  # already removed, or never accepted
                self._tree.write(path, b"!" + data)
        # in instances as well: an event can't be removed while a trigger there refers to it
        for path, before in reversed(self._before.items()):
            done(f"/{path} stays as it is", lambda path=path, before=before: self._put(path, before))  # type: ignore[misc]
        for path in reversed(self._made):
            done(f"/{path} stays", lambda path=path: self._tree.rmdir(path))  # type: ignore[misc]
        done("probes stay", self._delete_events)
        for name in _EMPTIED if self._before or self._made else ():
            done(f"/{TRACING}/{name} isn't empty", lambda name=name: self._empty(name))  # type: ignore[misc]
        return left

    def _put(self, path: str, before: bytes | None) -> None:
        name = path.rpartition("/")[2]
        if before is None or (now := self._tree.read(path)) == before:
            return
        if _LISTS.fullmatch(name):
            self._tree.write(path, b"", truncate=True)
        elif name == "trigger":
            for line in now.splitlines():
                if line not in before.splitlines() and not line.startswith(b"#"):
                    self._tree.write(path, b"!" + re.sub(rb" \[(active|paused)\]$", b"", line))
        elif name == "trace_options":
            for word in before.split():
                if word not in now.split():
                    self._tree.write(path, word)
        elif (value := _value(name, before)) != now.strip():
            self._tree.write(path, value)

    def _delete_events(self) -> None:
        for line in self._definitions() if self._events is not None else []:
            if self._events is None or line in self._events:
                continue
            name = line.split()[0].partition(b":")[2]
            file = "dynamic_events" if self._tree.exists(f"{TRACING}/dynamic_events") else "kprobe_events"
            with contextlib.suppress(OSError):  # an event without a directory can't be enabled
                self._tree.write(f"{TRACING}/events/{name.decode()}/enable", b"0")
            self._tree.write(f"{TRACING}/{file}", b"-:" + name)

    def _definitions(self) -> list[bytes]:
        """Return the lines of all dynamic events, the newest first."""
        for name in ("dynamic_events", "kprobe_events"):
            with contextlib.suppress(FileNotFoundError):
                return self._tree.read(f"{TRACING}/{name}").splitlines()[::-1]
        return []

    def _empty(self, name: str) -> None:
        self._tree.write(f"{TRACING}/{name}", b"", truncate=True)


def _value(name: str, before: bytes) -> bytes:
    """Return what to write to a file so that it reads as before."""
    text = before.strip()
    if name == "filter" and text.startswith(b"none"):
        return b"0"
    if name == "snapshot":
        return b"0"
    if name == "buffer_size_kb" and (grown := re.search(rb"expanded: (\d+)", text)):
        return grown[1]  # a buffer that has expanded stays so until the next boot
    if chosen := re.search(rb"\[([^\s\[\]]+)\]", text):  # trace_clock
        return chosen[1]
    return text
