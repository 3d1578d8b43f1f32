"""Hooks that run around those of others, also with the pytest of a distribution: Debian 12's has pluggy 1.0."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import pytest

Wrapper: TypeAlias = Callable[..., Generator[None, Any, Any]]


def wrapping(hook: Wrapper) -> Wrapper:
    """Mark a hook that yields once, gets the result and returns it; before pluggy 1.2 in the older form."""
    try:
        return pytest.hookimpl(wrapper=True)(hook)
    except TypeError:
        return pytest.hookimpl(hookwrapper=True)(_older(hook))


def _older(hook: Wrapper) -> Wrapper:
    """Return the hook in the older form: it gets an outcome, with a result or an exception, and must not raise."""

    def older(*arguments: Any) -> Generator[None, Any, None]:
        running = hook(*arguments)
        next(running)
        outcome = yield
        try:
            if outcome.excinfo is None:
                running.send(outcome.get_result())
            else:
                running.throw(outcome.excinfo[1])
        except StopIteration as end:
            outcome.force_result(end.value)
        except BaseException as error:
            if outcome.excinfo is None or error is not outcome.excinfo[1]:
                raise

    older.__signature__ = inspect.signature(hook)  # type: ignore[attr-defined]  # pluggy passes arguments by its names
    older.__name__ = hook.__name__
    return older
