"""The kernels, options and clocks to render a scenario with: the requested and the available ones."""

from __future__ import annotations

from collections.abc import Sequence

from kprobe_sim.builds.profile import Profile
from kprobe_sim.kernel.kernels import kernels

# each changes the text; "+" joins options that are set together
OPTIONS = (
    *("noirq-info", "nocontext-info", "record-tgid", "record-tgid+noirq-info", "norecord-cmd"),
    *("latency-format", "latency-format+noirq-info", "latency-format+verbose", "verbose"),
    *("stacktrace", "stacktrace+sym-offset", "stacktrace+sym-addr", "userstacktrace", "sym-addr", "sym-offset"),
    *("fields", "raw", "hex", "bin", "printk-msg-only", "noannotate", "nohash-ptr"),
)


def lacks(build: Profile, options: Sequence[str], clock: str) -> str:
    """Return the first option, or the clock, that a kernel lacks, as "option 'fields'"; "" if it has all."""
    available = {name for name, _ in build.options}
    for option in options:
        if option not in available and option.removeprefix("no") not in available:
            return f"option {option!r}"
    return "" if clock in build.clocks else f"clock {clock!r}"


def chosen_kernels(text: str) -> list[str]:
    """Return the kernels that "all" or "5.10,6.1" means, by their shortest names, oldest first."""
    if text == "all":
        return [kernel.spec.removeprefix("sim:") for kernel in kernels()]
    return _words(text, "kernel")


def chosen_options(text: str) -> list[tuple[str, ...]]:
    """Return the sets of options that "all" or "a,b,a+b" means; "default" and "" mean the empty set."""
    if text == "all":
        return [(), *(tuple(words.split("+")) for words in OPTIONS)]
    sets = [tuple(word.split("+")) for word in _words(text, "option")] if text else [()]
    return [() if options == ("default",) else options for options in sets]


def chosen_clocks(text: str, build: Profile) -> list[str]:
    """Return the clocks that "all" or "local,tai" means on a kernel."""
    return list(build.clocks) if text == "all" else _words(text, "clock")


def _words(text: str, what: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise ValueError(f"no {what} between two commas: {text!r}")
    return words
