"""The guest's root: an initial RAM disk with our agent as process 1 and busybox for everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kprobe_vm.debian import deb
from kprobe_vm.errors import PackageCorrupt
from kprobe_vm.host.cache import Cache, digest
from kprobe_vm.images.additions import addition
from kprobe_vm.images.compiled import compiled, sources
from kprobe_vm.images.cpio import CpioEntry, archive, device, directory, regular, symlink
from kprobe_vm.images.kernels import Kernels
from kprobe_vm.images.kerneltree import Kernel

AGENT_SOURCES = sources("kprobe_vm.agent", "agent.c jobs.c files.c programs.c port.c init.c agent.h protocol.h")
AGENT_FLAGS = ("-static", "-O2", "-Wall", "-s", "-pthread")
DIRECTORIES = ("bin", "dev", "etc", "modules", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "usr/bin", "var")
FILES = {
    "etc/hostname": "guest\n",
    "etc/hosts": "127.0.0.1\tlocalhost\n127.0.1.1\tguest\n",
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/os-release": 'ID=kprobe-vm\nNAME="kprobe-vm guest"\n',
    "etc/profile": "export PATH=/bin:/sbin:/usr/bin:/usr/sbin\n",
}
APPLETS = (
    "[ ash awk basename cat chmod chown clear cmp cp cut date dd df diff dirname dmesg du echo env expr "
    "false find free grep halt head hexdump hostname id insmod kill killall less ln ls lsmod md5sum mkdir "
    "mkfifo mknod mktemp modprobe mount mv nproc nsenter od pidof poweroff printf ps pwd readlink "
    "realpath reboot renice rm rmdir rmmod sed seq setsid sh sha256sum sleep sort stat stty sync sysctl "
    "tac tail tar taskset tee test time timeout top touch tr true truncate tty umount uname uniq unshare "
    "uptime usleep vi watch wc which whoami xargs xxd yes"
)  # links to busybox, separated by blanks


def agent(cache: Cache) -> Path:
    """Return the compiled agent; raise what `compiled` does."""
    return compiled(cache, "agent", AGENT_SOURCES, AGENT_FLAGS)


def busybox(kernels: Kernels) -> Path:
    """Return the static busybox that the lock names, from Debian's archive."""
    locked = kernels.locks.package("busybox-static")
    assert locked is not None  # the lock that comes with us names it

    def unpack() -> bytes:
        file = kernels.archives.suite(locked.suite).fetch(locked.package)
        with deb.members(file) as members:
            for member, content in members:
                if content is not None and member.name.endswith("bin/busybox"):
                    return content.read()
        raise PackageCorrupt(f"{locked.package.name} {locked.package.version} holds no busybox")

    return kernels.cache.file("busybox", f"busybox-{locked.package.sha256[:12]}", unpack, mode=0o755)


def _entries(kernel: Kernel, agent_path: Path, busybox_path: Path) -> Iterator[CpioEntry]:
    for name in DIRECTORIES:
        yield directory(name, 0o1777 if name == "tmp" else 0o755)
    yield device("dev/console", 5, 1)
    yield device("dev/null", 1, 3, 0o666)
    yield regular("init", agent_path.read_bytes(), 0o755)
    yield regular("bin/busybox", busybox_path.read_bytes(), 0o755)
    for applet in APPLETS.split():
        yield symlink(f"bin/{applet}", "busybox")
    yield symlink("usr/bin/env", "/bin/busybox")  # where scripts look for it
    for name, text in FILES.items():
        yield regular(name, text.encode())
    for number, module in enumerate(kernel.modules):
        yield regular(f"modules/{number:02}-{module.name}", module.read_bytes())


def root_image(kernels: Kernels, kernel: Kernel, packages: Sequence[str] = ()) -> Path:
    """Return the root image that fits a kernel, made if its content isn't cached; raise `NotReady`.

    `packages` are Debian packages (additions.py) that are laid over it.
    """
    cache = kernels.cache
    image = archive(_entries(kernel, agent(cache), busybox(kernels)))
    if packages:
        image += addition(cache, packages, kernels.archives).read_bytes()
    return cache.file("roots", f"{digest(image)[:24]}.cpio", lambda: image)
