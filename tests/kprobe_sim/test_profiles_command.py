"""`kprobe-sim profiles`: what it lists, packs and fetches, and what it says of what can't be used."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.portable import installed
from kprobe_sim.builds.portable.file import packed
from kprobe_sim.cli import main
from kprobe_vm.errors import MachineError
from kprobe_vm.recording.onefile import record_file

from . import toy_profile


class Home:
    """A user's directories, and what the command said."""

    def __init__(self, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.base = base
        self.data = base / "data" / "kprobe-sim" / "profiles"
        self.own = base / "own"
        self.source = base / "source"
        self._capsys = capsys

    def ends(self, *words: str, status: int = 0) -> list[str]:
        """Run the command `kprobe-sim profiles`; return the lines that it printed, of an error those on stderr."""
        assert main(["profiles", *words]) == status
        said = self._capsys.readouterr()
        return (said.err if status else said.out).splitlines()

    def offer(self, release: str) -> Path:
        """Put a profile file of a release into the source; return its path."""
        self.source.mkdir(exist_ok=True)
        version = release.partition("-")[0]
        directory = toy_profile.write(self.base / "made" / release, release=release, version=version)
        path = self.source / f"{release}.kprofile"
        path.write_bytes(packed(directory))
        return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Home:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(installed, "profile_directories", list)  # none is installed
    monkeypatch.setenv("KPROBE_SIM_PROFILES", str(tmp_path / "own"))
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path, capsys)


@pytest.fixture
def server(home: Home) -> Iterator[str]:
    """Serve the source on this machine; return its URL."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    home.source.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(home.source))) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


# ------------------------------------------------------------------------------------------------------------- the list


def test_the_list_says_where_each_profile_is_which_are_hidden_and_which_cannot_be_used(home: Home) -> None:
    home.own.mkdir()
    home.data.mkdir(parents=True)
    data = home.offer("6.16.1-toy").read_bytes()
    (home.own / "6.16.1-toy.kprofile").write_bytes(data)
    (home.data / "6.16.1-toy.kprofile").write_bytes(data)
    cut = home.offer("6.17-cut").read_bytes()
    (home.data / "6.17-cut.kprofile").write_bytes(cut[:-1])
    toy_profile.write(home.own / "mine", release="6.1.0-54-cloud-amd64")
    toy_profile.write(home.own / "6.18-lacking", release="6.18-lacking", page_size=16384)
    lines = home.ends()
    assert lines[:2] == [
        "5.10.0-46-cloud-amd64        5.10.262   2.7 MB  package",
        f"6.1.0-54-cloud-amd64         6.16.1     0.0 MB  {home.own}/mine (environment)",
    ]
    assert lines[2] == "6.1.0-54-cloud-amd64         6.1.190    2.9 MB  package; hidden by the one before"
    assert lines[4:8] == [
        f"6.16.1-toy                   6.16.1     0.0 MB  {home.own}/6.16.1-toy.kprofile (environment)",
        f"6.16.1-toy                   6.16.1     0.0 MB  {home.data}/6.16.1-toy.kprofile (data directory); "
        "hidden by the one before",
        f"6.17-cut                     -          0.0 MB  {home.data}/6.17-cut.kprofile (data directory): "
        f"truncated: it has {len(cut) - 1} of {len(cut)} bytes",
        f"6.18-lacking                 -          0.0 MB  {home.own}/6.18-lacking (environment): "
        "recorded with pages of 16384 bytes; x86-64 has 4096",
    ]
    assert lines[-1] == "activities: idle, opens, perf-tools"


# -------------------------------------------------------------------------------------------------------------- packing


def test_a_kernel_is_packed_and_used(home: Home) -> None:
    directory = toy_profile.write(home.own / "6.16.1-toy")
    assert home.ends("--pack", "6.16") == ["6.16.1-toy.kprofile"]
    assert home.ends("--pack", str(directory), "-o", "mine.kprofile") == ["mine.kprofile"]
    assert Path("mine.kprofile").read_bytes() == Path("6.16.1-toy.kprofile").read_bytes() == packed(directory)
    assert Path("mine.kprofile").stat().st_mode & 0o777 == 0o644
    assert SimulatedKernel("mine.kprofile").release == "6.16.1-toy"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pack", "9.9"], "kprobe-sim: no profile of kernel '9.9'; there are: 5.10.0-46-cloud-amd64, "),
        (["--pack", "6.16", "-o", "nowhere/x"], "kprobe-sim: [Errno 2] No such file or directory: "),
    ],
)
def test_what_cannot_be_packed(home: Home, words: list[str], said: str) -> None:
    toy_profile.write(home.own / "6.16.1-toy")
    (line,) = home.ends(*words, status=2)
    assert line.startswith(said)
    assert [path.name for path in home.base.iterdir()] == ["own"]


@pytest.mark.parametrize("verb", [["run"], ["mount"]])
def test_a_profile_that_cannot_be_used_is_one_line(
    home: Home, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    Path("mine.kprofile").write_bytes(b"kprobe-sim profile 7\n\n")
    assert main([*verb, "--kernel", "mine.kprofile", "true"]) == 2
    path = home.base / "mine.kprofile"
    assert capsys.readouterr().err == (f"kprobe-sim: {path}: a profile in format '7'; this kprobe-sim reads format 1\n")


@pytest.mark.parametrize("words", [["-o", "x"], ["6.1"], ["--pack", "6.1", "--fetch", "."]])
def test_words_that_do_not_belong_together(home: Home, words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["profiles", *words])


def test_a_recording_as_one_file(home: Home) -> None:
    def record(into: Path) -> Path:
        return toy_profile.write(into / "6.16.1-toy")

    assert record_file(record, home.base / "mine.kprofile") == home.base / "mine.kprofile"
    assert SimulatedKernel(str(home.base / "mine.kprofile")).release == "6.16.1-toy"
    assert [path.name for path in home.base.iterdir() if path.name.startswith(".")] == []
    with pytest.raises(FileNotFoundError):
        record_file(lambda into: pytest.fail("recorded"), home.base / "nowhere" / "mine.kprofile")
    with pytest.raises(MachineError, match=r"the recording of x is unsound: profile.json: cpus can't be 0"):
        record_file(lambda into: toy_profile.write(into / "x", cpus=0), home.base / "other.kprofile")
    assert not (home.base / "other.kprofile").exists()


# ------------------------------------------------------------------------------------------------------------- fetching


def test_a_file_is_fetched_and_found_by_its_release(home: Home) -> None:
    home.offer("6.16.1-toy").rename("anything.bin")
    target = home.data / "6.16.1-toy.kprofile"
    assert home.ends("--fetch", "anything.bin") == [str(target)]
    assert target.read_bytes() == Path("anything.bin").read_bytes()
    assert [path.name for path in home.data.iterdir()] == ["6.16.1-toy.kprofile"]
    assert SimulatedKernel("6.16").release == "6.16.1-toy"


@pytest.mark.parametrize("source", ["source", "file://{}/source"])
def test_of_a_directory_all_are_fetched_or_those_that_are_named(home: Home, source: str) -> None:
    for release in ("6.16.1-toy", "6.16.2-toy", "6.17.1-toy"):
        home.offer(release)
    source = source.format(home.base)
    assert home.ends("--fetch", source, "6.16", "6.17.1-toy") == [
        f"{home.data}/6.16.2-toy.kprofile",
        f"{home.data}/6.17.1-toy.kprofile",
    ]
    assert len(home.ends("--fetch", source)) == 3
    toy_profile.write(home.source / "6.18.1-toy", release="6.18.1-toy", version="6.18.1")
    assert home.ends("--fetch", source, "6.18") == [f"{home.data}/6.18.1-toy.kprofile"]
    assert SimulatedKernel("6.18").release == "6.18.1-toy"


def index(home: Home, *names: str) -> None:
    rows = [f"{hashlib.sha256((home.source / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (home.source / "SHA256SUMS").write_text("".join(rows) + f"{'0' * 64}  ../../evil.kprofile\n{'0' * 64} *README\n")


def test_fetching_from_a_server(home: Home, server: str) -> None:
    for release in ("6.16.1-toy", "6.17.1-toy"):
        home.offer(release)
    index(home, "6.16.1-toy.kprofile", "6.17.1-toy.kprofile")
    assert home.ends("--fetch", f"{server}/6.17.1-toy.kprofile") == [f"{home.data}/6.17.1-toy.kprofile"]
    assert home.ends("--fetch", f"{server}/", "6.16") == [f"{home.data}/6.16.1-toy.kprofile"]
    assert home.ends("--fetch", server) == [f"{home.data}/6.1{minor}.1-toy.kprofile" for minor in (6, 7)]


def test_nothing_authenticates_what_comes_by_http(home: Home, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    digest = hashlib.sha256(home.offer("6.16.1-toy").read_bytes()).hexdigest()
    url = f"{server}/6.16.1-toy.kprofile"
    assert main(["profiles", "--fetch", url]) == 0
    assert capsys.readouterr().err == (
        f"kprobe-sim: {url}: nothing authenticates a download by http: anyone on the way can change it. Fetch it "
        "by https, or with the digest that its maker gives: URL#sha256=DIGEST\n"
    )
    assert main(["profiles", "--fetch", f"{url}#sha256={digest}"]) == 0
    assert capsys.readouterr().err == ""
    assert home.ends("--fetch", f"{url}#sha256={'0' * 64}", status=2) == [
        "kprobe-sim: 6.16.1-toy: damaged: its checksum is another than #sha256 says"
    ]
    assert home.ends("--fetch", f"{url}#md5=1", status=2) == [
        f"kprobe-sim: {url}#md5=1: what follows # has to be sha256= and 64 hexadecimal digits"
    ]


def test_what_is_damaged_on_a_server_is_not_kept(home: Home, server: str) -> None:
    path = home.offer("6.16.1-toy")
    index(home, path.name)
    path.write_bytes(home.offer("6.17.1-toy").read_bytes())
    error = "kprobe-sim: 6.16.1-toy: damaged: its checksum is another than SHA256SUMS says"
    assert home.ends("--fetch", server, status=2) == [error]
    path.write_bytes(path.read_bytes()[:-5])
    (line,) = home.ends("--fetch", f"{server}/{path.name}", status=2)
    assert line.startswith("kprobe-sim: 6.16.1-toy: truncated: ")
    assert not home.data.exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{}/nothing.kprofile", "kprobe-sim: nothing: {}/nothing.kprofile: File not found"),
        ("{}", "kprobe-sim: {}/SHA256SUMS: File not found"),
        ("ftp://127.0.0.1/x.kprofile", "kprobe-sim: ftp://127.0.0.1/x.kprofile: only http, https and file are known"),
        (
            "http://127.0.0.1:1/x.kprofile",
            "kprobe-sim: x: http://127.0.0.1:1/x.kprofile: [Errno 111] Connection refused",
        ),
        ("nowhere", "kprobe-sim: nowhere: no such file or directory"),
        ("source", "kprobe-sim: source: no profiles there"),
    ],
)
def test_what_is_not_there_is_one_line(home: Home, server: str, source: str, said: str) -> None:
    assert home.ends("--fetch", source.format(server), status=2) == [said.format(server)]


def test_a_name_that_the_source_has_not(home: Home) -> None:
    home.offer("6.16.1-toy")
    assert home.ends("--fetch", "source", "6.17", status=2) == [
        "kprobe-sim: no profile of kernel '6.17'; there are: 6.16.1-toy"
    ]
