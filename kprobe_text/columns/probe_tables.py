"""The probes' addresses as printed, and the arguments of each, for the compiled scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np

from kprobe_text.columns import text_scan
from kprobe_text.text import Event, defined_name, parse_format
from kprobe_text.text.arguments import Arguments, arguments_of, is_seal
from kprobe_text.text.descriptions import Formats, definition_of, format_text

_SITES: Final = 2048  # probes with a row; the others are read without the compiled pass
_PLANS: Final = 1024
_ROWS: Final = 8192
_POOL: Final = 1 << 18
_RETRIES: Final = 4  # how often the arguments at an address may change, without a schema

_KINDS: Final = {'"%s"': text_scan.STRING, "%pS": text_scan.SYMBOL, "%n": text_scan.EITHER}
NO_SCHEMA, DEFINED, FORMAT = 0, 1, 2


class Plan(NamedTuple):
    """The arguments of an event, in order; two events of one name can have different ones."""

    event: str
    names: tuple[str, ...]
    kinds: tuple[tuple[int, int], ...]  # how each is printed, and of how many elements; -1: not an array
    schema: int


class ProbeTables:
    """Tables of probes and of their arguments, in the form that `text_scan.scan` reads."""

    def __init__(self, formats: Formats | None, definitions: Iterable[str]) -> None:
        self._formats = formats
        self._definitions = {defined_name(text): text for text in definitions}
        self._hashes = np.zeros(2 * _SITES, np.uint64)
        self._rows = np.full((2 * _SITES, 3), -1, np.int64)
        self._pool = np.zeros(_POOL, np.uint8)
        self._site_plan = np.zeros(_SITES, np.int64)
        self.opening = np.zeros(_SITES, bool)  # whether a string there could imitate further records
        self.seals = np.full((_SITES, 3), -1, np.int64)  # which argument is a seal, and how it is read with either sign
        self._plan_rows = np.zeros((_PLANS, 2), np.int64)
        self._has_schema = np.zeros(_PLANS, np.int64)
        self._arguments = np.zeros((_ROWS, 4), np.int64)
        self.tables: Final = text_scan.Probes(
            self._hashes, self._rows, self._pool, self._site_plan, self._plan_rows, self._has_schema, self._arguments
        )
        self._used = 0
        self._filled = 0
        self._known: dict[bytes, int] = {}
        self._retries: dict[bytes, int] = {}
        self._plans: dict[Plan, int] = {}
        self.plans: list[Plan] = []
        self.addresses: list[str] = []
        self.callers: list[str | None] = []

    def learn(self, event: Event, opens: Callable[[bytes], str]) -> bool:
        """Expect an event's address and arguments in later lines; return whether they were new.

        `opens` says what every record at an address contains whose string could imitate records; "" if none could.
        """
        address, caller = event.address, event.caller
        if address is None or not event.complete or event.guessed or event.clock != "time":
            return False
        shown = address.text if caller is None else f"{caller.text} <- {address.text}"
        key = f"{event.name}: ({shown})".encode("utf-8", "surrogateescape")
        if not key.isascii() or b"\n" in key or (opening := opens(key)) == ":":
            return False
        site = self._known.get(key)
        if site is not None and (
            self.plans[self._site_plan[site]].schema or self.plans[self._site_plan[site]].names == tuple(event.fields)
        ):
            return False
        if site is not None and self._retries.setdefault(key, 0) >= _RETRIES:
            return False
        plan = self._plan(event)
        number = None if plan is None else self._number(plan)
        if number is None:
            return False
        if site is not None:
            self._retries[key] += 1
            self._site_plan[site] = number
            return True
        if not self._put(key, number, address.text, None if caller is None else caller.text, opening == '"'):
            return False
        if len(opening) > 1:
            self.seals[self._known[key]] = self._seal(event.name)
        return True

    def _put(self, key: bytes, plan: int, address: str, caller: str | None, opening: bool) -> bool:
        site = len(self.addresses)
        if site >= _SITES or self._filled + len(key) > _POOL:
            return False
        start = self._text(key)
        value = text_scan.hashed(self._pool, start, start + len(key))
        row = int(value) % len(self._hashes)
        while self._rows[row, 0] >= 0:
            row = (row + 1) % len(self._hashes)
        self._hashes[row] = value
        self._rows[row] = site, start, len(key)
        self._site_plan[site] = plan
        self.opening[site] = opening
        self._known[key] = site
        self.addresses.append(address)
        self.callers.append(caller)
        return True

    def _text(self, text: bytes) -> int:
        start = self._filled
        self._pool[start : start + len(text)] = np.frombuffer(text, np.uint8)
        self._filled += len(text)
        return start

    def _number(self, plan: Plan) -> int | None:
        if (known := self._plans.get(plan)) is not None:
            return known
        labels = [f" {name}=".encode() for name in plan.names]
        count = len(labels)
        if count > 128 or len(self.plans) >= _PLANS or self._used + count > _ROWS:
            return None
        if self._filled + sum(map(len, labels)) > _POOL:
            return None
        number = len(self.plans)
        self._plan_rows[number] = self._used, self._used + count
        self._has_schema[number] = plan.schema
        for label, (kind, elements) in zip(labels, plan.kinds, strict=True):
            self._arguments[self._used] = kind, self._text(label), len(label), elements
            self._used += 1
        self.plans.append(plan)
        self._plans[plan] = number
        return number

    def _plan(self, event: Event) -> Plan | None:
        """Return how an event's arguments are printed; None if the pass can't read them."""
        arguments, schema = self._schema(event.name)
        if arguments is None:
            names = tuple(event.fields)
            return Plan(event.name, names, ((text_scan.ANY, -1),) * len(names), NO_SCHEMA)
        kinds = [_kind(printed) for _, printed in arguments.items]
        if any(kind is None for kind in kinds):
            return None
        return Plan(event.name, tuple(name for name, _ in arguments.items), tuple(k for k in kinds if k), schema)

    def _seal(self, name: str) -> tuple[int, int, int]:
        definition = definition_of(self._definitions[name])
        assert definition is not None
        items = definition.wide.items
        at = max(i for i, (_, spec) in enumerate(items) if is_seal(spec))
        _, unsigned, signed = items[at][1][1:].split("|")
        number = int(unsigned)
        return at, number - (1 << 64) if number >> 63 else number, int(signed)

    def _schema(self, name: str) -> tuple[Arguments | None, int]:
        if (text := format_text(self._formats, name)) is not None:
            try:
                arguments = arguments_of(parse_format(text).print_fmt)
            except ValueError:
                arguments = None
            if arguments is not None:
                return arguments, FORMAT
        defined = self._definitions.get(name)
        definition = definition_of(defined) if defined is not None else None
        return (definition.wide, DEFINED) if definition is not None else (None, NO_SCHEMA)


def _kind(printed: str) -> tuple[int, int] | None:
    if is_seal(printed):
        return text_scan.EITHER, -1
    array = printed.startswith("{")
    count = printed.count(",") + 1 if array else -1
    one = printed.strip("{}").partition(",")[0]
    kind = _KINDS.get(one)
    if kind is None:
        if one == "'%c'":
            return None
        kind = text_scan.DECIMAL if one[-1] in "du" else text_scan.PREFIXED if one.startswith("0x") else text_scan.BARE
    if array and kind in (text_scan.STRING, text_scan.SYMBOL):
        return None
    return kind + text_scan.ARRAY * array, count
