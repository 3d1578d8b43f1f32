"""Event filters: the user's filter, and the filter that selects threads, combined into one."""

from __future__ import annotations

from collections.abc import Iterable


def thread_filter(tids: Iterable[int]) -> str:
    """Return the filter that passes these threads, "" for none; common_pid is what user space calls a thread id."""
    return " || ".join(f"common_pid == {tid}" for tid in sorted(tids))


def both(*filters: str) -> str:
    """Return the filter that passes what all of `filters` pass; empty ones, and "0" (none), don't count."""
    real = [text.strip() for text in filters if text.strip() not in ("", "0")]
    if len(real) < 2:
        return "".join(real)
    return " && ".join(f"({text})" for text in real)
