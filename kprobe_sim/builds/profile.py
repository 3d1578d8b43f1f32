"""Recorded kernels: everything that a simulated kernel knows about the real one it stands for.

A profile is a directory, one per kernel build, written by `kprobe-vm record` and never by hand: the package's own are
under `profiles/`.  Those of the user may also be files, which are unpacked when they are first used: see `portable`.
Opening a profile reads a small file of facts; symbols, prototypes and the pristine tracefs are mapped files, which are
searched by name.  A profile never changes, so `load` opens it once for all kernels of the process; each kernel keeps
its changes to itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from kprobe_sim.builds.functions import RecordedFunctions
from kprobe_sim.builds.once import once
from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.builds.prototypes import CType, Prototype, PrototypeTable
from kprobe_sim.builds.recorded import RecordedSymbols
from kprobe_sim.builds.recorded_tracefs import RecordedTracefs
from kprobe_sim.builds.symbols import SymbolTable
from kprobe_sim.releases import SUFFIX, YEAR, chosen, fitting, where_else

PROFILES = Path(__file__).parent / "profiles"
DOCUMENTS = Path(__file__).parent / "documents"  # profiles of kernels that are known from documents only
VARIABLE = "KPROBE_SIM_PROFILES"  # directories of profiles, which are searched first
_DOCUMENTED = re.compile(rf"{YEAR.pattern}|.*-(?:i386|wind-river)\Z")
CALLED: Final = {
    "open": ("do_sys_openat2", "do_sys_open"),  # since 5.6
    "fork": ("kernel_clone", "_do_fork", "do_fork"),  # since 5.10, 4.2
    "fadvise": ("ksys_fadvise64_64", "SyS_fadvise64", "sys_fadvise64"),  # since 4.18; before that the call itself
}
"""The function that a kernel calls for a task's act, the newest name first: the innermost that all callers share."""


class Profile:
    """One recorded kernel."""

    def __init__(self, path: Path) -> None:
        facts: dict[str, Any] = json.loads((path / "profile.json").read_bytes())
        self.path: Final = path
        self._facts = facts
        self.release: Final[str] = facts["release"]  # uname -r
        self.version: Final[str] = facts["version"]  # "6.1.190"
        self.banner: Final[str] = facts["banner"]  # /proc/version, without its newline
        self.cpus: Final[int] = facts["cpus"]  # of the machine that it was recorded on
        self.page_size: Final[int] = facts["page_size"]
        if self.page_size != PAGE_SIZE:
            raise ValueError(f"{path} was recorded with pages of {self.page_size} bytes; x86-64 has {PAGE_SIZE}")
        self.first_dynamic_id: Final[int] = facts["first_dynamic_id"]  # id of the first probe event after boot
        self.second_dynamic_id: Final[int] = facts["second_dynamic_id"]  # of one made when the first was gone
        self.clocks: Final[tuple[str, ...]] = tuple(facts["clocks"])
        self.default_clock: Final[str] = facts["default_clock"]
        self.tracers: Final[tuple[str, ...]] = tuple(facts["tracers"])
        self.saved_cmdlines_size: Final[int] = facts["saved_cmdlines_size"]
        self.marker_offset: Final[int] = facts.get("marker_offset", 0)  # of marks, in tracing_mark_write
        self.preempt_model: Final[str] = facts["preempt_model"]  # as the header of latency-format says it: "desktop"
        self.modules: Final[tuple[str, ...]] = tuple(facts["modules"])  # loaded when it was recorded

    def __repr__(self) -> str:
        return f"Profile({self.release!r})"

    @cached_property
    def number(self) -> tuple[int, int, int]:
        """Return the version as three numbers, for the table of gates."""
        return version_number(self.version)

    @property
    def series(self) -> str:
        """Return the first two numbers of the version: "6.1"."""
        return "{}.{}".format(*self.number)

    @property
    def options(self) -> list[tuple[str, bool]]:
        """Return the trace options with their defaults, in the order of trace_options."""
        return [(name, value) for name, value in self._facts["options"]]

    @property
    def config(self) -> dict[str, str]:
        """Return the configuration facts that change answers: name without CONFIG_ -> value; unset ones are absent."""
        return dict(self._facts["config"] or {})

    @property
    def has_all_symbols(self) -> bool:
        """Whether all symbols of the build are known, so that each ends where the next one begins."""
        return not self._facts.keys() & {"unrecorded", "made_up"}

    @property
    def root_mode(self) -> int:
        """Return the permission bits of the root directory; 0700 for a profile that doesn't say."""
        mode: int = self._facts.get("root_mode", 0o700)
        return mode

    @cached_property
    def answers(self) -> Mapping[str, Any]:
        """Return the kernel's answers to the questions of the gates, by the names of these."""
        return MappingProxyType(self._facts.get("answers", {}))

    @cached_property
    def chains(self) -> Mapping[str, Any]:
        """Return the call chains of the build, by what leads to them; {} if none are recorded.

        They are tuples of SYMBOL+OFFSET, or a bare address where there is no symbol, innermost first.
        """
        chains: dict[str, Any] = self._facts.get("chains", {})
        return MappingProxyType({way: _frozen(functions) for way, functions in chains.items()})

    @cached_property
    def called(self) -> Mapping[str, str]:
        """Return the functions that this kernel calls for a task's acts: for "open", "fork", "fadvise".

        They are recorded unless they are the newest; if little of a kernel was recorded, they are the symbols it has.
        """
        if recorded := self.chains.get("functions"):
            return MappingProxyType(dict(zip(CALLED, recorded, strict=True)))
        newest = {does: names[0] for does, names in CALLED.items()}
        if not self.has_all_symbols:
            lookup = self.symbols.lookup
            newest |= {does: name for does, names in CALLED.items() for name in reversed(names) if lookup(name)}
        return MappingProxyType(newest)

    @property
    def preemption(self) -> bool:
        """Return whether the kernel was built with CONFIG_PREEMPTION (as PREEMPT_DYNAMIC implies)."""
        config = self._facts["config"]
        return "PREEMPTION" in config if config else " PREEMPT" in self.banner

    @property
    def reuses_ids(self) -> bool:
        """Return whether the id of an event that was removed goes to the next one (6.3 and later)."""
        return self.second_dynamic_id == self.first_dynamic_id

    @cached_property
    def hz(self) -> int:
        """Return CONFIG_HZ."""
        return int(self.config.get("HZ", "250"))

    @cached_property
    def syscall_user_buf_size(self) -> int:
        """Return how many bytes of the user's memory an argument of a system call's event holds; 0 before 6.19."""
        try:
            return int(self.tracefs.text("syscall_user_buf_size"))
        except KeyError:
            return 0

    @cached_property
    def thread_size(self) -> int:
        """Return the size of a kernel stack in bytes (THREAD_SIZE: four pages, two on i386; eight with KASAN)."""
        if self.answers.get("word_size") == 4:
            return self.page_size * 2
        return self.page_size * (8 if "KASAN" in self.config else 4)

    @property
    def tasks(self) -> list[tuple[int, str]]:
        """Return (pid, comm) of the tasks that ran after boot."""
        return [(pid, comm) for pid, comm in self._facts["tasks"]]

    @cached_property
    def trace_buffer_size(self) -> int:
        """Return the bytes that a CPU's buffer is asked to hold once it is expanded (trace_buf_size)."""
        text = str(self._facts["buffer_size_kb"])  # "7 (expanded: 1408)"
        return int(text.partition("expanded: ")[2].rstrip(")\n") or self.buffer_size_kb) << 10

    @property
    def buffer_size_kb(self) -> int:
        """Return the size of a CPU's buffer in KiB once it is expanded, as buffer_size_kb then reads."""
        size: int = self._facts["buffer_size_kb_expanded"]
        return size

    # ------------------------------------------------------------------------------------------------- mapped files

    @cached_property
    def tracefs(self) -> RecordedTracefs:
        """Return the pristine tracefs: texts, directories and static events."""
        return RecordedTracefs(self.path / "tracefs.bin")

    @cached_property
    def recorded_symbols(self) -> RecordedSymbols:
        """Return the symbols as they were recorded; all kernels of the build share them."""
        return RecordedSymbols(self.path / "symbols.bin")

    @cached_property
    def symbols(self) -> SymbolTable:
        """Return the kernel's symbols: one table for this profile; `fresh_symbols` makes others."""
        return self.fresh_symbols()

    @cached_property
    def functions(self) -> RecordedFunctions:
        """Return the functions that ftrace can stop in, as they were recorded."""
        return RecordedFunctions(self.recorded_symbols, self.symbols.ftrace_locations)

    def fresh_symbols(self) -> SymbolTable:
        """Return a new table, to which functions can be added for one kernel alone."""
        return SymbolTable(self.recorded_symbols, word_size=self.answers.get("word_size", 8))

    @cached_property
    def types(self) -> PrototypeTable | None:
        """Return what BTF says of functions and types; None for a kernel without BTF."""
        path = self.path / "prototypes.bin"
        return PrototypeTable(path, self.recorded_symbols) if path.exists() else None

    def prototype(self, name: str) -> Prototype | None:
        """Return the parameters and the return type of a function, None where BTF doesn't know it."""
        types = self.types
        return types.find(name) if types else None

    def member(self, function: str, parameter: int, path: str) -> tuple[tuple[int, ...], CType] | None:
        """Return the offsets that lead from a function's parameter to a member, and its type; None if BTF lacks it."""
        types = self.types
        return types.follow(function, parameter, path) if types else None


def version_number(version: str) -> tuple[int, int, int]:
    """Return "6.1.190" as (6, 1, 190); missing numbers are 0."""
    major, minor, patch, *_ = [*(int(number) for number in re.findall(r"\d+", version)), 0, 0, 0]
    return major, minor, patch


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value


def available() -> list[str]:
    """Return the releases that the package has profiles of, oldest first."""
    try:
        changed = os.stat(PROFILES).st_mtime_ns
    except OSError:
        return []
    return list(_listed(PROFILES, changed))


@lru_cache(maxsize=4)
def _listed(profiles: Path, changed: int) -> tuple[str, ...]:
    """Return the releases in a directory; `changed`, its time of change, is a key of the cache."""
    return ordered(tuple(path.name for path in profiles.iterdir() if (path / "profile.json").is_file()))


@lru_cache(maxsize=16)
def ordered(releases: tuple[str, ...]) -> tuple[str, ...]:
    """Return releases, oldest first."""
    return tuple(sorted(releases, key=_by_version))


def _by_version(release: str) -> tuple[object, ...]:
    """Return the key that sorts releases: version, candidates before the release, then the distribution's numbers.

    Of one build's flavours the cloud kernel's is last: kprobe-vm means it by a series.
    """
    version = re.split(r"[-+]", release, maxsplit=1)[0]
    candidate = re.search(r"-rc(\d+)", release)
    builds = re.findall(r"(?:deb|\b)(\d+)", release[len(version) :])  # of "-54" and "+deb13", not the 64 of "amd64"
    numbers = [*map(int, builds)]
    return (
        *version_number(version),
        candidate is None,
        int(candidate[1]) if candidate else 0,
        numbers,
        "cloud" in release,
    )


def profile_directories() -> list[tuple[str, Path]]:
    """Return the directories of the user's profiles in the order of search, each after what names it.

    These are the directories of $KPROBE_SIM_PROFILES, and the data directory: $XDG_DATA_HOME/kprobe-sim/profiles.
    """
    return list(_user_directories())


def _user_directories() -> tuple[tuple[str, Path], ...]:
    get = os.environ.get
    return _directories(get(VARIABLE), get("XDG_DATA_HOME"), get("HOME"))


@lru_cache(maxsize=4)
def _directories(named: str | None, data: str | None, home: str | None) -> tuple[tuple[str, Path], ...]:
    """Return the directories by the variables that name them; os.path.expanduser() makes `~` of `home`."""
    base = data if data and os.path.isabs(data) else os.path.expanduser("~/.local/share")
    last = ("data directory", Path(base, "kprobe-sim", "profiles"))
    return (*(("environment", Path(path)) for path in (named or "").split(os.pathsep) if path), last)


def newest() -> str:
    """Return what the spec `sim` stands for: the series of the package's newest profile.

    It is that profile's release if the user has a newer one of the series.
    """
    recorded = load()
    return recorded.series if load(recorded.series) is recorded else recorded.release


def load(spec: str = "") -> Profile:
    """Return the newest profile of a series ("6.1"), the one of a release, or without spec the package's newest.

    The user's profiles and the package's are searched, by the release that each claims.  If several claim one release
    the first counts, in the order of `profile_directories`, the package's last.  The user's can also be named by their
    files.  A year ("2009") means a kernel known only from a document, which no list has; so do "3.13-i386" and
    "4.4-wind-river".  If none of these fits, the profiles of other installed distributions are searched as well.  A
    spec with a slash or the suffix of profile files is a path.

    Raises ValueError, listing the profiles, for a spec that nothing fits, or with the reason for a profile that can't
    be used.
    """
    if "/" in spec or spec.endswith(SUFFIX):
        return _load_path(Path(spec))
    if _DOCUMENTED.match(spec) and (documented := fitting(spec, _documented())):
        return _opened((DOCUMENTS, documented, 0))
    packaged = tuple(available())
    paths = _by_release(_user_directories()) if spec else {}
    names = ordered((*paths, *(release for release in packaged if release not in paths))) if paths else packaged
    release = fitting(spec, names)
    if release is None:
        if (named := _user_profile_named(spec)) is not None:
            return _load_path(named)
        paths = _installed() | paths
        names = ordered((*paths, *(release for release in packaged if release not in paths)))
        hint = "others can be installed or recorded: docs/guides/profiles.md"
        release = chosen(spec, names, where_else(spec) or hint)
    return _load_path(paths[release]) if release in paths else _opened((PROFILES, release, 0))


@lru_cache(maxsize=1)
def _documented() -> tuple[str, ...]:
    """Return the releases that are known only from documents."""
    return ordered(tuple(path.name for path in DOCUMENTS.iterdir() if (path / "profile.json").is_file()))


def _by_release(directories: Sequence[tuple[str, Path]]) -> dict[str, Path]:
    """Return the profiles in some directories by the releases that they claim; the first directory counts."""
    paths: dict[str, Path] = {}
    for _, directory in reversed(directories):
        if os.access(directory, os.R_OK):  # most often it doesn't exist, and this takes half the time of an exception
            from kprobe_sim.builds.portable.directory import profiles_in

            paths |= profiles_in(directory)
    return paths


def _user_profile_named(name: str) -> Path | None:
    """Return the user's profile whose file has a name, with or without its suffix; None if none has."""
    from kprobe_sim.builds.portable.directory import profile_named

    paths = (profile_named(name, directory) for _, directory in _user_directories() if name)
    return next((path for path in paths if path), None)


def _installed() -> dict[str, Path]:
    """Return the profiles of other installed distributions by the releases that they claim."""
    from kprobe_sim.builds.portable.installed import profile_directories

    return _by_release(profile_directories())


def _load_path(path: Path) -> Profile:
    """Return the profile of a directory, or of a file, which is unpacked if it is new."""
    from kprobe_sim.builds.portable.cache import unpacked

    directory = unpacked(Path(os.path.abspath(path.expanduser())), os.environ)
    try:
        opened = _opened((directory, "", (directory / "profile.json").stat().st_mtime_ns))
        opened.tracefs, opened.types  # noqa: B018  # a damaged one is refused now
    except OSError as error:
        raise ValueError(f"{error.filename}: {error.strerror}") from error
    return opened


@once
def _opened(which: tuple[Path, str, int]) -> Profile:
    """Open a profile by its parent directory and its name; the number changes when the profile is written anew."""
    parent, name, _ = which
    return Profile(parent / name)
