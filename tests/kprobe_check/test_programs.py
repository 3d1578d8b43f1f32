"""What `kprobe check` finds in programs and documents: what they write and don't say, and how they open files."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_check import BadSource, Statement, statements
from kprobe_sim.expose import patched

A, B = "p:a vfs_read", "p:b vfs_write"
EVENTS = "/sys/kernel/tracing/kprobe_events"
SEEK = "os.open(…, os.O_WRONLY | os.O_APPEND)"


def found(text: str, as_form: str) -> list[Statement]:
    return statements(text.encode(), "it", as_form)


def asked(text: str, as_form: str = "python") -> list[str]:
    each = found(text, as_form)
    return [one.text for one in each if one.kind in ("definition", "filter", "trigger") and not one.unclear]


def unasked(text: str, as_form: str = "python") -> list[tuple[int, str, str]]:
    return [(one.position.line, one.text, one.unclear) for one in found(text, as_form) if one.unclear]


def opened(text: str, as_form: str = "python") -> list[tuple[int, str, str, str]]:
    each = found(text, as_form)
    return [(one.position.line, one.kind, one.file, one.instead) for one in each if one.instead]


# ------------------------------------------------------------------------------------------------- Python


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"f = open('{EVENTS}', 'a')\nf.write('p:a vfs_read')\nf.close()", [A]),
        (f"with open('{EVENTS}', 'w') as f:\n    print('p:a vfs_read', file=f)", [A]),
        (f"with open('{EVENTS}', 'r+') as f: print('p:a', 'vfs_read', file=f)", [A]),
        (f"fd = os.open('{EVENTS}', os.O_APPEND)\nos.write(fd, b'p a\\nr b')\nos.close(fd)", ["p a", "r b"]),
        (f"Path('{EVENTS}').write_text('p a')", ["p a"]),
        ("P = Path('/sys/kernel/tracing')\n(P / 'kprobe_events').open('r+').write('p a')", ["p a"]),
        (f"io.open('{EVENTS}', 'rb+').writelines([b'p a', b'p b'])", ["p a", "p b"]),
        (f"subprocess.run(\"echo 'p a' >> {EVENTS}\", shell=True)", ["p a"]),
        (f"subprocess.run(['sudo', 'tee', '-a', '{EVENTS}'], input=b'p a\\n')", ["p a"]),
        (f"subprocess.check_call(['sh', '-c', 'echo p a >> {EVENTS}'])", ["p a"]),
        (f"F = 'vfs_read'\nos.system(f\"echo 'p:a {{F}}' >> {EVENTS}\")", [A]),
        (f"device.execute('echo p a >> {EVENTS}')", ["p a"]),
        (f"def wr(path, text):\n  with open(path, 'r+') as f:\n    f.write(text)\nwr('{EVENTS}', 'p a')", ["p a"]),
        (f"from tools import write_file\nwrite_file('{EVENTS}', 'p a')", ["p a"]),
        (f"F = 'vfs_read'\nX = open('{EVENTS}', 'r+')\nX.write('p:%s %s\\n' % ('a', F))", [A]),
        (f"F = 'vfs_read'\nopen('{EVENTS}', 'r+').write('p:{{}} {{f}}'.format('a', f=F))", [A]),
        (f"def g():\n  f = 'vfs_read'\n  open('{EVENTS}', 'r+').write(f'p:a {{f}}')", [A]),
        (f"T = 'p:%s %s a=%%di'\nopen('{EVENTS}', 'r+').write(T % ('a', 'vfs_read'))", ["p:a vfs_read a=%di"]),
        (f"class K:\n  D = 'p a'\n  def g(self):\n    self.f = open('{EVENTS}')\n    self.f.write(self.D)", ["p a"]),
        ("x = open('kprobe_events').read()\ny = open('filter', 'w')", []),
        (f"os.path.exists('{EVENTS}'); os.chmod('{EVENTS}', 'x'); log('{EVENTS}', 'gone')", []),
        (f"'''A module: echo 'p:a vfs_read' > {EVENTS}'''\nprint(\"try: echo 'p:a x' > {EVENTS}\")", []),
        ("T = 'p:a vfs_read x=%s'\nprint(T % 1)", []),
    ],
)  # fmt: skip
def test_what_python_writes(text: str, expected: list[str]) -> None:
    assert (asked(text), unasked(text)) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("open('kprobe_events', 'r+').write('p:%s %s' % (n, f))", (1, "p:{n} {f}", "what {n} is isn't known")),
        ("\nopen('kprobe_events', 'r+').write('p:{} b'.format(n))", (2, "p:{n} b", "what {n} is isn't known")),
        ("def g(n):\n  open('kprobe_events', 'r+').write(n)", (2, "{n}", "what {n} is isn't known")),
        ("n = 1\nn = 2\nos.write(os.open('kprobe_events', 1), f'p:{n} x')", (3, "p:{n} x", "what {n} is isn't known")),
        ("D = 'p:{name} vfs_read'.format(name=name)", (1, "p:{name} vfs_read", "what {name} is isn't known")),
        ("D = 'p:a vfs_read x=%s'", (1, "p:a vfs_read x=%s", "what %s is isn't known")),
        ("os.system(f'echo p:a {f(a, b)} >> kprobe_events')", (1, "p:a {f(a, b)}", "what {f(a, b)} is isn't known")),
    ],
)  # fmt: skip
def test_what_python_does_not_say_is_not_asked(text: str, expected: tuple[int, str, str]) -> None:
    assert (asked(text), unasked(text)) == ([], [expected])


@pytest.mark.parametrize("mode", ["a", "ab", "at", "a+"])
def test_appending_is_refused_by_every_kernel(mode: str) -> None:
    assert opened(f"\nf = open('/x/kprobe_events', '{mode}')") == [(2, "appending", "kprobe_events", SEEK)]
    with patched("6.1"), pytest.raises(OSError, match="Invalid argument"):
        builtins.open(EVENTS, mode).close()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("io.open('uprobe_events', mode='w')", "truncating"),
        ("open(f'{T}/dynamic_events', 'wb')", "truncating"),
        ("Path('kprobe_events').write_text('p a')", "truncating"),
        ("(Path(T) / 'kprobe_events').open('a')", "appending"),
        ("os.open('synthetic_events', os.O_WRONLY | os.O_TRUNC)", "truncating"),
        ("def g(p):\n  open(p, 'w')\ng('kprobe_events')", "truncating"),
    ],
)
def test_how_python_opens_a_file(text: str, kind: str) -> None:
    assert [one[1] for one in opened(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "open('kprobe_events')",
        "open('kprobe_events', 'r+')",
        "open('filter', 'w')",
        "os.open('kprobe_events', os.O_APPEND)",
    ],
)
def test_what_opens_a_file_and_does_no_harm(text: str) -> None:
    assert opened(text) == []


# ------------------------------------------------------------------------------------------------- other languages

GO = f"""package x
const events = "{EVENTS}"
const (
	name = "a" // "p:no vfs_read"
	Whole = "p:whole vfs_read"
)
func f(sym string) {{
	f, err := os.OpenFile(events, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {{ return fmt.Errorf("no kprobe_events: %w", err) }}
	cmd := fmt.Sprintf("p:%s %s\\n", name, "vfs_read")
	f.WriteString(cmd)
	f.Write([]byte(`p raw`))
	f.WriteString("p:" + name +
		" joined")
	fmt.Fprintf(f, "p:%s %s", "b", "vfs_write")
	os.WriteFile(filepath.Join(root, "events/kprobes/a/filter"), []byte("common_pid == 1"), 0)
	exec.Command("sh", "-c", "echo 'p:sh vfs_read' >> {EVENTS}").Run()
	f.WriteString(fmt.Sprintf("p:%s %s", sym, sym))
	f.WriteString(line)
	log.Printf("p:said vfs_read")
	os.Create(events)
}}
"""
C = f"""
#define T "/sys/kernel/tracing/"
#define PROBE "p:a " "vfs_read"
/* "p:no vfs_read" */
int f(void) {{
	char buf[99];
	int fd = open(T "kprobe_events", O_WRONLY | O_APPEND);
	write(fd, PROBE, sizeof(PROBE));
	dprintf(fd, "p:%s %s\\n", "b", "vfs_write");
	snprintf(buf, sizeof(buf), "%c:%s %s", ret ? 'r' : 'p', name, sym);
	write(fd, buf, strlen(buf));
	printf("p:said vfs_read\\n");
	FILE *f = fopen(T "kprobe_events", "a");
	fputs("p raw", f);
	system("echo 'p:sh vfs_read' >> {EVENTS}");
	twrite("{EVENTS}", "p two");
	fopen(T "kprobe_events", "w");
}}
"""
RUST = f"""
const EVENTS: &str = "{EVENTS}";
fn f() -> Result<()> {{
    let mut f = OpenOptions::new().append(true).open(EVENTS)?;
    let name = "a";
    write!(f, "p:{{name}} {{}}", "vfs_read")?;
    f.write_all(br#"p raw"#)?;
    let d = format!("r:{{}} {{}}", sym, sym);
    f.write_all(d.as_bytes())?;
    fs::write("/sys/kernel/tracing/events/kprobes/a/filter", "common_pid == 1")?;
    File::create(EVENTS)?;
}}
"""
PERL = f"""#!/usr/bin/perl
my $events = "{EVENTS}";
my $name = 'a';
open(my $fh, '>>', $events) or die "no kprobe_events: $!";
print $fh "p:$name vfs_read\\n";
printf $fh "p:%s %s\\n", 'b', 'vfs_write';
open OUT, ">$events";
print OUT 'p raw';
appendto "p two", "kprobe_events";
assert_script_run("echo p:sh vfs_read >> {EVENTS}");
print $fh "p:$sym x";
"""


@pytest.mark.parametrize(
    ("as_form", "text", "expected"),
    [
        ("go", GO, ["p:whole vfs_read", A, "p raw", "p:a joined", B, "common_pid == 1", "p:sh vfs_read"]),
        ("c", C, [A, B, "p raw", "p:sh vfs_read", "p two"]),
        ("rust", RUST, [A, "p raw", "common_pid == 1"]),
        ("perl", PERL, [A, B, "p raw", "p two", "p:sh vfs_read"]),
    ],
)
def test_what_programs_write(as_form: str, text: str, expected: list[str]) -> None:
    assert asked(text, as_form) == expected


@pytest.mark.parametrize(
    ("as_form", "text", "expected"),
    [
        ("go", GO, [(18, "p:{sym} {sym}"), (19, "{line}")]),
        ("c", C, [(10, "{ret?:}:{name} {sym}")]),
        ("rust", RUST, [(8, "r:{sym} {sym}")]),
        ("perl", PERL, [(11, "p:$sym x")]),
    ],
)
def test_what_programs_do_not_say_is_not_asked(as_form: str, text: str, expected: list[tuple[int, str]]) -> None:
    assert [one[:2] for one in unasked(text, as_form)] == expected


@pytest.mark.parametrize(
    ("as_form", "text", "expected"),
    [
        ("go", GO, [(21, "truncating")]),
        ("c", C, [(13, "appending"), (17, "truncating")]),
        ("rust", RUST, [(11, "truncating")]),
        ("perl", PERL, [(7, "truncating")]),
    ],
)
def test_how_programs_open_a_file(as_form: str, text: str, expected: list[tuple[int, str]]) -> None:
    assert [one[:2] for one in opened(text, as_form)] == expected


MARKDOWN = """# Notes
Not `echo 'p:no vfs_read' > kprobe_events`.

```console
$ echo 'p:a vfs_read' >> kprobe_events
p:out vfs_read
# cat kprobe_events
p:kprobes/out vfs_read
```

* in a list

  ~~~bash
  echo -e 'p:b vfs_write\\np c' >> kprobe_events
  ~~~

```go
f.WriteString("p:go vfs_read")
```

```python
open("kprobe_events", "r+").write("p:py vfs_read")
```

```
p:bare vfs_read a=%di
```
"""


def test_the_code_in_markdown() -> None:
    each = [(one.position.line, one.text) for one in found(MARKDOWN, "markdown")]
    assert each == [
        (5, A), (14, B), (14, "p c"), (18, "p:go vfs_read"), (22, "p:py vfs_read"), (26, "p:bare vfs_read a=%di"),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "library"), [("a.go", "pygments"), ("a.pl", "pygments"), ("a.md", "markdown_it")])
def test_without_the_extra_it_is_named(name: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = builtins.__import__

    def without(module: str, *rest: Any) -> Any:
        if module.partition(".")[0] == library:
            raise ImportError(module)
        return real(module, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadSource, match=r"to read \w+ takes the extra \[check\]: pip install 'kprobe-sim\[check\]'"):
        statements(b"x", name)


@pytest.mark.parametrize("name", ["Makefile", "notes.txt", "a.yaml", "init.rc"])
def test_what_is_no_list_is_not_read_as_one(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadSource, match=r":2: not a list of definitions: 'all: x' is none; kprobe check reads lists"):
        statements(b"p:a vfs_read\nall: x\n", name)


MARKS = st.sampled_from([*list("\"'`(){}[];,.+=<>$@%#\\/ \n"), "x", "kprobe_events", "p:a vfs_read", "open", "print "])


@given(st.lists(MARKS, max_size=40).map("".join), st.sampled_from(["go", "c", "rust", "perl", "markdown", "python"]))
def test_any_program_is_read_or_refused(text: str, as_form: str) -> None:
    try:
        each = found(text + '\n"kprobe_events"', as_form)
    except BadSource:
        return
    assert all(1 <= one.position.line <= text.count("\n") + 2 for one in each)


def test_a_path_that_is_put_together_is_no_write() -> None:
    text = (
        'void f(void) { snprintf(buf, 9, "%s/kprobe_events", root()); fprintf(stderr, "%s/kprobe_events: %s", a, b); }'
    )
    assert found(text, "c") == []


def test_what_a_function_is_given_is_what_it_writes() -> None:
    """As programs that set probes do it: the first argument of each is known where the function is called."""
    text = """
def set_kprobe(name, function, arguments=''):
    fd = open('/sys/kernel/debug/tracing/kprobe_events', 'w')
    fd.write('p:kprobes/%s %s %s' % (name, function, arguments))
    fd.close()
set_kprobe('one', 'vfs_read', 'a=%di')
set_kprobe('two', function='vfs_write')
"""
    assert asked(text) == ["p:kprobes/one vfs_read a=%di", "p:kprobes/two vfs_write"]
    assert [one[:2] for one in opened(text)] == [(3, "truncating")]
