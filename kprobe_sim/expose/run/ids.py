"""The ids of a new user namespace: how ids outside map to ids inside."""

from __future__ import annotations

import os


def ids_of_all() -> list[str] | None:
    """Return uid and gid maps that keep every id; None if this process may not write them."""
    if os.geteuid() != 0:
        return None
    maps = []
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}", encoding="utf-8") as file:
            lines = [line.split() for line in file]
        maps.append("".join(f"{inside} {inside} {count}\n" for inside, _, count in lines))
    return maps


def map_ids(pid: int, maps: list[str] | None) -> None:
    """Map the ids of a process in a new user namespace: by the maps, or only this user, to root."""
    if maps is not None:
        try:
            write(f"/proc/{pid}/uid_map", maps[0])
            write(f"/proc/{pid}/gid_map", maps[1])
        except PermissionError:  # root without CAP_SETUID is like any user
            maps = None
        else:
            return
    write(f"/proc/{pid}/setgroups", "deny")
    write(f"/proc/{pid}/uid_map", f"0 {os.geteuid()} 1\n")
    write(f"/proc/{pid}/gid_map", f"0 {os.getegid()} 1\n")


def write(path: str, text: str) -> None:
    """Write a kernel file with one write(2)."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
