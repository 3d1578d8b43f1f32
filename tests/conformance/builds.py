"""What a kernel build shows of itself in a trace, out of its profile, and by what the suite tells kernels apart.

The sizes of functions, return addresses and the banner are facts of one build, not of a version.  `kprobe-vm record`
writes them down on the real kernel; `test_builds.py` has what they are for the builds that the package has.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

import pytest

from kprobe_sim.builds.gates import filter_gates_of, gates_of
from kprobe_sim.builds.portable import installed
from kprobe_sim.builds.portable.directory import profiles
from kprobe_sim.builds.profile import PROFILES, Profile, load
from kprobe_vm.recording.functions import NEWEST

# Texts in a kernel's README by which kernels are told apart, for the fixture `choose`.
SUFFIX = "%return"  # 5.10: a place may end in it; $COMM, of which the README says nothing, came with it
EPROBES = "<attached-group>"  # 5.15: event probes
AUTO = "[:[<group>/][<event>]]"  # 6.0: a probe may be named by its group alone
SYMSTR = "symstr, "  # 6.2, and 6.1.190
BTF = "<argname>"  # 6.5: parameters by their names in C
DENTRY = "%pd/%pD"  # 6.10
BY_MODULE = ":mod:<module>"  # 6.14: set_event takes the events of a module
AT_THE_TOP = "\n  synthetic_events"  # 7.0: named without events/
CURRENT = "$current"  # 7.3


class Answered(NamedTuple):
    """What a kernel answered when it was recorded: of `choose` a key as good as a text, where the README says nothing.

    `row` is one of the gates, `value` its value as the profile has it, a tuple for a list.
    """

    row: str
    value: object

    def meets(self, profile: Profile) -> bool:
        """Return whether that is what a kernel answered."""
        answer = profile.answers.get(self.row)
        return self.value == (tuple(answer) if isinstance(answer, list) else answer)


SHORT_RAW_MARKS = Answered("mark_room", False)  # their id is counted once
LONGER_RAW_MARKS = Answered("raw_mark_sizes", (4064, 4064))
MARKS_CALL_DEEPER = Answered("marker_depth", 1)
HELD_BY_NAMES = Answered("hist_held_by_names", True)
READ_AS_TASK = Answered("failed_kernel_read", "task")
READ_AS_ONE = Answered("failed_kernel_read", "one")
FPROBES_WHOLE = Answered("fprobe_stacks_whole", True)
FPROBES_LATE = Answered("fprobes_late", True)
FPROBES_WAIT = Answered("fprobes_wait", True)
FPROBES_APART = Answered("fprobes_apart", True)
UNWOUND = Answered("fprobe_returns_unwound", True)
LAZY = Answered("lazy_resched", True)
SHORT_DELETES = Answered("delete_compares", 63)
VALIABLE = Answered("variable_text", "Invalid $-valiable specified")
NO_ENTRY = Answered("zero_argument", "NO_BTF_ENTRY")
LARGE_EVENTS = Answered("event_size_limited", False)
UNMATCHED_LOGGED = Answered("unmatched_is_logged", True)
EMPTY_STRINGS = Answered("empty_user_string_is_fault", False)
NUMBERS_PREFIXED = Answered("syscall_numbers_prefixed", True)


class Build(NamedTuple):
    """Facts of one build; `openat2` and so on are places as a trace prints them, without the parentheses."""

    openat2: str
    openat: str
    clone: str
    fork: str
    fadvise: str
    fadvise_entry: str
    stack: tuple[str, str]
    boundary: int  # offset of the second instruction of do_sys_openat2 that a probe may be placed on
    banner: str
    dangling: bool  # whether a filter may end in && or || (the refusal went into some stable kernels)
    extends_sign: bool = False  # an int comes to ksys_fadvise64_64 and do_sys_openat2 with its sign in all 64 bits
    trampoline: str = "arch_rethook_trampoline+0x0/0x60"  # of return probes
    inside: str = "..Zff "  # what the trace says of where a probe that uses a breakpoint is hit
    opens_return_long: bool = True  # do_sys_openat2 gives all 64 bits of a refusal, not those of an int


_INSIDE = {
    (0x49, 0): "d.Z. ",
    (0x48, 0xFF): "..Zff ",
    (1, 0): "d... ",
    (9, 0): "d.h. ",
}  # by the gate "breakpoint": flags and depth


def build_of(profile: Profile) -> Build:
    """Return the facts of a build as its profile has them."""
    chains = profile.chains
    trampoline, _, _ = chains["returning"][-1].partition("+")
    opening, forking, advising = chains.get("functions", NEWEST)
    opens = _address(profile, opening)
    first = _entry(profile, opening)
    returned = profile.prototype(opening)
    calls, enters = (_place(profile, place) for place in chains["openat"][-2:])
    return Build(
        openat2=_entered(profile, opening),
        openat=_place(profile, chains["openat"][0]),
        clone=_entered(profile, forking),
        fork=_place(profile, chains["fork"][0]),
        fadvise=_entered(profile, advising),
        fadvise_entry=_place(profile, chains["fadvise"][0]),
        stack=(calls, enters),
        boundary=next(offset for offset in range(first + 1, 64) if profile.symbols.is_boundary(opens + offset)),
        banner=f"{profile.banner}\n",
        dangling=not filter_gates_of(profile).incomplete_refused,
        extends_sign=chains["registers_whole"],
        trampoline=_place(profile, f"{trampoline}+0x0"),
        inside=_INSIDE[gates_of(profile).breakpoint],
        opens_return_long=returned is None or returned.returns.size == 8,
    )


def _address(profile: Profile, name: str) -> int:
    (function,) = profile.symbols.lookup(name)
    return function.address


def _entry(profile: Profile, name: str) -> int:
    """Return where a probe on a function stands: after the ENDBR that it may start with."""
    return 4 if profile.symbols.has_endbr(_address(profile, name)) else 0


def _entered(profile: Profile, name: str) -> str:
    return _place(profile, f"{name}+{_entry(profile, name):#x}")


def _place(profile: Profile, place: str) -> str:
    """Return "NAME+OFFSET" with the size of the function, as %pS prints it."""
    (function,) = profile.symbols.lookup(place.partition("+")[0])
    return f"{place}/{function.size:#x}"


def recorded_of(release: str, spec: str, places: list[Path], banner: str = "") -> Profile:
    """Return the profile of a guest's release: of the user's places the first that has one, else what is installed.

    What it is called is no matter.  With the guest's `banner`, its /proc/version, a profile of another build of that
    release isn't it.  Raises LookupError, saying how one is made, where there is none.
    """
    for place in (*places, PROFILES, *(place for _, place in installed.profile_directories())):
        for of, path in profiles(place):
            if of == release and banner in ("", (profile := load(os.path.abspath(path))).banner):
                return profile
    kind, _, kernel = spec.partition(":")
    command = f"kprobe-vm record {kernel}" if kind == "vm" else "kprobe-sim record-local"
    raise LookupError(
        f"no profile of {release}, from which this suite knows what its functions are; make one with\n"
        f"    {command} -o DIRECTORY/{release}.kprofile\nand name DIRECTORY in KPROBE_SIM_PROFILES"
    )


def of_kernel(tracefs: Any, backend: Any, release: str, places: list[Path], lacks: Callable[..., NoReturn]) -> Profile:
    """Return the profile of the kernel under test; of one that is named by its path say so if it is lacking."""
    if (simulated := getattr(tracefs, "kernel", None)) is not None:
        return cast("Profile", simulated.profile)
    banner = ""
    if "/" in backend.spec and (machine := getattr(backend.opened, "machine", None)) is not None:
        banner = machine.files.read("proc/version").decode().strip()
    try:
        return recorded_of(release, backend.spec, places, banner)
    except LookupError as error:
        said = str(error)
    if "/" in backend.spec:  # a kernel of one's own, of which nobody has made one
        lacks("a profile of the kernel", why=release)
    pytest.fail(said, pytrace=False)
