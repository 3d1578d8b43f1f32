"""The kernels for which an installed package offers a tracefs, and how a user's words select some of them.

They come from the entry points of the group kprobe.kernels: callables that return such kernels, oldest first, as values
with the attributes of `Kernel`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kprobe.errors import KprobeError, UnknownBackend

GROUP = "kprobe.kernels"
ALL = "all"


class UnknownKernel(KprobeError, ValueError):
    """No kernel has this name; `known` are the names that exist.

    `hint` says how to get that kernel, where known.
    """

    def __init__(self, name: str, known: Sequence[str], hint: str = "") -> None:
        there = f"there are: {', '.join(known) or 'none'}; or give a spec such as vm:6.1"
        super().__init__(f"no kernel {name!r}; {there}" + (f"\nhint: {hint}" if hint else ""))
        self.name = name
        self.hint = hint
        self.known = tuple(known)


class Kernel:
    """A kernel that can be opened."""

    __slots__ = ("flavour", "place", "release", "series", "spec")

    def __init__(self, spec: str, *, series: str = "", release: str = "", flavour: str = "", place: str = "") -> None:
        self.spec = spec  # the argument of `open_tracefs`: "sim:6.12"
        self.series = series  # the first two numbers of its version: "6.12"
        self.release = release  # uname -r: "6.12.117+deb13-cloud-amd64"
        self.flavour = flavour  # "cloud-amd64"
        self.place = place  # the source of its data: "package"

    def __repr__(self) -> str:
        return f"Kernel({self.spec!r}, release={self.release!r})"

    @property
    def name(self) -> str:
        """Return its spec without the backend, "6.12"; the full spec of a kernel that was chosen by it."""
        return self.spec.partition(":")[2] if self.release else self.spec


def kernels() -> list[Kernel]:
    """Return the kernels that can be opened without a machine, oldest first; none if no package offers any."""
    from kprobe_text.entry_points import entries

    return [
        Kernel(one.spec, series=one.series, release=one.release, flavour=one.flavour, place=one.place)
        for point in sorted(entries(GROUP), key=lambda point: point.name)
        for one in point.load()()
    ]


def chosen(words: str = ALL) -> list[Kernel]:
    """Return the kernels that comma-separated words mean; each once, in the order in which they are named.

    A word is a series ("6.12"), with a flavour ("6.12-rt-amd64"), a release, "all", or any backend spec ("vm:6.1").
    Any other word is left to the backend of that name: "3.13" is "sim:3.13".  Raise `UnknownKernel`.
    """
    known = kernels()
    found: dict[str, Kernel] = {}
    for word in words.split(","):
        for kernel in known if word == ALL else [_meant(word, known)]:
            found.setdefault(kernel.spec, kernel)
    if not found:
        raise UnknownKernel(words, [])
    return list(found.values())


def _meant(word: str, known: Sequence[Kernel]) -> Kernel:
    for kernel in known:
        if word in (kernel.spec, kernel.name, kernel.release, f"{kernel.series}-{kernel.flavour}"):
            return kernel
    if ":" in word:
        return Kernel(word)
    from kprobe_text.entry_points import names

    from .backends import check_spec

    hint = ""
    for backend in names(GROUP) if word else ():
        try:
            check_spec(f"{backend}:{word}")
        except (UnknownBackend, ValueError) as error:
            hint = hint or getattr(error, "hint", "")
        else:  # not listed, as little is known of it
            return Kernel(f"{backend}:{word}")
    raise UnknownKernel(word, [kernel.name for kernel in known], hint)
