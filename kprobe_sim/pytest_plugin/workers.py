"""How pytest-xdist distributes tests that run on guests: by file, since each file has its own guest."""

from __future__ import annotations

from typing import Any

# each of these gives all tests of a file to one worker
_KEEP_FILES = ("loadfile", "loadscope", "loadgroup", "no")


def share_by_files(option: Any) -> None:
    """Let `-n` mean `--dist loadfile`, unless the user has said otherwise; call it before xdist reads its options."""
    if getattr(option, "numprocesses", None) and option.dist == "no" and not getattr(option, "distload", False):
        option.dist = "loadfile"


def advice(option: Any) -> str:
    """Return a warning about the mode that the user has chosen; "" if that mode is fine."""
    mode = getattr(option, "dist", "no")
    if mode in _KEEP_FILES:
        return ""
    return (
        f"NOTE: --dist {mode} gives the tests of a file to several workers, and each of them starts a guest for it; "
        "--dist loadfile starts one for each file"
    )
