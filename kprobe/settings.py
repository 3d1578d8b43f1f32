"""What a trace sets in the place where it works, beside its events."""

from __future__ import annotations

from .errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .instance import Instance
    from .terms import Terms

WORD = 32  # CPUs between two commas of a mask


def prepare(instance: Instance, terms: Terms, *, follows: bool) -> None:
    """Set it; `follows` if threads can be followed there.  Raise `Unsupported`, or what the kernel refuses."""
    if terms.follow:
        if not follows:
            raise Unsupported("way to follow forks here", "it needs pid, and an instance with set_event_pid")
        instance.set_option("event-fork", True)
    if terms.stacktrace or (instance.is_own and instance.state("options/stacktrace") == "1"):
        instance.set_option("stacktrace", terms.stacktrace)  # a new instance has the top level's options
    if terms.buffer_size is not None:
        instance.set_file("buffer_size_kb", str(terms.buffer_size), _size(instance))
    if terms.cpus is not None:
        cpus = sorted(set(terms.cpus))
        for cpu in cpus:
            if not instance.has(f"per_cpu/cpu{cpu}"):
                raise Unsupported(f"CPU {cpu}", f"there is no {instance.path(f'per_cpu/cpu{cpu}')}")
        instance.set_file("tracing_cpumask", mask(cpus), instance.state("tracing_cpumask"))


def _size(instance: Instance) -> str:
    """Return the buffer's size, which is the one that it gets as soon as it is used."""
    shown = instance.state("buffer_size_kb")
    size = shown.rpartition("(expanded: ")[2].rstrip(")")
    if not size.isdigit() and not instance.is_own:
        raise Unsupported(
            "one size of the CPUs' buffers",
            f"{instance.path('buffer_size_kb')} has {shown!r}, to which it can't be put back",
        )
    return size


def mask(cpus: Iterable[int]) -> str:
    """Return CPUs as the kernel writes a mask of them: 1,00000003."""
    bits = sum(1 << cpu for cpu in set(cpus))
    words: list[int] = []
    while bits or not words:
        words.append(bits & ((1 << WORD) - 1))
        bits >>= WORD
    return ",".join([f"{words[-1]:x}", *(f"{word:08x}" for word in reversed(words[:-1]))])
