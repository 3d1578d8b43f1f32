"""The questions that settle the gates, asked of simulators."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds import profile
from kprobe_sim.builds.gates import GATES, filter_gates, gates_for, gates_of, like
from kprobe_sim.builds.gates.question import ABSENT, Question
from kprobe_sim.builds.questions import answers
from kprobe_sim.builds.questions.answers import QUESTIONS
from kprobe_sim.builds.questions.ask import NO_PLACES, Asker
from kprobe_sim.builds.symbol import Placement, Symbol
from kprobe_sim.kernel.workload import open_workload

RELEASES = profile.available()


def asker(kernel: SimulatedKernel, places: Mapping[str, str] = NO_PLACES) -> Asker:
    return Asker(kernel.tracefs, open_workload(kernel.tracefs), places)


def places(kernel: SimulatedKernel) -> dict[str, str]:
    """Load a module that has a function of the kernel's name, and return where the kernel has what is asked about."""
    symbols = kernel.machine.symbols
    symbols.add(Symbol("ksys_fadvise64_64", module="zz_module"))

    def find(function: str, kind: Placement) -> str:
        (symbol,) = symbols.lookup(function)
        offsets = range(symbol.size)
        return f"{function}+{next(one for one in offsets if symbols.placement(symbol.address + one) is kind)}"

    return {
        "int3": find("do_sys_openat2", Placement.INT3),
        "unsupported": find("ipi_sync_core", Placement.UNSUPPORTED),
        "module": "zz_module",
        "shared": "ksys_fadvise64_64",
    }


def with_answers(directory: Path, release: str, **changed: Any) -> SimulatedKernel:
    """Return a kernel whose profile has other answers."""
    copy = directory / release
    shutil.copytree(profile.load(release).path, copy)
    facts = json.loads((copy / "profile.json").read_bytes())
    facts["answers"] = {**facts.get("answers", {}), **changed}
    (copy / "profile.json").write_text(json.dumps(facts))
    kernel = SimulatedKernel(release)
    kernel.machine.gates = gates_of(profile.Profile(copy))
    return kernel


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_gives_a_value_that_the_code_knows(name: str) -> None:
    answered = QUESTIONS[name].values
    values = [value for value in answered.values() if value is not ABSENT]
    known = [value for _, value in GATES[name].values]
    assert len(answered) > 1
    assert [value for value in known if value not in values] == [], "no answer gives a value that the gate has"
    assert {type(value) for value in values} == {type(value) for value in known}


@pytest.mark.parametrize("release", RELEASES)
def test_a_simulated_kernel_answers_what_its_gates_say(release: str) -> None:
    kernel = SimulatedKernel(release)
    gates = {**kernel.machine.gates._asdict(), **kernel.machine.filter_gates._asdict()}
    asked = asker(kernel, places(kernel))
    seen = {name: asked.ask(question) for name, question in QUESTIONS.items()}
    assert {name: answer for name, answer in seen.items() if answer not in QUESTIONS[name].values} == {}
    values = {name: QUESTIONS[name].values[answer] for name, answer in seen.items()}
    known = {name: value for name, value in values.items() if value is not ABSENT}
    assert known == {name: gates[name] for name in known}
    assert len(known) >= 85


@pytest.mark.parametrize("release", RELEASES)
def test_the_order_of_the_questions_does_not_matter(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def differences() -> answers.Differences:
        kernel = SimulatedKernel(release)
        return answers.ask(kernel.tracefs, open_workload(kernel.tracefs), kernel.profile.version)

    before = differences()
    monkeypatch.setattr(answers, "QUESTIONS", dict(reversed(QUESTIONS.items())))
    assert differences() == before


def test_what_a_kernel_has_not_is_not_asked_and_told() -> None:
    kernel = SimulatedKernel("7.2")
    found = answers.ask(kernel.tracefs, open_workload(kernel.tracefs), "7.2.13", {"int3": places(kernel)["int3"]})
    assert found.values["int3_errno"] == errno.EILSEQ
    assert found.missing == {
        "module_symbols_counted": "a loaded module",
        "unsupported_instruction_errno": "the address of an instruction that can't be emulated",
        "vmlinux_wins": "a function that a loaded module and the kernel itself have, each once",
    }
    assert not found.missing.keys() & found.values.keys()


@pytest.mark.parametrize("release", RELEASES)
def test_the_real_kernel_answered_as_its_version_said(release: str) -> None:
    """Of the builds that the tables were made from; what a table says wrongly of others the answers set right."""
    build = profile.load(release)
    version = {**gates_for(build.number)._asdict(), **filter_gates(build.number)._asdict()}
    recorded = {row: like(value, version[row]) for row, value in build.answers.items()}
    assert recorded == {row: version[row] for row in recorded}
    assert len(recorded) >= 75


@pytest.mark.parametrize("release", [RELEASES[0], RELEASES[-1]])
def test_the_tracefs_is_as_before(release: str) -> None:
    kernel = SimulatedKernel(release)
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", b"p:mine/one vfs_read")
    workload = open_workload(tracefs)

    def state() -> list[bytes | list[str]]:
        texts = ("dynamic_events", "set_event", "trace", "trace_options", "set_event_pid", "tracing_on")
        return [*map(tracefs.read, texts), tracefs.listdir("instances"), tracefs.listdir("events")]

    before = state()
    answers.ask(tracefs, workload, kernel.profile.version)
    assert state() == before
    workload.open("/")
    assert tracefs.read("trace") == before[2]


def test_the_answer_of_a_profile_beats_the_version(tmp_path: Path) -> None:
    kernel = with_answers(tmp_path, "6.1.0-54-cloud-amd64", symstr=False, raw_mark_sizes=[4060, 4060])
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.tracefs.write("kprobe_events", b"p:zz vfs_read %di:symstr")
    assert kernel.machine.gates.raw_mark_sizes == (4060, 4060)
    assert kernel.machine.gates.char is False  # as before
    other = SimulatedKernel("6.1.0-54-cloud-amd64")
    other.tracefs.write("kprobe_events", b"p:zz vfs_read %di:symstr")


def test_an_answer_that_contradicts_the_version_is_told(tmp_path: Path) -> None:
    kernel = with_answers(tmp_path, "6.1.0-54-cloud-amd64", marks_seek=True, empty_user_string_is_fault=False)
    found = answers.ask(kernel.tracefs, open_workload(kernel.tracefs), "6.1.190")
    assert found.contradicted["marks_seek"] == (False, True)
    assert found.values["marks_seek"] is True
    assert found.contradicted["empty_user_string_is_fault"] == (True, False)
    assert found.unknown == {}


def test_an_answer_that_no_value_fits_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    question = Question(("read README", "write kprobe_events p:zz/q vfs_read a=%di:nosuch"), "log", {"ok": True})
    monkeypatch.setattr(answers, "QUESTIONS", {"symstr": question})
    kernel = SimulatedKernel("6.1")
    differences = answers.ask(kernel.tracefs, open_workload(kernel.tracefs), "6.1.190")
    assert differences == ({}, {}, {"symstr": "EINVAL Unknown type is specified @22"}, {})


@pytest.mark.parametrize(
    ("steps", "reading", "answer"),
    [
        (("write kprobe_events p:zz/q vfs_read", "read kprobe_events"), r"^p:zz/(\w) (.*)$", "q,vfs_read"),
        (("first kprobe_events p:zz/q {no_such_function|vfs_read}",), "errno", "ok"),
        (("first kprobe_events p:zz/q {no_such_function|no_such_one}",), "errno", "ENOENT"),
        (("? mkdir @", "? read @/tracing_on"), "errno", "EEXIST ok"),
        (("mkdir instances/zz_more", "names instances", "? rmdir instances/zz_more"), "errno", "ok"),
        (("hold w @/trace_marker", "put hello", "read @/trace"), r": (hel)lo$", "hel"),
        (("hold r @/trace_pipe", "wait 100", "write @/trace_marker hello", "waited"), r": (hel)lo$", "hel"),
        (("? moment", "? waited", "hold r @/tracing_on", "wait 1", "? moment"), "errno", "ECHILD ECHILD ok"),
        (("write kprobe_events p:zz/q <no> vfs_read", "? write kprobe_events p:zz/<no> vfs_read"), "errno", "EINVAL"),
        (("hold r @/tracing_on", "? take 1", "? seek 0", "release", "? take 1"), "errno", "ok 0 EBADF"),
        (("write @/events/sched/sched_process_fork/enable 1", "fork", "read @/trace"), r"comm=(workload)", "workload"),
    ],
)  # fmt: skip
def test_steps(steps: tuple[str, ...], reading: str, answer: str) -> None:
    kernel = SimulatedKernel("6.1")
    assert asker(kernel).ask(Question(steps, reading, {})) == answer
    assert kernel.tracefs.read("dynamic_events") == b""
    assert kernel.tracefs.listdir("instances") == []


@pytest.mark.parametrize(
    ("version", "is_symbol"),
    [
        ((4, 9, 0), False),
        ((4, 9, 229), True),
        ((4, 10, 0), False),
        ((4, 12, 14), False),
        ((4, 13, 0), True),
        ((7, 3, 0), True),
    ],
)
def test_what_begins_with_a_digit_may_be_a_symbol(version: tuple[int, int, int], is_symbol: bool) -> None:
    assert gates_for(version).address_or_symbol is is_symbol


@pytest.mark.parametrize("place", ["1abc", "0xzz"])
def test_a_4_9_0_takes_a_digit_for_that_of_an_address(place: str, tmp_path: Path) -> None:
    """What a 4.9.0 answered, recorded elsewhere; 4.9.229 says ENOENT: fixtures/definitions/4.9.jsonl."""
    kernel = with_answers(tmp_path, "4.9.229", address_or_symbol=False)
    said = kernel.tracefs.kernel_log()
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.tracefs.write("kprobe_events", f"p:x {place}\n".encode())
    assert said() == ["Failed to parse address."]
