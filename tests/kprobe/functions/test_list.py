"""`kprobe list` on kernels of several eras, and where files can't be read."""

from __future__ import annotations

import errno
import json
import os
from typing import Any

import pytest

from kprobe.cli import main
from kprobe_sim import SimulatedKernel, Task


class Denying:
    """A tracefs whose files named so can't be read."""

    def __init__(self, tracefs: Any, *denied: str) -> None:
        self._tracefs = tracefs
        self._denied = denied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def read(self, path: str) -> bytes:
        self._check(path)
        return bytes(self._tracefs.read(path))

    def listdir(self, path: str) -> list[str]:
        self._check(path)
        return list(self._tracefs.listdir(path))

    def _check(self, path: str) -> None:
        if path in self._denied:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)


def listed(tracefs: Any, capfd: Any, status: int = 0) -> tuple[list[dict[str, Any]], str]:
    assert main(["list", "--json"], tracefs=tracefs) == status
    out, err = capfd.readouterr()
    return [json.loads(line) for line in out.splitlines()], err


@pytest.mark.parametrize("series", ["4.4", "4.19", "5.10", "6.1", "6.12"])
def test_kernels(series: str, capfd: Any) -> None:
    kernel = SimulatedKernel(series)
    tracefs = kernel.tracefs
    assert tracefs.exists("dynamic_events") == (series not in ("4.4", "4.19"))
    tracefs.write("kprobe_events", b"p:idle vfs_write\n")
    tracefs.write("kprobe_events", b"p:reads vfs_read\n")
    tracefs.write("events/kprobes/reads/enable", b"1\n")
    for _ in range(2):
        kernel.call("vfs_read", task=Task(7, "cat"), args=(0, 0, 3), returns=3)
    shown = [("idle", [], 0), ("reads", ["top level"], 2)]
    functions = {"idle": "vfs_write", "reads": "vfs_read"}
    assert listed(tracefs, capfd) == (
        [
            {
                "event": f"kprobes/{name}",
                "owner": "other",
                "pid": None,
                "process": None,
                "enabled": enabled,
                "hits": hits,
                "missed": 0,
                "definition": f"p:kprobes/{name} {functions[name]}",
            }
            for name, enabled, hits in shown
        ],
        "",
    )


@pytest.mark.parametrize("series", ["4.19", "5.4"])
def test_synthetic_events(series: str, capfd: Any) -> None:
    """4.19 has them in a file of their own only, where they have neither kind nor group."""
    tracefs = SimulatedKernel(series).tracefs
    tracefs.write("synthetic_events", b"wake u64 lat; pid_t pid\n")
    tracefs.write("events/synthetic/wake/enable", b"1")
    (event,), _ = listed(tracefs, capfd)
    assert (event["event"], event["definition"]) == ("synthetic/wake", "s:synthetic/wake u64 lat; pid_t pid")
    assert (event["enabled"], event["hits"]) == (["top level"], None)


def test_events_of_one_text_have_their_hits_in_turn(capfd: Any) -> None:
    kernel = SimulatedKernel("6.12")
    kernel.tracefs.write("kprobe_events", b"p:both vfs_read\n")
    kernel.tracefs.write("kprobe_events", b"p:both vfs_write\n")
    kernel.tracefs.write("events/kprobes/both/enable", b"1\n")
    kernel.call("vfs_write", task=Task(7, "cat"), args=(0, 0, 3), returns=3)
    assert [(each["definition"], each["hits"]) for each in listed(kernel.tracefs, capfd)[0]] == [
        ("p:kprobes/both vfs_read", 0),
        ("p:kprobes/both vfs_write", 1),
    ]


@pytest.mark.parametrize(
    ("file", "changed", "said"),
    [
        ("kprobe_profile", {"hits": None, "missed": None}, "NOTE: can't read kprobe_profile: Permission denied\n"),
        (
            "dynamic_events",
            {"owner": "unknown"},
            "NOTE: can't read dynamic_events: Permission denied\n"
            "NOTE: the owners of these events are unknown: dynamic_events: Permission denied\n",
        ),
        (
            "events/kprobes/reads/enable",
            {"enabled": []},
            "NOTE: can't read events/kprobes/reads/enable: Permission denied\n",
        ),
        (
            "instances",
            {"owner": "unknown"},
            "NOTE: can't read instances: Permission denied\n"
            "NOTE: the owners of these events are unknown: instances: Permission denied\n",
        ),
    ],
)
def test_what_cannot_be_read_is_named(capfd: Any, file: str, changed: dict[str, Any], said: str) -> None:
    tracefs = SimulatedKernel("6.12").tracefs
    tracefs.write("kprobe_events", b"p:reads vfs_read\n")
    tracefs.write("events/kprobes/reads/enable", b"1\n")
    (event,), _ = listed(tracefs, capfd)
    assert listed(Denying(tracefs, file), capfd) == ([{**event, **changed}], said)


def test_no_list_can_be_read(capfd: Any) -> None:
    lists = ("dynamic_events", "kprobe_events", "uprobe_events")
    found = listed(Denying(SimulatedKernel("6.12").tracefs, *lists), capfd, 3)
    assert found == ([], "ERROR: dynamic_events: Permission denied\nkprobe doctor looks for the reason\n")


def test_a_tracefs_without_probes(capfd: Any) -> None:
    class Empty:
        def read(self, path: str) -> bytes:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)

        def exists(self, path: str) -> bool:
            return False

    assert listed(Empty(), capfd, 1) == (
        [],
        "ERROR: this kernel has no dynamic events (there is none of dynamic_events, kprobe_events, uprobe_events)\n",
    )
