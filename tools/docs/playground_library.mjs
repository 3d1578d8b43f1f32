// node playground_library.mjs PYODIDE SOURCES PROFILE OUT: run playground_library.py in the Pyodide that lies in a directory
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, sources, profile, out] = process.argv.slice(2).map((name) => path.resolve(name));
const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: pyodide });
for (const [place, directory] of [["/sources", sources], ["/profile", profile]]) {
  python.FS.mkdirTree(place);
  python.mountNodeFS(place, directory);
}
python.runPython(fs.readFileSync(new URL("playground_library.py", import.meta.url), "utf-8"));
const made = python.globals.get("make")("/sources", "/profile");
fs.writeFileSync(out, made.toJs());
