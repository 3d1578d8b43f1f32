"""`kprobe-vm run`: the command's own output and status, with files and Debian packages in the guest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kprobe_vm.commands.copies import Copy, interpreter

TRACE = "p:myopen do_sys_openat2 filename=+0(%si):string"
STATIC = """
int main(int argc, char **argv)
{
    (void)argv;
    return argc + 39;
}
"""


def run(series: str, *arguments: str, quiet: bool = True, input: str = "") -> subprocess.CompletedProcess[str]:
    """Run `kprobe-vm run`; what comes after "--" runs in the guest, and reads the input."""
    words = [sys.executable, "-m", "kprobe_vm", *(["-q"] if quiet else []), "run", series, *arguments]
    return subprocess.run(words, input=input, capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ("a:/b", Copy(Path("a"), "/b")),
        ("x/a:/b/", Copy(Path("x/a"), "/b/a")),
        ("x:y/a:/b", Copy(Path("x:y/a"), "/b")),
    ],
)
def test_what_is_copied_where(text: str, copy: Copy) -> None:
    assert Copy.parse(text) == copy


@pytest.mark.parametrize("text", ["", "a", ":/b", "a:b", "a:"])
def test_what_names_no_copy(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:GUEST"):
        Copy.parse(text)


def test_the_loader_of_a_program() -> None:
    python = Path(os.path.realpath(sys.executable)).read_bytes()
    assert interpreter(python) == "/lib64/ld-linux-x86-64.so.2"
    assert interpreter(python[:200]) == ""
    assert interpreter(b"#!/bin/sh\n") == ""
    assert interpreter(b"") == ""


@pytest.mark.vm
def test_output_and_status_are_the_commands_own(series: str) -> None:
    done = run(series, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)


@pytest.mark.vm
def test_standard_input_goes_in(series: str) -> None:
    done = run(series, "--", "sh", "-c", "cat; echo end", input="hi\n")
    assert (done.stdout, done.stderr, done.returncode) == ("hi\nend\n", "", 0)


@pytest.mark.vm
def test_what_a_command_leaves_behind_is_not_waited_for(series: str) -> None:
    done = run(series, "--", "sh", "-c", "sleep 1000 & echo hi")
    assert (done.stdout, done.stderr, done.returncode) == ("hi\n", "", 0)


@pytest.mark.vm
def test_a_command_is_looked_for_in_the_path_of_the_guest(series: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho $PATH\n")
    script.chmod(0o755)
    done = run(series, "--copy", f"{script}:/usr/sbin/", "--", "script")
    assert (done.stdout, done.stderr, done.returncode) == ("/bin:/sbin:/usr/bin:/usr/sbin\n", "", 0)


@pytest.mark.vm
def test_a_command_that_was_killed(series: str) -> None:
    assert run(series, "--", "sh", "-c", "kill -TERM $$").returncode == 128 + 15


@pytest.mark.vm
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("bash", "", "the guest has only busybox's programs; --package bash adds it"),
        ("perf", "", "the guest has only busybox's programs; --package linux-perf adds it"),
        (
            "/tmp/x",
            "#!/bin/bash -e\n",
            "/tmp/x is a script for /bin/bash, which the guest lacks: --package bash adds it",
        ),
        ("/tmp/x", "#! /opt/own/lang\n", "/tmp/x is a script for /opt/own/lang, which the guest lacks"),
        (
            "/tmp/x",
            "#!/bin/sh\r\n",
            "the first line of /tmp/x ends with CR, which the kernel takes for part of the interpreter's name",
        ),
    ],
)
def test_what_a_command_lacks_is_named(series: str, tmp_path: Path, name: str, text: str, words: str) -> None:
    script = tmp_path / "x"
    script.write_text(text, newline="")
    script.chmod(0o755)
    done = run(series, *(["--copy", f"{script}:/tmp/x"] if text else []), "--", name)
    assert (done.stderr, done.returncode) == (f"kprobe-vm: {name}: No such file or directory: {words}\n", 127)


@pytest.mark.vm
def test_a_script_that_env_shall_run(series: str, tmp_path: Path) -> None:
    script = tmp_path / "x"
    script.write_text("#!/usr/bin/env bash\n")
    script.chmod(0o755)
    done = run(series, "--copy", f"{script}:/tmp/x", "--", "/tmp/x")
    assert done.stderr.splitlines()[-1] == (
        "kprobe-vm: /tmp/x is a script for bash, which the guest lacks: --package bash adds it"
    )
    assert done.returncode == 127
    script.write_text("#!/usr/bin/env sh\necho fine\n")
    assert run(series, "--copy", f"{script}:/tmp/x", "--", "/tmp/x").stdout == "fine\n"


@pytest.mark.vm
def test_a_command_that_is_not_there(series: str) -> None:
    done = run(series, "--", "nonesuch")
    assert (done.stderr, done.returncode) == ("kprobe-vm: nonesuch: No such file or directory\n", 127)


def test_no_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("6.1").returncode == 2


@pytest.mark.parametrize(("words", "status"), [(["run", "6.1"], 2), (["record", "/nonexistent", "-o", "x"], 110)])
def test_a_refusal_that_can_not_be_printed_has_its_status(words: list[str], status: int, tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run([sys.executable, "-m", "kprobe_vm", *words], stderr=full, cwd=tmp_path, env=buffered)
    assert done.returncode == status


@pytest.mark.vm
def test_what_a_command_says_and_nobody_gets_is_a_failure(series: str) -> None:
    words = [sys.executable, "-m", "kprobe_vm", "-q", "run", series, "--", "sh", "-c", "echo err >&2"]
    with open("/dev/full", "wb") as full:
        assert subprocess.run(words, stderr=full, timeout=110).returncode == 125


@pytest.mark.vm
def test_files_are_copied_in(series: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep/file").write_text("deep\n")
    (tree / "link").symlink_to("deep/file")
    script = tree / "script"
    script.write_text("#!/bin/sh\nexec cat /opt/tree/link\n")
    script.chmod(0o755)
    plain = tmp_path / "plain"
    plain.write_bytes(bytes(range(256)) * 4096)
    plain.chmod(0o640)
    words = ("--copy", f"{tree}:/opt/tree", "--copy", f"{plain}:/new/place/")
    done = run(series, *words, "--", "sh", "-c", "/opt/tree/script && stat -c '%a %s' /new/place/plain")
    assert (done.stdout, done.stderr, done.returncode) == ("deep\n640 1048576\n", "", 0)


@pytest.mark.vm
@pytest.mark.requires("cc")
def test_a_hosts_static_program_runs(series: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    command = ["cc", "-static", "-x", "c", "-o", str(program), "-"]
    subprocess.run(command, input=STATIC, text=True, check=True)
    # in place of a link to busybox, which must not be written through
    done = run(series, "--copy", f"{program}:/bin/true", "--", "sh", "-c", "/bin/true a b; echo $?")
    assert (done.stdout, done.returncode) == ("42\n", 0)


@pytest.mark.vm
def test_a_dynamic_program_is_told_of(series: str) -> None:
    copied = f"{os.path.realpath(sys.executable)}:/tmp/program"
    done = run(series, "--copy", copied, "--", "/tmp/program", quiet=False)
    assert "needs /lib64/ld-linux-x86-64.so.2, which the guest lacks" in done.stderr
    assert done.returncode == 127


@pytest.mark.vm
def test_a_file_that_is_not_there(series: str, tmp_path: Path) -> None:
    done = run(series, "--copy", f"{tmp_path}/none:/x", "--", "true")
    assert (done.stderr, done.returncode) == (
        f"kprobe-vm: [Errno 2] No such file or directory: '{tmp_path}/none'\n",
        125,
    )


@pytest.mark.vm
def test_bash_and_trace_cmd_and_perf_tools(series: str) -> None:
    """With packages of Debian: perf-tools' kprobe, whose manner our own command keeps, on a real kernel."""
    script = f"""
        echo $BASH_VERSION
        while :; do cat /etc/hostname >/dev/null; sleep 0.2; done &
        loop=$!
        trace-cmd record -q -o /tmp/trace.dat -e sched:sched_process_fork sleep 1 >/dev/null
        trace-cmd report /tmp/trace.dat | grep -c sched_process_fork
        kprobe-perf -d 2 '{TRACE}' 'filename ~ "*hostname"'
        kill $loop
    """
    packages = ("--package", "bash", "--package", "trace-cmd", "--package", "=perf-tools-unstable")
    done = run(series, *packages, "--", "bash", "-c", script)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("5.2.")
    assert int(lines[1]) > 1
    assert lines[2] == "Tracing kprobe myopen for 2 seconds (buffered)..."
    assert [line for line in lines if "cat-" in line and "myopen: (do_sys_openat2+0x0/" in line]
    assert all('filename="/etc/hostname"' in line for line in lines if "do_sys_openat2" in line)


@pytest.mark.vm
def test_a_package_that_there_is_not(series: str) -> None:
    done = run(series, "--package", "no-such-package", "--", "true")
    assert done.returncode == 107
    assert done.stderr == "kprobe-vm: apt-get install: Unable to locate package no-such-package\n"
    assert "'-o' is no package's name" in run(series, "--package=-o", "--", "true").stderr
