"""docs/guides/bulk.md: the dataset of two machines, queried by engines that know nothing of us."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import zstandard

from kprobe_text.text import Event, parse

pytestmark = pytest.mark.engines

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"```(sh|py)\n(.*?)```", (ROOT / "docs" / "guides" / "bulk.md").read_text(), re.DOTALL)
DEFINITION = "p:opens do_sys_openat2 dfd=%di:s32 filename=+0(%si):string flags=%dx:x32"
# a recorded trace, with an event of the page's name
TEXT = (ROOT / "fixtures/text/6.1/02_comms.trace").read_bytes().replace(b" ent: ", b" opens: ")
TEXT = TEXT.replace(b" s=", b" filename=")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory in which the commands of the page were run."""
    home = tmp_path_factory.mktemp("machines")
    (home / "kprobe_events").write_text(DEFINITION.replace("x32", "u32") + "\n")
    (home / "web1.txt.zst").write_bytes(zstandard.compress(TEXT))
    half = TEXT[: TEXT.index(b"\n", len(TEXT) // 2) + 1]
    (home / "web2.txt.gz").write_bytes(gzip.compress(half))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    (commands,) = [text for language, text in BLOCKS if language == "sh"]
    subprocess.run(["sh", "-e", "-c", commands], cwd=home, env=environment, check=True)
    return home


def opens() -> list[Event]:
    records = parse(TEXT, definitions=[DEFINITION.replace("x32", "u32")])
    return [record for record in records if isinstance(record, Event) and record.name == "opens"]


def run(home: Path, engine: str) -> str:
    (program,) = [text for language, text in BLOCKS if language == "py" and engine in text]
    done = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_duckdb(home: Path) -> None:
    out = run(home, "duckdb")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "web" in line]
    counts = Counter(event.task for event in opens())
    shown = {row[1]: int(row[2]) for row in rows if row[0] == "web1" and row[1] in counts}
    assert shown == {task: counts[task] for task in shown}
    assert len(shown) >= 3
    assert {row[0] for row in rows} == {"web1", "web2"}


def test_dask(home: Path) -> None:
    out = run(home, "dask")
    files = {event.fields["filename"] for event in opens() if event.task == "init"}
    (line,) = [line for line in out.splitlines() if line.startswith("init ")]
    assert int(line.split()[1]) == len(files)
