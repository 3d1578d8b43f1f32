"""An entry of a corpus of traces: a directory with a text, its truth, and the information for its parsers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.scenarios.rendering import Rendering


class Origin(NamedTuple):
    """The kernel, scenario, options and clock that a trace was made with, and who made it."""

    kernel: str
    release: str
    scenario: str
    options: Sequence[str]
    clock: str
    source: str


def entry_name(scenario: str, options: Sequence[str], clock: str) -> str:
    """Return the name of an entry's directory; `clock` is empty for the default clock."""
    return ".".join([scenario, *(["+".join(options)] if options else []), *([clock] if clock else [])])


def about(rendering: Rendering, table: Mapping[str, Any], origin: Origin) -> dict[str, Any]:
    """Return the contents of about.json for a trace."""
    return {
        **origin._asdict(),
        "options": [*table.get("options", []), *origin.options],
        "clock": table.get("clock") or origin.clock,
        "truth": "activity",
        "defects": list(table.get("defects", [])),
        "link": table.get("link") or None,
        "lines": rendering.text.count(b"\n"),
        "sha256": hashlib.sha256(rendering.text).hexdigest(),
    }


def write_entry(directory: Path, rendering: Rendering, facts: Mapping[str, Any]) -> None:
    """Write an entry's files into a directory, and make it if necessary.  Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "trace.txt").write_bytes(rendering.text)
    truth = "".join(json.dumps(record) + "\n" for record in rendering.truth)
    (directory / "truth.jsonl").write_text(truth, "utf-8")
    formats = "".join(f"== {path}\n{text}" for path, text in rendering.formats.items())
    (directory / "formats").write_bytes(formats.encode("latin-1"))
    definitions = "".join(f"{line}\n" for line in rendering.definitions)
    (directory / "kprobe_events").write_bytes(definitions.encode("latin-1"))
    if rendering.dat:
        (directory / "trace.dat").write_bytes(rendering.dat)
        paged = "".join(json.dumps(record) + "\n" for record in rendering.dat_truth)
        (directory / "trace.dat.jsonl").write_text(paged, "utf-8")
    (directory / "about.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
