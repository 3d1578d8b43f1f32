"""Developers run `make vm-programs`: others' programs on the mount and on a guest; writes docs/evidence/programs.md.

Usage: programs.py [--kernel 6.1] [--only WORD] [--write]; without --write it prints the differences.  The programs
come from Debian's packages, which are fetched.  A guest runs each command in a clone of its own.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "programs.md"
TABLE = ROOT / "tests" / "programs" / "commands.tsv"
CLIENT = ROOT / "tests" / "programs" / "client.c"
LIBRARIES = ("libtracefs1", "libtraceevent1", "libtraceevent1-plugin")
PACKAGES = (*LIBRARIES, "trace-cmd", "libtracefs-dev", "libtraceevent-dev", "perf-tools-unstable")

PROBE = "echo 'p:myopen do_sys_openat2 path=+0(%si):string' >> /sys/kernel/tracing/kprobe_events"
ONLY = """-f 'path ~ "*hostname"'"""


class Command(NamedTuple):
    """A command line for sh, its place in the table, and why its output differs, if it does."""

    program: str
    line: str
    reason: str
    packages: tuple[str, ...]


def commands() -> list[Command]:
    """Read the table."""
    found = []
    for row in TABLE.read_text().splitlines():
        if not row.startswith("#"):
            program, packages, line, reason = row.split("\t")
            found.append(Command(program, line, reason, tuple(packages.split())))
    return found


def shell(line: str) -> str:
    """Return a command with its short words spelt out."""
    return line.replace("PROBE", PROBE).replace("ONLY", ONLY)


# what differs from run to run on one machine: times, pids, sizes of files, numbers of trace.dat
_SAME = (
    (re.compile(r"\b\d+\.\d{6,9}\b"), "TIME"),
    (re.compile(r"-\d+( +(?:\(\S+\) +)?\[\d{3}\])"), r"-PID\1"),
    (re.compile(r"\b((?:\w+_)?pid)=\d+"), r"\1=PID"),
    (re.compile(r"\boffset=0x[0-9a-f]+"), "offset=OFFSET"),
    (re.compile(r"^ +\d+ bytes in size.*$", re.MULTILINE), "    N bytes in size"),
    (re.compile(r" +(?=\S+-PID )"), " "),
    (re.compile(r"PID +\["), "PID ["),
    (re.compile(r" +TIME"), " TIME"),
    (re.compile(r"/tmp/\S*?/"), "/tmp/"),
    (re.compile(r"(filename=)/usr(?=/bin/)"), r"\1"),
)


def normal(text: str) -> str:
    """Return a text without what differs from run to run."""
    for pattern, replacement in _SAME:
        text = pattern.sub(replacement, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if not line.startswith("kprobe-vm: "))


class UnpackedPrograms:
    """The programs, unpacked."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "root"

    def fetch(self) -> None:
        """Fetch the packages and compile the client."""
        debs = self.directory / "debs"
        debs.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=debs, check=True, capture_output=True, timeout=300)
        for package in debs.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, self.root], check=True)
        self.libraries = next(self.root.glob("usr/lib/*/libtraceevent.so.1")).parent
        include = self.root / "usr" / "include"
        command = ["gcc", "-O1", "-Wall", "-Werror", f"-I{include}/tracefs", f"-I{include}/traceevent", str(CLIENT)]
        command += ["-o", str(self.directory / "client"), f"-L{self.libraries}", "-ltracefs", "-ltraceevent"]
        subprocess.run([*command, f"-Wl,-rpath-link,{self.libraries}"], check=True)

    def environment(self) -> Mapping[str, str]:
        """Return what a command on the mount needs."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LD_LIBRARY_PATH": str(self.libraries),
            "TRACEEVENT_PLUGIN_DIR": str(self.libraries / "traceevent" / "plugins"),
            "PATH": f"{self.root}/usr/bin:{self.root}/usr/sbin:{self.directory}:{os.environ['PATH']}",
        }


def _said(command: Sequence[str], environment: Mapping[str, str], directory: str | None) -> str:
    try:
        done = subprocess.run(
            command, env=environment, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180
        )
    except subprocess.TimeoutExpired:
        return "(no end)\n"
    return normal(done.stdout.decode(errors="replace")) + (f"status {done.returncode}\n" if done.returncode else "")


def on_the_mount(command: Command, place: UnpackedPrograms, kernel: str) -> str:
    """Run a command inside `kprobe-sim run`; return what it said."""
    inside = f"mount -t tmpfs none /var/tmp; {shell(command.line)}"  # perf-tools' lock is not this machine's
    line = ["run", "--kernel", kernel, "--activity", "none", "--follow", "--", "sh", "-c", inside]
    with tempfile.TemporaryDirectory() as directory:
        return _said([sys.executable, "-m", "kprobe_sim.cli", *line], place.environment(), directory)


def on_a_guest(command: Command, place: UnpackedPrograms, kernel: str) -> str:
    """Run a command in a clone of a guest; return what it said."""
    packages = [word for package in command.packages for word in ("--package", package)]
    copies = ["--copy", f"{place.directory}/client:/bin/client"] if command.line == "client" else []
    inside = f"mkdir -p /tmp/x /var/tmp; PATH=/usr/bin:$PATH; cd /tmp/x; {shell(command.line)}"
    line = ["run", kernel, *packages, *copies, "--memory", "1024", "--", "sh", "-c", inside]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'vm'}"}
    return _said([sys.executable, "-m", "kprobe_vm", *line], environment, None)


def page(rows: Sequence[tuple[Command, str, str]], kernel: str) -> str:
    """Return docs/evidence/programs.md."""
    equal = sum(mount == guest for _, mount, guest in rows)
    text = [
        "# Programs of other people, on the mount and on a real kernel",
        "",
        "Written by `tools/docs/programs.py --write`, not by hand. Each command ran, unmodified and from its Debian",
        f"package, inside `kprobe-sim run --kernel {kernel} --follow` and on a guest with the same kernel; compared is",
        "all that it printed, but for times, pids and sizes. `client` is",
        "a C program, `tests/programs/client.c`, on libtracefs and libtraceevent. The commands are those",
        "of a table, `tests/programs/commands.tsv`.",
        "",
        f"{equal} of {len(rows)} say the same.",
        "",
        "| Program | Command | Same | Lines | If not: why |",
        "|---|---|---|---|---|",
    ]
    for command, mount, guest in rows:
        line = command.line.replace("|", "\\|")
        same = mount == guest
        reason = "" if same else command.reason or "not explained"
        text.append(
            f"| {command.program} | `{line}` | {'yes' if same else '**no**'} | {guest.count(chr(10))} | {reason} |"
        )
    text += ["", f"PROBE is `{PROBE}`, ONLY is `{ONLY}`.", ""]
    different = [row for row in rows if row[1] != row[2]]
    if different:
        text += ["## What differs", ""]
    for command, mount, guest in different:
        difference = difflib.unified_diff(guest.splitlines(), mount.splitlines(), "kernel", "mount", lineterm="", n=1)
        text += [f"`{command.line}`", "", "```diff", *list(difference)[:40], "```", ""]
    return "\n".join(text)


def main() -> int:
    """Run all, or those with a word in them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if shutil.which("apt-get") is None:
        parser.error("the programs come from Debian's packages; there is no apt-get here")
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        place = UnpackedPrograms(Path(directory))
        place.fetch()
        for command in commands():
            if options.only not in command.line:
                continue
            mount = on_the_mount(command, place, options.kernel)
            guest = on_a_guest(command, place, options.kernel)
            rows.append((command, mount, guest))
            print(f"{'same' if mount == guest else 'DIFFERENT':9} {command.line}", flush=True)
            if mount != guest and not options.write:
                print(
                    "\n".join(
                        difflib.unified_diff(
                            guest.splitlines(), mount.splitlines(), "kernel", "mount", lineterm="", n=1
                        )
                    )
                )
    if options.write:
        PAGE.write_text(page(rows, options.kernel))
    return 0


if __name__ == "__main__":
    sys.exit(main())
