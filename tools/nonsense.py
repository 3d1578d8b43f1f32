"""Gives every kind of file that people write or copy nonsense, and every line of a definition or trace: none may raise.

    tools/nonsense.py files --seed 1 --count 100000     a hundred thousand files, of all kinds in turn
    tools/nonsense.py activity --seed 7 --count 1       one of them again, as a finding names it
    tools/nonsense.py lines --seed 1 --count 300000     definitions and trace lines, through `kprobe parse`

A file is a valid one in which some values or tables are others, missing, or too many.  It is accepted, or refused in
few lines that name it, within a time; a traceback is a finding, and so is a refusal without the file's name.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
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

ROOT = Path(__file__).parent.parent
SCENARIOS = ROOT / "kprobe_sim" / "scenarios" / "shipped"
ACTIVITIES = ROOT / "kprobe_sim" / "activities"
TEXTS = ROOT / "fixtures" / "text"
SECONDS = 10.0  # that reading one file may take
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


class Raw(str):
    """A value that stands in the file as it is: a number of any length, brackets of any depth."""

    __slots__ = ()


class Tree(NamedTuple):
    """A value of a file's, and what can be set in its place."""

    inside: Any
    key: Any


class Kind(NamedTuple):
    """A kind of file: valid ones, how one is written, and what reads it and returns whether it was accepted."""

    seeds: Callable[[], list[Any]]
    written: Callable[[Any, Random], bytes]
    read: Callable[[Path, bytes], bool]


class Finding(AssertionError):
    """What is wrong with how a file was read."""


# ------------------------------------------------------------------------------------------------------------ nonsense

NUMBERS = (
    *(
        0,
        1,
        -1,
        2,
        5,
        64,
        255,
        4096,
        100_000,
        1 << 31,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
        1 << 64,
        10**40,
        -(10**40),
    ),
    *(0.0, -0.0, -0.5, 1.5, 1e-9, 1e308, -1e308, float("inf"), float("-inf"), float("nan")),
)
WORDS = (
    *(
        "",
        " ",
        "x",
        "0",
        "-1",
        "0x10",
        "1e9",
        "nan",
        "cat-1",
        "cat-99999999999",
        "cat-²",
        "6²",
        "٣",
        "é",
        "\ud800",
        "\0",
    ),
    *("a\nb", "\r", "/", "..", "../../x", "/dev/zero", "a/b", "vfs_read", "vfs_read+0x10", "vfs_read+010", "nosuch"),
    *(
        "sched/sched_switch",
        "sys_enter+0x1/0x2",
        "x" * 5000,
        "%s%n{}",
        "trace",
        "read",
        "local",
        "6.1",
        "[[call]]",
        "'",
    ),
    *("\ud800\udc00", "a" * 70_000, "1" * 4301, "0x" + "f" * 5000, "-", "#", "=", "\x1b[31m"),
)
DEEP = 3000
BOTH: tuple[Any, ...] = (
    *(True, False, [], {}, [[]], [{}], {"": {}}, {"x": []}, [1], ["x"], [True], [1.5], list(range(70)), ["x"] * 300),
    *({"hex": "00"}, {"hex": 1}, {"x": 1}, {"name": "x"}, {"comm": 1, "pid": "x"}, {"di": -1}, {"-1": "00"}),
    *(Raw("9" * 4301), Raw("-" + "9" * 4301)),
)
TOML: tuple[Any, ...] = (
    *(datetime.date(2024, 1, 1), datetime.time(1), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
    *(Raw("0x" + "f" * 5000), Raw("[" * DEEP + "]" * DEEP), Raw("{" + ".".join(["a"] * DEEP) + "=1}"), Raw("1e9999")),
    Raw("0o7777"),
)
JSON: tuple[Any, ...] = (
    None,
    Raw("[" * 100_000 + "]" * 100_000),
    Raw("[" * 900 + "]" * 900),
    Raw("[" * 400 + "]" * 400),
    Raw('{"a":' * DEEP + "1" + "}" * DEEP),
    Raw("1e9999"),
)


def nonsense(random: Random, own: tuple[Any, ...]) -> Any:
    """Return a value of any type; `own` are those that only this form has."""
    return copied(random.choice(random.choice((NUMBERS, WORDS, BOTH, own))))


def places(tree: Any) -> Iterator[Tree]:
    """Yield where a value stands in a tree of tables and lists."""
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield Tree(tree, key)
        if isinstance(value, (dict, list)):
            yield from places(value)


def copied(tree: Any) -> Any:
    """Return a copy of tables and lists, as deep as they are."""
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}
    return [copied(value) for value in tree] if isinstance(tree, list) else tree


def damaged(tree: Any, random: Random, own: tuple[Any, ...]) -> Any:
    """Return a tree in which one to three values are nonsense, gone, more, elsewhere or there twice."""
    tree = copied(tree)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        found = list(places(tree))
        if not found:
            return tree
        inside, key = random.choice(found)
        match random.randrange(8):
            case 0:
                del inside[key]
            case 1 if isinstance(inside, dict):
                inside[random.choice(WORDS)] = nonsense(random, own)
            case 1 | 2 if isinstance(inside, list):
                inside.append(nonsense(random, own))
            case 3:
                inside[key] = [inside[key]]
            case 4:
                other = random.choice(found)
                inside[key] = (
                    copied(other.inside[other.key])
                    if other.key in range(len(other.inside))
                    or (isinstance(other.inside, dict) and other.key in other.inside)
                    else None
                    if None in own
                    else 0
                )
            case _:
                inside[key] = nonsense(random, own)
    return tree


def torn(data: bytes, random: Random) -> bytes:
    """Return a file's bytes, one time in ten cut off, or with other bytes somewhere."""
    if random.randrange(10):
        return data
    at = random.randrange(len(data) + 1)
    return (
        data[:at]
        + random.choice((b"", b"\xff", b"\0", b"\n", b"=", b"[", b"{", b'"'))
        + data[at + random.randrange(3) :]
    )


# --------------------------------------------------------------------------------------------------------------- forms


def toml_value(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{toml_value(str(key))} = {toml_value(one)}' for key, one in value.items())}}}"
    return repr(value)


def toml(tree: dict[str, Any], random: Random) -> bytes:
    """Write a file of TOML, its lists of tables as [[KEY]] or on a line."""
    text, after = "", ""
    for key, value in tree.items():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value) and random.randrange(2):
            for one in value:
                lines = (f"{toml_value(str(name))} = {toml_value(two)}\n" for name, two in one.items())
                after += f"[[{toml_value(str(key))}]]\n{''.join(lines)}"
        else:
            text += f"{toml_value(str(key))} = {toml_value(value)}\n"
    return torn((text + after).encode("utf-8", "surrogatepass"), random)


def json_text(tree: Any) -> bytes:
    """Write a file of JSON."""
    raws: list[str] = []

    def marked(value: Any) -> Any:
        if isinstance(value, Raw):
            raws.append(value)
            return f"@raw{len(raws) - 1}@"
        if isinstance(value, dict):
            return {key: marked(one) for key, one in value.items()}
        return [marked(one) for one in value] if isinstance(value, list) else value

    text = json.dumps(marked(tree), default=str)
    return re.sub(r'"@raw(\d+)@"', lambda found: raws[int(found[1])], text).encode()


# ------------------------------------------------------------------------------------------------------- what reads it


class _TooLong(Exception):
    """Reading took too long."""


@contextlib.contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raise _TooLong in what takes longer."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
    for event in ("kprobes", "sched/sched_switch", "raw_syscalls"):
        kernel.tracefs.write(f"events/{event}/enable", b"1")
    kernel.tracefs.write("options/stacktrace", b"1")
    for step in opened._activity.on(kernel)[:MOST_STEPS]:
        step.take(kernel, {key: value for key, value in step.options.items() if key != "at"})
    assert kernel.tracefs.read("trace")
    opened.close()
    return True


def read_scenario(place: Path, data: bytes) -> bool:
    """Print its text."""
    from kprobe_sim.cli import main

    (place / "s.toml").write_bytes(data)
    return told(main, ["text", str(place / "s.toml"), "--kernels", KERNEL], (1, 2), "s.toml", "no text of it")


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
TOKENS = (
    *("010", "08", "0", "-1", "+", "[0]", "[65]", "[999]", "u8[0]", ":b1@0/0", ":b" + "9" * 4400 + "@1/2", "9" * 4301),
    *("\\" + "9" * 4301, "\\0x" + "f" * 5000, "$arg" + "9" * 4301, "$stack" + "1" * 5000, "+" + "9" * 4400 + "(%di)"),
    *("+u", "0x" + "f" * 5000, "\udcff", "é", "²", "٣", "\0", "\t", ":", "=", "@", "%", "{", "}", "(", ")", '"', "\\"),
    *(":symbol", ":ustring", ":char[3]", "offset:" + "9" * 4301 + ";", "size:" + "9" * 4301 + ";", "[", "]", ";", ","),
    *(
        "ID: " + "9" * 4301,
        "print fmt: ",
        "%s",
        "%pS",
        "0x%x",
        "name: ",
        "field:",
        "__data_loc ",
        "x" * 5000,
        " " * 3000,
    ),
)


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


def mutated(line: str, random: Random) -> str:
    """Return a line with a token in place of a few characters, of a number, or of a word."""
    token = random.choice(TOKENS)
    spans = [found.span() for found in re.finditer(r"[0-9a-f]*[0-9][0-9a-f]*|\w+|[^\w\s]+", line)]
    if spans and random.randrange(3):
        start, end = random.choice(spans)
    else:
        start = random.randrange(len(line) + 1)
        end = start + random.choice((0, 0, 1, 4))
    return line[:start] + token + line[end:]


KINDS: dict[str, Kind] = {
    "activity": Kind(_activities, lambda tree, r: toml(damaged(tree, r, TOML), r), read_activity),
    "scenario": Kind(_scenarios, lambda tree, r: toml(damaged(tree, r, TOML), r), read_scenario),
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
    with tempfile.TemporaryDirectory(prefix="nonsense-") as home:
        number = 0
        while sum(done.values()) < asked.count and time.monotonic() - start < asked.seconds:
            kind, seed = kinds[number % len(kinds)], asked.seed + number
            number += 1
            try:
                if kind == "lines":
                    done["lines"] += hold_line(Random(seed))
                    continue
                with tempfile.TemporaryDirectory(dir=home) as place:
                    accepted = hold(kind, Random(seed), Path(place))
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
