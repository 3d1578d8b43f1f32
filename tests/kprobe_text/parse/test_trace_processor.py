"""`kprobe parse --perfetto`, read by Perfetto's trace processor: TRACE_PROCESSOR names its trace_processor_shell."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.requires("$TRACE_PROCESSOR")

CALLS = """\
            bash-42      [001] .....    11.000100: f_in: (f+0x0/0x10) n=5 s="a b"
            bash-42      [001] .....    11.000110: g_in: (g+0x0/0x10) n=18446744073709551615
              sh-43      [000] .....    11.000112: mid: (f+0x4/0x10) cpu=7 a={1,-2} c='\0'
            bash-42      [001] .....    11.000116: g_out: (f+0x5/0x10 <- g) n=(fault)
CPU:0 [LOST 7 EVENTS]
            bash-42      [002] .....    11.000140: f_out: (h+0x9/0x10 <- f) n=-3
"""
SLICES = """
    select s.ts - 11000000000 as at, s.dur as dur, coalesce(th.tid || ' ' || th.name, t.name) as track, s.name as name
    from slice s join track t on t.id = s.track_id left join thread_track tt on tt.id = t.id
    left join thread th using (utid) order by s.ts;
"""
ARGUMENTS = """
    select s.name || substr(key, 6) as key,
    case value_type when 'string' then string_value when 'uint' then printf('%u', int_value) else int_value end as value
    from slice s join args using (arg_set_id) where key like 'debug.%' order by s.ts, key;
"""
ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value != 0;"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "calls.pftrace"
    argv = [sys.executable, "-m", "kprobe", "parse", "--perfetto", str(path)]
    subprocess.run(argv, input=CALLS.encode(), capture_output=True, check=True)
    return path


def asked(trace: Path, query: str) -> list[tuple[str, ...]]:
    """Return the rows of a query; a program that isn't there is an error."""
    file = trace.with_suffix(".sql")
    file.write_text(query)
    done = subprocess.run(
        [os.environ["TRACE_PROCESSOR"], "-q", str(file), str(trace)], capture_output=True, text=True, check=True
    )
    return [tuple(row) for row in csv.reader(io.StringIO(done.stdout))][1:]


def test_slices_and_instants_on_their_tracks(trace: Path) -> None:
    assert asked(trace, SLICES) == [
        ("100000", "40000", "42 bash", "f"),
        ("110000", "6000", "42 bash", "g"),
        ("112000", "0", "43 sh", "mid"),
        ("116000", "0", "CPU 0", "lost events"),
    ]


def test_annotations_of_both_ends(trace: Path) -> None:
    assert asked(trace, ARGUMENTS) == [
        ("f.cpu", "1"), ("f.event", "f_in"), ("f.n", "5"),
        ("f.return.caller", "h+0x9/0x10"), ("f.return.cpu", "2"), ("f.return.event", "f_out"), ("f.return.n", "-3"),
        ("f.s", "a b"),
        ("g.cpu", "1"), ("g.event", "g_in"), ("g.n", "18446744073709551615"),
        ("g.return.caller", "f+0x5/0x10"), ("g.return.cpu", "1"), ("g.return.event", "g_out"),
        ("g.return.n", "(fault)"),
        ("mid.a[0]", "1"), ("mid.a[1]", "-2"), ("mid.c", "␀"), ("mid.cpu", "7"), ("mid.event", "mid"),
        ("mid.line.cpu", "0"),
        ("lost events.count", "7"),
    ]  # fmt: skip


def test_nothing_was_wrong_or_lost(trace: Path) -> None:
    assert asked(trace, ERRORS) == []
