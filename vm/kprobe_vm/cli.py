"""The command `kprobe-vm`: real Linux kernels in QEMU, for probes and their tests."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from kprobe_vm.commands import testrun
from kprobe_vm.commands.standard_files import relayed
from kprobe_vm.commands.words import Words, divided
from kprobe_vm.debian.lock import Lock, Locks
from kprobe_vm.debian.packages import version_key
from kprobe_vm.errors import MachineError, NoSuchKernel, NotReady
from kprobe_vm.host import programs
from kprobe_vm.host.accelerator import Verdict, kvm_trouble
from kprobe_vm.host.cache import Cache
from kprobe_vm.host.progress import ProgressPrinter, say
from kprobe_vm.images.kernels import Kernels, lock_name
from kprobe_vm.images.kerneltree import release_of

if TYPE_CHECKING:
    from kprobe_vm.commands.copies import Copy
    from kprobe_vm.machine.machine import Machine


VERBS = "kprobe_vm.verbs"  # entry points: functions that add a verb to the parser

EPILOG = """\
KERNEL is a series (6.1: the build that the lock file names), a release (6.1.0-56-cloud-amd64), or the path of a bzImage
or a vmlinux.
The exit status is CMD's own (128 plus the signal's number if one ended it), or says what happened to the machine:
  116 closed  117 agent gone  118 powered off  119 no boot in time  120 panic  121 oops  122 out of memory  123 hang
  124 QEMU died
or to work that many workers share:
  95 a part failed on all of them  96 scheduler gone  97 no workers  98 no scheduler
or what is wrong on the host:
  99 cache unsafe  101 agent not compiled  102 disk full  103 cache damaged  104 package damaged  105 bad signature
  106 archive not reached  107 not fetched  108 wrong architecture  109 kernel gone  110 no such kernel
  111 QEMU too old  112 Python package missing  113 no compiler  114 no QEMU  115 program missing  125 anything else"""


def _machine(options: argparse.Namespace, *, template: bool = False) -> Machine:
    from kprobe_vm.machine.machine import Machine  # needs the extra [vm]

    return Machine(
        options.kernel,
        cpus=options.cpus,
        memory=options.memory,
        progress=options.progress,
        packages=options.package,
        modules=options.modules,
        template=template,
        environment=options.environment,
    )


def _kernels(options: argparse.Namespace) -> Kernels:
    return Kernels(Cache.of(os.environ), options.progress, environment=options.environment)


def _list(options: argparse.Namespace) -> int:
    from kprobe_vm.commands import survey

    kernels = _kernels(options)
    offered = survey.builds(kernels, offline=options.offline)
    asked = set(options.series)
    rows = [row for row in survey.survey(kernels, offered) if (row.series in asked if asked else row.is_usual)]
    if options.builds:
        cells = [[row.series, locked.package.version, locked.suite] for row in rows for locked in row.offered]
        survey.table([["SERIES", "VERSION", "SUITE"], *cells], print)
    else:
        survey.table(survey.lines(rows), print)
    return 0


def _update(options: argparse.Namespace) -> int:
    from kprobe_vm.images.additions import forget

    environment = dict(options.environment)
    named = environment.pop("KPROBE_VM_LOCK", None)
    cache = Cache.of(environment)
    path = Path(named).expanduser() if named else None
    locks = Locks([*([Lock.read(path)] if path else []), *Locks.of(environment, cache).locks])
    kernels = Kernels(cache, options.progress, locks=locks, environment=environment)
    known = {lock_name(release_of(row.package)): row for row in kernels.locks.kernels()}
    rows, status = {}, 0
    for spec in options.series or sorted(known, key=version_key):
        series = lock_name(spec)
        try:
            rows[series] = new = kernels.newest(spec, at_most_old=0)
        except NoSuchKernel as error:
            say(f"kprobe-vm: {error}")
            status = error.exit_status
            continue
        old = locks.kernel(series)
        was = "new" if old is None else "as before" if old.package == new.package else f"was {old.package.version}"
        print(f"{series}\t{new.package.version}\t{was}")
    if not options.series:
        forget(cache)
    options.progress(f"written: {kernels.lock(rows, path)}")
    return status


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


def _copy_in(machine: Machine, options: argparse.Namespace) -> None:
    for copy in options.copy:
        copy.into(machine, options.progress)


def _run(options: argparse.Namespace) -> int:
    command = options.command
    if not command:
        say("kprobe-vm run: no command: kprobe-vm run KERNEL CMD ...")
        return 2
    from kprobe_vm.commands.absent import lacking  # needs the extra [vm]

    with _machine(options, template=not options.boot) as machine:
        _copy_in(machine, options)
        try:
            process = machine.start_process(command, capture=True, stdin=None)
        except OSError as error:
            reason = lacking(machine, command[0]) if isinstance(error, FileNotFoundError) else ""
            say(f"kprobe-vm: {command[0]}: {error.strerror}{reason and f': {reason}'}")
            return 127 if isinstance(error, FileNotFoundError) else 126
        status = relayed(process)
        if status == 127 and (reason := lacking(machine, command[0])):
            say(f"kprobe-vm: {reason}")
    return status if status >= 0 else 128 - status


def _shell(options: argparse.Namespace) -> int:
    from kprobe_vm.commands.shell import shell

    with _machine(options) as machine:
        _copy_in(machine, options)
        options.progress(f"a shell on {machine.release}; Ctrl-] leaves it")
        return shell(machine)


def _record(options: argparse.Namespace) -> int:
    if options.text or options.check:
        return _record_text(options)
    from kprobe_vm.recording.booted import record_answers, record_kernel  # needs the extra [vm]
    from kprobe_vm.recording.onefile import record_file

    if (options.into is None) == (options.output is None) or (options.answers and options.output):
        say("kprobe-vm record: either a DIRECTORY or -o FILE; --answers takes a DIRECTORY")
        return 2
    if options.answers:
        print(record_answers(options.kernel, options.into, modules=options.modules, progress=options.progress))
        return 0
    record = partial(
        record_kernel, options.kernel, modules=options.modules, config=options.config, progress=options.progress
    )
    print(record(options.into) if options.into else record_file(record, options.output))
    return 0


def _record_text(options: argparse.Namespace) -> int:
    """Record text for the corpus, or report what changed in it; return 1 if anything did."""
    from kprobe_vm.traces import check, corpus  # needs the extra [vm]

    into = options.output or options.into
    if not options.text or options.answers or (options.output and options.into) or not (into or options.check):
        say("kprobe-vm record: --text takes -o DIRECTORY, --text --check at most a DIRECTORY")
        return 2
    if not options.check:
        for name in corpus.write_down(options.kernel, into, options.progress, modules=options.modules):
            print(into / options.kernel / name)
        return 0
    before = check.model(corpus.entries_in(into), options.kernel)
    after = list(corpus.recorded(options.kernel, options.progress, modules=options.modules))
    changes = list(check.changes(before, after))
    was = before[0]
    print(f"{after[0].about['release']} against {was.about['release']} of the corpus: {len(after)} texts")
    print("\n".join(changes) if changes else "nothing changed")
    return 1 if changes else 0


def _check(options: argparse.Namespace) -> int:
    """Name the missing Debian packages in one line, and the missing Python packages in another."""
    if lacking := programs.missing(os.environ):
        names = ", ".join(program.name for program in lacking)
        packages = " ".join(dict.fromkeys(" ".join(program.packages for program in lacking).split()))
        print(f"missing: {names}; to get them: apt-get install {packages}")
    if absent := programs.missing_python():
        print(f"missing: the Python packages {', '.join(absent)}; to get them: pip install 'kprobe-sim[vm]'")
    if lacking or absent:
        return 1
    path, version = programs.qemu()
    cache = Cache.of(os.environ)
    verdict = Verdict(cache, version).read()
    kvm = {None: "not tried yet", True: "works", False: "opens but runs no kernel"}[verdict]
    trouble = kvm_trouble()
    print(f"{path} {version}; KVM: {f'{trouble}, so guests are emulated' if trouble else kvm}")
    if options.cache:
        damaged = _kernels(options).drop_damaged()
        for name in damaged:
            print(f"damaged, and removed: {name}")
        return 1 if damaged else 0
    return 0


def _copy(text: str) -> Copy:
    from kprobe_vm.commands.copies import Copy

    try:
        return Copy.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class _Version(argparse.Action):
    """Prints the version, which takes a while to find."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from kprobe_vm import __version__

        print(parser.prog.split()[0], __version__, flush=True)  # without the verb
        parser.exit()


def _parser() -> Words:
    raw = argparse.RawDescriptionHelpFormatter
    parser = Words(prog="kprobe-vm", description=__doc__, epilog=EPILOG, formatter_class=raw)
    parser.add_argument("-q", "--quiet", action="store_true", help="print no progress messages")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    source = Words(add_help=False)
    source.add_argument("--index", metavar="URL", help="a package archive to use without apt ($KPROBE_VM_INDEX)")
    source.add_argument(
        "--keyring", metavar="FILE", help="the keys that the archive is signed with ($KPROBE_VM_KEYRING)"
    )
    source.add_argument("--lock", metavar="PATH", help="a lock file, read before your own ($KPROBE_VM_LOCK)")
    alone = Words(add_help=False)
    alone.add_argument(
        "--modules",
        type=Path,
        metavar="DIR",
        help="where KERNEL is a path: the directory of its modules, with its virtio drivers (default: this host's)",
    )
    machine = Words(add_help=False, parents=[source, alone])
    machine.add_argument("--cpus", type=int, default=1, metavar="N", help="the guest's number of CPUs (1)")
    machine.add_argument("--memory", type=int, default=256, metavar="MIB", help="the guest's memory (256)")
    machine.add_argument(
        *("--package", "-p"),
        action="append",
        default=[],
        metavar="NAME",
        help="install a Debian package in the guest, with its dependencies; =NAME: without them",
    )
    machine.add_argument(
        "--copy",
        type=_copy,
        action="append",
        default=[],
        metavar="HOST:GUEST",
        help="copy a file or directory into the guest",
    )

    verb = verbs.add_parser("list", parents=[source], help="list the kernels that are offered, locked and cached")
    verb.add_argument("series", nargs="*", metavar="SERIES", help="only these series")
    verb.add_argument("--offline", action="store_true", help="without the network: show what was last known")
    verb.add_argument("--builds", action="store_true", help="list every build that is offered")
    verb.set_defaults(function=_list)
    verb = verbs.add_parser("update", parents=[source], help="lock the newest kernels")
    verb.add_argument(
        "series", nargs="*", metavar="SERIES", help="a series or a release (default: all that are locked)"
    )
    verb.set_defaults(function=_update)
    verb = verbs.add_parser("boot", parents=[machine], help="fetch and boot a kernel, print its version, and stop it")
    verb.add_argument("kernel", nargs="?", default="6.1", metavar="KERNEL")
    verb.add_argument("--stay", action="store_true", help="leave it running until Ctrl-C")
    verb.set_defaults(function=_boot)
    usage = "kprobe-vm run KERNEL [OPTION ...] CMD ..."
    verb = verbs.add_parser("run", parents=[machine], help="run a command in a guest", usage=usage)
    verb.add_argument("kernel", metavar="KERNEL")
    verb.add_argument("--boot", action="store_true", help="boot the guest instead of cloning one that has just booted")
    verb.set_defaults(function=_run)
    verb = verbs.add_parser("shell", parents=[machine], help="open a shell in a guest, on this terminal")
    verb.add_argument("kernel", nargs="?", default="6.1", metavar="KERNEL")
    verb.set_defaults(function=_shell)
    verb = verbs.add_parser("record", parents=[alone], help="record a kernel's profile for the simulator")
    verb.add_argument("kernel", metavar="KERNEL")
    verb.add_argument("into", nargs="?", type=Path, metavar="DIRECTORY", help="where to make the profile's directory")
    verb.add_argument(*("-o", "--output"), type=Path, metavar="FILE", help="write one file (RELEASE.kprofile) instead")
    verb.add_argument(
        "--config", type=Path, metavar="FILE", help="the kernel's configuration (config-RELEASE beside its image)"
    )
    verb.add_argument(
        "--text", action="store_true", help="record trace text with its truth, below DIRECTORY/KERNEL, for the corpus"
    )
    verb.add_argument(
        "--check",
        action="store_true",
        help="with --text: report what differs from the corpus, or from the one in DIRECTORY",
    )
    verb.add_argument(
        "--answers", action="store_true", help="for an existing profile: only ask the gates' questions again"
    )
    verb.set_defaults(function=_record)
    testrun.add_parser(verbs, source)
    for point in entry_points(group=VERBS):  # of packages that compare kernels
        point.load()(verbs)
    verb = verbs.add_parser("check", help="say what is missing for guests, and how to get it; status 1 if anything is")
    verb.add_argument("--cache", action="store_true", help="check everything in the cache, and remove what is damaged")
    verb.set_defaults(function=_check)
    for verb in verbs.choices.values():
        verb.add_argument("--version", action=_Version, nargs=0, help=argparse.SUPPRESS)
    return parser


def _fill_standard_files() -> bool:
    """Open the standard files that the process lacks (`>&-`): QEMU or a download must not become its stdout.

    Return False if it was started without a stdout.
    """
    has_output = sys.stdout is not None
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            os.dup2(opened, number)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    return has_output


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    # verbs that only print
    if not _fill_standard_files() and next((w for w in words if w[:1] != "-"), "") in ("", "list", "check"):
        say("kprobe-vm: standard output is closed: there is nowhere to print to")
        return 2
    if "_ARGCOMPLETE" in os.environ:
        from kprobe_vm.completion import complete

        return complete(_parser())
    parser = _parser()
    try:
        own, command = divided(words, "run", parser.verbs["run"])
        options = parser.read(own)
        options.command = command
        options.progress = (lambda _line: None) if options.quiet else ProgressPrinter()
        sources = {f"KPROBE_VM_{name.upper()}": getattr(options, name, None) for name in ("index", "keyring", "lock")}
        options.environment = os.environ | {name: value for name, value in sources.items() if value}
        status = int(options.function(options))
        sys.stdout.flush()
        return status
    except MachineError as error:
        say(f"kprobe-vm: {error}")
        return error.exit_status
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # print nothing more, not even at exit
        return 128 + signal.SIGPIPE
    except OSError as error:  # a file that is to be copied, or a full disk below standard output
        stream = error.filename or "standard output"
        is_stream = error.errno == errno.ENOSPC and stream in ("standard output", "standard error")
        say(f"kprobe-vm: {f'{stream}: {error.strerror}' if is_stream else error}")
        if error.errno == errno.ENOSPC:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NotReady.exit_status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
