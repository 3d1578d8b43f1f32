"""Text made to be slow to read: no line that a kernel can print costs much more than `make fuzz` allows, 1 ms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kprobe_text.text import Event, Parser, StackTrace, argument_guesses, parse

HEAD = b"            bash-42      [001] .....    11.791146: "
RETURN = HEAD + b"ret: (f+0x0/0x1) ret=3\n"
# what the fuzzer allows is held on a machine that does nothing else; what it found were factors of 10 to 40
SLACK = 5


@pytest.fixture(scope="module")
def fuzz(loaded: Callable[[Path], ModuleType]) -> ModuleType:
    return loaded(Path(__file__).parents[3] / "tools" / "fuzz" / "fuzz.py")


@pytest.mark.parametrize(
    ("known", "text"),
    [
        # two strings, of which the first could end anywhere: all its ends were tried with all ends of the second
        (1, HEAD + b'e: (f+0x0/0x1) s="' + b'" a=1 t="' * 400 + b"\n"),
        (1, HEAD + b'e: (f+0x0/0x1) s="' + b'" a=1 t="x" c=' * 250 + b"\n"),
        # records that are broken off, each of another event: 16 KiB were read for each line after each
        (0, b"# tracer: nop\n" + b"".join(b'e%d: (f) s="x\n' % i for i in range(200))),
        (0, b"".join(HEAD + b'e%d: (f+0x0/0x1) s="x" s="\n' % i for i in range(200))),
        # a hundred times 500 arguments
        (0, HEAD + b"e: (f+0x0/0x1)" + b"".join(b' a%d="x"' % i for i in range(500)) + b" %\n"),
        # a call chain of perf script with many parentheses
        (0, b"qemu 1/2 [000] 22275.020343: p:e: (ffffffff813485a0)\n\tff " + b" (" * 1400 + b"\n"),
        (0, HEAD + b'e: (f) s="' + b'" a="' * 800 + b"\n"),
        # an end of a string at each of 1,000 places, none of which fits, tried thirteen times
        (1, RETURN + HEAD + b'e: (f+0x0/0x1) s="' + b' a="' * 1000 + b'" a=1 %\n' + RETURN),
        # 500 arguments, broken off, that were read ten times; and such as are no numbers
        (0, RETURN + HEAD + b"x: (f+0x0/0x1)" + b"".join(b" a%d={1,2}" % i for i in range(330)) + b" a\n" + RETURN),
        (0, RETURN + HEAD + b'x: (f+0x0/0x1) s="' + b"".join(b" a%d=ff" % i for i in range(500)) + b"\n" + RETURN),
        # pairs of no probe's event, read four times, each name looked for at each byte; more than 128 arguments
        (0, b" 1)  0.1 us | " + b"-42 [001] .....  1.000001: ent: (f" * 60 + b" dfd=1" * 330 + b"\n"),
        (0, HEAD + b"e: (f+0x0/0x1)" + b"".join(b"f a%d=1" % i for i in range(500)) + b"\n"),
        (0, HEAD + b"\xff0" * 4000 + b"\n"),
        (0, (RETURN + b"\n" * 50) * 80),
        (0, HEAD + b"<stack trace>\n" + b"".join(b" => f%d+0x1/0x2\n" % i for i in range(300))),
    ],
)
def test_no_line_takes_long(fuzz: ModuleType, known: int, text: bytes) -> None:
    formats, definitions = fuzz.KNOWN[known]
    parser = Parser(formats, definitions=definitions)
    parser.feed(b"".join(HEAD + name + b": (f+0x0/0x1)\n" for name in fuzz.EVENTS) * 2)
    parser.close()
    times = fuzz.slow(lambda: (parser.feed(text), parser.close()), text.count(b"\n"), len(text))
    assert times < SLACK


# so long is a line at most, since 6.8 (trace_seq)
LONGEST = 8192
GRAPH = b" 1)   0.123 us    |  "


def filled(head: bytes, unit: bytes, tail: bytes = b"") -> bytes:
    """Make the longest line of a unit again and again, with another number in each."""
    line, number = head, 0
    while len(line) < LONGEST:
        line += unit.replace(b"#", b"%d" % number)
        number += 1
    return line[: LONGEST - 1 - len(tail)] + tail + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        # arrays of thousands of elements, each read eight times
        filled(HEAD + b"x: (f+0x0/0x1) c={", b"1,", b"'x'}"),
        filled(HEAD + b'x: (f+0x0/0x1) n={1,"', b"f+0x1/0x2,"),
        filled(HEAD + b'x: (f+0x0/0x1) s="', b'" a#=1 n={'),
        # a place whose end was looked for at each byte
        filled(HEAD + b"sys_enter: (f+0x0/0x1) c={", b"a+0x1", b" a=1 a=1"),
        # thousands of arguments without names, as in 2009, and of pairs and system calls
        filled(HEAD + b"f+0x0/0x1: ", b"a * "),
        filled(HEAD + b"ret: ", b" a#=f+0x1/0x2"),
        filled(GRAPH + b"/* sy: (", b"#, a#=+0x", b" a=1 a=1 */"),
        filled(HEAD + b"sys_enter_openat: ", b"a#: 1, ", b"%"),
        # names after each of which a record was looked for, and a record after each of these
        filled(HEAD + b"x: (f+0x0/0x1)", b" _=", b"%"),
        filled(b"perf 1/2 [000] 22275.020343: p:e: (ff)", b" 1=", b"%"),
        filled(HEAD + b"x: (f+0x0/0x1)", b" a#=x a=" + HEAD + b"ret: (f+0x0/0x1) "),
        # blanks at each of which a record was looked for
        filled(b"inst:" + HEAD + b"x: (f+0x0/0x1)", b" ", b"%"),
        filled(b"ret: (f+0x0/0x1)", b"x", b"%"),
        # strings none of which could end elsewhere; frames on one line
        filled(HEAD + b"x: (f+0x0/0x1)", b' s#="" a#=', b"%"),
        filled(HEAD, b" => f#"),
        filled(GRAPH, b"00:", b"}"),
    ],
)
@pytest.mark.parametrize("known", [0, 1])
def test_no_line_of_8_kib_takes_long(fuzz: ModuleType, known: int, line: bytes) -> None:
    formats, definitions = fuzz.KNOWN[known]
    assert len(line) == LONGEST
    parser = Parser(formats, definitions=definitions)
    parser.feed(RETURN + line + RETURN)
    parser.close()
    assert fuzz.slow(lambda: (parser.feed(line), parser.close()), 1, LONGEST - 1) < SLACK


def test_arguments_of_an_event_with_many_that_is_broken(fuzz: ModuleType) -> None:
    """Each of the names was looked for to the end of the line, and each number of arguments read."""
    shown = " ".join(f"a{i}=%d" for i in range(128))
    parser = Parser({"many": fuzz.FORMAT.format("many", shown)})
    lines = [filled(HEAD + b"many: (f+0x0/0x1)", unit, b"%") for unit in (b' a#="', b' (fault) a#="', b" a#=1 b")]
    for line in lines:
        parser.feed(RETURN + line)
        parser.close()
        assert fuzz.slow(lambda line=line: (parser.feed(line), parser.close()), 1, LONGEST - 1) < SLACK
    (event,) = parser.feed(HEAD + b"many: (f+0x0/0x1) a0=1 a1=2 a2=\n") + parser.close()
    assert isinstance(event, Event)
    assert event.fields == {"a0": 1, "a1": 2}


def fields_of(text: bytes) -> tuple[dict[str, object], bool]:
    (event,) = parse(HEAD + text + b"\n")
    assert isinstance(event, Event)
    return dict(event.fields), event.complete


def test_more_than_a_kernel_prints_is_text() -> None:
    elements = ",".join("7" * 64)
    assert fields_of(f"x: (f+0x0/0x1) n={{{elements}}}".encode()) == ({"n": (7,) * 64}, True)
    assert fields_of(f"x: (f+0x0/0x1) n={{{elements},7}}".encode()) == ({"n": f"{{{elements},7}}"}, False)
    words = b"1 " * 130
    fields, complete = fields_of(b"f+0x0/0x1: " + words)
    assert (len(fields), fields["arg128"], fields["arg129"], complete) == (129, 1, "1 1 ", False)
    fields, complete = fields_of(b"x: " + b" ".join(b"a%d=1" % i for i in range(258)))
    assert (len(fields), fields["a254"], fields["a255"], complete) == (256, 1, "1 a256=1 a257=1", False)
    fields, complete = fields_of(b"sys_x(" + b", ".join(b"a%d: 1" % i for i in range(7)) + b")")
    assert (list(fields), complete) == (["a0", "a1", "a2", "a3", "a4", "a5"], False)


def test_lines_that_are_the_same_share_no_fields() -> None:
    one, two = (record for record in parse((HEAD + b"x: (f+0x0/0x1) a=1 b\n") * 2) if isinstance(record, Event))
    assert one.fields == two.fields == {"a": "1 b"}
    assert isinstance(one.fields, dict)
    one.fields["a"] = "other"
    assert two.fields == {"a": "1 b"}


def test_broken_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def noted(body: bytes, *, decimal: bool = False) -> object:
        read.append(body)
        return attempted(body, decimal=decimal)

    attempted = argument_guesses.attempted
    parser = Parser()
    monkeypatch.setattr(argument_guesses, "attempted", noted)
    parser.feed(RETURN + HEAD + b"x: (f+0x0/0x1) a=1 b\n" + RETURN)
    parser.close()
    assert read.count(b" a=1 b") == 1


def test_the_fuzzer_tells_a_slow_text_and_checks_its_seeds(fuzz: ModuleType) -> None:
    assert fuzz.slow(lambda: sum(range(2_000_000)), 1, 50) > 2
    assert fuzz.slow(lambda: None, 1, 50) == 0
    for target in fuzz.TARGETS.values():
        seeds = list(target.seeds())
        assert seeds
        target.check(seeds[0])
        target.check(seeds[-1])


def test_a_string_with_many_records_in_it_is_still_one() -> None:
    """What is read again to find its end is bounded, which lines that can't be the end don't count for."""
    forged = (b"\n" + RETURN.removesuffix(b"\n")) * 60
    text = HEAD + b'ent: (f+0x0/0x1) s="' + forged + b'" a=0x1\n' + RETURN
    event, following = parse(text, definitions=["p:ent f s=+0(%si):string a=%di"])
    assert isinstance(event, Event)
    assert event.fields == {"s": forged.decode(), "a": 1}
    assert following.raw == RETURN


def test_a_frame_of_perf_script_with_parentheses() -> None:
    head = b"qemu 1/2 [000] 22275.020343: p:e: (ffffffff813485a0)\n"
    _, stack = parse(head + b"\tff f (a) (b)\n\tfe g (x\n\tfd h+0x1/0x2 (/lib/a b.so)\r\n\n")
    assert isinstance(stack, StackTrace)
    assert [frame.text for frame in stack.frames] == ["f (a) <ff>", "g (x <fe>", "h+0x1/0x2 <fd>"]
