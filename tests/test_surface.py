"""The public names, on which other people's programs rely: a change here is a change for them."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kprobe
import kprobe_check
import kprobe_corpus.parsers
import kprobe_corpus.traces
import kprobe_sim
import kprobe_vm
from kprobe.tracing.trace_events import TraceEvents
from kprobe_corpus.parsers.texts import TraceText

KPROBE = [
    "AlreadyExists", "AmbiguousSymbol", "Busy", "DefinitionError", "Event", "FilterRefused", "Handle", "Histogram",
    "KprobeError", "Latencies", "Latency", "LocalTracefs", "Lost", "NoSuchField", "NoSuchProcess", "NotABoundary",
    "NotPermitted", "Parser", "Place", "Probe", "Refused", "StackTrace", "Stream", "Trace", "Tracefs",
    "TracefsMissing", "Tracer", "UndoFailed", "UnknownBackend", "UnknownSymbol", "Unparsed", "Unsupported",
    "WaitedTooLong", "find_tracefs", "open_tracefs", "parse",
]  # fmt: skip


def test_kprobe() -> None:
    assert sorted(kprobe.__all__) == KPROBE
    for name in KPROBE:
        assert getattr(kprobe, name).__name__ == name


def test_kprobe_check() -> None:
    assert sorted(kprobe_check.__all__) == [
        "Answer", "BadSource", "Finding", "NoKernel", "Position", "Report", "Statement", "Suggestion", "Verdict",
        "check", "statements",
    ]  # fmt: skip
    assert str(inspect.signature(kprobe_check.check)) == (
        "(definitions: 'Iterable[str | Statement]', kernels: 'str | Iterable[Kernel]' = 'all', *, "
        "suggest: 'bool' = True) -> 'Report'"
    )
    assert str(inspect.signature(kprobe_check.statements)) == (
        "(data: 'bytes', source: 'str', as_form: 'str' = '') -> 'list[Statement]'"
    )
    fields = {one.__name__: one._fields for one in (kprobe_check.Report, kprobe_check.Finding, kprobe_check.Verdict)}
    assert fields == {
        "Report": ("kernels", "findings"),
        "Finding": ("statement", "verdicts", "suggestion"),
        "Verdict": ("kernel", "state", "answer", "because"),
    }


def test_kprobe_readers() -> None:
    assert kprobe_corpus.parsers.__all__ == ["TraceText", "answer"]
    assert kprobe_corpus.parsers.TraceText is TraceText
    assert str(inspect.signature(kprobe_corpus.parsers.answer)) == "(read: 'Read') -> 'None'"
    assert str(inspect.signature(TraceText.check)) == (
        "(self, read: 'Callable[[bytes], Iterable[Mapping[str, Any]]]', *, "
        "types: 'Collection[str]' = ('event',)) -> 'bool'"
    )


def test_kprobe_corpus() -> None:
    assert sorted(kprobe_corpus.traces.__all__) == ["Corpus", "CorpusError", "Entry", "corpora", "entries"]
    assert str(inspect.signature(kprobe_corpus.traces.entries)) == (
        "(kernels: 'Iterable[str]' = (), scenarios: 'Iterable[str]' = (), *, directory: 'str | None' = None)"
        " -> 'list[Entry]'"
    )
    offered = {name for name in vars(kprobe_corpus.traces.Entry) if not name.startswith("_")}
    assert offered == {
        "about", "dat_truth", "definitions", "files", "format_files", "formats", "kernel", "name", "place", "text",
        "truth", "truth_lines",
    }  # fmt: skip


def test_kprobe_sim() -> None:
    assert sorted(kprobe_sim.__all__) == ["Call", "SimulatedKernel", "Task", "Workload"]
    methods = {
        name: str(inspect.signature(value)) for name, value in vars(kprobe_sim.Workload).items() if name[0] != "_"
    }
    assert methods == {
        "open": "(self, path: 'str | bytes', flags: 'int' = 0, mode: 'int' = 0, dfd: 'int' = -100, *, "
        "repeat: 'int' = 1) -> 'int'",
        "fork": "(self) -> 'int'",
        "fadvise": "(self, fd: 'int', offset: 'int', length: 'int', advice: 'int' = 0, *, data: 'bytes' = b'') "
        "-> 'int'",
        "rename": "(self, comm: 'str | bytes') -> 'None'",
        "close": "(self) -> 'None'",
    }
    assert kprobe_sim.Workload.__annotations__ == {"comm": "str", "pid": "int"}


def test_kprobe_vm() -> None:
    assert sorted(kprobe_vm.__all__) == ["Machine", "MachineDied", "MachineError", "NotReady"]


ROOT = Path(__file__).parent.parent
PACKAGES = {"kprobe": ROOT / "kprobe", "kprobe_sim": ROOT / "kprobe_sim", "kprobe_vm": ROOT / "vm" / "kprobe_vm"}


def test_the_version_is_that_of_the_project() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        expected = tomllib.load(file)["project"]["version"]
    assert [package.__version__ for package in (kprobe, kprobe_sim, kprobe_vm)] == [expected] * 3
    for package in (kprobe, kprobe_sim, kprobe_vm):
        assert not hasattr(package, "nonsense")


@pytest.mark.parametrize("name", PACKAGES)
def test_the_version_of_a_checkout_that_is_not_installed(name: str) -> None:
    code = (
        f"import sys; sys.path[:0] = [{str(PACKAGES[name].parent)!r}]; import {name}; print({name}.__version__); "
        "print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == [kprobe.__version__, "True"], done.stderr


@pytest.mark.parametrize("command", ["kprobe", "kprobe-sim", "kprobe-vm"])
def test_every_command_tells_it(command: str) -> None:
    code = f"import sys; from {command.replace('-', '_')}.cli import main; sys.exit(main(['--version']))"
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{command} {kprobe.__version__}\n", "")


@pytest.mark.parametrize("package", ["kprobe", "kprobe_sim", "kprobe_vm"])
def test_every_package_is_its_command(package: str) -> None:
    done = subprocess.run([sys.executable, "-m", package, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{package.replace('_', '-')} {kprobe.__version__}\n")


@pytest.mark.requires("mypy")
@pytest.mark.parametrize("package", [kprobe, kprobe_sim, kprobe_vm], ids=lambda package: str(package.__name__))
def test_type_checkers_see_the_public_names_and_no_others(package: object, tmp_path: Path) -> None:
    name = str(package.__name__)  # type: ignore[attr-defined]
    public = [*package.__all__, "__version__"]  # type: ignore[attr-defined]
    user = tmp_path / "user.py"
    user.write_text(
        f"from {name} import {', '.join(public)}\n"
        f"from {name} import Nonsense\n"
        f"from {name} import import_module\n"
        f"import {name}\n"
        f"reveal_type({name}.__version__)\n"
        f"print({name}.nonsense)\n"
    )
    options = ["--strict", "--follow-imports=skip", f"--cache-dir={tmp_path}", "--config-file="]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, user, PACKAGES[name] / "__init__.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    said = [line.partition(":")[2] for line in done.stdout.splitlines() if line.startswith("user.py")]
    assert said == [
        f'2: error: Module "{name}" has no attribute "Nonsense"  [attr-defined]',
        f'3: error: Module "{name}" has no attribute "import_module"  [attr-defined]',
        '5: note: Revealed type is "str"',
        '6: error: Module has no attribute "nonsense"  [attr-defined]',
    ], done.stdout


def test_tracefs() -> None:
    """Every implementation has these, with these parameters."""
    methods = {name: str(inspect.signature(value)) for name, value in vars(kprobe.Tracefs).items() if name[0] != "_"}
    assert methods == {
        "read": "(self, path: 'str') -> 'bytes'",
        "write": "(self, path: 'str', data: 'bytes', *, truncate: 'bool' = False) -> 'None'",
        "listdir": "(self, path: 'str') -> 'list[str]'",
        "exists": "(self, path: 'str') -> 'bool'",
        "mkdir": "(self, path: 'str') -> 'None'",
        "rmdir": "(self, path: 'str') -> 'None'",
        "stream": "(self, path: 'str') -> 'Stream'",
    }


def test_call() -> None:
    """What a simulated machine can be made to do."""
    assert list(inspect.signature(kprobe_sim.SimulatedKernel.call).parameters) == [
        "self", "function", "task", "args", "returns", "caller", "registers", "memory", "stack", "offset", "cpu", "at",
        "duration", "within", "context", "unwinding",
    ]  # fmt: skip
    assert list(inspect.signature(kprobe_sim.SimulatedKernel.calls).parameters) == ["self", "batch"]
    assert list(inspect.signature(kprobe_sim.Call).parameters) == [
        "function", "task", "args", "returns", "caller", "registers", "memory", "stack", "offset", "cpu", "at",
        "duration", "returned", "context", "unwinding",
    ]  # fmt: skip


def test_what_a_trace_event_has() -> None:
    names = {"task", "pid", "cpu", "flags", "timestamp", "name", "fields", "complete", "guessed"}
    assert names <= set(dir(kprobe.Event))


def test_the_pytest_plugin() -> None:
    """Its fixtures, the options and the settings that projects write down; what its hooks are is its own affair."""
    from kprobe_sim import pytest_plugin
    from kprobe_sim.pytest_plugin import options

    assert [name for name in pytest_plugin.__all__ if not name.startswith("pytest_")] == [
        "check_clean", "kernel", "simulated_machine", "sys_kernel_tracing", "trace_text", "tracefs", "tracefs_backend",
        "tracefs_spec", "tracer", "workload",
    ]  # fmt: skip
    parser = pytest.Parser(_ispytest=True)
    options.pytest_addoption(parser)
    group = parser.getgroup("kprobe")
    assert [name for option in group.options for name in option.names()] == [
        "--guest-per", "--tracefs", "--kprobe-timeout", "--kprobe-check-clean", "--trace-corpus", "--trace-kernels",
        "--trace-scenarios",
    ]  # fmt: skip
    assert sorted(parser._inidict) == ["kprobe_check_clean", "kprobe_timeout"]


def test_a_trace_gives_its_events_alone_to_for_next_and_async_for() -> None:
    events = kprobe.Trace.events.__annotations__["return"]
    assert events == "TraceEvents"
    methods = {name: value for name, value in vars(TraceEvents).items() if name in ("__next__", "__aiter__")}
    assert {name: value.__annotations__["return"] for name, value in methods.items()} == {
        "__next__": "Event", "__aiter__": "AsyncIterator[Event]",
    }  # fmt: skip
