"""Developers run `make vm-scenarios` when text changes: all shipped scenarios on guests and simulators, each option.

Usage: scenarios.py [--options O] [--only NAME,NAME] [KERNEL ...]; without a KERNEL it is all of the lock.  It shows the
differences and names what can't be played.  The last line for each kernel says how many texts were compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from kprobe_lab.scenarios.stage import Stage, Unplayable
from kprobe_sim.builds import profile
from kprobe_sim.scenarios.choices import chosen_options, lacks
from kprobe_sim.scenarios.shipped import load, names
from kprobe_vm.debian.lock import shipped


def main(words: Sequence[str]) -> int:
    """Hold kernels; return 0 if all texts are the same."""
    parser = argparse.ArgumentParser("scenarios.py")
    parser.add_argument("--options", default="all")
    parser.add_argument("--only", default="")
    parser.add_argument("kernels", nargs="*")
    arguments = parser.parse_args(words)
    failed = False
    for kernel in arguments.kernels or list(shipped().kernels):
        failed |= bool(hold(kernel, arguments.options, arguments.only.split(",") if arguments.only else names()))
    return int(failed)


def hold(kernel: str, wanted: str, scenarios: Sequence[str]) -> list[str]:
    """Compare a kernel's texts of scenarios; return what differs, after saying it."""
    build, started = profile.load(kernel), time.monotonic()
    sets = [options for options in chosen_options(wanted) if not lacks(build, options, "local")]
    count = chance = 0
    differing: list[str] = []
    left_out: list[str] = []
    with Stage(kernel) as stage:
        for name in scenarios:
            try:
                for options, found, tries in stage.hold(load(name), sets):
                    count += 1
                    if found:
                        differing.append(f"{kernel} {name} {'+'.join(options) or 'default'}: {found}")
                        print(differing[-1], flush=True)
                    chance += tries > 1 and not found
            except Unplayable as reason:
                left_out.append(name)
                print(f"{kernel} {name} isn't played: {reason}", flush=True)
            except ValueError as error:
                differing.append(f"{kernel} {name}: {error}")
                print(differing[-1], flush=True)
    print(
        f"{build.release}: {len(scenarios) - len(left_out)} scenarios, {count} texts, {len(differing)} differ, "
        f"{chance} once by chance, {len(left_out)} scenarios not played, {time.monotonic() - started:.0f} s",
        flush=True,
    )
    return differing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
