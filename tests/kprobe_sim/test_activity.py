"""Activities: TOML files of calls, played at once or live."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.builds.profile import PROFILES
from kprobe_sim.kernel import activity
from kprobe_sim.kernel.backend import open_sim

OPENS = """
[[function]]
name = "SyS_open"
size = 0x20
[[call]]
function = "do_sys_open"
task = "super-vise-1689/1680"
args = [-100, "/etc/hosts", { hex = "0080" }]
returns = 9
caller = "SyS_open+0x1e/0x20"
cpu = 1
at = 6593279.228756
times = 2
"""


def test_played_at_once_the_calls_have_the_times_of_the_file() -> None:
    kernel = SimulatedKernel("6.1", cpus=2)
    kernel.tracefs.write("kprobe_events", b"p:p do_sys_open file=+0(%si):string\nr:e do_sys_open $retval")
    kernel.tracefs.write("events/kprobes/enable", b"1")
    activity.parse(OPENS).play(kernel)
    lines = kernel.tracefs.read("trace").decode().splitlines()[12:]
    assert (
        lines
        == [
            '      super-vise-1689    [001] ..... 6593279.228756: p: (do_sys_open+0x0/0x80) file="/etc/hosts"',
            "      super-vise-1689    [001] ..... 6593279.228757: e: (SyS_open+0x1e/0x20 <- do_sys_open) arg1=0x9",
        ]
        * 2
    )
    assert kernel.threads(1680) == [1689]


def test_played_live_it_repeats_until_it_is_stopped() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("kprobe_events", b"p:e do_sys_open")
    kernel.tracefs.write("events/kprobes/e/enable", b"1")
    live = activity.parse('repeat = true\n[[call]]\nfunction = "do_sys_open"\ntask = "cat-42"\nafter = 0.0\n', "live")
    stop = threading.Event()
    player = threading.Thread(target=live.play_live, args=(kernel, stop))
    with kernel.tracefs.stream("trace_pipe") as stream:
        player.start()
        text = b""
        while text.count(b"\n") < 5:
            text += stream.read(10)
        stop.set()
        player.join(10)
    assert not player.is_alive()
    assert b"             cat-42      [000] ....." in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[call", "a: not TOML: "),
        ("", "a: no calls"),
        ('[[call]]\ntask = "cat-1"', "a: call 1: 'function' is missing"),
        ('[[call]]\nfunction = "f"', "a: call 1: 'task' is missing"),
        ('[[call]]\nfunction = "f"\ntask = "cat"', "a: call 1: task 'cat' isn't COMM-PID"),
        ('[[call]]\nfunction = "f"\ntask = "cat-1"\nfoo = 1', "a: call 1: unknown key 'foo'"),
        ('[[call]]\nfunction = "f"\ntask = "cat-1"\nargs = [[1]]', "a: call 1: argument [1] is neither a number"),
        ("[[function]]\nsize = 1", "a: function 1 has no name"),
    ],
)
def test_a_bad_file_is_told_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        activity.parse(text, "a")
    assert str(caught.value).startswith(said)


def test_an_unknown_name_lists_the_built_in_ones() -> None:
    with pytest.raises(ValueError, match="no activity 'nope': give a TOML file, or one of idle, opens, perf-tools"):
        activity.load("nope")


@pytest.mark.parametrize("name", activity.built_in_names())
def test_a_file_with_the_name_of_a_built_in_one_is_not_taken_for_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `cc -o opens` makes one; nor is a directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(b"\x7fELF")
    assert activity.load(name).steps
    assert open_sim(f"6.1,activity={name}").kernel.release
    assert open_sim("6.1").kernel.release
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    assert activity.load(name).steps


def test_a_file_is_named_by_a_slash_or_its_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("work", "work.toml"):
        (tmp_path / name).write_text(OPENS)
    for name in ("./work", "work.toml", f"{tmp_path}/work"):
        assert activity.load(name).steps
    with pytest.raises(ValueError, match=r"no activity 'work': .* \(for the file of that name write ./work\)"):
        activity.load("work")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x7fELF\x02\x01\xff", "not TOML: it isn't text in UTF-8"),
        (b"int main(void)", "not TOML: Expected"),
        (b"[project]\nname = 'x'\n", "no activity: unknown key 'project'"),
        (b"", "no calls"),
        (b"call = 5", "call isn't a table: write [[call]]"),
        (b"[call]\nfunction = 'f'", "call isn't a table: write [[call]]"),
        (b"function = ['f']", "function isn't a table: write [[function]]"),
        (
            b"[[function]]\nname = 'f'\nsize = 'big'",
            "function 1: size is 'big', and has to be a number",
        ),
        (b"[[call]]\nfunction = 'f'\ntask = 'cat-1'\nregisters = 5", "call 1: "),
    ],
)
def test_a_file_that_is_no_activity_is_named_with_its_fault(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "work.toml"
    path.write_bytes(data)
    with pytest.raises(ValueError) as caught:
        activity.load(str(path))
    assert str(caught.value).startswith(f"{path}: {said}")


def test_a_file_that_cannot_be_read_is_named_with_its_fault(tmp_path: Path) -> None:
    for path, said in ((tmp_path, "Is a directory"), (tmp_path / "nosuch.toml", "No such file or directory")):
        with pytest.raises(ValueError) as caught:
            activity.load(str(path))
        assert str(caught.value) == f"activity {path}: {said}"


@pytest.mark.parametrize("name", activity.built_in_names())
@pytest.mark.parametrize("series", ["5.10", "6.1", "6.12", "7.2", "7.3"])
def test_the_built_in_activities_play_on_every_kernel(series: str, name: str) -> None:
    kernel = SimulatedKernel(series, cpus=2)
    activity.load(name).play(kernel)
    assert kernel.tasks


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("9.9", "no profile of kernel '9.9'"),
        ("6.1,cpus=0", "sim: option 'cpus=0'"),
        ("6.1,colour=red", "sim: option 'colour=red': there are activity=NAME-OR-FILE and cpus=N"),
        ("6.1,idle", "sim: option 'idle': there are activity=NAME-OR-FILE and cpus=N"),
        ("./a,b.kprofile,colour=red", "sim: option 'colour=red': there are activity=NAME-OR-FILE and cpus=N"),
        ("6.1,activity=nope", "no activity 'nope'"),
        ("6.1,activity=perf-tools,cpus=1", "sim: activity 'perf-tools' uses 2 CPUs: give cpus=2, or leave cpus out"),
    ],
)
def test_a_bad_spec_is_told_what_is_wrong(argument: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        open_sim(argument)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("place", ["6.1,mine.kprofile", "a,b/6.1.kprofile", "6.1,cpus/mine"])
def test_a_profile_whose_path_has_commas(place: str, tmp_path: Path) -> None:
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(PROFILES / "6.1.0-54-cloud-amd64")
    assert open_sim(str(path)).kernel.release == "6.1.0-54-cloud-amd64"
    assert open_sim(f"{path},activity=idle,cpus=2").kernel.cpus == 2


def test_a_backend_has_the_cpus_of_its_activity() -> None:
    assert open_sim("6.1,activity=perf-tools").kernel.cpus == 2
    assert open_sim("6.1").kernel.cpus == 1


def test_a_backend_works_only_from_play_to_close() -> None:
    backend = open_sim("6.1")
    backend.write("kprobe_events", b"p:e do_sys_openat2")
    backend.write("events/kprobes/e/enable", b"1")
    with backend.stream("trace_pipe") as stream:
        with pytest.raises(TimeoutError):
            stream.read(0.15)
        backend.play()
        assert b": e: (do_sys_openat2+0x0/0x170)" in stream.read(10)
        backend.close()
        backend.close()


def test_a_call_of_an_unknown_function_says_what_to_do() -> None:
    kernel = SimulatedKernel("6.1")
    with pytest.raises(ValueError, match=r"no symbol for the function 'nope' in 6\.1\.0-\d+-cloud-amd64: add it with"):
        kernel.call("nope")
    with pytest.raises(ValueError, match="no CPU 3: this kernel has 1"):
        kernel.call("vfs_read", cpu=3)
    with pytest.raises(ValueError, match="no register 'eax'"):
        kernel.call("vfs_read", registers={"eax": 1})


def test_comm_is_cut_to_fifteen_bytes() -> None:
    assert Task(1, "0123456789abcdefg").name == b"0123456789abcde"
    assert Task(1, b"a\0b").name == b"a"


SWITCH = """
[[call]]
event = "sched/sched_switch"
task = "cat-42"
at = 7.5
fields = { prev_comm = "cat", prev_pid = 42, prev_prio = 120, prev_state = 1, next_comm = "sh", next_pid = 41 }
"""


def test_static_events() -> None:
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("events/sched/sched_switch/enable", b"1")
    activity.parse(SWITCH).play(kernel)
    assert kernel.tracefs.read("trace").decode().splitlines()[12:] == [
        "             cat-42      [000] d..2.     7.500000: sched_switch: prev_comm=cat prev_pid=42 prev_prio=120 "
        "prev_state=S ==> next_comm=sh next_pid=41 next_prio=0"
    ]


def test_a_static_event_has_no_arguments() -> None:
    with pytest.raises(ValueError, match=r"^mine: call 1: unknown key 'args' \(line 2\)$"):
        activity.parse(SWITCH + "args = [1]\n", "mine")


@pytest.mark.parametrize(
    ("series", "caller"),
    [
        ("5.10", "__x64_sys_openat+0x54/0xa0"),
        ("6.1", "__x64_sys_openat+0x6a/0xa0"),
        ("6.12", "__x64_sys_openat+0x55/0xa0"),
        ("7.2", "__x64_sys_openat+0x61/0xa0"),
        ("7.3", "__x64_sys_openat+0x61/0xa0"),
    ],
)
def test_a_function_alone_calls_from_where_it_does_in_the_recorded_build(series: str, caller: str) -> None:
    """The places are those of the real kernels, as tests/conformance/builds.py has them."""
    kernel = SimulatedKernel(series)
    kernel.tracefs.write("kprobe_events", b"r:e do_sys_openat2")
    kernel.tracefs.write("events/kprobes/e/enable", b"1")
    activity.load("opens").play(kernel)
    lines = kernel.tracefs.read("trace").decode().splitlines()[-6:]
    assert [line.partition(": e: ")[2] for line in lines] == [f"({caller} <- do_sys_openat2)"] * 6


@pytest.mark.parametrize("spec", ["6.1", "5.10", "6.12,activity=perf-tools"])
def test_a_backend_knows_its_functions_without_their_list(spec: str) -> None:
    backend = open_sim(spec)
    listed = {line.split()[0] for line in backend.read("available_filter_functions").decode().splitlines()}
    asked = ["do_sys_openat2", "vfs_read", "do_sys_open", "SyS_open", "get_kprobe", "virtio_add_status", "no_such", ""]
    assert {name for name in asked if backend.has_function(name)} == listed & set(asked)
    assert backend.has_function("do_sys_openat2")
    assert not backend.has_function("no_such")
