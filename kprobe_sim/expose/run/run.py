"""`kprobe-sim run`: a command that sees the simulator in place of the kernel's tracefs, without root.

The command gets a user namespace, in which it is root, and a mount namespace, in which the simulator is mounted at
/sys/kernel/tracing and /sys/kernel/debug/tracing.  Nobody else sees these mounts.  A second pair of namespaces inside
the first locks them and what they hide: the command can neither unmount them nor mount this machine's tracefs.

A run ends with its command.  The processes that it left behind are then killed, whatever session or parent they have,
even if this process is killed (see `kprobe_sim.expose.fuse.keeper`).  The mounts end with the last process.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from kprobe_sim.expose.fuse.mount import (
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    CannotMount,
    SystemCalls,
    explain,
    mount_fuse,
    mount_table,
    open_device,
)
from kprobe_sim.expose.fuse.notifying import NotifyingServer
from kprobe_sim.expose.fuse.server import FuseServer
from kprobe_sim.expose.run.files import KPROBES, lay, mount_files, run_files
from kprobe_sim.expose.run.ids import ids_of_all, map_ids, write
from kprobe_sim.expose.run.kernel_name import Answers
from kprobe_sim.expose.run.members import end_members
from kprobe_sim.expose.run.seccomp import CannotFollow, listen
from kprobe_sim.expose.run.watch import Watch, block, unblock
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.standard_files import say

if TYPE_CHECKING:
    from kprobe_sim.expose.run.follow import Follower
    from kprobe_sim.kernel.simulated import SimulatedKernel

TRACING = "/sys/kernel/tracing"
DEBUG = "/sys/kernel/debug"
NOT_FOUND, NOT_EXECUTABLE, NO_MOUNT = 127, 126, 125  # exit statuses, as of env(1) and chroot(1)

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # a command that inherits this reports EPIPE


class _Run(NamedTuple):
    """The arguments of `run`."""

    kernel: SimulatedKernel
    command: Sequence[str]
    started: Callable[[], None]
    follow: bool
    only_tracefs: bool


def run(
    kernel: SimulatedKernel,
    command: Sequence[str],
    started: Callable[[], None] = lambda: None,
    *,
    follow: bool = False,
    only_tracefs: bool = False,
) -> int:
    """Run a command on a simulated kernel and return its exit status (128 + N if signal N ended it).

    `started` is called when the command is about to start; only there may it start threads for the simulated machine.
    With `follow` the simulated machine does what the command and its descendants do, as far as that can be seen (see
    `follow`).  With `only_tracefs` only tracefs and debugfs are simulated: uname(2) and files such as /proc/kallsyms
    stay this machine's (see `files`).  Raises CannotMount if this machine doesn't allow the mounts.
    """
    this_run = _Run(kernel, command, started, follow, only_tracefs)
    calls = SystemCalls()
    ours, theirs = socket.socketpair()
    error_out, error_in = os.pipe()
    calls.adopt_orphans(True)
    masked = block()
    this = os.getpid()
    child = os.fork()
    if not child:
        calls.die_with_parent(signal.SIGKILL)
        if os.getppid() != this:
            os._exit(NO_MOUNT)
        ours.close()
        os.close(error_out)
        _unblock(masked)
        _become(this_run, calls, theirs, error_in)
    theirs.close()
    os.close(error_in)
    watch = Watch(child, reaps=not follow)  # the tracer reaps its tracees
    try:
        return _supervise(this_run, child, watch, ours, error_out)
    finally:
        watch.end()
        unblock(masked)
        calls.adopt_orphans(False)


_Servers = list[tuple[FuseServer, threading.Thread]]


def _serve(kernel: SimulatedKernel, child: int, descriptors: Sequence[int], servers: _Servers) -> None:
    """Serve the child's two mounts, tracefs and the other files of a run; add the servers to `servers`."""
    files = run_files(kernel, lambda: _mounts_of(child))
    for descriptor, root in zip(descriptors, (kernel.root, files), strict=True):
        served = FuseServer if kernel.listener is None or root is files else NotifyingServer
        server = served(kernel, descriptor, root=root)
        thread = threading.Thread(target=server.serve, name="fuse", daemon=True)
        thread.start()
        servers.append((server, thread))


def _end(namespaces: Sequence[int], servers: _Servers) -> None:
    """End the processes left in the namespaces of the run, then the servers of its mounts."""
    for namespace in namespaces:
        end_members(namespace)
        os.close(namespace)
    for server, thread in servers:
        server.stop()
        thread.join()


def _status_of(trouble: str) -> int:
    """Print what kept the child from becoming the command; return the exit status.  Raises CannotMount."""
    code, _, text = trouble.partition(" ")
    if int(code) == NO_MOUNT:
        raise CannotMount(text)
    say(f"kprobe-sim: {text}")
    return int(code)


class _Beginning:
    """A child that is about to become the command, and its servers; `begun` is set once it has all it needs."""

    def __init__(self, child: int) -> None:
        self.child = child
        self.follower: Follower | None = None
        self.servers: _Servers = []
        self.namespaces: list[int] = []
        self.begun = False

    def lead(self, this_run: _Run, watch: Watch, channel: socket.socket) -> None:
        """Give the child its ids, mounts and filter.  Raises CannotFollow, or OSError if the child has died."""
        kernel, child = this_run.kernel, self.child
        _, self.namespaces, _, _ = socket.recv_fds(channel, 1, 1)
        if not self.namespaces:
            return
        # the child is in its user namespace
        watch.keep(partial(end_members, self.namespaces[0]), self.namespaces)
        map_ids(child, ids_of_all())
        channel.sendall(b"1")
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 2)
        if not descriptors:
            return
        _serve(kernel, child, descriptors, self.servers)
        if not _answered(channel):
            return
        this_run.started()
        if this_run.follow:
            from kprobe_sim.expose.run.follow import Follower  # few runs follow

            self.follower = Follower(kernel, child)
        channel.sendall(b"1")
        _listen(kernel, channel)
        self.begun = True


def _supervise(this_run: _Run, child: int, watch: Watch, channel: socket.socket, error_out: int) -> int:
    beginning = _Beginning(child)
    refusal = failure = ""
    try:
        try:
            with channel:
                beginning.lead(this_run, watch, channel)
        except CannotFollow as error:
            refusal = str(error)
        except OSError as error:  # from the child's ids or its channel: it may have been killed
            failure = f"the command can't be started: {error}"
        with open(error_out, encoding="utf-8", errors="replace") as pipe:
            trouble = pipe.read()
        follower = beginning.follower
        status = os.waitpid(child, 0)[1] if follower is None else follower.wait()
    finally:
        _end(beginning.namespaces, beginning.servers)
    if os.WIFSIGNALED(status) and not beginning.begun:
        say(f"kprobe-sim: run: the command was killed by signal {os.WTERMSIG(status)} before it began")
    elif refusal:
        raise CannotMount(refusal)
    elif trouble:
        return _status_of(trouble)
    elif failure:
        raise CannotMount(failure)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _mounts_of(pid: int) -> str:
    with open(f"/proc/{pid}/mounts", encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _listen(kernel: SimulatedKernel, channel: socket.socket) -> None:
    """Answer the child's system calls that identify the kernel, once its filter is in place."""
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if descriptors:
        Answers(kernel, descriptors[0]).start()


def _answered(channel: socket.socket) -> bool:
    return channel.recv(1) != b""


# in the child


def _become(this_run: _Run, calls: SystemCalls, channel: socket.socket, error_in: int) -> NoReturn:
    """Make the namespaces and the mounts, then execute the command."""
    command, code = this_run.command, NO_MOUNT
    try:
        _enter(calls, channel, this_run.kernel.root.mode, this_run.only_tracefs)
        _filter_calls(channel, this_run.follow, this_run.only_tracefs)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        code = NOT_EXECUTABLE
        os.execvp(command[0], list(command))
    except (CannotMount, CannotFollow) as error:
        text = str(error)
    except FileNotFoundError as error:
        text = f"{command[0]}: command not found" if code == NOT_EXECUTABLE else str(error)
        code = NOT_FOUND if code == NOT_EXECUTABLE else code
    except OSError as error:
        text = f"{command[0]}: {error.strerror}" if code == NOT_EXECUTABLE else str(error)
    except BaseException as error:
        text = repr(error)
    try:
        os.write(error_in, f"{code} {text}".encode())
    finally:
        os._exit(code)


def _unblock(masked: set[int]) -> None:
    """Restore the signal mask, and the default action of SIGINT if Python handles it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, masked)


def _filter_calls(channel: socket.socket, follow: bool, only_tracefs: bool) -> None:
    """Install the filter for this process and the command, and send its listener to the parent."""
    if follow:
        from kprobe_sim.expose.run.call_effects import FOLLOWED
    try:
        listener = listen(followed=FOLLOWED if follow else frozenset(), name=not only_tracefs)
    except CannotFollow:
        if follow:
            raise
        return  # uname then reports this machine's kernel
    if listener is not None:
        socket.send_fds(channel, [b"1"], [listener])
        os.close(listener)


def _enter(calls: SystemCalls, channel: socket.socket, root_mode: int, only_tracefs: bool) -> None:
    here = os.getcwd()
    try:
        calls.unshare(CLONE_NEWUSER | CLONE_NEWNS)
    except OSError as error:
        raise CannotMount(f"no user and mount namespace: {explain(error)}") from None
    namespace = os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    socket.send_fds(channel, [b"1"], [namespace])
    os.close(namespace)
    if not _answered(channel):
        raise CannotMount("no ids in the user namespace")
    descriptors = open_device(), open_device()
    try:
        calls.mount("none", "/", "", MS_REC | MS_PRIVATE)
        _cover(calls, channel, descriptors, root_mode, only_tracefs)
        _lock(calls)
    except OSError as error:
        raise CannotMount(f"mounting on {error.filename or TRACING}: {explain(error)}") from None
    for descriptor in descriptors:
        os.close(descriptor)
    os.chdir(here)  # through the new mounts
    channel.sendall(b"1")
    if not _answered(channel):
        raise CannotMount("the simulator ended")


def _cover(
    calls: SystemCalls, channel: socket.socket, descriptors: tuple[int, int], root_mode: int, only_tracefs: bool
) -> None:
    """Mount the simulator where tracefs is expected and over each tracefs of this machine; hide its debugfs.

    The second descriptor serves the files outside tracefs.
    """
    mounted = list(mount_table())
    if not os.path.isdir(TRACING) or not os.path.isdir(DEBUG):
        _remake_parent(calls)
    mount_fuse(calls, descriptors[0], TRACING, root_mode)
    calls.mount("debugfs", DEBUG, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=64k")
    files = f"{DEBUG}/files"
    os.mkdir(files)
    mount_files(calls, descriptors[1], files)
    socket.send_fds(channel, [b"1"], descriptors)
    for directory in ("tracing", KPROBES):
        os.mkdir(f"{DEBUG}/{directory}", 0o700)
    calls.mount(TRACING, f"{DEBUG}/tracing", "", MS_BIND)
    calls.mount(f"{files}/{KPROBES}", f"{DEBUG}/{KPROBES}", "", MS_BIND)
    if not only_tracefs:
        lay(files)
    calls.unmount(files)
    os.rmdir(files)
    for directory in {point.directory for point in mounted if point.kind == "debugfs"} - {DEBUG}:
        calls.mount(DEBUG, directory, "", MS_BIND | MS_REC)
    for point in mounted:
        hidden = point.directory in (TRACING, f"{DEBUG}/tracing")
        if point.kind == "tracefs" and not hidden and os.path.isdir(point.directory):
            calls.mount(TRACING, point.directory, "", MS_BIND)


def _remake_parent(calls: SystemCalls) -> None:
    """Rebuild /sys/kernel with its contents: a kernel without tracing has no directory to mount on there."""
    parent = os.path.dirname(TRACING)
    held = os.open(parent, os.O_PATH | os.O_DIRECTORY)
    names = os.listdir(parent)
    calls.mount("kernel", parent, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=64k")
    for name in names:
        source = f"/proc/self/fd/{held}/{name}"
        if os.path.isdir(source):
            os.mkdir(f"{parent}/{name}")
            calls.mount(source, f"{parent}/{name}", "", MS_BIND | MS_REC)
        else:
            os.close(os.open(f"{parent}/{name}", os.O_CREAT | os.O_WRONLY, 0o444))
            calls.mount(source, f"{parent}/{name}", "", MS_BIND)
    os.close(held)
    for path in (TRACING, DEBUG):
        os.makedirs(path, exist_ok=True)


def _lock(calls: SystemCalls) -> None:
    """Enter a second pair of namespaces with the same ids, where the mounts of the first can't be undone."""
    maps = []
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}", encoding="utf-8") as file:
            maps.append("".join(f"{inside} {inside} {count}\n" for inside, _, count in map(str.split, file)))
    ready_out, ready_in = os.pipe()
    done_out, done_in = os.pipe()
    this = os.getpid()
    helper = os.fork()
    if not helper:  # only a process outside may write the ids
        status = 1
        try:
            os.close(ready_in)
            if os.read(ready_out, 1):
                write(f"/proc/{this}/uid_map", maps[0])
                write(f"/proc/{this}/gid_map", maps[1])
                os.write(done_in, b"1")
                status = 0
        finally:
            os._exit(status)
    os.close(done_in)
    os.close(ready_out)
    calls.unshare(CLONE_NEWUSER | CLONE_NEWNS)
    os.write(ready_in, b"1")
    mapped = os.read(done_out, 1)
    os.close(ready_in)
    os.close(done_out)
    os.waitpid(helper, 0)
    if not mapped:
        raise CannotMount("no ids in the inner user namespace")
