"""`kprobe --json` and what else it prints of records: by the documented schema, and at once."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kprobe.cli import main
from kprobe_sim import SimulatedKernel

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs" / "reference" / "json.schema.json").read_text("utf-8"))
OPENS = "p:opens do_sys_openat2 file=+0(%si):string flags=%dx:x64"


def kprobe(*words: str, status: int = 0) -> list[dict[str, Any]]:
    """Run the command on a simulated kernel and return its objects."""
    done = subprocess.run(
        [sys.executable, "-m", "kprobe", "--tracefs", "sim:6.12", *words], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "types", "status"),
    [
        (["--json", "-s", "-d", "1", OPENS], {"status", "event", "stack"}, 0),
        (["--json", "--latency", "-d", "1", "do_sys_openat2"], {"latency"}, 0),
        (["--json", "--hist", "flags", "-d", "1", OPENS], {"histogram"}, 0),
        (["--json", "--count", "file", "-d", "1", OPENS], {"count"}, 0),
        (["--json", "--stacks", "-d", "1", OPENS], {"folded"}, 0),
        (["--json", "p:x vfs_read $bad"], {"error"}, 1),
        (["--json", "-p", "999999999", OPENS], {"error"}, 2),
        (["--json", "--tracefs", "sim:9.9", OPENS], {"error"}, 3),
        (["--json", "--hist", "flags", "--max-events", "3", OPENS], {"histogram"}, 0),
        (["--json", "--count", "pid", "--max-events", "3", OPENS], {"count"}, 0),
    ],
)
def test_each_line_is_as_the_schema_says(words: list[str], types: set[str], status: int) -> None:
    objects = kprobe(*words, status=status)
    for one in objects:
        jsonschema.validate(one, SCHEMA)
    assert {one["type"] for one in objects} == types


def test_an_error_comes_after_the_lines_before_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tracefs = SimulatedKernel("6.12").tracefs
    file = tmp_path / "lines"
    words = ["--json", "-o", str(file), "--timeout", "0"]
    assert main([*words, "p:x vfs_read $bad"], tracefs=tracefs) == 1
    (line,) = capfd.readouterr().out.splitlines()
    assert (json.loads(line)["type"], file.exists()) == ("error", False)
    assert main([*words, OPENS], tracefs=Breaking(tracefs)) == 1
    assert capfd.readouterr().out == ""
    began, error = map(json.loads, file.read_text().splitlines())
    assert (began["state"], error["type"], error["errno"]) == ("began", "error", errno.EIO)


class Breaking:
    """A tracefs whose streams can be opened, and not read."""

    def __init__(self, tracefs: Any) -> None:
        self._tracefs = tracefs

    def stream(self, path: str) -> Any:
        def read(_timeout: float | None = None) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

        stream = self._tracefs.stream(path)
        stream.read = read
        return stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)


def test_the_schema_refuses_what_is_otherwise() -> None:
    for wrong in ({"type": "event"}, {"type": "status", "state": "began"}, {"type": "lost", "cpu": "0", "count": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_a_line_is_out_as_soon_as_its_event_is() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kprobe", "--tracefs", "sim:6.12", "--json", OPENS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdout is not None
    data = b""
    while data.count(b"\n") < 3 and select.select([process.stdout], [], [], 30)[0]:
        data += process.stdout.read(65536)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    lines = [json.loads(line) for line in (data + rest).splitlines()]
    assert [line["type"] for line in lines[:2]] == ["status", "event"]
    assert lines[-1]["state"] == "ended"
    assert lines[-1]["events"] == sum(line["type"] == "event" for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "--csv", OPENS], "--json and --csv exclude each other"),
        (["--latency", "--stacks", OPENS], "--latency and --stacks exclude each other"),
        (["--hist", "a", "--csv", OPENS], "--hist and --csv exclude each other"),
        (["--json", "-H", OPENS], "--json has no text of the kernel: leave -H out"),
        (["--latency", "p:vfs_read+5"], "a latency is a function's: give its name, alone or after p:, r: or f:"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kprobe", "--tracefs", "sim:6.12", *words], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert said in done.stderr.decode()


@pytest.mark.slow
def test_csv_has_a_title_and_a_row_for_each_event() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kprobe", "--tracefs", "sim:6.12", "--csv", "-d", "1", OPENS],
        capture_output=True,
        check=True,
        timeout=60,
    )
    rows = done.stdout.decode().splitlines()
    assert rows[0].startswith("file,type,group,name,task,pid,")
    assert all(row.split(",")[1] == "event" for row in rows[1:])
    assert len(rows) > 1
