"""The results of a matrix, as a Markdown page and as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from kprobe_lab.matrix.features import FIXED, SECTIONS, Define, Exists, Feature, Filter, Format, Option, Says, Trigger
from kprobe_lab.matrix.measure import Answer, Column

TITLE = "Which kernel takes which probe"
SIGNS = {"ok": "✓", "refused": "✗", "absent": "–", "fault": "!"}
WORDS = {"ok": "", "refused": "refused", "absent": "not there", "fault": "fault"}
LONGEST = 700  # characters of an answer that are shown
LETTERS = 23  # that a column has room for in a window of usual width
NOTHING = "and nothing is listed"
LONGEST_ASKED = 90  # and of what was asked

LEGEND = (
    ("✓", "ok", "taken; below it what the kernel then lists"),
    ("✗", "refused", "refused: the errno, then what error_log says, with its caret; the errno alone if it is silent"),
    ("–", "absent", "not there"),
    ("≠", "differs", "the simulator of the series that is named answers otherwise, as shown; ! is a fault of its own"),
)

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --head: #f3f5f7;
  --ok: #e6f4ea; --ok-ink: #176b33; --refused: #fdf0ee; --refused-ink: #a32a1c; --absent: #f3f4f6;
  --differs: #fff3c4; --differs-ink: #7a4b00; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --ink: #e4e7eb; --soft: #9aa4af; --line: #343b44;
  --head: #1e2329; --ok: #15291c; --ok-ink: #7fd89a; --refused: #321a17; --refused-ink: #ff9d8f; --absent: #1b1f24;
  --differs: #453500; --differs-ink: #ffd873; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 1.5rem; background: var(--ground); color: var(--ink);
  font: 14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .4rem; }
p { max-width: 62rem; margin: .4rem 0; }
nav a { margin-right: .9rem; white-space: nowrap; }
a { color: inherit; }
dl { display: grid; grid-template-columns: 2.2rem 1fr; gap: .25rem .6rem; margin: .8rem 0; max-width: 62rem; }
dt { text-align: center; font-weight: 700; border: 1px solid var(--line); border-radius: 3px; align-self: start; }
dd { margin: 0; }
label { display: inline-block; margin: .5rem 0 1rem; cursor: pointer; }
table { border-collapse: separate; border-spacing: 0; width: 100%; min-width: 70rem; table-layout: fixed; }
th, td { border: solid var(--line); border-width: 0 1px 1px 0; padding: .35rem .55rem; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
thead th { position: sticky; top: 0; z-index: 2; background: var(--head); border-top-width: 1px; }
thead th small { display: block; font-weight: 400; color: var(--soft); }
th:first-child { border-left-width: 1px; }
tbody th { font-weight: 400; background: var(--ground); position: sticky; left: 0; z-index: 1; }
tbody th b { display: block; font-weight: 600; }
.section th { background: var(--head); font-weight: 700; font-size: 1.05rem; padding-top: .9rem;
  position: static; }
.section { scroll-margin-top: 4.5rem; }
code, pre { font: 12px/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { margin: .15rem 0 0; white-space: pre-wrap; }
pre.caret { white-space: pre; overflow-x: auto; overflow-wrap: normal; scrollbar-width: thin; }
pre.caret i { font-style: normal; font-weight: 700; }
tbody th code { color: var(--soft); white-space: pre-wrap; }
.ok { background: var(--ok); } .ok > b { color: var(--ok-ink); }
.refused { background: var(--refused); } .refused > b, .refused pre.caret i { color: var(--refused-ink); }
.absent { background: var(--absent); color: var(--soft); }
.sim { margin-top: .4rem; padding: .3rem .45rem; border-left: 4px double var(--differs-ink); background: var(--differs);
  color: var(--ink); }
.sim > b { color: var(--differs-ink); } dt.differs { background: var(--differs); }
body:has(#changes:checked) tr.same, body:has(#differs:checked) tr.agrees { display: none; }
@media print { thead th, tbody th { position: static; } label { display: none; } }
"""


class _Cell(NamedTuple):
    """An answer, the neighbouring columns that gave it, and what simulators answer instead, by their series."""

    answer: Answer
    columns: tuple[Column, ...]
    simulated: dict[Answer, list[str]]


def _cells(columns: Sequence[Column], index: int) -> list[_Cell]:
    """Return the cells of a row."""
    cells = []
    for answer, group in groupby(columns, lambda column: column.answers[index]):
        spanned, others = tuple(group), dict[Answer, list[str]]()
        for column in spanned:
            if column.simulated is not None and column.differs(index):
                others.setdefault(column.simulated[index], []).append(column.name)
        cells.append(_Cell(answer, spanned, others))
    return cells


def _numbered() -> Iterator[tuple[int, str, Feature]]:
    index = 0
    for section in SECTIONS:
        for row in section.rows:
            yield index, section.title, row
            index += 1


def _asked(row: Feature) -> str:
    """Return what is written, or the name of what is looked for."""
    match row.act:
        case Define(line, before):
            return "\n".join(_short(text, LONGEST_ASKED) for text in (*before, line))
        case Format(line):
            return line
        case Filter(text) | Trigger(text):
            return text
        case Exists(name) | Option(name):
            return name
        case Says(path):
            return path


def _short(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 23]} … {text[-20:]}"


def _head(answer: Answer) -> str:
    """Return sign and word of an answer, such as "✗ EINVAL"."""
    return f"{SIGNS[answer.state]} {answer.errno or WORDS[answer.state]}".strip()


def _is_silent(answer: Answer, row: Feature) -> bool:
    """Return whether the kernel accepted a definition that leaves nothing in the listing, as a removal does."""
    return isinstance(row.act, Define) and answer == Answer("ok")


def _caret(answer: Answer, width: int = LONGEST) -> tuple[str, str]:
    """Return error_log's command and the line with its caret, from the word with the caret on if it is too wide."""
    command, caret = answer.command, answer.caret
    if len(command) > width and (start := command.rfind(" ", 0, max(caret, 0)) + 1):
        start = max(start, caret - width + 8)  # or from the middle of a word that is itself too long
        command, caret = f"… {command[start:]}", caret - start + 2
    if len(command) > max(width, caret + 2):
        command = f"{command[: max(width, caret + 2) - 2]} …"
    return command, " " * caret + "^" if caret >= 0 else ""


def _measured_on(columns: Sequence[Column]) -> str:
    kernels = [f"{column.release} ({column.build})" for column in columns if not column.is_simulator]
    simulators = [f"{column.release}" for column in columns if column.is_simulator or column.simulated is not None]
    parts = [f"kernels {', '.join(kernels)}"] if kernels else []
    parts += [f"the simulator as {', '.join(simulators)}"] if simulators else []
    return f"Generated by kprobe-vm matrix; {len(columns[0].answers)} features asked of {'; and of '.join(parts)}."


def _intention() -> list[str]:
    return [
        "Each row was tried on each kernel, in its own guest, and shows the kernel's answers: "
        "Debian's cloud kernels for x86-64. A feature may come and go with a point release, and "
        "what is a module in one kernel may be built into another.",
        "Filters and triggers are those of the event",
    ]


# ---- HTML ----


def _answer_html(answer: Answer, span: int) -> Iterator[str]:
    yield f"<b>{escape(_head(answer))}</b>"
    if answer.state != "refused":
        if answer.text:
            yield f"<pre>{escape(_short(answer.text))}</pre>"
        return
    if answer.text:
        yield f" {escape(answer.text)}"
    if answer.command:
        command, caret = _caret(answer, LETTERS * span)
        yield f'<pre class="caret">{escape(command)}\n<i>{caret}</i></pre>'


def _cell_html(cell: _Cell, row: Feature) -> str:
    span = f' colspan="{len(cell.columns)}"' if len(cell.columns) > 1 else ""
    said = "".join(_answer_html(cell.answer, len(cell.columns)))
    if _is_silent(cell.answer, row):
        said += f" {NOTHING}"
    for answer, series in cell.simulated.items():
        other = "".join(_answer_html(answer, len(cell.columns))).replace(
            "<b>", f"<b>≠ simulator {', '.join(series)}: ", 1
        )
        said += f'<div class="sim">{other}</div>'
    return f'<td class="{cell.answer.state}"{span}>{said}</td>'


def _column_html(column: Column) -> str:
    if column.is_simulator:
        beside = "simulated"
    elif column.simulated is None:
        beside = "no simulator"
    else:
        beside = f"≠ simulator in {column.differences}" if column.differences else "as simulated"
    smalls = "".join(f"<small>{escape(text)}</small>" for text in (column.build or column.release, beside))
    return f"<th scope=col>{escape(column.name)}{smalls}</th>"


def _words(classes: set[str]) -> str:
    return " ".join(sorted(classes))


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def html(columns: Sequence[Column]) -> str:
    """Return the page for a browser."""
    body: list[str] = []
    for title, rows in groupby(_numbered(), lambda entry: entry[1]):
        inside, shown = [], {"same", "agrees"}
        for index, _, row in rows:
            cells = _cells(columns, index)
            classes = {"same"} if len(cells) == 1 else set()
            classes |= set() if any(cell.simulated for cell in cells) else {"agrees"}
            shown &= classes
            what = f"<b>{escape(row.what)}</b>" if row.what else ""
            asked = escape(_asked(row)).replace("\n", "<br>")
            data = "".join(_cell_html(cell, row) for cell in cells)
            inside.append(f'<tr class="{_words(classes)}"><th scope=row>{what}<code>{asked}</code></th>{data}</tr>')
        head = f'<th colspan="{len(columns) + 1}">{escape(title)}</th>'
        body += [f'<tr class="{_words({"section"} | shown)}" id="{_anchor(title)}">{head}</tr>', *inside]
    legend = "".join(f'<dt class="{name}">{sign}</dt><dd>{text}</dd>' for sign, name, text in LEGEND)
    nav = " ".join(f'<a href="#{_anchor(section.title)}">{escape(section.title)}</a>' for section in SECTIONS)
    first, second = _intention()
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{TITLE}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{TITLE}</h1>
<p>{escape(first)} {escape(second)} <code>{escape(FIXED)}</code>.</p>
<p>{escape(_measured_on(columns))}</p>
<dl>{legend}</dl>
<nav>{nav}</nav>
<label><input type="checkbox" id="changes"> only rows in which kernels differ</label>
<label><input type="checkbox" id="differs"> only rows in which a simulator differs</label>
<table>
<colgroup><col style="width:19rem"><col span="{len(columns)}"></colgroup>
<thead><tr><th scope=col>Feature</th>{"".join(_column_html(column) for column in columns)}</tr></thead>
<tbody>
{chr(10).join(body)}
</tbody>
</table>
</body>
</html>
"""


# ---- Markdown ----


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def _table(columns: Sequence[Column], title: str) -> Iterator[str]:
    yield "| | asked | " + " | ".join(column.name for column in columns) + " |"
    yield "|---" * (len(columns) + 2) + "|"
    for index, section, row in _numbered():
        if section != title:
            continue
        signs = [_sign(column.answers[index], row) + (" ≠" if column.differs(index) else "") for column in columns]
        asked = _asked(row).split("\n")[-1].replace("|", "\\|")
        yield f"| {row.what} | {_code(asked)} | " + " | ".join(signs) + " |"


def _sign(answer: Answer, row: Feature) -> str:
    text = f" {answer.text}" if isinstance(row.act, Option) and answer.state == "ok" else ""
    return (SIGNS[answer.state] if answer.state == "absent" else _head(answer)) + text


def _answer_lines(answer: Answer) -> Iterator[str]:
    if answer.text and answer.state == "refused":
        yield answer.text
    elif answer.text:
        yield from _short(answer.text).split("\n")
    if answer.command:
        yield from (line for line in _caret(answer) if line)


def _details(columns: Sequence[Column], title: str) -> Iterator[str]:
    for index, section, row in _numbered():
        cells = _cells(columns, index)
        if section != title or isinstance(row.act, Option):
            continue
        if not any(cell.answer.text or cell.simulated for cell in cells):
            continue
        yield f"{row.what or _asked(row)}:"
        yield ""
        for cell in cells:
            names = ", ".join(column.name for column in cell.columns)
            yield f"    {names}: {_head(cell.answer)}"
            yield from (f"        {line}" for line in _answer_lines(cell.answer))
            for answer, series in cell.simulated.items():
                yield f"      ≠ simulator {', '.join(series)}: {_head(answer)}"
                yield from (f"        {line}" for line in _answer_lines(answer))
        yield ""


def markdown(columns: Sequence[Column]) -> str:
    """Return the page for a terminal or a forge."""
    first, second = _intention()
    lines = [f"# {TITLE}", "", first, f"{second} `{FIXED}`.", "", _measured_on(columns), ""]
    lines += [f"- {sign} {text}" for sign, _, text in LEGEND]
    lines += ["", "[kernels.html](kernels.html) is this page for a browser.", ""]
    for section in SECTIONS:
        lines += [f"## {section.title}", "", *_table(columns, section.title), ""]
        if details := list(_details(columns, section.title)):
            lines += ["### What they said", "", *details]
    return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"
