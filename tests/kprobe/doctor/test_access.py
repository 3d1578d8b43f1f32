"""What the doctor says of mounts, permissions, lockdown, containers and builds, by files of a made-up machine."""

from __future__ import annotations

import errno
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from kprobe.cli import main
from kprobe.doctor import access, report
from kprobe.doctor.examination import Examination, examine, unopened
from kprobe.doctor.machine import Machine
from kprobe.errors import NotPermitted, TracefsMissing
from kprobe.tracefs.mounts import EMPTY
from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.symbol import Symbol

ROOT = "Name:\tkprobe\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"
NOBODY = "Name:\tkprobe\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n"
BARE = "Name:\tkprobe\nUid:\t0\t0\t0\t0\nCapEff:\t00000000a80425f9\n"
MISSING = TracefsMissing([("/proc/self/mounts", "no mount of type tracefs")], "mount it")
MOUNT = "  fact: /proc/self/mounts: no mount of type tracefs\n"


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """Make a machine of files and of links by their paths."""

    def make(files: dict[str, str | bytes], links: dict[str, str] | None = None) -> Machine:
        for path, data in files.items():
            place = tmp_path / path[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data if isinstance(data, bytes) else data.encode())
        for path, target in (links or {}).items():
            place = tmp_path / path[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)
        return Machine(top=str(tmp_path))

    return make


def said(machine: Machine, tracefs: Any = None) -> str:
    tracefs = SimulatedKernel("6.1").tracefs if tracefs is None else tracefs
    return report.text(Examination(examine(tracefs, machine=machine).findings))


@pytest.mark.parametrize(
    ("systems", "text"),
    [
        (
            "nodev\tdebugfs\nnodev\ttracefs\n",
            "STOPS: no tracefs is mounted\n"
            f"{MOUNT}  fact: /proc/filesystems: tracefs\n"
            "  help: mount -t tracefs nodev /sys/kernel/tracing\n",
        ),
        (
            "nodev\tproc\nnodev\tdebugfs\n",
            "STOPS: no debugfs is mounted, where older kernels have their tracefs\n"
            f"{MOUNT}  fact: /proc/filesystems: debugfs, and no tracefs\n"
            "  help: mount -t debugfs nodev /sys/kernel/debug\n",
        ),
        (
            "nodev\tproc\n\text4\n",
            "STOPS: this kernel has no tracefs: built without CONFIG_TRACING\n"
            f"{MOUNT}  fact: /proc/filesystems: neither tracefs nor debugfs\n"
            "  help: kprobe --tracefs sim: (a simulated kernel) or --tracefs vm: (a guest)\n",
        ),
        (
            "",
            f"STOPS: no tracefs was found\n{MOUNT}  help: mount -t proc nodev /proc; kprobe doctor\n",
        ),
    ],
)
def test_no_mount(made: Any, systems: str, text: str) -> None:
    assert report.text(unopened(MISSING, made({"/proc/filesystems": systems}))) == text


def test_a_place_for_the_mount(made: Any) -> None:
    """Without a sysfs there is none; in a user namespace the kernel refuses it."""
    mounts = "sysfs /sys sysfs rw 0 0\nnodev /sys tmpfs rw 0 0\n"
    files = {"/proc/filesystems": "nodev\ttracefs\n", "/proc/self/mounts": mounts}
    facts = f"STOPS: no tracefs is mounted\n{MOUNT}  fact: /proc/filesystems: tracefs\n"
    machine = made(files)
    sysfs = "  help: mount -t sysfs nodev /sys; mount -t tracefs nodev /sys/kernel/tracing\n"
    assert report.text(unopened(MISSING, machine)) == facts + sysfs
    container = made({}, {"/proc/self/ns/user": "user:[4026532132]"})
    host = "  help: run it on the host, or in a container without a user namespace\n"
    assert report.text(unopened(MISSING, container)).endswith(facts + host)


LOCKED = TracefsMissing([("/sys/kernel/tracing", EMPTY), ("/sys/kernel/debug/tracing", "No such file or directory")])
LOCKED_FACT = "  fact: /sys/kernel/tracing: mounted, and empty\n"
LOCKED_AS = "STOPS: a tracefs is mounted, but has no files, as when the kernel is locked down (confidentiality)\n"


@pytest.mark.parametrize(
    ("files", "text"),
    [
        (
            {"/proc/cmdline": "quiet lsm=lockdown lockdown=confidentiality\n"},
            f"{LOCKED_AS}{LOCKED_FACT}  fact: /proc/cmdline: lsm=lockdown lockdown=confidentiality\n"
            "  help: boot without lockdown=confidentiality; it can't be left while the kernel runs\n",
        ),
        (
            {"/proc/cmdline": "quiet\n"},
            f"{LOCKED_AS}{LOCKED_FACT}  fact: /sys/kernel/security/lockdown: there is no such file\n"
            "  help: mount -t securityfs nodev /sys/kernel/security; cat /sys/kernel/security/lockdown\n",
        ),
        (
            {"/sys/kernel/security/lockdown": "none integrity [confidentiality]\n"},
            "STOPS: the kernel is locked down: in the state confidentiality it opens no tracefs and accepts no probe\n"
            "  fact: /sys/kernel/security/lockdown: none integrity [confidentiality]\n"
            "  help: boot without lockdown=confidentiality; it can't be left while the kernel runs\n",
        ),
        (
            {"/sys/kernel/security/lockdown": "[none] integrity confidentiality\n"},
            f"STOPS: a tracefs is mounted, but has no files\n{LOCKED_FACT}"
            "  help: kprobe --tracefs sim: (a simulated kernel) or --tracefs vm: (a guest)\n",
        ),
    ],
)
def test_a_tracefs_without_files(made: Any, files: dict[str, str], text: str) -> None:
    """As a guest of 6.12 with lockdown=confidentiality has it."""
    assert report.text(unopened(LOCKED, made(files))) == text


def test_files_that_lockdown_closes(made: Any) -> None:
    """As a guest of 6.12 with lockdown=integrity answers; it traces."""
    path = "/sys/kernel/debug/kprobes/enabled"

    def unknown(files: dict[str, str]) -> tuple[str, ...]:
        machine = made(files)
        machine.unread[path] = os.strerror(errno.EPERM)
        found = examine(SimulatedKernel("6.1").tracefs, machine=machine)
        assert not found.stops
        return tuple(line for line in found.unknown if line.startswith(path))

    assert unknown({}) == (
        f"{path}: Operation not permitted, as when the kernel is locked down, which is shown by: "
        "mount -t securityfs nodev /sys/kernel/security; cat /sys/kernel/security/lockdown",
    )
    locked = {"/sys/kernel/security/lockdown": "none [integrity] confidentiality\n"}
    assert unknown(locked) == (f"{path}: Operation not permitted, as the kernel is locked down",)


@pytest.mark.parametrize(
    ("status", "fact"),
    [
        (ROOT, ""),
        (NOBODY, "  fact: /proc/self/status: Uid 1000\n"),
        (BARE, "  fact: /proc/self/status: Uid 0, without CAP_DAC_OVERRIDE and CAP_SYS_ADMIN\n"),
    ],
)
def test_no_permission(made: Any, status: str, fact: str) -> None:
    error = NotPermitted("/sys/kernel/tracing", errno.EACCES)
    assert report.text(unopened(error, made({"/proc/self/status": status}))) == (
        "STOPS: the tracefs is closed to this process\n"
        f"  fact: /sys/kernel/tracing: Permission denied\n{fact}"
        "  help: sudo kprobe doctor\n"
    )


def test_lockdown(made: Any) -> None:
    path = "/sys/kernel/security/lockdown"
    assert said(made({path: "none integrity [confidentiality]\n"})) == (
        "STOPS: the kernel is locked down: in the state confidentiality it opens no tracefs and accepts no probe\n"
        f"  fact: {path}: none integrity [confidentiality]\n"
        "  help: boot without lockdown=confidentiality; it can't be left while the kernel runs\n"
    )


@pytest.mark.parametrize("state", ["[none] integrity confidentiality", "none [integrity] confidentiality"])
def test_lockdown_that_lets_probes_in(made: Any, state: str) -> None:
    assert said(made({"/sys/kernel/security/lockdown": state})) == "Nothing was found that stops tracing.\n"


def test_a_user_namespace(made: Any) -> None:
    files = {"/proc/self/uid_map": "         0     100000      65536\n"}
    links = {"/proc/self/ns/user": "user:[4026532500]", "/proc/self/ns/pid": "pid:[4026532501]"}
    assert said(made(files, links)) == (
        "STOPS: this process is in a container's user namespace: root here isn't root of the machine\n"
        "  fact: /proc/self/ns/user: user:[4026532500]\n"
        "  fact: /proc/self/uid_map: 0 100000 65536\n"
        "  help: run it on the host, or in a container without a user namespace\n"
    )


def test_a_user_namespace_that_may_write(made: Any, tmp_path: Path) -> None:
    """As `unshare -Ur` of root gives it, whose 0 is the machine's: there 6.12 takes probes."""
    tracefs = Changed(SimulatedKernel("6.1").tracefs, {})
    tracefs.root = root = f"{tmp_path}/tracing"
    Path(root).mkdir()
    Path(root, "kprobe_events").touch()
    files = {"/proc/self/uid_map": "         0          0          1\n"}
    assert said(made(files, {"/proc/self/ns/user": "user:[4026532132]"}), tracefs) == (
        "NOTE: this process is in a container's user namespace: root here isn't root of the machine, "
        "but may write here\n"
        "  fact: /proc/self/ns/user: user:[4026532132]\n"
        "  fact: /proc/self/uid_map: 0 0 1\n"
        f"  fact: {root}/kprobe_events: writable\n"
        "Nothing was found that stops tracing, but see the notes.\n"
    )


def test_a_pid_namespace(made: Any) -> None:
    links = {"/proc/self/ns/user": "user:[4026531837]", "/proc/self/ns/pid": "pid:[4026532501]"}
    assert said(made({}, links)) == (
        "NOTE: this process is in a container: what it traces is the whole machine, whose pids aren't those seen here\n"
        "  fact: /proc/self/ns/pid: pid:[4026532501]; the machine's first is pid:[4026531836]\n"
        "  help: docker run --pid=host ..., or run it on the host\n"
        "Nothing was found that stops tracing, but see the notes.\n"
    )


def test_the_machines_own_namespaces(made: Any) -> None:
    links = {"/proc/self/ns/user": "user:[4026531837]", "/proc/self/ns/pid": "pid:[4026531836]"}
    assert said(made({}, links)) == "Nothing was found that stops tracing.\n"


def test_the_option_had_another_name_until_4_11(made: Any) -> None:
    config = b"CONFIG_KPROBES=y\nCONFIG_KPROBE_EVENT=y\n"
    machine = made({"/proc/config.gz": gzip.compress(config), "/proc/sys/kernel/osrelease": "4.9.115\n"})
    assert said(machine, SimulatedKernel("4.9").tracefs) == "Nothing was found that stops tracing.\n"


@pytest.mark.parametrize("path", ["/proc/config.gz", "/boot/config-6.1.0-test"])
@pytest.mark.parametrize(
    ("config", "option", "says"),
    [
        ("# CONFIG_KPROBES is not set\n", "CONFIG_KPROBES", "# CONFIG_KPROBES is not set"),
        ("CONFIG_KPROBES=y\nCONFIG_TRACING=y\n", "CONFIG_KPROBE_EVENTS", "no CONFIG_KPROBE_EVENTS"),
    ],
)
def test_a_kernel_without_kprobes(made: Any, path: str, config: str, option: str, says: str) -> None:
    data = gzip.compress(config.encode()) if path.endswith(".gz") else config.encode()
    machine = made({path: data, "/proc/sys/kernel/osrelease": "6.1.0-test\n"})
    tracefs = Changed(SimulatedKernel("6.1").tracefs, {"kprobe_events": None})
    assert said(machine, tracefs) == (
        f"STOPS: this kernel has no kprobes: built without {option}\n"
        f"  fact: {path}: {says}\n"
        "  help: kprobe --tracefs sim: (a simulated kernel) or --tracefs vm: (a guest)\n"
    )


def test_no_kprobe_events_and_no_configuration(made: Any) -> None:
    tracefs = Changed(SimulatedKernel("6.1").tracefs, {"kprobe_events": None})
    assert said(made({}), tracefs) == (
        "STOPS: this kernel has no kprobe events: built without CONFIG_KPROBE_EVENTS\n"
        "  fact: kprobe_events: there is no such file\n"
        "  help: kprobe --tracefs sim: (a simulated kernel) or --tracefs vm: (a guest)\n"
    )


SWITCHES = [
    (
        {"/sys/kernel/debug/kprobes/enabled": "0\n"},
        "STOPS: kprobes are switched off: probes can be added, but none is hit\n"
        "  fact: /sys/kernel/debug/kprobes/enabled: 0\n"
        "  help: echo 1 > /sys/kernel/debug/kprobes/enabled\n",
    ),
    (
        {"/proc/sys/kernel/ftrace_enabled": "0\n"},
        "STOPS: ftrace, through which probes at functions' entries are hit, is switched off\n"
        "  fact: /proc/sys/kernel/ftrace_enabled: 0\n"
        "  help: sysctl kernel.ftrace_enabled=1\n",
    ),
    (
        {"/proc/sys/debug/kprobes-optimization": "0\n"},
        "NOTE: probes aren't optimised: each hit that doesn't come through ftrace costs a breakpoint\n"
        "  fact: /proc/sys/debug/kprobes-optimization: 0\n"
        "  help: sysctl debug.kprobes-optimization=1\n"
        "Nothing was found that stops tracing, but see the notes.\n",
    ),
]


@pytest.mark.parametrize(("files", "text"), SWITCHES)
def test_switches(made: Any, files: dict[str, str], text: str) -> None:
    assert said(made(files)) == text
    assert said(made(dict.fromkeys(files, "1\n"))) == "Nothing was found that stops tracing.\n"


def test_files_that_cannot_be_read(made: Any) -> None:
    tracefs = Changed(SimulatedKernel("6.1").tracefs, {"tracing_on": errno.EACCES})
    assert said(made({"/proc/self/status": NOBODY}), tracefs) == (
        "STOPS: files of the tracefs can't be read\n"
        "  fact: tracing_on: Permission denied\n"
        "  fact: /proc/self/status: Uid 1000\n"
        "  help: sudo kprobe doctor\n"
    )


READ_ONLY = "STOPS: the tracefs is mounted read-only\n  fact: /proc/self/mounts: {root} ro,relatime\n"
CLOSED = "STOPS: no probe can be added by this process\n  fact: {root}/kprobe_events: not writable\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("ro,relatime", READ_ONLY + "  help: mount -o remount,rw {root}\n"),
        ("rw,relatime", CLOSED + "  fact: /proc/self/status: Uid 1000\n  help: sudo kprobe doctor\n"),
    ],
)
def test_a_tracefs_that_cannot_be_written(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, text: str
) -> None:
    """As a container mounts it, and as a user sees it."""
    tracefs = Changed(SimulatedKernel("6.1").tracefs, {})
    tracefs.root = root = f"{tmp_path}/tracing"
    Path(root).mkdir()
    Path(root, "kprobe_events").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: path != f"{root}/kprobe_events")
    machine = made({"/proc/self/status": NOBODY, "/proc/self/mounts": f"tracefs {root} tracefs {options} 0 0\n"})
    assert said(machine, tracefs) == text.format(root=root)


def test_a_reader_of_trace_pipe(made: Any) -> None:
    pipe = "/sys/kernel/tracing/instances/mine/trace_pipe"
    own = "/sys/kernel/tracing/instances/kprobe_812_7_0/trace_pipe"
    links = {"/proc/812/fd/3": pipe, "/proc/813/fd/3": own, "/proc/814/fd/3": "/home/me/trace_pipe"}
    assert said(made({"/proc/812/comm": "cat\n"}, links)) == (
        "NOTE: process 812 (cat) reads trace_pipe: nobody else gets what it reads\n"
        f"  fact: /proc/812/fd/3: {pipe}\n"
        "  help: kill 812, if it isn't needed\n"
        "Nothing was found that stops tracing, but see the notes.\n"
    )


def test_threads_that_are_gone(made: Any) -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    tracefs.write("set_event_pid", b"812\n")
    text = said(made({}), tracefs)
    assert text == (
        "STOPS: at the top level only thread 812 fires events, and it is gone\n"
        "  fact: set_event_pid: 812\n"
        "  help: echo > set_event_pid\n"
    )
    assert "is gone" not in said(made({"/proc/812/stat": "812 (cat) S"}), tracefs)


def test_threads_that_a_container_cannot_see(made: Any) -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    tracefs.write("set_event_pid", b"812\n")
    assert "is gone" not in said(made({}, {"/proc/self/ns/pid": "pid:[4026532501]"}), tracefs)


def test_a_probe_that_the_kernel_switched_off(made: Any) -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    tracefs.write("kprobe_events", b"p:mine vfs_read\n")
    tracefs.write("events/kprobes/mine/enable", b"1\n")
    path = "/sys/kernel/debug/kprobes/list"
    row = "ffffffff81434a14  k  vfs_read+0x4    [DISABLED][FTRACE]"
    text = said(made({path: f"{row}\n"}), tracefs)
    assert text.startswith(
        "STOPS: kprobes/mine is enabled, but the kernel has its probe switched off\n"
        f"  fact: {path}: ffffffff81434a14 k vfs_read+0x4 [DISABLED][FTRACE]\n"
        "  help: echo 0 > events/kprobes/mine/enable; echo 1 > events/kprobes/mine/enable\n"
    )
    assert "switched off" not in said(made({path: f"{row}\n{row.replace('[DISABLED]', '')}\n"}), tracefs)


def test_a_probe_in_a_module_that_is_gone(made: Any) -> None:
    kernel = SimulatedKernel("6.1")
    kernel.symbols.add(Symbol("mine_open", 0xFFFFFFFFC0000000, module="mine"))
    kernel.tracefs.write("kprobe_events", b"p:opens mine:mine_open\n")
    path = "/sys/kernel/debug/kprobes/list"
    files = {"/proc/modules": "other 16384 0 - Live 0x0\n", path: "ffffffffc0000000  k  0xffffffffc0000000[GONE]\n"}
    assert said(made(files), kernel.tracefs) == (
        "STOPS: kprobes/opens is in a module that isn't loaded: mine\n"
        "  fact: kprobe_events: p:kprobes/opens mine:mine_open\n"
        "  fact: /proc/modules: no mine\n"
        "  help: modprobe mine\n"
        "STOPS: a probe is in code that is gone, because its module was unloaded\n"
        f"  fact: {path}: ffffffffc0000000 k 0xffffffffc0000000[GONE]\n"
        "  help: load the module again\n"
    )


def test_missed_hits(made: Any) -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    tracefs.write("kprobe_events", b"r:mine vfs_read\n")
    changed = Changed(tracefs, {"kprobe_profile": b"  mine      12      3\n"})
    assert said(made({}), changed) == (
        "NOTE: the kernel missed 3 hits of kprobes/mine; a return probe with more instances misses fewer\n"
        "  fact: kprobe_profile: mine 12 3\n"
        "  help: r100:mine vfs_read in place of r:\n"
        "Nothing was found that stops tracing, but see the notes.\n"
    )


def test_the_configuration_is_looked_for_and_may_be_damaged(made: Any) -> None:
    assert access.config(made({"/proc/config.gz": b"no gzip"})) == ("", frozenset())


def test_a_directory_that_is_named(tmp_path: Path, capfd: Any) -> None:
    """It says so, and nothing of this machine's own tracefs."""
    nowhere = f"{tmp_path}/nowhere"
    assert main(["doctor", "--tracefs", f"local:{nowhere}"]) == 1
    assert (
        f"STOPS: there is no tracefs at {nowhere}\n  fact: {nowhere}: No such file or directory\n"
        "  help: kprobe doctor --tracefs local\n"
    ) in capfd.readouterr().out
    assert main(["doctor", "--tracefs", f"local:{tmp_path}"]) == 1
    out = capfd.readouterr().out
    assert out.startswith(
        f"STOPS: this isn't a tracefs\n  fact: {tmp_path}/events: there is no such directory\n"
        "  help: kprobe doctor --tracefs local\n"
    )
    assert "kprobe events" not in out


def test_words_that_mean_nothing(tmp_path: Path, capfd: Any) -> None:
    assert main(["doctor", "--tracefs", f"local:{tmp_path}/nowhere", "p:"]) == 2
    assert capfd.readouterr().err.startswith("ERROR: ")


class Changed:
    """A tracefs with other files: bytes, an errno, or None for one that isn't there."""

    root: str | None = None

    def __init__(self, tracefs: Any, files: dict[str, bytes | int | None]) -> None:
        self._tracefs = tracefs
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def exists(self, path: str) -> bool:
        return self._files[path] is not None if path in self._files else bool(self._tracefs.exists(path))

    def read(self, path: str) -> bytes:
        data = self._files.get(path, b"") if path in self._files else self._tracefs.read(path)
        if data is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if isinstance(data, int):
            raise PermissionError(data, "Permission denied", path)
        return bytes(data)
