"""What an instance has for itself: error_log, triggers, the events that it has enabled."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from .text import define, errors, refused

EVENT = "events/kprobes/a"


@pytest.fixture
def instance(tracefs: Any) -> str:
    define(tracefs, "p:a ksys_fadvise64_64 f=%di")
    tracefs.mkdir("instances/own")
    return "instances/own"


def test_its_own_error_log(tracefs: Any, instance: str) -> None:
    assert refused(tracefs, f"{instance}/{EVENT}/filter", "nosuch == 1") == errno.EINVAL
    assert b"Field not found" in tracefs.read(f"{instance}/error_log")
    assert errors(tracefs) == []
    tracefs.rmdir(instance)


def test_its_own_triggers(tracefs: Any, instance: str) -> None:
    tracefs.write(f"{instance}/{EVENT}/trigger", b"traceoff:3")
    assert tracefs.read(f"{instance}/{EVENT}/trigger") == b"traceoff:count=3\n"
    assert tracefs.read(f"{EVENT}/trigger").startswith(b"# Available triggers:\n")
    assert (tracefs.read(f"{instance}/{EVENT}/enable"), tracefs.read(f"{EVENT}/enable")) == (b"0*\n", b"0\n")
    assert refused(tracefs, "kprobe_events", "-:a") == errno.EBUSY
    tracefs.write(f"{instance}/{EVENT}/trigger", b"!traceoff")
    tracefs.rmdir(instance)
    define(tracefs, "-:a")


def test_it_stays_while_a_file_is_open(tracefs: Any, instance: str) -> None:
    tracefs.write(f"{instance}/{EVENT}/enable", b"1")
    with tracefs.open(f"{instance}/trace", os.O_RDONLY):
        with pytest.raises(OSError) as busy:
            tracefs.rmdir(instance)
        assert busy.value.errno == errno.EBUSY
    assert refused(tracefs, "kprobe_events", "-:a") == errno.EBUSY
    tracefs.rmdir(instance)
    define(tracefs, "-:a")
