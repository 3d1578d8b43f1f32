"""Values made once per process for each build, even if several threads ask for one at the same moment."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from threading import Lock
from typing import TypeVar

Asked = TypeVar("Asked", bound=Hashable)
Made = TypeVar("Made")


def once(make: Callable[[Asked], Made]) -> Callable[[Asked], Made]:
    """Let a function make one thing for each argument; a cache alone lets threads make several."""
    made = lru_cache(maxsize=64)(make)
    lock = Lock()

    @wraps(make)
    def get(key: Asked) -> Made:
        with lock:
            return made(key)

    return get
