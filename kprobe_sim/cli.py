"""The command `kprobe-sim`: runs programs on a simulated kernel."""

from __future__ import annotations

import argparse
import gc
import os
import sys

from kprobe_sim.standard_files import fill, say, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

    from kprobe_sim.kernel.backend import SimBackend
else:
    import _signal as signal  # the module signal would make enums, which takes a while

OK, USAGE_ERROR = 0, 2
NOT_CLEAN = 122  # the command left something or removed what wasn't its own; all else went well
ACTIVITY_FAILED = 123  # a call of the activity failed; the command went well


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Without `argv` it takes the command line of this process, which ends afterwards: what is loaded stays until then, so
    Python's garbage collector skips it, which saves a tenth of a short run.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not fill() and words[:1] not in (["run"], ["mount"]):
        say("kprobe-sim: standard output is closed: there is nowhere to print to")
        return USAGE_ERROR
    if "_ARGCOMPLETE" in os.environ:
        from kprobe_sim.completion import complete

        return complete(_parser())
    if argv is not None:
        return _command(words, lambda: None)
    gc.disable()
    if words[:1] in (["run"], ["mount"]):
        _end_by_interrupt()
    try:
        return _command(words, _keep)
    finally:
        gc.freeze()


def _end_by_interrupt() -> None:
    """Make Ctrl-C end this process at once until a run or a mount handles it: there is nothing to undo before.

    A KeyboardInterrupt within a callback, such as those of the import system, would be printed and ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _keep() -> None:
    """Make the garbage collector ignore everything made so far."""
    gc.freeze()
    gc.enable()


def _command(argv: list[str], loaded: Callable[[], None]) -> int:
    """Run the command; call `loaded` when the machine exists and its work begins."""
    parser = _parser()
    arguments = parser.read(argv)
    verb: str = arguments.verb
    verb_parser = parser.verbs[verb]
    if verb == "profiles":
        return _profiles(verb_parser, arguments)
    if verb == "text":
        from kprobe_sim.scenarios.command import run as run_text

        return run_text(verb_parser, arguments)
    if verb == "replay":
        from kprobe_sim.scenarios.replays.command import replay

        if arguments.document is None and not arguments.list:
            verb_parser.error("a DOCUMENT is needed: kprobe-sim replay --list")
        return replay(arguments.document, arguments.listing, is_list=arguments.list, is_fast=arguments.fast)
    if verb == "record-local":
        from kprobe_sim.local_recording import record_local

        return record_local(arguments.output, arguments.config, arguments.yes)
    command: list[str] = arguments.command[arguments.command[:1] == ["--"] :] if verb == "run" else []
    if verb == "run" and not command:
        verb_parser.error("a COMMAND is needed: kprobe-sim run -- COMMAND...")
    return _on_machine(arguments, command, loaded)


def _on_machine(arguments: argparse.Namespace, command: Sequence[str], loaded: Callable[[], None]) -> int:
    """Run or mount; return the exit status of the command, or else of the activity, or else of the check."""
    from kprobe_sim.expose.fuse.mount import CannotMount

    failed: list[str] = []

    def report(failure: str) -> None:
        failed.append(failure)
        say(f"kprobe-sim: {failure}")

    try:
        machine = _machine(arguments, report)
    except (OSError, ValueError) as error:
        say("\n".join(f"kprobe-sim: {line}" for line in str(error).splitlines()))
        return USAGE_ERROR
    try:
        if arguments.verb == "run":
            status, is_clean = _run(machine, command, arguments, loaded)
        else:
            status, is_clean = _mount(machine, arguments.directory, loaded), True
        machine.close()
        return status or (ACTIVITY_FAILED if failed else OK if is_clean else NOT_CLEAN)
    except CannotMount as error:
        say(f"kprobe-sim: {arguments.verb}: {error}")
        return 125
    finally:
        machine.close()


class _Help(argparse.HelpFormatter):
    """Finds the terminal's width like shutil, whose import takes as long as the rest of the command line."""

    def __init__(self, prog: str) -> None:
        try:
            columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(1).columns
        except (OSError, ValueError):
            columns = 0
        super().__init__(prog, width=(columns or 80) - 2)


class _CommandLine(argparse.ArgumentParser):
    """Reports a wrong word in one line, with the word that was probably meant, and where help is."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, formatter_class=_Help, **options)

    @property
    def verbs(self) -> dict[str, _CommandLine]:
        """The parsers of the verbs, by name."""
        return dict(next(each.choices for each in self._actions if isinstance(each, argparse._SubParsersAction)))

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words of the command; a wrong word ends the process, as with argparse."""
        verb = next((word for word in words if not word.startswith("-")), "")
        if verb and verb not in self.verbs:
            self.error(f"no verb {verb!r}{_near(verb, self.verbs) or ': ' + ', '.join(self.verbs)}")
        arguments, unknown = self.parse_known_args(words)
        if unknown:
            parser = self.verbs[arguments.verb]
            options = [name for action in parser._actions for name in action.option_strings]
            is_option = unknown[0].startswith("-")
            meant = _near(unknown[0].partition("=")[0], options) if is_option else ""
            parser.error(f"{'unknown option' if is_option else 'one word too many:'} {unknown[0]}{meant}")
        return arguments

    def error(self, message: str) -> NoReturn:
        """End the process with status 2."""
        self.exit(2, f"{self.prog}: {message}\n{self.prog} --help explains\n")


def _near(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    matches = get_close_matches(word, list(known), 1)
    return f"; did you mean {matches[0]}?" if matches else ""


class _Version(argparse.Action):
    """Prints the version, and finds it only then, which takes a while."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from kprobe_sim import __version__

        parser.exit(show(f"{parser.prog.split()[0]} {__version__}"))  # without the verb


def _parser() -> _CommandLine:
    parser = _CommandLine("kprobe-sim", description="Run programs on a simulated kernel's tracefs.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    run = verbs.add_parser(
        "run",
        help="run a command that sees a simulated /sys/kernel/tracing; needs no root",
        usage="kprobe-sim run [--kernel K] [--activity A] -- COMMAND...",
        description="Run a command that sees a simulated /sys/kernel/tracing, and exit with its status.",
    )
    mount = verbs.add_parser(
        "mount",
        help="mount a simulated tracefs on a directory, until Ctrl-C",
        description="Mount a simulated tracefs on a directory, and unmount it on SIGINT, SIGTERM or SIGHUP.",
    )
    for verb in (run, mount):
        verb.add_argument(
            "--kernel", default="", metavar="K", help="a release, a series such as 6.1, or a profile (default: newest)"
        )
        verb.add_argument(
            "--activity",
            default="opens",
            metavar="A",
            help="what the simulated machine does: a TOML file (its path has a / or ends in .toml), a built-in name, "
            "or none (default: %(default)s)",
        )
        verb.add_argument(
            "--cpus", type=int, metavar="N", help="number of CPUs (default: as recorded, or what the activity needs)"
        )
    run.add_argument(
        "--follow",
        action="store_true",
        help="the command's own opens, forks, execs and exits happen on the simulated machine, too",
    )
    run.add_argument(
        "--only-tracefs",
        action="store_true",
        help="simulate the tracefs only: uname, /proc/kallsyms, /proc/sys and the like stay this machine's",
    )
    run.add_argument(
        "--check-clean",
        action="store_true",
        help="look afterwards whether the command left anything in the tracefs, or took away what wasn't its own; "
        "the exit status is 122 then, if the command's is 0",
    )
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments")
    mount.add_argument("directory", metavar="DIR", help="an existing directory")
    profiles = verbs.add_parser(
        "profiles",
        help="list the kernels that can be simulated, and the built-in activities; pack and fetch profiles",
        description="List the kernels that can be simulated, and the built-in activities.",
    )
    profiles.add_argument(
        "--pack", metavar="K", help="write a kernel's profile, or the one in a directory, as one file"
    )
    profiles.add_argument(
        "-o", "--output", metavar="FILE", help="with --pack: the file to write (default: RELEASE.kprofile)"
    )
    profiles.add_argument(
        "--fetch", metavar="SOURCE", help="copy profiles from a file, directory or URL to your own profiles"
    )
    profiles.add_argument(
        "names", nargs="*", metavar="NAME", help="with --fetch: only these releases or series of the source"
    )
    shown = verbs.add_parser(
        "replay",
        help="show the listings of five well-known documents: what was typed, and what was printed",
        description="Replay a document's listings on the kernels of its time, at the pace of their timestamps.",
    )
    shown.add_argument("--list", action="store_true", help="list documents and listings")
    shown.add_argument("--fast", action="store_true", help="print everything at once, without the pauses")
    shown.add_argument("document", nargs="?", metavar="DOCUMENT", help="the document's name")
    shown.add_argument("listing", nargs="?", metavar="LISTING", help="a listing's name or number (default: all)")
    local = verbs.add_parser(
        "record-local",
        help="record the kernel of this machine; needs root",
        description="Record the running kernel's profile through this machine's tracefs, then restore the tracefs.",
    )
    local.add_argument(
        "-o",
        "--output",
        default=".",
        metavar="DIR|FILE",
        help="the directory to write to, or the profile's file: NAME.kprofile",
    )
    local.add_argument("--config", default="", metavar="FILE", help="the kernel's configuration file")
    local.add_argument("--yes", action="store_true", help="ask nothing")
    _text(verbs)
    for verb in verbs.choices.values():
        verb.add_argument("--version", action=_Version, nargs=0, help=argparse.SUPPRESS)
    return parser


def _text(verbs: argparse._SubParsersAction[_CommandLine]) -> None:
    text = verbs.add_parser(
        "text",
        help="print the trace text of one scenario as each kernel prints it, with its true contents",
        description="Print the trace text of one scenario as each kernel prints it, with its true contents.",
    )
    text.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="a TOML file (its path has a / or ends in .toml), or a name"
    )
    text.add_argument("--list", action="store_true", help="list the available scenarios")
    text.add_argument("--kernels", default="", metavar="K", help="all, or 5.10,6.1 (default: the newest)")
    text.add_argument(
        "--options", default="", metavar="O", help="trace options: all, or a,b,a+b, where + sets both (default: none)"
    )
    text.add_argument("--clocks", default="", metavar="C", help="trace clocks: all, or local,tai (default: local)")
    text.add_argument("-o", "--output", metavar="DIR", help="write an entry for each: KERNEL/NAME/trace.txt ...")
    text.add_argument("--tracefs", default="", metavar="SPEC", help="vm:6.12 for the text of a guest")


def _profiles(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if (arguments.output and arguments.pack is None) or (arguments.names and arguments.fetch is None):
        parser.error("-o belongs to --pack K, and NAME to --fetch SOURCE")
    if arguments.pack is not None and arguments.fetch is not None:
        parser.error("either --pack or --fetch")
    try:
        if arguments.pack is not None:
            return _pack(arguments.pack, arguments.output)
        if arguments.fetch is not None:
            return _fetch(arguments.fetch, arguments.names)
    except (OSError, ValueError) as error:
        say(f"kprobe-sim: {error}")
        return USAGE_ERROR
    from kprobe_sim.builds.portable.collection import stored
    from kprobe_sim.kernel.activity import built_in_names

    lines = [profile.line() for profile in stored()]
    return show("\n".join([*lines, f"activities: {', '.join(built_in_names())}"]))


def _pack(kernel: str, output: str | None) -> int:
    from pathlib import Path

    from kprobe_sim.builds import profile
    from kprobe_sim.builds.portable.fetching import save
    from kprobe_sim.builds.portable.file import packed
    from kprobe_sim.releases import SUFFIX

    recorded = profile.load(kernel)
    path = save(packed(recorded.path), Path(output or f"{recorded.release}{SUFFIX}"))
    return show(str(path))


def _fetch(source: str, names: Sequence[str]) -> int:
    from kprobe_sim.builds import profile
    from kprobe_sim.builds.portable.fetching import fetch, unauthenticated

    (_, data) = profile.profile_directories()[-1]
    status = OK
    for path in fetch(source, names, data):
        status = status or show(str(path))
    if warning := unauthenticated(source):
        say(f"kprobe-sim: {warning}")
    return status


def _machine(arguments: argparse.Namespace, report: Callable[[str], None]) -> SimBackend:
    import time

    from kprobe_sim.builds import profile
    from kprobe_sim.kernel.activity import Activity, load
    from kprobe_sim.kernel.backend import SimBackend
    from kprobe_sim.kernel.simulated import SimulatedKernel

    activity = Activity((), (), False) if arguments.activity == "none" else load(arguments.activity)
    needed = 1 + max((int(step.options["cpu"]) for step in activity.steps), default=0)
    cpus: int = max(needed, profile.load(arguments.kernel).cpus) if arguments.cpus is None else arguments.cpus
    if cpus < needed:
        raise ValueError(f"--cpus {cpus}: the activity {arguments.activity} needs {needed}")
    kernel = SimulatedKernel(arguments.kernel, cpus=cpus, clock=time.monotonic_ns)
    kernel.files.follow_host()
    return SimBackend(kernel, activity, arguments.activity, report)


def _run(
    machine: SimBackend, command: Sequence[str], arguments: argparse.Namespace, loaded: Callable[[], None]
) -> tuple[int, bool]:
    """Run the command; return its exit status, and whether a check, if requested, finds the tracefs unchanged."""
    from kprobe_sim.expose.run.run import run

    kernel, follow, only_tracefs = machine.kernel, arguments.follow, arguments.only_tracefs
    if not arguments.check_clean:
        loaded()
        return run(kernel, command, machine.play, follow=follow, only_tracefs=only_tracefs), True
    from kprobe_sim.tree.leftovers.hygiene import Hygiene

    hygiene = Hygiene(machine)
    kernel.listener = hygiene.hear
    loaded()
    status = run(kernel, command, machine.play, follow=follow, only_tracefs=only_tracefs)
    machine.close()
    findings = hygiene.findings()
    if findings:
        say("kprobe-sim: --check-clean: the tracefs isn't as the command found it:")
        for finding in findings:
            say(f"  {finding}")
    return status, not findings


def _mount(machine: SimBackend, directory: str, loaded: Callable[[], None]) -> int:
    from kprobe_sim.expose.fuse.serve import serve

    loaded()
    return serve(machine.kernel, directory, machine.play)


if __name__ == "__main__":
    sys.exit(main())
