"""The node numbers by which the kernel knows the files of a mount."""

from __future__ import annotations

import errno

from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.tree.files.node import DirNode, Node

ROOT = 1
_APART = ("trace_pipe_raw", "snapshot_raw")


def is_apart(name: str) -> bool:
    """Return whether a file gets a new node at each lookup.

    Each open file of that name then has its own page cache, so a waiting splice blocks nobody else.
    """
    return name in _APART


class _Known:
    """A file or directory that the kernel has looked up."""

    __slots__ = ("inode", "key", "lookups", "name", "node", "parent", "path")

    def __init__(self, parent: DirNode | None, key: tuple[int, str], path: str, node: Node, inode: int) -> None:
        self.inode = inode  # what stat(2) shows
        self.parent = parent
        self.key = key  # the parent's number, and the name
        self.name = key[1]
        self.path = path
        self.node = node
        self.lookups = 0


class NodeTable:
    """Node numbers, from LOOKUP to FORGET.

    A directory that was removed and made again (its `Node.identity` is another object) gets a new number, so the kernel
    sees a new directory.
    """

    def __init__(self, root: DirNode) -> None:
        self._known = {ROOT: _Known(None, (0, ""), "", root, ROOT)}
        self._numbers: dict[tuple[int, str], int] = {}
        self._next = ROOT + 1

    def look_up(self, parent: int, name: str) -> int | None:
        """Return the number of an entry and count the lookup; None if there is no such entry."""
        above = self._get(parent)
        directory = above.node
        if not isinstance(directory, DirNode):
            raise refuse(errno.ENOTDIR)
        node = directory.lookup(name)
        key = (parent, name)
        if node is None:
            self._numbers.pop(key, None)
            return None
        number = self._numbers.get(key)
        is_other = number is None or self._known[number].node.identity is not node.identity
        if number is None or is_other or is_apart(name):
            inode = self._next if number is None or is_other else self._known[number].inode
            number = self._next
            self._next += 1
            self._numbers[key] = number
            path = f"{above.path}/{name}" if above.path else name
            self._known[number] = _Known(directory, key, path, node, inode)
        self._known[number].lookups += 1
        return number

    def node(self, number: int) -> Node:
        """Return the current node.  Raises OSError ESTALE if it is gone."""
        known = self._get(number)
        if known.parent is None or known.node.is_dir:
            return known.node
        node = known.parent.lookup(known.name)
        if node is None:
            raise refuse(errno.ESTALE)
        return node

    def path(self, number: int) -> str:
        """Return the path below the mount point."""
        return self._get(number).path

    def inode(self, number: int) -> int:
        """Return the inode number that stat(2) shows."""
        return self._get(number).inode

    def is_dir(self, number: int) -> bool:
        """Return whether this is a directory."""
        return self._get(number).node.is_dir

    def changes(self, number: int) -> bool:
        """Return whether this is a directory whose entries come and go."""
        path = self._get(number).path.split("/")
        if path[0] == "instances":
            path = path[2:] or ["instances"]
        return path in (["instances"], ["events"]) or (path[0] == "events" and len(path) == 2)

    def stays(self, number: int) -> bool:
        """Return whether this is a file in a directory that is never removed."""
        first, *below = self._get(number).path.split("/")
        return first != "instances" and not (first == "events" and len(below) > 1)

    def forget(self, number: int, lookups: int) -> None:
        """Subtract lookups that the kernel has forgotten; drop the number with the last of them."""
        known = self._known.get(number)
        if known is None or number == ROOT:
            return
        known.lookups -= lookups
        if known.lookups <= 0:
            del self._known[number]
            if self._numbers.get(known.key) == number:
                del self._numbers[known.key]

    def _get(self, number: int) -> _Known:
        known = self._known.get(number)
        if known is None:
            raise refuse(errno.ESTALE)
        return known
