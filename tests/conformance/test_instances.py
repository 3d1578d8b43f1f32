"""What an instance has for itself: error_log, triggers, the events that it has enabled."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from .builds import HELD_BY_NAMES
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


@pytest.mark.parametrize("variable", ["v=f", "v=1", "v=common_timestamp.usecs", "pause:v=f"])
def test_it_stays_while_a_histogram_has_variables(tracefs: Any, choose: Any, instance: str, variable: str) -> None:
    if not choose({"": False, "hist:keys=": True}):
        return
    trigger = f"hist:keys=f:{variable}"
    tracefs.write(f"{instance}/{EVENT}/trigger", trigger.encode())
    with pytest.raises(OSError) as busy:
        tracefs.rmdir(instance)
    assert busy.value.errno == errno.EBUSY
    tracefs.write(f"{instance}/{EVENT}/trigger", f"!{trigger}".encode())
    tracefs.rmdir(instance)
    define(tracefs, "-:a")


def test_a_histogram_shared_by_name_is_held_by_its_first_instance(tracefs: Any, choose: Any, instance: str) -> None:
    if not choose({"": False, "hist:keys=": True}):
        return
    named = b"hist:keys=f:name=shared:v=f"
    tracefs.write(f"{EVENT}/trigger", named)
    tracefs.write(f"{instance}/{EVENT}/trigger", named)
    if choose({"": False, HELD_BY_NAMES: True}):  # by each of its instances on 6.16 to 7.1
        with pytest.raises(OSError) as busy:
            tracefs.rmdir(instance)
        assert busy.value.errno == errno.EBUSY
        tracefs.write(f"{instance}/{EVENT}/trigger", b"!" + named)
    tracefs.rmdir(instance)
    assert tracefs.read(f"{EVENT}/trigger").startswith(b"hist:name=shared:keys=f:")
    tracefs.write(f"{EVENT}/trigger", b"!" + named)
    define(tracefs, "-:a")


def test_its_triggers_go_with_it(tracefs: Any, choose: Any, instance: str) -> None:
    if not choose({"": False, "hist:keys=": True}):
        return
    tracefs.write(f"{instance}/{EVENT}/trigger", b"hist:keys=f:name=shared")
    tracefs.rmdir(instance)
    tracefs.write(f"{EVENT}/trigger", b"hist:keys=common_pid:name=shared")  # the name is free for another histogram
    assert tracefs.read(f"{EVENT}/trigger").startswith(b"hist:name=shared:keys=common_pid:")
    tracefs.write(f"{EVENT}/trigger", b"!hist:keys=common_pid:name=shared")
    define(tracefs, "-:a")
