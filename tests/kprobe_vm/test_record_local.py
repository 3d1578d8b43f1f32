"""`kprobe-sim record-local` without a machine of its own: the simulator's tracefs in place of this machine's."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kprobe_sim import SimulatedKernel, local_recording
from kprobe_sim.cli import main
from kprobe_sim.kernel.workload import SimulatedWorkload
from kprobe_sim.tree.files.inprocess import SimFile
from kprobe_vm.local import survey as looked
from kprobe_vm.local.restored import Below, Restored
from kprobe_vm.local.session import LocalTask, undone
from kprobe_vm.local.survey import survey
from kprobe_vm.local.tree import LocalTree
from kprobe_vm.recording import chains, questions
from kprobe_vm.recording.guest import TRACING
from kprobe_vm.recording.record import asked

FUNCTIONS = ("do_sys_openat2", "kernel_clone", "ksys_fadvise64_64", "_stext", "_etext", "_end")
# What the recorder reads or changes, and what must be as before.
SHOWN = (
    *("kprobe_events", "trace", "error_log", "set_event", "current_tracer", "tracing_on", "trace_clock"),
    *("trace_options", "trace_marker", "buffer_total_size_kb", "set_ftrace_filter", "set_event_pid"),
    *("events/ftrace/print/trigger", "events/sched/sched_switch/enable", "events/sched/sched_switch/filter"),
)


class Simulated:
    """A machine of which the tracefs is simulated, and all else what a test says; each operation may end otherwise."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.kernel = SimulatedKernel("6.1")
        self.files: dict[str, bytes] = {
            "proc/kallsyms": "".join(f"ffffffff8100{n:04x} T {name}\n" for n, name in enumerate(FUNCTIONS)).encode(),
            "proc/kcore": b"\x7fELF" + bytes(60),
            "proc/version": b"Linux version 6.1.0 (me@here) #1 SMP\n",
            "proc/cpuinfo": b"processor\t: 0\n",
            "proc/modules": b"virtio 16384 0 - Live 0xffffffffc0000000\n",
            "proc/cmdline": b"quiet\n",
            "proc/self/auxv": (6).to_bytes(8, "little") + (4096).to_bytes(8, "little"),
            "proc/config.gz": b"",
            "proc/sys/kernel/osrelease": b"6.1.0\n",
            "sys/kernel/btf/vmlinux": b"",
            "sys/kernel/debug/kprobes/blacklist": b"",
            **(files or {}),
        }
        self.operations = 0
        self.worked = 0  # operations after which there was nothing more to do but to put back
        self.fault: Callable[[int, bool], None] = lambda number, after: None

    def _do(self, path: str, act: Callable[[Any, str], Any], read: bool = False) -> Any:
        number = self.operations
        self.operations += 1
        self.fault(number, False)
        if path == TRACING or path.startswith(f"{TRACING}/"):
            result = act(self.kernel.tracefs, path[len(TRACING) + 1 :])
        elif read and path in self.files:
            result = self.files[path]
        else:
            raise FileNotFoundError(2, os.strerror(2), path)
        if not isinstance(result, SimFile):  # a file that nobody got can't be closed
            self.fault(number, True)
        return result

    def read(self, path: str) -> bytes:
        data: bytes = self._do(path, lambda tracefs, inside: tracefs.read(inside), read=True)
        return data

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        self._do(path, lambda tracefs, inside: tracefs.write(inside, data, truncate=truncate))

    def listdir(self, path: str) -> list[str]:
        if path == "proc":
            return []
        names: list[str] = self._do(path, lambda tracefs, inside: tracefs.listdir(inside))
        return names

    def exists(self, path: str) -> bool:
        if not path.startswith(TRACING):
            return path in self.files
        return bool(self._do(path, lambda tracefs, inside: tracefs.exists(inside)))

    def mkdir(self, path: str) -> None:
        self._do(path, lambda tracefs, inside: tracefs.mkdir(inside))

    def rmdir(self, path: str) -> None:
        self._do(path, lambda tracefs, inside: tracefs.rmdir(inside))

    def open(self, path: str, flags: int) -> Any:
        if path not in self.files:
            return self._do(path, lambda tracefs, inside: tracefs.open(inside, flags))
        return open(os.devnull, "rb")  # what it holds is of no account

    def shown(self) -> dict[str, object]:
        """Return what a user sees of the tracefs."""
        tracefs = self.kernel.tracefs
        texts: dict[str, object] = {name: _text(tracefs, name) for name in SHOWN}
        return texts | {"instances": tracefs.listdir("instances"), "events": tracefs.listdir("events")}


def _text(tracefs: Any, name: str) -> object:
    try:
        return tracefs.read(name)
    except OSError as error:
        return error.errno


class Recorded(Restored):
    """The simulated machine as the recorder asks it."""

    def __init__(self, machine: Simulated) -> None:
        super().__init__(machine)
        self.tracefs = Below(self, TRACING)
        self._kernel = machine.kernel

    def shell(self, script: str) -> bytes:
        return b"41c0 0 0 6 0 .\n81a0 0 0 1 0 ./trace_clock\n" if " -prune" not in script else b""

    def tasks(self) -> bytes:
        return b"1 init\n"

    def workload(self) -> SimulatedWorkload:
        return SimulatedWorkload(self._kernel)


def record(machine: Simulated) -> list[str]:
    """Do what `asked` does, without the questions of how it differs: they are a thousand operations."""
    guest = Recorded(machine)

    def work() -> None:
        questions.ask(guest, lambda line: None)
        chains.ask(guest)
        machine.worked = machine.operations

    return undone(guest, work, lambda line: None)[1]


def record_all(machine: Simulated) -> list[str]:
    guest = Recorded(machine)

    def work() -> None:
        asked(guest, lambda line: None)
        machine.worked = machine.operations

    return undone(guest, work, lambda line: None)[1]


@pytest.fixture
def expanded() -> Simulated:
    """A machine where an event was on before, as its buffer would else expand, and stay so."""
    return made()


def made() -> Simulated:
    machine = Simulated()
    for value in (b"1", b"0"):
        machine.kernel.tracefs.write("events/sched/sched_switch/enable", value)
    return machine


def test_a_recording_leaves_the_tracefs_as_it_was(expanded: Simulated) -> None:
    before = expanded.shown()
    assert record_all(expanded) == []
    assert expanded.shown() == before
    assert before["kprobe_events"] == b""
    assert before["instances"] == []


@pytest.mark.slow
@pytest.mark.parametrize(("work", "least", "step"), [(record, 120, 1), (record_all, 500, 41)])
def test_an_error_at_any_operation_is_undone_and_so_is_ctrl_c(
    work: Callable[[Simulated], list[str]], least: int, step: int
) -> None:
    """OSError before an operation is done, KeyboardInterrupt after it: the tracefs is then as before."""
    machine = made()
    before = machine.shown()
    work(machine)
    worked = machine.worked
    assert worked > least
    for failing in range(0, worked, step):
        for kind, late in ((OSError, False), (KeyboardInterrupt, True)):
            machine.operations = 0

            def fault(
                number: int, after: bool, at: tuple[int, bool] = (failing, late), kind: type[BaseException] = kind
            ) -> None:
                if (number, after) == at:
                    raise kind(5, "Input/output error")

            machine.fault = fault
            # ValueError is what the recorder makes of an answer that isn't there
            with contextlib.suppress(kind, *([ValueError] if kind is OSError else [])):
                work(machine)
            machine.fault = lambda number, after: None
            assert machine.shown() == before, (failing, kind)


def test_what_can_not_be_put_back_is_named() -> None:
    machine = made()
    guest = Recorded(machine)
    guest.tracefs.write("kprobe_events", b"p:mine vfs_read")
    guest.tracefs.mkdir("instances/mine")
    tracefs = machine.kernel.tracefs
    with tracefs.open("instances/mine/trace_pipe", os.O_RDONLY):
        tracefs.write("events/kprobes/mine/trigger", b"stacktrace")  # somebody else's
        assert guest.restore() == [
            "/sys/kernel/tracing/instances/mine stays: Device or resource busy",
            "probes stay: Device or resource busy",
        ]


def test_settings_of_every_form_are_put_back() -> None:
    machine = made()
    before = machine.shown()
    guest = Recorded(machine)
    tracefs = guest.tracefs
    for path, data in [
        ("trace_clock", b"mono"),
        ("trace_options", b"nooverwrite"),
        ("options/sym-offset", b"1"),
        ("set_event", b"sched:sched_switch"),
        ("set_event_pid", b"1 2"),
        ("set_ftrace_filter", b"vfs_read"),
        ("current_tracer", b"function"),
        ("trace_marker", b"mark"),
        ("tracing_on", b"0"),
        ("events/sched/sched_switch/filter", b"prev_pid == 1"),
        ("events/ftrace/print/trigger", b"stacktrace"),
        ("kprobe_events", b"p:mine vfs_read"),
        ("events/kprobes/mine/filter", b"common_pid == 1"),
        ("events/kprobes/mine/enable", b"1"),
        ("kprobe_events", b"r:back vfs_read"),
    ]:
        tracefs.write(path, data)
    tracefs.mkdir("instances/mine")
    tracefs.write("instances/mine/trace_clock", b"mono")
    tracefs.open("instances/mine/trace", os.O_RDONLY)
    assert machine.shown() != before
    assert guest.restore() == []
    assert machine.shown() == before


def test_a_signal_ends_the_work_and_not_what_puts_back() -> None:
    machine = made()
    before = machine.shown()
    guest = Recorded(machine)
    old = signal.getsignal(signal.SIGTERM)

    def work() -> None:
        guest.tracefs.write("kprobe_events", b"p:mine vfs_read")
        signal.raise_signal(signal.SIGTERM)
        guest.tracefs.write("kprobe_events", b"p:never vfs_read")

    with pytest.raises(SystemExit) as ended:
        undone(guest, work, lambda line: None)
    assert ended.value.code == 128 + signal.SIGTERM
    assert machine.shown() == before
    assert signal.getsignal(signal.SIGTERM) is old


def test_a_signal_that_comes_while_it_is_put_back_waits() -> None:
    machine = made()
    before = machine.shown()
    guest = Recorded(machine)

    def work() -> None:
        guest.tracefs.write("kprobe_events", b"p:mine vfs_read")
        machine.fault = lambda number, after: signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        undone(guest, work, lambda line: None)
    machine.fault = lambda number, after: None
    assert machine.shown() == before


# ---- the look at the machine ----


@pytest.mark.requires("capstone")
def test_a_machine_that_can_be_recorded() -> None:
    found = survey(made())
    assert (found.cannot, found.tracing, found.lacking) == ([], [], [])
    assert (
        found.differing[0] == "tasks: process 1 and the kernel's own threads; CPUs: 1; modules: the 1 that are loaded"
    )


@pytest.mark.requires("capstone")
@pytest.mark.parametrize(
    ("path", "data", "line"),
    [
        ("current_tracer", b"function", "current_tracer: function"),
        ("tracing_on", b"0", "tracing_on: 0 (to switch it on: echo 1 > /sys/kernel/tracing/tracing_on)"),
        ("set_event", b"sched:sched_switch", "set_event: sched:sched_switch"),
        ("kprobe_events", b"p:mine vfs_read", "kprobe_events: p:kprobes/mine vfs_read"),
        ("set_event_pid", b"1", "set_event_pid: 1"),
        ("set_ftrace_filter", b"vfs_read", "set_ftrace_filter: vfs_read"),
        ("events/sched/sched_switch/filter", b"prev_pid == 1", "events/sched/sched_switch/filter: prev_pid == 1"),
        ("events/sched/sched_switch/trigger", b"traceoff", "events/sched/sched_switch/trigger: traceoff:unlimited"),
    ],
)
def test_who_traces_is_named_with_what_was_seen(path: str, data: bytes, line: str) -> None:
    machine = made()
    machine.kernel.tracefs.write(path, data)
    assert line in survey(machine).tracing


@pytest.mark.requires("capstone")
def test_instances_and_what_would_be_lost_are_named() -> None:
    machine = made()
    tracefs = machine.kernel.tracefs
    tracefs.mkdir("instances/theirs")
    tracefs.write("trace_marker", b"precious")
    with pytest.raises(OSError, match="Invalid argument"):
        tracefs.write("kprobe_events", b"p:x vfs_read $none")
    trace, log, instances = survey(machine).tracing
    emptied = "(it would be emptied; to empty it: echo > /sys/kernel/tracing/trace)"
    assert re.fullmatch(f"trace: .* tracing_mark_write: precious {re.escape(emptied)}", trace)
    assert log.startswith("error_log: [")
    assert instances == "instances: theirs"


@pytest.mark.requires("capstone")
@pytest.mark.parametrize(
    ("path", "content", "line"),
    [
        (
            "proc/kallsyms",
            b"0000000000000000 T _stext\n",
            "/proc/kallsyms has no addresses: run it as root, with sysctl kernel.kptr_restrict=1 if that is 2",
        ),
        (
            "proc/kallsyms",
            b"ffffffff81000000 T _stext\n",
            "no symbol do_sys_openat2, kernel_clone, ksys_fadvise64_64, _etext, _end in /proc/kallsyms: "
            "this kernel can't be recorded",
        ),
        (
            "proc/kcore",
            None,
            "no /proc/kcore (CONFIG_PROC_KCORE), and so not where instructions start, which takes the kernel's code",
        ),
        (
            "sys/kernel/debug/kprobes/blacklist",
            None,
            "no /sys/kernel/debug/kprobes/blacklist, which says where no probe may be: "
            "mount -t debugfs nodev /sys/kernel/debug",
        ),
    ],
)
def test_what_is_missing_is_one_line(path: str, content: bytes | None, line: str) -> None:
    machine = Simulated()
    machine.files.pop(path)
    if content is not None:
        machine.files[path] = content
    assert survey(machine).cannot == [line]


def test_without_capstone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looked.importlib.util, "find_spec", lambda name: None)
    assert survey(Simulated()).cannot == [
        "no Python package capstone, which decodes the kernel's code: pip install 'kprobe-sim[record]'"
    ]


@pytest.mark.requires("capstone")
def test_facts_that_a_profile_then_lacks() -> None:
    machine = Simulated()
    for path in ("proc/config.gz", "sys/kernel/btf/vmlinux"):
        del machine.files[path]
    assert survey(machine).lacking == [
        "the functions' parameters by name, as there is no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)",
        "the kernel's configuration, as there is neither /proc/config.gz nor /boot/config-RELEASE: --config FILE",
    ]
    machine.files["boot/config-6.1.0"] = b"CONFIG_HZ=250\n"
    assert len(survey(machine).lacking) == 1


# ---- a process of this machine, and the command ----


def test_the_task_makes_the_calls_and_nothing_else() -> None:
    task = LocalTask()
    try:
        assert Path(f"/proc/{task.pid}/comm").read_text() == "workload\n"
        assert task.open(os.devnull) == 3
        assert task.open("/no/such/file") == -errno.ENOENT
        assert task.fadvise(-2, 0, 0) == -errno.EBADF
        child = task.fork()
        assert child > 0
        assert not Path(f"/proc/{child}").exists()
        task.rename("other")
        assert Path(f"/proc/{task.pid}/comm").read_text() == "other\n"
        assert sorted(os.listdir(f"/proc/{task.pid}/fd"), key=int) == ["0", "1", "2", "100", "101"]
    finally:
        task.close()
    assert not Path(f"/proc/{task.pid}").exists()


def test_the_files_of_this_machine(tmp_path: Path) -> None:
    tree = LocalTree(str(tmp_path))
    (tmp_path / "file").write_bytes(b"before")
    tree.write("file", b"it")
    assert tree.read("file") == b"itfore"
    tree.write("file", b"", truncate=True)
    assert tree.read("file") == b""
    tree.mkdir("directory")
    assert tree.listdir("") == ["directory", "file"]
    tree.rmdir("directory")
    assert not tree.exists("directory")
    with pytest.raises(FileNotFoundError):
        tree.write("absent", b"")


class Fake:
    """A recording that `kprobe-sim record-local` finds installed."""

    cannot: ClassVar[list[str]] = []
    tracing: ClassVar[list[str]] = []
    plan: ClassVar[dict[str, list[str]]] = {"It writes": ["a probe"], "The profile will lack": []}

    def record(self, into: Path, config: str | None, progress: Callable[[str], None]) -> tuple[Path, list[str]]:
        (into / "6.1.0").mkdir()
        return into / "6.1.0", ["/sys/kernel/tracing/trace isn't empty: Input/output error"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    monkeypatch.setattr(local_recording, "_recording", Fake)
    monkeypatch.setattr("sys.stdin", None)
    return Fake


def test_nothing_is_done_unasked(installed: type[Fake], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record-local", "-o", str(tmp_path)]) == 1
    assert os.listdir(tmp_path) == []
    assert capsys.readouterr() == (
        "",
        "It writes:\n  a probe\nkprobe-sim: record-local: nothing was done: --yes allows it\n",
    )


def test_what_is_left_is_said(installed: type[Fake], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record-local", "--yes", "-o", str(tmp_path)]) == 1
    assert os.listdir(tmp_path) == ["6.1.0"]
    out, err = capsys.readouterr()
    assert out == f"{tmp_path}/6.1.0\n"
    assert err.endswith("kprobe-sim: record-local: /sys/kernel/tracing/trace isn't empty: Input/output error\n")


def test_a_refusal_has_all_reasons(
    installed: type[Fake], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installed, "tracing", ["current_tracer: function", "instances: theirs"])
    assert main(["record-local", "--yes"]) == 2
    assert capsys.readouterr() == (
        "",
        "kprobe-sim: record-local: somebody traces: current_tracer: function\n"
        "kprobe-sim: record-local: somebody traces: instances: theirs\n",
    )


def test_the_command_finds_what_records() -> None:
    """Through the entry point, also where QEMU's packages aren't installed."""
    script = (
        "import sys; sys.modules['pexpect'] = sys.modules['qemu'] = None\n"
        "from importlib.metadata import entry_points\n"
        "print(entry_points(group='kprobe.recording', name='local')['local'].load().__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "LocalRecording\n"
