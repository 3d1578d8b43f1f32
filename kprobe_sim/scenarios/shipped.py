"""Scenarios as files: those shipped with the simulator, by name, and others, by path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kprobe_sim.language.primitives.toml_values import toml

_SHIPPED = Path(__file__).parent / "shipped"


def names() -> list[str]:
    """Return the names of the scenarios that come with the simulator."""
    return sorted(path.stem for path in _SHIPPED.glob("*.toml"))


def load(name: str) -> dict[str, Any]:
    """Return a scenario that comes with the simulator, or one from a file, whose path has a `/` or ends with .toml.

    Raises ValueError, which says where to find the names, or what is wrong with the file.
    """
    is_file = "/" in name or name.endswith(".toml")
    if not is_file and name not in names():
        raise ValueError(f"no scenario {name!r}: give a TOML file, or one that `kprobe-sim text --list` has")
    path = Path(name) if is_file else _SHIPPED / f"{name}.toml"
    try:
        return toml(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"scenario {name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: not TOML: no UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
