"""Developers run it when the contract changes: where ways to the simulator differ; writes docs/evidence/ways.md.

The rows are those of tests/conformance/contract.py.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "ways.md"
WAYS = ("in-process", "patched", "pyfakefs", "mount")
HEAD = """\
# What each way of seeing the simulator answers

The page is made by `tools/docs/ways.py` from `tests/conformance/contract.py`, and a test holds it to that. Each row is
a few system calls; the same body runs

- *in-process*: on `SimulatedKernel.tracefs`
- *patched*: on `os` within `kprobe_sim.expose.patched()`
- *pyfakefs*: the same within pyfakefs' `fs`
- *mount*: in a Python child of `kprobe-sim run`, on the kernels 5.10, 6.1, 6.12, 7.2 and 7.3
- *guest*: on these real kernels in QEMU (`make vm-test`)

`=` is what stands under *answer*, which is that of a real 6.1 kernel.

"""
TAIL = """
## What a mount can't do

The kernel's own file code stands before a FUSE file system, which shows. The first rows are asked of the mount and of a
real 6.1 kernel by `tests/conformance/limits.c`, whose other answers are the same on both.

| | tracefs | mount |
|---|---|---|
LIMITS| type in `/proc/mounts` | `tracefs` | `fuse.tracefs`; inside `kprobe-sim run` that file says `tracefs` |
| type in `statfs` | `tracefs` | the same inside `kprobe-sim run`, unless `--only-tracefs` is given; else FUSE |
| position of `trace` opened for writing only | stays 0 | moves |
| `splice` of `trace_pipe` | whole lines | EINVAL; a program that then reads is none the wiser |
| `splice` of `trace` | what a read gives | up to the end, by the page |
| `splice` of less than a page of `trace_pipe_raw` | EINVAL | a part of the page |
| `mmap`, private | ENODEV | is taken, and reads what `splice` gives |
| a write of more than 1 MiB | one write | several |

## What Python code of the same process can't see

With `sys_kernel_tracing`, `simulated_machine` and `patched()`: other processes, C code and functions that were bound
before the test (`from os import open`) don't see the simulated files. Where Python can tell, they fail with
`NotCovered`, and the message names the way that covers them: run the whole test inside `kprobe-sim run`. `epoll` takes
every file, the kernel's only those that can be waited for.

## The machine around it

Inside `kprobe-sim run` these are the simulated machine's as well, where this machine has them: uname(2), `/dev/kmsg`,
`/proc/version`, `/proc/kallsyms`, `/sys/kernel/debug/kprobes/`, the numbers of CPUs, `/proc/sys/kernel/osrelease`,
`ftrace_enabled`, `kptr_restrict`, `traceoff_on_warning`, `tracepoint_printk`, `ftrace_dump_on_oops`,
`stack_tracer_enabled`, and `/proc/sys/debug/kprobes-optimization`; what is written to those is kept and without effect.
`/sys/kernel/btf` is empty. With `--only-tracefs` all but debugfs stay this machine's. uname is answered through
seccomp_unotify(2), which a process tree can have once: a `kprobe-sim run` inside another keeps the outer one's name.

perf_event_open(2) and bpf(2) fail there with ENOSYS, as on a kernel that was built without them. They would reach this
machine's kernel, where the number of an event is that of another event, or of none, and count that without a word.
`perf stat` says `<not supported>`, `perf record` and `perf trace` that the function isn't implemented; `perf probe` and
`perf ftrace` use the tracefs and work. Where this machine has no seccomp(2) filters, nothing is refused.

Everything else is this machine's kernel's. It refuses what a user namespace may not do, with EPERM: loading modules,
kexec(2), `/proc/kcore`, its own tracefs and debugfs. It answers the rest in its own name: `/proc` but for the files
above, syslog(2), `/sys` (`perf list` shows the counters in `/sys/bus/event_source`), io_uring(7). To a command that
was started by root it also grants writes to `/proc/sys` and to files of devices.

`dmesg` of util-linux reads `/dev/kmsg`: the kernel's first line, what it says of refused definitions before 5.0, and
what programs write there. BusyBox's calls syslog(2). A program in a second PID namespace has other pids in its marks
than in its own eyes.

`kprobe-sim mount` shows the tracefs alone. Mounted by a user through fusermount3 the files are that user's.

## What `--follow` sees

With `kprobe-sim run --follow` what the command and its descendants do is what the simulated machine does:

| | what the machine does | results |
|---|---|---|
| open(2), creat(2), openat(2), openat2(2) | `do_sys_openat2`, unless the kernel gives up before | as given |
| fork(2), vfork(2), clone(2), clone3(2) | `kernel_clone`; sched_process_fork and related events | the child |
| execve(2), execveat(2) | `do_execveat_common`; task_rename, sched_process_exec | as given |
| the end of a thread, by exit or by a signal | `do_exit` with its status; sched_process_exit | |
| symlink(2), symlinkat(2) | `vfs_symlink`, if it succeeds | as given |
| chdir(2), kill(2) | their system call alone | as given |
| waits: wait4, poll, select, nanosleep, pause, recvmsg … | sched_switch | none |

Results are those that this machine's kernel gave; where a signal interrupts it is -512, as inside any kernel. The
events of syscalls and raw_syscalls surround all but the waits. Not seen, and never made up:

- all other calls, reads and writes among them; opens by io_uring(7); uprobes
- what lies between: no function but those above is called, and none of their arguments are known but those of
  `do_sys_openat2`. The return address in it is the build's own for openat and fork; of the other ways there it is
  known which function calls, not where in it, so it is shown as `+0x0`.
- whether a symlink that failed got to `vfs_symlink`, and a clone3 that failed to `kernel_clone` (it is said to have,
  if the kernel could read its arguments)
- 32-bit programs: their opens, forks, execs and ends are seen, their system calls' events are left out. Programs for
  the x32 interface are not seen, and a process that is started by clone3(2) with CLONE_UNTRACED can't open files.
- on which CPU a task ran, and when it was preempted: all is on CPU 0, one after another
- the time that a call takes is longer than on a kernel, by what it takes to report it

The programs are traced with ptrace(2). So none of them can be traced by another one there: strace and gdb say
`Operation not permitted` (without `--follow` they work), and `kprobe-sim run --follow` can't itself be run by them. It
says so where ptrace is forbidden (`kernel.yama.ptrace_scope` 2 or 3, some containers).
"""


def load(path: Path) -> ModuleType:
    """Import a module by its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(value: object) -> str:
    """Return an answer as a cell."""
    if isinstance(value, bytes):
        text = value.decode().replace("\n", "\\n")
        text = f'"{text}"'
    elif isinstance(value, list):
        text = ", ".join(str(part).replace("\n", "\\n") for part in value)
    else:
        return str(value)
    return "`" + text.replace("|", "\\|") + "`"


def page() -> str:
    """Return the text of the page."""
    contract = load(ROOT / "tests" / "conformance" / "contract.py")
    lines = ["| operation | answer | " + " | ".join(WAYS) + " | guest |", "|---" * (len(WAYS) + 3) + "|"]
    notes: list[str] = []
    for name, (_, answer) in contract.CASES.items():
        cells = [name, shown(answer)]
        for way in WAYS:
            other = contract.DIFFERENT[way].get(name)
            if way == "in-process" and name in contract.NOT_IN_PROCESS:
                cells.append("-")
            elif other is None:
                cells.append("=")
            else:
                notes.append(f"{way}, {name}: {other[1]}")
                cells.append(f"{shown(other[0])} ({len(notes)})")
        lines.append("| " + " | ".join([*cells, "="]) + " |")
    lines.append("\n`-`: `SimTracefs` has no such method.\n")
    lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    lines += ["", "## Kernels that answer otherwise", "", "On the mount, in-process and on the guests alike:", ""]
    lines += ["| operation | a README with | answer |", "|---|---|---|"]
    for name, answers in contract.BY_README.items():
        for text, answer in answers.items():
            lines.append(f"| {name} | {f'`{text.strip()}`' if text else 'none of these'} | {shown(answer)} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL.replace("LIMITS", limits())


def limits() -> str:
    """Return what of tests/conformance/limits.py a mount can't do, as rows."""
    found = load(ROOT / "tests" / "conformance" / "limits.py")
    return "".join(
        f"| {name} | {found.LIMITS[name]} | {answer}: {why} |\n" for name, (answer, why) in found.ON_MOUNT.items()
    )


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
