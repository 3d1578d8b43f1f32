"""`kprobe doctor` in guests, by their own Python: locked down, in namespaces, beside others, switched off."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprobe_vm import Machine
from kprobe_vm.commands.copies import Copy

ROOT = Path(__file__).resolve().parents[2]
TRACING = "/sys/kernel/tracing"
ENABLED = "/sys/kernel/debug/kprobes/enabled"
LOCKDOWN = "/sys/kernel/security/lockdown"
DOCTOR = "PYTHONPATH=/repo PYTHONDONTWRITEBYTECODE=1 python3 -m kprobe doctor"
AS_USER = (
    "import os; os.setgroups([]); os.setgid(1000); os.setuid(1000); import sys; os.execvp(sys.argv[1], sys.argv[1:])"
)
FINE = "Nothing was found that stops tracing"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracer, with its entry points where Python finds them."""
    place = tmp_path_factory.mktemp("guest") / "repo"
    place.mkdir()
    place.chmod(0o755)
    for package in ("kprobe", "kprobe_text"):
        shutil.copytree(ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["kprobe.tracefs"]
    facts = place / "kprobe_sim-0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: kprobe-sim\nVersion: 0\n", "utf-8")
    text = "".join(f"{name} = {target}\n" for name, target in points.items())
    (facts / "entry_points.txt").write_text(f"[kprobe.tracefs]\n{text}", "utf-8")
    return place


def guest(series: str, checkout: Path, command_line: str = "") -> Machine:
    machine = Machine(series, memory=512, packages=["python3"], command_line=command_line)
    machine.start()
    Copy.parse(f"{checkout}:/repo").into(machine, lambda line: None)
    return machine


def said(machine: Machine, script: str) -> str:
    """Return what a shell script prints."""
    return machine.run(["sh", "-c", script], timeout=100).stdout.decode()


@pytest.fixture(scope="module")
def plain(series: str, checkout: Path) -> Iterator[Machine]:
    machine = guest(series, checkout)
    yield machine
    machine.close()


@pytest.mark.vm
def test_confidentiality(series: str, checkout: Path) -> None:
    machine = guest(series, checkout, "lsm=lockdown lockdown=confidentiality")
    try:
        assert said(machine, f"{DOCTOR}; echo $?") == (
            "STOPS: a tracefs is mounted, but has no files, as when the kernel is locked down (confidentiality)\n"
            f"  fact: {TRACING}: mounted, and empty\n"
            "  fact: /proc/cmdline: lsm=lockdown lockdown=confidentiality\n"
            "  help: boot without lockdown=confidentiality; it can't be left while the kernel runs\n1\n"
        )
        assert said(machine, f"mount -t securityfs nodev /sys/kernel/security; {DOCTOR}; echo $?") == (
            "STOPS: the kernel is locked down: in the state confidentiality it opens no tracefs and accepts no probe\n"
            f"  fact: {LOCKDOWN}: none integrity [confidentiality]\n"
            "  help: boot without lockdown=confidentiality; it can't be left while the kernel runs\n1\n"
        )
    finally:
        machine.close()


@pytest.mark.vm
def test_integrity(series: str, checkout: Path) -> None:
    machine = guest(series, checkout, "lsm=lockdown lockdown=integrity")
    try:
        assert said(machine, f"{DOCTOR}; echo $?") == (
            f"{FINE}.\nNot known here: {ENABLED}: Operation not permitted, as when the kernel is locked down, "
            f"which is shown by: mount -t securityfs nodev /sys/kernel/security; cat {LOCKDOWN}.\n0\n"
        )
        assert said(machine, f"mount -t securityfs nodev /sys/kernel/security; {DOCTOR}; echo $?") == (
            f"{FINE}.\nNot known here: {ENABLED}: Operation not permitted, as the kernel is locked down.\n0\n"
        )
    finally:
        machine.close()


@pytest.mark.vm
def test_processes_that_may_not_or_see_none(plain: Machine) -> None:
    text = said(plain, f"python3 -c '{AS_USER}' sh -c '{DOCTOR}; unshare -Urm sh -c \"{DOCTOR}\"'")
    alone, _, container = text.partition("STOPS: this process is in a container's user namespace")
    finding, unknown = ("the tracefs is closed to this process", f"{TRACING}: Permission denied"), ""
    if said(plain, f"stat -c %a {TRACING}") == "755\n":  # on 6.19, whose files are closed all the same
        finding = ("files of the tracefs can't be read", f"{TRACING}/buffer_size_kb: Permission denied, and 8 more")
        probes = ("/sys/kernel/debug/kprobes/enabled", "/sys/kernel/debug/kprobes/list")
        unknown = "".join(f"Not known here: {path}: Permission denied.\n" for path in probes)
    facts = f"  fact: {finding[1]}\n  fact: /proc/self/status: Uid 1000\n"
    assert alone == f"STOPS: {finding[0]}\n{facts}  help: sudo kprobe doctor\n{unknown}"
    assert "  fact: /proc/self/uid_map: 0 1000 1\n" in container
    assert "sudo" not in container
    root = said(plain, f"unshare -Urm sh -c '{DOCTOR}; PYTHONPATH=/repo python3 -m kprobe -v p:vfs_read'")
    assert "root here isn't root of the machine, but may write here\n" in root
    assert f"  fact: {TRACING}/kprobe_events: writable\n{FINE}, but see the notes.\n" in root
    assert "\tfield:unsigned long __probe_ip;" in root
    assert said(plain, f"unshare -m sh -c 'mount -t tmpfs nodev /sys; {DOCTOR}'") == (
        "STOPS: no tracefs is mounted\n"
        f"  fact: {TRACING}: No such file or directory\n"
        "  fact: /sys/kernel/debug/tracing: No such file or directory\n"
        "  fact: /proc/filesystems: tracefs\n"
        "  help: mount -t sysfs nodev /sys; mount -t tracefs nodev /sys/kernel/tracing\n"
    )


@pytest.mark.vm
def test_what_others_do(plain: Machine) -> None:
    text = said(plain, f"cat {TRACING}/trace_pipe > /dev/null & {DOCTOR}; echo $!; kill $!")
    pid = text.splitlines()[-1]
    assert text == (
        f"NOTE: process {pid} (cat) reads trace_pipe: nobody else gets what it reads\n"
        f"  fact: /proc/{pid}/fd/3: {TRACING}/trace_pipe\n"
        f"  help: kill {pid}, if it isn't needed\n{FINE}, but see the notes.\n{pid}\n"
    )
    begin = f"cd {TRACING}; echo 0 > tracing_on; echo function > current_tracer; echo 0 > {ENABLED}; cd /"
    end = f"cd {TRACING}; echo nop > current_tracer; echo 1 > tracing_on; echo 1 > {ENABLED}; echo > trace"
    assert said(plain, f"{begin}; {DOCTOR}; echo $?; {end}") == (
        "STOPS: kprobes are switched off: probes can be added, but none is hit\n"
        f"  fact: {ENABLED}: 0\n"
        f"  help: echo 1 > {ENABLED}\n"
        "STOPS: recording is switched off at the top level\n"
        f"  fact: {TRACING}/tracing_on: 0\n"
        f"  help: echo 1 > {TRACING}/tracing_on\n"
        "NOTE: the tracer function is at work at the top level\n"
        f"  fact: {TRACING}/current_tracer: function\n"
        f"  help: echo nop > {TRACING}/current_tracer\n1\n"
    )
    assert said(plain, f"{DOCTOR}; echo $?") == f"{FINE}.\n0\n"


@pytest.mark.vm
def test_functions(plain: Machine) -> None:
    text = said(plain, f"{DOCTOR} --try 0.2 vfs_read asm_exc_int3 task_pid_nr vfs_reed; echo $?")
    assert (
        "STOPS: asm_exc_int3 can't be probed: a probe there could hang the kernel\n"
        "  fact: /sys/kernel/debug/kprobes/blacklist: asm_exc_int3\n"
    ) in text
    assert "STOPS: this kernel has no function task_pid_nr: it was inlined, renamed, or never there\n" in text
    assert "STOPS: this kernel has no function vfs_reed: it was inlined, renamed, or never there\n" in text
    assert "  help: kprobe p:vfs_read\n" in text
    assert "NOTE: vfs_read was" in text.replace("wasn't", "was")
    assert "__pfx_" not in text
    assert text.endswith("\n1\n")
