"""Writes docs/ways.md: the contract table of tests/conformance/contract.py, and what each way answers otherwise."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "ways.md"
WAYS = ("in-process", "patched", "pyfakefs", "mount")
HEAD = """\
# What each way of seeing the simulator answers

The page is made by `tools/ways.py` from `tests/conformance/contract.py`, and a test holds it to that. Each row is a few
system calls; the same body runs

- *in-process*: on `SimulatedKernel.tracefs`
- *patched*: on `os` within `kprobe_sim.expose.patched()`
- *pyfakefs*: the same within pyfakefs' `fs`
- *mount*: in a Python child of `kprobe-sim run`, on the kernels 5.10, 6.1, 6.12, 7.2 and 7.3
- *guest*: on these real kernels in QEMU (`make vm-test`)

`=` is what stands under *answer*, which is that of a real 6.1 kernel.

"""
TAIL = """
## What a mount can't do

A FUSE file system lies behind the kernel's own file code, which shows:

| | tracefs | mount |
|---|---|---|
| type in `/proc/mounts` | `tracefs` | `fuse.tracefs`; inside `kprobe-sim run` that file says `tracefs` |
| `stat -f` | `tracefs` | `fuseblk`, with a block size of 4096 and no blocks, as tracefs has |
| position of `trace` opened for writing only | stays 0 | moves |
| `splice` of `trace_pipe` | whole lines | EINVAL; a program that then reads is none the wiser |
| `splice` of `trace` | what a read gives | up to the end, by the page |
| `splice` of less than a page of `trace_pipe_raw` | EINVAL | a part of the page |
| `mmap`, private | ENODEV | is taken, and reads what `splice` gives |
| a write of more than 1 MiB | one write | several |

## The machine around it

Inside `kprobe-sim run` these are the simulated machine's as well, where this machine has them: uname(2),
`/proc/version`, `/proc/kallsyms`, `/sys/kernel/debug/kprobes/`, the numbers of CPUs, `/proc/sys/kernel/osrelease`,
`ftrace_enabled`, `kptr_restrict`, `traceoff_on_warning`, `tracepoint_printk`, `ftrace_dump_on_oops`,
`stack_tracer_enabled`, and `/proc/sys/debug/kprobes-optimization`; what is written to those is kept and without effect.
`/sys/kernel/btf` is empty. With `--only-tracefs` all but debugfs stay this machine's. uname is answered through
seccomp_unotify(2), which a process tree can have once: a `kprobe-sim run` inside another keeps the outer one's name.

`kprobe-sim mount` shows the tracefs alone. Mounted by a user through fusermount3 the files are that user's.
"""


def load(path: Path) -> ModuleType:
    """Import a module by its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(value: object) -> str:
    """Return an answer as a cell."""
    if isinstance(value, bytes):
        text = value.decode().replace("\n", "\\n")
        text = f'"{text}"'
    elif isinstance(value, list):
        text = ", ".join(str(part).replace("\n", "\\n") for part in value)
    else:
        return str(value)
    return "`" + text.replace("|", "\\|") + "`"


def page() -> str:
    """Return the text of the page."""
    contract = load(ROOT / "tests" / "conformance" / "contract.py")
    lines = ["| operation | answer | " + " | ".join(WAYS) + " | guest |", "|---" * (len(WAYS) + 3) + "|"]
    notes: list[str] = []
    for name, (_, answer) in contract.CASES.items():
        cells = [name, shown(answer)]
        for way in WAYS:
            other = contract.DIFFERENT[way].get(name)
            if way == "in-process" and name in contract.NOT_IN_PROCESS:
                cells.append("-")
            elif other is None:
                cells.append("=")
            else:
                notes.append(f"{way}, {name}: {other[1]}")
                cells.append(f"{shown(other[0])} ({len(notes)})")
        lines.append("| " + " | ".join([*cells, "="]) + " |")
    lines.append("\n`-`: `SimTracefs` has no such method.\n")
    lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    lines += ["", "## Kernels that answer otherwise", "", "On the mount, in-process and on the guests alike:", ""]
    lines += ["| operation | a README with | answer |", "|---|---|---|"]
    for name, answers in contract.BY_README.items():
        for text, answer in answers.items():
            lines.append(f"| {name} | {f'`{text.strip()}`' if text else 'none of these'} | {shown(answer)} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
