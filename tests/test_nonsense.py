"""tools/fuzz/nonsense.py: a file of any kind is read, or refused in time and in a line that names it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "tools" / "fuzz"))

import nonsense

FEW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("kind", nonsense.KINDS)
def test_a_file(kind: str) -> None:
    @FEW
    @given(st.randoms(use_true_random=False))
    def holds(random: Random) -> None:
        with tempfile.TemporaryDirectory() as place:
            nonsense.hold(kind, random, Path(place))

    holds()


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_lines(random: Random) -> None:
    nonsense.hold_line(random)


@pytest.mark.parametrize("kind", nonsense.KINDS)
def test_a_valid_file_is_accepted(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the others would show nothing."""
    monkeypatch.setattr(nonsense, "damaged", lambda tree, random, own: tree)
    monkeypatch.setattr(nonsense, "mutated", lambda line, random: line)
    monkeypatch.setattr(nonsense, "torn", lambda data, random: data)

    class First(Random):
        def randrange(self, start: int, *more: int) -> int:  # type: ignore[override]  # nothing twice, nothing gone
            return 1

    random = First(1)
    accepted = nonsense.hold(kind, random, tmp_path)
    assert accepted or kind == "facts"  # whose file is three kinds in one, none of them whole


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["p vfs_read+010"], "p_vfs_read_8: (f+0x0/0x1) a=1"),
        (["p vfs_read+8"], "p_vfs_read_8: (f+0x0/0x1) a=1"),
        (["p:x f a=%di:u8[0]"], "x: (f+0x0/0x1) a=1"),
        ([f"p:x f a=\\{'1' * 4301}"], "x: (f+0x0/0x1) a=1"),
        (["p:x f a=%di:x64"], f"x: (f+0x0/0x1) a=0x{'f' * 5000}"),
        (["p:x f a=%di:symbol"], f"x: (f+0x0/0x1) a=0x{'f' * 5000}"),
    ],
)
def test_definitions_that_were_tracebacks(lines: list[str], said: str, tmp_path: Path) -> None:
    from kprobe.cli import main

    (tmp_path / "schema").write_text("\n".join(lines))
    (tmp_path / "trace").write_text(f"            bash-42      [001] .....    11.791146: {said}\n")
    for shape in ("text", "ndjson", "csv"):
        words = ["parse", "--format", shape, "--schema", str(tmp_path / "schema"), str(tmp_path / "trace")]
        assert nonsense.told(main, words, ())


@pytest.mark.parametrize(("offset", "name"), [("010", "8"), ("0x10", "16"), ("0", "0"), ("12", "12"), ("0XaB", "171")])
def test_the_name_of_a_probe_that_has_none(offset: str, name: str) -> None:
    from kprobe_text.text import defined_name

    assert defined_name(f"p vfs_read+{offset}") == f"p_vfs_read_{name}"
    assert defined_name("p vfs_read+08") == ""  # kstrtol() reads no octal 8
    assert defined_name(f"p vfs_read+{'9' * 5000}") == ""


def test_a_baseline_of_more_records_than_there_are(tmp_path: Path) -> None:
    from kprobe_corpus.parsers.reports.baseline import BadBaseline, read

    (tmp_path / "known").write_text("# baseline: 1\n6.1/one: wrong name in 1-99999999999\n")
    with pytest.raises(BadBaseline, match=r"line 2: '6\.1/one: wrong name in 1-99999999999' isn't KERNEL/TEXT"):
        read(str(tmp_path / "known"))


def test_the_command_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(place: Path, data: bytes) -> bool:
        raise KeyError(len(data) and "x")

    monkeypatch.setitem(nonsense.KINDS, "lock", nonsense.KINDS["lock"]._replace(read=broken))
    monkeypatch.setattr(sys, "argv", ["nonsense.py", "lock", "--seed", "3", "--count", "2"])
    assert nonsense.main() == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "FOUND lock --seed 3 --count 1: KeyError: 'x'"
    assert said[-1] == "2 findings"


def _scenario(**keys: object) -> dict[str, object]:
    return {"definitions": ["p vfs_read"], "call": [{"function": "vfs_read"}], **keys}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            {"call": [{"function": "vfs_read", "times": 1_000_000}]},
            r"its calls, each with the definitions .*, have \d{9} characters",
        ),
        ({"definitions": [f"p:a{n} vfs_read" for n in range(9999)], "call": [{"open": "x"}] * 100}, "are the most"),
        ({"call": [{"write": "trace", "data": "", "times": 101}]}, "times of write is 101, .* number from 1 to 100"),
        ({"cpus": 65_536}, "cpus is 65536, and has to be a number from 1 to 8192"),
        ({"options": ["x" * 70_000]}, "has no option 'x{100,200}.{0,99}$"),
    ],
)
def test_work_out_of_proportion_is_refused(table: dict[str, object], said: str) -> None:
    from kprobe_sim.scenarios.rendering import render

    with pytest.raises(ValueError, match=said):
        render(_scenario(**table), "6.1")


def test_a_number_that_python_writes_not_has_a_length() -> None:
    from kprobe_sim.scenarios.scenario import scenario_of

    with pytest.raises(ValueError, match="a number of how is too large a number"):
        scenario_of(_scenario(call=[{"open": "x", "how": [0, 0, 1 << 20_000]}]))


def test_a_refusal_of_a_long_value_is_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kprobe_sim.cli import main

    fields = f'fields = {{ prev_pid = "{"a" * 70_000}" }}'
    (tmp_path / "s.toml").write_text(
        f'enable = ["sched/sched_switch"]\n[[call]]\nevent = "sched/sched_switch"\n{fields}'
    )
    assert main(["text", str(tmp_path / "s.toml"), "--kernels", "6.1"]) == 1
    said = capsys.readouterr().err
    assert said.endswith("aaa...\n")
    assert 2000 < len(said) < 2400


def test_what_is_nested_deeper_than_python_goes_has_a_length() -> None:
    from kprobe_sim.scenarios.scenario import scenario_of

    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    (step,) = scenario_of(_scenario(call=[{"raw_marker": {"id": 1, "hex": "00", "more": deep}}])).steps
    assert step.value == b"\1\0\0\0\0"


def test_the_calls_of_an_activity_are_counted_in_all() -> None:
    from kprobe_sim.kernel.activity import parse

    call = '[[call]]\nfunction = "vfs_read"\ntask = "a-1"\ntimes = 600_000\n'
    assert len(parse(call).steps) == 600_000
    with pytest.raises(ValueError, match="call 2: with it 1200000 calls are made, and 1000000 are the most"):
        parse(call * 2)


def test_many_cpus_cost_nothing() -> None:
    from kprobe_sim import SimulatedKernel

    kernel = SimulatedKernel("6.1", cpus=8192)
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", b"p:a vfs_read")
    tracefs.write("events/kprobes/a/enable", b"1")
    for cpu in (8191, 0, 4096):
        kernel.call("vfs_read", cpu=cpu, at=5_000)
    assert list(kernel.top.buffer.cpus) == [0, 4096, 8191]
    lines = [line.split()[1] for line in tracefs.read("trace").splitlines() if not line.startswith(b"#")]
    assert lines == [b"[000]", b"[4096]", b"[8191]"]
    assert tracefs.exists("per_cpu/cpu8191")
    assert not tracefs.exists("per_cpu/cpu8192")
    assert not tracefs.exists("per_cpu/cpu01")
    assert len(tracefs.listdir("per_cpu")) == 8192
