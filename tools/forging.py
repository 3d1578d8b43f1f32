"""`make forging`: strings that imitate records, on every kernel, option, clock and tracer; none may look sure.

Each text is what a simulated kernel prints of a few hits, some with hostile strings, names or marks, which are put
together from lines that the same kernel prints with the same options.  It is read with each schema and in each way
that `kprobe` has.  A record that is neither `forgeable` nor one that the kernel made is a finding, and so is a value
of one that is neither right nor among `guessed`; and a harmless text with a seal has to be sure to its end.

    tools/forging.py --texts 5000 --seed 32
    tools/forging.py --seed 32 --only 1234          one of them again, with all that is known of it
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from kprobe_sim.scenarios.rendering import Rendering, render  # noqa: E402
from kprobe_text.text import FAULT, Bare, CodeAddress, Event, Header, Parser, Record, Unparsed, parse  # noqa: E402

KERNELS = ("5.10", "6.1", "6.12", "6.12-rt-amd64", "6.17", "6.19", "7.2", "7.3")
OLD = ("4.9", "4.19", "5.4")  # without numbers in definitions, so without seals
OPTIONS = (
    *("", "", "", "fields", "fields+sym-addr", "raw", "hex", "bin", "nocontext-info", "nocontext-info+fields"),
    *("latency-format", "latency-format+noirq-info", "latency-format+verbose", "latency-format+fields", "verbose"),
    *("noirq-info", "record-tgid", "record-tgid+noirq-info", "norecord-cmd", "noannotate", "noprint-parent"),
    *("sym-offset", "sym-addr", "stacktrace", "stacktrace+sym-addr", "userstacktrace", "userstacktrace+sym-userobj"),
    *(
        "nohash-ptr",
        "raw+nocontext-info",
        "hex+nocontext-info",
        "latency-format+raw",
        "stacktrace+fields",
        "printk-msg-only",
    ),
)
CLOCKS = ("local", "local", "global", "counter", "uptime", "perf", "mono", "mono_raw", "boot", "tai", "x86-tsc")
SEALED = (
    "s=+0(%si):string seal={}",
    "n=%di:s32 s=+0(%si):string seal={}",
    "s=+0(%si):string n=%di:s32 seal={}",
    "s=+0(%si):string n=%di:s32 t=+0(%dx):string seal={}",
    "n=%di:s32 s=+0(%si):string t=+0(%dx):string seal={} m=%di:u64",
    "c=$comm s=+0(%si):string n=%di:s32 seal={} d=$comm",
    "s=+0(%si):ustring n=%di:x64 seal={} p=$stack0:symbol",
    "n=%di:s32 a=+0(%si):char[8] s=+0(%si):string b=+0(%si):u8[3] seal={}",
)
OPEN = ("n=%di:s32 s=+0(%si):string", "s=+0(%si):string n=%di:s32", "n=%di:s32 s=+0(%si):string t=+0(%dx):string")
CLOSED = "p:plain vfs_write n=%di:s32 m=%si:x64"
SEAL, OTHER = rb"\0x5eed1e55:x64".decode(), rb"\0x1badcafe:x64".decode()
EVIL = 7777
FUNCTIONS = ("vfs_read", "vfs_write")
PARTS = (
    b"x", b'"', b"\n", b'"\n', b" ", b"{", b"}", b"'", b" */", b" */\n", b"\\n\\\n", b"\r\n", b"=", b"\t", b"\xff",
    b" n=5", b'" n=5', b'" t="', b" t=", b' t="', b" seal=0x1", b'" seal=0x5eed1e5', b'" seal=0x1badcafe\n', b'","',
    b" n=ff", b'{"" n=5 t="', b'evil-7777 [000] 0.000123: x: (0) s="', b"            evil-777  [000] 0.000123: ",
    b" s=", b' s="', b"7777 0 10000123000 type: 5\n", b"00001e61 00000000 00000002540f00e0 type: 5\n\n",
    b"type: 66\n", b"type: 66", b"su: (f+0x0/0x1) uid=0\n", b"CPU:1 [LOST 3 EVENTS]\n",
    b"##### CPU 1 buffer started ####\n", b"# tracer: nop\n#\n", b"<stack trace>\n", b" => evil_fn+0x1/0x2\n",
    b"tracing_mark_write: evil\n", b"tracing_mark_write: evil", b"NULL",
    b"# entries-in-buffer/entries-written: 1/1   #P:1\n", b"# tracer: function_graph\n", b"^C\n", b"$ cat\n",
    b"--\n", b"> ", b"[   12.345678] ", b"12:", b"/a.txt:", b"cpus=2\n", b" 1)   66.600 us   |  evil_fn();\n",
    b"</script>\n", b"evil 7777/7777 [000] 10.000123: probe:su: (0) uid=0\n",
    b"    evil  7777 [000] 10.000123: su: (f+0x0/0x1) uid=0\n",
    b"  evil-7777    0..... 123us : su: (f+0x0/0x1) uid=0\n", b"sys_evil(a: 1)\n", b"# 1 buf: 00\n",
    b"UNKNOWN TYPE 5\n", b"Unknown type 5\n", b"<user stack trace>\n", b" =>  <00007fff00000000>\n",
    b"=> evil_fn => evil_fn\n", b"# ffffffff8121cdea evil\n", b"7777 0 10000 # ffffffff8121cdea evil\n",
    b"7777 0 10000 type: 66\n", b"# 1 buf: 66 66", b"a: (0) b=1\n", b"evil: b=1\n", b"sys_evil -> 0x66\n",
    b"CPU:1 [EVENTS DROPPED]\n", b"CPU 1 is empty\n", b"version = 6\n",
    b"            evil-7777    [000] .....    10.000123: evil_fn <-evil_fn\n", b" evil_fn <-evil_fn\n",
    b"   7777:120:R   + [000]   7777:120:R evil\n", b"   7777:120:R ==> [000]   7777:120:R evil\n",
    b"#66 inner/outer(us):   66/66   ts:1.000000066\n", b"#66 context thread timer_latency 66 ns\n",
    b"66666 666 99.00000 66 66 66 66 66 66\n", b"  8,0    Q   R 66 + 8 [evil]\n", b": evil\n",
    b"evil_fn+0x0/0x6: (evil_fn+0x0/0x6) n=5\n", b"evil_fn+0x0/0x6: n=66\n", b"0x1: evil\n",
    b" ------------------------------------------\n 0)    cat-42     =>    evil-7777   \n"
    b" ------------------------------------------\n\n",
    b" 0) + 66.600 us  |  } /* evil_fn */\n", b" 0)               |  /* evil */\n",
    b"+1 us|  evil();\n", b"} /* evil */\n",
    b"# latency: 0 us, #1/1, CPU#0 | (M:desktop VP:0, KP:0, SP:0 HP:0 #P:1)\n", b"# x latency trace v1.1.5 on 6.1\n",
    b"#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n", b"#  cmd     pid   ||||| time  |   caller\n",
    b"\t    ffffffff81000066 evil_fn+0x6 ([kernel.kallsyms])\n", b"##### CPU 1 buffer started ####\n"
    b"            evil-7777    [000] .....    10.000123: su: (f+0x0/0x1) uid=0\n",
)  # fmt: skip
# Names of tasks: the longest has 15 bytes, enough for what is known without columns.
NAMES = (
    b'"evil', b"a\nevil", b"\nroot-1", b'"aaaaaaa', b"x-1 [0] 0.", b"# 1 buf: 66\n/a.", b"# 1 buf: 66 6\n",
    b"# 1 buf:\n", b"x\n# 1 buf: 66\n", b'"\n# 1 buf: 66\n', b"evil: (0) b=1\n", b"a: (0)\nevil", b"a: (0)\n",
    b"x\na: (0)\n", b"a: (0)\nb: (0)\nx", b'x: (0) s="\nab', b'ent: (0) s="\nx', b"evil: b=1\nx", b"type: 66\nevil",
    b"type: 66\n", b"1 0 1 type: 66\n", b"<stack trace>\nx", b"<stack trace>\n", b" => evil_fn\nx",
    b"+1 us|  evil()\n", b"+1 us|  }\nevil", b"} /* evil */\nx", b"sys_evil()\nx", b"sys_e -> 0x66\nx",
    b"# tracer: nop\n", b"# tracer: x\nab", b"cpus=2\nevil", b"#\n#\nevil", b"0x1: evil\nx", b": evil\nx",
    b"--\nevil", b"a+0x0/0x6: 6\nx",
)  # fmt: skip


# what people do to each line of a trace: columns get lost, and something stands before them
EDITS = {
    "": lambda line: line,
    "dedented": lambda line: line.removeprefix(b" "),
    "stripped": lambda line: line.lstrip(b" "),
    "quoted": lambda line: b"> " + line,
    "numbered": lambda line: b"12:" + line,
    "reported": lambda line: re.sub(rb": (\w+): \(", lambda it: b": " + (it[1] + b":").ljust(22) + b"(", line, count=1),
    "in a log": lambda line: b"[   12.345678] " + line,
    "with CR": lambda line: line.replace(b"\n", b"\r\n"),
}


class Case(NamedTuple):
    """A text: on which kernel it was made and how, and whether all of its strings are harmless."""

    text: bytes
    edit: str
    kernel: str
    options: tuple[str, ...]
    clock: str
    rendering: Rendering
    is_sealed: bool
    is_harmless: bool


def definitions(random_: random.Random, is_old: bool, seal: str, *, is_sealed: bool) -> list[str]:
    """Give definitions; the calls of vfs_read are hits of all but the last."""
    chosen = random_.sample(SEALED if is_sealed else OPEN, random_.choice((1, 1, 2)))
    if is_old:
        chosen = [one.replace(" seal={}", "") for one in chosen if "ustring" not in one and "symbol" not in one]
    kind = random_.choice(("p:ent", "p:ent", "p:x"))
    return [f"{kind}{i or ''} vfs_read {one.format(seal)}" for i, one in enumerate(chosen or OPEN[:1])] + [CLOSED]


def memory(text: bytes, where: int) -> dict[str, str]:
    return {hex(where): (text.replace(b"\0", b"") + b"\0").hex()}


def call(function: str, number: int, first: bytes, second: bytes, comm: bytes, pid: int) -> dict[str, Any]:
    """Give a call whose strings are these."""
    at = 0x7FFF_0000_0000
    return {
        "function": function,
        "args": [number, at, at + 0x4000],
        "memory": {**memory(first, at), **memory(second, at + 0x4000)},
        "task": {"comm": {"hex": comm[:15].hex()}, "pid": pid, "tgid": pid},
    }


def imitations(random_: random.Random, lines: Sequence[bytes], room: int) -> bytes:
    """Put a hostile string together."""
    found = b""
    for _ in range(random_.randint(1, 7)):
        line = random_.choice(lines) if lines else b"x\n"
        chosen = random_.random()
        if chosen < 0.35:
            found += random_.choice(PARTS)
        elif chosen < 0.4:
            # a name of 16 bytes is as long as one gets
            found = line.strip(b" \n").rjust(random_.choice((0, len(line) - random_.randrange(20))), b"{") + found
        elif chosen < 0.93:
            found += _part(random_, line)
        elif chosen < 0.97:
            found += b"A" * random_.choice((1, 15, 60, 300, 900))
        else:
            found += b"A" * (random_.choice((3900, 4000, 4040, 4090)) - len(found))
    return found[:room]


def _part(random_: random.Random, line: bytes) -> bytes:
    """Give a line, or some of it."""
    # as far as into one of its strings, so that what really follows ends it; or from the end of one, as if that was it
    into = random_.choice([found.end() for found in re.finditer(rb'"| s=| t=', line)] or [len(line)])
    end = random_.choice([found.start() for found in re.finditer(rb'"| n=| seal=', line)] or [0])
    return random_.choice(
        (
            b"\n" + line,
            line,
            line.rstrip(b"\n"),
            line[: random_.randrange(len(line) + 1)],
            b"\n" + line[:into],
            line[end:],
        )
    )


def harmless(random_: random.Random) -> bytes:
    return random_.choice(
        (
            b"/etc/hostname",
            b"/proc/self/maps",
            b"a b",
            b"",
            b"x=1",
            b"/tmp/\xc3\xa9",
            b"it's",
            b"50%",
            b"/a: b",
            b"a\nb",
        )
    )


def evil_lines(made: Rendering) -> list[bytes]:
    """Give the lines of a text, as the same kernel would print them of another."""
    lines = [line for line in made.text.splitlines(keepends=True) if not line.startswith(b"#")]
    return [line.replace(b"vfs_read", b"evil_fn").replace(b"3.000 us", b"66.600 us") for line in lines]


def made(random_: random.Random) -> Case:
    """Make a text of a kernel that takes the definitions."""
    while True:
        with contextlib.suppress(ValueError):
            return attempted(random_)


def hits(
    random_: random.Random, lines: Sequence[bytes], *, is_harmless: bool, has_marks: bool
) -> Iterator[dict[str, Any]]:
    """Yield what is done: calls, and marks between them."""
    for number in range(1, random_.randint(3, 7)):
        first, second, comm = harmless(random_), harmless(random_), b"cat"
        if not is_harmless and random_.random() < 0.7:
            first = imitations(random_, lines, 4000)
            if random_.random() < 0.4:
                second = imitations(random_, lines, 4000)
            elif random_.random() < 0.4:
                # the kernel breaks off before it
                second = b"B" * random_.choice((3900, 3990, 4090))
            if random_.random() < 0.2:
                comm = imitations(random_, lines, 15).replace(b"\0", b"") or b"x"
            if random_.random() < 0.15:
                comm = random_.choice(NAMES)
        if has_marks and random_.random() < 0.5:
            yield {"marker": imitations(random_, lines, 900) or b"x", "task": "cat-42"}
        function = "vfs_write" if random_.random() < 0.2 else "vfs_read"
        yield call(function, number, first, second, comm, 42)


def attempted(random_: random.Random) -> Case:
    """Make a text; raise ValueError if a definition is refused."""
    is_old = random_.random() < 0.1
    kernel = random_.choice(OLD if is_old else KERNELS)
    options = tuple(word for word in random_.choice(OPTIONS).split("+") if word)
    clock = random_.choice(CLOCKS)
    is_sealed = not is_old and random_.random() < 0.8
    seed = random_.random()
    other, own = (
        definitions(random.Random(seed), is_old, seal, is_sealed=is_sealed or is_old) for seal in (OTHER, SEAL)
    )
    tracer = random_.choice(("function", "function_graph")) if not options and random_.random() < 0.25 else ""
    traced = [{"write": "current_tracer", "data": tracer}] if tracer else []
    if tracer == "function_graph" and random_.random() < 0.6:
        words = random_.sample(("funcgraph-proc", "funcgraph-abstime", "nofuncgraph-cpu", "nofuncgraph-irqs"), 2)
        traced += [{"write": "trace_options", "data": word} for word in words]
    innocent = [
        call("vfs_read", 701, b"forged", b"forged", b"evil", EVIL),
        call("vfs_write", 702, b"", b"", b"evil", EVIL),
        *([] if options == ("printk-msg-only",) else [{"marker": "evil", "task": f"evil-{EVIL}"}]),
        call("vfs_read", 703, b"forged", b"forged", b"evil", EVIL),
    ]
    forged = {"definitions": other, "call": [*traced, *innocent], "start": 50}
    lines = evil_lines(render(forged, kernel, options, clock))
    if random_.random() < 0.2:
        lines = [line.replace(b" n=70", b" n=f") for line in lines]  # as kernels of old print numbers
    is_harmless = random_.random() < 0.1
    # with that option nothing tells a mark from a record
    has_marks = (
        not is_harmless
        and options != ("printk-msg-only",)
        and random_.random() < (0.6 if {"raw", "hex", "bin"} & {*options} else 0.2)
    )
    calls = [*traced, *hits(random_, lines, is_harmless=is_harmless, has_marks=has_marks)]
    edit = random_.choice(sorted(EDITS)) if random_.random() < 0.3 else ""
    reader = random_.choice(("trace", "trace", "trace_pipe"))
    scenario = {"definitions": own, "call": calls, "reader": reader}
    rendering = render(scenario, kernel, options, clock)
    options += (tracer,) if tracer else ()
    text = edited(rendering.text, edit)
    return Case(text, edit, kernel, options, clock, rendering, is_sealed, is_harmless and is_sealed and not edit)


def edited(text: bytes, edit: str) -> bytes:
    return b"".join(map(EDITS[edit], re.findall(rb"[^\n]*\n|[^\n]+", text)))


def value(one: Any) -> Any:
    if isinstance(one, tuple) and not isinstance(one, CodeAddress):
        return [value(part) for part in one]
    return None if one is FAULT else one.text if isinstance(one, CodeAddress) else one


def kind(record: Record) -> str:
    name = type(record).__name__.lower().removeprefix("bare")
    return {"": "event", "stacktrace": "stack", "bufferstarted": "started"}.get(name, name)


_SAID = ("name", "pid", "cpu", "timestamp", "event_id", "text", "identifier", "count", "user")


def is_same(one: Any, other: Any, edit: str) -> bool:
    """Say whether two values are the same, but for what an edit does to a string of several lines."""
    if edit and isinstance(one, str) and isinstance(other, str):
        return "".join(one.split()) == "".join(other.split())
    return bool(one == other)


def is_true(record: Any, truth: list[dict[str, Any]], edit: str) -> bool:
    """Say whether the kernel made a record, and take it from the truth."""
    found = kind(record)
    if found in ("call", "function", "switch", "comment", "unnamed"):
        # the truth has nothing of tracers
        said = f"{getattr(record, 'function', '')} {getattr(record, 'text', '')} {getattr(record, 'duration', '')}"
        return getattr(record, "pid", 0) != EVIL and "evil" not in said and "66600" not in said
    for one in truth:
        if one["type"] != found:
            continue
        said = {name: getattr(record, name, None) for name in _SAID if name not in getattr(record, "guessed", ())}
        if any(read is not None and name in one and not is_same(one[name], read, edit) for name, read in said.items()):
            continue
        if isinstance(record, (Event, Bare)) and record.complete:
            fields = one.get("fields", {})
            read = {name: value(read) for name, read in record.fields.items() if name not in record.guessed}
            if any(name in fields and not is_same(fields[name], read[name], edit) for name in read):
                continue
        truth.remove(one)
        return True
    return False


def shown(case: Case) -> list[dict[str, Any]]:
    """Give the truth, with times as the tracer shows them."""
    if "function_graph" not in case.options:
        return list(case.rendering.truth)
    # print_graph_abs_time has each clock's number for nanoseconds, of which it shows microseconds: 6.12 with clock
    # counter prints 0.000000 for each of the first 999 records
    return [
        {**one, "timestamp": one["timestamp"] // 1000 * 1000} if "timestamp" in one else one
        for one in case.rendering.truth
    ]


def schemas(case: Case) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    formats = {path.split("/")[-2]: text for path, text in case.rendering.formats.items()}
    yield "formats and definitions", formats, case.rendering.definitions
    yield "definitions", {}, case.rendering.definitions
    yield "formats", formats, []
    yield "nothing", {}, []


def ways(case: Case, formats: dict[str, str], defined: list[str]) -> Iterator[tuple[str, list[Record]]]:
    text = case.text
    yield "whole", parse(text, formats, definitions=defined)
    live = Parser(formats, definitions=defined, live=True)
    yield "live", live.feed(text) + live.close()
    parser = Parser(formats, definitions=defined)
    yield "at once", parser.feed(text) + parser.close()
    yield (
        "in pieces",
        [one for at in range(0, len(text), 397) for one in parser.feed(text[at : at + 397])] + parser.close(),
    )


def certain(records: Iterable[Any]) -> list[Any]:
    return [one for one in records if not isinstance(one, (Header, Unparsed)) and not getattr(one, "forgeable", False)]


def findings(case: Case, counts: Counter[str]) -> Iterator[str]:
    """Yield what is wrong with what is read of a text."""
    for schema, formats, defined in schemas(case):
        for way, records in ways(case, formats, defined):
            counts["records"] += len(records)
            assert b"".join(record.raw for record in records) == case.text, "bytes were lost"
            sure = certain(records)
            counts["certain"] += len(sure)
            counts["forgeable"] += sum(getattr(record, "forgeable", False) for record in records)
            truth = shown(case)
            for record in sure:
                if not is_true(record, truth, case.edit):
                    yield f"forged and certain ({schema}, {way}): {record}"
            if case.is_harmless and "seal" in "".join(defined):
                marked = sum(getattr(record, "forgeable", False) for record in records)
                counts["harmless"] += len(records)
                counts["harmless, but marked"] += marked
                counts[f"harmless, but marked, {'+'.join(case.options)}"] += marked


def compiled(case: Case) -> Iterator[str]:
    """Yield where the compiled pass says something else of a text than `kprobe_text.text`."""
    from kprobe_text.columns.reading import Reading

    for schema, formats, defined in schemas(case):
        parser = Parser(formats, definitions=defined)
        text = case.text * 3
        records = parser.feed(text) + parser.close()
        expected, at = {}, 0
        for record in records:
            if hasattr(record, "forgeable"):
                expected[at] = record.forgeable
            at += len(record.raw)
        tables = Reading(formats, defined, compiled=True).tables([text])
        found = {}
        for table in (table for some in tables for table in some.values() if "forgeable" in table.column_names):
            found |= dict(zip(table["offset"].to_pylist(), table["forgeable"].to_pylist(), strict=True))
        for at, is_marked in found.items():
            if expected.get(at, is_marked) != is_marked:
                yield f"the compiled pass ({schema}) has another mark at byte {at}: {is_marked}"


def run(seed: int, numbers: Iterable[int], *, bulk: bool = False) -> tuple[Counter[str], list[str]]:
    """Read texts; return counts and findings."""
    counts: Counter[str] = Counter()
    found: list[str] = []
    for number in numbers:
        case = made(random.Random(f"{seed}/{number}"))
        counts["texts"] += 1
        counts[f"kernel {case.kernel}"] += 1
        counts[f"options {'+'.join(case.options) or 'none'}"] += 1
        counts[f"clock {case.clock}"] += 1
        counts[f"edit {case.edit or 'none'}"] += 1
        wrong = [*findings(case, counts), *(compiled(case) if bulk else ())]
        counts["texts with a finding"] += bool(wrong)
        found += [f"{number}: {case.kernel} {'+'.join(case.options)} {case.clock} {case.edit}: {one}" for one in wrong]
    return counts, found


def main() -> int:
    """Read as many texts as are asked for, or one again."""
    parser = argparse.ArgumentParser(description="imitate records in strings")
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=32)
    parser.add_argument("--only", type=int, help="number of a text")
    parser.add_argument("--bulk", action="store_true", help="compare with the compiled pass, too")
    asked = parser.parse_args()
    start = time.monotonic()
    if asked.only is not None:
        case = made(random.Random(f"{asked.seed}/{asked.only}"))
        print(case.kernel, case.options, case.clock, case.edit, *case.rendering.definitions, sep="\n")
        print(case.text.decode(errors="backslashreplace"))
        print(*case.rendering.truth, sep="\n")
    numbers = range(asked.texts) if asked.only is None else [asked.only]
    counts, found = run(asked.seed, numbers, bulk=asked.bulk)
    for text in found if asked.only is not None else list({one.partition(":")[0]: one for one in found}.values())[:40]:
        print(text)
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")
    print(f"{len(found):8} findings, seed {asked.seed}, {time.monotonic() - start:.0f} s")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
