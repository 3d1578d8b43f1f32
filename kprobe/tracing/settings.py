"""The settings that a trace changes in its instance, besides its events."""

from __future__ import annotations

from kprobe.errors import Unsupported
from kprobe.kernel.denial import denied
from kprobe.tracefs.value import known_value
from kprobe.undo.processes import PROC
from kprobe.undo.top_files import TopFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from kprobe.definitions.terms import Terms
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.instance import Instance
    from kprobe.undo.undo import Undo

WORD = 32  # CPUs between two commas of a mask


class Settings:
    """Sets options and files of an instance; at the top level the undo restores old values, which markers keep.

    `proc` is where this machine's processes are listed.
    """

    def __init__(self, tracefs: Tracefs, undo: Undo, instance: Instance, proc: str = PROC) -> None:
        self._tracefs = tracefs
        self._undo = undo
        self._instance = instance
        self._proc = proc

    def prepare(self, terms: Terms, *, follows: bool) -> None:
        """Apply the trace's settings; `follows` if threads can be followed there.

        Raise `Unsupported`, `Busy` if another session has set another value, or the kernel's refusal.
        """
        instance = self._instance
        if terms.follow:
            if not follows:
                raise Unsupported("way to follow forks here", "it needs pid, and an instance with set_event_pid")
            self._set_option("event-fork", True)
        if terms.stacktrace or (instance.is_own and instance.state("options/stacktrace") == "1"):
            self._set_option("stacktrace", terms.stacktrace)  # a new instance has the top level's options
        if terms.buffer_size is not None:
            self._need("buffer_size_kb", "choice of the buffers' size")
            self._set_file("buffer_size_kb", str(terms.buffer_size), _size(instance))
        if terms.cpus is not None:
            self._need("tracing_cpumask", "choice of CPUs")
            cpus = sorted(set(terms.cpus))
            for cpu in cpus:
                if not instance.has(f"per_cpu/cpu{cpu}"):
                    raise Unsupported(f"CPU {cpu}", f"there is no {instance.path(f'per_cpu/cpu{cpu}')}")
            self._set_file("tracing_cpumask", mask(cpus), instance.state("tracing_cpumask"))

    def _need(self, name: str, feature: str) -> None:
        if not self._instance.has(name):
            raise Unsupported(feature, f"there is no {self._instance.path(name)}")

    def _set_option(self, name: str, is_on: bool) -> None:
        """Set an option.

        Instances before Linux 4.4 have no options: those of the top level apply to all, and are set there.
        """
        instance, file = self._instance, f"options/{name}"
        is_own, old = instance.is_own, instance.state(file)
        if not old and is_own and not instance.has("options"):
            is_own, old = False, known_value(self._tracefs, file)
        path = instance.path(file) if is_own else file
        new = "1" if is_on else "0"
        if not old:
            raise Unsupported(f"option {name}", f"{path} can't be read")
        if old != new and instance.is_own and not is_own:
            instance.doubts += (
                f"instances have no options on this kernel: {name} is set for everybody while this lasts",
            )
        if old != new or not is_own:
            self._set(path, new, None if is_own else old)

    def _set_file(self, name: str, new: str, old: str) -> None:
        """Write to a file."""
        instance = self._instance
        if not instance.is_own and not old:
            raise Unsupported(f"{name} that can be restored", f"{instance.path(name)} can't be read")
        self._set(instance.path(name), new, None if instance.is_own else old)

    def _set(self, path: str, new: str, old: str | None) -> None:
        """Write to a file; `old` is what the undo writes, None in an instance, whose removal undoes it."""
        instance = self._instance
        if old is not None:
            doubt = TopFile(self._tracefs, self._undo, instance.session, path, self._proc).set(new, old)
            instance.doubts += (doubt,) if doubt else ()
            return
        try:
            self._tracefs.write(path, new.encode() + b"\n")
        except OSError as error:
            raise denied(self._tracefs, path, error) from error


def _size(instance: Instance) -> str:
    """Return the buffer's size once it is used."""
    shown = instance.state("buffer_size_kb")
    size = shown.rpartition("(expanded: ")[2].rstrip(")")
    if not size.isdigit() and not instance.is_own:
        raise Unsupported(
            "one size of the CPUs' buffers",
            f"{instance.path('buffer_size_kb')} has {shown!r}, which can't be restored",
        )
    return size


def mask(cpus: Iterable[int]) -> str:
    """Return CPUs as a mask in the kernel's format: 1,00000003."""
    bits = sum(1 << cpu for cpu in set(cpus))
    words: list[int] = []
    while bits or not words:
        words.append(bits & ((1 << WORD) - 1))
        bits >>= WORD
    return ",".join([f"{words[-1]:x}", *(f"{word:08x}" for word in reversed(words[:-1]))])
