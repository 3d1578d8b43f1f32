"""Lines that newcomers write: what the error says they mean, and that the kernel takes what it says."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

import pytest

from kprobe import Tracer
from kprobe.cli import main
from kprobe.definitions.definition import parse
from kprobe.definitions.file_symbols import offset
from kprobe.definitions.foreign import meant
from kprobe.errors import DefinitionError, KprobeError, Unsupported
from kprobe.tracefs.tracefs import Tracefs
from kprobe_check.asking.checking import check
from kprobe_sim import SimulatedKernel

KERNELS = ("5.10", "6.1", "7.3")
F = "do_sys_openat2"

# lines that no kernel has, refused before it is asked; the first is offered, the second where there is no t:
SPELLED = {
    f"kprobe:{F}": [f"p:{F}"],
    f"kprobe:vmlinux:{F}": [f"p:{F}"],
    f"kprobe:{F} {{ printf(\"%s\\n\", str(arg1)); }}": [f"p:{F}"],
    f"kprobe:{F} /pid == 42/ {{ @ = count(); }}": [f"p:{F}"],
    "kprobe:vfs_read+9": ["p:vfs_read+9"],
    f"kretprobe:{F}": [f"r:{F}"],
    "fentry:vfs_read": ["p:vfs_read"],
    "kfunc:vmlinux:vfs_read": ["p:vfs_read"],
    "fexit:vfs_read": ["r:vfs_read"],
    "tracepoint:sched:sched_switch": ["t:sched_switch", "e:sched_switch sched.sched_switch"],
    "tracepoint:syscalls:sys_enter_openat": ["e:sys_enter_openat syscalls.sys_enter_openat"],
    "rawtracepoint:sched_switch": ["t:sched_switch"],
    "t:sched:sched_switch": ["t:sched_switch", "e:sched_switch sched.sched_switch"],
    "sched:sched_switch": ["t:sched_switch", "e:sched_switch sched.sched_switch"],
    "sched/sched_switch": ["t:sched_switch", "e:sched_switch sched.sched_switch"],
    "-e sched:sched_switch": ["t:sched_switch", "e:sched_switch sched.sched_switch"],
    f"p::{F}": [f"p:{F}"],
    f"r::{F} \"%d\", retval": [f"r:{F}"],
    f"p:m,{F},dfd=%ax": [f"p:m {F} dfd=%ax"],
    f"p:kprobes/m,{F},$arg1,$arg2;p:n,vfs_read": [f"p:kprobes/m {F} $arg1 $arg2"],
    f"m={F} dfd=%di": [f"p:m {F} dfd=%di"],
    f"{F} $arg1 $arg2": [f"p:{F} $arg1 $arg2"],
    "vfs_read%return $retval": ["r:vfs_read $retval"],
    "vfs_read%return": ["r:vfs_read"],
    "kernel.function(\"vfs_read\")": ["p:vfs_read"],
    "kernel.function(\"vfs_read@fs/read_write.c:449\").return": ["r:vfs_read"],
    "probe kernel.function(\"vfs_read\").call { println(pid()) }": ["p:vfs_read"],
    "kernel.trace(\"sched_switch\")": ["t:sched_switch"],
    "syscall.openat": ["p:__x64_sys_openat"],
    "syscall.openat.return": ["r:__x64_sys_openat"],
    "fbt::vfs_read:entry": ["p:vfs_read"],
    "fbt:kernel:vfs_read:return": ["r:vfs_read"],
    "syscall::openat:entry": ["p:__x64_sys_openat"],
    "p :vfs_read": ["p:vfs_read"],
    "P:vfs_read": ["p:vfs_read"],
    "probe:vfs_read": ["p:vfs_read"],
    "return:vfs_read": ["r:vfs_read"],
    "p:vfs_read()": ["p:vfs_read"],
    "p:m vfs_read(struct file *file) $arg1": ["p:m vfs_read $arg1"],
    f"p:my-open {F}": [f"p:my_open {F}"],
    f"p:1m {F}": [f"p:_1m {F}"],
    "p5:m vfs_read": ["p:m vfs_read"],
    "p=m vfs_read": ["p:m vfs_read"],
    "p:vfs_read\\n": ["p:vfs_read"],
    "p:m `vfs_read`": ["p:m vfs_read"],
    "kprobe:vfs_readl*": ["p:vfs_readl*"],
    "perf probe --add 'tcp_sendmsg size=%dx'": ["p:tcp_sendmsg size=%dx"],
    "perf probe -a tcp_sendmsg": ["p:tcp_sendmsg"],
    "probe:send=tcp_sendmsg $arg3": ["p:probe/send tcp_sendmsg $arg3"],
    "tcp_sendmsg@net/ipv4/tcp.c $arg3": ["p:tcp_sendmsg $arg3"],
    "schedule:12": ["p:schedule"],
    "trace-cmd record -e sched_switch": ["t:sched_switch"],
    "perf trace -e sched:sched_switch": ["t:sched_switch", "e:sched_switch sched.sched_switch"],
    "bpftrace -e 'kprobe:vfs_read { @[comm] = count(); }'": ["p:vfs_read"],
    "kprobe p:m vfs_read": ["p:m vfs_read"],
    "echo 'p:m vfs_read $arg1' >> /sys/kernel/tracing/kprobe_events": ["p:m vfs_read $arg1"],
}  # fmt: skip
# lines that kernels refuse -> the line in the hint; for another kernel, a second
REFUSED: dict[str, str | dict[str, str]] = {
    f"p:m {F} a=%x1": f"p:m {F} a=$arg2",
    f"p:m {F} a=%r0 b=%a1 c=%gpr5": f"p:m {F} a=$arg1 b=$arg2 c=$arg3",
    f"r:m {F} a=%x0": f"r:m {F} a=$retval",
    f"p:m {F} a=%arg1": f"p:m {F} a=$arg1",
    f"p:m {F} a=@arg3": f"p:m {F} a=$arg3",
    f"p:m {F} a=$arg0 b=$arg1": f"p:m {F} a=$arg1 b=$arg2",
    f"p:m {F} a=arg1": f"p:m {F} a=$arg1",
    f"p:m {F} a=$1": f"p:m {F} a=$arg1",
    f"p:m {F} a=+4 ($stack)": f"p:m {F} a=+4($stack)",
    f"p:m {F} a=+0( %si ):ustring b=%di": f"p:m {F} a=+0(%si):ustring b=%di",
    f"p:m {F} a = %di b= %si c =%dx": f"p:m {F} a=%di b=%si c=%dx",
    f"p:m {F} a=%di : u32": f"p:m {F} a=%di:u32",
    f"p:m {F} $arg1, $arg2,": f"p:m {F} $arg1 $arg2",
    f"p:m {F} a=%di,b=%si": f"p:m {F} a=%di b=%si",
    f"p:m {F} 'a=%di'": f"p:m {F} a=%di",
    "p:m __arm64_sys_openat": "p:m __x64_sys_openat",
    "p:m __arm64_sys_openat f=+0($arg2):string": "p:m __x64_sys_openat f=+0(+104(%di)):ustring",
    "p:m sys_openat": "p:m __x64_sys_openat",
    "p:m SyS_openat": "p:m __x64_sys_openat",
    "p:m vfs_read.isra.0": "p:m vfs_read",
    "p:m vfs_read.constprop.0 $arg1": "p:m vfs_read $arg1",
    "p:m vfs_raed": "p:m vfs_read",
    "p:m vfs_read $retval": "r:m vfs_read $retval",
    "p:m vfs_read a=$ret": "r:m vfs_read a=$retval",
    "r:m vfs_read a=$rv b=%retval": "r:m vfs_read a=$retval b=$retval",
    "r:m vfs_read+9 $retval": "r:m vfs_read $retval",
    "p:m vfs_read a=%di:int b=%si:size_t": "p:m vfs_read a=%di:s32 b=%si:u64",
    "p:m vfs_read a=%di:char*": "p:m vfs_read a=+0(%di):string",
    "p:m vfs_read a=%di:str": "p:m vfs_read a=+0(%di):string",
    "p:m vfs_read a=%di:u128": "p:m vfs_read a=%di:u64",
    "p:m vfs_read a=%di:U32": "p:m vfs_read a=%di:u32",
    "p:m vfs_read a=%di:uint32_t": "p:m vfs_read a=%di:u32",
    f"p:m {F} +0(%si):string:16": f"p:m {F} +0(%si):string",
    f"p:m {F} file=%si:string": f"p:m {F} file=+0(%si):string",
    f"p:m {F} file=$arg2:string": f"p:m {F} file=+0($arg2):string",
    f"p:m {F} %si:u8[4]": f"p:m {F} +0(%si):u8[4]",
    f"p:m {F} +0(%si):u8[100]": f"p:m {F} +0(%si):u8[64]",
    f"p:m {F} a=%rsi b=%edi c=%R8 d=$di": f"p:m {F} a=%si b=%di c=%r8 d=%di",
    f"p:m {F} a=%pc b=%fp": f"p:m {F} a=%ip b=%bp",
    f"p:m {F} *$arg2": f"p:m {F} +0($arg2)",
    f"p:m {F} a=(char *)$arg2": f"p:m {F} a=+0($arg2):string",
    f"p:m {F} [%si] 8(%si) (%di)": f"p:m {F} +0(%si) +8(%si) +0(%di)",
    f"p:m {F} +0%si:ustring": f"p:m {F} +0(%si):ustring",
    f"p:m {F} +0(+8(%dx):x64": f"p:m {F} +0(+8(%dx)):x64",
    f"p:m {F} a=$stack+8 b=$stack[2]": f"p:m {F} a=$stack1 b=$stack2",
    f"p:m {F} a=%comm": f"p:m {F} a=$comm",
    f"p:m {F} 1a=%di a-b=%si": f"p:m {F} _1a=%di a_b=%si",
    f"p:m {F} a=%di a=%si a=%dx": f"p:m {F} a=%di a2=%si a3=%dx",
    f"p:m {F} a:%di": f"p:m {F} a=%di",
    f"p m {F}": f"p:m {F}",
    f"p:m {F} a=&init_task b=$ARG1": f"p:m {F} a=@init_task b=$arg1",
    f"p:m {F} a=str($arg2) b=$arg2:char *;": f"p:m {F} a=+0($arg2):string b=+0($arg2):string",
    f"p:m {F} $args": {"7.3": f"p:m {F} $arg*", "": f"p:m {F} dfd=$arg1 filename=$arg2 how=$arg3"},
    "p:tcp_sendmsg $params": {
        "7.3": "p:tcp_sendmsg tcp_sendmsg $arg*", "": "p:tcp_sendmsg tcp_sendmsg sk=$arg1 msg=$arg2 size=$arg3",
    },
    "p:m vfs_read a=+0($arg2):char[16]": {"7.3": "", "": "p:m vfs_read a=+0($arg2):s8[16]"},
}  # fmt: skip


def taken(tracefs: Tracefs, line: str) -> str:
    """Return "" if the kernel takes the probe of a line, else why not."""
    try:
        Tracer(tracefs).format(line)
    except KprobeError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def kernels() -> dict[str, Tracefs]:
    """Give a kernel of each series, which each line leaves as it was."""
    return {series: SimulatedKernel(series).tracefs for series in KERNELS}


@pytest.mark.parametrize("text", SPELLED)
def test_another_tools_spelling_is_translated(text: str, kernels: dict[str, Tracefs]) -> None:
    with pytest.raises(DefinitionError) as refused:
        parse(text)
    hint = refused.value.hint
    assert re.findall(r" '([^']*)'", hint) == SPELLED[text]
    assert str(refused.value).endswith(f"\nhint: {hint}")
    tracefs = kernels["7.3"]
    assert [why for line in SPELLED[text] if (why := taken(tracefs, line))] == []


@pytest.mark.slow
@pytest.mark.parametrize("series", KERNELS)
@pytest.mark.parametrize("text", REFUSED)
def test_a_refused_line_is_corrected(text: str, series: str, kernels: dict[str, Tracefs]) -> None:
    tracefs, line = kernels[series], REFUSED[text]
    if isinstance(line, dict):
        line = line.get(series, line[""])
    said = taken(tracefs, text)
    if not line:
        assert said == ""
        return
    hint = said.partition("\nhint: ")[2]
    assert said.startswith("kprobe_events refused ")
    assert hint.endswith(f": '{line}'"), said
    assert taken(tracefs, line) == ""


@pytest.mark.parametrize("series", KERNELS)
def test_a_parameter_by_its_name(series: str) -> None:
    """As perf probe has it: taken where the kernel knows names, else its place is told."""
    tracefs = SimulatedKernel(series).tracefs
    said = taken(tracefs, f"p:{F} filename:string")
    line = f"p:{F} {F} filename=+0($arg2):string"
    if series == "7.3":
        assert said == ""
    else:
        assert said.endswith(f": '{line}'")
    assert taken(tracefs, line) == ""
    assert taken(tracefs, f"p:m {F} dfd").endswith(f"dfd, which is $arg1: 'p:m {F} dfd=$arg1'") is (series != "7.3")


def test_what_returns_nothing() -> None:
    tracefs = SimulatedKernel("7.3").tracefs
    assert taken(tracefs, "r:c kfree $retval").endswith("\nhint: kfree returns nothing: 'r:c kfree'")
    assert taken(tracefs, "r:c kfree") == ""


def test_a_tracepoint_has_no_group() -> None:
    new, old, older = (SimulatedKernel(series).tracefs for series in ("7.3", "6.1", "5.10"))
    assert taken(new, "t:sched/sched_switch").endswith(
        "hint: sched/sched_switch is the tracepoint's own event; a tracepoint has no group: 't:sched_switch'"
    )
    assert taken(new, "t:syscalls/sys_enter_openat").endswith(": 'e:sys_enter_openat syscalls.sys_enter_openat'")
    assert taken(new, "t:sched_switch") == taken(new, "e:sys_enter_openat syscalls.sys_enter_openat") == ""
    for text in ("t:sched/sched_switch", "t:sched_switch"):
        assert taken(old, text).endswith("the tracepoint's event: 'e:sched_switch sched.sched_switch'")
    assert taken(old, "e:sched_switch sched.sched_switch") == ""
    assert taken(older, "t:sched_switch").endswith("without a probe: echo 1 > events/sched/sched_switch/enable")
    with pytest.raises(Unsupported) as lacking:
        Tracer(old).format("f:vfs_read $arg1")
    assert lacking.value.hint == "a kprobe at the same function: 'p:vfs_read vfs_read $arg1'"


def test_a_function_of_a_program() -> None:
    lines = [line.split() for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()]
    libc, code, start = next((one[-1], one[0], one[2]) for one in lines if "/libc.so" in one[-1] and one[1] == "r-xp")
    address = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value
    assert address is not None
    expected = address - int(code.partition("-")[0], 16) + int(start, 16)
    assert offset(libc, "abort") == expected
    place = f"u:abort {libc}:{expected:#x}"
    for text, kind in ((f"uprobe:{libc}:abort", ""), (f"uretprobe:{libc}:abort", "%return"), (f"u:{libc}:abort", "")):
        with pytest.raises(DefinitionError) as refused:
            parse(text)
        assert f" '{place}{kind}' (abort's offset in the file here; " in refused.value.hint
        assert parse(f"{place}{kind}").place.offset == expected
    assert (offset(libc, "no_such_function"), offset("/etc/passwd", "x"), offset("/nosuch", "x")) == (None, None, None)
    unknown = meant("uprobe:/nosuch:malloc")
    assert unknown is not None
    assert unknown.definitions == ("u:malloc /nosuch:OFFSET",)


@pytest.mark.parametrize("cut", [6, 63, 64, 700, 4096])
def test_a_program_that_is_cut_short_has_no_functions(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(Path(sys.executable).resolve().read_bytes()[:cut])
    assert offset(str(path), "main") is None


def test_there_are_at_most_128_arguments() -> None:
    text = f"p:m {F} " + " ".join(f"a{number}=%di" for number in range(129))
    assert taken(SimulatedKernel("7.3").tracefs, text).endswith("\nhint: a probe takes at most 128 arguments")


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (f"p:m {F} a=%x1", f"p:m {F} a=$arg2"),
        ("r:m kfree $retval", "r:m kfree"),
        ("p:m __arm64_sys_openat", "p:m __x64_sys_openat"),
        ("p:m vfs_read.isra.0", "p:m vfs_read"),
        (f"p:{F} filename:string", f"p:{F} {F} filename=+0($arg2):ustring"),
        (f"p:m,{F},dfd=%di", f"p:m {F} dfd=%di"),
        (f"kprobe:{F}", f"p:{F} {F}"),
        (f"p:m {F} a=+4 ($stack)", f"p:m {F} a=+4($stack)"),
    ],
)
def test_check_offers_the_same(text: str, instead: str) -> None:
    (only,) = check([text], ",".join(KERNELS)).findings
    assert (only.suggestion and only.suggestion.text) == instead


def test_check_of_a_word_that_is_no_file(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"kprobe:{F}"]) == 2
    assert capfd.readouterr().err == (
        f"ERROR: kprobe:{F}: no such file; that is bpftrace's spelling; here it is 'p:{F}'\n"
    )


@pytest.mark.parametrize(
    ("filter_text", "hint"),
    [
        ("nosuch == 1", "the event's fields: "),
        ("n = 3", 'numbers have == != < <= > >= &, strings have == != ~; the event\'s fields: '),
        ("n == cat", 'strings have quotes, and patterns a ~: comm == "cat", comm ~ "cat*"; the event\'s fields: '),
    ],
)  # fmt: skip
def test_a_refused_filter_lists_the_fields(filter_text: str, hint: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["p:m vfs_read n=$arg3", filter_text], tracefs=SimulatedKernel("6.12").tracefs) == 1
    said = capfd.readouterr().err
    assert said.startswith(f"ERROR: filter of m refused '{filter_text}': Invalid argument (EINVAL)\n")
    fields = "__probe_ip n common_type common_flags common_preempt_count common_pid"
    assert said.endswith(f"\nhint: {hint}{fields}\n")


def test_specs(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["--tracefs", "6.1", "p:vfs_read"]) == 3
    assert capfd.readouterr().err.endswith("\nhint: --tracefs sim:6.1 or vm:6.1\n")
    assert main(["--tracefs", "vm:6.12,mem=512", "p:vfs_read"]) == 3
    assert capfd.readouterr().err == (
        "ERROR: vm:6.12,mem=512: 'mem=512' is none of idle, cold, serial, cpus=N, memory=MiB\n"
    )
    monkeypatch.setattr("kprobe.tracefs.mounts.find_tracefs.__defaults__", ("/nosuch/a", "/nosuch/b", "/nosuch/c"))
    assert main(["--tracefs", "local", "p:vfs_read"]) == 3
    assert "; without one: --tracefs sim, a simulated kernel\n" in capfd.readouterr().err


@pytest.mark.slow
def test_the_doctor_says_that_it_did_not_try(capfd: pytest.CaptureFixture[str]) -> None:
    tracefs = SimulatedKernel("7.3").tracefs
    assert main(["doctor", "r:c kfree $retval", "vfs_read"], tracefs=tracefs) == 0
    said = capfd.readouterr().out
    assert said.endswith(
        "Not known here: whether the kernel takes 'r:c kfree $retval', which was not tried: kprobe doctor --try 1 "
        "'r:c kfree $retval'.\n"
    )
    assert main(["doctor", "--try", "0.1", "r:c kfree $retval"], tracefs=tracefs) == 1
    tried = capfd.readouterr().out
    assert "STOPS: the kernel takes no probe r:c kfree $retval\n" in tried
    assert "  help: kfree returns nothing: 'r:c kfree'\n" in tried
    assert "was not tried" not in tried
