"""A profile as one file: small, the same for the same recording, loaded by path, and refused where it isn't sound."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import struct
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds import profile
from kprobe_sim.builds.portable.file import ProfileFile, packed
from kprobe_sim.expose import patched
from kprobe_sim.kernel.backend import open_sim

from . import toy_profile

OPEN = "import sys; from kprobe_sim import SimulatedKernel; print(SimulatedKernel(sys.argv[1]).profile.path)"


@pytest.fixture(scope="module")
def toy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("toy")
    (place / "toy.kprofile").write_bytes(packed(toy_profile.write(place / "profile")))
    return place / "toy.kprofile"


@pytest.fixture
def toy(toy_file: Path) -> bytes:
    return toy_file.read_bytes()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where profile files are unpacked to; nothing is yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kprobe-sim"


@pytest.fixture
def file(toy: bytes, tmp_path: Path, cache: Path) -> Path:
    path = tmp_path / "mine.kprofile"
    path.write_bytes(toy)
    return path


def parts(data: bytes) -> dict[str, bytes]:
    """Return the parts of a file by name, read apart from the code under test."""
    body = lzma.decompress(data.partition(b"\n\n")[2])
    found, at = {}, 0
    while at < len(body):
        name_size, size = struct.unpack_from("<BI", body, at)
        start = at + 5 + name_size
        found[body[at + 5 : start].decode()] = body[start : start + size]
        at = start + size
    return found


def sealed(body: bytes, release: str = "6.16.1-toy", unpacked: int | None = None) -> bytes:
    """Return the file of a body whose checksum is right, as somebody makes it who means harm."""
    inside = lzma.compress(body, check=lzma.CHECK_NONE, preset=0)
    size = len(body) if unpacked is None else unpacked
    lines = f"kprobe-sim profile 1\nrelease {release}\nversion 6.16.1\nunpacked {size}\nlength {len(inside)}\n".encode()
    return lines + f"sha256 {hashlib.sha256(lines + inside).hexdigest()}\n\n".encode() + inside


def joined(found: dict[str, bytes]) -> bytes:
    return b"".join(struct.pack("<BI", len(name), len(data)) + name.encode() + data for name, data in found.items())


# ------------------------------------------------------------------------------------------------------- what it holds


@pytest.mark.slow
@pytest.mark.parametrize("release", [profile.available()[0], profile.available()[-1]])
def test_the_kernels_that_there_are_take_3_mb_and_come_back_whole(release: str, tmp_path: Path) -> None:
    recorded = profile.load(release).path
    data = packed(recorded)
    assert len(data) <= 3_000_000
    ProfileFile(data).write(tmp_path)
    assert packed_files(tmp_path) == packed_files(recorded)


def packed_files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_same_recording_is_the_same_file(toy: bytes, tmp_path: Path) -> None:
    assert packed(toy_profile.write(tmp_path / "again")) == toy
    (tmp_path / "unpacked").mkdir()
    ProfileFile(toy).write(tmp_path / "unpacked")
    assert packed(tmp_path / "unpacked") == toy


def test_what_a_profile_says_beyond_what_is_needed_is_kept(tmp_path: Path) -> None:
    said = {"answers": {"fields_as_symbols": True, "mark_room": False}}
    data = packed(toy_profile.write(tmp_path / "profile", **said))
    ProfileFile(data).write(tmp_path)
    assert json.loads((tmp_path / "profile.json").read_bytes())["answers"] == said["answers"]


def test_the_head_can_be_read(toy: bytes) -> None:
    lines = toy.partition(b"\n\n")[0].decode().split("\n")
    assert lines[:3] == ["kprobe-sim profile 1", "release 6.16.1-toy", "version 6.16.1"]
    assert [line.partition(" ")[0] for line in lines[3:]] == ["unpacked", "length", "sha256"]


# ----------------------------------------------------------------------------------------------------- loading by path


def test_a_kernel_of_a_file(file: Path) -> None:
    kernel = SimulatedKernel(str(file))
    assert (kernel.release, kernel.profile.series) == ("6.16.1-toy", "6.16")
    kernel.tracefs.write("kprobe_events", b"p:mine vfs_read\n")
    kernel.tracefs.write("events/kprobes/mine/enable", b"1")
    kernel.call("vfs_read")
    assert kernel.tracefs.read("trace").decode().splitlines()[-1].endswith(": mine: (vfs_read+0x0/0x10)")
    assert "sched_switch" in kernel.tracefs.listdir("events/sched")
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.tracefs.write("kprobe_events", b"p:none vfs_write\n")


@pytest.mark.parametrize("spec", ["{}", "{},cpus=2", "~/mine.kprofile", "mine.kprofile", "./mine.kprofile"])
def test_a_spec_with_a_path(file: Path, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(file.parent))
    monkeypatch.chdir(file.parent)
    backend = open_sim(spec.format(file))
    assert backend.kernel.release == "6.16.1-toy"
    backend.close()


@pytest.mark.requires("pyfakefs")
def test_a_kernel_of_a_file_in_a_fake_file_system(file: Path) -> None:
    from pyfakefs import fake_filesystem_unittest as pyfakefs

    kernel = SimulatedKernel(str(file))
    with pyfakefs.Patcher() as patcher, patched(kernel, fs=patcher.fs):
        text = Path("/sys/kernel/tracing/events/sched/sched_switch/format").read_text()
    assert text.startswith("name: sched_switch\n")


def test_a_kernel_of_a_directory(tmp_path: Path) -> None:
    directory = toy_profile.write(tmp_path / "profile")
    kernel = SimulatedKernel(str(directory))
    assert (kernel.release, kernel.profile.path) == ("6.16.1-toy", directory)
    (directory / "profile.json").unlink()
    with pytest.raises(ValueError, match=r"profile.json: No such file or directory$"):
        SimulatedKernel(str(directory))


def test_a_directory_that_is_recorded_anew_is_read_anew(tmp_path: Path) -> None:
    directory = toy_profile.write(tmp_path / "profile")
    assert SimulatedKernel(str(directory)).cpus == 1
    directory.rename(tmp_path / "old")
    toy_profile.write(directory, cpus=3)
    os.utime(directory / "profile.json", ns=(10**18, 10**18))
    assert SimulatedKernel(str(directory)).cpus == 3


def test_a_file_is_unpacked_once(file: Path, cache: Path) -> None:
    first = SimulatedKernel(str(file))
    (place,) = cache.iterdir()
    assert (place.name, first.profile.path) == (file.read_bytes().partition(b"sha256 ")[2][:64].decode(), place)
    made = place.stat().st_mtime_ns, place.stat().st_ino
    assert SimulatedKernel(str(file)).profile is first.profile
    done = subprocess.run([sys.executable, "-c", OPEN, str(file)], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == f"{place}\n"
    assert (place.stat().st_mtime_ns, place.stat().st_ino) == made


def test_processes_that_unpack_a_file_at_once(file: Path, cache: Path) -> None:
    command = [sys.executable, "-c", OPEN, str(file)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    (place,) = cache.iterdir()  # and nothing that was begun
    assert said == {f"{place}\n"}


def test_what_is_left_in_the_cache_and_is_not_whole_is_made_anew(file: Path, cache: Path) -> None:
    place = cache / file.read_bytes().partition(b"sha256 ")[2][:64].decode()
    place.mkdir(parents=True)
    (place / "symbols.bin").write_bytes(b"")
    assert SimulatedKernel(str(file)).profile.path == place


@pytest.mark.parametrize("cannot", ["a file", "of all"])
def test_without_a_cache_a_process_has_a_directory_of_its_own(file: Path, cache: Path, cannot: str) -> None:
    if cannot == "a file":
        cache.parent.mkdir()
        cache.write_bytes(b"")
    else:
        cache.mkdir(parents=True)
        cache.chmod(0o777)  # what is there may be anybody's
    done = subprocess.run([sys.executable, "-c", OPEN, str(file)], stdout=subprocess.PIPE, text=True, check=True)
    place = Path(done.stdout.rstrip())
    assert place.name.startswith("kprobe-sim-")
    assert not place.exists()


# ------------------------------------------------------------------------------------------------------ what is refused


def refused(path: Path) -> str:
    with pytest.raises(ValueError) as caught:
        SimulatedKernel(str(path))
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: b"", "not a profile of kprobe-sim"),
        (lambda data: b"PK\3\4" + data, "not a profile of kprobe-sim"),
        (lambda data: data[:60], "damaged: its head can't be read"),
        (lambda data: data[:-1], "truncated: it has {less} of {size} bytes"),
        (lambda data: data + b"\n", "damaged: it has {more} bytes, and should have {size}"),
        (lambda data: data[:-9] + b"\0" + data[-8:], "damaged: its checksum is another than the head says"),
        (
            lambda data: data.replace(b"6.16.1-toy", b"6.16.2-toy"),
            "damaged: its checksum is another than the head says",
        ),
        (
            lambda data: data.replace(b"profile 1", b"profile 2"),
            "a profile in format '2'; this kprobe-sim reads format 1",
        ),
        (lambda data: data.replace(b"length 1", b"length 123456"), "too large: "),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(file: Path, change: Callable[[bytes], bytes], reason: str) -> None:
    size = file.stat().st_size
    file.write_bytes(change(file.read_bytes()))
    assert refused(file).startswith(reason.format(size=size, less=size - 1, more=size + 1))


def test_a_path_with_nothing_there(tmp_path: Path, cache: Path) -> None:
    assert refused(tmp_path / "none.kprofile") == "No such file or directory"
    assert not cache.exists()


Parts = dict[str, bytes]


def facts(**other: object) -> Callable[[Parts], Parts]:
    def change(found: Parts) -> Parts:
        said = json.loads(found["profile.json"]) | other
        return found | {"profile.json": json.dumps({name: value for name, value in said.items() if value != ...})}

    return lambda found: {
        name: data.encode() if isinstance(data, str) else data for name, data in change(found).items()
    }


def without(name: str) -> Callable[[Parts], Parts]:
    return lambda found: {part: data for part, data in found.items() if part != name}


def other(name: str, data: bytes) -> Callable[[Parts], Parts]:
    return lambda found: found | {name: data}


def numbers(*values: int) -> bytes:
    data = array("I", values).tobytes()
    return b"".join(data[plane::4] for plane in range(4))


def texts(*values: bytes) -> bytes:
    return struct.pack(f"<{len(values) + 1}I", len(values), *map(len, values)) + b"".join(values)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (other("../../.bashrc", b"x"), "it has a part '../../.bashrc', which no profile has, or twice"),
        (other("symbols.bin/../x", b"x"), "it has a part 'symbols.bin/../x', which no profile has, or twice"),
        (other("symbols.bin/rank", b"x"), "it has a part 'symbols.bin/rank', which no profile has, or twice"),
        (without("profile.json"), "it has no profile.json"),
        (without("symbols.bin/bits"), "symbols.bin has no section bits"),
        (other("profile.json", b"{"), "profile.json isn't JSON: Expecting property name"),
        (other("profile.json", b"[" * 100_000), "profile.json isn't JSON: "),
        (other("profile.json", b"[]"), "profile.json isn't a JSON object"),
        (facts(banner=..., clocks=...), "profile.json lacks banner, clocks"),
        (facts(page_size=16384), "recorded with pages of 16384 bytes; x86-64 has 4096"),
        (facts(cpus="1"), 'profile.json: cpus can\'t be "1"'),
        (facts(release="../../x"), 'profile.json: release can\'t be "../../x"'),
        (facts(release="6.16.2-toy"), "its head says 6.16.1-toy, and it is of 6.16.2-toy"),
        (facts(answers={"symstr": "yes"}), 'profile.json: answers can\'t be {"symstr": "yes"}'),
        (facts(answers={"raw_mark_sizes": [4060, 1 << 70]}), "profile.json: answers can't be "),
        (facts(answers={"too_many_arguments": "NO_SUCH"}), "profile.json: answers can't be "),
        (facts(config={"HZ": "0"}), 'profile.json: config can\'t be {"HZ": "0"}'),
        (other("symbols.bin/address", numbers(1, 2)), "symbols.bin: 5 names of 2 symbols"),
        (other("symbols.bin/address", b"123"), "symbols.bin: a list of numbers ends within one"),
        (other("symbols.bin/address", numbers(*[1 << 31] * 5)), "symbols.bin: a list of numbers grows beyond 32 bits"),
        (other("symbols.bin/kinds", texts(bytes([0, 9, 0, 0, 0]))), "symbols.bin: a symbol's kind isn't in the table"),
        (other("symbols.bin/text", struct.pack("<III", 0, 1 << 20, 0)), "symbols.bin: text without its bitmap"),
        (
            other("symbols.bin/bits", struct.pack("<II", 1, 1 << 30)),
            "symbols.bin: texts aren't as long as their lengths say",
        ),
        (other("symbols.bin/regions", struct.pack("<III", 0, 9, 7)), "symbols.bin: a region of no module"),
        (other("prototypes.bin/index", numbers(0, 0, 9, 0, 0)), "prototypes.bin: a symbol's prototype isn't there"),
        (other("prototypes.bin/protos", texts(b"0\tname:99")), "prototypes.bin: there is no type 99"),
        (other("prototypes.bin/types", texts(b"0\nt\t2\tb\nt\t1\ta")), "prototypes.bin: type "),
        (
            other("tracefs.bin/tree", texts(b"\nevents", b"[]", b'[["../x",1,0,0,1]]')),
            "tracefs.bin: a malformed file entry",
        ),
        (other("tracefs.bin/formats", texts(b"name: x\nID: 1\nformat:\n")), "tracefs.bin: event "),
    ],
)
def test_a_hostile_file_is_refused_with_the_reason(
    toy: bytes, file: Path, cache: Path, change: Callable[[Parts], Parts], reason: str
) -> None:
    file.write_bytes(sealed(joined(change(parts(toy)))))
    assert refused(file).startswith(reason)
    assert list(cache.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("said", [1000, 1 << 20, 3_000_000_000])
def test_a_file_that_explodes_is_refused(file: Path, said: int) -> None:
    file.write_bytes(sealed(bytes(120 << 20), unpacked=said))
    assert refused(file) in (
        f"damaged: it doesn't unpack to {said} bytes",
        f"too large: {file.stat().st_size} bytes, {said} unpacked; no kernel's profile is",
    )


PLACE = st.integers(0, (1 << 20) - 1)  # in a text of any length, as its 1048576ths
CUT = st.none() | PLACE
FLIPS = st.lists(st.tuples(PLACE, st.integers(1, 255)), max_size=3)


def damaged(data: bytes, cut: int | None, flips: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for place, bits in flips:
        changed[(place * len(data)) >> 20] ^= bits
    return bytes(changed if cut is None else changed[: (cut * len(data)) >> 20])


@given(CUT, FLIPS)
def test_any_damage_is_an_error_and_only_that(toy_file: Path, cut: int | None, flips: list[tuple[int, int]]) -> None:
    toy = toy_file.read_bytes()
    if (changed := damaged(toy, cut, flips)) != toy:
        with pytest.raises(ValueError):
            ProfileFile(changed)


@pytest.mark.slow
@given(st.integers(0, 23), CUT, FLIPS)
def test_any_change_with_a_right_checksum_is_refused_or_harmless(
    toy_file: Path, number: int, cut: int | None, flips: list[tuple[int, int]]
) -> None:
    found = parts(toy_file.read_bytes())
    name = sorted(found)[number % len(found)]
    part = damaged(found[name], cut, flips if found[name] else [])
    try:
        sound = ProfileFile(sealed(joined(found | {name: part})))
    except ValueError:
        return
    with tempfile.TemporaryDirectory() as place:
        sound.write(Path(place))
        everything(profile.Profile(Path(place)))


def everything(recorded: profile.Profile) -> None:
    """Look at all that a profile has."""
    symbols, types = recorded.fresh_symbols(), recorded.types
    for symbol in symbols:
        symbols.placement(symbol.address)
        symbols.placement(symbol.address + 8)
        assert symbol in symbols.lookup(symbol.name)
    assert types is not None
    types.struct("file")
    for name in recorded.recorded_symbols.names():
        types.find(name)
    for number in range(5):
        types.c_type(number)
        if types.is_struct(number):
            types.member(number, "nowhere")
    for event in recorded.tracefs.events():
        recorded.tracefs.event_format(event.system, event.name)
        recorded.tracefs.entries(f"events/{event.system}/{event.name}")
    recorded.functions.lines  # noqa: B018
