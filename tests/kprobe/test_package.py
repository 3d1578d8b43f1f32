"""The package as its users import it."""

from __future__ import annotations

import subprocess
import sys

import kprobe


def test_names_are_sorted_and_there() -> None:
    assert kprobe.__all__ == sorted(kprobe.__all__)
    assert [name for name in kprobe.__all__ if getattr(kprobe, name, None) is None] == []
    assert set(kprobe.__all__) <= set(dir(kprobe))
    assert not hasattr(kprobe, "nosuch")


def test_every_error_is_a_kprobe_error_and_public() -> None:
    from kprobe import errors

    for name in vars(errors):
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert issubclass(kind, kprobe.KprobeError)
            assert name in kprobe.__all__
            assert name in str(errors.__doc__)


def test_importing_loads_nothing_else() -> None:
    code = "import sys, kprobe; print(*sorted(name for name in sys.modules if name.startswith('kprobe')))"
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "kprobe\n"
