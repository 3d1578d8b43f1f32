"""`kprobe-vm bisect`: where the answer of an operation changes, from kernel to kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from kprobe_lab.changes.bisect import Answered, changes_of
from kprobe_lab.changes.kernels import in_line
from kprobe_lab.changes.response import Response

NEWER = ("6.12.117+deb13-cloud-amd64", "7.2.13+deb14-cloud-amd64", "7.3-cloud-amd64")
PACKAGED = "5.10,6.1,6.12,7.2,7.3"


def bisect(*words: str, kernels: str = PACKAGED) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kprobe_vm", "-q", "bisect", "--kernels", kernels, *words]
    environment = {name: value for name, value in os.environ.items() if name != "KPROBE_SIM_PROFILES"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)


def found(*words: str, kernels: str = PACKAGED) -> dict[str, Any]:
    done = bisect("--format", "json", *words, kernels=kernels)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def series(release: str) -> str:
    return ".".join(release.split("-")[0].split(".")[:2])


def changes(operation: str) -> list[str]:
    return [f"{series(one['before'])}>{series(one['after'])}" for one in found(operation)["changes"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("p:x vfs_read a=$arg1", []),
        ("p:x vfs_read file", ["6.1>6.12"]),  # arguments by their BTF names
        ("p:x vfs_read $arg*", ["6.1>6.12"]),
        ("p:x vfs_read a=%di:symstr", ["5.10>6.1"]),
        ("p:x do_sys_openat2%return", ["5.10>6.1"]),
        ("e:x sched/sched_process_exec pid=$pid", ["5.10>6.1"]),  # event probes
        ("f:x vfs_read", ["6.1>6.12"]),
        ("r:x vfs_read a=$arg1", ["6.1>6.12"]),
        ("hist:keys=pid:vals=hitcount.percent", ["5.10>6.1", "6.1>6.12"]),
        ("cat trace_clock", ["5.10>6.1"]),
        ("stat -c %a events", ["6.1>6.12"]),
    ],
)
def test_thresholds(operation: str, expected: list[str]) -> None:
    assert changes(operation) == expected


def test_what_is_said() -> None:
    done = bisect("p:x vfs_read a=$nosuch:u99")
    assert done.stderr == ""
    assert done.returncode == 0
    assert (
        done.stdout
        == """\
asked of 5 builds: echo 'p:x vfs_read a=$nosuch:u99' >> kprobe_events

5.10.0-46-cloud-amd64 answers
  EINVAL: trace_kprobe: Unknown type is specified @23
      p:x vfs_read a=$nosuch:u99
                             ^
    kprobe_events: empty

no change: all 5 builds give the same answer
"""
    )


def test_a_difference_in_a_long_text_is_said_by_its_lines() -> None:
    done = bisect("cd /sys/kernel/tracing; ls instances; cat trace_clock", kernels="5.10,6.1")
    assert done.stdout.splitlines()[-7:] == [
        "",
        "5.10.0-46-cloud-amd64 -> 6.1.0-54-cloud-amd64",
        "    trace_clock:",
        "  -   [local] global counter uptime perf mono mono_raw boot x86-tsc",
        "  +   [local] global counter uptime perf mono mono_raw boot tai x86-tsc",
        "",
        "1 change",
    ]


def test_a_command_before_the_last_that_is_refused_is_told() -> None:
    (answer,) = found("mkdir instances/a; mkdir instances/a; ls instances", kernels="6.1")["answers"]
    assert answer["answer"] == {"errno": "", "faults": [], "shown": {"instances/": "a\n"}, "before": ["2: EEXIST"]}


def test_the_answer_as_json() -> None:
    (answer,) = found("pid == x", kernels="6.12")["answers"]
    message = "event filter parse error: Invalid value (did you forget quotes)?"
    assert answer == {
        "release": "6.12.117+deb13-cloud-amd64",
        "answer": {
            "errno": "EINVAL",
            "faults": [{"message": message, "command": "pid == x", "caret": 8}],
            "shown": {
                "events/sched/sched_process_exec/filter": (
                    "pid == x\n        ^\nparse_error: Invalid value (did you forget quotes)?\n\n"
                )
            },
            "before": [],
        },
    }


def test_an_operation_after_two_dashes() -> None:
    done = bisect("--", "-:nosuch", kernels="6.1")
    assert done.stdout.splitlines()[:4] == [
        "asked of 1 build: echo '-:nosuch' >> kprobe_events",
        "",
        "6.1.0-54-cloud-amd64 answers",
        "  ENOENT",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kernels", "why"),
    [
        (("hello",), "6.1", "'hello' isn't a command"),
        ((), "6.1", "nothing to do"),
        (("p:x vfs_read",), "3.5", "3.5"),
        (("p:x vfs_read",), "4.4", "no call chain of system calls is recorded for 4.4.11+"),
        (("p:x vfs_read",), "local:/sys", "local:/sys: only sim:KERNEL and vm:KERNEL can be asked"),
    ],
)
def test_bad_input(words: tuple[str, ...], kernels: str, why: str) -> None:
    done = bisect(*words, kernels=kernels)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("kprobe-vm bisect: ")
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_all_that_can_be_simulated_are_asked_oldest_first() -> None:
    command = [sys.executable, "-m", "kprobe_vm", "-q", "bisect", "--format", "json", "p:x vfs_read"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    releases = [series(one["release"]) for one in json.loads(done.stdout)["answers"]]
    numbers = [tuple(map(int, one.split("."))) for one in releases]
    assert numbers == sorted(numbers)
    assert {(5, 10), (6, 1), (6, 12), (7, 2), (7, 3)} <= set(numbers)


class Kernel(NamedTuple):
    release: str
    flavour: str
    spec: str


def test_flavours_stand_beside_the_build_of_their_version(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [
        Kernel("6.1.0-54-cloud-amd64", "cloud-amd64", "sim:6.1"),
        Kernel("6.12.117+deb13-amd64", "amd64", "sim:6.12-amd64"),
        Kernel("6.12.117+deb13-rt-amd64", "rt-amd64", "sim:6.12-rt-amd64"),
        Kernel("6.12.117+deb13-cloud-amd64", "cloud-amd64", "sim:6.12"),
        Kernel("6.8.0-45-generic", "generic", "sim:6.8"),
    ]
    monkeypatch.setattr("kprobe_lab.changes.kernels.simulated_builds", lambda: listed)
    assert in_line() == [
        ("sim:6.1", ""),
        ("sim:6.12", ""),
        ("sim:6.12-amd64", "6.12.117+deb13-cloud-amd64"),
        ("sim:6.12-rt-amd64", "6.12.117+deb13-cloud-amd64"),
        ("sim:6.8", ""),
    ]


def test_every_change_is_found_whatever_lies_between() -> None:
    taken, refused = Response(""), Response("EINVAL")
    line = [Answered("a", taken), Answered("b", refused), Answered("b-rt", taken, "b"), Answered("c", taken)]
    assert [(before.release, after.release) for before, after in changes_of(line)] == [
        ("a", "b"),
        ("b", "b-rt"),
        ("b", "c"),
    ]


@pytest.mark.vm
@pytest.mark.parametrize(
    ("operation", "neighbours"),
    [
        ("p:x vfs_read file", ["6.1.0-54-cloud-amd64", "6.12.117+deb13-cloud-amd64"]),
        ("e:x sched/sched_process_exec pid=$pid", ["5.10.0-46-cloud-amd64", "6.1.0-54-cloud-amd64"]),
        ("p:x vfs_read a=%di:symstr", ["5.10.0-46-cloud-amd64", "6.1.0-54-cloud-amd64"]),
        ("stat -c %a events", ["6.1.0-54-cloud-amd64", "6.12.117+deb13-cloud-amd64"]),
        ("f:x vfs_read @+10", ["6.1.0-54-cloud-amd64", *NEWER]),
    ],
)
def test_guests_confirm(operation: str, neighbours: list[str]) -> None:
    done = bisect("--guests", operation)
    said = [line for line in done.stdout.splitlines() if line.startswith("guest ")]
    assert said == [f"guest {release}: the same" for release in neighbours]
    assert done.returncode == 0
