"""Whether KVM can be used here."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

from kprobe_vm.host.cache import Cache, digest


def can_open_kvm(device: str = "/dev/kvm") -> bool:
    """Whether the device can be opened for reading and writing."""
    return os.access(device, os.R_OK | os.W_OK)


def kvm_trouble(device: str = "/dev/kvm") -> str:
    """Return why the device can't be opened, and what to do; "" if it can."""
    if can_open_kvm(device):
        return ""
    try:
        status = os.stat(device)
    except FileNotFoundError:
        return "not there"
    except OSError as error:
        return f"{device} is there but can't be looked at: {error.strerror}"
    group, user = _group(status.st_gid), _user(os.getuid())
    if status.st_gid == 0 or status.st_mode & 0o060 != 0o060:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        return f"{device} is there but not for {user} (it is of {_user(status.st_uid)}:{group}, mode {mode})"
    if status.st_gid in os.getgroups():
        return f"{device} is there, and {user} in its group {group}, but something else refuses it"
    return f"{device} is there but only for the group {group}: sudo usermod -aG {group} {user}, then log in again"


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


class Verdict:
    """Whether the first boot with KVM worked, remembered until the host reboots or QEMU changes."""

    def __init__(self, cache: Cache, qemu_version: str, boot_id: str | None = None) -> None:
        if boot_id is None:
            boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        name = digest(boot_id.encode(), qemu_version.encode())[:24]
        self._cache = cache
        self._path = cache.directory("kvm") / f"{name}.json"

    def read(self) -> bool | None:
        """Return whether KVM works, None if it wasn't tried yet."""
        known = self._cache.note(self._path)
        return bool(known["works"]) if known is not None else None

    def write(self, works: bool, reason: str) -> None:
        """Remember the verdict."""
        self._cache.write_note(self._path, {"works": works, "reason": reason})
