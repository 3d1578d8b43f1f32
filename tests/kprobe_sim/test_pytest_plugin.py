"""The pytest plugin: where tests run, what is skipped, deselected, or an error."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from kprobe_sim.builds import profile
from kprobe_sim.builds.portable.file import packed
from kprobe_sim.pytest_plugin import fixtures

from . import toy_profile

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester: pytest.Pytester):  # type: ignore[no-untyped-def]
    """Run pytest on a test file, with the plugin, in this process."""

    def run(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess(*_plugin(), "-v", "-rs", *arguments)

    return run


@pytest.fixture
def run_alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """The same in a process of its own, which has imported nothing yet; there are no other plugins but pyfakefs."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = ("-p", "kprobe_sim.pytest_plugin", "-p", "pyfakefs.pytest_plugin")

    def run(source: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess(*plugins, "-v", "-rs")

    return run


def _plugin() -> list[str]:
    return [] if _is_installed() else ["-p", "kprobe_sim.pytest_plugin"]


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(point.value == "kprobe_sim.pytest_plugin" for point in entry_points(group="pytest11"))


USES_KERNEL = """
    def test_it(kernel, tracefs):
        tracefs.write("kprobe_events", b"p:a do_sys_openat2")
        tracefs.write("events/kprobes/a/enable", b"1")
        kernel.call("do_sys_openat2")
        assert b": a: (do_sys_openat2+0x0/" in tracefs.read("trace")
"""


def test_the_simulator_is_the_default(run) -> None:  # type: ignore[no-untyped-def]
    result = run(USES_KERNEL)
    result.stdout.fnmatch_lines([f"*::test_it[[]sim:{profile.newest()}] PASSED*"])
    result.assert_outcomes(passed=1)


def test_several_backends(run) -> None:  # type: ignore[no-untyped-def]
    source = "def test_it(tracefs):\n    assert tracefs.read('tracing_on') == b'1\\n'\n"
    result = run(source, "--tracefs", "sim:6.1", "--tracefs", "sim")
    result.assert_outcomes(passed=2)


def test_a_profile_by_its_path(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "mine.kprofile"
    path.write_bytes(packed(toy_profile.write(tmp_path / "toy")))
    source = "def test_it(kernel):\n    assert kernel.release == '6.16.1-toy'\n"
    run(source, "--tracefs", f"sim:{path}").assert_outcomes(passed=1)
    path.write_bytes(path.read_bytes()[:-1])
    result = run(source, "--tracefs", f"sim:{path}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --tracefs sim:{path}: {path}: truncated: it has * of * bytes"])


def test_each_test_has_a_pristine_tracefs(run) -> None:  # type: ignore[no-untyped-def]
    result = run(
        """
        import pytest

        @pytest.mark.parametrize("n", range(3))
        def test_it(tracefs, n):
            assert tracefs.read("kprobe_events") == b""
            tracefs.write("kprobe_events", b"p:a do_sys_openat2")
        """
    )
    result.assert_outcomes(passed=3)


def test_the_workload(run) -> None:  # type: ignore[no-untyped-def]
    result = run(
        """
        def test_it(tracefs, workload):
            tracefs.write("kprobe_events", b"p:a do_sys_openat2 f=+0(%si):string")
            tracefs.write("events/kprobes/a/enable", b"1")
            assert workload.open("/dev/null") == 3
            assert b'f="/dev/null"' in tracefs.read("trace")
        """
    )
    result.assert_outcomes(passed=1)


def test_the_simulated_kernel_elsewhere_is_skipped(run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    result = run(USES_KERNEL, "--tracefs", f"local:{tmp_path}")
    result.stdout.fnmatch_lines(["*simulator only*"])
    result.assert_outcomes(skipped=1)


def test_a_backend_that_cannot_run_is_an_error(run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    result = run("def test_it(tracefs): pass", "--tracefs", f"local:{tmp_path}/nosuch")
    result.stdout.fnmatch_lines(["*local:*/nosuch was asked for and can't run: *"])
    result.assert_outcomes(errors=1)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nosuch:1", "no tracefs backend 'nosuch'; known: local, sim, vm"),
        ("sim:6.3", "no profile of kernel '6.3'; there are: *5.10.0-*"),
        ("sim:6.1,colour=red", "sim: option 'colour=red': there are activity=NAME-OR-FILE and cpus=N"),
        ("sim:6.1,activity=nosuch", "no activity 'nosuch': give a TOML file, or one of idle, opens, perf-tools"),
        ("sim:6.1,activity=./nosuch", "activity ./nosuch: No such file or directory"),
        ("vm:six", "'six' is neither a kernel series (such as 6.1) nor a release nor a path (which has a /)"),
        ("vm:./bzImage", "./bzImage: No such file or directory"),
        ("vm:6.1,warm", "vm:6.1,warm: 'warm' is none of idle, cold, serial, cpus=N, memory=MiB"),
    ],
)
def test_a_bad_spec_is_told_of_once(run, spec: str, said: str) -> None:  # type: ignore[no-untyped-def]
    """At the start, before any test, and as an error of usage."""
    source = "def test_it(tracefs): pass\ndef test_other(): pass\n"
    result = run(source, "--tracefs", "sim", "--tracefs", spec)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --tracefs {spec}: {said}"])
    assert "::test_" not in str(result.stdout)


def test_vm_tests_run_only_when_asked_for(run) -> None:  # type: ignore[no-untyped-def]
    source = "import pytest\n@pytest.mark.vm\ndef test_it(): pass\ndef test_other(): pass\n"
    run(source).assert_outcomes(passed=1, deselected=1)
    run(source, "-m", "vm").assert_outcomes(passed=1, deselected=1)
    run(source, "--tracefs", "vm:6.1").assert_outcomes(passed=2)


# what a test of each fixture does, as the only one of its process
ALONE = {
    "tracefs_spec": "assert tracefs_spec == 'sim'",
    "tracefs_backend": "assert tracefs_backend.fresh(exclusive=False).read('tracing_on') == b'1\\n'",
    "tracefs": "assert tracefs.read('tracing_on') == b'1\\n'",
    "tracer": "assert tracer.format('p:a do_sys_openat2').startswith(b'name: a')",
    "kernel": "kernel.call('do_sys_openat2')",
    "workload": "assert workload.open('/dev/null') == 3",
    "check_clean": "assert check_clean.findings() == []",
    "sys_kernel_tracing": "sys_kernel_tracing.call('do_sys_openat2'); assert len(FILE.read_text()) == 4",
    "simulated_machine": "simulated_machine.call('do_sys_openat2'); assert len(FILE.read_text()) == 4",
}


def test_each_fixture_has_its_test() -> None:
    tree = ast.parse(inspect.getsource(fixtures))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = {node.name for node in functions if any("fixture" in ast.dump(mark) for mark in node.decorator_list)}
    assert names == {*ALONE, "trace_text"}  # that comes with a value for each text: tests/kprobe_corpus/parsers


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_each_fixture_alone_in_a_process(run_alone, name: str) -> None:  # type: ignore[no-untyped-def]
    source = f"""
        from pathlib import Path

        FILE = Path("/sys/kernel/tracing/current_tracer")

        def test_it({name}):
            {ALONE[name]}
        """
    run_alone(source).assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fixtures", "body"),
    [
        ("simulated_machine", "check(simulated_machine)"),
        ("fs, simulated_machine", "check(simulated_machine)"),
        ("fs, request", "check(request.getfixturevalue('simulated_machine'))"),
        ("fs", "import kprobe_sim.expose as e\n    with e.patched(fs=fs) as kernel: check(kernel)"),
        (
            "fs",
            "from kprobe_sim import SimulatedKernel; from kprobe_sim.expose import patched\n"
            "    with patched('6.1', fs=fs) as kernel: check(kernel)",
        ),
    ],
)
def test_a_fake_machine_however_it_is_had(run_alone, fixtures: str, body: str) -> None:  # type: ignore[no-untyped-def]
    """pyfakefs forgets what was imported within it; the second time the modules were there before."""
    source = f"""
from pathlib import Path

import pytest

TRACING = Path("/sys/kernel/tracing")

def check(kernel):
    from kprobe_sim import Task

    (TRACING / "kprobe_events").write_text("p:a do_sys_openat2 f=+0(%si):string")
    (TRACING / "events/kprobes/a/enable").write_text("1")
    (TRACING / "events/kprobes/a/trigger").write_text("hist:keys=common_pid")
    Path("/etc/tool.conf").write_text("fake")
    kernel.call("do_sys_openat2", task=Task(7, "cat"), args=(-100, "/x"))
    assert 'f="/x"' in (TRACING / "trace").read_text()
    assert "Hits: 1" in (TRACING / "events/kprobes/a/hist").read_text()

@pytest.mark.parametrize("time", range(2))
def test_it(time, {fixtures}):
    {body}

def test_after():
    from kprobe_sim import SimulatedKernel

    assert SimulatedKernel("6.1").tracefs.read("tracing_on") == b"1\\n"
    assert not Path("/etc/tool.conf").exists()
"""
    run_alone(source).assert_outcomes(passed=3)


def test_needs(run) -> None:  # type: ignore[no-untyped-def]
    result = run(
        """
        import pytest

        @pytest.mark.needs("kprobe_events", "ustring")
        def test_there(tracefs): pass

        @pytest.mark.needs("no such feature")
        def test_missing(tracefs): pass
        """
    )
    result.stdout.fnmatch_lines(["*unsupported on this kernel: 'no such feature' (not in README)*"])
    result.assert_outcomes(passed=1, skipped=1)
