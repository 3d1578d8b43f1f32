"""Surveys this machine before it is recorded: what is missing, who is tracing, what the recording will do."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kprobe_vm.recording.chains import OPTIMIZATION
from kprobe_vm.recording.functions import KINDS
from kprobe_vm.recording.guest import TRACING, Tree

ROOT = "run it as root"
BLACKLIST = "sys/kernel/debug/kprobes/blacklist"
PROGRAMS = ("find", "stat", "grep", "sh")
NEEDED = (*KINDS, ("_stext",), ("_etext",), ("_end",))  # one of each
# Files of the tracefs and what they contain when nobody traces; the first group is the setting.
IDLE = {
    "current_tracer": re.compile(rb"\A(?!nop\n)(.*)\n"),
    "tracing_on": re.compile(rb"\A(?!1\n)(.*)\n"),
    **dict.fromkeys(("set_event", "set_event_pid", "set_event_notrace_pid"), re.compile(rb"(.+)")),
    **dict.fromkeys(("set_ftrace_pid", "set_ftrace_notrace_pid"), re.compile(rb"\A(?!no pid)(.+)")),
    **dict.fromkeys(("set_ftrace_filter", "set_ftrace_notrace"), re.compile(rb"^(?!#)(.+)", re.MULTILINE)),
    **dict.fromkeys(("set_graph_function", "set_graph_notrace"), re.compile(rb"^(?!#)(.+)", re.MULTILINE)),
    **dict.fromkeys(("kprobe_events", "uprobe_events", "synthetic_events", "dynamic_events"), re.compile(rb"(.+)")),
    "trace": re.compile(rb"^(?!#|\n)(.+)", re.MULTILINE),
    "error_log": re.compile(rb"^(\[.*|.*error: .*)", re.MULTILINE),
}
REMEDY = {
    "trace": f"it would be emptied; to empty it: echo > /{TRACING}/trace",
    "error_log": f"it would be emptied; to empty it: echo > /{TRACING}/error_log",
    "tracing_on": f"to switch it on: echo 1 > /{TRACING}/tracing_on",
}


class Survey(NamedTuple):
    """Lines for the user: why it can't be recorded, who traces, what the profile will lack, and how it will differ."""

    cannot: list[str]
    tracing: list[str]
    lacking: list[str]
    differing: list[str]


def survey(tree: Tree) -> Survey:
    """Survey a machine's files without changing anything."""
    cannot = list(_cannot(tree))
    if cannot:
        return Survey(cannot, [], [], [])
    return Survey([], list(_tracing(tree)), list(_lacking(tree)), list(_differing(tree)))


def configuration(tree: Tree) -> str:
    """Return the text of /boot/config-RELEASE, "" if it isn't there."""
    try:
        release = tree.read("proc/sys/kernel/osrelease").decode().strip()
        return tree.read(f"boot/config-{release}").decode("utf-8", "replace")
    except OSError:
        return ""


# ---- requirements ----


def _cannot(tree: Tree) -> Iterator[str]:
    if (processor := os.uname().machine) != "x86_64":
        yield f"this machine is {processor}: the recorder reads the code of x86-64 only"
    if importlib.util.find_spec("capstone") is None:
        yield "no Python package capstone, which decodes the kernel's code: pip install 'kprobe-sim[record]'"
    if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
        yield f"no {', '.join(absent)}, which the recorder runs: apt-get install coreutils findutils grep dash"
    if trouble := _no_tracefs(tree):
        yield trouble
        return
    yield from _symbols(tree)
    yield from _code(tree)
    try:
        tree.read(BLACKLIST)
    except FileNotFoundError:
        yield f"no /{BLACKLIST}, which says where no probe may be: mount -t debugfs nodev /sys/kernel/debug"
    except OSError as error:
        yield f"/{BLACKLIST}, which says where no probe may be: {error.strerror}: {_remedy(tree, error)}"


def _no_tracefs(tree: Tree) -> str:
    try:
        names = tree.listdir(TRACING)
    except FileNotFoundError:
        names = []
    except OSError as error:
        return f"/{TRACING}: {error.strerror}: {_remedy(tree, error)}"
    if "events" not in names:
        return f"no tracefs on /{TRACING}: mount -t tracefs nodev /{TRACING}"
    if "kprobe_events" not in names:
        return f"no /{TRACING}/kprobe_events: the kernel was built without CONFIG_KPROBE_EVENTS"
    return ""


def _symbols(tree: Tree) -> Iterator[str]:
    try:
        text = tree.read("proc/kallsyms").decode("utf-8", "replace")
    except OSError as error:
        yield f"/proc/kallsyms, which has the kernel's symbols: {error.strerror}: {_remedy(tree, error)}"
        return
    places = {line.split("\t")[0].split(" ")[-1] for line in text.splitlines()}
    if not any(address.strip("0") for address in re.findall(r"^[0-9a-f]+", text, re.MULTILINE)):
        yield "/proc/kallsyms has no addresses: run it as root, with sysctl kernel.kptr_restrict=1 if that is 2"
    elif absent := [names[0] for names in NEEDED if not any(name in places for name in names)]:
        yield f"no symbol {', '.join(absent)} in /proc/kallsyms: this kernel can't be recorded"


def _code(tree: Tree) -> Iterator[str]:
    try:
        file = tree.open("proc/kcore", os.O_RDONLY)
        try:
            file.read(64)
        finally:
            file.close()
    except FileNotFoundError:
        yield "no /proc/kcore (CONFIG_PROC_KCORE), and so not where instructions start, which takes the kernel's code"
    except OSError as error:
        yield f"/proc/kcore, which has the kernel's code: {error.strerror}: {_remedy(tree, error)}"


def _remedy(tree: Tree, error: OSError) -> str:
    with contextlib.suppress(OSError):
        state = re.search(rb"\[(integrity|confidentiality)\]", tree.read("sys/kernel/security/lockdown"))
        if state and error.errno == errno.EPERM:
            return f"the kernel is locked down ({state[1].decode()}), as with Secure Boot; kprobe-vm record its image"
    return ROOT


# ---- active tracing ----


def _tracing(tree: Tree) -> Iterator[str]:
    for name, pattern in IDLE.items():
        with contextlib.suppress(OSError):  # not in every kernel
            if found := pattern.findall(tree.read(f"{TRACING}/{name}")):
                more = f", and {len(found) - 1} more" if len(found) > 1 else ""
                remedy = f" ({REMEDY[name]})" if name in REMEDY else ""
                yield f"{name}: {found[0].decode('utf-8', 'replace')}{more}{remedy}"
    with contextlib.suppress(OSError):
        if instances := tree.listdir(f"{TRACING}/instances"):
            yield f"instances: {', '.join(instances)}"
    yield from _event_files(tree)
    yield from _readers(tree)
    for path in ("sys/kernel/debug/kprobes/list", f"{TRACING}/enabled_functions"):
        with contextlib.suppress(OSError):
            names = set(re.findall(r"[\w.]+", tree.read(path).decode("utf-8", "replace")))
            if used := [name for kind in KINDS for name in kind if name in names]:
                yield f"/{path}: {', '.join(used)} (somebody has a probe there, which changes the stacks)"


def _event_files(tree: Tree) -> Iterator[str]:
    """Yield the events that have a filter or a trigger, which set_event doesn't show."""
    events = f"{TRACING}/events"
    for system in tree.listdir(events):
        with contextlib.suppress(NotADirectoryError):
            for event in tree.listdir(f"{events}/{system}"):
                for name, pattern in (("filter", rb"\A(?!none\n)(.+)"), ("trigger", rb"(?m)^(?!#)(.+)")):
                    path = f"{events}/{system}/{event}/{name}"
                    with contextlib.suppress(OSError):  # no event, or one of ftrace's own
                        if found := re.search(pattern, tree.read(path)):
                            yield f"{path.removeprefix(TRACING + '/')}: {found[1].decode('utf-8', 'replace')}"


def _readers(tree: Tree) -> Iterator[str]:
    """Yield the processes that have a file of the tracefs open."""
    for pid in filter(str.isdecimal, tree.listdir("proc")):
        with contextlib.suppress(OSError):  # it has ended, or we lack permission
            for number in tree.listdir(f"proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{number}")
                    if re.match(r"/sys/kernel/(debug/)?tracing/.", target) and int(pid) != os.getpid():
                        comm = tree.read(f"proc/{pid}/comm").decode("utf-8", "replace").strip()
                        yield f"process {pid} ({comm}) has {target} open"


# ---- the plan ----


def _lacking(tree: Tree) -> Iterator[str]:
    if not tree.exists("sys/kernel/btf/vmlinux"):
        yield "the functions' parameters by name, as there is no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)"
    if not tree.exists("proc/config.gz") and not configuration(tree):
        yield "the kernel's configuration, as there is neither /proc/config.gz nor /boot/config-RELEASE: --config FILE"


def _differing(tree: Tree) -> Iterator[str]:
    cpus = len(re.findall(rb"^processor\s*:", tree.read("proc/cpuinfo"), re.MULTILINE))
    modules = len(tree.read("proc/modules").splitlines())
    yield f"tasks: process 1 and the kernel's own threads; CPUs: {cpus}; modules: the {modules} that are loaded"
    yield "addresses: those of this boot (whoever has the profile knows where this kernel lies until the next)"
    yield "options, clock and sizes: as this machine has them set, which are the kernel's defaults elsewhere"
    if b"expanded" not in tree.read(f"{TRACING}/buffer_size_kb"):
        yield "the ring buffer: it has been used since boot, so it is expanded already"


def plan(surveyed: Survey, tree: Tree) -> Mapping[str, list[str]]:
    """Return what a recording does, as lines below headings."""
    optimization = [f"/{OPTIMIZATION}: off, and on again"] if tree.exists(OPTIMIZATION) else []
    return {
        "It reads": [
            "all of the tracefs, /proc/kallsyms, the kernel's code in /proc/kcore, BTF, the names of kernel threads"
        ],
        "It writes, and undoes": [
            f"/{TRACING}/kprobe_events: probes `recorded`, `chain`, `other`, which a process of its own hits",
            f"/{TRACING}/instances/recorded, options (latency-format, sym-offset, stacktrace), triggers, marks",
            "for some 90 questions: an instance zz_questions with its options, and probes of the group zz",
            *optimization,
        ],
        "What stays": ["the ring buffer has its full size until the next boot; ids of new events go on from there"],
        "It takes": [
            "a few seconds, in which nobody else should trace; then up to a minute to decode the kernel's code"
        ],
        "The profile will lack": surveyed.lacking,
        "It differs from one that kprobe-vm record makes in": surveyed.differing,
    }
