"""`kprobe-sim run`: what a command sees, what comes back of it, and what is left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kprobe_sim.builds import profile

from .conftest import KPROBE_SIM, ROOT, TRACING, Run, environment, interrupt

Start = Callable[..., "subprocess.Popen[str]"]


def mounts() -> str:
    return Path("/proc/self/mounts").read_text()


def test_the_command_sees_the_simulator_in_both_places(run: Run) -> None:
    script = f"cat {TRACING}/current_tracer /sys/kernel/debug/tracing/tracing_on; stat -c %a,%U,%s {TRACING}/trace"
    done = run(["sh", "-c", script])
    assert (done.stdout, done.stderr, done.returncode) == ("nop\n1\n640,root,0\n", "", 0)


def test_nobody_else_sees_it(start: Start) -> None:
    before = mounts()
    child = start(["sh", "-c", "echo ready; read line"])
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    assert mounts() == before
    child.communicate("\n", timeout=20)
    assert mounts() == before


@pytest.mark.parametrize("status", [0, 1, 255])
def test_exit_status(run: Run, status: int) -> None:
    assert run(["sh", "-c", f"exit {status}"]).returncode == status


def test_exit_by_a_signal(run: Run) -> None:
    assert run(["sh", "-c", "kill -USR1 $$"]).returncode == 128 + signal.SIGUSR1


def test_no_such_command(run: Run) -> None:
    done = run(["/nosuch/command"])
    assert (done.returncode, done.stderr) == (127, "kprobe-sim: /nosuch/command: command not found\n")


def test_a_command_that_is_no_program(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    done = run([f"{tmp_path}/text"])
    assert (done.returncode, done.stderr) == (126, f"kprobe-sim: {tmp_path}/text: Permission denied\n")


def test_the_directory_and_the_input_stay(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["pwd"]).stdout == f"{tmp_path}\n"


def test_the_command_cannot_take_it_away(run: Run) -> None:
    for command in ("umount /sys/kernel/tracing", "umount -l /sys/kernel/debug/tracing"):
        script = f"{command}; cat /sys/kernel/tracing/current_tracer /sys/kernel/debug/tracing/current_tracer"
        assert run(["sh", "-c", script]).stdout == "nop\nnop\n", command


def test_the_command_cannot_mount_the_machines_own(run: Run, tmp_path: Path) -> None:
    commands = [f"mount -t {kind} nodev {tmp_path} 2>&1; echo $?" for kind in ("tracefs", "debugfs")]
    lines = run(["sh", "-c", "; ".join(commands)]).stdout.splitlines()
    assert [line for line in lines if line.isdigit()] == ["32", "32"], "mount(8): failure"
    assert sum("permission denied" in line for line in lines) == 2


def test_terminate_ends_the_command(start: Start) -> None:
    child = start(["sh", "-c", "trap 'echo ended; exit 3' TERM; echo ready; while :; do sleep 0.02; done"])
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.terminate()
    assert child.communicate(timeout=20)[0] == "ended\n"
    assert child.returncode == 3


def test_the_command_is_killed(start: Start) -> None:
    child = start(["sh", "-c", "echo $$; exec cat /sys/kernel/tracing/trace_pipe"])
    assert child.stdout is not None
    os.kill(int(child.stdout.readline()), signal.SIGKILL)
    child.communicate(timeout=20)
    assert child.returncode == 128 + signal.SIGKILL


def test_the_simulator_is_killed(start: Start) -> None:
    """The command ends with it, and what it has started gets an error instead of an answer."""
    child = start(["sh", "-c", "cat /sys/kernel/tracing/trace_pipe & echo ready; wait"])
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.kill()
    _, errors = child.communicate(timeout=20)  # the pipes' ends: nobody holds them any more
    reasons = ("Software caused connection abort", "Transport endpoint is not connected")  # reading, or opening
    # cat writes its message in pieces, and is killed after any of them
    assert any(f"cat: {TRACING}/trace_pipe: {reason}\n".startswith(errors) for reason in reasons)


WAITERS = """
import os, select, signal, sys
fd = os.open('/sys/kernel/tracing/trace_pipe', os.O_RDONLY)
marker = os.open('/sys/kernel/tracing/trace_marker', os.O_WRONLY)
def mark(*_): os.write(marker, b'hello')
signal.signal(signal.SIGALRM, mark)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "wait",
    [
        "os.read(fd, 4096)",
        "select.select([fd], [], [])",
        "p = select.poll(); p.register(fd, select.POLLIN); p.poll()",
        "p = select.epoll(); p.register(fd, select.EPOLLIN); p.poll()",
    ],
)
def test_an_event_wakes(run: Run, wait: str) -> None:
    """A child marks the trace while its parent waits."""
    program = (
        WAITERS
        + f"""
if not os.fork():
    import time
    while b's' not in open(f'/proc/{{os.getppid()}}/stat', 'rb').read().split()[2].lower(): pass
    mark(); os._exit(0)
{wait}
os.set_blocking(fd, False)
try: os.read(fd, 1)
except BlockingIOError: print('read')
else: print('ready')
"""
    )
    done = run([sys.executable, "-c", program])
    assert (done.stdout, done.stderr) == ("read\n" if "os.read" in wait else "ready\n", "")


def test_a_signal_breaks_a_waiting_read(run: Run) -> None:
    program = (
        WAITERS
        + """
class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    os.read(fd, 4096)
except Alarm: print('broken')
mark()
print(os.read(fd, 4096)[-6:])
"""
    )
    assert run([sys.executable, "-c", program]).stdout == "broken\nb'hello\\n'\n"


def test_interrupt_frees_cat(start: Start) -> None:
    """Ctrl-C reaches all of the terminal's group; the simulator waits for the command's own end."""
    child = start(
        ["sh", "-c", "trap 'echo over; exit 5' INT; echo ready; cat /sys/kernel/tracing/trace_pipe; echo after"]
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    interrupt(child)
    assert child.communicate(timeout=20)[0] == "over\n"
    assert child.returncode == 5


def test_o_nonblock_after_open(run: Run) -> None:
    program = (
        WAITERS
        + """
os.set_blocking(fd, False)
try: os.read(fd, 10)
except BlockingIOError as error: print(error.errno)
"""
    )
    assert run([sys.executable, "-c", program]).stdout == "11\n"


def test_what_marks_the_trace_has_its_own_pid(run: Run) -> None:
    done = run(
        ["bash", "-c", "echo $$; echo hello > /sys/kernel/tracing/trace_marker; tail -1 /sys/kernel/tracing/trace"]
    )
    pid, line = done.stdout.split("\n", 1)
    assert f"<...>-{pid} " in line, "the kernel keeps names when it traces events, not marks"


def test_chmod_stays(run: Run) -> None:
    done = run(["sh", "-c", f"cd {TRACING}; chmod 600 trace; stat -c %a trace; truncate -s 10 trace; stat -c %s trace"])
    assert (done.stdout, done.stderr) == ("600\n0\n", "")


def test_what_tracefs_has_not(run: Run) -> None:
    commands = {
        "rm README": "Operation not permitted",
        "mv README other": "Operation not permitted",
        "ln README other": "Operation not permitted",
        "ln -s README other": "Operation not permitted",
        "mknod pipe p": "Operation not permitted",
        "touch other": "Permission denied",
    }
    script = "".join(f"\n{command} 2>&1; echo $?" for command in commands)
    lines = run(["sh", "-c", f"export LC_ALL=C; cd {TRACING}{script}"]).stdout.splitlines()
    said = dict(zip(commands, zip(lines[::2], lines[1::2], strict=True), strict=True))
    assert {command: (line.rpartition(": ")[2], status) for command, (line, status) in said.items()} == {
        command: (message, "1") for command, message in commands.items()
    }


@pytest.mark.slow
def test_all_files_are_found_and_read(run: Run) -> None:
    done = run(["sh", "-c", f"cd {TRACING}; find . -type f | wc -l; cat events/*/*/format | grep -c ^name:"])
    files, formats = map(int, done.stdout.split())
    assert files > 5000
    assert formats > 900


@pytest.mark.requires("root")
def test_as_nobody(can_mount: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A user without any right gets it as well, where /dev/fuse has its usual mode."""
    place = Path("/tmp") / f"kprobe-sim-{os.getpid()}"  # tmp_path is for its owner only
    try:
        shutil.copytree(ROOT / "kprobe_sim", place / "kprobe_sim", ignore=shutil.ignore_patterns("__pycache__"))
        place.chmod(0o755)
        python = next(name for name in ("/usr/bin/python3", sys.executable) if os.access(name, os.X_OK))
        script = (
            f"mknod {place}/fuse c 10 229 && chmod 666 {place}/fuse && mount --bind {place}/fuse /dev/fuse && cd / && "
            f"exec setpriv --reuid 65534 --regid 65534 --clear-groups env PYTHONPATH={place} "
            f"{python} -m kprobe_sim.cli run -- sh -c 'grep -c . /sys/kernel/tracing/README; id -u; exit 9'"
        )
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    assert done.stderr == ""
    assert int(done.stdout.split()[0]) > 100
    assert (done.stdout.split()[1], done.returncode) == ("0", 9)


@pytest.mark.slow
def test_without_the_device(can_mount: None, tmp_path: Path) -> None:
    """A container without /dev/fuse: a clear error; the verbs that need none still work."""
    script = f"mount -t tmpfs none /dev && {sys.executable} -m kprobe_sim.cli "
    inside = ["unshare", "-Urm", "sh", "-c"]
    done = subprocess.run([*inside, script + "run -- true"], capture_output=True, text=True, env=environment())
    assert done.returncode == 125
    assert done.stderr.startswith("kprobe-sim: run: there is no /dev/fuse: load the kernel module fuse, or give")
    done = subprocess.run([*inside, script + "profiles"], capture_output=True, text=True, env=environment())
    assert "6.1.0-54-cloud-amd64 " in done.stdout
    program = (
        "from kprobe_sim.expose import patched\n"
        "with patched('6.1') as kernel, open('/sys/kernel/tracing/current_tracer') as file:\n"
        "    print(file.read().strip(), kernel.tracefs.read('tracing_on').decode().strip())\n"
    )
    (tmp_path / "program.py").write_text(program)
    script = f"mount -t tmpfs none /dev && {sys.executable} {tmp_path}/program.py && {sys.executable} -m kprobe -d 1 "
    script += "--tracefs sim:6.1 p:myopen\\ do_sys_openat2"
    done = subprocess.run([*inside, script], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("nop 1\n")
    assert ": myopen: (do_sys_openat2+0x0/0x170)\n" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "a COMMAND is needed"),
        (["run", "--kernel", "2.4", "--", "true"], "2.4"),
        (["run", "--activity", "nosuch", "--", "true"], "no activity 'nosuch'"),
        (["run", "--activity", "./nosuch", "--", "true"], "kprobe-sim: activity ./nosuch: No such file or directory"),
    ],
)
def test_usage(arguments: list[str], message: str) -> None:
    done = subprocess.run([*KPROBE_SIM, *arguments], capture_output=True, text=True, env=environment())
    assert done.returncode == 2
    assert message in done.stderr


# the rest of the machine

WHOLE = ("--kernel", "6.12", "--activity", "none")
ONLY = (*WHOLE, "--only-tracefs")
RELEASE = "6.12.117+deb13-cloud-amd64"


def test_the_kernel_tells_its_name(run: Run) -> None:
    done = run(["sh", "-c", "uname -rv; cat /proc/sys/kernel/osrelease; cut -d' ' -f3 /proc/version"], WHOLE)
    version = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-11-12)"
    assert (done.stdout, done.stderr) == (f"{RELEASE} {version}\n{RELEASE}\n{RELEASE}\n", "")
    names = run([sys.executable, "-c", "import os; print(*os.uname())"], WHOLE).stdout
    assert names == f"Linux {os.uname().nodename} {RELEASE} {version} x86_64\n"


def test_without_a_kernel_it_is_the_newest(run: Run) -> None:
    assert run(["cut", "-d ", "-f3", "/proc/version"]).stdout == f"{profile.load().release}\n"


def test_probes_are_in_debugfs_and_symbols_in_proc(run: Run) -> None:
    script = f"""
echo 'p:probe do_sys_openat2' > {TRACING}/kprobe_events; echo 1 > {TRACING}/events/kprobes/probe/enable
cd /sys/kernel/debug/kprobes; cat enabled; grep -q . blacklist; echo $?; cut -d' ' -f3- list
grep -c "^$(cut -d' ' -f1 list) t do_sys_openat2$" /proc/kallsyms
"""
    done = run(["bash", "-c", script], WHOLE)
    assert (done.stdout, done.stderr) == ("1\n0\nk  do_sys_openat2+0x0    [FTRACE]\n1\n", "")


@pytest.mark.slow
def test_the_switches_of_tracing_are_the_machines(run: Run) -> None:
    """Those that this machine has; what is written to them is nothing to it."""
    switches = {"ftrace_enabled": "1\n0\n", "kptr_restrict": "0\n2\n", "traceoff_on_warning": "0\n1\n"}
    for name, text in switches.items():
        path = Path("/proc/sys/kernel") / name
        if path.exists():
            before = path.read_text()
            value = text.split()[1]
            assert run(["sh", "-c", f"cat {path}; echo {value} > {path}; cat {path}"], WHOLE).stdout == text
            assert path.read_text() == before
            assert run(["cat", str(path)], ONLY).stdout == before


def test_what_other_kernels_have_is_not_this_machines(run: Run) -> None:
    """PMUs, modules, the build: the simulated kernel's, or openly unknown; an ENOSYS leaves other files readable."""
    script = """
cd /sys/bus/event_source/devices && for pmu in *; do echo $pmu $(cat $pmu/type); done
for file in /proc/modules /sys/kernel/notes /proc/config.gz /proc/sys/kernel/version /sys/kernel/btf/vmlinux
do test ! -e $file || echo $file: $(cat $file 2>&1 | sed 's/.*: //'); done
echo 0 > /proc/sys/kernel/ftrace_enabled; cat /proc/sys/kernel/ftrace_enabled
"""
    done = run(["sh", "-c", script], ("--kernel", "7.3", "--activity", "none"))
    here = [name for name in ("/proc/modules", "/sys/kernel/notes", "/proc/config.gz") if Path(name).exists()]
    said = {"/proc/modules": "", "/sys/kernel/notes": " Function not implemented"}
    expected = ["breakpoint 5", "kprobe 8", "software 1", "tracepoint 2", "uprobe 9"]
    expected += [f"{name}:{said.get(name, ' No such file or directory')}" for name in here]
    expected += ["/proc/sys/kernel/version: #1 SMP PREEMPT_DYNAMIC Debian 7.3~rc7-1~exp1 (2026-10-16)", "1"]
    assert done.stdout.splitlines() == expected
    assert "Operation not supported" in done.stderr or "I/O error" in done.stderr


@pytest.mark.requires("dmesg", "/dev/kmsg")
def test_dmesg_shows_the_simulated_kernels_log(run: Run) -> None:
    """It begins with the kernel's name; what was refused and what others write there come after."""
    script = f"""
echo 'p:x nosuch' > {TRACING}/kprobe_events
echo '<11>of a program' > /dev/kmsg
dmesg --notime --decode
dd if=/dev/kmsg bs=8 count=1 status=none
python3 -c 'import os; log = os.open("/dev/kmsg", os.O_NONBLOCK); print(os.lseek(log, 0, 2)); os.read(log, 8192)'
"""
    done = run(["bash", "-c", script], ("--kernel", "3.13", "--activity", "none"))
    first, *others = done.stdout.splitlines()
    assert first.startswith("kern  :notice: Linux version 3.13.10")
    assert others == ["kern  :info  : Could not insert probe at nosuch+0: -2", "user  :err   : of a program", "0"]
    for refused in (
        "echo: write error: No such file",
        "error reading '/dev/kmsg': Invalid argument",
        "BlockingIOError",
    ):
        assert refused in done.stderr
    newer = run(["dmesg", "--notime"], ("--kernel", "6.1", "--activity", "none"))
    assert re.fullmatch(r"Linux version 6\.1\.0-.*\n", newer.stdout), newer.stderr


@pytest.mark.requires("/dev/kmsg")
def test_who_waits_for_the_log_is_woken(run: Run) -> None:
    script = f"""
python3 -c '
import os
log = os.open("/dev/kmsg", 0)
os.lseek(log, 0, 2)
print("waits", flush=True)
print(os.read(log, 8192))' | (
read -r line; echo 'p:x nosuch' > {TRACING}/kprobe_events; cat)
"""
    done = run(["bash", "-c", script], ("--kernel", "4.4", "--activity", "none"))
    assert done.stdout.endswith("-;Could not insert probe at nosuch+0: -2\\n'\n")


@pytest.mark.requires("/dev/kmsg")
def test_kprobe_shows_the_log_that_is_served_beside_the_tracefs(run: Run) -> None:
    """Where there is no error_log."""
    done = run([sys.executable, "-m", "kprobe", "p:x do_sys_open a=%zz"], ("--kernel", "3.13", "--activity", "none"))
    assert "dmesg: Parse error at argument[0]. (-22)" in done.stderr


def test_only_the_tracefs(run: Run) -> None:
    done = run(["sh", "-c", f"uname -r; cat /proc/sys/kernel/osrelease {TRACING}/current_tracer"], ONLY)
    assert done.stdout == f"{os.uname().release}\n{os.uname().release}\nnop\n"


def test_a_run_inside_a_run(run: Run) -> None:
    """One filter of a kind is all that the kernel allows, so the inner one doesn't name its own kernel."""
    inner = [*KPROBE_SIM, "run", "--kernel", "6.1", "--activity", "none", "--", "sh", "-c"]
    done = run([*inner, f"uname -r; grep -c . {TRACING}/README"], WHOLE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == RELEASE


def test_names_that_are_no_utf_8(run: Run) -> None:
    """The answers of `vm:6.1` are those of tests/conformance/test_names.py; here they go through the mount."""
    script = f"""
export LC_ALL=C
cd {TRACING}
name=$(printf '\\377\\376')
mkdir instances/$name && ls -b instances
cat instances/$name/current_tracer
mkdir instances/$name 2>&1 | grep -c 'File exists'
printf 'p:\\377/\\351 do_sys_openat2 \\352=%%di\\n' > kprobe_events
ls -b events/$(printf '\\377')
printf '\\377:\\351\\n' > set_event
od -A n -c set_event
cat events/$(printf '\\377')/$(printf '\\351')/enable
rmdir instances/$name && ls instances
"""
    done = run(["sh", "-c", script])
    assert done.stderr == ""
    assert done.stdout.split() == [
        r"\377\376", "nop", "1", "enable", "filter", r"\351", "377", ":", "351", r"\n", "1",
    ]  # fmt: skip


def test_extended_attributes(run: Run) -> None:
    """There are none, whether the kernel asks the mount or remembers that it has none."""
    script = f"""
import os
path = "{TRACING}/tracing_on"
for name in ("user.x", "user.x"):
    for call, *value in ((os.getxattr,), (os.setxattr, b"1"), (os.removexattr,)):
        try:
            print(call(path, name, *value))
        except OSError as error:
            print(call.__name__, error.strerror)
"""
    done = run([sys.executable, "-c", script])
    refused = [f"{name} Operation not supported" for name in ("getxattr", "setxattr", "removexattr")]
    assert (done.stdout.splitlines(), done.stderr) == (refused * 2, "")


@pytest.mark.slow
def test_kprobe_reads_the_symbols_that_are_served_beside_the_tracefs(run: Run) -> None:
    done = run([sys.executable, "-m", "kprobe", "functions", "do_int3"], ["--kernel", "6.12"])
    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == [
        "FUNCTION PROBE ADDRESS MODULE PROTOTYPE",
        "do_int3 no ffffffff8103e380 - -",
        "blacklisted: kprobes/blacklist has it, as a probe there could hang the kernel",
    ]
