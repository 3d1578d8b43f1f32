"""What kernels make of statements, and what is written instead: the answers of real kernels, by their simulators."""

from __future__ import annotations

import errno
import time
from contextlib import ExitStack

import pytest

from kprobe import Unsupported, open_tracefs
from kprobe.tracefs.kernels import Kernel, UnknownKernel, chosen
from kprobe.undo.owners import this_process
from kprobe_check import Finding, NoKernel, Statement, check
from kprobe_check.asking.asked_kernel import AskedKernel
from kprobe_sim import SimulatedKernel
from kprobe_sim.tree.files.inprocess import SimTracefs

KERNELS = "5.10,6.1,6.12,7.2,7.3"


def of(*texts: str, kernels: str = KERNELS) -> list[Finding]:
    return list(check(texts, kernels).findings)


def states(finding: Finding) -> dict[str, str]:
    return {verdict.kernel.name: verdict.state for verdict in finding.verdicts}


def test_taken_by_all() -> None:
    (only,) = of("p:myopen do_sys_openat2 file=+0(%si):ustring")
    assert states(only) == dict.fromkeys(KERNELS.split(","), "taken")
    assert (only.state, only.suggestion) == ("taken", None)
    assert {verdict.answer.event for verdict in only.verdicts} == {"kprobes/myopen"}


def test_refused_with_the_kernels_own_words() -> None:
    """Recorded in fixtures/definitions: ENOENT of a missing symbol is EINVAL from 6.12 on."""
    (only,) = of("p:x _do_fork a=%di")
    assert [
        (one.kernel.name, one.answer.errno, one.answer.source, one.answer.says, one.answer.shown, one.answer.column)
        for one in only.verdicts
    ] == [
        (name, number, "trace_kprobe", "Invalid probed address or symbol", "p:x _do_fork a=%di", 4)
        for name, number in zip(KERNELS.split(","), [errno.ENOENT] * 2 + [errno.EINVAL] * 3, strict=True)
    ]
    assert only.suggestion is not None
    assert only.suggestion == ("p:x kernel_clone a=%di", "kernel_clone for _do_fork")


def test_refused_by_some() -> None:
    (only,) = of("p:a vfs_read count")
    assert list(states(only).values()) == ["refused", "refused", "taken", "taken", "taken"]
    assert only.verdicts[0].answer.says == "Invalid fetch argument"
    assert only.suggestion is not None
    assert only.suggestion.text == "p:a vfs_read count=$arg3"


def test_an_errno_that_denies_may_be_the_kernels_answer() -> None:
    (only,) = of("p:x 0xffffffffffffffff", kernels="5.10,6.1")
    assert [one.answer.errno for one in only.verdicts] == [errno.EPERM, 0]


def test_refused_filters_with_the_caret_of_the_filter_file() -> None:
    _, only = of("p:myopen do_sys_openat2 file=+0(%si):ustring", "filter: fle == 1")
    assert {one.state for one in only.verdicts} == {"refused"}
    said = only.verdicts[1].answer
    assert (said.errno, said.says, said.shown, said.column) == (errno.EINVAL, "Field not found", "fle == 1", 4)


def test_filters_and_triggers_of_static_events() -> None:
    taken, missing, word = of(
        "sched/sched_switch filter: next_pid == 1",
        "sched/no_such trigger: traceon",
        "sched/sched_switch filter: next_comm == bash",
    )
    assert taken.state == "taken"
    assert (missing.state, missing.verdicts[0].answer.says) == ("refused", "there is no event sched/no_such")
    assert (word.state, word.suggestion and word.suggestion.text) == ("refused", 'next_comm == "bash"')


def test_histograms() -> None:
    """Debian's 5.10 cloud kernel has none."""
    taken, missing = of("sched/sched_switch hist:keys=next_pid", "sched/sched_switch hist:keys=no", kernels="5.10,6.1")
    assert states(taken) == {"5.10": "refused", "6.1": "taken"}
    said = missing.verdicts[1].answer
    assert (said.source, said.says, said.shown[said.column or 0 :]) == (
        "hist:sched:sched_switch",
        "Couldn't find field",
        "no",
    )


def test_what_needs_a_refused_definition_is_not_asked() -> None:
    _, only = of("p:x vfs_read count", "filter: count > 1")
    assert list(states(only).values()) == ["unasked", "unasked", "taken", "taken", "taken"]
    assert only.verdicts[0].answer.unasked == "the definition that it needs isn't taken: p:x vfs_read count"


def test_what_is_not_the_kernels_to_say_is_not_asked() -> None:
    (only,) = of("p:x /opt/nowhere/tool:0x1000")
    assert only.verdicts[0].answer.unasked == "the machine that is asked has no such file"


def test_a_trigger_after_the_event_that_it_emits() -> None:
    trigger = "sched/sched_switch hist:keys=next_pid:x=next_pid:onchange($x).trace(told,next_pid)"
    _, only = of("s:told pid_t pid", trigger, kernels="6.1,6.12")
    assert states(only) == {"6.1": "taken", "6.12": "taken"}
    (alone,) = of(trigger, kernels="6.1")
    assert alone.verdicts[0].answer.says == "Couldn't find synthetic event"


# ------------------------------------------------------------------------------------------------------------ meanings


def test_a_type_that_kernels_with_btf_know() -> None:
    """$retval of an int is s32 where the kernel knows its type, and u64, printed as hex, where it doesn't."""
    (only,) = of("r:x vfs_fsync_range $retval")
    assert list(states(only).values()) == ["differs", "differs", "taken", "taken", "taken"]
    assert only.verdicts[0].because == (
        "field arg1 is u64 of 8 bytes, unsigned, elsewhere s32 of 4 bytes, signed",
        'it is printed as "(%lx <- %lx) arg1=0x%Lx", elsewhere "(%lx <- %lx) arg1=%d"',
    )
    assert only.suggestion == ("r:x vfs_fsync_range $retval:s32", "the type that newer kernels know by BTF")


def test_an_array_is_the_same_however_its_brackets_are_shown() -> None:
    (only,) = of("p:x vfs_read a=+0(%si):u8[4]")
    assert only.state == "taken"
    assert [verdict.answer.fields[0].length for verdict in only.verdicts] == ["4", "", "", "", ""]


def test_a_function_whose_work_another_took_over() -> None:
    (only,) = of("p:myopen do_sys_open file=+0(%si):string mode=%cx:u16")
    assert {(one.state, one.because) for one in only.verdicts} == {
        ("differs", ("do_sys_openat2 took over from do_sys_open, which is rarely called",))
    }
    assert only.suggestion is not None
    assert only.suggestion.text == "p:myopen do_sys_openat2 file=+0(%si):ustring mode=+8(%dx):u16"


@pytest.mark.parametrize(
    ("text", "register", "instead"),
    [
        ("p:x __x64_sys_openat f=+0(%si):string", "%si", "p:x __x64_sys_openat f=+0(+104(%di)):ustring"),
        ("p:x __x64_sys_openat a=%di b=+104(%di)", "%di", "p:x __x64_sys_openat a=+112(%di) b=+104(%di)"),
        ("p:x __x64_sys_openat $arg4:x32", "$arg4", "p:x __x64_sys_openat +56(%di):x32"),
        ("p:x __x64_sys_unlink +0(%di):string", "%di", "p:x __x64_sys_unlink +0(+112(%di)):ustring"),
    ],
)
def test_registers_at_a_wrapper_of_a_system_call(text: str, register: str, instead: str) -> None:
    (only,) = of(text)
    assert only.verdicts[0].because == (
        f"{register} is no argument of the system call: {text.split()[1]} is a wrapper, whose one argument (%di) is "
        "the address of the caller's registers",
    )
    assert only.suggestion is not None
    assert only.suggestion.text == instead


@pytest.mark.parametrize("text", ["p:x __x64_sys_openat a=+112(%di)", "r:x __x64_sys_openat $retval:s64"])
def test_a_wrapper_whose_argument_is_taken_for_what_it_is(text: str) -> None:
    (only,) = of(text)
    assert only.state == "taken"


def test_parameters_that_moved() -> None:
    """vfs_create() lost its dir and want_excl, so that its dentry is the second argument from then on."""
    only, kept = of("p:x vfs_create dentry=%dx map=%di", "p:x vfs_create map=%di", kernels="6.1,6.12,7.3")
    assert [verdict.because for verdict in only.verdicts] == [
        (),  # of 6.1 that isn't known
        ("%dx is dentry, which is %si on newer kernels",),
        (),
    ]
    assert (only.state, only.suggestion, kept.state) == ("differs", None, "taken")


def test_a_parameter_that_there_is_no_longer() -> None:
    (only,) = of("p:x ext4_superblock_csum es=$arg2", kernels="6.12,7.3")
    assert [verdict.because for verdict in only.verdicts] == [
        ("$arg2 is es, which is %di on newer kernels",),
        ("$arg2 is no argument: the function has 1, es",),
    ]


def test_a_parameter_that_came_in_between() -> None:
    (only,) = of("p:x do_set_pmd page=%si", kernels="6.12,7.3")
    assert only.verdicts[0].because == ("%si is page, which is %dx on newer kernels",)


def test_a_module_that_is_not_loaded() -> None:
    (only,) = of("p:x ext4:ext4_sync_file", kernels="6.12")
    assert only.verdicts[0].because == ("module ext4 isn't loaded: it is taken unseen, and waits for it",)
    assert only.suggestion is None


# --------------------------------------------------------------------------------------------------------- suggestions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("p:x sys_openat f=+0(%si):string", "p:x __x64_sys_openat f=+0(+104(%di)):ustring"),
        ("p:g.e vfs_read", "p:g/e vfs_read"),
        ("p:x vfs_read a=%rdi", "p:x vfs_read a=%di"),
        ("p:x vfs_read $arg*", "p:x vfs_read file=$arg1 buf=$arg2 count=$arg3 pos=$arg4"),
        ("p:x vfs_read c=count:u64 +0(pos)", "p:x vfs_read c=$arg3:u64 +0($arg4)"),
        ("f:x vfs_read%return a=$retval:s64", "r:x vfs_read a=$retval:s64"),
        ("p:x vfs_read%return a=$retval:s64", None),  # which all take
        ("p:x vfs_read a=$retval:s64", "r:x vfs_read a=$retval:s64"),
        ("p10:x vfs_read", "p:x vfs_read"),
        ("p:my-read vfs_read", "p:my_read vfs_read"),
        ("p:x vfs_read a=%di:hex", "p:x vfs_read a=%di:x64"),
        ("p:x vfs_read a=$arg1:symstr", "p:x vfs_read a=$arg1:symbol"),
        ("p:x vfs_write a=%si:string", "p:x vfs_write a=+0(%si):ustring"),
        ("p:x kfree a=%di:string", "p:x kfree a=+0(%di):string"),
        ("p:x vfs_read a=a0 b=s2", "p:x vfs_read a=$arg1 b=$stack2"),
        (
            "p:x do_sys_open dfd=a0 flags=a2 mode=a3",
            "p:x do_sys_openat2 dfd=$arg1 flags=+0($arg3) mode=+8($arg3)",
        ),
        ("p:x do_sys_open dfd=%ax filename=%dx", None),  # registers of 32-bit x86
        ("r:x vfs_read a=$arg1", None),  # what 5.10 and 6.1 have no word for
        ("p:x no_such_function", None),
        ("p:x vfs_read+3", None),
    ],
)
def test_what_all_kernels_take_instead(text: str, instead: str | None) -> None:
    (only,) = of(text)
    assert (only.suggestion and only.suggestion.text) == instead


def test_registers_for_arguments_after_the_entry() -> None:
    (only,) = of("p:x vfs_read+5 a=$arg1", kernels="5.10")
    assert only.suggestion == ("p:x vfs_read+5 a=%di", "registers of the calling convention for $argN")


def test_a_suggestion_was_tried_and_is_taken_by_all() -> None:
    texts = ["p:x sys_openat f=+0(%si):string", "p:x vfs_read $arg*", "r:x vfs_fsync_range $retval"]
    offered = [finding.suggestion for finding in of(*texts)]
    again = of(*[one.text for one in offered if one is not None])
    assert [finding.state for finding in again] == ["taken"] * 3


def test_user_memory_that_is_read_as_the_kernels_own() -> None:
    (only,) = of("p:x do_sys_openat2 f=+0(%si):string")
    assert only.state == "taken"
    assert only.suggestion is not None
    assert only.suggestion.text == "p:x do_sys_openat2 f=+0(%si):ustring"


def test_no_suggestions_if_none_are_wanted() -> None:
    assert check(["p:x _do_fork"], "6.1", suggest=False).findings[0].suggestion is None


# ------------------------------------------------------------------------------------------------------------ kernels


@pytest.mark.slow
def test_a_thousand_definitions_take_seconds() -> None:
    """On eleven kernels they should take less than 10 s; here it is five, and a third of that (1.0 s when measured)."""
    each = [f"p:e{number} vfs_read a=%di b=+{number}(%si)" for number in range(900)]
    each += [f"p:e{number} no_such_function_{number}" for number in range(100)]
    begun = time.process_time()
    report = check(each, KERNELS)
    assert time.process_time() - begun < 4.5
    assert [finding.state for finding in report.findings] == ["taken"] * 900 + ["refused"] * 100


def test_the_report_says_whether_anything_is_refused() -> None:
    assert check(["p:x vfs_read", "p:y _do_fork"], "6.1").is_refused
    assert not check(["p:x do_sys_open"], "6.1").is_refused
    assert not check([], "6.1").is_refused


def test_statements_and_texts() -> None:
    given = Statement("definition", "p:x vfs_read", "kprobe_events")
    assert [one.statement.text for one in check([given, "p:y vfs_read"], "6.1").findings] == [
        "p:x vfs_read",
        "p:y vfs_read",
    ]


def test_kernels_by_value_and_by_name() -> None:
    for kernels in ("6.1", [Kernel("sim:6.1")], chosen("6.1")):
        assert [one.state for one in check(["p:x vfs_read"], kernels).findings[0].verdicts] == ["taken"]


def test_a_kernel_that_is_not_there() -> None:
    with pytest.raises(UnknownKernel):
        check(["p:x vfs_read"], "6.11")
    with pytest.raises(NoKernel, match=r"^sim:9\.9: no profile of kernel '9\.9'; there are: .*5\.10"):
        check(["p:x vfs_read"], "sim:9.9")
    with pytest.raises(NoKernel, match=r"^nothing:1: no tracefs backend 'nothing'"):
        check(["p:x vfs_read"], "nothing:1")


def test_nothing_is_left_in_a_kernel_that_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their events and filters stay; probes that feed their event are taken back alone."""
    kernel = SimulatedKernel("6.12")
    tracefs = SimTracefs(kernel)
    tracefs.write("kprobe_events", b"p:theirs vfs_read a=%di\n")
    tracefs.write("events/kprobes/theirs/filter", b"a == 1\n")
    tracefs.write("events/sched/sched_switch/filter", b"next_pid == 7\n")
    before = tracefs.read("dynamic_events")
    monkeypatch.setattr("kprobe_check.asking.checking.open_tracefs", lambda spec: tracefs)
    texts = [
        *("p:theirs vfs_write a=%di", "filter: a == 3", "p:mine vfs_write", "trigger: traceoff"),
        *(
            "sched/sched_switch filter: next_pid == 3",
            "sched/sched_switch hist:keys=next_pid",
            "p:theirs vfs_read b=%di",
        ),
    ]
    report = check(texts, [Kernel("sim:6.12")])
    assert [one.state for one in report.findings] == ["taken"] * 6 + ["refused"]
    assert tracefs.read("dynamic_events") == before
    assert tracefs.read("events/kprobes/theirs/filter") == b"a == 1\n"
    assert tracefs.read("events/sched/sched_switch/filter") == b"next_pid == 7\n"
    assert tracefs.listdir("instances") == []


def test_a_kernel_that_does_not_permit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tracefs = open_tracefs("sim:6.12")

    def denied(path: str, data: bytes, *, truncate: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(tracefs, "write", denied)
    monkeypatch.setattr("kprobe_check.asking.checking.open_tracefs", lambda spec: tracefs)
    from kprobe import NotPermitted

    with pytest.raises(NotPermitted, match="kprobe_events: Permission denied"):
        check(["p:x vfs_read"], [Kernel("sim:6.12")])


ASKED_OF_OLD = (
    "p:e do_sys_open name=+0(%si):string",
    'filter: name ~ "*stat"',
    "trigger: traceoff",
    "p:x no_such_thing",
    "p:y do_sys_open a=$arg1",
    "e:z sched/sched_switch",
    "sched/sched_switch filter: next_pid == 1",
    "p:u /bin/busybox:0x1000",
)


@pytest.mark.parametrize(
    ("series", "answers"),
    [
        (
            "3.2",
            [
                *("", "", "ENOENT, this kernel's events have no trigger", "ENOENT", "EINVAL"),
                "ENOENT, this kernel has no dynamic_events",
                "this kernel has no instances to try it in, and the event is everybody's",
                "ENOENT, this kernel has no uprobe_events",
            ],
        ),
        (
            "3.13",
            [
                *("", "", "ENOENT, this kernel's events have no trigger", "ENOENT", "EINVAL"),
                *("ENOENT, this kernel has no dynamic_events", "", ""),
            ],
        ),
        ("4.4", ["", "", "", "ENOENT", "EINVAL", "ENOENT, this kernel has no dynamic_events", "", ""]),
        ("4.19", ["", "", "", "ENOENT", "EINVAL", "ENOENT, this kernel has no dynamic_events", "", ""]),
    ],
)
def test_kernels_without_dynamic_events(series: str, answers: list[str]) -> None:
    said = []
    for finding in of(*ASKED_OF_OLD, kernels=f"sim:{series}"):
        answer = finding.verdicts[0].answer
        name = errno.errorcode[answer.errno] if answer.errno else ""
        said.append(", ".join(filter(None, (name, answer.says, answer.unasked))))
    assert said == answers


def old(series: str, *lines: bytes) -> tuple[SimulatedKernel, AskedKernel]:
    kernel = SimulatedKernel(series)
    for line in lines:
        kernel.tracefs.write("kprobe_events" if b"/bin" not in line else "uprobe_events", line)
    return kernel, AskedKernel(kernel.tracefs, this_process())


@pytest.mark.parametrize(
    ("theirs", "definition"),
    [
        (b"p:kprobes/e do_sys_open\n", "p:e vfs_read"),
        (b"p:kprobes/p_do_sys_open_5 do_sys_open+5\n", "p do_sys_open+0x5"),
        (b"r:kprobes/r_do_sys_open_0 do_sys_open\n", "r10:mine do_sys_open"),  # which doesn't know maxactive
        (b"p:sched/mine do_sys_open\n", "p:sched/mine vfs_read"),
        (b"p:uprobes/p_busybox_0x1000 /bin/busybox:0x1000\n", "p /bin/busybox:0x1000"),
    ],
)
def test_what_others_have_isnt_replaced_on_a_kernel_that_would(theirs: bytes, definition: str) -> None:
    kernel, asked = old("3.13", theirs)
    file = "uprobe_events" if "/bin" in definition else "kprobe_events"
    before = kernel.tracefs.read(file)
    assert before.split()[0] == theirs.split()[0]
    answer = asked.ask(Statement("definition", definition, file))
    assert answer.unasked == "others have a probe of that name, which this kernel would replace"
    assert kernel.tracefs.read(file) == before


def test_nothing_stays_on_an_old_kernel() -> None:
    kernel, asked = old("3.2", b"p:theirs do_sys_open\n")
    assert asked.ask(Statement("definition", "p:e do_sys_open", "kprobe_events")).is_taken
    asked.close()
    assert kernel.tracefs.read("kprobe_events") == b"p:kprobes/theirs do_sys_open\n"


@pytest.mark.parametrize(
    ("kernel", "answers"),
    [
        ("2009", ["", "", "EINVAL", "", "", "ENOENT, this kernel's events have no trigger"]),
        (
            "2009-v13",
            ["", "", "EINVAL", "EINVAL", *["the definition that it needs isn't taken: p:e do_sys_open name=%di"] * 2],
        ),
        ("3.13-i386", ["EINVAL", "", "ENOENT", "", "", "ENOENT, this kernel's events have no trigger"]),
    ],
)
def test_the_kernels_of_documents_are_asked(kernel: str, answers: list[str]) -> None:
    """The patch of 2009 can't remove one probe of several, so all go, which are ours."""
    said = []
    for finding in of(
        *("p do_sys_open a0", "r:back do_sys_open", "p vfs_read", "p:e do_sys_open name=%di"),
        *("filter: name == 1", "trigger: traceoff", "e:z sched/sched_switch"),
        kernels=kernel,
    ):
        answer = finding.verdicts[0].answer
        name = errno.errorcode[answer.errno] if answer.errno else ""
        said.append(", ".join(filter(None, (name, answer.says, answer.unasked))))
    assert said == [*answers, "ENOENT, this kernel has no dynamic_events"]


def test_the_fields_of_the_patch_of_2009_are_its_arguments() -> None:
    (finding,) = of("p:e do_sys_open dfd=a0 name=a1", kernels="sim:2009")
    fields = finding.verdicts[0].answer.fields
    assert [(field.name, field.type, field.size) for field in fields] == [
        ("dfd", "unsigned long", 8),
        ("name", "unsigned long", 8),
    ]


def test_what_others_have_isnt_removed_with_ours_where_all_go() -> None:
    kernel = SimulatedKernel("2009")
    kernel.tracefs.write("kprobe_events", b"p:theirs do_sys_open\n")
    with pytest.raises(Unsupported, match=r"no way to remove one probe of several \(so nothing can be tried beside"):
        AskedKernel(kernel.tracefs, this_process())
    assert kernel.tracefs.read("kprobe_events") == b"p:theirs do_sys_open+0\n"


def test_what_others_add_meanwhile_isnt_removed_with_ours() -> None:
    kernel, asked = old("2009")
    asked._define(Statement("definition", "p:e do_sys_open", "kprobe_events"), undo := ExitStack())
    kernel.tracefs.write("kprobe_events", b"p:theirs do_sys_open\n")
    with pytest.raises(OSError, match="others' probes would be removed with ours"):
        undo.close()
    assert b"p:theirs " in kernel.tracefs.read("kprobe_events")
