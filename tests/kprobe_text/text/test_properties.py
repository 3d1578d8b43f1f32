"""Any text, of whichever family: nothing is raised, nothing is lost, and pieces don't matter."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kprobe_text.text import Event, Parser, Record, parse

NARROW = b"            bash-42    [001] ....    11.791146: e: (f+0x0/0x190)"
WIDE = b"            bash-42      [001] .....    11.791146: e: (f+0x0/0x190)"
REPORT = b"          task 0-100   [000]    10.000000: e:                    (ffffffff813485a0)"
SCRIPT = b"qemu 23671/23678 [000] 22275.020343: probe:e: (ffffffff813485a0)"
GRAPH = b" 0)               |  /* e: (f+0x0/0x1c0)"
RULE = b" ------------------------------------------\n"
HEADS = st.sampled_from([NARROW, WIDE, REPORT, SCRIPT, GRAPH, b"sh-1 [000] 1.000000: e: (f)", b"e: (f+0x0/0x1)"])
BODIES = st.sampled_from(
    [
        b"", b" a=1", b" a=0x1", b" a=9c b=10", b' s="x"', b' s="x" a=1', b' s="a\nb" a=2', b' s="', b'" a=3', b" */",
        b' s="x" */', b' s="a\n', b" a={1,2}", b" a='\n'", b"\r", b" a=1 junk", b" a=1 a=2",
    ]
)  # fmt: skip
OTHERS = st.sampled_from(
    [
        b"cpus=2\n", b"# tracer: function_graph\n", b"# tracer: nop\n", b"#\n", b"\n", b"odd\n",
        b"\t ffffffff81e3d7f9 f+0x9 (k)\n",
        b"\t=> f\n", b" => f\n", b"=> f\n", b" 0)   0.1 us      |  f();\n", b" 1) ! 208.385 us  |  }\n", RULE,
        b" 1)  init-1  =>  sh-2\n", RULE + b" 1)  init-1  =>  sh-2\n" + RULE + b"\n", b"CPU:1 [2 EVENTS DROPPED]\n",
        b"<...>-1 [001] 1.286875: f+0x0/0xd6: dfd=3 mode=1b6\n", b"<...>-1 [001] 1.286875: f+0x0/0xd6 <- g: 0x3\n",
        REPORT[:42] + b"kernel_stack:         \t=> f\n", REPORT[:42] + b"print:                0x1: hello\n\n",
        WIDE[:54] + b"<stack trace>\n", WIDE[:54] + b"tracing_mark_write: two\nlines\n",
    ]
)  # fmt: skip
LINES = st.one_of(st.tuples(HEADS, BODIES).map(lambda both: both[0] + both[1] + b"\n"), OTHERS, st.binary(max_size=30))
TEXTS = st.lists(LINES, max_size=10).map(b"".join)
DEFINITIONS = ["p:e f s=+0(%si):string a=%di:u8"]


def read(pieces: list[bytes], definitions: list[str], *, live: bool = False) -> list[Record]:
    parser = Parser(definitions=definitions, live=live)
    return [record for piece in pieces for record in parser.feed(piece)] + parser.close()


@given(TEXTS, st.booleans(), st.lists(st.integers(0, 600), max_size=12))
def test_pieces_do_not_matter(text: bytes, defined: bool, cuts: list[int]) -> None:
    definitions = DEFINITIONS if defined else []
    whole = parse(text, definitions=definitions)
    assert b"".join(record.raw for record in whole) == text
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert read(pieces, definitions) == whole
    assert b"".join(record.raw for record in read(pieces, definitions, live=True)) == text


@given(st.binary(max_size=80), st.integers(0, 255), st.sampled_from([WIDE, NARROW]))
def test_a_string_cannot_forge_what_its_definition_excludes(path: bytes, number: int, head: bytes) -> None:
    """Within a line a string is what the program gave, whatever it holds."""
    path = path.replace(b"\n", b" ").replace(b"\0", b"0")
    body = b' s="' + path + b'" a=0x%x\n' % number
    (record,) = parse(head + body, definitions=["p:e f s=+0(%si):string a=%di"])
    assert isinstance(record, Event)
    assert record.fields == {"s": path.decode("utf-8", "surrogateescape"), "a": number}
    assert (record.complete, record.guessed) == (True, set())


FORGED = st.lists(
    st.sampled_from([b"x", b'"', b" a=0x7", b"\n", WIDE, WIDE.replace(b" e: ", b" k: "),
                     b' s="', b"# tracer: nop", b" => f"]),
    max_size=7,
).map(b"".join)  # fmt: skip


@given(FORGED)
def test_a_string_forges_no_record_unless_it_ends_its_own(path: bytes) -> None:
    """With a newline: only by imitating the end of its record, a whole head and the beginning of its own string."""
    text = WIDE + b' s="' + path + b'" a=0x1\n'
    known = ["p:e f s=+0(%si):string a=%di", "p:k f"]
    records = parse(text + WIDE + b' s="end" a=0x2\n', definitions=known)
    assert isinstance(records[0], Event)
    if b'" a=0x7\n' not in path:
        assert len(records) == 2
        assert records[0].fields == {"s": path.decode(), "a": 1}
