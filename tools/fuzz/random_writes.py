"""Developers run it after a change to writable files: random bytes into each of the tracefs; nothing may break.

    python tools/fuzz/random_writes.py [COUNT] [SEED]

It writes COUNT (a million) byte strings, divided among the profiles, and prints a summary.  A refusal must carry an
errno that the kernel's code can return for that file.  After every 20,000 writes it reads the whole tree, deletes all
events and takes a trace.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.tree.files.node import DirNode, Node

PROFILES = ("5.10", "6.1", "6.12", "7.2", "7.3")
AT_ONCE = 20_000
EVENTS = ("sched/sched_switch", "syscalls/sys_enter_openat", "ftrace/print", "timer/timer_start")

_E = errno.errorcode
# what a handler of numbers can say: simple_strtoul and kstrtoul, ranges, an open that isn't for writing
_NUMBER = frozenset({"EINVAL", "ERANGE"})
_PROBES = frozenset(
    {"EINVAL", "ENOENT", "EEXIST", "EILSEQ", "EBUSY", "E2BIG", "ENOSPC", "ERANGE", "EADDRNOTAVAIL", "EOPNOTSUPP"}
)
# by the last part of the path; the kernel's handlers are named in kprobe_sim/tree/control_files.py
ALLOWED: dict[str, frozenset[str]] = {
    "kprobe_events": _PROBES,
    "uprobe_events": _PROBES | {"ENOTDIR", "EISDIR", "ENAMETOOLONG", "EACCES"},
    "synthetic_events": _PROBES,
    "dynamic_events": _PROBES | {"ENOTDIR", "EISDIR", "ENAMETOOLONG", "EACCES"},
    # a filter's parentheses and quotes are counted by calc_stack(), whose -1, -2, -3 are handed out as they are;
    # ENOSYS: actions of histograms
    "trigger": frozenset({"EINVAL", "EEXIST", "ENOENT", "ENOSYS", "ERANGE", "E2BIG", "EPERM", "ESRCH", "ENOMEM"}),
    "filter": frozenset({"EINVAL", "E2BIG", "EPERM", "ENOENT", "ESRCH"}),
    "enable": _NUMBER,
    "set_event": frozenset({"EINVAL"}),
    "set_event_pid": frozenset({"EINVAL", "EPERM", "ERANGE"}),
    "set_event_notrace_pid": frozenset({"EINVAL", "EPERM", "ERANGE"}),
    "set_ftrace_pid": frozenset({"EINVAL", "EPERM", "ERANGE"}),
    "set_ftrace_notrace_pid": frozenset({"EINVAL", "EPERM", "ERANGE"}),
    "trace_marker": frozenset({"EBADF", "EINVAL"}),
    "trace_marker_raw": frozenset({"EBADF", "EINVAL"}),
    "buffer_size_kb": _NUMBER | {"ENOMEM"},
    "snapshot": _NUMBER | {"ENOMEM", "EBUSY"},
    "free_buffer": frozenset(),
    "trace": frozenset(),
    "tracing_cpumask": frozenset({"EINVAL", "EOVERFLOW"}),
    "current_tracer": frozenset({"EINVAL"}),
    "set_ftrace_filter": frozenset({"EINVAL", "ENOENT", "ENODEV"}),
    "set_ftrace_notrace": frozenset({"EINVAL", "ENOENT", "ENODEV"}),
    "set_graph_function": frozenset({"EINVAL", "ENOENT", "ENODEV", "EBUSY", "ENOSPC"}),
    "set_graph_notrace": frozenset({"EINVAL", "ENOENT", "ENODEV", "EBUSY", "ENOSPC"}),
    "stack_trace_filter": frozenset({"EINVAL", "ENOENT", "ENODEV"}),
}
_WORDS = (
    *(
        b"p:a vfs_read",
        b"r:g/b vfs_read $retval",
        b"-:a",
        b"-:g/",
        b"!p:a",
        b" ",
        b"\n",
        b"#",
        b"+0(%di):string",
        b"%di",
    ),
    *(b"traceon", b"!traceoff:1", b" if ", b"enable_event:sched:sched_switch", b"hist:keys=common_pid", b"snapshot"),
    *(b"common_pid == 1", b"&&", b"||", b"(", b")", b'"x*"', b"~", b"prev_comm", b"0", b"1", b"-1", b"99999999999"),
    *(
        b"nosym-offset",
        b"mono",
        b"global",
        b"sched:*",
        b"*:sched_switch",
        b"function",
        b"nop",
        b"u64 a",
        b"s:syn int x",
    ),
    *(b"e:ev sched/sched_switch a=$prev_pid", b"f:fe vfs_read", b"t:tp sched_switch", b"p:u /bin/sh:0x1", b"\0", b"4"),
)
_FLAGS = (os.O_WRONLY,) * 8 + (os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_TRUNC)


# files of which a part or all isn't simulated, see docs/reference/limits.md: they say ENOSYS
NOT_SIMULATED = frozenset({"buffer_subbuf_size_kb", "syscall_user_buf_size", "current_tracer"})
SLOW = ("set_ftrace_filter", "set_ftrace_notrace", "set_graph_function", "set_graph_notrace", "stack_trace_filter")


class Broken(AssertionError):
    """The simulator did what no kernel does."""


class Target(NamedTuple):
    """A simulated kernel and the files of it that can be written to."""

    kernel: SimulatedKernel
    paths: list[str]

    @classmethod
    def of(cls, profile: str) -> Target:
        """Make a kernel with an instance and some probes."""
        kernel = SimulatedKernel(profile)
        tracefs = kernel.tracefs
        tracefs.mkdir("instances/i")
        tracefs.write("kprobe_events", b"p:g/e do_sys_openat2 f=+0(%si):string n=%dx\nr:g/r vfs_read v=$retval\n")
        return cls(kernel, sorted(set(_writable(kernel))))


def _writable(kernel: SimulatedKernel) -> Iterator[str]:
    tracefs = kernel.tracefs
    for top in ("", "instances/i/"):
        found = [f"{top}{name}" for name in tracefs.listdir(top.rstrip("/"))]
        found += [f"{top}options/{name}" for name in tracefs.listdir(f"{top}options")]
        found += [f"{top}per_cpu/cpu0/{name}" for name in tracefs.listdir(f"{top}per_cpu/cpu0")]
        found += [f"{top}events/enable", f"{top}events/g/enable", f"{top}events/g/filter", f"{top}events/sched/filter"]
        for event in (*EVENTS, "g/e", "g/r"):
            found += [f"{top}events/{event}/{name}" for name in tracefs.listdir(f"{top}events/{event}")]
        for path in found:
            node = node_at(kernel, path)
            if not isinstance(node, DirNode) and node.mode & 0o222:
                yield path


def node_at(kernel: SimulatedKernel, path: str) -> Node:
    """Return the node of a path that is there."""
    node: Node = kernel.root
    for name in path.split("/"):
        found = node.lookup(name) if isinstance(node, DirNode) else None
        if found is None:
            raise Broken(f"{path} is listed, and not there")
        node = found
    return node


def datum(random: Random) -> bytes:
    """Return bytes: any at all, or words of the files' languages among them."""
    if random.random() < 0.5:
        return random.randbytes(random.choice((0, 1, 2, 3, 5, 8, 20, 60, 200, 1000, 5000)))
    words = [
        random.choice(_WORDS) if random.random() < 0.8 else random.randbytes(2) for _ in range(random.randrange(1, 6))
    ]
    return b"".join(words)


def write(target: Target, path: str, data: bytes, flags: int) -> str:
    """Write once; return the name of the errno, "" for none.  Raise `Broken` for what no kernel answers."""
    try:
        with target.kernel.tracefs.open(path, flags) as file:
            file.write(data)
        return ""
    except OSError as error:
        name = _E.get(error.errno or 0, "?")
        last = path.rpartition("/")[2]
        if name == "ENOENT" and not target.kernel.tracefs.exists(path):
            return "gone"  # an event that some write has removed
        if name == "ENOSYS" and last in NOT_SIMULATED:
            return name
        if name in ALLOWED.get(last, _NUMBER) or (name == "EBUSY" and flags & os.O_TRUNC):
            return name
        raise Broken(f"{name} for {data[:200]!r} to {path}, flags {flags:#o}") from error
    except Exception as error:
        raise Broken(f"{type(error).__name__}: {error} for {data[:200]!r} to {path}") from error


def files(kernel: SimulatedKernel, directory: str = "") -> Iterator[str]:
    """Yield all files that can be read, of static events only some."""
    for name in kernel.tracefs.listdir(directory):
        path = f"{directory}/{name}".lstrip("/")
        node = node_at(kernel, path)
        parts = path.removeprefix("instances/i/").split("/")
        if isinstance(node, DirNode):
            is_static = len(parts) == 3 and parts[0] == "events" and kernel.profile.tracefs.has_event(*parts[1:])
            if not is_static or "/".join(parts[1:]) in EVENTS:
                yield from files(kernel, path)
        elif node.mode & 0o444:
            yield path


def check(target: Target) -> int:
    """Read the whole tree, remove what is there, and take a trace; return the number of files read."""
    kernel = target.kernel
    tracefs = kernel.tracefs
    count = 0
    for path in files(kernel):
        try:
            with tracefs.open(path, os.O_RDONLY | os.O_NONBLOCK) as file:
                while file.read(65536):
                    pass
        except BlockingIOError:
            pass
        except OSError as error:
            name = _E.get(error.errno or 0, "?")
            if name not in ("EINVAL", "EBUSY", "ENODEV") and not path.endswith(("/hist", "/btf_ids")):
                raise Broken(f"{name} when {path} is read") from error
        except Exception as error:
            raise Broken(f"{type(error).__name__}: {error} when {path} is read") from error
        count += 1
    clean(kernel)
    trace(kernel)
    return count


def clean(kernel: SimulatedKernel) -> None:
    """Remove all triggers and dynamic events; raise `Broken` if one stays."""
    tracefs = kernel.tracefs
    for top in ("", "instances/i/"):
        dynamic = {f"{event.system}/{event.name}" for event in kernel.events.named.values()}
        for event in sorted(dynamic | set(EVENTS)):
            path = f"{top}events/{event}/trigger"
            if not tracefs.exists(path):
                continue
            tracefs.write(path, b"", truncate=True)
            for line in tracefs.read(path).splitlines():
                if not line.startswith(b"#"):
                    tracefs.write(path, b"!" + line.split(b":unlimited")[0].split(b":count=")[0])
        tracefs.write(f"{top}set_event", b"", truncate=True)
    for _ in range(
        len(kernel.events.named.values()) + 1
    ):  # a synthetic event may be needed by another until that is gone
        try:
            tracefs.write("dynamic_events", b"", truncate=True)
            break
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
    if tracefs.read("dynamic_events"):
        raise Broken(f"these stay: {tracefs.read('dynamic_events')!r}")


def trace(kernel: SimulatedKernel) -> None:
    """Take a trace; raise `Broken` if it isn't as it should be."""
    tracefs = kernel.tracefs
    for name in ("set_event_pid", "set_event_notrace_pid", "trace"):
        tracefs.write(name, b"", truncate=True)
    for word in tracefs.read("trace_options").split():
        on = word in (b"nocontext-info", b"noirq-info", b"norecord-cmd")
        if on or word in (b"raw", b"hex", b"bin", b"fields", b"latency-format", b"printk-msg-only", b"stacktrace"):
            tracefs.write("trace_options", word[2:] if on else b"no" + word)
    for name, value in (
        ("tracing_on", b"1"),
        ("tracing_cpumask", b"1"),
        ("trace_clock", b"local"),
        ("buffer_size_kb", b"64"),
    ):
        tracefs.write(name, value)
    tracefs.write("current_tracer", b"nop")
    tracefs.write("kprobe_events", b"p:fresh/x do_sys_openat2 path=+0(%si):string")
    tracefs.write("events/fresh/x/enable", b"1")
    kernel.call("do_sys_openat2", task=Task(42, "cat"), args=(-100, "/etc/passwd"), returns=3)
    text = tracefs.read("trace")
    if text.count(b' path="/etc/passwd"\n') != 1:
        raise Broken(f"a new trace reads {text[-300:]!r}")
    tracefs.write("events/fresh/x/enable", b"0")
    tracefs.write("kprobe_events", b"-:fresh/x")
    tracefs.write("kprobe_events", b"p:g/e do_sys_openat2 f=+0(%si):string n=%dx\nr:g/r vfs_read v=$retval\n")


def campaign(profile: str, count: int, seed: int) -> Counter[str]:
    """Write that often; return how often each errno came, and how many files were read between."""
    random = Random(f"{profile} {seed}")
    target = Target.of(profile)
    answers: Counter[str] = Counter()
    for number in range(1, count + 1):
        path = random.choice(target.paths)
        if path.endswith(SLOW) and random.random() < 0.97:  # each looks at all functions
            path = "kprobe_events"
        answers[write(target, path, datum(random), random.choice(_FLAGS)) or "taken"] += 1
        if number % AT_ONCE == 0 or number == count:
            answers["files read"] += check(target)
    return answers


def main() -> int:
    count, seed = (int(word) for word in (*sys.argv[1:], *("1000000", "0")[len(sys.argv) - 1 :]))
    for profile in PROFILES:
        start = time.monotonic()
        answers = campaign(profile, count // len(PROFILES), seed)
        found = ", ".join(f"{name} {number:,}" for name, number in answers.most_common())
        print(f"{profile}: {count // len(PROFILES):,} writes in {time.monotonic() - start:.0f} s: {found}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
