"""What `kprobe check` finds in lists, shell scripts and Python: the statements, where they stand, what they need."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_check import BadSource, Position, Statement, statements
from kprobe_check.sources.reading import FORMS, form

WHERE = tuple[int, int, str, str]  # line, column, text, file


def found(text: str, as_form: str) -> list[WHERE]:
    each = statements(text.encode(), "it", as_form)
    return [where(one) for one in each if one.kind in ("definition", "filter", "trigger")]


def where(one: Statement) -> WHERE:
    return (one.position.line, one.position.column, one.text, one.file)


# ------------------------------------------------------------------------------------------------------------ lists


def test_a_list() -> None:
    text = """\
# comment
p:myopen do_sys_openat2 file=+0(%si):string

  filter: file ~ "*stat"
trigger: stacktrace if common_pid == 1
hist:keys=common_pid
-:myopen
sched/sched_switch filter: next_pid == 1
sched:sched_switch hist:keys=next_pid
r:do_sys_openat2
p:bash /bin/bash:0x1234
e:ev sched/sched_switch a=$next_pid
"""
    assert found(text, "list") == [
        (2, 1, "p:myopen do_sys_openat2 file=+0(%si):string", "kprobe_events"),
        (4, 3, 'file ~ "*stat"', "filter"),
        (5, 1, "stacktrace if common_pid == 1", "trigger"),
        (6, 1, "hist:keys=common_pid", "trigger"),
        (8, 1, "next_pid == 1", "events/sched/sched_switch/filter"),
        (9, 1, "hist:keys=next_pid", "events/sched/sched_switch/trigger"),
        (10, 1, "r:do_sys_openat2 do_sys_openat2", "kprobe_events"),
        (11, 1, "p:bash /bin/bash:0x1234", "uprobe_events"),
        (12, 1, "e:ev sched/sched_switch a=$next_pid", "dynamic_events"),
    ]


def test_filters_and_triggers_need_the_definition_before_them() -> None:
    text = "p:a vfs_read\nfilter: common_pid == 1\nkprobes/a filter: common_pid == 2\np:b vfs_write\ntrigger: traceon\n"
    each = statements(text.encode(), "it", "list")
    assert [[need.text for need in one.needs] for one in each] == [
        [],
        ["p:a vfs_read"],
        ["p:a vfs_read"],
        [],
        ["p:b vfs_write"],
    ]
    assert each[2].file == "filter"


def test_an_event_probe_and_a_trigger_need_the_events_that_they_name() -> None:
    text = "p:a vfs_read\ns:syn int pid\ne:b kprobes/a\nhist:keys=common_pid:onmatch(kprobes.a).syn(common_pid)\n"
    each = statements(text.encode(), "it", "list")
    assert [need.text for need in each[2].needs] == ["p:a vfs_read"]
    assert [need.text for need in each[3].needs] == ["p:a vfs_read", "s:syn int pid", "e:b kprobes/a"]


def test_a_filter_without_an_event_cannot_be_asked() -> None:
    (only,) = statements(b"filter: common_pid == 1\n", "it", "list")
    assert only.unclear == "no definition stands before this filter, and it names no event"


# ------------------------------------------------------------------------------------------------------------ scripts

SCRIPT = r"""#!/bin/bash
T=/sys/kernel/tracing
echo 'p:myopen do_sys_openat2' >> $T/kprobe_events
echo "r:ret do_sys_openat2 \$retval" | sudo tee -a $T/kprobe_events
echo 'common_pid == 1' > "$T/events/kprobes/myopen/filter"
if ! echo 'hist:keys=common_pid' > $T/events/sched/sched_switch/trigger; then exit 1; fi
cat <<'END' >> $T/dynamic_events
p:a vfs_read
s:syn int a
END
sudo -n ./kprobe -p 12 'p:do_sys_openat2 fd=%di' 'fd != 0'
PROBE="p:name vfs_read a=%di"
printf '%s\n' 'p:one vfs_read' 'p:two vfs_write' > $T/kprobe_events
echo p:bare vfs_read > kprobe_events
echo -:myopen >> kprobe_events; echo > kprobe_events; echo 0 > events/x/y/filter
echo 'p:other vfs_read' > some_file   # a whole definition all the same
echo 'not a probe' > some_file; trace 'p::do_sys_open "%s", arg2'; uprobe p:bash:readline; kprobe -h; kprobe clean
"""


def test_a_script() -> None:
    assert found(SCRIPT, "") == [
        (3, 6, "p:myopen do_sys_openat2", "kprobe_events"),
        (4, 6, "r:ret do_sys_openat2 $retval", "kprobe_events"),
        (5, 6, "common_pid == 1", "filter"),
        (6, 11, "hist:keys=common_pid", "events/sched/sched_switch/trigger"),
        (8, 1, "p:a vfs_read", "kprobe_events"),
        (9, 1, "s:syn int a", "dynamic_events"),
        (11, 24, "p:do_sys_openat2 do_sys_openat2 fd=%di", "kprobe_events"),
        (11, 50, "fd != 0", "filter"),
        (12, 1, "p:name vfs_read a=%di", "kprobe_events"),
        (13, 15, "p:one vfs_read", "kprobe_events"),
        (13, 32, "p:two vfs_write", "kprobe_events"),
        (14, 6, "p:bare vfs_read", "kprobe_events"),
        (16, 6, "p:other vfs_read", "kprobe_events"),
    ]


@pytest.mark.parametrize(
    ("line", "because"),
    [
        (
            'echo "r:x vfs_read $retval" >> kprobe_events',
            "the shell replaces $retval with something else; single quotes keep it",
        ),
        ('echo "p:$NAME vfs_read" >> kprobe_events', "the shell replaces $NAME with something else"),
        ("echo p:x $(function) >> kprobe_events", "the shell replaces $(function) with something else"),
        ("cat >> kprobe_events <<END\nr:x vfs_read $retval\nEND", "the shell replaces $retval with something else"),
    ],
)
def test_what_the_shell_puts_something_else_for_cannot_be_asked(line: str, because: str) -> None:
    (only,) = statements(line.encode(), "x.sh")
    assert only.unclear.partition(";")[0] == because.partition(";")[0]


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("/sys/kernel/tracing/events/sched/sched_switch/filter", "events/sched/sched_switch/filter"),
        ("events/sched/sched_switch/filter", "events/sched/sched_switch/filter"),
        ("$T/events/kprobes/$NAME/filter", "filter"),
        ("$EVENT/filter", "filter"),
        ("filter", "filter"),
        ("/etc/some/filter", None),
        ("out/filter", None),
        ("/sys/kernel/tracing/events/sched/sched_switch/enable", None),
    ],
)
def test_of_which_event_a_path_is(path: str, file: str | None) -> None:
    text = f"X='p:x vfs_read'; echo 'common_pid == 1' > {path}"
    assert [one.file for one in statements(text.encode(), "x.sh")[1:]] == ([file] if file else [])


@pytest.mark.parametrize(
    "line",
    [
        "sudo sh -c 'echo p:x vfs_read > /sys/kernel/tracing/kprobe_events'",
        """bash -ec "echo 'p:x vfs_read' >> $T/kprobe_events" """,
        "su root -c 'echo \"p:x vfs_read\" > kprobe_events'",
        "eval 'echo p:x vfs_read > kprobe_events'",
        """sh -c "sh -c 'echo p:x vfs_read > kprobe_events'" """,
        "sudo sh -c 'PROBE=\"p:x vfs_read\"'",
    ],
)
def test_a_script_in_a_script(line: str) -> None:
    each = statements(f"\n{line}\n".encode(), "x.sh")
    assert [(one.text, one.position.line, one.unclear) for one in each if one.kind == "definition"] == [
        ("p:x vfs_read", 2, "")
    ]


def test_a_path_that_the_shell_knows_leaves_the_definition_clear() -> None:
    (only,) = statements(b'echo "p:x vfs_read" >> "${T:-/sys/kernel/tracing}"/kprobe_events', "x.sh")
    assert (only.text, only.unclear) == ("p:x vfs_read", "")


# ------------------------------------------------------------------------------------------------------------ Python

PROGRAM = '''
X = "p:myopen do_sys_openat2 a=%si"
def f(t, n):
    t.write("kprobe_events", b"p:foo vfs_read\\nr:bar vfs_read $retval\\n")
    t.write("events/kprobes/foo/filter", b"common_pid == 1")
    Path("/x/events/sched/sched_switch/trigger").write_text("stacktrace if next_pid == 1")
    Tracer(t).trace("p:do_sys_openat2", filter="common_pid > 2")
    return """p:one vfs_read
        p:two vfs_write"""
Y = "not a probe", "p:", b"\\xff", X.get("filter", "none"), Path("/etc/x/filter").write_text("no")
'''


def test_a_program() -> None:
    assert found(PROGRAM, "python") == [
        (2, 5, "p:myopen do_sys_openat2 a=%si", "kprobe_events"),
        (4, 30, "p:foo vfs_read", "kprobe_events"),
        (4, 30, "r:bar vfs_read $retval", "kprobe_events"),
        (5, 42, "common_pid == 1", "filter"),
        (6, 61, "stacktrace if next_pid == 1", "events/sched/sched_switch/trigger"),
        (7, 21, "p:do_sys_openat2 do_sys_openat2", "kprobe_events"),
        (7, 48, "common_pid > 2", "filter"),
        (8, 12, "p:one vfs_read", "kprobe_events"),
        (9, 9, "p:two vfs_write", "kprobe_events"),
    ]


def test_a_program_that_runs_a_shell() -> None:
    text = """\
os.system("echo 'p:x vfs_read' > /sys/kernel/tracing/kprobe_events")
subprocess.run(['''
  echo 'common_pid == 1' > events/kprobes/x/filter'''], shell=True)
subprocess.run('''
  echo 'common_pid == 2' > events/kprobes/x/filter''', shell=True)
"""
    assert found(text, "python") == [
        (1, 11, "p:x vfs_read", "kprobe_events"),
        (3, 8, "common_pid == 1", "filter"),
        (5, 8, "common_pid == 2", "filter"),
    ]


def test_a_string_with_replacement_fields_cannot_be_asked() -> None:
    (only,) = statements(b'f"p:x {symbol} a=%di"\n', "x.py", "")
    assert (only.text, only.unclear) == ("p:x {symbol} a=%di", "what {symbol} is isn't known")


# ------------------------------------------------------------------------------------------------------------ ignoring


@pytest.mark.parametrize(
    ("as_form", "text"),
    [
        ("list", "p:a vfs_read # kprobe: ignore\np:b vfs_read\n"),
        ("list", "# kprobe: ignore\np:a vfs_read\np:b vfs_read\n"),
        (
            "shell",
            "echo p:a vfs_read > kprobe_events  # kprobe: ignore, as of 5.10\necho p:b vfs_read >>kprobe_events\n",
        ),
        ("shell", "  #kprobe:ignore\nX='p:a vfs_read'\nX='p:b vfs_read'\n"),
        ("python", "X = 'p:a vfs_read'  # kprobe: ignore\nY = 'p:b vfs_read'\n"),
        ("python", "# kprobe: ignore\nX = 'p:a vfs_read'\nY = 'p:b vfs_read'\n"),
    ],
)
def test_what_is_to_be_ignored(as_form: str, text: str) -> None:
    assert [one.text for one in statements(text.encode(), "it", as_form)] == ["p:b vfs_read"]


def test_what_is_ignored_is_still_there_for_what_needs_it() -> None:
    (only,) = statements(b"p:a vfs_read # kprobe: ignore\nfilter: common_pid == 1\n", "it", "list")
    assert [need.text for need in only.needs] == ["p:a vfs_read # kprobe: ignore"]


# ------------------------------------------------------------------------------------------------------------ forms


@pytest.mark.parametrize(
    ("name", "first", "expected"),
    [
        ("a.sh", "", "shell"),
        ("a.py", "", "python"),
        ("a.bash", "", "shell"),
        ("dir.py/probes", "p:a vfs_read", "list"),
        ("tool", "#!/usr/bin/env python3", "python"),
        ("tool", "#!/bin/sh -e", "shell"),
        ("tool", "#!/usr/bin/perl", "perl"),
        ("tool", "#!/usr/bin/awk -f", ""),
        ("a.go", "", "go"),
        ("a.h", "", "c"),
        ("a.cc", "", "c"),
        ("a.rs", "", "rust"),
        ("a.pm", "", "perl"),
        ("README.md", "", "markdown"),
        ("add_and_remove.tc", "", "shell"),
        ("standard input", "", "list"),
    ],
)
def test_what_a_file_is_by_its_name_or_its_first_line(name: str, first: str, expected: str) -> None:
    assert form(name, first + "\n") == expected


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a", b"p:a vfs_read\n\0", "a:2: not text: it holds a NUL"),
        ("a", b"p:a vfs_read\n\n\xff", "a:3: not text: it isn't UTF-8"),
        ("a.py", b"x = 1\nprint 'p:a vfs_read'\n", "a.py:2: not Python: "),
        ("a.py", b"(" * 5000, "a.py:1: not Python: "),
    ],
)
def test_what_is_not_what_it_should_be(name: str, data: bytes, message: str) -> None:
    with pytest.raises(BadSource) as caught:
        statements(data, name)
    assert str(caught.value).startswith(message)


def test_lines_that_end_as_on_other_systems_and_a_mark_at_the_start() -> None:
    assert found("\ufeffp:a vfs_read\r\nfilter: common_pid == 1\r\n", "list") == [
        (1, 1, "p:a vfs_read", "kprobe_events"),
        (2, 1, "common_pid == 1", "filter"),
    ]


# ------------------------------------------------------------------------------------------------------------ anything

PIECES = st.sampled_from(
    [
        *(
            "p:a vfs_read",
            "echo ",
            "'",
            '"',
            "$(",
            ")",
            "`",
            "<<E\n",
            "E\n",
            " > kprobe_events",
            "\\",
            "\n",
            "#",
            "| tee ",
        ),
        *(
            "kprobe ",
            "filter",
            "trigger: ",
            "$x",
            "${",
            "}",
            "x = ",
            "f'",
            "hist:keys=a",
            "# kprobe: ignore",
            ";",
            "&",
            "\t",
        ),
    ]
)


@given(st.binary(max_size=300), st.sampled_from(["", *FORMS]))
def test_any_bytes_are_read_or_refused(data: bytes, as_form: str) -> None:
    try:
        each = statements(data, "it", as_form)
    except BadSource:
        return
    check_places(each, data.decode())


@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=30), st.sampled_from(FORMS))
def test_any_text_is_read_or_refused_and_places_are_in_it(pieces: list[str], as_form: str) -> None:
    text = "".join(pieces)
    try:
        each = statements(text.encode(errors="replace"), "it", as_form)
    except BadSource:
        return
    check_places(each, text)


def test_a_text_that_begins_with_a_word_of_no_place_is_where_its_next_part_is() -> None:
    each = statements(b"x;\nf' > kprobe_events)f'", "it", "perl")
    assert {one.position for one in each} == {Position("it", 2, 2)}


def check_places(each: list[Statement], text: str) -> None:
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    for one in each:
        assert 1 <= one.position.line <= len(lines)
        assert 1 <= one.position.column <= len(lines[one.position.line - 1]) + 1


BLOCKS = st.sampled_from(
    [
        "",
        "ls -l",
        "# it's p:no vfs_read",
        "x='a b'",
        'y="$z\nend"',
        "cat <<'E'\nit's\nE",
        "f() { ls; }",
        "a=$(b 'c')",
        "\\",
    ]
)


@given(
    st.lists(BLOCKS, max_size=8),
    st.sampled_from(["'p:here vfs_read a=%di'", '"p:here vfs_read a=%di"', "p:here\\ vfs_read\\ a=%di"]),
)
def test_a_definition_in_a_script_is_found_where_it_stands(before: list[str], word: str) -> None:
    start = "".join(f"{block}\n" for block in before)
    (only,) = statements(f"{start}PROBE={word}\n".encode(), "it", "shell")
    assert where(only) == (start.count("\n") + 1, 1, "p:here vfs_read a=%di", "kprobe_events")


def test_a_position_is_shown_as_editors_follow_it() -> None:
    assert [str(one) for one in (Position("a.sh", 3, 6), Position("a.sh"), Position())] == ["a.sh:3", "a.sh", ""]
