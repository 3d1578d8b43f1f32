"""The threads of a process: of this machine, made of pyfakefs, or of another."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kprobe.errors import NoSuchProcess
from kprobe.undo.processes import check_thread, threads


def test_of_this_machine(fs: Any, scripted: Any) -> None:
    for tid in (42, 7, 100):
        fs.create_dir(f"/proc/42/task/{tid}")
    assert threads(scripted, 42) == [7, 42, 100]
    with pytest.raises(NoSuchProcess) as caught:
        threads(scripted, 43)
    assert (caught.value.pid, str(caught.value)) == (43, "no process 43")


def test_of_another_machine(fs: Any, scripted: Any) -> None:
    def of(pid: int) -> list[int]:
        if pid != 5:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        return [6, 5]

    fs.create_dir("/proc/43/task/43")
    scripted.threads = of
    assert threads(scripted, 5) == [5, 6]
    with pytest.raises(NoSuchProcess):
        threads(scripted, 43)


def test_a_thread(fs: Any, scripted: Any) -> None:
    fs.create_dir("/proc/42")
    check_thread(scripted, 42)
    with pytest.raises(NoSuchProcess) as caught:
        check_thread(scripted, 43)
    assert str(caught.value) == "no thread 43"
    scripted.threads = lambda pid: [pid]
    check_thread(scripted, 43)
