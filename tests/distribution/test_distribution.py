"""What is handed out: built from the checkout's files, checked, and tried in clean environments."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, NoReturn

import pytest

from kprobe_vm.host.cache import Cache, digest

ROOT = Path(__file__).parent.parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
REQUIREMENTS = ("pytest>=7.4", "pyfakefs>=5.3")  # of the extra [test]
PIP = "pip>=24"  # 23 doesn't run on Python 3.12, which gets it from another Python
# all of it takes some 20 s of a CPU, and a build and an installation are one step each
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

MADE = re.compile(r"(?:PKG-INFO|setup\.cfg|kprobe_sim\.egg-info/.*)")
TEST = """
def test_what_is_opened(tracer, workload):
    with tracer.trace("p:myopen do_sys_openat2 file=+0(%si):string", filter=f"common_pid == {workload.pid}") as trace:
        workload.open("/etc/hostname")
        trace.stop()
        assert [event.fields["file"] for event in trace] == ["/etc/hostname"]


def test_by_absolute_paths(sys_kernel_tracing):
    assert open("/sys/kernel/tracing/current_tracer").read() == "nop\\n"


def test_in_pyfakefs(simulated_machine):
    assert open("/sys/kernel/tracing/tracing_on").read() == "1\\n"
"""


class Built(NamedTuple):
    """The two files, and what the build said."""

    sdist: Path
    wheel: Path
    log: str


def run(*command: str | Path, cwd: Path | None = None, status: int = 0) -> str:
    """Run a command without the variables that would lead it to the checkout; return all that it prints."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "KPROBE", "PYTEST", "VIRTUAL"))
    }
    done = subprocess.run(
        command, cwd=cwd, env=kept, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def files() -> list[str]:
    """Return the files that belong to the checkout; in an unpacked source distribution all but what the build made."""
    if (ROOT / ".git").exists():
        return run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).splitlines()
    hidden = (".venv", "build", "dist", "__pycache__")
    found = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return [
        str(path)
        for path in found
        if not any(part in hidden or part.endswith("_cache") or part == ".hypothesis" for part in path.parts)
        and not MADE.fullmatch(str(path))
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build both from a copy, so that neither takes in what lies about nor leaves anything behind."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in files():
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    log = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree)
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return Built(sdist, wheel, log)


@pytest.fixture(scope="module")
def metadata(built: Built) -> Message:
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(archive.read(name))


def test_the_build_warns_of_nothing(built: Built) -> None:
    warnings = [line for line in built.log.splitlines() if re.search("warning|deprecat", line, re.I)]
    # the copy has no bytecode that could be left out
    assert [line for line in warnings if not line.startswith("warning: no previously-included files matching")] == []


def test_twine_finds_no_fault(built: Built) -> None:
    said = run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", built.sdist, built.wheel)
    assert re.findall(r"PASSED|FAILED|WARNING", said) == ["PASSED", "PASSED"]


def test_the_licence(built: Built, metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert [value for value in metadata.get_all("Classifier", []) if value.startswith("License")] == []
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/licenses/LICENSE"))
        assert archive.read(name) == (ROOT / "LICENSE").read_bytes()


def test_the_addresses_are_those_of_others(metadata: Message) -> None:
    """The project has none of its own yet; an index shows at most 32 characters of a label."""
    named = [str(value).partition(", ") for value in metadata.get_all("Project-URL", [])]
    assert {label: address for label, _, address in named} == {
        "Interface (kernel docs)": "https://docs.kernel.org/trace/kprobetrace.html",
        "perf-tools' kprobe": "https://github.com/brendangregg/perf-tools",
    }
    assert max(len(label) for label, _, _ in named) <= 32


def test_the_versions_that_are_named_are_tried(metadata: Message) -> None:
    named = [value.rpartition(" ")[2] for value in metadata.get_all("Classifier", []) if ":: Python :: 3." in value]
    assert named == list(VERSIONS)
    assert metadata["Requires-Python"] == ">=3.11.2"  # Debian 12's


def test_the_description_has_no_link_that_breaks_on_an_index(metadata: Message) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert text.startswith("# kprobe-sim\n")
    links = re.findall(r"\]\(([^)\s]+)|^\[[^\]]+\]:\s*(\S+)|(?:href|src)=\"([^\"]+)", text, re.MULTILINE)
    assert [link for found in links for link in found if link and not link.startswith(("https://", "#"))] == []


def test_nothing_says_that_an_index_has_it() -> None:
    """With an extra, `pip install` means the kprobe-sim that is installed, and fetches what that lacks."""
    said = []
    from_index = re.compile(r"pip install '?kprobe(?!-sim\\?\[\w).*")
    for name in files():
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml") and path != Path(__file__) and path.exists():
            said += [f"{name}: {found}" for found in from_index.findall(path.read_text("utf-8"))]
    assert said == []


def test_the_source_distribution_is_the_checkout(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        inside = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {name for name in inside if not MADE.fullmatch(name)} == {name for name in files() if (ROOT / name).exists()}


def test_the_wheel_has_the_packages_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    homes = {
        **{f"{name}/": f"{name}/" for name in ("kprobe", "kprobe_text", "kprobe_corpus", "kprobe_check", "kprobe_sim")},
        "vm/kprobe_vm/": "kprobe_vm/",
        "vm/kprobe_lab/": "kprobe_lab/",
        "man/": "kprobe_sim-0.1.0.data/data/share/man/man1/",
        "bin/": "kprobe_sim-0.1.0.data/scripts/",
    }
    ours = {
        home + name.removeprefix(start) for name in files() for start, home in homes.items() if name.startswith(start)
    }
    assert inside == ours


# --- in a clean environment


def interpreters() -> ModuleType:
    """Return tools/setup/interpreters.py, which isn't in a package."""
    spec = importlib.util.spec_from_file_location("interpreters", ROOT / "tools" / "setup" / "interpreters.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheels() -> Path:
    """Give a directory with pip and what the extra [test] needs, fetched once."""
    cache = Cache.of(os.environ)
    home = cache.directory("wheels")
    place = home / digest("\n".join([PIP, *REQUIREMENTS]).encode())[:16]
    with cache.lock("wheels"):
        if not place.exists():
            half = home / f"{place.name}.{os.getpid()}"
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest"]
            run(*pip, half, PIP, *REQUIREMENTS)
            half.rename(place)
    return place


@pytest.fixture(scope="module")
def pip(wheels: Path) -> Path:
    """Give a pip that every Python can run, and that finds nothing else that is installed here."""
    (wheel,) = wheels.glob("pip-*.whl")
    return wheel / "pip"


@pytest.fixture(scope="module", params=VERSIONS)
def environment(
    request: pytest.FixtureRequest,
    built: Built,
    wheels: Path,
    pip: Path,
    lacks: Callable[..., NoReturn],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """Give the bin directory of an environment that has the wheel with its extra [test], and no more."""
    module = interpreters()
    try:
        python = module.interpreter(request.param)
    except module.NoInterpreter as error:
        lacks(f"Python {request.param}", why=str(error))
    place = tmp_path_factory.mktemp(f"python{request.param}")
    run(python, "-m", "venv", "--without-pip", place)
    command = [place / "bin" / "python", pip, "install"]
    options = ["--quiet", "--no-index", "--find-links", str(wheels), "--no-compile", "--disable-pip-version-check"]
    run(*command, *options, f"{built.wheel}[test]")
    assert (
        run(place / "bin" / "python", "-c", "import sys; print('%d.%d' % sys.version_info[:2])") == f"{request.param}\n"
    )
    yield place / "bin"
    shutil.rmtree(place)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Give a directory that isn't the checkout."""
    return tmp_path


def test_packages_come_from_the_wheel(environment: Path, outside: Path) -> None:
    code = "import kprobe, kprobe_sim, kprobe_vm; print(kprobe.__file__, kprobe_sim.__file__, kprobe_vm.__file__)"
    for path in run(environment / "python", "-W", "error", "-c", code, cwd=outside).split():
        assert Path(path).is_relative_to(environment.parent)


def test_commands(environment: Path, outside: Path) -> None:
    assert run(environment / "kprobe", "--help", cwd=outside).startswith("USAGE: kprobe ")
    assert run(environment / "kprobe-sim", "profiles", cwd=outside).startswith("5.10.0-")
    assert "usage: kprobe-vm" in run(environment / "kprobe-vm", "--help", cwd=outside)
    # the wheel alone lacks what machines need, and says so
    assert "pip install 'kprobe-sim[vm]'" in run(environment / "kprobe-vm", "check", cwd=outside, status=1)


def test_a_trace_on_the_simulator(environment: Path, outside: Path) -> None:
    definition = "p:myopen do_sys_openat2 filename=+0(%si):string"
    said = run(environment / "kprobe", "-d", "1", "--tracefs", "sim", definition, cwd=outside)
    assert re.search(r"cat-\d+ .*: myopen: \(do_sys_openat2\+0x0/0x\w+\) filename=\"/etc/hostname\"\n", said)


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the wheel of the profiles that the package lacks."""
    return further_wheel("kprobe-sim-profiles", tmp_path_factory)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the wheel of the corpus."""
    return further_wheel("kprobe-corpus", tmp_path_factory)


def further_wheel(distribution: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of a distribution of its own, from a copy."""
    tree, out = tmp_path_factory.mktemp(distribution), tmp_path_factory.mktemp("wheel")
    for name in (name for name in files() if name.startswith(f"distributions/{distribution}/")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    project = tree / "distributions" / distribution
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, project)
    (wheel,) = out.glob("*.whl")
    return wheel


def test_the_distribution_of_profiles(environment: Path, profiles: Path, pip: Path, outside: Path) -> None:
    """Its kernels are there as soon as it is installed, and one that is damaged is refused by its file's name."""
    python = ("env", f"XDG_CACHE_HOME={outside}", environment / "python")
    open_one = "import sys, kprobe_sim; print(kprobe_sim.SimulatedKernel(sys.argv[1]).release)"
    said = run(*python, "-c", open_one, "6.19", cwd=outside, status=1)
    assert "NoProfile: no profile of kernel '6.19'; there are: 5.10.0-" in said
    assert "`pip install ./distributions/kprobe-sim-profiles` installs it" in said
    run(*python, pip, "install", "--quiet", "--no-index", "--no-compile", "--disable-pip-version-check", profiles)
    assert run(*python, "-c", open_one, "6.19", cwd=outside).startswith("6.19.")
    assert run(*python, "-c", open_one, "6.12-rt-amd64", cwd=outside).endswith("-rt-amd64\n")
    assert run(*python, "-c", open_one, "6.12", cwd=outside).endswith("-cloud-amd64\n")
    rows = [line.split() for line in run(environment / "kprobe-sim", "profiles", cwd=outside).splitlines()]
    brought = [re.match(r"\d+\.\d+", row[0]) for row in rows if row[-2:] == ["kprobe-sim-profiles", "0.1.0"]]
    assert [found and found[0] for found in brought] == ["6.12", "6.12", "6.16", "6.17", "6.18", "6.19", "7.0", "7.1"]
    (damaged,) = environment.parent.rglob("kprobe_sim_profiles/7.1*.kprofile")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    said = run(*python, "-c", open_one, "7.1", cwd=outside, status=1)
    assert re.search(rf"ValueError: {re.escape(str(damaged))}: truncated: it has \d+ of \d+ bytes", said)


def test_the_distribution_of_the_corpus(environment: Path, corpus: Path, pip: Path, outside: Path) -> None:
    """It is there as soon as it is installed; without it that is said, and a damaged archive is told by its name."""
    said = run(environment / "kprobe", "corpus", "list", cwd=outside, status=1)
    assert said.startswith("ERROR: no corpus is installed: it comes in the distribution kprobe-corpus; ")
    options = ("--quiet", "--no-index", "--no-compile", "--disable-pip-version-check")
    run(environment / "python", pip, "install", *options, corpus)
    said = run(environment / "kprobe", "corpus", "check", cwd=outside)
    assert re.fullmatch(r"kprobe-corpus 0\.1\.0: 1282 traces of 17 kernels, \d+ lines, \d+ records: whole\n", said)
    (damaged,) = environment.parent.rglob("kprobe_corpus_data/guest-7.3.tar.xz")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    said = run(environment / "kprobe", "corpus", "list", cwd=outside, status=1)
    assert said.startswith(f"ERROR: {damaged} is damaged: its SHA-256 is ")


def test_a_run_of_pytest(environment: Path, outside: Path) -> None:
    (outside / "test_it.py").write_text(TEST)
    said = run(
        environment / "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--tracefs", "sim:6.1", cwd=outside
    )
    assert re.search(r"^3 passed in ", said, re.MULTILINE), said


def test_a_python_is_looked_for_where_one_may_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the home of another user, which HOME may name."""

    def refused(_place: Path, _pattern: str) -> Iterator[Path]:
        raise PermissionError

    monkeypatch.setattr(Path, "glob", refused)
    monkeypatch.setenv("PATH", "/one")
    assert list(interpreters().candidates("3.12")) == [Path("/one/python3.12")]
