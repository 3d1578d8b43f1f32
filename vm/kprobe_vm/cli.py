"""The command `kprobe-vm`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kprobe_vm import programs
from kprobe_vm.accelerator import Verdict, can_open_kvm
from kprobe_vm.cache import Cache
from kprobe_vm.errors import MachineError
from kprobe_vm.kernels import SERIES, Kernels
from kprobe_vm.machine import Machine

__all__ = ["main"]

EPILOG = """\
KERNEL is a series (6.1: the newest that Debian has), a release (6.1.0-54-cloud-amd64), or a path to a bzImage or a
vmlinux.
The exit status is CMD's own (128 and its signal if one ended it), or what became of the machine:
125 the host lacks something, 119 no boot in time, 120 panic, 121 oops, 122 out of memory, 123 hang, 124 QEMU died,
118 powered off, 117 agent gone."""


def _progress(line: str) -> None:
    print(f"kprobe-vm: {line}", file=sys.stderr, flush=True)


def _machine(options: argparse.Namespace) -> Machine:
    return Machine(options.kernel, cpus=options.cpus, memory=options.memory, progress=options.progress)


def _list(options: argparse.Namespace) -> int:
    kernels = Kernels(Cache.of(os.environ), options.progress)
    cached: dict[str, list[str]] = {}
    for kernel in kernels.cached():
        cached.setdefault(kernel.series, []).append(kernel.release)
    for row in SERIES:
        columns = [row.name, "+".join(row.suites), "cached: " + ", ".join(cached.pop(row.name, ["-"]))]
        if options.offers:
            offers = kernels.offers(row.name)
            columns.append("newest: " + (offers[-1][1].version if offers else "gone"))
        print("\t".join(columns))
    for series, releases in cached.items():
        print("\t".join([series, "-", "cached: " + ", ".join(releases)]))
    return 0


def _boot(options: argparse.Namespace) -> int:
    start = time.monotonic()
    with _machine(options) as machine:
        print(f"{machine.release} {machine.version}", flush=True)
        up = time.monotonic() - start
        options.progress(f"up in {up:.1f} s on {machine.accelerator}, console in {machine.boot.console.file}")
        if options.stay:
            options.progress("Ctrl-C ends it")
            while machine.channel.failure is None:
                machine.tracefs.ping()
                time.sleep(1)
    return 0


def _run(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        print("kprobe-vm run: no command", file=sys.stderr)
        return 2
    with _machine(options) as machine:
        try:
            process = machine.start_process(command, capture=True)
        except OSError as error:
            print(f"kprobe-vm: {command[0]}: {error.strerror}", file=sys.stderr)
            return 127 if isinstance(error, FileNotFoundError) else 126
        status = process.relay(_write_to(sys.stdout.fileno()), _write_to(sys.stderr.fileno()))
    return status if status >= 0 else 128 - status


class _write_to:  # noqa: N801 - a function with its descriptor bound
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __call__(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.descriptor, data) :]


def _shell(options: argparse.Namespace) -> int:
    from kprobe_vm.shell import shell

    with _machine(options) as machine:
        options.progress(f"a shell on {machine.release}; Ctrl-] leaves it")
        return shell(machine)


def _record(options: argparse.Namespace) -> int:
    from kprobe_vm.record import record

    print(record(options.kernel, options.into, config=options.config, progress=options.progress))
    return 0


def _check(_options: argparse.Namespace) -> int:
    lacking = programs.missing()
    for error in lacking:
        print(error)
    if lacking:
        return 1
    try:
        path, version = programs.qemu()
    except MachineError as error:
        print(error)
        return 1
    verdict = Verdict(Cache.of(os.environ), version).read()
    kvm = {None: "not tried yet", True: "works", False: "opens but runs no kernel"}[verdict]
    print(f"{path} {version}; KVM: {kvm if can_open_kvm() else 'not there, so guests are emulated'}")
    return 0


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="kprobe-vm", description=__doc__, epilog=EPILOG, formatter_class=raw)
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing of what is being done")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    machine = argparse.ArgumentParser(add_help=False)
    machine.add_argument("--cpus", type=int, default=1, metavar="N")
    machine.add_argument("--memory", type=int, default=256, metavar="MIB")

    verb = verbs.add_parser("list", help="the kernel series, and which are cached")
    verb.add_argument("--offers", action="store_true", help="also ask the archive for the newest of each")
    verb.set_defaults(function=_list)
    verb = verbs.add_parser("boot", parents=[machine], help="fetch and boot a kernel, say which it is, and end it")
    verb.add_argument("kernel", nargs="?", default="6.1", metavar="KERNEL")
    verb.add_argument("--stay", action="store_true", help="leave it running until Ctrl-C")
    verb.set_defaults(function=_boot)
    verb = verbs.add_parser("run", parents=[machine], help="run a command in a guest")
    verb.add_argument("kernel", metavar="KERNEL")
    verb.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD ...")
    verb.set_defaults(function=_run)
    verb = verbs.add_parser("shell", parents=[machine], help="a shell in a guest, on this terminal")
    verb.add_argument("kernel", nargs="?", default="6.1", metavar="KERNEL")
    verb.set_defaults(function=_shell)
    verb = verbs.add_parser("record", help="write down a kernel's profile for the simulator")
    verb.add_argument("kernel", metavar="KERNEL")
    verb.add_argument("into", type=Path, metavar="DIRECTORY")
    verb.add_argument("--config", type=Path, help="the kernel's configuration file")
    verb.set_defaults(function=_record)
    verb = verbs.add_parser("check", help="one line for each thing that is missing; status 1 if any is")
    verb.set_defaults(function=_check)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(argv)
    options.progress = (lambda _line: None) if options.quiet else _progress
    try:
        return int(options.function(options))
    except MachineError as error:
        print(f"kprobe-vm: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
