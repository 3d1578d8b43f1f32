"""The kernels, options and clocks with which a scenario is rendered: those asked for, and those available."""

from __future__ import annotations

from collections.abc import Sequence

from kprobe_sim.builds.profile import Profile
from kprobe_sim.kernel.kernels import kernels

# each of them changes the text; "+": set together
OPTIONS = (
    *("noirq-info", "nocontext-info", "record-tgid", "record-tgid+noirq-info", "norecord-cmd"),
    *("latency-format", "latency-format+noirq-info", "latency-format+verbose", "verbose"),
    *("stacktrace", "stacktrace+sym-offset", "stacktrace+sym-addr", "userstacktrace", "sym-addr", "sym-offset"),
    *("fields", "raw", "hex", "bin", "printk-msg-only", "noannotate", "nohash-ptr"),
)


def lacks(build: Profile, options: Sequence[str], clock: str) -> str:
    """Return the first of the options, or the clock, that a kernel hasn't, as "option 'fields'"; empty: it has all."""
    there = {name for name, _ in build.options}
    for option in options:
        if option not in there and option.removeprefix("no") not in there:
            return f"option {option!r}"
    return "" if clock in build.clocks else f"clock {clock!r}"


def chosen_kernels(text: str) -> list[str]:
    """Return the kernels that "all" or "5.10,6.1" means, as short as they can be named, oldest first."""
    if text == "all":
        return [kernel.spec.removeprefix("sim:") for kernel in kernels()]
    return _words(text, "kernel")


def chosen_options(text: str) -> list[tuple[str, ...]]:
    """Return the sets of options that "all" or "a,b,a+b" means; "default", and nothing, is none set."""
    if text == "all":
        return [(), *(tuple(one.split("+")) for one in OPTIONS)]
    sets = [tuple(word.split("+")) for word in _words(text, "option")] if text else [()]
    return [() if one == ("default",) else one for one in sets]


def chosen_clocks(text: str, build: Profile) -> list[str]:
    """Return the clocks that "all" or "local,tai" means on a kernel."""
    return list(build.clocks) if text == "all" else _words(text, "clock")


def _words(text: str, what: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise ValueError(f"no {what} between two commas: {text!r}")
    return words
