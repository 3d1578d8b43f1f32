"""How 3.2, 3.13, 4.4 and 4.19 show each open in further traces: the whole text, to the byte.

Each line of a trace becomes the call that made it, on a kernel that has the option of the trace's name: what is shown
is how lines are rendered.  What a full ring drops, a filter rejects, and a snapshot or an instance takes isn't played,
only the lines that were left are.  Where events had been lost before (05_lost), the header's counts aren't compared.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .recorded_on import recorded_on
from .test_early_records import opens, shown

EARLY = Path(__file__).parents[2] / "fixtures" / "early"
OLD = ("3.2", "3.13", "4.4", "4.19")
OPTIONS = ("block", "event-fork", "noannotate", "nomarkers", "noprint-parent", "sym-offset")
NAMES = (
    *(f"03_opt_{option}" for option in OPTIONS),
    *("05_lost.cpu0", "05_lost.cpu1", "05_lost_after_pipe", "05_nooverwrite", "06_pipe2_rest"),
    *("13_instance_top", "14_snapshot_trace", "18_disabled", "18_trace_filtered", "18_trace_while_on"),
)
TRACES = [(series, name) for series in OLD for name in NAMES if (EARLY / series / f"{name}.trace").exists()]
LOST = {"05_lost.cpu0", "05_lost.cpu1", "05_lost_after_pipe"}


def test_how_many_there_are() -> None:
    assert {series: sum(one == series for one, _ in TRACES) for series in OLD} == {
        "3.2": 9,
        "3.13": 15,
        "4.4": 15,
        "4.19": 16,
    }


@pytest.mark.parametrize(("series", "name"), TRACES)
def test_lines_of_opens(series: str, name: str) -> None:
    text = (EARLY / series / f"{name}.trace").read_bytes()
    kernel = recorded_on(series, cpus=2)
    for option in name.removeprefix("03_opt_").split(",") if name.startswith("03_opt_") else ():
        kernel.tracefs.write("trace_options", option.encode())
    opens(kernel, series, text)
    cpu = name.partition(".")[2]
    answer = kernel.tracefs.read(f"per_cpu/{cpu}/trace" if cpu else "trace")
    if name in LOST:
        assert shown(answer) == shown(text)
    else:
        assert answer == text
