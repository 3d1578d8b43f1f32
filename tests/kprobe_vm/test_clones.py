"""Clones of real guests: each its own, quick, and got round where a template can't be used or made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kprobe_vm import Machine
from kprobe_vm.errors import BootTimeout, DiskFull, QemuDied, TemplateStale
from kprobe_vm.guest.backend import open_vm
from kprobe_vm.host.cache import Cache
from kprobe_vm.machine import template
from kprobe_vm.machine.boot import Deadlines
from kprobe_vm.machine.template import Contents, Template

from .test_faults import qemu_of, wait_gone

pytestmark = pytest.mark.vm

OWN = ("templates", "console", "locks")


def cache_beside(place: Path) -> Cache:
    """A cache with the kernels of the real one and no templates."""
    cache = Cache(place / "cache")
    cache.root.mkdir(mode=0o700)
    for kind in Cache.of(os.environ).root.iterdir():
        if kind.name not in OWN:
            (cache.root / kind.name).symlink_to(kind)
    return cache


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory, machine: Machine) -> Cache:
    """One in which a template is made once."""
    return cache_beside(tmp_path_factory.mktemp("templates"))


@pytest.fixture
def empty_cache(tmp_path: Path, machine: Machine) -> Cache:
    return cache_beside(tmp_path)


@pytest.fixture
def clone(series: str, shared_cache: Cache) -> Iterator[Machine]:
    with Machine(series, template=True, cache=shared_cache) as running:
        if running.is_clone:
            yield running
            return
    with Machine(series, template=True, cache=shared_cache) as running:
        assert running.is_clone
        yield running


def path_of(cache: Cache) -> Path:
    (path,) = (cache.root / "templates").glob("*.template")
    return path


def template_of(cache: Cache) -> Template:
    return Template(cache, path_of(cache).stem)


def start(series: str, cache: Cache, **more: object) -> Machine:
    machine = Machine(series, template=True, cache=cache, **more)  # type: ignore[arg-type]
    machine.start()
    return machine


def facts(machine: Machine) -> tuple[bool, list[type]]:
    """Check that it is of use; return whether it is a clone, and what was got round; end it."""
    with closing(machine):
        machine.tracefs.write("kprobe_events", b"p:works vfs_read")
        assert machine.tracefs.read("kprobe_events") == b"p:kprobes/works vfs_read\n"
        return machine.is_clone, [type(fault) for fault in machine.faults]


# ---- what a clone is ----


def test_a_clone_is_like_a_machine_that_has_booted(clone: Machine, machine: Machine) -> None:
    assert (clone.release, clone.version) == (machine.release, machine.version)
    assert clone.tracefs.read("kprobe_events") == b""
    assert clone.tracefs.listdir("instances") == []
    clone.tracefs.write("kprobe_events", b"p:opens do_sys_openat2 filename=+0(%si):string")
    clone.tracefs.write("events/kprobes/opens/enable", b"1")
    with clone.tracefs.stream("trace_pipe") as pipe:
        assert clone.run(["cat", "/etc/hostname"]).stdout == b"guest\n"
        text = b""
        while b'filename="/etc/hostname"' not in text:
            text += pipe.read(timeout=30)


def test_its_clock_is_right(clone: Machine) -> None:
    assert abs(float(clone.run(["date", "+%s"]).stdout) - time.time()) < 30


def test_it_has_the_monotonic_time_of_the_template(clone: Machine) -> None:
    uptime = float(clone.files.read("proc/uptime").split()[0])
    assert uptime < time.monotonic()
    assert 0 <= float(clone.files.read("proc/uptime").split()[0]) - uptime < 30


def test_clones_are_independent(clone: Machine, series: str, shared_cache: Cache) -> None:
    before = path_of(shared_cache).stat()
    clone.tracefs.write("kprobe_events", b"p:mine vfs_read")
    clone.put("tmp/mine", b"x" * 5_000_000)
    with closing(start(series, shared_cache)) as other:
        assert other.is_clone
        assert other.tracefs.read("kprobe_events") == b""
        assert other.files.listdir("tmp") == []
        other.tracefs.write("kprobe_events", b"p:its vfs_write")
        assert clone.tracefs.read("kprobe_events") == b"p:kprobes/mine vfs_read\n"
    assert clone.files.read("tmp/mine") == b"x" * 5_000_000
    after = path_of(shared_cache).stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)


def test_the_guest_that_was_saved_goes_on(series: str, empty_cache: Cache) -> None:
    said: list[str] = []
    first = start(series, empty_cache, progress=said.append)
    assert said[-2:] == [f"booting {series} (tcg)", "saving the guest as a template for the next"]
    assert abs(float(first.run(["date", "+%s"]).stdout) - time.time()) < 30
    assert facts(first) == (False, [])
    assert facts(start(series, empty_cache)) == (True, [])


def test_several_processors(series: str, empty_cache: Cache) -> None:
    assert facts(start(series, empty_cache, cpus=2)) == (False, [])
    with closing(start(series, empty_cache, cpus=2)) as clone:
        assert clone.is_clone
        assert clone.accelerator == "tcg,thread=single"
        assert clone.run(["nproc"]).stdout == b"2\n"
        assert clone.run(["taskset", "2", "hostname"]).stdout == b"guest\n"


def test_a_renewed_backend_is_another_guest(series: str) -> None:
    tracefs = open_vm(series)
    pids = []
    try:
        for _ in range(3):
            assert tracefs.read("kprobe_events") == b""
            tracefs.write("kprobe_events", b"p:mine vfs_read")
            pids.append(tracefs.machine.boot.qemu.pid)
            assert abs(float(tracefs.machine.run(["date", "+%s"]).stdout) - time.time()) < 30
            tracefs = tracefs.renew()
    finally:
        tracefs.close()
    assert len(set(pids)) == 3
    assert set(qemu_of(os.getpid())).isdisjoint({*pids, tracefs.machine.boot.qemu.pid})


# ---- templates of no use ----


def test_memory_that_was_changed_is_found_at_once(series: str, empty_cache: Cache) -> None:
    start(series, empty_cache).close()
    with open(path_of(empty_cache), "r+b") as file:
        file.seek(16 << 20)
        file.write(b"\xff" * 4096)
    assert facts(start(series, empty_cache)) == (False, [TemplateStale])
    assert facts(start(series, empty_cache)) == (True, [])  # a new one was made


def test_memory_that_rotted_is_found_by_what_comes_of_it(series: str, empty_cache: Cache) -> None:
    start(series, empty_cache).close()
    assert facts(start(series, empty_cache)) == (True, [])
    path = path_of(empty_cache)
    status = path.stat()
    with open(path, "r+b") as file:
        file.seek(16 << 20)  # the kernel's text
        file.write(b"\xff" * (24 << 20))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    began = time.monotonic()
    rotten = start(series, empty_cache, deadlines=Deadlines(resume=5))
    print(f"rotten memory found, and booted, after {time.monotonic() - began:.1f} s: {rotten.faults[0].__cause__!r}")
    assert "did not come up" in str(rotten.faults[0])
    assert facts(rotten) == (False, [TemplateStale])
    assert template_of(empty_cache).method == template.MEMORY
    assert facts(start(series, empty_cache)) == (True, [])


def test_a_state_that_qemu_refuses(series: str, empty_cache: Cache) -> None:
    """No clone ever came up: the whole state is saved, and when that is no better, machines boot."""
    first = start(series, empty_cache)
    hello = first.boot.channel.hello
    first.close()
    assert hello is not None
    saved = template_of(empty_cache)
    saved.save(Contents(None, b"not what QEMU saves" * 100, hello, 1.0))
    refused = start(series, empty_cache)
    assert isinstance(refused.faults[0].__cause__, QemuDied)
    assert "QEMU exited with status 1" in str(refused.faults[0])
    assert facts(refused) == (False, [TemplateStale])
    assert saved.method == template.STATE

    with saved.opened() as contents:
        assert contents is not None
        assert contents.ram.descriptor is None
    began = time.monotonic()
    whole = start(series, empty_cache)
    print(f"clone from a whole state: {time.monotonic() - began:.2f} s")
    assert facts(whole) == (True, [])

    saved.failed()
    saved._write_note({"method": template.NONE})
    assert facts(start(series, empty_cache)) == (False, [])
    assert not saved.path.exists()


def test_a_clone_that_does_not_answer_in_time(series: str, empty_cache: Cache) -> None:
    start(series, empty_cache).close()
    late = start(series, empty_cache, deadlines=Deadlines(resume=0.0001))
    assert isinstance(late.faults[0].__cause__, BootTimeout)
    assert facts(late) == (False, [TemplateStale])
    assert len(qemu_of(os.getpid())) <= 1  # that of the fixture


# ---- templates that can't be saved ----

ON_A_FULL_DISK = """
    import os
    from pathlib import Path
    from kprobe_vm.host.cache import Cache
    import kprobe_vm.machine.template
    if sys.argv[3] == "late":  # what there is room for is known only when it is written
        kprobe_vm.machine.template.SPARE = -(1 << 30)
    with Machine(sys.argv[1], template=True, cache=Cache(Path(sys.argv[2]))) as machine:
        machine.tracefs.write("kprobe_events", b"p:works vfs_read")
        print(machine.is_clone, [type(fault).__name__ for fault in machine.faults], machine.faults[0])
        print(os.listdir(sys.argv[2] + "/templates"))
"""


@pytest.mark.requires("user namespaces")
@pytest.mark.parametrize("when", ["early", "late"])
def test_a_full_disk_for_real(series: str, empty_cache: Cache, when: str) -> None:
    """On a file system of 8 MiB, in a mount name space of its own."""
    program = "import sys\nfrom kprobe_vm import Machine\n" + textwrap.dedent(ON_A_FULL_DISK)
    templates = empty_cache.directory("templates")
    script = 'mount -t tmpfs -o size=8m full "$1" && shift && exec "$@"'
    inside = ["sh", "-c", script, "sh", str(templates)]
    done = subprocess.run(
        ["unshare", "-rm", *inside, sys.executable, "-c", program, series, str(empty_cache.root), when],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first.startswith(f"False ['{DiskFull.__name__}'] no room for a template in {templates}: ")
    assert second == "[]"


def test_ctrl_c_while_saving(series: str, empty_cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(qemu_of(os.getpid()))

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(template, "_copy_without_holes", interrupt)
        with pytest.raises(KeyboardInterrupt):
            start(series, empty_cache)
    assert set(qemu_of(os.getpid())) == before
    assert os.listdir(empty_cache.root / "templates") == []
    assert facts(start(series, empty_cache)) == (False, [])
    assert facts(start(series, empty_cache)) == (True, [])


KILLED = """
    import time
    from pathlib import Path
    from kprobe_vm.machine import template
    from kprobe_vm.host.cache import Cache
    def wait(*_):
        print("saving", flush=True)
        time.sleep(1000)
    template._copy_without_holes = wait
    Machine(sys.argv[1], template=True, cache=Cache(Path(sys.argv[2]))).start()
"""


def test_kill_9_while_saving(series: str, empty_cache: Cache) -> None:
    program = "import sys\nfrom kprobe_vm import Machine\n" + textwrap.dedent(KILLED)
    with subprocess.Popen(
        [sys.executable, "-c", program, series, str(empty_cache.root)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"saving\n"
        (qemu,) = qemu_of(process.pid)
        process.kill()
    wait_gone(qemu)
    assert os.listdir(empty_cache.root / "templates") == []
    assert facts(start(series, empty_cache)) == (False, [])  # nobody holds the right to make it
    assert facts(start(series, empty_cache)) == (True, [])


RACER = """
    from pathlib import Path
    from kprobe_vm.host.cache import Cache
    with Machine(sys.argv[1], template=True, cache=Cache(Path(sys.argv[2]))) as machine:
        machine.tracefs.write("kprobe_events", b"p:works vfs_read")
        print(machine.is_clone, machine.faults)
"""


def test_two_that_need_the_same_template_make_one(series: str, empty_cache: Cache) -> None:
    program = "import sys\nfrom kprobe_vm import Machine\n" + textwrap.dedent(RACER)
    command = [sys.executable, "-c", program, series, str(empty_cache.root)]
    two = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(one.communicate(timeout=110)[0] for one in two) == ["False []\n", "True []\n"]
    path_of(empty_cache)
