"""Developers run it when the profile format changes: profiles of kernels before 3.2, made from 3.2's and their source.

    tools/old_kernels/source_profiles.py

Nothing of these kernels was recorded.  Their profiles are copies of 3.2.4's with the options, clocks and files that the
release's own kernel/trace/ creates.  How such a kernel answers is in the table of gates, whose rows name the source.
The facts `unrecorded` and `made_up` of a profile say that nothing of it was measured.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from kprobe_sim.builds.portable.file import packed
from kprobe_sim.builds.profile import Profile, load
from kprobe_vm.recording import profilefile

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "distributions/kprobe-sim-profiles-old/src/kprobe_sim_profiles_old"
MADE_UP = (
    "all but what the source of this release says of kprobe events, options and files: it is that of 3.2.4",
    "addresses and sizes of functions, and which there are",
    "static events and their formats, their ids",
    "where probes can stand: a place that 3.2 took, and at which nothing ever hit, takes a probe here",
    "which files are gone since: failures, ksym_profile, ksym_trace_filter and sysprof_sample_period aren't here",
    "the column of the lock's depth in latency-format, up to 2.6.38",
    "stacks, and callers of functions",
)


class Release(NamedTuple):
    """A release, and what of 3.2's its kernel/trace/trace.c and its files in the top directory don't have."""

    name: str
    options: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    clocks: tuple[str, ...] = ("local", "global")


_FREE = frozenset({"disable_on_free"})
_OVERWRITE = _FREE | {"overwrite"}
_COMMANDS = _OVERWRITE | {"record-cmd"}
_BUFFER = frozenset({"free_buffer", "buffer_total_size_kb"})
_ENABLED = _BUFFER | {"enabled_functions"}
RELEASES = (
    Release("3.1.10", files=frozenset({"buffer_total_size_kb"})),
    Release("3.0.0", _FREE, _BUFFER),
    Release("2.6.39", _FREE, _ENABLED),
    Release("2.6.38", _OVERWRITE, _ENABLED),
    Release("2.6.37", _OVERWRITE, _ENABLED),
    Release("2.6.36", _OVERWRITE, _ENABLED),
    Release("2.6.35", _COMMANDS, _ENABLED),
    Release("2.6.34", _COMMANDS, _ENABLED),
    Release("2.6.33", _COMMANDS, _ENABLED),
)


def facts(recorded: Profile, release: Release) -> dict[str, Any]:
    """Return what profile.json says."""
    said: dict[str, Any] = json.loads((recorded.path / "profile.json").read_bytes())
    options = [option for option in said["options"] if option[0] not in release.options]
    return said | {
        "release": release.name,
        "version": release.name,
        "banner": f"Linux version {release.name} (unknown) (unknown) #1 SMP",
        "options": options,
        "clocks": list(release.clocks),
        "unrecorded": ["everything: no such kernel was run", *said["unrecorded"]],
        "made_up": list(MADE_UP),
    }


def tracefs(recorded: Profile, release: Release) -> bytes:
    """Return tracefs.bin: the recorded one, without what the release lacks."""
    found = recorded.tracefs
    without = release.files | {f"options/{name}" for name in release.options}
    common = "common_lock_depth" if release.options >= _OVERWRITE else "common_padding"
    systems = [entry.name for entry in found.entries("events") if entry.is_dir]
    members = {
        f"events/{system}/{entry.name}": (system, entry.name)
        for system in systems
        for entry in found.entries(f"events/{system}")
        if entry.is_dir
    }
    top = [entry.name for entry in found.entries("per_cpu")]
    places = ["", "events", "events/*", "events/*/*", "options", "per_cpu", *[f"per_cpu/{name}" for name in top]]
    directories = {
        path: [list(entry) for entry in found.entries(path) if f"{path}/{entry.name}".lstrip("/") not in without]
        for path in [*places, *[f"events/{system}" for system in systems], *members]
    }
    formats = {
        f"{path}/format": found.event_format(*names).decode("latin-1").replace("common_padding", common)
        for path, names in members.items()
    }
    texts = {path: found.text(path).decode("latin-1") for path in found.paths() if path not in without}
    lines = texts["trace_options"].splitlines(keepends=True)
    texts["trace_options"] = "".join(line for line in lines if line.strip().removeprefix("no") not in release.options)
    texts["trace_clock"] = texts["trace_clock"].replace(" counter", "")
    return profilefile.pristine_tracefs(texts, directories, formats)


def main() -> int:
    recorded = load("3.2.4")
    for release in RELEASES:
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            (directory / "profile.json").write_bytes(profilefile.json_bytes(facts(recorded, release)) + b"\n")
            (directory / "tracefs.bin").write_bytes(tracefs(recorded, release))
            (directory / "symbols.bin").write_bytes((recorded.path / "symbols.bin").read_bytes())
            data = packed(directory)
        (OUTPUT / f"{release.name}.kprofile").write_bytes(data)
        print(f"{release.name}.kprofile", len(data))
    sys.path.append(str(ROOT / "tools" / "guests"))
    profiles: Any = importlib.import_module("profiles")
    profiles.write_index(OUTPUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
