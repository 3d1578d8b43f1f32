"""What reading and writing an instance's control files does (the fops of trace.c, 6.1)."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.events.event import listed
from kprobe_sim.events.event_file import EventFile
from kprobe_sim.events.instance import Instance
from kprobe_sim.language.primitives.kstrto import ULONG_MAX, kstrtoul
from kprobe_sim.language.primitives.module_events import ModuleEvents
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.language.primitives.words import BLANKS, next_word, number_from_user
from kprobe_sim.machine.clock import ns2usecs

_EVENT_WORD = 127  # EVENT_BUF_SIZE
_PID_WORD = 127  # PID_BUF_SIZE
# struct saved_cmdlines_buffer: entries asked for at boot, bytes before the names, bytes of the order of pages
_CMDLINES_ASKED, _CMDLINES_HEAD, _CMDLINES_FIRST = 128, 131_096, 262_144
_CPUMASK_GAP = b", \t\n\v\f\r"
_CPUMASK_GAPS = re.compile(rb"[, \t\n\v\f\r]+")
_HEX = re.compile(rb"[0-9a-fA-F]+")
_MEMORY = 140_000  # kB that are free in a machine of 256 MiB, like those of the recorded profiles


def put_tracing_on(instance: Instance, data: bytes) -> None:
    on = number_from_user(data) != 0
    if on != instance.tracing_on:
        instance.set_tracing(on)


def put_options(instance: Instance, data: bytes) -> None:
    instance.set_option(*instance.options.write(data))


def put_option(instance: Instance, name: str, data: bytes) -> None:
    value = number_from_user(data)
    if value not in (0, 1):
        raise refuse(errno.EINVAL)
    if name in instance.options:
        if name != "test_nop_refuse" or value:
            instance.set_option(name, bool(value))
    else:
        instance.options.set_of_tracer(name, bool(value))


def put_clock(instance: Instance, data: bytes) -> None:
    if len(data) >= 64:
        raise refuse(errno.EINVAL)
    instance.set_clock(data.split(b"\0", 1)[0].strip(BLANKS).decode("latin-1"))


def clock_text(instance: Instance) -> bytes:
    names = instance.machine.profile.clocks
    return (" ".join(f"[{name}]" if name == instance.clock.name else name for name in names) + "\n").encode()


def put_tracer(instance: Instance, data: bytes) -> None:
    if not instance.name:
        instance.expand()  # even if the tracer doesn't exist
    name = data[:100].split(b"\0", 1)[0].strip(BLANKS).decode("latin-1")
    tracefs, path = instance.machine.profile.tracefs, "instances/*/available_tracers"
    available = tracefs.text(path) if instance.name and tracefs.has_text(path) else b""
    if name not in instance.machine.profile.tracers or (available and name.encode() not in available.split()):
        raise refuse(errno.EINVAL)
    instance.set_tracer(name)


# buffer sizes


def size_text(instance: Instance) -> bytes:
    sizes = {instance.size_of(cpu) for cpu in range(instance.cpus)}
    if len(sizes) > 1:
        return b"X\n"
    return _size(instance, sizes.pop() >> 10, 1)


def total_size_text(instance: Instance) -> bytes:
    total = sum(instance.size_of(cpu) >> 10 for cpu in range(instance.cpus))
    return _size(instance, total, instance.cpus)


def _size(instance: Instance, kilobytes: int, cpus: int) -> bytes:
    if instance.tracing.is_expanded:
        return b"%d\n" % kilobytes
    return b"%d (expanded: %d)\n" % (kilobytes, (instance.machine.profile.trace_buffer_size >> 10) * cpus)


def put_size(instance: Instance, cpu: int | None, data: bytes) -> None:
    kilobytes = number_from_user(data)
    if not kilobytes:
        raise refuse(errno.EINVAL)
    instance.tracing.is_expanded = True  # even if the memory doesn't suffice
    if kilobytes * (instance.cpus if cpu is None else 1) > _MEMORY:
        raise refuse(errno.ENOMEM)
    if instance.readers.hold(cpu):
        raise refuse(instance.machine.gates.held_size_errno)
    instance.resize(kilobytes << 10, cpu)


def stats_text(instance: Instance, cpu: int) -> bytes:
    buffer = instance.buffer.cpus[cpu]
    oldest, now = buffer.oldest_stamp, instance.clock.stamp()
    gates = instance.machine.gates
    show = _seconds if instance.clock.in_ns or not gates.stats_by_clock else str
    lines = (
        *(f"entries: {buffer.entries}\n", f"overrun: {buffer.overrun}\n", "commit overrun: 0\n"),
        *(f"bytes: {buffer.unread_bytes}\n", f"oldest event ts: {show(oldest)}\n", f"now ts: {show(now)}\n"),
        *(f"dropped events: {buffer.dropped}\n", f"read events: {buffer.read}\n"),
    )
    return "".join(lines[: gates.stats_lines]).encode()


def _seconds(stamp: int) -> str:
    seconds, micros = divmod(ns2usecs(stamp), 1_000_000)
    return f"{seconds:5d}.{micros:06d}"


# events by name and by pid


def enabled_lines(instance: Instance) -> Sequence[bytes]:
    enabled = instance.in_order(file.event for file in instance.enabled_files())
    return [*map(listed, enabled), *[words.line() for words in reversed(instance.module_events)]]


def clear_events(instance: Instance) -> None:
    for event in instance.in_order(file.event for file in instance.used_files()):
        instance.file(event).enable(False)
    instance.module_events.clear()


def put_set_event(instance: Instance, data: bytes) -> int:
    """Take one word of a write to set_event: a system, an event, or SYSTEM:EVENT; `!` disables."""
    if not data:
        return 0
    instance.expand()
    word = next_word(data, _EVENT_WORD)
    text = word.text.decode("latin-1")
    if text:
        switch_events(instance, text.removeprefix("!"), text[0] != "!")
    return word.consumed


def switch_events(instance: Instance, pattern: str, on: bool) -> None:
    """Enable or disable the events that a word names; OSError EINVAL if it names none."""
    if instance.machine.gates.module_events and ":mod:" in pattern:
        _switch_module_events(instance, ModuleEvents.read(pattern), on)
        return
    first, colon, second = pattern.partition(":")
    system = first if colon and first not in ("", "*") else None
    name = second if colon and second not in ("", "*") else None
    if colon:
        named = list(instance.events(system, name))
    else:
        named = instance.in_order([*instance.events(system=first), *instance.events(name=first)])
    events = [event for event in named if event.can_enable]
    if not events:
        raise refuse(errno.EINVAL)
    for event in events:
        instance.file(event).enable(on)


def _switch_module_events(instance: Instance, words: ModuleEvents, on: bool) -> None:
    """Note what to enable when a module is loaded, or forget it; no event here belongs to a module."""
    if on:
        instance.module_events.append(words)
        return
    left = [noted for noted in instance.module_events if not words.means(noted)]
    if len(left) == len(instance.module_events):
        raise refuse(errno.EINVAL)
    instance.module_events[:] = left


def pids_text(pids: set[int] | None, none: bytes = b"") -> bytes:
    return none if pids is None else b"".join(b"%d\n" % pid for pid in sorted(pids))


def put_pids(instance: Instance, attribute: str, data: bytes) -> int:
    """Take one write of pids to set_event_pid and the like: all of them or none."""
    if not data:
        return 0
    if not attribute.startswith("ftrace"):
        instance.expand()
    pids = set(getattr(instance, attribute) or ())
    consumed = 0
    while consumed < len(data):
        word = next_word(data[consumed:], _PID_WORD)
        if not word.text:
            # blanks at the end are consumed; kernels that don't do so still consume a write of blanks alone
            counts_blanks = instance.machine.gates.pid_blanks_taken
            consumed = consumed + word.consumed if counts_blanks else consumed if pids else word.consumed
            break
        consumed += word.consumed
        try:
            pid = kstrtoul(word.text.decode("latin-1"))
        except OSError:
            raise refuse(errno.EINVAL) from None
        gates = instance.machine.gates
        if gates.long_pids and pid >= gates.pid_limit:
            raise refuse(errno.EINVAL)
        if pid & 0xFFFFFFFF >= gates.pid_limit:
            raise refuse(instance.machine.gates.pid_errno)
        pids.add(pid & 0xFFFFFFFF)
    setattr(instance, attribute, pids or None)
    instance.pids_came = instance.tracing.events.came
    return min(consumed, len(data))


# enable files


def enable_text(file: EventFile) -> bytes:
    if file.freed:
        if file.instance.machine.gates.removed_files_read:
            return b"0\n"
        raise refuse(errno.ENODEV)
    return file.state + b"\n"


def put_enable(file: EventFile, data: bytes) -> None:
    value = number_from_user(data)
    file.instance.expand()
    if value not in (0, 1):
        raise refuse(errno.EINVAL)
    if file.freed:
        raise refuse(errno.ENODEV)
    file.enable(bool(value))


def group_enable_text(instance: Instance, system: str | None) -> bytes:
    events = (event for event in instance.events(system) if event.can_enable)
    enabled = {file.event for file in instance.enabled_files() if system in (None, file.event.system)}
    if not any(event.can_enable for event in enabled):
        return b"?\n" if next(events, None) is None else b"0\n"
    return b"1\n" if all(event in enabled for event in events) else b"X\n"


def put_group_enable(instance: Instance, system: str | None, data: bytes) -> None:
    value = number_from_user(data)
    instance.expand()
    if value not in (0, 1):
        raise refuse(errno.EINVAL)
    events = [event for event in instance.events(system) if event.can_enable]
    if not events:
        raise refuse(errno.EINVAL)
    for event in events:
        instance.file(event).enable(bool(value))


# numbers that are checked as the kernel checks them and stored, but have no effect on what is simulated


def put_number(instance: Instance, path: str, show: Callable[[int], bytes], data: bytes) -> None:
    instance.knobs[path] = show(number_from_user(data))


def percent_text(value: int) -> bytes:
    if value > 100:
        raise refuse(errno.EINVAL)
    return b"%d\n" % value


def depth_text(value: int) -> bytes:
    """Show an unsigned int as the kernel prints it, as an int."""
    return b"%d\n" % _signed(value, 32)


def long_text(value: int) -> bytes:
    return b"%d\n" % _signed(value, 64)


def microseconds_text(value: int) -> bytes:
    """Show a value that the kernel stores in nanoseconds, or -1 (tracing_nsecs_read)."""
    nanoseconds = value * 1000 & ULONG_MAX
    return b"%d\n" % (-1 if nanoseconds == ULONG_MAX else nanoseconds // 1000)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def put_saved_cmdlines_size(instance: Instance, data: bytes) -> None:
    value = number_from_user(data)
    if not 1 <= value <= 0x8000:  # PID_MAX_DEFAULT
        raise refuse(errno.EINVAL)
    first = instance.machine.profile.saved_cmdlines_size
    if first != _CMDLINES_ASKED:  # this kernel fills whole orders of pages
        size = (_CMDLINES_FIRST - _CMDLINES_HEAD) // first  # bytes of a name: 16, or 20 with its pid
        pages = -(-(_CMDLINES_HEAD + value * size) // PAGE_SIZE)
        value = ((PAGE_SIZE << (pages - 1).bit_length()) - _CMDLINES_HEAD) // size
    instance.cmdlines.resize(value)


def cpumask_text(instance: Instance) -> bytes:
    mask = sum(1 << cpu for cpu in range(instance.cpus) if cpu not in instance.masked)
    words = []
    for start in range(0, instance.cpus, 32):
        bits = min(32, instance.cpus - start)
        words.append(f"{mask >> start & (1 << bits) - 1:0{-(-bits // 4)}x}")
    text = ",".join(reversed(words)).encode() + b"\n"
    return text.ljust(instance.cpus + 1, b"\0") if instance.machine.gates.mask_padded else text


def _check_words(data: bytes) -> None:
    """Raise OSError EINVAL for nothing between two commas, and for a word with blanks (5.4.273)."""
    if not all(len(word.split()) == 1 for word in data.split(b",")):
        raise refuse(errno.EINVAL)


def put_cpumask(instance: Instance, data: bytes) -> None:
    """Take a mask in hexadecimal, 32 bits between commas, the lowest at the right (bitmap_parse)."""
    if not data:
        raise refuse(errno.EINVAL)
    if not instance.machine.gates.empty_masks:
        _check_words(data.partition(b"\0")[0])
    words = _CPUMASK_GAPS.split(data.partition(b"\n")[0].partition(b"\0")[0].strip(_CPUMASK_GAP))
    mask = 0
    for index, word in enumerate(reversed([word for word in words if word])):
        if index >= -(-instance.cpus // 32):
            raise refuse(errno.EOVERFLOW)
        if not _HEX.fullmatch(word[-8:]):
            raise refuse(errno.EINVAL)
        if len(word) > 8 and _HEX.fullmatch(word[-9:-8]):
            raise refuse(errno.EOVERFLOW)
        mask |= int(word[-8:], 16) << 32 * index
    if mask >> instance.cpus:
        raise refuse(errno.EOVERFLOW)
    instance.masked = frozenset(cpu for cpu in range(instance.cpus) if not mask >> cpu & 1)
