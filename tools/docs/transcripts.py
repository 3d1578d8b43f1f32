"""Developers run `make transcripts`: `kprobe`'s verbs on a terminal; writes docs/evidence/transcripts.md.

    python tools/docs/transcripts.py [sim|vm]

Each command runs in a pseudo-terminal, on the simulator and on a guest.  The page shows the terminal as it is at the
end, so what `kprobe top` redraws appears once, in its last state.  With `sim` or `vm` only those are run again.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pexpect
import pyte

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "transcripts.md"
ROWS, COLUMNS = 24, 120
HISTORY = 400  # lines that have scrolled away and are kept
LONGEST = 25  # seconds without output after which it is interrupted
MOST = 14  # lines of one output; what is more is counted
KERNELS = {"sim": "sim:6.12", "vm": "vm:6.12"}
OPEN = "'p:myopen do_sys_openat2 filename=+0(%si):ustring'"
SHOWN = (  # what it shows, the command; {} is where
    ("Events as they come", f"kprobe --tracefs {{}} --max-events 3 {OPEN}"),
    ("With a filter and column headings", f"kprobe -H --tracefs {{}} --max-events 2 {OPEN} 'filename ~ \"/*\"'"),
    ("The format, for filters", f"kprobe -v --tracefs {{}} {OPEN}"),
    ("Several probes", f"kprobe --tracefs {{}} --max-events 4 {OPEN} 'r:opened do_sys_openat2 fd=$retval:s32'"),
    ("A pattern", "kprobe --tracefs {} --max-events 2 --max-probes 20 'p:do_sys_open*'"),
    ("A function's entry, by fprobe", "kprobe --tracefs {} --max-events 2 f:do_sys_openat2"),
    ("A tracepoint", "kprobe --tracefs {} --timeout 1 --max-events 2 t:sched_switch"),
    ("An event on an event", "kprobe --tracefs {} --max-events 2 'e:syscalls.sys_enter_openat file=$filename:ustring'"),
    ("Kernel stacks", "kprobe -s --tracefs {} --max-events 1 p:do_sys_openat2"),
    ("For a time, into a file", f"kprobe --tracefs {{}} --timeout 1 --cpus 0 --buffer-size 64 -o /dev/null {OPEN}"),
    ("Raw pages", f"kprobe --raw --tracefs {{}} --max-events 2 {OPEN}"),
    ("Objects", f"kprobe --json --tracefs {{}} --max-events 1 {OPEN}"),
    ("Rows", f"kprobe --csv --tracefs {{}} --max-events 2 {OPEN}"),
    ("How long a function takes", "kprobe --latency --tracefs {} --timeout 2 do_sys_openat2"),
    ("A histogram", "kprobe --hist fd --tracefs {} --timeout 2 'r:opened do_sys_openat2 fd=$retval:s32'"),
    ("Counts", "kprobe --count comm --tracefs {} --timeout 2 p:do_sys_openat2"),
    ("Folded stacks", "kprobe --stacks --tracefs {} --timeout 1 p:do_sys_openat2"),
    ("Rates, as they change", "kprobe top --tracefs {} -d 3 p:do_sys_openat2"),
    ("Silence", "kprobe --tracefs {} --timeout 11 p:vfs_rename"),
    ("A refusal", "kprobe --tracefs {} 'p:myopen do_sys_openat2 filename=+0(%sx):ustring'"),
    ("Why not", "kprobe doctor --tracefs {} do_sys_openat2 do_sys_opn native_read_cr2"),
    ("What can be probed", "kprobe functions --tracefs {} 'vfs_read*'"),
    ("What holds each parameter", "kprobe functions -v --tracefs {} vfs_read"),
    ("A ready definition", "kprobe args --tracefs {} do_sys_openat2"),
    ("Every dynamic event", "kprobe list --tracefs {}"),
    ("What was left", "kprobe clean --dry-run --tracefs {}"),
)
ALONE = (  # these have no tracefs
    ("A definition, held to every kernel", "kprobe check 'p:x vfs_read fd=$arg1'"),
    ("A trace, parsed", "kprobe parse fixtures/text/6.12/12_missed.trace"),
    ("Traces of many kernels", "kprobe corpus list"),
    ("Completion", "kprobe completion bash"),
    ("The version", "kprobe --version"),
)
INTRODUCTION = f"""# What it looks like

Made by `make transcripts`: each command on the simulator and, if it has a tracefs, on a real kernel, as a terminal of
{COLUMNS} columns shows it. More than {MOST} lines are cut.
"""


def shown(command: str) -> list[str]:
    """Run a command in a terminal until it ends; return the lines that the terminal has then."""
    screen = pyte.HistoryScreen(COLUMNS, ROWS, history=HISTORY)
    stream = pyte.ByteStream(screen)
    environment = os.environ | {"TERM": "xterm-256color", "NO_COLOR": "1", "PYTHONWARNINGS": "ignore"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    child = pexpect.spawn("/bin/sh", ["-c", command], cwd=str(ROOT), env=environment, dimensions=(ROWS, COLUMNS))
    while True:
        try:
            stream.feed(child.read_nonblocking(1 << 16, timeout=LONGEST))
        except pexpect.TIMEOUT:
            child.sendintr()  # as a person would
        except pexpect.EOF:
            break
    child.close()
    above = ["".join(row[column].data for column in range(COLUMNS)) for row in screen.history.top]
    lines = [line.rstrip() for line in (*above, *screen.display)]
    while lines and not lines[-1]:
        lines.pop()
    return [*lines, *([f"(status {child.exitstatus})"] if child.exitstatus else [])]


def block(command: str, lines: list[str]) -> str:
    """Show a command with its lines."""
    if len(lines) > MOST:
        lines = [*lines[: MOST - 1], f"[... {len(lines) - MOST + 1} more lines]"]
    text = re.sub(r"/tmp/\S+", "/tmp/...", "\n".join(lines))
    return f"```console\n$ {command}\n{text}\n```\n"


def page(answers: dict[str, list[str]]) -> str:
    """Return the page of what each command answered."""
    parts = [INTRODUCTION]
    for title, command in SHOWN:
        parts.append(f"## {title}\n")
        parts += [block(one, answers[one]) for one in map(command.format, KERNELS.values())]
    for title, command in ALONE:
        parts.append(f"## {title}\n\n{block(command, answers[command])}")
    return "\n".join(parts)


def main() -> int:
    """Run the commands, and write the page."""
    wanted = sys.argv[1:] or list(KERNELS)
    kept = ROOT / "build" / "transcripts.json"  # nobody else can put a file there, as in /tmp
    answers: dict[str, list[str]] = json.loads(kept.read_text()) if sys.argv[1:] and kept.exists() else {}
    for kind in wanted:
        for _, command in SHOWN:
            one = command.format(KERNELS[kind])
            print(one, flush=True)
            answers[one] = shown(one)
    for _, command in ALONE:
        answers[command] = shown(command)
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps(answers))
    PAGE.write_text(page(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
