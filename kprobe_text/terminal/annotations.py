"""Workflow commands of GitHub, which show a message beside a line of a pull request.

Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Mapping


def annotation(level: str, message: str, location: Mapping[str, object]) -> str:
    """Return the line of one: "error", "warning" or "notice"; `location` may have file, line, col and title."""
    properties = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in location.items())
    return f"::{level}{' ' * bool(properties)}{properties}::{_escaped(message)}\n"


def _escaped(value: str, more: str = "") -> str:
    for char in "%\r\n" + more:
        value = value.replace(char, f"%{ord(char):02X}")
    return value
