"""A probe, its probe point, and the line that adds it to a kernel."""

from __future__ import annotations

GROUP = "kprobes"  # the kernel's default group
GROUPS = {"p": GROUP, "r": GROUP, "f": "fprobes", "t": "tracepoints", "e": "eprobes", "u": "uprobes"}
NAME_MAX = 63  # MAX_EVENT_NAME_LEN is 64 with the NUL, in every kernel that checks
RETURN = "%return"  # the suffix of a probe point
PATTERN = "*?["  # wildcards in a function's name
KPROBES, UPROBES, ALL = "kprobe_events", "uprobe_events", "dynamic_events"


class Place:
    """Where a probe sits: a symbol with module and offset, an address, or an offset in the file at `path`.

    `returns` is the suffix %return; `counter` the offset of a user-space probe's reference counter, None for none.  The
    symbol of an event probe is GROUP.EVENT, that of a tracepoint probe the tracepoint.
    """

    __slots__ = ("address", "counter", "module", "offset", "path", "returns", "symbol")

    symbol: str
    module: str
    offset: int
    address: int | None
    returns: bool
    path: str
    counter: int | None

    def __init__(
        self,
        symbol: str = "",
        module: str = "",
        offset: int = 0,
        address: int | None = None,
        returns: bool = False,
        path: str = "",
        counter: int | None = None,
    ) -> None:
        _set(
            self,
            symbol=symbol,
            module=module,
            offset=offset,
            address=address,
            returns=returns,
            path=path,
            counter=counter,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} can't be set")

    @property
    def is_pattern(self) -> bool:
        """True if it means all functions whose names match."""
        return any(mark in self.symbol for mark in PATTERN)

    def __reduce__(self) -> tuple[type[Place], tuple[object, ...]]:
        return Place, self._key()

    def _key(self) -> tuple[object, ...]:
        return (self.symbol, self.module, self.offset, self.address, self.returns, self.path, self.counter)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Place({str(self)!r})"

    def __str__(self) -> str:
        if self.path:
            text = f"{self.path}:{self.offset:#x}"
            if self.counter is not None:
                text += f"({self.counter:#x})"
        elif self.address is not None:
            text = f"{self.address:#x}"
        else:
            text = f"{self.module}:{self.symbol}" if self.module else self.symbol
            if self.offset:
                text += f"{self.offset:+d}"
        return text + (RETURN if self.returns else "")


class Probe:
    """One probe; `str(probe)` is the line to write to its `file`, without the newline.

    `kind` is p or r (of a kernel function, as written), f, t, e, or u; `maxactive` is None if not given; `args` are the
    fetch arguments, each as written.  `is_named`: the user chose the name, so it isn't changed.
    """

    __slots__ = ("args", "group", "is_named", "kind", "maxactive", "name", "place")

    kind: str
    name: str
    place: Place
    args: tuple[str, ...]
    group: str
    maxactive: int | None
    is_named: bool

    def __init__(
        self,
        kind: str,
        name: str,
        place: Place,
        args: tuple[str, ...] = (),
        group: str = "",
        maxactive: int | None = None,
        is_named: bool = True,
    ) -> None:
        _set(
            self,
            kind=kind,
            name=name,
            place=place,
            args=args,
            group=group or GROUPS[kind],
            maxactive=maxactive,
            is_named=is_named,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} can't be set")

    @property
    def event(self) -> str:
        """The event's directory below events/: "kprobes/myopen"."""
        return f"{self.group}/{self.name}"

    @property
    def file(self) -> str:
        """The file of the tracefs where it is added and removed."""
        return KPROBES if self.kind in ("p", "r") else UPROBES if self.kind == "u" else ALL

    @property
    def has_own_group(self) -> bool:
        """True if the user named the group of its event."""
        return self.group != GROUPS[self.kind]

    def in_default_group(self) -> Probe:
        """Return the same probe with its event in the kernel's default group."""
        return self.in_group(GROUPS[self.kind])

    def in_group(self, group: str) -> Probe:
        """Return the same probe with its event in another group."""
        return Probe(self.kind, self.name, self.place, self.args, group, self.maxactive, self.is_named)

    def with_args(self, args: tuple[str, ...]) -> Probe:
        """Return the same probe with other fetch arguments."""
        return Probe(self.kind, self.name, self.place, args, self.group, self.maxactive, self.is_named)

    def moved(self, place: Place, name: str) -> Probe:
        """Return the same probe at another probe point, with its event under another name."""
        return Probe(self.kind, name, place, self.args, self.group, self.maxactive, self.is_named)

    def called(self, name: str) -> Probe:
        """Return the same probe with its event under another name."""
        return Probe(self.kind, name, self.place, self.args, self.group, self.maxactive, self.is_named)

    @property
    def is_return(self) -> bool:
        """True if the probe fires when the function returns."""
        return self.kind == "r" or self.place.returns

    def __reduce__(self) -> tuple[type[Probe], tuple[object, ...]]:
        return Probe, (self.kind, self.name, self.place, self.args, self.group, self.maxactive, self.is_named)

    def _key(self) -> tuple[object, ...]:
        return (self.kind, self.maxactive, self.group, self.name, self.place, self.args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Probe) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Probe({str(self)!r})"

    def __str__(self) -> str:
        number = "" if self.maxactive is None else str(self.maxactive)
        event = self.event if self.has_own_group else self.name
        kind, place = self.kind, str(self.place)
        if kind == "u":  # its line has p or r, which every kernel knows
            kind, place = "r" if self.place.returns else "p", place.removesuffix(RETURN)
        return " ".join((f"{kind}{number}:{event}", place, *self.args))


def _set(value: object, **fields: object) -> None:
    for name, field in fields.items():
        object.__setattr__(value, name, field)
