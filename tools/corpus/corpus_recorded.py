"""`make corpus` imports it: the recorded traces in fixtures/text as entries of the corpus, with their truth.

The truth is what the traced program wrote about itself or always does.  The rest is read by corpus_apart.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from corpus_account import held
from corpus_apart import Reader, Recording
from corpus_layouts import layout

from kprobe_corpus.traces.entry import Entry
from kprobe_corpus.traces.writing import made

TRACES = Path(__file__).resolve().parents[2] / "fixtures" / "text"

RELEASES = {
    "3.2": "3.2.4", "3.13": "3.13.10", "3.13fp": "3.13.10", "4.4": "4.4.11+", "4.19": "4.19.108", "5.10": "5.10.262",
    "6.1": "6.1.190", "6.12": "6.12.117", "7.2": "7.2.13",
}  # fmt: skip

# ``p:ent do_sys_open… dfd=%di:s32 s=+0(%si):string flags=%dx:u32`` and ``r:ret do_sys_open… ret=$retval:s32
# raw=$retval``, which all recordings but 01_types and 16_uprobe2 have: how each series prints flags and raw
OPENS: dict[str, list[str]] = json.loads((TRACES / "opens.json").read_text())
# those that have no arguments, of 09_irq, 11_offsets and 12_missed
PLAIN = re.compile(rb"[ \t](i_\w+|r_run|r_upd|r_schedule_0|f_schedule|fr_\w+|off\d*|miss): \(")
HEXADECIMAL = ("3.2", "3.13", "3.13fp")  # unsigned numbers have no 0x there

# what of a recording is nasty, by what its name begins with
DEFECTS = {
    "01": ["every type", "strings with quotes", "arrays", "faults"],
    "02": ["task names", "newline in a string", "quotes", "non-UTF-8", "broken-off record", "faults"],
    "03_opt_bin": ["not text"],
    "03_opt_hex": ["numbers only"],
    "03_opt_raw": ["numbers only"],
    "03_opt_fields": ["values twice"],
    "03_opt_nocontext": ["no context"],
    "03_opt_stacktrace": ["stacks"],
    "03_opt_userstacktrace": ["user stacks"],
    "03_opt_latency": ["latency-format"],
    "04_clock": ["clock"],
    "05": ["lost events"],
    "07": ["markers", "forged events", "newline in a marker"],
    "08": ["static events beside probes"],
    "09": ["interrupt context"],
    "10_fgraph": ["function_graph"],
    "10_function": ["tracer function"],
    "11": ["probes within functions"],
    "16": ["user probes"],
    "17": ["newline in a task name"],
}


def recorded() -> list[Entry]:
    """Return the entries of all recordings, by kernel and name; raise `NotAsKnown` and `NotSo`."""
    paths = sorted(path for path in TRACES.glob("*/*.trace*") if path.suffix in (".trace", ".trace_pipe"))
    return [entry(path) for path in paths]


def entry(path: Path) -> Entry:
    """Make an entry of one recording."""
    series, base = path.parent.name, path.name.partition(".")[0]
    pipe = path.suffix == ".trace_pipe"
    text = path.read_bytes()
    options, clock = options_of(base), clock_of(base)
    known = layout(base, series, options)
    files = formats(path, series, text)
    by_name = {name.split("/")[-2]: body for name, body in files.items()}
    read = Reader(Recording(text, known, by_name, options)).records()
    account = path.with_name(f"{base}.activity.jsonl")
    acts = [json.loads(line) for line in account.read_text().splitlines()] if account.exists() else []
    truth, counts = held(read, acts, known.kind, base)
    about: dict[str, Any] = {
        "kernel": series,
        "release": RELEASES[series],
        "scenario": base,
        "options": options,
        "clock": clock,
        "source": "recorded",
        "truth": "activity" if counts["activity"] else "read apart",
        "records": counts,
        "defects": next((said for start, said in DEFECTS.items() if base.startswith(start)), []),
        "link": None,
    }
    recorded_files = path.with_name(f"{base}.formats").exists()
    return made(
        f"{series}/{base}" + "_pipe" * pipe, text, truth, about,
        formats=files if recorded_files else {}, definitions=definitions(path, series),
    )  # fmt: skip


def options_of(base: str) -> list[str]:
    """Return the trace options that a recording was made with, by its name."""
    if base.startswith("03_opt_"):
        return base.removeprefix("03_opt_").split(",")
    options = ["latency-format"] if "_latency" in base or "latency-format" in base else []
    options += ["verbose"] if "verbose" in base else []
    options += ["funcgraph-abstime", "funcgraph-proc"] if "abstime" in base else []
    options += ["stacktrace"] if base.startswith("09_irq_stack") else []
    return options + (["sym-offset"] if "symoffset" in base else [])


def clock_of(base: str) -> str:
    """Return the trace clock of a recording, by its name."""
    return base.removeprefix("04_clock_").removesuffix("_latency") if base.startswith("04_") else "local"


def formats(path: Path, series: str, text: bytes) -> dict[str, str]:
    """Return format files by path: those that were recorded, else as much of them as is known of the definitions."""
    recorded = path.with_name(f"{path.name.partition('.')[0]}.formats")
    if recorded.exists():
        shown = recorded.read_bytes().decode("latin-1")
        if not shown.startswith("== "):
            parts = re.split(r"^(?=name: )", shown, flags=re.M)[1:]
            return {f"events/uprobes/{part[6:].partition(chr(10))[0]}/format": part for part in parts}
        return {part.partition("\n")[0]: part.partition("\n")[2] for part in ("\n" + shown).split("\n== ")[1:]}
    flags, raw = OPENS[series]
    known = {"ent": rf" dfd=%d s=\"%s\" flags={flags}", "ret": f" ret=%d raw={raw}"}
    known |= dict.fromkeys((found.decode() for found in set(PLAIN.findall(text))), "")
    fmt = 'name: {}\nID: 1\nformat:\n\nprint fmt: "(%lx){}", REC->__probe_ip\n'
    return {f"events/kprobes/{name}/format": fmt.format(name, shown) for name, shown in known.items()}


def definitions(path: Path, series: str) -> list[str]:
    """Return the definitions of a recording's probes, as they were written."""
    recorded = path.with_name(f"{path.name.partition('.')[0]}.kprobe_events")
    if recorded.exists():
        return recorded.read_bytes().decode("utf-8", "surrogateescape").splitlines()
    if path.name.startswith("16_"):
        return []
    function = "do_sys_open" if series in (*HEXADECIMAL, "4.4", "4.19") else "do_sys_openat2"
    flags = "u32" if series in (*HEXADECIMAL, "4.4") else "x32"
    return [
        f"p:ent {function} dfd=%di:s32 s=+0(%si):string flags=%dx:{flags}",
        f"r:ret {function} ret=$retval:s32 raw=$retval",
    ]
