"""Developers run it when a rule changes: the kernel's ftracetest on mount and guest; docs/evidence/ftracetest.md.

Usage: ftracetest.py [--kernel 6.1] [--only mount|guest] [--write] [--source DIR] [TEST...]; a TEST is a path below
test.d (default: the directories of the table).  The tests come from Debian's package linux-source-6.1, which is fetched
once and kept in the cache; $KPROBE_FTRACETEST names a directory that already has them.  They run unmodified.  The
machine's own tracefs and settings stay untouched: on the mount everything runs in the namespaces of `kprobe-sim run`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "ftracetest.md"
TABLE = ROOT / "tests" / "programs" / "ftracetest.tsv"
DIRECTORIES = ("00basic", "kprobe", "dynevent", "event", "filter", "instances", "trigger")
SOURCE, PING = "linux-source-6.1", "busybox-static"
GUEST_PACKAGES = ("bash", "coreutils", "dash", "grep", "sed", "iputils-ping", "libc-bin")
RESULTS = ("PASS", "FAIL", "UNRESOLVED", "UNSUPPORTED", "UNTESTED", "XFAIL")
_LINE = re.compile(r"^\[(\d+)\](?: \(instance\) )?.*?\t\[([A-Z]+)\]$", re.MULTILINE)

# what runs ftracetest: the setting that it writes is a file of its own, the network a namespace of its own with `lo`
INSIDE = """
setting=/proc/sys/kernel/sched_rt_runtime_us
cp $setting "$OUT/rt" && mount --bind "$OUT/rt" $setting || exit 99
cd "$FTRACETEST" && exec sh ./ftracetest -k -l "$OUT/logs" "$@"
"""
LOOPBACK = """
import fcntl, os, socket, struct, sys
with socket.socket() as one:
    fcntl.ioctl(one, 0x8914, struct.pack("16sH14s", b"lo", 1, b""))  # SIOCSIFFLAGS, IFF_UP
os.execvp(sys.argv[1], sys.argv[1:])
"""
GUEST = "busybox ip link set lo up; cd /ftrace && sh ./ftracetest -l /tmp/logs "


def cache() -> Path:
    """Return where the tests are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "kprobe-sim" / "ftracetest"


def fetch(place: Path | None = None) -> Path:
    """Return the directory of ftracetest; raise OSError or CalledProcessError if it can't be fetched."""
    given = os.environ.get("KPROBE_FTRACETEST")
    if given:
        return Path(given)
    place = place or cache()
    found = place / SOURCE / "tools" / "testing" / "selftests" / "ftrace"
    if not (found / "ftracetest").exists():
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as name:
            package = download(SOURCE, Path(name))
            unpack = (
                f"dpkg-deb --fsys-tarfile '{package}' | tar -xO ./usr/src/{SOURCE}.tar.xz"
                f" | tar -xJ --wildcards '{SOURCE}/tools/testing/selftests/ftrace'"
            )
            subprocess.run(["sh", "-c", unpack], cwd=name, check=True)
            (Path(name) / SOURCE).rename(place / SOURCE)
    return found


def ping(place: Path | None = None) -> Path:
    """Return a directory with a `ping` that needs no library."""
    place = (place or cache()) / "ping"
    if not (place / "ping").exists():
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as name:
            package = download(PING, Path(name))
            subprocess.run(["dpkg-deb", "-x", str(package), name], check=True)
            shutil.copy(Path(name) / "bin" / "busybox", place / "ping")
    return place


def download(name: str, where: Path) -> Path:
    """Fetch a Debian package with apt-get; raise CalledProcessError."""
    subprocess.run(["apt-get", "download", name], cwd=where, check=True, capture_output=True, text=True, timeout=600)
    return next(iter(where.glob("*.deb")))


def paths_of(ftracetest: Path, wanted: Sequence[str]) -> list[str]:
    """Return the paths of tests, below test.d, in the order in which ftracetest runs them."""
    found: list[str] = []
    for name in wanted:
        path = ftracetest / "test.d" / name
        tests = [path] if path.suffix == ".tc" else sorted(path.rglob("*.tc"))
        found += [str(test.relative_to(ftracetest / "test.d")) for test in tests]
    return found


def names_of(ftracetest: Path, wanted: Sequence[str]) -> list[str]:
    """Return the name of each result: the test's path, with " (instance)" where it runs in one."""
    paths = paths_of(ftracetest, wanted)
    again = [
        path
        for path in paths
        if re.search(r"^#[ \t]*flags:.*instance", (ftracetest / "test.d" / path).read_text(), re.MULTILINE)
    ]
    return paths + [f"{path} (instance)" for path in again]


def results_of(text: str, names: Sequence[str]) -> dict[str, str]:
    """Read what ftracetest prints."""
    found = {int(number): result for number, result in _LINE.findall(text)}
    return {name: found.get(place, "missing") for place, name in enumerate(names, 1)}


def on_mount(
    ftracetest: Path, wanted: Sequence[str], kernel: str, out: Path, ping_at: Path | None = None, timeout: float = 3000
) -> dict[str, str]:
    """Run tests inside `kprobe-sim run --follow` and return the results; the logs are left below `out`."""
    names = names_of(ftracetest, wanted)
    tests = [str(ftracetest / "test.d" / path) for path in paths_of(ftracetest, wanted)]
    path = f"{ping_at}:{os.environ['PATH']}" if ping_at else os.environ["PATH"]
    environment = {
        **os.environ,
        "PATH": path,
        "OUT": str(out),
        "FTRACETEST": str(ftracetest),
        "PYTHONPATH": os.environ.get("PYTHONPATH") or str(ROOT),
    }
    inner = ["sh", "-c", INSIDE, "sh", *tests]
    if ping_at:
        inner = ["unshare", "-n", sys.executable, "-c", LOOPBACK, *inner]
    command = [
        sys.executable,
        "-m",
        "kprobe_sim.cli",
        "run",
        "--kernel",
        kernel,
        "--activity",
        "idle",
        "--follow",
        "--",
    ]
    done = subprocess.run(
        [*command, *inner], env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    (out / "output").write_text(done.stdout + done.stderr)
    return results_of(done.stdout, names)


def in_guest(ftracetest: Path, wanted: Sequence[str], kernel: str, out: Path) -> dict[str, str]:
    """Run tests in a guest and return the results."""
    names = names_of(ftracetest, wanted)
    packages = [word for name in GUEST_PACKAGES for word in ("-p", name)]
    tests = " ".join(f"test.d/{path}" for path in paths_of(ftracetest, wanted))
    command = [sys.executable, "-m", "kprobe_vm", "run", kernel, "--copy", f"{ftracetest}:/ftrace", *packages]
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH") or f"{ROOT}:{ROOT / 'vm'}"}
    done = subprocess.run(
        [*command, "--", "sh", "-c", GUEST + tests], env=environment, capture_output=True, text=True, check=False
    )
    (out / "output").write_text(done.stdout + done.stderr)
    return results_of(done.stdout, names)


def table() -> dict[str, tuple[str, str, str]]:
    """Read the table: by test, the result on the mount, that on the kernel, and why they differ."""
    rows = (line.split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#"))
    return {name: (mount, guest, reason) for name, mount, guest, reason in rows}


def write_table(rows: Mapping[str, tuple[str, str, str]]) -> None:
    """Write the table and its page."""
    head = "# test\ton the mount\ton the kernel\twhy they differ\n"
    TABLE.write_text(head + "".join("\t".join((name, *row)) + "\n" for name, row in rows.items()))
    PAGE.write_text(page(rows))


def page(rows: Mapping[str, tuple[str, str, str]]) -> str:
    """Return docs/evidence/ftracetest.md."""
    counts: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for name, (mount, guest, _) in rows.items():
        both = counts.setdefault(name.partition("/")[0], (Counter(), Counter()))
        both[0][mount] += 1
        both[1][guest] += 1
    used = [
        result for result in (*RESULTS, "missing") if any(result in one for both in counts.values() for one in both)
    ]
    lines = [
        "# ftracetest",
        "",
        "The kernel's own tests of its tracefs (tools/testing/selftests/ftrace of Debian's linux-source-6.1),",
        "unmodified, on the mount (`kprobe-sim run --kernel 6.1 --follow`) and on the same kernel in a guest. Made by",
        "`tools/docs/ftracetest.py --write`; `tests/programs/ftracetest.tsv` has every test. Tests that ftracetest",
        "runs a second time in an instance are counted twice. Each cell: mount / kernel.",
        "",
        "| Directory | " + " | ".join(used) + " |",
        "|---|" + "---|" * len(used),
    ]
    for directory, (mount, guest) in counts.items():
        cells = [f"{mount[result]} / {guest[result]}" for result in used]
        lines.append(f"| {directory} | " + " | ".join(cells) + " |")
    total = [sum((both[side] for both in counts.values()), Counter()) for side in (0, 1)]
    lines.append("| all | " + " | ".join(f"{total[0][one]} / {total[1][one]}" for one in used) + " |")
    lines += [
        "",
        "On the mount the machine is otherwise idle (`--activity idle`), the setting of /proc that ftracetest writes",
        "is a file of its own, and `ping` is busybox's, in a network namespace of its own with `lo` up. Opens, forks,",
        "execs, exits, sleeps and wake-ups that the tests wait for are those of the tests' own shells and programs.",
        "",
        "## What differs",
        "",
    ]
    lines += ["| Test | Mount | Kernel | Why |", "|---|---|---|---|"] if _differing(rows) else ["Nothing."]
    lines += [
        f"| {name} | {mount} | {guest} | {reason or '?'} |"
        for name, (mount, guest, reason) in rows.items()
        if mount != guest
    ]
    lines += ["", "## What doesn't pass on either", "", "| Test | Result | Why |", "|---|---|---|"]
    lines += [
        f"| {name} | {mount} | {reason or '?'} |"
        for name, (mount, guest, reason) in rows.items()
        if mount == guest and mount != "PASS"
    ]
    return "\n".join(lines) + "\n"


def _differing(rows: Mapping[str, tuple[str, str, str]]) -> list[str]:
    return [name for name, (mount, guest, _) in rows.items() if mount != guest]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests on both, and write or compare the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--only", choices=("mount", "guest"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("tests", nargs="*", metavar="TEST")
    chosen = parser.parse_args(arguments)
    ftracetest = fetch()
    old = table() if TABLE.exists() else {}
    rows = dict(old)
    differs = False
    for directory in chosen.tests or DIRECTORIES:  # each on a kernel of its own
        with tempfile.TemporaryDirectory() as name:
            out = Path(name)
            mount = guest = {}
            if chosen.only != "guest":
                mount = on_mount(ftracetest, [directory], chosen.kernel, out, ping())
            if chosen.only != "mount":
                guest = in_guest(ftracetest, [directory], chosen.kernel, out)
            for test in names_of(ftracetest, [directory]):
                before = old.get(test, ("missing", "missing", ""))
                row = (mount.get(test, before[0]), guest.get(test, before[1]), before[2])
                rows[test] = row
                differs |= row != before
                print(f"{test}: {row[0]} / {row[1]}" + (f" (was {before[0]} / {before[1]})" if row != before else ""))
    if chosen.write:
        order = {name: place for place, name in enumerate(names_of(ftracetest, DIRECTORIES))}
        write_table(dict(sorted(rows.items(), key=lambda row: order.get(row[0], len(order)))))
        return 0
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
