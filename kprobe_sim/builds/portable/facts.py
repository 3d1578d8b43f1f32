"""The required contents and form of profile.json, checked where a profile isn't the package's own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from kprobe_sim.builds.gates import GATES
from kprobe_sim.builds.page import PAGE_SIZE

RELEASE = r"\d+\.\d+[\w.+~-]{0,57}"  # uname -r, 64 characters at most; a file is named for it
VERSION = r"\d{1,3}\.\d{1,3}(?:\.\d{1,5})?"
_MOST = 1 << 24  # no kernel has more CPUs, ids, names or KiB
Check = Callable[[Any], bool]


def _number(least: int, most: int = _MOST) -> Check:
    return lambda value: type(value) is int and least <= value <= most


def _text(pattern: str = r"[^\0]{1,4096}") -> Check:
    fits = re.compile(pattern, re.ASCII).fullmatch
    return lambda value: isinstance(value, str) and fits(value) is not None


def _list(of: Check, least: int = 0) -> Check:
    return lambda value: isinstance(value, list) and len(value) >= least and all(map(of, value))


def _map(of: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(of, value.values()))


def _pair(first: Check, second: Check) -> Check:
    return lambda value: isinstance(value, list) and len(value) == 2 and first(value[0]) and second(value[1])


def _chain(value: Any) -> bool:
    """True for an address in code, a number or a bool, and lists of them."""
    if isinstance(value, list):
        return all(map(_chain, value))
    return isinstance(value, bool) or _number(0)(value) or _address(value)


def _banner(value: Any) -> bool:
    """True for a line such as Linux version 6.1.0 (who@where) (compiler) #1 SMP: its parts are in the memory, too."""
    return _text(r"[^\0\n]{1,4096}")(value) and 0 <= value.find(" (") < value.rfind(") #")


def _config(value: Any) -> bool:
    return value is None or (_map(_text(r"[^\0\n]{0,4096}"))(value) and _text(r"[1-9]\d{0,4}")(value.get("HZ", "250")))


def _answers(value: Any) -> bool:
    """True if each answer is of a kind with the values of its gate; answers of unknown gates aren't looked at."""
    if not isinstance(value, dict):
        return False
    return all(_answer(value[name], [known for _, known in GATES[name].values]) for name in value.keys() & GATES.keys())


def _answer(value: Any, known: list[Any]) -> bool:
    for example in known:
        if isinstance(example, (tuple, bytes)):
            most = _MOST if isinstance(example, tuple) else 0xFF
            fits = _list(_number(0, most))(value) and len(value) == len(example)
        elif type(example) is int:
            fits = _number(0, 1 << 31)(value)
        else:
            fits = type(value) is type(example) and value == example
        if fits:
            return True
    return False


_word = _text(r"[^\s\0]{1,64}")
_address = _text(r"[^\s\0]{1,512}")
_id = _number(0, 0xFFFF)
FACTS: dict[str, Check] = {
    "release": _text(RELEASE),
    "version": _text(VERSION),
    "banner": _banner,
    "cpus": _number(1, 8192),
    "page_size": _number(1),
    "first_dynamic_id": _id,
    "second_dynamic_id": _id,
    "options": _list(_pair(_word, lambda value: isinstance(value, bool))),
    "clocks": _list(_word, 1),
    "default_clock": _word,
    "tracers": _list(_word, 1),
    "buffer_size_kb": _text(r"\d{1,8}(?: \(expanded: \d{1,8}\))?\n?"),
    "buffer_size_kb_expanded": _number(1),
    "saved_cmdlines_size": _number(1),
    "preempt_model": _text(r"[^\0\n]{1,64}"),
    "modules": _list(_word),
    "tasks": _list(_pair(_number(0, 1 << 22), _text(r"[^\0\n]{0,64}"))),
    "config": _config,
}
OPTIONAL: dict[str, Check] = {
    "marker_offset": _number(0),
    "root_mode": _number(0, 0o7777),
    "chains": _map(_chain),
    "answers": _answers,
}  # not in older profiles


def checked(text: bytes) -> dict[str, Any]:
    """Return the facts of a profile.json.  Raises ValueError with what is missing or malformed.

    Other entries are ignored.
    """
    try:
        facts = json.loads(text)
    except RecursionError:
        raise ValueError("profile.json isn't JSON: it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"profile.json isn't JSON: {error}") from None
    except ValueError:  # of the text's encoding, or of int(), whose limit keeps its time short
        raise ValueError("profile.json isn't JSON in UTF-8, or has too long a number") from None
    try:
        return _held(facts)
    except RecursionError:  # JSON of some Pythons goes deeper than functions
        raise ValueError("profile.json: a list in it is nested too deeply") from None


def _held(facts: Any) -> dict[str, Any]:
    if not isinstance(facts, dict):
        raise ValueError("profile.json isn't a JSON object")
    if missing := [name for name in FACTS if name not in facts]:
        raise ValueError(f"profile.json lacks {', '.join(missing)}")
    for name, fits in (FACTS | OPTIONAL).items():
        if name in facts and not fits(facts[name]):
            raise ValueError(f"profile.json: {name} can't be {_shown(facts[name])}")
    if facts["page_size"] != PAGE_SIZE:
        raise ValueError(f"recorded with pages of {facts['page_size']} bytes; x86-64 has {PAGE_SIZE}")
    if facts["default_clock"] not in facts["clocks"]:
        raise ValueError(f"profile.json: {facts['default_clock']} isn't one of its clocks")
    return facts


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
