"""A profile that is made in no time: facts and tracefs of 6.1 with few static events, and a kernel of five symbols."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

from kprobe_sim.builds import profile
from kprobe_sim.builds.packed import NamedTexts, Texts, open_sections
from kprobe_sim.builds.recorded_tracefs import FORMATS, MAGIC
from kprobe_vm.recording import packed
from kprobe_vm.recording.btf import Btf, prototypes
from kprobe_vm.recording.instructions import Kind, Special, Text
from kprobe_vm.recording.symboltable import KallsymsEntry, KernelSymbols

RELEASE, VERSION = "6.16.1-toy", "6.16.1"
SYSTEMS = ("sched", "bpf_trace", "ftrace", "cgroup")
BASE = 0xFFFF_FFFF_8100_0000


def write(directory: Path, **facts: Any) -> Path:
    """Write the files of the profile, with other facts than its own if any are given; return the directory."""
    recorded = profile.PROFILES / "6.1.0-54-cloud-amd64"
    directory.mkdir(parents=True)
    said = json.loads((recorded / "profile.json").read_bytes())
    del said["answers"]  # those of 6.1
    said |= {"release": RELEASE, "version": VERSION} | facts
    (directory / "profile.json").write_bytes(json.dumps(said).encode())
    (directory / "tracefs.bin").write_bytes(_tracefs(recorded / "tracefs.bin"))
    names = ["_text", "do_sys_openat2", "vfs_read", "vfs_read.cold", "kfree"]
    entries = [KallsymsEntry(BASE + 16 * place, "T", name, "") for place, name in enumerate(names)]
    text = Text(BASE, bytes(80), bytearray([0x01] * 10))
    special = [Special(BASE + 40, 2, Kind.INT3)]
    symbols = KernelSymbols(entries, (BASE, BASE + 80), [], [text], special, [], [BASE + 16, BASE + 32]).packed()
    (directory / "symbols.bin").write_bytes(symbols)
    (directory / "prototypes.bin").write_bytes(prototypes(Btf(_btf()), names, fields=True))
    return directory


def _tracefs(path: Path) -> bytes:
    sections = open_sections(path, MAGIC)
    files, tree, events = (NamedTexts(sections[name]) for name in ("files", "tree", "events"))
    formats, texts, systems = Texts(sections["formats"]), [], {}
    for system in [system for system in events if system in SYSTEMS]:
        own, first, members = json.loads(events[system])
        for event in members:
            texts.append(formats[event[3] // FORMATS].split(b"\0")[event[3] % FORMATS])
            event[3] = len(texts) - 1
        systems[system] = json.dumps([own, first, members]).encode()
    top = [entry for entry in json.loads(tree["events"]) if entry[0] in SYSTEMS or entry[1] >> 12 != 4]
    return packed.file(
        MAGIC,
        {
            "files": packed.named({name: files[name] for name in files if not re.match("events/[^*]+/", name)}),
            "tree": packed.named({name: tree[name] for name in tree} | {"events": json.dumps(top).encode()}),
            "kinds": bytes(sections["kinds"]),
            "events": packed.named(systems),
            "formats": packed.texts([b"\0".join(texts[at : at + FORMATS]) for at in range(0, len(texts), FORMATS)]),
        },
    )


def _btf() -> bytes:
    """BTF of `struct file { union { int a; }; }` and `int vfs_read(struct file *name)`."""
    texts = b"\0int\0file\0vfs_read\0name\0a\0"
    types = (
        struct.pack("<IIII", 1, 1 << 24, 4, 1 << 24 | 32)  # 1: int
        + struct.pack("<IIIIII", 0, 5 << 24 | 1, 4, 23, 1, 0)  # 2: union { int a; }
        + struct.pack("<IIIIII", 5, 4 << 24 | 1, 4, 0, 2, 0)  # 3: struct file
        + struct.pack("<III", 0, 2 << 24, 3)  # 4: struct file *
        + struct.pack("<IIIII", 0, 13 << 24 | 1, 1, 19, 4)  # 5: int (struct file *name)
        + struct.pack("<III", 10, 12 << 24, 5)  # 6: vfs_read
    )
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(texts))
    return head + types + texts
