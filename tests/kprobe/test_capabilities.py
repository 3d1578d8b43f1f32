"""The optional capabilities of a tracefs: what each kind offers, and what is read of one that offers nothing."""

from __future__ import annotations

import pytest

from kprobe import LocalTracefs, open_tracefs
from kprobe.tracefs.capabilities import Capabilities

NAMES = frozenset(Capabilities.__annotations__)
LOCAL = {"root", "kallsyms", "btf", "blacklist", "kernel_log"}
SIMULATED = {"kallsyms", "blacklist", "kernel_log", "threads", "has_all_symbols", "prototype", "member"}
BACKEND = {"has_function", "play", "never_hits", "never_calls", "never_fires", "close"}


def offered(tracefs: object) -> set[str]:
    return {name for name in NAMES if hasattr(tracefs, name)}


def test_each_kind_offers_what_is_documented() -> None:
    assert offered(LocalTracefs("/nowhere")) == LOCAL
    assert offered(open_tracefs("sim")) == SIMULATED | BACKEND


def test_what_is_absent_has_a_default() -> None:
    absent = Capabilities(object())
    assert (absent.kallsyms(), absent.btf(), absent.blacklist(), absent.has_all_symbols) == (b"", b"", b"", True)
    absent.close()
    others = NAMES - {"kallsyms", "btf", "blacklist", "has_all_symbols", "close"}
    assert {getattr(absent, name) for name in others} == {None}


def test_there_are_no_others() -> None:
    with pytest.raises(AttributeError):
        getattr(Capabilities(LocalTracefs("/nowhere")), "read")  # noqa: B009 - which mypy would refuse
