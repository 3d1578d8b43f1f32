"""splice(2) and sendfile(2) on the mount, held to what a static program got of them in guests with 6.1 and 6.12."""

from __future__ import annotations

import sys

import pytest

from .conftest import TRACING, Run

PRELUDE = f"""
import errno, fcntl, os, select, signal
os.chdir({TRACING!r})
def told(call, *arguments):
    try: return call(*arguments)
    except OSError as error: return errno.errorcode[error.errno]
def put(name, text):
    with open(name, 'w') as file: file.write(text)
def marks(count):
    with open('trace_marker', 'wb', 0) as file:
        for _ in range(count): file.write(b'x' * 20)
put('buffer_percent', '0')
out, into = os.pipe()
fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 1 << 18)
RAW = 'per_cpu/cpu0/trace_pipe_raw'
NONBLOCK = 2
"""


def done(run: Run, script: str) -> list[str]:
    """Run a script inside `kprobe-sim run`; return the lines that it prints."""
    found = run([sys.executable, "-c", PRELUDE + script], ("--kernel", "6.1", "--activity", "none"))
    assert found.stderr == ""
    return found.stdout.splitlines()


def test_only_whole_pages_are_spliced(run: Run) -> None:
    script = """
raw = os.open(RAW, os.O_RDONLY | os.O_NONBLOCK)
print(told(os.splice, raw, into, 65536))
marks(5)
print(told(os.splice, raw, into, 65536))
marks(200)
print(told(os.splice, raw, into, 4096))
print(told(os.splice, raw, into, 65536))
print(told(os.splice, raw, into, 65536))
pages = os.read(out, 1 << 18)
print([pages[at + 8:at + 12].hex() for at in range(0, len(pages), 4096)], pages.count(b'x' * 20))
print(len(os.read(raw, 100)), told(os.splice, raw, into, 4096), len(os.read(raw, 8192)))
print(os.fstat(raw).st_size, os.stat(RAW).st_size, told(os.lseek, raw, 0, os.SEEK_END))
"""
    assert done(run, script) == [
        "EAGAIN",
        "EAGAIN",
        "4096",
        "4096",
        "EAGAIN",
        "['d00f0000', 'd00f0000'] 184",  # 92 events of 44 bytes each
        "100 EINVAL 3996",
        "0 0 ESPIPE",
    ]


def test_who_splices_next_gets_other_pages(run: Run) -> None:
    script = """
put('buffer_size_kb', '64')
first = os.open(RAW, os.O_RDONLY | os.O_NONBLOCK)
marks(500)
print(told(os.splice, first, into, 4096), len(os.read(out, 4096)))
second = os.open(RAW, os.O_RDONLY | os.O_NONBLOCK)
print(told(os.splice, second, into, 4096))
page = os.read(out, 4096)
print(told(os.splice, second, into, 4096), told(os.splice, first, into, 4096))
print(len({page, os.read(out, 4096), os.read(out, 4096)}))
"""
    assert done(run, script) == ["4096 4096", "4096", "4096 4096", "3"]


def test_a_splice_waits_as_it_was_told(run: Run) -> None:
    script = """
put('buffer_size_kb', '64')
raw = os.open(RAW, os.O_RDONLY)
print(told(os.splice, raw, into, 65536, None, None, NONBLOCK))
marks(200)
print(told(os.splice, raw, into, 65536))  # doesn't wait for more
if not os.fork():
    marks(300); os._exit(0)
print(told(os.splice, raw, into, 4096))
os.wait()
while told(os.splice, raw, into, 65536, None, None, NONBLOCK) != 'EAGAIN': pass
put('buffer_percent', '100')
class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    os.splice(raw, into, 4096)
except Alarm: print('broken')
if not os.fork():
    while open(f'/proc/{os.getppid()}/stat', 'rb').read().split()[2] not in b'SD': pass
    put('tracing_on', '0'); os._exit(0)
print(told(os.splice, raw, into, 4096))
"""
    assert done(run, script) == ["EAGAIN", "8192", "4096", "broken", "0"]


def test_a_waiting_splice_stops_nobody_else(run: Run) -> None:
    """The page that it waits for is locked: whoever looks at the file mustn't wait for that lock."""
    script = """
raw = os.open(RAW, os.O_RDONLY)
put('buffer_size_kb', '64')
child = os.fork()
if not child:
    told(os.splice, raw, into, 4096); os._exit(0)
while open(f'/proc/{child}/stat', 'rb').read().split()[2] not in b'SD': pass
print(os.stat(RAW).st_size, os.fstat(raw).st_size)
other = os.open(RAW, os.O_RDONLY | os.O_NONBLOCK)
print(told(os.read, other, 4096), bool(select.select([other], [], [], 0)[0]))
marks(500)
print(os.waitpid(child, 0)[1])
"""
    assert done(run, script) == ["0 0", "EAGAIN False", "0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["kprobe_events", "README", "tracing_on", "snapshot", "error_log", "available_events", "events/enable"]
)
def test_what_has_no_splice(run: Run, name: str) -> None:
    """Programs then read instead: an empty file would be taken for the end."""
    script = f"""
sink = os.open('/dev/null', os.O_WRONLY)
file = os.open({name!r}, os.O_RDONLY)
print(os.fstat(file).st_size, told(os.splice, file, into, 4096), told(os.sendfile, sink, file, None, 4096))
"""
    assert done(run, script) == ["0 EINVAL EINVAL"]


def test_the_trace_is_sent(run: Run) -> None:
    script = """
import shutil
put('buffer_size_kb', '64')
marks(300)
whole = open('trace', 'rb').read()
shutil.copyfile('trace', '/tmp/.kprobe-sim-trace'); shutil.copyfile('README', '/tmp/.kprobe-sim-readme')
print(open('/tmp/.kprobe-sim-trace', 'rb').read() == whole, len(whole) > 12000)
print(open('/tmp/.kprobe-sim-readme', 'rb').read() == open('README', 'rb').read())
os.unlink('/tmp/.kprobe-sim-trace'); os.unlink('/tmp/.kprobe-sim-readme')
"""
    assert done(run, script) == ["True True", "True"]


def test_positions_after_a_write(run: Run) -> None:
    """A write to kprobe_events doesn't move the position of reads, one to a switch moves it by one."""
    script = """
file = os.open('kprobe_events', os.O_RDWR)
print(os.write(file, b'p:a do_sys_openat2'), os.read(file, 4096), os.read(file, 4096))
print(os.lseek(file, 0, os.SEEK_SET), os.read(file, 3))
file = os.open('tracing_on', os.O_RDWR)
print(os.write(file, b'0'), os.read(file, 4096))
"""
    assert done(run, script) == ["18 b'p:kprobes/a do_sys_openat2\\n' b''", "0 b'p:k'", "1 b'\\n'"]


def test_appending_while_somebody_reads(run: Run) -> None:
    script = """
reader = os.open('tracing_on', os.O_RDONLY)
os.fstat(reader)
file = os.open('tracing_on', os.O_RDWR | os.O_APPEND)
print(os.write(file, b'0'), os.read(file, 4096), os.fstat(file).st_size, os.read(reader, 4096))
reader = os.open('kprobe_events', os.O_RDONLY)
file = os.open('kprobe_events', os.O_RDWR | os.O_APPEND)
print(os.write(file, b'p:a do_sys_openat2\\n'), os.write(file, b'p:b do_sys_openat2\\n'), os.read(file, 10))
print(os.read(reader, 10))
"""
    assert done(run, script) == ["1 b'\\n' 0 b'0\\n'", "19 19 b'p:kprobes/'", "b'p:kprobes/'"]


@pytest.mark.requires("busybox")
def test_busybox_cat(run: Run) -> None:
    """It copies by sendfile(2)."""
    assert run(["busybox", "cat", f"{TRACING}/tracing_on"]).stdout == "1\n"
