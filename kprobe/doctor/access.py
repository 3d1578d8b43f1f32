"""Whether a tracefs exists and this process may use it: mounts, permissions, lockdown, containers, the build."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator

from kprobe.doctor.diagnosis import NOTE, STOPS, Diagnosis, Fact
from kprobe.doctor.facts import Facts
from kprobe.doctor.machine import Machine
from kprobe.errors import NotPermitted, TracefsMissing
from kprobe.tracefs.capabilities import Capabilities
from kprobe.tracefs.mounts import DEBUGFS, EMPTY, TRACEFS

# Source: kernel 6.12, include/linux/proc_ns.h
FIRST_PID_NAMESPACE = "pid:[4026531836]"
FIRST_USER_NAMESPACE = "user:[4026531837]"
LOCKDOWN = "/sys/kernel/security/lockdown"
SHOW_LOCKDOWN = f"mount -t securityfs nodev /sys/kernel/security; cat {LOCKDOWN}"
COMMAND_LINE = "/proc/cmdline"
UNLOCK = "boot without lockdown=confidentiality; it can't be left while the kernel runs"
ON_HOST = "run it on the host, or in a container without a user namespace"
MOUNTS = "/proc/self/mounts"
STATUS = "/proc/self/status"
CAPABILITIES = {1: "CAP_DAC_OVERRIDE", 21: "CAP_SYS_ADMIN"}  # to open files of others; to mount
CONFIGS = ("/proc/config.gz", "/boot/config-{release}")
GZIP = 31  # zlib's number for the format of gzip
NO_KERNEL = "kprobe --tracefs sim: (a simulated kernel) or --tracefs vm: (a guest)"


def missing(error: TracefsMissing, machine: Machine) -> Iterator[Diagnosis]:
    """Yield why this machine shows no tracefs."""
    systems = (machine.text("/proc/filesystems") or "").split()
    facts = [Fact(place, found) for place, found in error.looked_at]
    if any(found == EMPTY for _, found in error.looked_at):
        yield from _empty(facts, machine)
    elif not error.hint:  # the user named a directory
        what = f"there is no tracefs at {facts[0].source}"
        yield Diagnosis(STOPS, "mount", what, tuple(facts), "kprobe doctor --tracefs local")
    elif "tracefs" in systems:
        facts.append(Fact("/proc/filesystems", "tracefs"))
        yield Diagnosis(STOPS, "mount", "no tracefs is mounted", tuple(facts), _mount(machine))
    elif "debugfs" in systems:
        facts.append(Fact("/proc/filesystems", "debugfs, and no tracefs"))
        helps = "mount -t debugfs nodev /sys/kernel/debug"
        yield Diagnosis(
            STOPS, "mount", "no debugfs is mounted, where older kernels have their tracefs", tuple(facts), helps
        )
    elif systems:
        facts.append(Fact("/proc/filesystems", "neither tracefs nor debugfs"))
        what = "this kernel has no tracefs: built without CONFIG_TRACING"
        yield Diagnosis(STOPS, "mount", what, tuple(facts), NO_KERNEL)
    else:
        helps = _mount(machine) if machine.text(MOUNTS) else "mount -t proc nodev /proc; kprobe doctor"
        yield Diagnosis(STOPS, "mount", "no tracefs was found", tuple(facts), helps)


def _empty(facts: list[Fact], machine: Machine) -> Iterator[Diagnosis]:
    """Yield why a mounted tracefs has no files, unless the known state of lockdown explains it."""
    facts = [fact for fact in facts if fact.says == EMPTY]
    if machine.text(LOCKDOWN) is not None:
        if not _locked(machine, "confidentiality"):
            yield Diagnosis(STOPS, "mount", "a tracefs is mounted, but has no files", tuple(facts), NO_KERNEL)
        return
    words = [word for word in (machine.text(COMMAND_LINE) or "").split() if word.startswith(("lockdown=", "lsm="))]
    what = "a tracefs is mounted, but has no files, as when the kernel is locked down (confidentiality)"
    told = Fact(COMMAND_LINE, " ".join(words)) if words else Fact(LOCKDOWN, "there is no such file")
    yield Diagnosis(STOPS, "lockdown", what, (*facts, told), UNLOCK if words else SHOW_LOCKDOWN)


def _mount(machine: Machine) -> str:
    """Return the command that mounts a tracefs: not in a user namespace, and only where a sysfs has its directory."""
    if _is_in_user_namespace(machine):
        return ON_HOST
    rows = [line.split(" ") for line in (machine.text(MOUNTS) or "").splitlines()]
    kinds = [row[2] for row in rows if len(row) > 2 and row[1] == "/sys"]  # later mounts cover earlier ones
    has_sysfs = not rows or kinds[-1:] == ["sysfs"]
    return ("" if has_sysfs else "mount -t sysfs nodev /sys; ") + f"mount -t tracefs nodev {TRACEFS}"


def closed(error: NotPermitted, machine: Machine) -> Iterator[Diagnosis]:
    """Yield why an existing tracefs is closed to this process."""
    facts = [Fact(error.path, os.strerror(error.errno)), *_who(machine)]
    yield Diagnosis(STOPS, "permissions", "the tracefs is closed to this process", tuple(facts), _as_root(machine))


def _as_root(machine: Machine) -> str:
    return ON_HOST if _is_in_user_namespace(machine) else "sudo kprobe doctor"


def of_files(facts: Facts) -> Iterator[Diagnosis]:
    """Yield what keeps this process from reading or writing an open tracefs."""
    if facts.denied:
        path, error = min(facts.denied.items())
        more = f", and {len(facts.denied) - 1} more" if len(facts.denied) > 1 else ""
        found = (Fact(facts.typed(path), f"{error.strerror}{more}"), *_who(facts.machine))
        yield Diagnosis(STOPS, "permissions", "files of the tracefs can't be read", found, _as_root(facts.machine))
    root = Capabilities(facts.tracefs).root
    path = facts.typed("kprobe_events")
    if facts.denied or root is None or not os.path.exists(path) or os.access(path, os.W_OK):
        return
    options = _options(facts.machine, root)
    if "ro" in options:
        found = (Fact(MOUNTS, f"{root} {','.join(options)}"),)
        yield Diagnosis(STOPS, "permissions", "the tracefs is mounted read-only", found, f"mount -o remount,rw {root}")
    else:
        found = (Fact(path, "not writable"), *_who(facts.machine))
        helps = _as_root(facts.machine)
        yield Diagnosis(STOPS, "permissions", "no probe can be added by this process", found, helps)


def of_machine(machine: Machine, root: str | None = None) -> Iterator[Diagnosis]:
    """Yield lockdown, containers, and a kernel built without kprobes; `root` is its open tracefs, if any."""
    if _locked(machine, "confidentiality"):
        what = "the kernel is locked down: in the state confidentiality it opens no tracefs and accepts no probe"
        yield Diagnosis(STOPS, "lockdown", what, (Fact(LOCKDOWN, machine.text(LOCKDOWN) or ""),), UNLOCK)
    yield from _config(machine)
    if machine.is_own:
        yield from _container(machine, root)


def unread(machine: Machine) -> Iterator[str]:
    """Yield the files of the machine that couldn't be read, and why."""
    for path, reason in sorted(machine.unread.items()):
        why = ""
        if reason == os.strerror(errno.EPERM) and path.startswith(DEBUGFS):
            if _locked(machine, "integrity") or _locked(machine, "confidentiality"):
                why = ", as the kernel is locked down"
            elif machine.text(LOCKDOWN) is None:
                why = f", as when the kernel is locked down, which is shown by: {SHOW_LOCKDOWN}"
        yield f"{path}: {reason}{why}"


def _locked(machine: Machine, state: str) -> bool:
    return f"[{state}]" in (machine.text(LOCKDOWN) or "")


def _is_in_user_namespace(machine: Machine) -> bool:
    return machine.link("/proc/self/ns/user") not in ("", FIRST_USER_NAMESPACE)


def _container(machine: Machine, root: str | None) -> Iterator[Diagnosis]:
    user, pid = machine.link("/proc/self/ns/user"), machine.link("/proc/self/ns/pid")
    if _is_in_user_namespace(machine):
        found = (Fact("/proc/self/ns/user", user), Fact("/proc/self/uid_map", _one_line(machine, "/proc/self/uid_map")))
        what = "this process is in a container's user namespace: root here isn't root of the machine"
        path = f"{root}/kprobe_events"
        if root is not None and os.access(path, os.W_OK):  # root may be mapped to itself
            yield Diagnosis(NOTE, "container", f"{what}, but may write here", (*found, Fact(path, "writable")), "")
        else:
            yield Diagnosis(STOPS, "container", what, found, ON_HOST)
    elif pid and pid != FIRST_PID_NAMESPACE:
        fact = Fact("/proc/self/ns/pid", f"{pid}; the machine's first is {FIRST_PID_NAMESPACE}")
        what = "this process is in a container: what it traces is the whole machine, whose pids aren't those seen here"
        yield Diagnosis(NOTE, "container", what, (fact,), "docker run --pid=host ..., or run it on the host")


def _config(machine: Machine) -> Iterator[Diagnosis]:
    source, lines = config(machine)
    for option, earlier in (("CONFIG_KPROBES", ""), ("CONFIG_KPROBE_EVENTS", "CONFIG_KPROBE_EVENT")):
        if lines and lines.isdisjoint((f"{option}=y", f"{earlier}=y")):  # the earlier name until 4.11
            says = f"# {option} is not set"
            fact = Fact(source, says if says in lines else f"no {option}")
            yield Diagnosis(STOPS, "kernel", f"this kernel has no kprobes: built without {option}", (fact,), NO_KERNEL)
            return


def config(machine: Machine) -> tuple[str, frozenset[str]]:
    """Return the path of the kernel's configuration, and its lines; none if it isn't available."""
    release = machine.text("/proc/sys/kernel/osrelease") or ""
    for pattern in CONFIGS:
        path = pattern.format(release=release)
        data = machine.data(path)
        if not data:
            continue
        try:
            text = zlib.decompress(data, GZIP) if path.endswith(".gz") else data
        except zlib.error:
            continue
        return path, frozenset(text.decode(errors="replace").splitlines())
    return "", frozenset()


def _who(machine: Machine) -> list[Fact]:
    """Return this process's user and, for root, the capabilities that it lacks."""
    if not machine.is_own:
        return []
    rows = dict(line.partition(":")[::2] for line in (machine.text(STATUS) or "").splitlines())
    uids, caps = rows.get("Uid", "").split(), rows.get("CapEff", "").strip()
    if len(uids) < 2 or not caps:
        return []
    if uids[1] != "0":
        return [Fact(STATUS, f"Uid {uids[1]}")]
    lacking = [name for bit, name in CAPABILITIES.items() if not int(caps, 16) >> bit & 1]
    return [Fact(STATUS, f"Uid 0, without {' and '.join(lacking)}")] if lacking else []


def _options(machine: Machine, root: str) -> list[str]:
    rows = [line.split(" ") for line in (machine.text(MOUNTS) or "").splitlines()]
    found = [row[3].split(",") for row in rows if len(row) > 3 and row[1] == root]
    return found[-1] if found else []


def _one_line(machine: Machine, path: str) -> str:
    return " ".join((machine.text(path) or "").split())
