"""`make fuzz`: throws bytes at what reads files of others, for as long as is asked.

Each target of TARGETS is fuzzed twice: by atheris, which looks for bytes that run new code, and by hypothesis, which
puts together parts of recordings.  A finding stops the run of that engine; atheris leaves it in build/fuzz.

    tools/fuzz.py text --seconds 600
    tools/fuzz.py text build/fuzz/crash-1234        a finding again
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
TEXTS = ROOT / "fixtures" / "text"
BUILD = ROOT / "build" / "fuzz"
LONGEST = 1 << 13
# what a line may cost, and each further 8 KiB of it, in seconds of CPU time: no kernel prints a longer line
A_LINE = 0.001
A_LONG = 1 << 13
TIMES = 5  # a text that took too long is read so often: others use the machine as well

for place in (str(ROOT), str(ROOT / "tools")):
    if place not in sys.path:
        sys.path.insert(0, place)

fuzz_pages: Any = importlib.import_module("fuzz_pages")


class Target(NamedTuple):
    """What is fuzzed.

    ``seeds`` gives texts that are as they should be; ``check`` raises AssertionError, or whatever is raised, if
    something is wrong with a text; ``modules`` are those whose code is looked at.
    """

    seeds: Callable[[], Iterable[bytes]]
    check: Callable[[bytes], None]
    modules: tuple[str, ...]
    is_binary: bool = False


def slow(read: Callable[[], object], lines: int, length: int) -> float:
    """Say how many times as long as it may take reading takes; 0 if it isn't too long."""
    allowed = A_LINE * (lines + length // A_LONG)
    best = float("inf")
    for _ in range(TIMES):
        start = time.thread_time()
        read()
        best = min(best, time.thread_time() - start)
        if best <= allowed:
            return 0.0
    return best / allowed


@functools.cache
def plain(name: str) -> ModuleType:
    """Give a module as it is; atheris changes what is imported later, which makes it slow."""
    return importlib.import_module(name)


# --- text: traces

FORMAT = 'name: {}\nID: 1\nformat:\n\nprint fmt: "(%lx) {}", REC->__probe_ip\n'
FORMATS = {
    "ent": FORMAT.format("ent", r"dfd=%d s=\"%s\" flags=0x%Lx"),
    "e": FORMAT.format("e", r"s=\"%s\" a=%d t=\"%s\" c='%c' p=%pS n={%d,%d} u={\"%s\",\"%s\"}"),
    "many": FORMAT.format("many", " ".join(rf"s{i}=\"%s\" n{i}=%d" for i in range(8))),
}
DEFINITIONS = ["p:ent f dfd=%di:s32 s=+0(%si):string flags=%dx", "p:e f s=+0(%si):string a=%di:u8 t=+0(%di):string"]
KNOWN: tuple[tuple[dict[str, str] | None, list[str]], ...] = ((None, []), (FORMATS, []), (None, DEFINITIONS))


@functools.cache
def recorded() -> list[bytes]:
    """Give the beginnings of recorded traces, after a byte that says what is known of their events."""
    texts = [path.read_bytes() for path in sorted(TEXTS.glob("*/*.trace*"))]
    found = []
    for i, text in enumerate(texts):
        at = text.rfind(b"#\n") + 2 if i % 3 else 0
        found.append(bytes([i % 6]) + text[at : at + 1500])
    return found


def read_text(data: bytes) -> None:
    """Hold the parser to what it promises: every byte in a record, whatever the pieces, and no line takes long."""
    text = importlib.import_module("kprobe_text.text")
    chosen, trace = data[:1] or b"\0", data[1:]
    formats, definitions = KNOWN[chosen[0] % 3]
    whole = text.parse(trace, formats, definitions=definitions)
    assert b"".join(record.raw for record in whole) == trace, "bytes were lost"
    # a line longer than the parser takes at once, in the middle of it
    usual = b"            bash-42      [001] .....    11.791146: many: (f+0x0/0x1)\n" * 2
    stretched = usual + trace[: len(trace) // 2] + b"x" * A_LONG + trace[len(trace) // 2 :] + b"\n" + usual
    records = text.parse(stretched, formats, definitions=definitions)
    assert b"".join(record.raw for record in records) == stretched, "bytes were lost of a long line"
    for live in (False, True):
        parser = text.Parser(formats, definitions=definitions, live=live)
        records, at = [], 0
        while at < len(trace):
            # as many bytes as a byte of the trace says
            size = trace[at] % 61 + 1 if chosen[0] & 64 else trace[at] * 4 + 1
            records += parser.feed(trace[at : at + size])
            at += size
        records += parser.close()
        assert b"".join(record.raw for record in records) == trace, "bytes were lost in pieces"
        assert live or unmarked(records) == unmarked(whole), "the records depend on the pieces"
        if not live:  # what the header's count settles of a whole text isn't settled of pieces
            marks = zip(whole, records, strict=True)
            assert all(forgeable(two) for one, two in marks if forgeable(one)), "a mark is missing in pieces"
    parser = plain("kprobe_text.text").Parser(formats, definitions=definitions)
    parser.feed(
        b"".join(b"            bash-42      [001] .....    11.791146: %s: (f+0x0/0x1)\n" % e for e in EVENTS) * 2
    )
    parser.close()
    times = slow(lambda: (parser.feed(trace), parser.close()), trace.count(b"\n") + 1, len(trace))
    assert not times, f"{times:.1f} ms a line"


def forgeable(record: Any) -> bool:
    return bool(getattr(record, "forgeable", False))


def unmarked(records: Iterable[Any]) -> list[Any]:
    """Return records without the mark that a string could have written them."""
    return [record._replace(forgeable=False) if forgeable(record) else record for record in records]


EVENTS = (b"ent", b"e", b"many")

# --- formats: an event's format file, and after a NUL byte a trace


@functools.cache
def recorded_formats() -> list[bytes]:
    """Give formats of recorded events, each with an event of it."""
    found = []
    for path in sorted(TEXTS.glob("*/*.formats")):
        for part in path.read_bytes().split(b"== events/")[1:]:
            text = part.partition(b"\n")[2]
            name = text.partition(b"name: ")[2].partition(b"\n")[0]
            line = b"            bash-42      [001] .....    11.791146: " + name + b': (f+0x0/0x1) a=1 s="x" b=0x1\n'
            found.append(text + b"\0" + line)
    return found


def read_format(data: bytes) -> None:
    """A format says what it says or is refused by ValueError; a trace is read with any, each byte of it."""
    text = importlib.import_module("kprobe_text.text")
    form, _, trace = data.partition(b"\0")
    try:
        name = text.parse_format(form).name
    except ValueError:
        name = "ent"
    records = text.parse(trace, {name: form})
    assert b"".join(record.raw for record in records) == trace, "bytes were lost"
    lines = form.count(b"\n") + 1
    module = plain("kprobe_text.text.format")

    def again() -> None:
        with contextlib.suppress(ValueError):
            module.parse_format(form)

    times = slow(again, lines, len(form))
    assert not times, f"{times:.1f} ms a line of the format"
    parser = plain("kprobe_text.text").Parser({name: form})
    parser.feed(trace)
    parser.close()
    times = slow(lambda: (parser.feed(trace), parser.close()), trace.count(b"\n") + 1, len(trace))
    assert not times, f"{times:.1f} ms a line"


PAGES = ("kprobe_text.pages.header", "kprobe_text.pages.events", "kprobe_text.pages.kallsyms", "kprobe_text.pages.page")
TARGETS = {
    "text": Target(recorded, read_text, ("kprobe_text.text",)),
    "formats": Target(recorded_formats, read_format, ("kprobe_text.text.format", "kprobe_text.text.arguments")),
    "pages": Target(fuzz_pages.page_seeds, functools.partial(fuzz_pages.read_pages, plain, slow), PAGES, True),
    "dat": Target(
        fuzz_pages.dat_seeds, functools.partial(fuzz_pages.read_dat, plain, slow), ("kprobe_text.pages.dat.file",), True
    ),
}

# --- the two engines

TOKENS = """ ~"~=~:~: ~{~}~,~'~(~)~(fault)~0x1~9~-~ s="~" flags=0x1~ a=1~ [~]~+0x1/0x2~ <- ~|~/* ~ */~x"""


def by_atheris(name: str, seconds: int) -> None:
    """Fuzz one target until the time is over or something is found; ends the process."""
    import atheris

    target = TARGETS[name]
    for module in (*target.modules, "kprobe_text.text"):
        plain(module)
    for module in [module for module in sys.modules if module.partition(".")[0] == "kprobe"]:
        del sys.modules[module]
    with atheris.instrument_imports(include=["kprobe"]):
        for module in target.modules:
            importlib.import_module(module)
    corpus = BUILD / name
    corpus.mkdir(parents=True, exist_ok=True)
    for i, seed in enumerate(target.seeds()):
        (corpus / f"seed-{i}").write_bytes(seed[:LONGEST])
    words = [
        f"-max_total_time={seconds}",
        f"-artifact_prefix={BUILD}/",
        f"-max_len={LONGEST}",
        "-timeout=20",
        str(corpus),
    ]
    atheris.Setup([sys.argv[0], *words], target.check)
    atheris.Fuzz()


def damaged(seeds: list[bytes]) -> Any:
    """Give a strategy: bytes in which parts are others, missing, or there twice."""
    from hypothesis import strategies as st

    number = st.sampled_from([0, 1, 2, 3, 28, 29, 30, 31, 255, 1 << 16, 1 << 30, 1 << 31, 1 << 40, (1 << 64) - 1])
    numbers = st.tuples(number, st.sampled_from([1, 2, 4, 8])).map(
        lambda it: (it[0] & (1 << 8 * it[1]) - 1).to_bytes(it[1], "little")
    )
    edit = st.tuples(st.integers(0, LONGEST), st.sampled_from([0, 1, 2, 4, 8, 60]), st.binary(max_size=12) | numbers)

    def apply(chosen: tuple[bytes, list[tuple[int, int, bytes]], bool]) -> bytes:
        data = bytearray(chosen[0])
        for at, length, put in chosen[1]:
            start = at % (len(data) + 1)
            data[start : start + (len(put) if chosen[2] else length)] = put
        return bytes(data[:LONGEST])

    return st.tuples(st.sampled_from(seeds), st.lists(edit, max_size=6), st.booleans()).map(apply)


def joined(seeds: list[bytes]) -> Any:
    """Give a strategy: parts of the seeds, and what is special in them, one after the other."""
    from hypothesis import strategies as st

    lines = sorted({line for text in seeds for line in text[1:].splitlines(keepends=True)})
    tokens = [
        b"\n",
        b"\r\n",
        b"\0",
        b"\xff",
        b"# tracer: nop\n",
        b"<stack trace>\n",
        b" => ",
        *TOKENS.encode().split(b"~"),
    ]
    part = st.one_of(st.sampled_from(lines), st.sampled_from(tokens), st.binary(max_size=20))
    cut = st.tuples(st.sampled_from(lines), st.integers(0, 200), st.integers(0, 200)).map(
        lambda it: it[0][it[1] : it[2] + it[1]]
    )
    many = st.tuples(st.one_of(part, cut), st.integers(1, 1500)).map(lambda it: (it[0] * it[1])[: LONGEST // 2])
    return st.tuples(st.binary(min_size=1, max_size=1), st.lists(st.one_of(part, cut, many), max_size=12)).map(
        lambda it: (it[0] + b"".join(it[1]))[:LONGEST]
    )


def by_hypothesis(name: str, seconds: int, first: int | None = None) -> None:
    """Fuzz one target until the time is over; raises what is found, with the shortest text that shows it.

    `first` is the seed of the first run, those of the others follow it; without one they are of the time.
    """
    from hypothesis import HealthCheck, given, seed, settings

    target = TARGETS[name]
    seeds = list(target.seeds())
    texts = damaged(seeds) if target.is_binary else joined(seeds)
    end, run, count = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        run += 1

        @seed(time.time_ns() if first is None else first + run - 1)
        @settings(max_examples=2000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(texts)
        def test(data: bytes) -> None:
            nonlocal count
            if time.monotonic() < end:
                count += 1
                target.check(data)

        test()
    print(f"{name}: hypothesis found nothing in {seconds} s ({count} texts in {run} runs)")


def main() -> int:
    """Fuzz the targets that are named, or all; or read findings again."""
    parser = argparse.ArgumentParser(description="fuzz what reads files of others")
    parser.add_argument("target", nargs="?", choices=["", *TARGETS], default="")
    parser.add_argument("finding", nargs="*", type=Path)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, help="of hypothesis' first run")
    parser.add_argument("--engine", choices=("atheris", "hypothesis"))
    asked = parser.parse_args()
    if asked.finding:
        for path in asked.finding:
            TARGETS[asked.target].check(path.read_bytes())
        return 0
    if asked.engine:
        if asked.engine == "atheris":
            by_atheris(asked.target, asked.seconds)
        else:
            by_hypothesis(asked.target, asked.seconds, asked.seed)
        return 0
    failed = []
    for name in [asked.target] if asked.target else TARGETS:
        for engine in ("atheris", "hypothesis"):
            words = [sys.executable, __file__, name, "--engine", engine, "--seconds", str(asked.seconds)]
            if subprocess.run(words, check=False, preexec_fn=lambda: os.nice(10)).returncode:
                failed.append(f"{name} by {engine}")
    print(f"found something: {', '.join(failed)}: see {BUILD}" if failed else "nothing was found")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
