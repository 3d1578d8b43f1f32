"""The installed corpora, or one in a directory, and their entries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from kprobe_corpus.traces.archive import entries_of_archive, verified
from kprobe_corpus.traces.entry import DAT, DAT_TRUTH, FILES, CorpusError, Entry

GROUP = "kprobe.corpus"
SUMS = "SHA256SUMS"
SUFFIX = ".tar.xz"
_DIGITS = 1000  # of a number in a name: int() takes no more than some thousands
ABSENT = (
    "no corpus is installed: it comes in the distribution kprobe-corpus; in a checkout of kprobe-sim, "
    "`pip install ./distributions/kprobe-corpus` installs it (docs/start/install.md)"
)


class Corpus:
    """A corpus: archives with checksums, as a distribution brings them, or a directory of entries."""

    __slots__ = ("directory", "name", "version")

    def __init__(self, directory: str, name: str = "", version: str = "") -> None:
        self.directory = directory
        self.name = name or directory
        self.version = version

    def entries(self) -> Iterator[Entry]:
        """Yield all entries by kernel and name; raise `CorpusError` with the name of a damaged file."""
        archives = verified(self.directory, SUMS)
        if archives:
            found = [entry for path in archives for entry in entries_of_archive(path)]
            yield from sorted(found, key=lambda entry: (order(entry.kernel), entry.kernel, entry.name))
        else:
            yield from _in_directory(self.directory)


def corpora() -> list[Corpus]:
    """Return the corpora in installed distributions."""
    from importlib.metadata import entry_points

    found = []
    for point in entry_points(group=GROUP):
        if (directory := _package(point.value)) is not None:
            distribution = point.dist
            name, version = (distribution.name, distribution.version) if distribution else ("", "")
            found.append(Corpus(directory, name, version))
    return found


def entries(kernels: Iterable[str] = (), scenarios: Iterable[str] = (), *, directory: str | None = None) -> list[Entry]:
    """Return the entries of the installed corpora, or of a directory, by kernel and name.

    ``kernels`` and ``scenarios`` are shell patterns (``6.*``); by default all.  Those of scenarios match the entry's
    name or the scenario in its about.json.  Raise `CorpusError` if there is no corpus, nothing matches a pattern, or a
    file is damaged.
    """
    sources = corpora() if directory is None else [Corpus(directory)]
    if not sources:
        raise CorpusError(ABSENT)
    found = [entry for source in sources for entry in source.entries()]
    kernels, scenarios = list(kernels), list(scenarios)
    for pattern in kernels:
        if not any(_fits(entry.kernel, [pattern]) for entry in found):
            known = dict.fromkeys(entry.kernel for entry in found)
            raise CorpusError(f"the corpus has no kernel {pattern}; it has {', '.join(known)}")
    for pattern in scenarios:
        if not any(_is_of(entry, [pattern]) for entry in found):
            raise CorpusError(f"the corpus has no scenario {pattern}; `kprobe corpus list` shows those it has")
    chosen = [e for e in found if _fits(e.kernel, kernels) and _is_of(e, scenarios)]
    if not chosen:
        raise CorpusError(f"none of the kernels {' '.join(kernels)} has a scenario {' '.join(scenarios)}")
    return chosen


def _fits(name: str, patterns: list[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_of(entry: Entry, patterns: list[str]) -> bool:
    return _fits(entry.name, patterns) or _fits(str(entry.about.get("scenario")), patterns)


def _package(module: str) -> str | None:
    """Return the directory of a package without importing it; None if it isn't installed."""
    from importlib.util import find_spec

    spec = find_spec(module.strip())
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return places[0] if places else None


def _in_directory(directory: str) -> Iterator[Entry]:
    """Yield the entries below a directory; raise `CorpusError` if it has none."""
    if not os.path.isdir(directory):
        raise CorpusError(f"{directory}: there is no such directory")
    found = 0
    for kernel in sorted(os.listdir(directory), key=lambda name: (order(name), name)):
        place = os.path.join(directory, kernel)
        for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
            home = os.path.join(place, name)
            if os.path.isdir(home):
                found += 1
                yield Entry(kernel, name, _files(home), directory)
    if not found:
        raise CorpusError(f"{directory} holds no entries: each is a directory KERNEL/NAME with {', '.join(FILES)}")


def _files(home: str) -> dict[str, bytes]:
    files = {}
    for file in (*FILES, DAT, DAT_TRUTH):
        try:
            with open(os.path.join(home, file), "rb") as opened:
                files[file] = opened.read()
        except FileNotFoundError:
            continue  # the entry reports its missing files
        except OSError as error:
            raise CorpusError(f"{os.path.join(home, file)}: {error.strerror}") from error
    return files


def order(kernel: str) -> tuple[int, ...]:
    """Return the numbers that begin a kernel's name, so that 6.2 comes before 6.12."""
    numbers = []
    for part in kernel.split("."):
        digits = ""
        for letter in part:
            if letter not in "0123456789":
                break
            digits += letter
        if not digits:
            break
        numbers.append(int(digits[:_DIGITS]))
    return tuple(numbers)
