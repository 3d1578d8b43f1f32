"""playground.py runs it within Pyodide: it compiles the part of the Python library that the playground needs.

The bytecode must be that of Pyodide's Python.  `make` answers a question so that all modules it takes are imported,
imports what those would import later, and returns a zip file of all their bytecode.  Pyodide's own library, as sources,
is five times as large, and compiling it takes most of the time from opening the page to the first answer.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import io
import json
import marshal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

# Imported by C code, or when something goes wrong.
ALWAYS = (
    *("codecs", "encodings.aliases", "encodings.ascii", "encodings.latin_1", "encodings.utf_8"),
    *("linecache", "tokenize", "traceback", "warnings"),
)
_QUESTION = "p:myopen do_sys_openat2 filename=+0(%si):ustring\np do_sys_openat2 x=%nothing"


def make(sources: str, profile: str) -> bytes:
    """Return the zip file of all that answers questions, whose modules lie in the directory `sources`."""
    sys.path.insert(0, sources)
    answers = importlib.import_module("answers")
    said = json.loads(answers.ask(profile, _QUESTION, "nothing == 1"))
    refused = [command["error"] and command["error"]["name"] for command in said["commands"]]
    if refused != [None, "EINVAL"] or said["events"][0]["filter"]["error"]["number"] != 22:
        raise RuntimeError(f"the simulator answers wrongly here: {said}")
    own = sorted(Path(sources).rglob("*.py"))
    for name in {name for path in own for name in _imported(path.read_text(encoding="utf-8"))}:
        with contextlib.suppress(ImportError):  # not on this platform: nothing that is used here needs it
            importlib.import_module(name)
    for name in ALWAYS:
        importlib.import_module(name)
    return _zipped(sources, own)


def _imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _zipped(sources: str, own: list[Path]) -> bytes:
    library = next(path for path in sys.path if path.endswith(".zip"))
    with zipfile.ZipFile(library) as archive:
        there = set(archive.namelist())
        texts = {str(path.relative_to(sources)): path.read_bytes() for path in own}
        for name in sorted(sys.modules):
            for file in (f"{name.replace('.', '/')}.py", f"{name.replace('.', '/')}/__init__.py"):
                if file in there:
                    texts.setdefault(file, archive.read(file))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:  # it is compressed as a whole
        for file in sorted(texts):
            archive.writestr(zipfile.ZipInfo(f"{file}c"), _bytecode(file, texts[file]))
    return made.getvalue()


def _bytecode(file: str, text: bytes) -> bytes:
    """Return a .pyc that isn't compared with a source, without docstrings."""
    code = compile(text, file, "exec", dont_inherit=True, optimize=2)
    return importlib.util.MAGIC_NUMBER + (0b01).to_bytes(4, "little") + bytes(8) + marshal.dumps(code)
