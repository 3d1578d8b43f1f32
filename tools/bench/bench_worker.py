"""bench.py starts it, one process for each checkout: it measures what standard input names, one line of JSON each.

`{"prepare": GROUP}` is answered by true, or by why this checkout can't; `{"round": GROUP}` by the round's figures;
`{"drop": GROUP}` forgets what was prepared.  It measures the packages on PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import bench_groups
from bench_figure import Round


def prepared(name: str, scratch: Path) -> Round | str:
    """Return what measures a group; or why it can't be, on a checkout that is of another time."""
    try:
        return bench_groups.named(name).prepare(scratch)
    except (AttributeError, ImportError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what is measured may print
    rounds: dict[str, Round] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for line in sys.stdin:
            ((verb, name),) = json.loads(line).items()
            answer: Any = True
            if verb == "prepare":
                place = Path(scratch, name)
                place.mkdir(exist_ok=True)
                found = prepared(name, place)
                if isinstance(found, str):
                    answer = found
                else:
                    rounds[name] = found
            elif verb == "round":
                answer = rounds[name]()
            else:
                rounds.pop(name, None)
            print(json.dumps(answer), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
