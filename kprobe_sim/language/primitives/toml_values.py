"""The values of a table in a TOML file that a user wrote: each is checked, and a ValueError says what is wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any

WORD = 1 << 64  # numbers of a register, with or without a sign
SECONDS = 1_000_000_000  # at most: about 31 years, so that ns fit the kernel's clocks
CPUS = 8192  # NR_CPUS, at most, of a kernel for x86-64
PIDS = 1 << 22  # PID_MAX_LIMIT of a kernel of 64 bits
_SHOWN = 60  # characters
_STAMP = re.compile(r"[0-9]{1,10}\.[0-9]{1,9}")


def toml(source: str) -> dict[str, Any]:
    """Return the table of a TOML text.  Raises ValueError, whatever is wrong with it."""
    import tomllib  # few runs read such a file

    try:
        return tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        reason = cut(str(error), 200)
    except RecursionError:
        reason = "its tables or lists are nested too deeply"
    except ValueError:  # of int(), which limits the number of digits
        reason = f"it has a number of more than {sys.get_int_max_str_digits()} digits"
    raise ValueError(f"not TOML: {reason}")


def shown(value: Any) -> str:
    """Return a value as an error quotes it."""
    try:
        return cut(repr(value), _SHOWN)
    except (RecursionError, ValueError):  # nested too deeply; a number with too many digits
        return f"too large a {'number' if isinstance(value, int) else 'table' if isinstance(value, dict) else 'list'}"


def cut(text: str, most: int) -> str:
    """Return a text, shortened to `most` characters."""
    return text if len(text) <= most else f"{text[:most]}..."


def unfit(what: str, value: Any, needed: str) -> ValueError:
    """Return the error about a value that isn't what is needed."""
    return ValueError(f"{what} is {shown(value)}, and has to be {needed}")


def only(table: Mapping[str, Any], known: Collection[str], where: str = "") -> None:
    """Raise ValueError for an unknown key, with the known key that was probably meant."""
    unknown = next((key for key in table if key not in known), None)
    if unknown is None:
        return
    from difflib import get_close_matches  # few files have one

    meant = get_close_matches(unknown[:_SHOWN], sorted(known), 1)
    raise ValueError(f"unknown key {shown(unknown)}{where}" + (f": did you mean {meant[0]!r}?" if meant else ""))


def text(value: Any, what: str) -> str:
    """Return a text that isn't empty."""
    if not isinstance(value, str) or not value:
        raise unfit(what, value, "a text")
    return value


def truth(value: Any, what: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise unfit(what, value, "true or false")
    return value


def number(value: Any, what: str, least: int = -WORD // 2, most: int = WORD - 1) -> int:
    """Return a whole number in a range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise unfit(what, value, f"a number from {_limit(least)} to {_limit(most)}")
    return value


def nanoseconds(value: Any, what: str) -> int:
    """Return a time given in seconds, as a number or as a text that the kernel prints."""
    if isinstance(value, str) and _STAMP.fullmatch(value):
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= SECONDS:
        raise unfit(what, value, f"a number of seconds from 0 to {SECONDS}")
    return round(value * 1_000_000_000)


def items(value: Any, what: str) -> list[Any]:
    """Return the items of a list."""
    if not isinstance(value, list | tuple):
        raise unfit(what, value, "a list")
    return list(value)


def table(value: Any, what: str) -> dict[str, Any]:
    """Return a table."""
    if not isinstance(value, dict):
        raise unfit(what, value, "a table")
    return value


def octets(value: Any, what: str) -> bytes:
    """Return bytes given as hexadecimal digits."""
    if isinstance(value, str):
        try:
            return bytes.fromhex(value)
        except ValueError:
            pass
    raise unfit(what, value, "hexadecimal digits, two for each byte")


def address(value: str, what: str, room: int) -> int:
    """Return an address that is written as a key, at which `room` bytes lie."""
    try:
        found = int(value, 0)
    except ValueError:
        found = -1
    if not 0 <= found <= WORD - room:
        raise unfit(what, value, f"the address of {room} bytes, as 0xffff888000000000")
    return found


def tables(source: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the tables that are written as [[key]]."""
    several = source.get(key, [])
    if not isinstance(several, list) or not all(isinstance(entry, dict) for entry in several):
        raise ValueError(f"{key} isn't a table: write [[{key}]]")
    return several


def lines_of(source: str, key: str, count: int) -> list[int]:
    """Return the numbers of the lines that are [[key]]; none if their number isn't `count`."""
    header = re.compile(rf"[ \t]*\[\[[ \t]*{key}[ \t]*\]\]")
    found = [number for number, line in enumerate(source.split("\n"), 1) if header.match(line)]
    return found if len(found) == count else []


def at_line(number: int, lines: list[int]) -> str:
    """Return the line of the table of that number, for the end of an error."""
    return f" (line {lines[number - 1]})" if number <= len(lines) else ""


def several(problems: Iterable[str], most: int = 10) -> str:
    """Return problems as the lines of one error."""
    found = list(problems)
    rest = len(found) - most
    return "\n".join([*found[:most], *([f"and {rest} more"] if rest > 0 else [])])


def _limit(value: int) -> str:
    return {WORD - 1: "0xffffffffffffffff", -WORD // 2: "-0x8000000000000000"}.get(value, str(value))
