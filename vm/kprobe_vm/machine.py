"""A real kernel in QEMU: started, driven, watched and stopped."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kprobe_vm import programs
from kprobe_vm.accelerator import Verdict, can_open_kvm
from kprobe_vm.apt import Progress
from kprobe_vm.boot import Boot, Deadlines
from kprobe_vm.cache import Cache
from kprobe_vm.channel import Channel
from kprobe_vm.errors import BootTimeout, MachineClosed, MachineDied, QemuDied
from kprobe_vm.frames import Hello, Op
from kprobe_vm.guest import root_image
from kprobe_vm.kernels import Kernel, Kernels
from kprobe_vm.process import GuestProcess
from kprobe_vm.qemu import Hardware
from kprobe_vm.tracefs import GuestTracefs

__all__ = ["Machine"]

CONSOLE_FILES_KEPT = 20


class Machine:
    """A guest with a kernel: a series ("6.1": Debian's newest), a release, or a path to a bzImage or vmlinux.

    Use it as a context manager, or call `start` and `close`. `memory` is in MiB. `progress` is called with one line
    of text at each step that takes time. `accelerator` "kvm" or "tcg" takes the choice out of our hands (so does
    the environment variable `KPROBE_VM_ACCELERATOR`). Starting raises `NotReady` if the host lacks something and
    `MachineDied` if the guest doesn't come up; using it raises `MachineDied` once it is gone, and `OSError` for the
    guest kernel's refusals. All methods may be called from any thread.
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
        self._boot: Boot | None = None
        self._hello: Hello | None = None
        self._inputs = itertools.count()
        self.kernel: Kernel | None = None
        self.accelerator = ""  # what it runs on once it is started

    # ---- life ----

    def start(self) -> None:
        """Fetch what is missing, boot, and return when the guest answers."""
        if self._boot is not None:
            raise RuntimeError("the machine was started before")
        program, version = programs.qemu()
        self.kernel = Kernels(self._cache, self._progress).get(self.spec)
        root = root_image(self._cache, self.kernel, self._progress)
        # Several emulating threads corrupt the code patching of kernels from 6.12 on while probes come and go.
        tcg = "tcg" if self._cpus == 1 else "tcg,thread=single"
        hardware = Hardware(self.kernel.image, root, tcg, self._memory, self._cpus, self._command_line)
        verdict = Verdict(self._cache, version)
        if self._accelerator == "kvm":
            self._start(program, hardware._replace(accelerator="kvm"), prove=False)
        elif self._accelerator is None and can_open_kvm() and verdict.read() is not False:
            self._start_with_kvm(program, hardware, verdict)
        else:
            self._start(program, hardware, prove=False)

    def _start_with_kvm(self, program: str, hardware: Hardware, verdict: Verdict) -> None:
        proven = verdict.read() is True
        try:
            self._start(program, hardware._replace(accelerator="kvm"), prove=not proven)
        except (BootTimeout, QemuDied) as error:
            if proven:
                raise
            verdict.write(False, error.message)
            self._progress(
                f"/dev/kvm opens but runs no kernel ({error.message}): emulating from now on, which is slower"
            )
            self._start(program, hardware, prove=False)
        else:
            verdict.write(True, "booted")

    def _start(self, program: str, hardware: Hardware, *, prove: bool) -> None:
        # A kernel that must prove that it runs has to talk from its first moment on.
        words = "earlyprintk=serial,ttyS0" if prove else "quiet"
        hardware = hardware._replace(command_line=f"{words} {hardware.command_line}")
        self._progress(f"booting {self.spec} ({hardware.accelerator.partition(',')[0]})")
        boot = Boot(program, hardware, self._console_file(), self._deadlines)
        try:
            self._hello = boot.wait_ready(prove=prove)
        except BaseException:  # Ctrl-C as well
            boot.close()
            raise
        self._boot = boot
        self.accelerator = hardware.accelerator

    def close(self) -> None:
        """End the guest; whoever waits for it gets `MachineClosed`.  May be called twice."""
        if self._boot is not None:
            self._boot.close()

    def __enter__(self) -> Machine:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what it is ----

    @property
    def release(self) -> str:
        """The guest's `uname -r`."""
        return self._up().release

    @property
    def version(self) -> str:
        """The guest's `uname -v`."""
        return self._up().version

    @property
    def console(self) -> str:
        """The last lines of the guest's console."""
        return self.boot.console.tail()

    @property
    def boot(self) -> Boot:
        """The running guest's parts: QEMU, console, control, channel."""
        if self._boot is None:
            raise MachineClosed("the machine was not started")
        return self._boot

    @property
    def channel(self) -> Channel:
        """The connection to the agent."""
        return self.boot.channel

    # ---- what can be done with it ----

    @property
    def tracefs(self) -> GuestTracefs:
        """The guest's tracefs."""
        return GuestTracefs(self.channel, deadline=self._deadlines.operation)

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

        `env` is added to the guest's environment.  Raise `subprocess.TimeoutExpired` (it is killed then),
        `subprocess.CalledProcessError` with `check`, and `OSError` if it can't be started.
        """
        with self._input_file(input) as stdin:
            process = GuestProcess(self.channel, argv, env=env, cwd=cwd, stdin=stdin)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
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
    ) -> GuestProcess:
        """Start a program in the guest and return at once; without `capture` its output is thrown away."""
        return GuestProcess(self.channel, argv, env=env, cwd=cwd, capture=capture)

    def put(self, path: str, data: bytes, mode: int = 0o755) -> None:
        """Write a file in the guest; `path` is relative to "/"."""
        with self.files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(bytes(view[: 512 * 1024])) :]

    def set_clock(self, seconds: float) -> None:
        """Set the guest's wall clock (seconds since 1970)."""
        whole, nanoseconds = divmod(int(seconds * 1e9), 10**9)
        parts = [value.to_bytes(8, "little") for value in (whole, nanoseconds)]
        request = self.channel.call(Op.SET_CLOCK, *parts, deadline=self._deadlines.operation)
        if request.result < 0:
            raise OSError(-request.result, os.strerror(-request.result))

    # ---- within ----

    def _up(self) -> Hello:
        if self._hello is None:
            raise MachineClosed("the machine was not started")
        return self._hello

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

    def _console_file(self) -> Path:
        directory = self._cache.directory("console")
        with contextlib.suppress(OSError):
            old = sorted(directory.glob("*.log"), key=lambda path: path.stat().st_mtime)
            for path in old[: -CONSOLE_FILES_KEPT + 1]:
                path.unlink()
        label = re.sub(r"[^\w.+-]+", "_", self.spec)[-40:]
        handle, name = tempfile.mkstemp(prefix=f"{label}-", suffix=".log", dir=directory)
        os.close(handle)
        return Path(name)
