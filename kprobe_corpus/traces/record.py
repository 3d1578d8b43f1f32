"""A record as JSON, of a text's truth or of a parser's answer: the form of its keys."""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CLOCKS = ("time", "count", "elapsed", "elapsed count")


def parsed(text: bytes | str) -> Any:
    """Return the value of a JSON text.  Raise ValueError for any error in it."""
    try:
        return json.loads(text)
    except RecursionError:
        reason = "it is nested too deeply"
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        reason = str(error)
    except ValueError:  # digits for int(), whose limit keeps its time short
        reason = f"it has a number of more than {sys.get_int_max_str_digits()} digits"
    raise ValueError(reason)


def is_number(value: object) -> bool:
    """Whether it is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_text(value: object) -> bool:
    """Whether it is a string."""
    return isinstance(value, str)


def are_texts(value: object) -> bool:
    """Whether it is a list of strings."""
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _is_value(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_value(part) for part in value)
    return value is None or isinstance(value, str) or is_number(value)


def _are_fields(value: object) -> bool:
    return isinstance(value, dict) and all(_is_value(part) for part in value.values())


# the check of each defined key, and its description; as in records.schema.json
_KEYS: dict[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("pid", "cpu", "timestamp"), (is_number, "a whole number")),
    **dict.fromkeys(("count", "tgid"), (lambda value: value is None or is_number(value), "a whole number or null")),
    **dict.fromkeys(("name", "task", "flags", "address", "caller", "text"), (is_text, "a string")),
    "clock": (lambda value: value in CLOCKS, f"one of {', '.join(CLOCKS)}"),
    "fields": (_are_fields, "an object whose values are numbers, strings, null or lists of these"),
    "frames": (are_texts, "a list of strings"),
    **dict.fromkeys(("guessed", "ambiguous"), (are_texts, "a list of names")),
    **dict.fromkeys(("complete", "forgeable", "user"), (lambda value: isinstance(value, bool), "true or false")),
}


def fault_of(record: object) -> str:
    """Say why something isn't a record; "" if it is one."""
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return 'it isn\'t an object with a "type"'
    try:
        for key, value in record.items():
            check = _KEYS.get(key)
            if check is not None and not check[0](value):
                return f"{key!r} isn't {check[1]}"
    except RecursionError:  # some Pythons' JSON nests deeper than function calls can
        return "it is nested too deeply"
    return ""
