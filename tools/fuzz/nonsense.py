"""Developers run it after a change to a file format: nonsense in every kind of file, and in lines; none may raise.

    tools/fuzz/nonsense.py files --seed 1 --count 100000     a hundred thousand files, of all kinds in turn
    tools/fuzz/nonsense.py activity --seed 7 --count 1       one of them again, as a finding names it
    tools/fuzz/nonsense.py lines --seed 1 --count 300000     definitions and trace lines, through `kprobe parse`

A file is a valid one in which some values or tables are others, missing, or too many.  It is accepted, or refused in
few lines that name it, within a time; a traceback is a finding, and so is a refusal without the file's name.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import json
import re
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple

from nonsense_files import JSON, TOML, damaged, json_text, mutated, toml, torn

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "kprobe_sim" / "scenarios" / "shipped"
ACTIVITIES = ROOT / "kprobe_sim" / "kernel" / "activities"
TEXTS = ROOT / "fixtures" / "text"
SECONDS = 10.0  # of the processor's time that reading one file may take
LINES = 14  # that a refusal may have
MOST_STEPS = 50  # of an activity that are done
KERNEL = "6.1"
ACTIVITY: dict[str, Any] = {
    "repeat": False,
    "function": [{"name": "mine", "size": 0x200, "module": "mod"}],
    "call": [
        {
            "function": "vfs_read",
            "task": "cat-42/41",
            "cpu": 1,
            "at": 12.5,
            "after": 0.001,
            "times": 2,
            "args": [3, "text", {"hex": "00ff"}],
            "returns": -2,
            "caller": "ksys_read+0x5f",
            "known": True,
            "stack": ["vfs_read+0x1", 5],
            "registers": {"di": 7},
            "memory": {"0xffff888000000000": "00ff"},
            "offset": 0,
            "duration": 0.5,
            "unwinding": 0.1,
            "system_call": {"name": "read", "args": [1, 2]},
        },
        {"event": "sched/sched_switch", "task": "a-1", "fields": {"prev_pid": 42, "prev_comm": "x"}},
    ],
}
PROBES = b"p:a vfs_read a=%ax b=+0(%si):string s=$stack3\nr:b vfs_read $retval"


class Kind(NamedTuple):
    """A kind of file: valid ones, how one is written, and what reads it and returns whether it was accepted."""

    seeds: Callable[[], list[Any]]
    written: Callable[[Any, Random], bytes]
    read: Callable[[Path, bytes], bool]


class Finding(AssertionError):
    """What is wrong with how a file was read."""


# ------------------------------------------------------------------------------------------------------- what reads it


class _TooLong(BaseException):
    """Reading took too long: no handler of errors in what reads takes it."""


@contextlib.contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raise _TooLong in what takes the processor for longer, or ten times as long of the time: it waits for something.

    The machine may have much else to do.
    """

    def ring(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, seconds), (signal.SIGALRM, signal.ITIMER_REAL, 10 * seconds))
    before = [signal.signal(number, ring) for number, _, _ in timers]
    for _, timer, most in timers:
        signal.setitimer(timer, most)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def refused(error: BaseException | str, *named: str) -> bool:
    """Hold a refusal to its form; return that the file wasn't accepted."""
    text = str(error)
    if not any(name in text for name in named):
        raise Finding(f"the refusal doesn't name {' or '.join(named)}: {text[:300]!r}")
    if text.count("\n") >= LINES or any(len(line) > 8000 for line in text.split("\n")):
        raise Finding(f"the refusal is too long: {text.count(chr(10)) + 1} lines, {len(text)} characters: {text[:150]}")
    if "set_int_max_str_digits" in text or "maximum recursion" in text:
        raise Finding(f"the refusal has Python's own words: {text[-200:]!r}")
    return False


def told(main: Callable[[list[str]], int], words: list[str], statuses: tuple[int, ...], *named: str) -> bool:
    """Run a command in this process; return whether it ended well, and hold its refusal to its form."""
    said, out = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out):
        try:
            status = main(words)
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
    said.seek(0)
    text = said.read()
    if "Traceback" in text:
        raise Finding(f"a traceback on standard error: {text[-600:]}")
    if status == 0:
        return True
    if status not in statuses:
        raise Finding(f"exit status {status}: {text[:300]!r}")
    return refused(text, *named)


def read_activity(place: Path, data: bytes) -> bool:
    """Open a simulated kernel with it, and make its calls."""
    from kprobe_sim.kernel.backend import open_sim

    (place / "a.toml").write_bytes(data)
    try:
        opened = open_sim(f"{KERNEL},activity={place / 'a.toml'}")
    except ValueError as error:
        return refused(error, "a.toml")
    kernel = opened.kernel
    with contextlib.suppress(OSError):  # it may bring a second vfs_read
        kernel.tracefs.write("kprobe_events", PROBES)
    kprobes = ["kprobes"] if kernel.tracefs.exists("events/kprobes") else []
    for event in (*kprobes, "sched/sched_switch", "raw_syscalls"):
        kernel.tracefs.write(f"events/{event}/enable", b"1")
    kernel.tracefs.write("options/stacktrace", b"1")
    for step in opened._activity.on(kernel)[:MOST_STEPS]:
        step.take(kernel, {key: value for key, value in step.options.items() if key != "at"})
    assert kernel.tracefs.read("trace")
    opened.close()
    return True


def read_scenario(place: Path, data: bytes) -> bool:
    """Print its text."""
    (place / "s.toml").write_bytes(data)
    return told(_sim_command(), ["text", str(place / "s.toml"), "--kernels", KERNEL], (1, 2), "s.toml", "no text of it")


@cache
def _sim_command() -> Callable[[list[str]], int]:
    """Return the command, whose parser is made once: that takes longer than to read a file."""
    from kprobe_sim import cli

    vars(cli)["_parser"] = cache(cli._parser)
    return cli.main


def read_profile(place: Path, data: bytes) -> bool:
    """Load a profile's directory with these facts, list it, pack it, and trace on it."""
    from kprobe_sim import SimulatedKernel
    from kprobe_sim.cli import main

    toy = _toy()
    directory = place / "6.16.1-toy"
    directory.mkdir(exist_ok=True)
    for file in toy.iterdir():
        (directory / file.name).write_bytes(data if file.name == "profile.json" else file.read_bytes())
    if not told(
        main, ["profiles", "--pack", str(directory), "-o", str(place / "x.kprofile")], (2,), "profile.json", "6.16"
    ):
        with contextlib.suppress(ValueError):
            SimulatedKernel(str(directory))
            raise Finding("what can't be packed can be used")
        return False
    kernel = SimulatedKernel(str(directory))
    kernel.tracefs.read("kprobe_events")
    kernel.tracefs.read("trace")
    return True


@cache
def _toy() -> Path:
    sys.path.insert(0, str(ROOT / "tests" / "kprobe_sim"))
    toy_profile: Any = importlib.import_module("toy_profile")
    place = Path(tempfile.mkdtemp(prefix="nonsense-toy-"))
    return Path(toy_profile.write(place / "6.16.1-toy"))


def read_entry(place: Path, data: bytes) -> bool:
    """Check a corpus of one entry whose about.json that is, and test a parser with it."""
    from kprobe.cli import main

    return _corpus(main, place, {"about.json": data})


def read_truth(place: Path, data: bytes) -> bool:
    """The same with an entry's truth."""
    from kprobe.cli import main

    return _corpus(main, place, {"truth.jsonl": data})


def _corpus(main: Callable[[list[str]], int], place: Path, files: dict[str, bytes]) -> bool:
    home = place / "corpus" / "6.1" / "one"
    home.mkdir(parents=True, exist_ok=True)
    for name, content in (_entry() | files).items():
        (home / name).write_bytes(content)
    words = ["--corpus", str(place / "corpus")]
    is_well = [told(main, ["corpus", action, *words], (1,), *files) for action in ("list", "check")]
    if not all(is_well):
        return False
    from kprobe_corpus.parsers.comparison import compare
    from kprobe_corpus.traces.corpora import entries

    (entry,) = entries(directory=str(place / "corpus"))
    compare(entry.truth(), _answers())
    compare(_answers(), entry.truth())
    return True


@cache
def _answers() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _entry()["truth.jsonl"].splitlines()]


@cache
def _entry() -> dict[str, bytes]:
    from kprobe_sim.scenarios.entry import Origin, about, write_entry
    from kprobe_sim.scenarios.rendering import render

    table = tomllib.loads((SCENARIOS / "typical.toml").read_text("utf-8"))
    with tempfile.TemporaryDirectory(prefix="nonsense-") as home:
        found = render(table, KERNEL)
        facts = about(found, table, Origin("6.1", "6.1.0", "one", (), "local", "simulator"))
        write_entry(Path(home), found, facts)
        return {file.name: file.read_bytes() for file in Path(home).iterdir()}


def read_answer(place: Path, data: bytes) -> bool:
    """Take it as the answer of a parser, and compare it with the truth."""
    from kprobe_corpus.parsers.answers import read, sizeless
    from kprobe_corpus.parsers.comparison import compare

    records = read(data)
    compare(_answers(), records)
    sizeless(records)
    return not any(record["type"] == "no record" for record in records)


def read_lock(place: Path, data: bytes) -> bool:
    """Take it as the lock of kernels."""
    from kprobe_vm.debian.lock import Lock
    from kprobe_vm.errors import NotReady

    (place / "k.lock").write_bytes(data)
    try:
        lock = Lock.read(place / "k.lock")
    except NotReady as error:
        return refused(error, "k.lock")
    lock.text()
    return True


def read_baseline(place: Path, data: bytes) -> bool:
    """Take it as the baseline of a parser's known faults."""
    from kprobe_corpus.parsers.reports.baseline import BadBaseline, ordered, read

    (place / "known.txt").write_bytes(data)
    try:
        found = read(str(place / "known.txt"))
    except BadBaseline as error:
        return refused(error, "known.txt")
    assert found is not None
    ordered(found.failures)
    return True


def read_facts(place: Path, data: bytes) -> bool:
    """Take it as what the cache of kernels says of one, as a note, a seal: damage is no error there."""
    from kprobe_vm.host import seal
    from kprobe_vm.host.cache import Cache
    from kprobe_vm.images.kerneltree import is_whole

    for name in ("kernel.json", "tree.seal", "note"):
        (place / name).write_bytes(data)
    is_whole(place, thoroughly=True)
    seal.names(place / "tree.seal")
    seal.holds(place / "tree.seal", thoroughly=True)
    Cache(place).note(place / "note")
    (place / "tree.seal").unlink()
    return is_whole(place)


def read_schema(place: Path, data: bytes) -> bool:
    """Parse a trace with it as the types of the events."""
    from kprobe.cli import main

    (place / "schema").write_bytes(data)
    (place / "trace").write_bytes(b"".join(LINE % (name, b'a=1 b=0x2 s="x"') for name in (b"a", b"x", b"p_vfs_read_8")))
    words = ["parse", "--schema", str(place / "schema"), str(place / "trace")]
    shape = ["text", "ndjson", "csv", "parquet", "arrow"][len(data) % 5]
    into = ["-o", str(place / "out")] if shape in ("parquet", "arrow") else []
    return told(main, [*words, "--format", shape, *into], (2,), "schema")


LINE = b"            bash-42      [001] .....    11.791146: %b: (f+0x0/0x1) %b\n"


# --------------------------------------------------------------------------------------------------------------- kinds


def _scenarios() -> list[Any]:
    return [tomllib.loads(path.read_text("utf-8")) for path in sorted(SCENARIOS.glob("*.toml"))]


def _activities() -> list[Any]:
    return [ACTIVITY, *(tomllib.loads(path.read_text("utf-8")) for path in sorted(ACTIVITIES.glob("*.toml")))]


def _as_toml(tree: Any, random: Random) -> bytes:
    return torn(toml(damaged(tree, random, TOML), random), random)


def _as_json(tree: Any, random: Random) -> bytes:
    return torn(json_text(tree), random)


def _as_lines(tree: Any, random: Random) -> bytes:
    return torn(b"".join(json_text(one) + b"\n" for one in tree), random)


def _lock() -> Any:
    return json.loads((ROOT / "vm" / "kprobe_vm" / "kernels.lock").read_text("utf-8"))


FACTS = {
    "release": "6.1",
    "version": "6.1-1",
    "image": "vmlinux",
    "digest": "0",
    "modules": ["x.ko"],
    "fetched": 1,
    "sizes": {"x.ko": 1},
    "package": ["a", "1", 1, "0", "x"],
    "note": {"x": 1},
    "sha256": "0",
    "x.ko": ["0", 1, 2, 3],
}
BASELINE = ["# baseline: 1", "# corpus: x 1", "# texts: all", "6.1/one: wrong name in 1-3,5", "6.1/two: crashed"]
DEFINITIONS = [
    "p:x vfs_read a=%di b=+0(%si):string",
    "r:y vfs_read+0x10 a=$retval:x64 s=$comm",
    "p vfs_read+8 a=%di:u8[4] i=\\42 c=%di:char",
]
FORMAT = [
    *("name: x", "ID: 1", "format:", "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;", ""),
    *(
        "\tfield:__data_loc char[] s;\toffset:8;\tsize:4;\tsigned:1;",
        "\tfield:u8 a[4];\toffset:12;\tsize:4;\tsigned:0;",
    ),
    *("", r'print fmt: "(%lx) a={%d,%d} s=\"%s\"", REC->__probe_ip, REC->a[0], REC->a[1], __get_str(s)'),
]


def lines(tree: list[str], random: Random) -> bytes:
    """Write lines, some with other characters, words or numbers in them, twice, or gone."""
    found = list(tree)
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(found))
        found[at] = mutated(found[at], random)
    if not random.randrange(8):
        found.insert(random.randrange(len(found)), random.choice(found))
    if not random.randrange(8):
        del found[random.randrange(len(found))]
    return torn("".join(f"{line}\n" for line in found).encode("utf-8", "surrogateescape"), random)


KINDS: dict[str, Kind] = {
    "activity": Kind(_activities, _as_toml, read_activity),
    "scenario": Kind(_scenarios, _as_toml, read_scenario),
    "profile": Kind(
        lambda: [json.loads((_toy() / "profile.json").read_bytes())],
        lambda tree, r: _as_json(damaged(tree, r, JSON), r),
        read_profile,
    ),
    "entry": Kind(
        lambda: [json.loads(_entry()["about.json"])], lambda tree, r: _as_json(damaged(tree, r, JSON), r), read_entry
    ),
    "truth": Kind(lambda: [_answers()], lambda tree, r: _as_lines(damaged(tree, r, JSON), r), read_truth),
    "answer": Kind(lambda: [_answers()], lambda tree, r: _as_lines(damaged(tree, r, JSON), r), read_answer),
    "lock": Kind(lambda: [_lock()], lambda tree, r: _as_json(damaged(tree, r, JSON), r), read_lock),
    "facts": Kind(lambda: [FACTS], lambda tree, r: _as_json(damaged(tree, r, JSON), r), read_facts),
    "baseline": Kind(lambda: [BASELINE], lines, read_baseline),
    "schema": Kind(lambda: [DEFINITIONS, FORMAT], lines, read_schema),
}
TOMLS = ("activity", "scenario")


@cache
def seeds(kind: str) -> list[Any]:
    """Return the valid files of a kind."""
    return KINDS[kind].seeds()


def hold(kind: str, random: Random, place: Path, seconds: float = SECONDS) -> bool:
    """Write one file of a kind, and have it read; return whether it was accepted.  Raise Finding, or what is raised."""
    written = KINDS[kind].written(random.choice(seeds(kind)), random)
    try:
        with in_time(seconds):
            return KINDS[kind].read(place, written)
    except _TooLong as error:
        raise Finding(
            f"it takes longer than {seconds} s: {''.join(traceback.format_tb(error.__traceback__)[-3:])}"
        ) from None


# --------------------------------------------------------------------------------------------------------------- lines


@cache
def _recorded() -> list[str]:
    """Return lines of recorded traces, one of each shape."""
    shapes: dict[bytes, bytes] = {}
    for path in sorted(TEXTS.glob("*/*.trace*")):
        for line in path.read_bytes()[:6000].splitlines():
            shapes.setdefault(re.sub(rb"[0-9a-f]+", b"0", line), line)
    return [line.decode("utf-8", "surrogateescape") for line in shapes.values()]


def hold_line(random: Random) -> int:
    """Parse a few mutated lines, with mutated definitions or formats; return how many lines that were."""
    from kprobe_text import text
    from kprobe_text.figures.shape import SHAPES
    from kprobe_text.text import defined_name

    known = [mutated(random.choice(DEFINITIONS), random) for _ in range(random.randrange(3))]
    form = "\n".join(mutated(line, random) if not random.randrange(4) else line for line in FORMAT)
    found = [mutated(random.choice(_recorded()), random) for _ in range(3)]
    names = [name for name in (defined_name(one) for one in known) if name]
    values = [" ".join(f"{n}={mutated('1', random)}" for n in ("a", "b", "s")) for _ in names]
    found += [
        f"            bash-42      [001] .....    11.791146: {name}: (f+0x0/0x1) {value}"
        for name, value in zip([*names, "x"], [*values, mutated('a={1,2} s="q"', random)], strict=False)
    ]
    trace = "".join(f"{line}\n" for line in found).encode("utf-8", "surrogateescape")
    formats = {"x": form} if random.randrange(2) else None
    records = text.parse(trace, formats, definitions=known)
    assert b"".join(record.raw for record in records) == trace, "bytes were lost"
    for record in records:
        if not isinstance(record, text.Header):
            for shape in SHAPES.values():
                assert shape(record, "").count("\n") == 1 or shape is SHAPES["csv"], "a record isn't one line"
    return len(known) + len(found) + (len(FORMAT) if formats else 0)


# ---------------------------------------------------------------------------------------------------------------- runs


@contextlib.contextmanager
def _place(kind: str, places: dict[str, Path], home: str) -> Iterator[Path]:
    """Give the directory of a kind that has one, as it writes one file and that anew; of others an empty one."""
    if kind in places:
        yield places[kind]
        return
    with tempfile.TemporaryDirectory(dir=home) as place:
        yield Path(place)


def main() -> int:
    """Give as many nonsense files or lines as are asked for; print the counts, and each finding's seed."""
    sys.path[:0] = [str(ROOT), str(ROOT / "vm")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["files", "toml", "lines", *KINDS])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long, whatever the count")
    asked = parser.parse_args()
    kinds = list(KINDS) if asked.what == "files" else TOMLS if asked.what == "toml" else [asked.what]
    start, done, findings = time.monotonic(), Counter[str](), Counter[str]()
    gc.set_threshold(100_000)  # what one file leaves is small, and what was imported stays
    memory = Path("/dev/shm")  # making and emptying a file on a disk takes longer than reading it
    with tempfile.TemporaryDirectory(prefix="nonsense-", dir=memory if memory.is_dir() else None) as home:
        places = {kind: Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=home)) for kind in TOMLS}
        number = 0
        while sum(done.values()) < asked.count and time.monotonic() - start < asked.seconds:
            kind, seed = kinds[number % len(kinds)], asked.seed + number
            number += 1
            try:
                if kind == "lines":
                    done["lines"] += hold_line(Random(seed))
                    continue
                with _place(kind, places, home) as place:
                    accepted = hold(kind, Random(seed), place)
                done[f"{kind} {'accepted' if accepted else 'refused'}"] += 1
            except Exception as error:
                done[kind] += 1
                at = traceback.extract_tb(error.__traceback__)[-1]
                named = f"{kind}: {type(error).__name__} {Path(at.filename).name}:{at.lineno}"
                findings[named] += 1
                if findings[named] == 1:
                    print(
                        f"FOUND {kind} --seed {seed} --count 1: {type(error).__name__}: {str(error)[:500]}", flush=True
                    )
                    if asked.count == 1:
                        traceback.print_exc()
    counts = ", ".join(f"{count} {what}" for what, count in sorted(done.items()))
    print(f"{sum(done.values())} in {time.monotonic() - start:.0f} s from seed {asked.seed}: {counts}")
    for named, count in findings.most_common():
        print(f"{count} times {named}")
    print(f"{sum(findings.values())} findings")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
