"""`kprobe-vm record`: boots a kernel in QEMU and records it, on the same machine that `vm:` specs run on."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from kprobe_vm.agent.tracefs import GuestFile, GuestTracefs
from kprobe_vm.errors import ExtraMissing, NotReady
from kprobe_vm.guest.workload import GuestWorkload
from kprobe_vm.host.progress import Progress
from kprobe_vm.images.kernels import image_of
from kprobe_vm.machine.machine import Machine
from kprobe_vm.recording.gates import ask_again
from kprobe_vm.recording.record import record

TASKS = "cd /proc; for p in [0-9]*; do [ $p = $$ ] || echo $p $(cat $p/comm 2>/dev/null); done; true"


class Booted:
    """A `Machine` in the form that the recorder needs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._root: GuestTracefs = machine.files
        self.tracefs: GuestTracefs = machine.tracefs

    def read(self, path: str) -> bytes:
        return self._root.read(path)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        self._root.write(path, data, truncate=truncate)

    def listdir(self, path: str) -> list[str]:
        return self._root.listdir(path)

    def exists(self, path: str) -> bool:
        return self._root.exists(path)

    def mkdir(self, path: str) -> None:
        self._root.mkdir(path)

    def rmdir(self, path: str) -> None:
        self._root.rmdir(path)

    def open(self, path: str, flags: int) -> GuestFile:
        return self._root.open(path, flags)

    def shell(self, script: str) -> bytes:
        return bytes(self._machine.run(["sh", "-c", script], check=True).stdout)

    def tasks(self) -> bytes:
        return self.shell(TASKS)

    def workload(self) -> GuestWorkload:
        return GuestWorkload(self._machine)


def _check_capstone() -> None:
    if importlib.util.find_spec("capstone") is None:
        raise ExtraMissing("recording needs the Python package capstone: pip install 'kprobe-sim[record]'")


def config_beside(kernel: str) -> Path | None:
    """Return the configuration beside a kernel's image, called `config-RELEASE` as in /boot; None if there is none.

    If the image is a link, as /vmlinuz is, it may be beside the file that the link leads to.
    """
    if "/" not in kernel:
        return None
    image = Path(kernel)
    try:
        _, release = image_of(image)
    except NotReady:  # reported when it is started
        return None
    places = dict.fromkeys((image.parent, image.resolve().parent))
    files = [directory / f"config-{release}" for directory in places if release]
    return next((path for path in files if path.is_file()), None)


def _configuration(path: Path | None) -> str | None:
    text = path.read_text("utf-8", "replace") if path else None
    if text is not None and "\nCONFIG_" not in f"\n{text}":
        raise NotReady(f"{path} isn't a kernel configuration: it has no line CONFIG_NAME=VALUE")
    return text


def record_kernel(
    kernel: str,
    into: Path,
    *,
    modules: Path | None = None,
    config: Path | None = None,
    progress: Progress = lambda text: None,
) -> Path:
    """Boot a kernel, record its profile in a directory below `into`, named for its release; return that directory.

    `modules` is where the kernel's modules are, `config` its configuration file; without one it is what the guest has
    as /proc/config.gz, or else `config-RELEASE` beside the kernel's image.  Raise `NotReady`, `MachineDied`, and
    `OSError` for a configuration that can't be read or a directory that can't be written to: before anything is booted.
    """
    _check_capstone()
    beside = None if config else config_beside(kernel)
    text = _configuration(config or beside)
    into.mkdir(parents=True, exist_ok=True)
    with Machine(kernel, modules=modules, progress=progress) as machine:
        if beside and machine.files.exists("proc/config.gz"):
            text = None
        elif beside:
            progress(f"its configuration is taken from {beside}")
        return record(Booted(machine), into, config=text, progress=progress)


def record_answers(
    kernel: str, into: Path, *, modules: Path | None = None, progress: Progress = lambda text: None
) -> Path:
    """Boot a kernel and renew the answers in its profile below `into`; return the profile's directory.

    Raise what `ask_again` does.
    """
    _check_capstone()
    with Machine(kernel, modules=modules, progress=progress) as machine:
        return ask_again(Booted(machine), into / machine.release, progress)
