"""A real kernel in QEMU: started, driven, watched and stopped."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kprobe_vm.agent.channel import Channel
from kprobe_vm.agent.frames import Op
from kprobe_vm.agent.process import GuestProcess
from kprobe_vm.agent.tracefs import GuestTracefs
from kprobe_vm.debian.apt import Progress
from kprobe_vm.errors import MachineClosed, MachineDied, MachineError
from kprobe_vm.host import programs
from kprobe_vm.host.cache import Cache, digest
from kprobe_vm.host.scratch import sweep
from kprobe_vm.images.kernels import Kernel, Kernels
from kprobe_vm.images.root import root_image
from kprobe_vm.machine.boot import Boot, Deadlines, clock_parts
from kprobe_vm.machine.launch import Launch, Started
from kprobe_vm.machine.qemu import Hardware


class Machine:
    """A guest with a kernel: a series ("6.1": the build that is locked), a release, or a path to a bzImage or vmlinux.

    Use it as a context manager, or call `start` and `close`. `memory` is in MiB. `progress` is called with one line of
    text at each step that takes time. `accelerator` "kvm" or "tcg" overrides our choice (so does the environment
    variable `KPROBE_VM_ACCELERATOR`). With `template` it is a clone of a guest that was saved when it had just booted,
    made if there is none yet: cloning is much faster than booting.  It has its own memory and the clock set, but its
    processes, its boot id and the time since its boot are the saved guest's. Where that fails, it boots (see `faults`).
    `packages` are Debian packages that the guest has, with what they depend on ("=NAME" for one alone); it gets more
    memory if they need it. `modules` is the modules' directory of a kernel that comes as a path; without `virtio` the
    machine has no such devices, and talks through a serial port. The variables of `environment` (default: os.environ)
    name the archive of packages and the lock. Starting raises `NotReady` if the host lacks something and `MachineDied`
    if the guest doesn't come up; using it raises `MachineDied` once it is gone, and `OSError` for the guest kernel's
    refusals. Any thread may call any method.
    """

    def __init__(
        self,
        kernel: str = "6.1",
        *,
        memory: int = 256,
        cpus: int = 1,
        progress: Progress | None = None,
        accelerator: str | None = None,
        deadlines: Deadlines | None = None,
        command_line: str = "",
        cache: Cache | None = None,
        template: bool = False,
        packages: Sequence[str] = (),
        modules: Path | None = None,
        virtio: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.spec = kernel
        self._memory = memory
        self._cpus = cpus
        self._progress: Progress = progress or (lambda _line: None)
        self._accelerator = accelerator or os.environ.get("KPROBE_VM_ACCELERATOR")
        scale = float(os.environ.get("KPROBE_VM_DEADLINE_SCALE", "1"))
        self._deadlines = (deadlines or Deadlines()).scaled(scale)
        self._command_line = command_line
        self._cache = cache or Cache.of(os.environ)
        self._template = template
        self._packages = tuple(packages)
        self._modules = modules
        self._virtio = virtio
        self._environment = environment
        self._started: Started | None = None
        self._inputs = itertools.count()
        self.kernel: Kernel | None = None
        self.faults: list[MachineError] = []  # what went wrong at the start and was worked around

    # ---- life ----

    def start(self) -> None:
        """Fetch what is missing, boot or clone, and return when the guest answers."""
        if self._started is not None:
            raise RuntimeError("the machine was started before")
        sweep()
        # so that errors of the kernel are reported without a QEMU, too
        kernels = Kernels(self._cache, self._progress, environment=self._environment)
        self.kernel = kernels.get(self.spec, self._modules)
        program, version = _qemu(self._cache)
        root = root_image(kernels, self.kernel, self._packages)
        # packages are in memory twice while the guest unpacks them, and its root may fill half of its memory
        memory = self._memory if not self._packages else max(self._memory, 192 + (root.stat().st_size >> 20) * 9 // 4)
        # Several emulating threads corrupt the code patching of kernels from 6.12 on while probes come and go.
        tcg = "tcg" if self._cpus == 1 else "tcg,thread=single"
        launch = Launch(
            self.spec,
            Hardware(self.kernel.image, root, tcg, memory, self._cpus, self._command_line, self._virtio),
            self._deadlines,
            self._cache,
            self._progress,
            program=program,
            version=version,
            accelerator=self._accelerator,
            kernel_digest=self.kernel.digest if self._template else None,
        )
        self.faults = launch.faults
        self._started = launch.start()
        self._deadlines = self._started.boot.deadlines

    def close(self) -> None:
        """End the guest; whoever waits for it gets `MachineClosed`.  May be called twice."""
        if self._started is not None:
            self._started.boot.close()

    def __enter__(self) -> Machine:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- its properties ----

    @property
    def release(self) -> str:
        """The guest's `uname -r`."""
        return self._up().hello.release

    @property
    def version(self) -> str:
        """The guest's `uname -v`."""
        return self._up().hello.version

    @property
    def tracefs_path(self) -> str:
        """The directory of the guest's tracefs: /sys/kernel/tracing, before 4.1 /sys/kernel/debug/tracing."""
        return self._up().hello.tracing

    @property
    def port(self) -> str:
        """The port to the guest: "virtio", or "serial" if its kernel has no virtio port."""
        return self._up().hello.port

    @property
    def accelerator(self) -> str:
        """The accelerator: "kvm", "tcg" or "tcg,thread=single"."""
        return self._up().accelerator

    @property
    def is_clone(self) -> bool:
        """Whether it was cloned from a template."""
        return self._up().is_clone

    @property
    def console(self) -> str:
        """The last lines of the guest's console."""
        return self.boot.console.tail()

    @property
    def boot(self) -> Boot:
        """The running guest's parts: QEMU, console, control, channel."""
        return self._up().boot

    @property
    def channel(self) -> Channel:
        """The connection to the agent."""
        return self.boot.channel

    # ---- its use ----

    @property
    def tracefs(self) -> GuestTracefs:
        """The guest's tracefs."""
        return GuestTracefs(self.channel, self.tracefs_path, deadline=self._deadlines.operation)

    @property
    def files(self) -> GuestTracefs:
        """The guest's whole file tree, paths relative to "/"."""
        return GuestTracefs(self.channel, "/", deadline=self._deadlines.operation)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = 60.0,
        check: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        input: bytes | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program in the guest and collect its output, as `subprocess.run` does.

        `env` is added to the guest's environment.  Raise `subprocess.TimeoutExpired` (the program is then killed),
        `subprocess.CalledProcessError` with `check`, and `OSError` if it can't be started or writes more than 256 MiB.
        """
        with self._input_file(input) as stdin:
            process = self._process(argv, env, cwd, stdin=stdin)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.settle()
                raise
        done = subprocess.CompletedProcess(list(argv), status, process.stdout, process.stderr)
        if check:
            done.check_returncode()
        return done

    def start_process(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        capture: bool = False,
        stdin: str | None = "/dev/null",
    ) -> GuestProcess:
        """Start a program in the guest and return at once; without `capture` its output is discarded.

        `stdin` is a file of the guest; with None the program reads what `feed` of the process is given.
        """
        return self._process(argv, env, cwd, stdin=stdin, capture=capture)

    def put(self, path: str, data: bytes, mode: int = 0o755) -> None:
        """Write a file in the guest; `path` is relative to "/"."""
        with self.files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(bytes(view[: 512 * 1024])) :]

    def set_clock(self, seconds: float) -> None:
        """Set the guest's wall clock (seconds since 1970)."""
        request = self.channel.call(Op.SET_CLOCK, *clock_parts(seconds), deadline=self._deadlines.operation)
        if request.result < 0:
            raise OSError(-request.result, os.strerror(-request.result))

    # ---- internals ----

    def _up(self) -> Started:
        if self._started is None:
            raise MachineClosed("the machine was not started")
        return self._started

    def _process(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: str | None,
        *,
        stdin: str | None = "/dev/null",
        capture: bool = True,
    ) -> GuestProcess:
        deadline = self._deadlines.operation
        return GuestProcess(self.channel, argv, env=env, cwd=cwd, stdin=stdin, capture=capture, deadline=deadline)

    @contextlib.contextmanager
    def _input_file(self, data: bytes | None) -> Iterator[str]:
        if data is None:
            yield "/dev/null"
            return
        name = f"tmp/.input-{next(self._inputs)}"
        self.put(name, data, 0o600)
        try:
            yield f"/{name}"
        finally:
            with contextlib.suppress(MachineDied, OSError):
                self.files.unlink(name)


def _qemu(cache: Cache) -> tuple[str, str]:
    """Return QEMU's path and version, remembered for as long as the program is the same; raise `NotReady`."""
    program = programs.find(programs.QEMU)
    binary = os.stat(program)
    name = digest(f"{program} {binary.st_size} {binary.st_mtime_ns}".encode())[:24]
    return program, cache.file("qemu", name, lambda: programs.qemu()[1].encode()).read_text()
