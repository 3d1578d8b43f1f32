"""`make corpus` imports it: recorded traces compared with the traced program's own account of its calls."""

from __future__ import annotations

import re
from typing import Any

Truth = dict[str, Any]

# Tasks of recordings without an account that always do the same, by the recording's beginning: what they open, and what
# comes of it.
FIXED: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "03_opt_": ("my app|a-b-1", "/tmp/o[01]", (3, -2)),
    "04_clock_": ("clk", "/tmp/o[01]", (3, -2)),
    "05_lost": ("par [01]", "/tmp/p[01]_[0-9]+", (-2,)),
    "07_marker": ("mark er", "/tmp/f0", (3,)),
    "10_": ("fn app|graph app|fg app", "/tmp/o[01]", (3, -2)),
    "17_": ("new\nline", "/tmp/o[01]", (3, -2)),
}
# what the recording program wrote to trace_marker, but for two long texts, of which the kernel keeps what fits
MARKERS = (
    "hello", "no newline", "two\nlines", 'tab\there "q" \\ %s', "\u00e4\udcff\x01x", "", "\n",
    "   ent: (do_sys_open+0x0/0x10) fake", " sh-1     [000] ....     1.000000: ent: (f+0x0/0x1) a=1",
)  # fmt: skip
LONG_MARKERS = ("abcdefghi ", "0123456789")


class NotSo(Exception):
    """What was read of a record isn't what the program's account says."""


def text_of(account: str | None) -> str | None:
    """Return a string of the account, which has bytes as latin-1, as the truth has it."""
    return None if account is None else account.encode("latin-1").decode("utf-8", "surrogateescape")


def held(read: list[Truth], account: list[Truth], kind: str, base: str) -> tuple[list[Truth], dict[str, int]]:
    """Put what the account says in place of what was read; return the truth, and how many records are of which.

    Raise `NotSo` where both differ.  The kernel's own rules on what it keeps of a value are `seen`'s.
    """
    calls: dict[int, list[Truth]] = {}
    for act in account or []:
        calls.setdefault(act["pid"], []).append(act)
    at = dict.fromkeys(calls, 0)
    truth, count = [], 0
    for record in read:
        mine = calls.get(record.get("pid", -1))
        if mine is not None and record["type"] == "coded":
            act = mine[0]
            if record["cpu"] != act["cpu"]:
                raise NotSo(f"{record}: the account has CPU {act['cpu']}")
            count += 1
        elif mine is not None and record["type"] == "event" and record["name"] in ("ent", "ret"):
            pid = record["pid"]
            if record["name"] == "ent":
                at[pid] += 1
            if not 0 < at[pid] <= len(mine):
                raise NotSo(f"{record}: call {at[pid]} of {len(mine)}")
            record = so(record, mine[at[pid] - 1], kind)
            count += 1
        elif not calls and (known := fixed(record, base)) is not None:
            record = known
            count += 1
        truth.append(record)
    return truth, {"activity": count, "read apart": len(truth) - count}


def so(record: Truth, act: Truth, kind: str) -> Truth:
    """Return a record as the account has it."""
    task = text_of(act["comm"])
    assert task is not None
    kept = task.encode("utf-8", "surrogateescape")[: 8 if kind == "latency" else 15]
    shown = kept.decode("utf-8", "surrogateescape")
    if "task" in record:
        if record["task"] != shown.lstrip(" ") and record["task"] != "<...>":
            raise NotSo(f"{record}: the account has task {shown!r}")
        if shown != record["task"] != "<...>":
            record = {**record, "task": shown, "ambiguous": ["task"]}  # blanks fill the column, too
    if "cpu" in record and record["cpu"] != act["cpu"]:
        raise NotSo(f"{record}: the account has CPU {act['cpu']}")
    said = dict(record["fields"])
    if record["name"] == "ret":
        said["ret"] = -act["errno"] if act["ret"] < 0 else act["ret"]
    else:
        directory = re.fullmatch(r"openat\((-?\d+)\)", act["call"])
        said["dfd"] = int(directory[1]) if directory else -100
        said["s"] = seen(text_of(act["path"]), said["s"])
    if said != record["fields"]:
        raise NotSo(f"{record}: the account has {said}")
    return {**record, "fields": said}


def seen(path: str | None, kept: str | None) -> str | None:
    """Return what a kernel keeps of a path.

    Of one that it can't read, as its page isn't there or not yet, none, and up to 3.13 an empty one; of an empty one
    none on 5.10 to 6.12.  Measured: fixtures/text.
    """
    return kept if path is None or kept in (None, "") else path


def fixed(record: Truth, base: str) -> Truth | None:
    """Return a record of what is always the same; None if it is none of these, raise `NotSo` if it differs."""
    if record["type"] == "marker" and base == "07_marker":
        text = record["text"]
        if text not in MARKERS and not (text and any((long * 500).startswith(text) for long in LONG_MARKERS)):
            raise NotSo(f"{record}: the program writes {MARKERS}")
        return record
    if record["type"] != "event" or record["name"] not in ("ent", "ret"):
        return None
    for start, (tasks, paths, results) in FIXED.items():
        if base.startswith(start) and re.fullmatch(tasks, record.get("task", "")):
            fields = record["fields"]
            if record["name"] == "ent" and (fields["dfd"] != -100 or not re.fullmatch(paths, fields["s"])):
                raise NotSo(f"{record}: the program opens {paths}")
            if record["name"] == "ret" and fields["ret"] not in results:
                raise NotSo(f"{record}: the program's calls return {results}")
            return record
    return None
