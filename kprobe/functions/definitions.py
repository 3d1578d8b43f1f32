"""Definitions of a function's probes, written from its prototype to suit what a kernel's README offers."""

from __future__ import annotations

from kprobe.definitions.probe import NAME_MAX
from kprobe.functions.members import members
from kprobe.kernel.prototype import REGISTERS, register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.definitions.probe import Place
    from kprobe.kernel.prototype import CType, Prototype
    from kprobe.kernel.prototypes import Follow

ARGUMENT_MAX = 31  # MAX_ARG_NAME_LEN is 32 with the NUL
SIZES = (1, 2, 4, 8)  # bytes of the kernel's types
PAIR = 2  # words of the largest struct that is passed in registers
# Source: kernel 6.12, reserved_field_names of trace_probe.c
RESERVED = frozenset(
    [
        *("common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid"),
        *("__probe_ip", "__probe_ret_ip", "__probe_func"),
    ]
)
# Functions of system calls with texts in user memory, which gcc's BTF doesn't tell.  Source: fs/open.c, fs/namei.c.
OF_CALLS = ("__do_sys_", "do_sys_", "ksys_", "sys_", "SyS_")
TAKE_USERS = ("getname", "getname_flags", "user_path_at")
SUFFIX = "_return"
NUMBERS = ("int", "char", "bool", "enum")


class Offers:
    """What a kernel takes in a definition, by its README: $argN, the type ustring, types x8 to x64.

    `returned` is its word for a function's return value.
    """

    __slots__ = ("arguments", "hexadecimal", "returned", "ustring")

    def __init__(self, readme: str, returned: str = "$retval") -> None:
        self.returned = returned
        self.arguments = "$arg<N>" in readme
        self.ustring = "ustring" in readme
        self.hexadecimal = "x8/16/32/64" in readme


def entry(place: Place, prototype: Prototype | None, offers: Offers, follow: Follow = lambda *_: None) -> str:
    """Return the definition of a probe at a function's entry that fetches its arguments.

    Without a prototype they are the six registers that arguments can be in.  A pointer to a struct is followed by the
    most telling member, where `follow` knows it.
    """
    head = f"p:{event(place.symbol)} {place}"
    if prototype is None:
        numbers = range(1, len(REGISTERS) + 1)
        return " ".join([head, *(f"{_unnamed(number, offers)}={value_of(number, offers)}" for number in numbers)])
    words = [head]
    taken: set[str] = set()
    parameters = list(zip(prototype.parameters, prototype.slots(), strict=True))
    names = [_name(parameter.name, number, taken) for number, (parameter, _) in enumerate(parameters, 1)]
    behind = [members(parameter.type.text) if len(slots) == 1 else () for parameter, slots in parameters]
    shared = [called for several in behind for called, _ in several]
    for number, (parameter, slots) in enumerate(parameters):
        if not slots or len(slots) > PAIR:
            continue
        name = names[number]
        if len(slots) == PAIR:
            words += [
                f"{name}_{half}={value_of(slot, offers)}{_hexadecimal(offers)}" for half, slot in enumerate(slots)
            ]
        else:
            words.append(f"{name}={_typed(value_of(slots[0], offers), parameter.type, place.symbol, offers)}")
        for called, path in behind[number]:
            found = follow(place.symbol, number, path)
            if found is not None and (shown := _behind(value_of(slots[0], offers), *found)):
                chosen = (
                    called if shared.count(called) == 1 and called not in taken else f"{name}_{called}"[:ARGUMENT_MAX]
                )
                if chosen not in taken:
                    taken.add(chosen)
                    words.append(f"{chosen}={shown}")
    return " ".join(words)


def leaving(place: Place, prototype: Prototype | None, offers: Offers) -> str:
    """Return the definition of a probe at a function's return, with its return value unless that is void."""
    head = f"r:{event(place.symbol)[: NAME_MAX - len(SUFFIX)]}{SUFFIX} {place}"
    if prototype is None:
        return f"{head} ret={offers.returned}"
    returns = prototype.returns
    if returns.kind in ("void", "float") or returns.size > SIZES[-1]:
        return head
    return f"{head} ret={_typed(offers.returned, returns, '', offers)}"


def event(symbol: str) -> str:
    """Return the name of an event for a function, whose name may have dots."""
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in symbol)[:NAME_MAX]


def value_of(number: int, offers: Offers) -> str:
    """Return the fetch argument for $argN."""
    return f"$arg{number}" if offers.arguments else register(number)


def _behind(value: str, places: tuple[int, ...], c_type: CType) -> str:
    """Return the fetch argument of a member behind a pointer; "" if no fetch type fits."""
    for place in places:
        value = f"+{place}({value})"
    if c_type.kind == "ptr" and c_type.text.split()[-2:] == ["char", "*"]:
        return f"+0({value}):string"
    if c_type.kind == "array" and c_type.text.startswith("char["):
        return f"{value}:string"
    if c_type.kind in NUMBERS and c_type.size in SIZES:
        return f"{value}:{'s' if c_type.signed else 'u'}{c_type.size * 8}"
    return ""


def _typed(value: str, c_type: CType, symbol: str, offers: Offers) -> str:
    """Return a fetch argument's value with its type."""
    if c_type.is_text:
        users = c_type.is_users or symbol.startswith(OF_CALLS) or symbol in TAKE_USERS
        return f"+0({value}):{'ustring' if users and offers.ustring else 'string'}"
    if c_type.kind in NUMBERS and c_type.size in SIZES:
        return f"{value}:{'s' if c_type.signed else 'u'}{c_type.size * 8}"
    return value + _hexadecimal(offers)


def _hexadecimal(offers: Offers) -> str:
    return ":x64" if offers.hexadecimal else ""


def _unnamed(number: int, offers: Offers) -> str:
    return value_of(number, offers)[1:]


def _name(name: str, number: int, taken: set[str]) -> str:
    """Return a name for the argument that is valid and unused."""
    if name in RESERVED:
        name = f"arg_{name}"
    name = name[:ARGUMENT_MAX]
    if name in taken or not (name.isascii() and name.isidentifier()):
        name = f"arg{number}"
    taken.add(name)
    return name
