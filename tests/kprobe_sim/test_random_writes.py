"""Bytes of any kind into every writable file: a refusal with an errno of the kernel, and all stands afterwards.

tools/fuzz/random_writes.py does the same a million times.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TOOL = Path(__file__).parents[2] / "tools" / "fuzz" / "random_writes.py"
WRITES = 4000


def load() -> Any:
    spec = importlib.util.spec_from_file_location("random_writes", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


writes = load()


@pytest.mark.slow
@pytest.mark.parametrize("profile", writes.PROFILES)
def test_a_campaign(profile: str) -> None:
    answers = writes.campaign(profile, WRITES, 1)
    assert answers["files read"] > 400
    assert answers["taken"] > 100
    assert answers["EINVAL"] > WRITES / 2


def test_there_are_files_to_write_to() -> None:
    paths = writes.Target.of("6.1").paths
    assert {"kprobe_events", "instances/i/events/g/e/trigger", "per_cpu/cpu0/buffer_size_kb"} <= set(paths)
    assert len(paths) > 150


DATA = st.one_of(st.binary(max_size=40), st.lists(st.sampled_from(writes._WORDS), max_size=5).map(b"".join))
FLAGS = st.sampled_from((os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_a_few_writes_to_a_fresh_kernel(data: st.DataObject) -> None:
    target = writes.Target.of("6.12")
    paths = [path for path in target.paths if not path.endswith(writes.SLOW)]
    for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=8)):
        writes.write(target, path, data.draw(DATA), data.draw(FLAGS))
    writes.clean(target.kernel)
    writes.trace(target.kernel)
