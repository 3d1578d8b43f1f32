"""Developers run `make playground` to build the site: the page of docs/playground, Pyodide from npm, and profiles.

    python tools/docs/playground.py [DIRECTORY]      build/playground, unless another directory is named

It needs the extra [playground], which brings node and npm.  The kernels are those that `kprobe-sim profiles` lists.
Large files are compressed with gzip, and the page decompresses them: that saves transfer on any file server.
"""

from __future__ import annotations

import argparse
import ast
import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playground_prototypes import without_members

from kprobe_sim.builds import profile
from kprobe_sim.builds.gates import gates_of
from kprobe_sim.builds.portable.collection import stored
from kprobe_sim.kernel.kernels import kernels
from kprobe_sim.releases import flavour as flavour_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "playground"
STATIC = ("index.html", "style.css", "app.js", "view.js", "worker.js")
PYTHON = ("answers.py", "made_up_calls.py")
PYODIDE = (
    "package.json",
    "pyodide.mjs",
    "pyodide.asm.js",
    "pyodide.asm.wasm",
    "pyodide-lock.json",
    "python_stdlib.zip",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "build" / "playground")
    site = parser.parse_args().directory
    if site.exists():
        shutil.rmtree(site)
    site.mkdir(parents=True)
    for name in STATIC:
        shutil.copy(PAGE / name, site)
    with tempfile.TemporaryDirectory() as scratch:
        assemble(site, Path(scratch))
    files = [path for path in site.rglob("*") if path.is_file()]
    print(f"{site}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")


def assemble(site: Path, scratch: Path) -> None:
    """Write all that is made into the site."""
    pyodide = unpacked(fetched(json.loads((PAGE / "pyodide.json").read_text())), scratch)
    profiles = list(directories())
    library = compiled(pyodide, profiles[-1], scratch)
    shutil.copy(pyodide / "pyodide.mjs", site)
    lock = json.loads((pyodide / "pyodide-lock.json").read_text())
    parts = {
        "lock": {"info": lock["info"], "packages": {}},  # none of Pyodide's packages is needed
        "code": packed(site, "pyodide.asm.js", (pyodide / "pyodide.asm.js").read_bytes()),
        "machine": packed(site, "pyodide.asm.wasm", (pyodide / "pyodide.asm.wasm").read_bytes()),
        "library": packed(site, "library.zip", library),
    }
    text = f"export const python = {json.dumps(parts)};\n"
    rows = ",\n".join("  " + json.dumps(described(site, kernel)) for kernel in profiles)
    (site / "site.js").write_text(f"// made by tools/docs/playground.py\n{text}export const kernels = [\n{rows},\n];\n")


# ------------------------------------------------------------------------------------------------------------- Pyodide


def fetched(lock: dict[str, str]) -> Path:
    """Return the package that the lock names, fetched by npm unless it is there; exit at another checksum."""
    package = ROOT / "build" / "npm" / f"{lock['name']}-{lock['version']}.tgz"
    if not package.exists():
        package.parent.mkdir(parents=True, exist_ok=True)
        npm = Path(sys.executable).with_name("npm")
        if not npm.exists():
            sys.exit("there is no npm: make playground installs the extra [playground], which has it")
        named = f"{lock['name']}@{lock['version']}"
        subprocess.run([npm, "pack", "--silent", named], cwd=package.parent, check=True, stdout=subprocess.DEVNULL)
    kind, _, expected = lock["integrity"].partition("-")
    found = base64.b64encode(hashlib.new(kind, package.read_bytes()).digest()).decode()
    if found != expected:
        package.unlink()
        sys.exit(f"{package.name}: its {kind} is {found}, and the lock says {expected}")
    return package


def unpacked(package: Path, scratch: Path) -> Path:
    """Unpack what is needed of the package; return where."""
    with tarfile.open(package) as archive:
        for name in PYODIDE:
            member = archive.extractfile(f"package/{name}")
            assert member is not None, name
            (scratch / name).write_bytes(member.read())
    return scratch


def compiled(pyodide: Path, kernel: Path, scratch: Path) -> bytes:
    """Return the library of the page's Python, compiled by that Python itself."""
    sources, library = scratch / "sources", scratch / "library.zip"
    for name, path in modules():
        target = sources / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    node = Path(sys.executable).with_name("node")
    script = Path(__file__).with_name("playground_library.mjs")
    subprocess.run([node, script, pyodide, sources, kernel, library], check=True)
    return library.read_bytes()


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the files of the modules that answer questions, with all of the simulator's that they import."""
    seen: set[str] = set()
    waiting = [str(Path(name).with_suffix("")) for name in PYTHON]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        found = _file_of(name)
        if found is not None:
            yield found
            waiting += _imported(found[1])


def _file_of(name: str) -> tuple[str, Path] | None:
    inside = name.replace(".", "/")
    for file in (f"{inside}.py", f"{inside}/__init__.py"):
        for root in (PAGE, ROOT):
            if (root / file).is_file() and (root is PAGE or name.startswith("kprobe_sim")):
                return file, root / file
    return None


def _imported(path: Path) -> Iterator[str]:
    """Yield what a file imports anywhere in it, with the packages that each is in."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


# ------------------------------------------------------------------------------------------------------------- kernels


def directories() -> Iterator[Path]:
    """Yield the directories of the profiles of all kernels that are asked, oldest first; files are unpacked for that.

    Kernels of which little was recorded aren't among them, as everywhere where all are asked.
    """
    asked = {kernel.release for kernel in kernels()}
    for one in stored():
        if one.trouble:
            sys.exit(one.line())
        if not one.hidden and one.name in asked:
            yield profile.load(one.name).path


def described(site: Path, directory: Path) -> dict[str, object]:
    """Write a profile into the site as one file; return what the page needs to know of it."""
    one = profile.Profile(directory)
    files = sorted(path for path in directory.iterdir() if path.is_file())
    parts = {path.name: path.read_bytes() for path in files}
    if "prototypes.bin" in parts and not gates_of(one).btf:
        parts["prototypes.bin"] = without_members(directory / "prototypes.bin")
    flavour = flavour_of(one.release)
    return {
        "release": one.release,
        "name": one.series + (f" {flavour.removesuffix('-amd64')}" if flavour not in ("", "cloud-amd64") else ""),
        "parts": [[name, len(data)] for name, data in parts.items()],
        **packed(site, f"profiles/{one.release}", b"".join(parts.values())),
    }


def packed(site: Path, name: str, data: bytes) -> dict[str, object]:
    """Write data, compressed, under a name that changes with it; return the name and the bytes that it takes."""
    data = gzip.compress(data, 9, mtime=0)
    stem, dot, suffix = name.rpartition(".") if "/" not in name else (name, "", "")
    path = site / f"{stem}{dot}{suffix}.{hashlib.sha256(data).hexdigest()[:8]}.bin"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return {"file": path.relative_to(site).as_posix(), "bytes": len(data)}


if __name__ == "__main__":
    main()
