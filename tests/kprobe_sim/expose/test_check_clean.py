"""`kprobe-sim run --check-clean`: bugs planted in a shell script are found, and programs that clean up pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .conftest import Run

CLEAN = """\
cd /sys/kernel/tracing || exit 1
trap 'echo 0 > events/kprobes/tool/enable; echo 0 > options/sym-offset; echo -:tool >> kprobe_events' EXIT
echo 'p:tool do_sys_openat2 file=+0(%si):string' >> kprobe_events
echo 1 > options/sym-offset
echo 1 > events/kprobes/tool/enable
"""
BUGS = {
    "truncates": (
        "s/>> kprobe_events$/> kprobe_events/",
        "kprobe_events: opened with O_TRUNC (>), which removes",
    ),
    "leaves its probe": (
        "s/; echo -:tool >> kprobe_events//",
        "dynamic_events: left: p:kprobes/tool do_sys_openat2 file=+0(%si):string",
    ),
    "leaves its event on": ("s/echo 0 > events.kprobes.tool.enable; //", "set_event: left: kprobes:tool"),
    "leaves an option": ("s/echo 0 > options.sym-offset; //", "options/sym-offset: 0 -> 1"),
    "leaves an instance": ("$ a mkdir instances/tool", "instances/tool: left: instances/tool"),
    "leaves a filter": (
        "$ a echo 'prev_pid > 3' > events/sched/sched_switch/filter",
        "events/sched/sched_switch/filter: left: prev_pid > 3",
    ),
    "disables everybody's": ("$ a echo 0 > events/enable", "events/enable: 0 disables everybody's events"),
    "is killed": ("$ a kill -9 $$", "set_event: left: kprobes:tool"),
}
OPTIONS = ("--kernel", "6.1", "--activity", "none", "--check-clean")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "tool.sh"
    path.write_text(CLEAN)
    return path


def test_a_clean_script_passes(run: Run, script: Path) -> None:
    done = run(["bash", str(script)], OPTIONS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_a_script_is_found(bug: str, run: Run, script: Path) -> None:
    change, said = BUGS[bug]
    edited = f"sed -i '{change}' {script}" if "'" not in change else f'sed -i "{change}" {script}'
    done = run(["bash", "-c", f"{edited}; exec bash {script}"], OPTIONS)
    lines = done.stderr.splitlines()
    assert "kprobe-sim: --check-clean: the tracefs isn't as the command found it:" in lines
    (line,) = (line for line in lines if line.startswith(f"  {said}"))
    assert " (pid " in line
    assert done.returncode == (137 if bug == "is killed" else 122)


def test_the_command_s_own_failure_wins_and_what_was_found_is_said(run: Run, script: Path) -> None:
    done = run(["bash", "-c", f"sed -i '$ a mkdir instances/tool; exit 7' {script}; bash {script}"], OPTIONS)
    assert done.returncode == 7
    (_, path, undo) = done.stderr.splitlines()
    assert path.startswith("  instances/tool: left: instances/tool  (mkdir instances/tool (pid ")
    assert undo == "    undo: rmdir /sys/kernel/tracing/instances/tool"


def test_kprobe_itself_is_clean(run: Run) -> None:
    words = ["-d", "0.1", "--top-level", "-s", "p:do_sys_openat2"]
    done = run([sys.executable, "-m", "kprobe", *words], ("--kernel", "6.1", "--check-clean"))
    assert (done.returncode, done.stderr.count("undo")) == (0, 0), done.stderr
