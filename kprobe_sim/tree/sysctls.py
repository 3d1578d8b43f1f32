"""The files of /proc/sys that tracing programs read and write.

Sources: do_proc_dointvec(), proc_get_long() and proc_dostring() in kernel/sysctl.c, ftrace_enable_sysctl() in
kernel/trace/ftrace.c; tests/conformance/test_sysctls.py, which holds them to guests of 5.10 to 7.3.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.tree.files.node import Node, OpenFile
from kprobe_sim.tree.files.simple import Once

if TYPE_CHECKING:
    from kprobe_sim.machine.simulated import SimulatedMachine

_BLANKS = b" \t\n\v\f\r"
_NUMBER = re.compile(rb"-?(0[xX][0-9A-Fa-f]+|[0-9]+)")
_LONGEST = 20  # characters of a number at most
_ENDS = b" \t\n"
_DIGITS_OF_8 = re.compile(rb"0[0-7]*")
_TEXT_SIZE = 99  # MAX_TRACER_SIZE without the zero at the end
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


class _Bounds(NamedTuple):
    """A number: its value after boot, and its bounds."""

    value: int
    least: int = _INT_MIN
    most: int = _INT_MAX


_NUMBERS = {
    "debug/kprobes-optimization": _Bounds(1, 0, 1),
    "kernel/ftrace_dump_on_oops": _Bounds(0),
    "kernel/kptr_restrict": _Bounds(0, 0, 2),
    "kernel/stack_tracer_enabled": _Bounds(0),
    "kernel/traceoff_on_warning": _Bounds(0),
    "kernel/perf_cpu_time_max_percent": _Bounds(25, 0, 100),
    "kernel/perf_event_max_contexts_per_stack": _Bounds(8, 0, 1000),
    "kernel/perf_event_max_sample_rate": _Bounds(100_000, 1),
    "kernel/perf_event_max_stack": _Bounds(127, 0, 640 << 10),
    "kernel/perf_event_mlock_kb": _Bounds(516),
}


class Sysctl(Node):
    """A value that is read and written as text; `put` returns the new text and the bytes consumed.

    A read at position 0 gives the text, any other nothing.  An empty write, or one elsewhere, changes nothing.
    """

    def __init__(self, text: bytes, put: Callable[[bytes, bytes], tuple[bytes, int]]) -> None:
        super().__init__(0o644)
        self._text = text
        self._put = put

    def open(self, flags: int) -> OpenFile:
        return _OpenSysctl(flags, lambda: self._text, self.put)

    def put(self, data: bytes) -> int:
        """Take a write at position 0.  Raises OSError EINVAL, or the kernel's errno for the value."""
        self._text, taken = self._put(data, self._text)
        return taken


class _OpenSysctl(Once):
    def write(self, data: bytes, position: int) -> int:
        return super().write(data, position) if data and not position else len(data)


def sysctls(machine: SimulatedMachine, switch: Callable[[bool], None]) -> dict[str, Node]:
    """Return the files by their paths; `switch` turns ftrace on or off."""
    nodes: dict[str, Node] = {f"/proc/sys/{name}": _number(bounds) for name, bounds in _NUMBERS.items()}
    gates = machine.gates
    if gates.dump_on_oops_text:
        nodes["/proc/sys/kernel/ftrace_dump_on_oops"] = Sysctl(b"0\n", _text)
    nodes["/proc/sys/kernel/ftrace_enabled"] = _ftrace_enabled(switch, can_stop=gates.ftrace_stops)
    # only the boot parameter tp_printk can change it
    nodes["/proc/sys/kernel/tracepoint_printk"] = Sysctl(b"0\n", lambda data, text: (text, _read(data)[1]))
    level = 3 if "Debian" in machine.profile.banner else gates.perf_paranoid
    nodes["/proc/sys/kernel/perf_event_paranoid"] = _number(_Bounds(level))
    return nodes


def _number(bounds: _Bounds) -> Sysctl:
    def put(data: bytes, _: bytes) -> tuple[bytes, int]:
        value, taken = _read(data, bounds.least, bounds.most)
        return b"%d\n" % value, taken

    return Sysctl(b"%d\n" % bounds.value, put)


def _ftrace_enabled(switch: Callable[[bool], None], *, can_stop: bool) -> Sysctl:
    def put(data: bytes, _: bytes) -> tuple[bytes, int]:
        value, taken = _read(data)
        if not (value or can_stop):
            node.put(b"1")
            raise refuse(errno.EOPNOTSUPP)
        switch(value != 0)
        return b"%d\n" % value, taken

    node = Sysctl(b"1\n", put)
    return node


def _text(data: bytes, _: bytes) -> tuple[bytes, int]:
    return re.split(rb"[\0\n]", data, maxsplit=1)[0][:_TEXT_SIZE] + b"\n", len(data)


def _read(data: bytes, least: int = _INT_MIN, most: int = _INT_MAX) -> tuple[int, int]:
    """Return the number at the beginning of a write, and its length in bytes with the blanks after it.

    Raises OSError EINVAL if there is no number, or one that is too long, out of bounds, or not followed by a blank.
    """
    text = data.lstrip(_BLANKS)
    match = _NUMBER.match(text)
    if match is None or match.end() > _LONGEST:
        raise refuse(errno.EINVAL)
    following, digits = text[match.end() :], match[1]
    if digits[:1] == b"0" and digits[1:2] not in (b"x", b"X"):
        if _DIGITS_OF_8.fullmatch(digits) is None:
            raise refuse(errno.EINVAL)
        value = int(digits, 8)
    else:
        value = int(digits, 0)
    value = -value if text[:1] == b"-" else value
    if following[:1] not in (b"", *(b"%c" % end for end in _ENDS)) or not least <= value <= most:
        raise refuse(errno.EINVAL)
    return value, len(data) - len(following.lstrip(_BLANKS))
