"""Histograms that count: what the files `trigger` and `hist` and the error log say, as recorded from real kernels.

fixtures/histograms/SERIES.jsonl  one case a line: triggers, and what came of them; every series has the same cases
             .../6.1.192.jsonl    those that a kernel answers otherwise than the one of `OF_ANSWERS` before it
a kernel of one's own may answer as none of these: what its simulator says is expected of it then
KPROBE_RECORD_HISTOGRAMS=FILE     writes the answers of the kernel under test to FILE instead of comparing them
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.gates import gates_of
from kprobe_sim.builds.profile import Profile, load
from kprobe_sim.kernel.kernels import kernels
from kprobe_sim.kernel.workload import open_workload
from kprobe_sim.pytest_plugin.unsupported import REASON

from .builds import BTF, EPROBES, Build
from .older import spare_variables

FIXTURES = Path(__file__).parents[2] / "fixtures" / "histograms"
RECORDED = {
    path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in FIXTURES.glob("*.jsonl")
}
CASES = [(case["triggers"], case["strings"]) for case in RECORDED["6.1"]]
OF_OLD = [case["triggers"] for case in RECORDED["5.4"]]  # the others may end such a kernel
RECORD = os.environ.get("KPROBE_RECORD_HISTOGRAMS", "")
TELLS = {  # what a kernel answered, and the triggers that become something else by it
    "hist_hitcount": "",
    "hist_percent": r"\.(percent|graph)",
    "hist_comm": "comm(?!on_)",
    "hist_cpu_twice": "(?i)cpu",
    "hist_stacktrace_checked": "stacktrace",
    "hist_stack_fields": "stacktrace",
    "hist_log2_wraps": r"\.log2",
    "hist_log_is_whole": "",
}
OF_ANSWERS = {  # what the recorded kernels answered; of several recordings the last one that has a case
    (False, False, False, False, True, False, True, False): ("5.4",),
    (False, False, False, False, True, False, True, True): ("6.1", "6.1.176"),
    (False, True, False, False, True, False, True, True): ("6.1",),
    (False, True, False, False, True, False, False, True): ("6.1", "6.1.192"),
    (True, True, False, False, True, False, False, True): ("6.12",),
    (True, False, True, True, False, True, True, True): ("6.19",),
    (True, True, True, True, True, False, False, True): ("7.2",),
    (True, True, True, True, True, False, True, True): ("7.3",),
}
NUMBERS = "p:h ksys_fadvise64_64 a=%di:u32 b=%si:s64 c=%dx:u64"
STRINGS = "p:h ksys_fadvise64_64 a=%di:u32 b=%si:s64 c=%dx:u64 s=+0(%si):string"
MEMORY = 0x10000000
ADDRESS = re.compile(r"\b18446[0-6]\d{14}\b")  # of the kernel's own data, or several of them added up
PROBED = re.compile(
    r"\b(18446744071\d{9})\b|\bffffffff8[0-9a-f]{7}\b"
)  # the kernel's text begins at 2 GiB below the end
PLACE = re.compile(r"\b(\w+)\+(0x[0-9a-f]+)/0x[0-9a-f]+")
MADE = re.compile(r"\b0xffffffffc0[0-9a-f]{6}\b")  # where this boot put a trampoline of ftrace


def put(tracefs: Any, path: str, text: str) -> str:
    """Write, and return "ok" or the name of the errno."""
    try:
        tracefs.write(path, text.encode())
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def answers(tracefs: Any, workload: Any, triggers: list[str], strings: bool) -> dict[str, Any]:
    """Return what comes of some triggers and some hits."""
    tracefs.write("kprobe_events", (STRINGS if strings else NUMBERS).encode())
    tracefs.write("error_log", b"\n", truncate=True)
    tracefs.write("snapshot", b"0")
    trigger, hist = "events/kprobes/h/trigger", "events/kprobes/h/hist"
    results = [put(tracefs, trigger, text) for text in triggers]
    if strings:
        for path in (b"/", b"/dev/null", b"/", b"a", b"/etc/hostname"):
            workload.fadvise(len(path), MEMORY, 3, data=path + b"\0")
    else:
        for number in range(24):
            workload.fadvise(900 + number * 7 % 9, 20 - 3 * number if number != 5 else 1 << 40, number * number)
    pid = re.compile(rf"(common_pid: .{{16}}\[) *{workload.pid}(?=\])")
    found = {
        "triggers": triggers,
        "strings": strings,
        "results": results,
        "trigger": tracefs.read(trigger).decode(),
        "hist": plain(pid.sub(r"\1PID", tracefs.read(hist).decode())) if has_hist(tracefs) else None,
        "log": re.sub(r"\[ *[\d.]+\]", "[T]", tracefs.read("error_log").decode()),
    }
    for line in reversed(found["trigger"].splitlines()):  # what refers to others' variables stands last
        if not line.startswith("#"):
            put(tracefs, trigger, "!" + line.rpartition(" [")[0])
    with contextlib.suppress(OSError):
        tracefs.write(trigger, b"\n", truncate=True)  # what isn't found as it is shown
    tracefs.write("kprobe_events", b"-:h")
    return found


def plain(text: str) -> str:
    """Return a histogram without the addresses that each boot has its own of."""
    return MADE.sub("MADE", ADDRESS.sub("ADDRESS", text))


def has_hist(tracefs: Any) -> bool:
    """True if the kernel offers hist triggers."""
    return "hist:keys=" in tracefs.read("README").decode()


def expected(recorded: Profile, number: int) -> dict[str, Any] | None:
    """Return what a real kernel with those answers said; None if none that was recorded has them.

    One without CONFIG_HIST_TRIGGERS (Debian's 5.10) has no histograms.  The answers of another may be those of one
    recorded kernel here and of another there, as backports have it.
    """
    triggers, strings = CASES[number]
    if "hist_hitcount" not in recorded.answers:
        return {
            "triggers": triggers,
            "strings": strings,
            "results": ["EINVAL"] * len(triggers),
            "trigger": "# Available triggers:\n# traceon traceoff snapshot stacktrace enable_event disable_event\n",
            "hist": None,
            "log": "",
        }
    gates = gates_of(recorded)
    answers = told(triggers, tuple(getattr(gates, row) for row in TELLS))
    said = [cases for known, cases in said_of(triggers) if told(triggers, known) == answers]
    return dict(said[-1]) if said else None


def simulated(recorded: Profile, number: int) -> dict[str, Any]:
    """Return what the simulator of a kernel says."""
    tracefs = SimulatedKernel(str(recorded.path)).tracefs
    return answers(tracefs, open_workload(tracefs), *CASES[number])


def told(triggers: list[str], answers: tuple[Any, ...]) -> dict[str, Any]:
    """Return of a kernel's answers those that tell what becomes of some triggers."""
    text = "\n".join(triggers)
    return {row: answer for (row, where), answer in zip(TELLS.items(), answers, strict=True) if re.search(where, text)}


def said_of(triggers: list[str]) -> list[tuple[tuple[bool, ...], dict[str, Any]]]:
    """Return what the recorded kernels said to some triggers, each after its answers."""
    cases = {
        answers: [case for name in names for case in RECORDED[name] if case["triggers"] == triggers]
        for answers, names in OF_ANSWERS.items()
    }
    return [(answers, found[-1]) for answers, found in cases.items() if found]


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: "; ".join(CASES[number][0]))
def test_kernels_whose_answers_tell_the_same_were_seen_to_say_the_same(number: int) -> None:
    triggers = CASES[number][0]
    seen: dict[str, dict[str, Any]] = {}
    for answers, case in said_of(triggers):
        text = PLACE.sub(lambda place: "OPENED" if place[2] in ("0x0", "0x4") else place[1], plain(case["hist"] or ""))
        said = {**case, "hist": re.sub(" +", " ", PROBED.sub("PROBED", text))}  # numbers and names have other widths
        assert seen.setdefault(str(told(triggers, answers)), said) == said


def at_home(text: str, recorded: Profile, build: Build) -> str:
    """Return a histogram with the places that functions of a call chain have in a build."""
    (probed,) = recorded.symbols.lookup("ksys_fadvise64_64")
    entry = int(build.fadvise.partition("+")[2].partition("/")[0], 16)
    inside = f"ksys_fadvise64_64+{entry + 5:#x}/{probed.size:#x}"  # after the call of ftrace
    frames = [
        f"{place}/{symbol.size:#x}"
        for place in recorded.chains["entry"]
        for symbol in recorded.symbols.lookup(place.partition("+")[0])
    ]
    called = (inside, *frames, build.fadvise_entry, *build.stack)
    places = {place.partition("+")[0]: place for place in called}
    text = PROBED.sub(lambda place: f"{probed.address + entry:{'d' if place[1] else 'x'}}", text)
    return PLACE.sub(lambda place: build.fadvise if place[2] in ("0x0", "0x4") else places[place[1]], text)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: "; ".join(CASES[number][0]))
def test_histograms(tracefs: Any, workload: Any, recorded: Profile, build: Build, number: int) -> None:
    if CASES[number][0] not in OF_OLD:
        spare_variables(recorded)
    found = answers(tracefs, workload, *CASES[number])
    if RECORD:
        with open(RECORD, "a", encoding="utf-8") as file:
            file.write(json.dumps(found, ensure_ascii=False) + "\n")
        return
    wanted = expected(recorded, number)
    if wanted is not None:
        assert found == {**wanted, "hist": wanted["hist"] and at_home(plain(wanted["hist"]), recorded, build)}
        return
    if getattr(tracefs, "kernel", None) is not None:  # it would be compared with itself
        pytest.skip(f"{REASON}a recorded histogram of a kernel with these answers (none)")
    assert found == simulated(recorded, number)


def test_every_kernel_that_is_installed_is_held_to_recorded_histograms() -> None:
    lacking = [
        (kernel.release, triggers)
        for kernel in kernels()
        for recorded in [load(kernel.spec.removeprefix("sim:"))]
        for number, (triggers, _) in enumerate(CASES)
        if expected(recorded, number) is None and (triggers in OF_OLD or not gates_of(recorded).refused_variables_oops)
    ]
    assert lacking == []


def test_call_chains(tracefs: Any, workload: Any, choose: Any, recorded: Profile) -> None:
    """A call chain kept in a variable comes into a synthetic event, and is a key of that one's histogram."""
    spare_variables(recorded)
    trigger, hist = "events/kprobes/h/trigger", "events/synthetic/chain/hist"
    tracefs.write("kprobe_events", NUMBERS.encode())
    results = [
        put(tracefs, path, text)
        for path, text in (
            ("dynamic_events", "s:chain u64 v; long[] stack; u32 n"),
            (trigger, "hist:keys=common_stacktrace"),
            (trigger, "hist:keys=a:st=stacktrace,v=c:onmatch(kprobes.h).trace(chain,$v,$st,common_cpu)"),
            ("events/synthetic/chain/trigger", "hist:keys=n,stack.stacktrace:vals=v"),
        )
    ]
    wanted = {"": ["EINVAL"] * 3 + ["ENOENT"], EPROBES: ["ok", "EINVAL", "EINVAL", "EINVAL"], BTF: ["ok"] * 4}
    assert results == choose(wanted)
    if results[1] != "ok":  # before 6.3
        return
    tracefs.write("events/synthetic/chain/enable", b"1")
    workload.fadvise(900, 20, 7)
    workload.fadvise(900, 20, 8)
    tracefs.write("events/synthetic/chain/enable", b"0")
    frames = re.findall(r"^ {9}(.+)$", tracefs.read("events/kprobes/h/hist").decode(), re.MULTILINE)
    assert [frame.partition("+")[0] for frame in frames[-2:]] == ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"]
    shown = "".join(f"=> {frame}\n" for frame in frames)
    text = "\n".join(line for line in tracefs.read("trace").decode().split("\n") if not line.startswith("#"))
    assert re.findall(r" \[000\] (?:.{3})(..) ", text) == ["3.", "3."]  # tracer, trigger and histogram keep the CPU
    events = re.split(r"^.*: chain: ", text, flags=re.MULTILINE)[1:]
    assert events == [f"v={number} stack=STACK:\n{shown}n=0\n" for number in (7, 8)]
    listed = "".join(f"{'':9}{frame}\n" for frame in frames)
    assert tracefs.read(hist).decode() == (
        "# event histogram\n#\n"
        "# trigger info: hist:keys=n,stack.stacktrace:vals=hitcount,v:sort=hitcount:size=2048 [active]\n#\n\n"
        f"{{ n:          0, stack.stacktrace{listed}}} hitcount:          2  v:         15\n"
        "\nTotals:\n    Hits: 2\n    Entries: 1\n    Dropped: 0\n"
    )


@pytest.mark.needs("hist:keys=")
@pytest.mark.parametrize("action", ["syn(prio,nosuch)", "syn(prio)", "trace(syn,prio,$none)", "syn(prio,prio,prio)"])
def test_a_refused_action_leaves_what_was_made_for_its_fields(tracefs: Any, recorded: Profile, action: str) -> None:
    """A histogram of the other event that has the field as a variable: a trigger like any other from then on."""
    wait, fork = (f"instances/foo/events/sched/sched_process_{name}/trigger" for name in ("wait", "fork"))
    tracefs.write("dynamic_events", b"s:syn int a; int b")
    tracefs.mkdir("instances/foo")
    tracefs.write(wait, b"hist:keys=pid if prio > 1")
    with pytest.raises(OSError, match="Invalid argument"):
        tracefs.write(fork, f"hist:keys=parent_pid:onmatch(sched.sched_process_wait).{action}".encode())
    own = b"hist:keys=pid:vals=hitcount:sort=hitcount:size=2048 if prio > 1 [active]\n"
    made = b"hist:keys=pid:vals=hitcount:synthetic_prio=prio:sort=hitcount:size=2048 if prio > 1 [active]\n"
    left = gates_of(recorded).hist_refused_fields
    assert tracefs.read(wait) == (own + made if left else own)
    assert tracefs.read(fork).startswith(b"# Available triggers:\n")
    assert tracefs.read("instances/foo/events/sched/sched_process_wait/enable") == b"0*\n"
    tracefs.write(wait, b"!hist:keys=pid if prio > 1")
    assert tracefs.read("instances/foo/events/sched/sched_process_wait/enable") == (b"0*\n" if left else b"0\n")
    tracefs.write(wait, b"!hist:keys=pid:synthetic_prio=prio if prio > 1")
    assert tracefs.read(wait).startswith(b"# Available triggers:\n")
    tracefs.write("dynamic_events", b"-:synthetic/syn")
