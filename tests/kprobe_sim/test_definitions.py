"""Definitions written to real kernels, written to the simulator: the same errno, listing, format, error log."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures" / "definitions"
SERIES = ("5.10", "6.1", "6.12", "7.2", "7.3")
HEAD = (
    "name: {name}\nID: {number}\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
)
HASHED = re.compile(r"0x00000000[0-9a-f]{8}")
# what isn't right yet, of 6.1 nothing: it must still differ
DIFFERENCES = json.loads((FIXTURES / "differences.json").read_text(encoding="ascii"))


def rows(name: str) -> list[dict[str, Any]]:
    path = FIXTURES / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def normal(text: str) -> str:
    """Hide hashed pointers: they differ from boot to boot."""
    return HASHED.sub("0xHASHED", text)


def runs(series: str) -> list[list[dict[str, Any]]]:
    """Group rows so that each group starts with everything removed."""
    groups: list[list[dict[str, Any]]] = []
    for row in rows(series):
        if row["state"].startswith("clean"):
            groups.append([])
        groups[-1].append(row)
    return groups


def play(registry: Any, row: dict[str, Any]) -> int:
    """Do what the row did; other files than the two of the registry are stood in for by the host's busy set."""
    data = row["input"].encode("latin-1")
    target = row["target"]
    if target == "events/kprobes/ev1/enable" or target == "set_event":
        on = data in (b"1", b"kprobes:ev1", b"kprobes:*", b"ev1")
        if row["errno"] is None:
            registry.host.busy = {("kprobes", "ev1")} if on else set()
        return int(row["ret"])
    if target not in ("kprobe_events", "dynamic_events"):
        return int(row["ret"])
    if row["mode"] == "trunc":
        registry.truncate()
    return int(registry.write(data, dynamic_events=target == "dynamic_events"))


def check(registry: Any, row: dict[str, Any]) -> None:
    registry.log.clear()
    if row["errno"] is None:
        assert play(registry, row) == row["ret"]
    elif row["target"] in ("kprobe_events", "dynamic_events"):
        with pytest.raises(OSError) as refused:
            play(registry, row)
        assert refused.value.errno == getattr(errno, row["errno"])
    assert normal(registry.listing(registry.kprobes).decode("latin-1")) == normal(row["readback"])
    assert normal(registry.listing().decode("latin-1")) == normal(row.get("dynamic_events", row["readback"]))
    for name, recorded in row.get("format", {}).items():
        if recorded is None:
            continue
        event = registry.event(*name.split("/"))
        head = HEAD.format(name=name.partition("/")[2], number=event.id)
        assert event.format().decode("latin-1") == head + recorded[1]
    expected = "".join(
        f"[   27.094289] {head}\n  Command: {command}\n{' ' * (11 + column)}^\n"
        for head, command, column, *_ in row.get("errlog", [])
    )
    assert registry.log.text().decode("latin-1") == expected


def is_ours(row: dict[str, Any]) -> bool:
    """Uprobes, event probes and synthetic events have their own readers, and so do event files."""
    if row["target"] == "dynamic_events":
        return row["input"][:2] not in ("s:", "e:") and "/bin/" not in row["input"] and row["input"] != "-:syn\n"
    return not row["target"].startswith("uprobe")


def ours(series: str) -> list[list[dict[str, Any]]]:
    return [kept for run in runs(series) if (kept := list(itertools.takewhile(is_ours, run)))]


def test_every_recorded_row_is_accounted_for() -> None:
    assert len(rows("6.1")) == 664
    played = sum(len(run) for run in ours("6.1"))
    left = [row["input"] for run in runs("6.1") for row in itertools.dropwhile(is_ours, run)]
    assert played + len(left) == 664
    assert len(left) == 26 + 9  # uprobe_events, and uprobes, event probes and synthetic events in dynamic_events


def named(runs: list[list[dict[str, Any]]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    return ((f"{run[0]['n']}-{run[0]['input'][:40]!r}", run) for run in runs)


@pytest.mark.parametrize("series", SERIES)
def test_recorded(every: Any, registry_of: Any, series: str) -> None:
    different = DIFFERENCES["recorded"].get(series, [])

    def check_run(run: list[dict[str, Any]]) -> None:
        registry = registry_of(series, 2)
        for row in run:
            check(registry, row)

    runs = ours(series)
    known = [name for name, run in named(runs) if any(row["n"] in different for row in run)]
    every(named(runs), check_run, of=568, known=known)


def test_ids_rise_as_on_6_1_refused_registrations_included(registry: Any) -> None:
    """Every event takes an id when it is made known, even if the kernel can't place its probe afterwards."""
    for run in ours("6.1"):
        registry.host.busy.clear()
        registry.truncate()
        for row in run:
            if row["n"] > 613:  # from here on events of other kinds take ids too
                return
            with contextlib.suppress(OSError):
                play(registry, row)
            for name, recorded in row.get("format", {}).items():
                if recorded is not None:
                    assert registry.event(*name.split("/")).id == recorded[0]


def observed(series: str) -> list[tuple[str, dict[str, Any]]]:
    # The image of the observed guests was relocated: this address was none of theirs.
    relocated = "p 0xffffffff81000000"
    found = [row for row in rows("observed") if series in row["versions"] and row["input"] != relocated]
    return [(f"{index}-{row['input'][:40]!r}", row) for index, row in enumerate(found)]


def check_observed(registry: Any, row: dict[str, Any]) -> None:
    data = row["input"].encode("latin-1")
    if row["result"].isdigit():
        assert registry.write(data) == int(row["result"])
    else:
        with pytest.raises(OSError) as refused:
            registry.write(data)
        assert refused.value.errno == getattr(errno, row["result"])
    assert [normal(line) for line in registry.lines()] == [normal(line) for line in row["listing"]]
    if row["errors"] is None:  # the command was cut, and its newline with it: what stood there wasn't written down
        return
    log = registry.log.text().decode("latin-1").splitlines()
    heads = [line.partition("] ")[2] for line in log[::3]]
    carets = [len(line) - 12 for line in log[2::3]]
    assert list(map(list, zip(heads, carets, strict=True))) == row["errors"]


@pytest.mark.parametrize("series", SERIES)
def test_observed(every: Any, registry_of: Any, series: str) -> None:
    different = DIFFERENCES["observed"].get(series, [])
    known = [name for name, row in observed(series) if row["input"] in different]
    every(observed(series), lambda row: check_observed(registry_of(series, 1), row), of=479, known=known)


def check_cast(registry: Any, row: dict[str, Any]) -> None:
    check_observed(registry, row)
    log = registry.log.text().decode("latin-1").splitlines()
    assert [line.removeprefix("  Command: ") for line in log[1::3]] == row["commands"]
    if row["listing"]:
        name = row["listing"][0].split()[0].partition(":")[2]
        _, _, fields = (
            registry.event(*name.split("/")).format().partition(b"int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n")
        )
        assert fields.decode("latin-1") == row["format"]


def test_casts_7_3(every: Any, registry_of: Any) -> None:
    """What 7.3 brought, and near misses of it: $current, typecasts, per-CPU variables, longer expressions."""
    cases = [(f"{index}-{row['input'][:60]!r}", row) for index, row in enumerate(rows("casts"))]
    every(cases, lambda row: check_cast(registry_of("7.3", 1), row), of=262)
