// The kernels, away from the page: loads Pyodide and profiles, and answers one question at a time.
//
// In: {id, definition, filter, releases}.  Out: {progress: {loaded, total}}, {id, release, answer}, {id, done}, {failed}.

import { loadPyodide } from "./pyodide.mjs";
import { kernels, python as parts } from "./site.js";

const byRelease = new Map(kernels.map((kernel) => [kernel.release, kernel]));
const bytes = { loaded: 0, total: 0 };
const fetched = new Map();
const installed = new Set();
let newest = 0;
let interpreter;

// A file of the site, unpacked as it comes; each is fetched once.
function unpacked({ file, bytes: size }, type) {
  bytes.total += size;
  const counted = new TransformStream({
    transform(chunk, controller) {
      bytes.loaded += chunk.byteLength;
      postMessage({ progress: { ...bytes } });
      controller.enqueue(chunk);
    },
  });
  return fetch(new URL(file, import.meta.url)).then((response) => {
    if (!response.ok) throw new Error(`${file}: the server answers ${response.status}`);
    const stream = response.body.pipeThrough(counted).pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream, { headers: { "Content-Type": type } });
  });
}

async function started() {
  const code = unpacked(parts.code, "text/javascript").then((response) => response.blob());
  const machine = unpacked(parts.machine, "application/wasm");
  const library = unpacked(parts.library, "application/zip").then((response) => response.blob());
  await import(URL.createObjectURL(await code)); // which loadPyodide would fetch by its name otherwise
  const ordinary = self.fetch;
  self.fetch = (what, ...rest) => (String(what).endsWith("/pyodide.asm.wasm") ? machine : ordinary(what, ...rest));
  const pyodide = await loadPyodide({
    indexURL: new URL(".", import.meta.url).href,
    stdLibURL: URL.createObjectURL(await library),
    lockFileContents: parts.lock,
  });
  self.fetch = ordinary;
  const answers = pyodide.pyimport("answers");
  return { files: pyodide.FS, ask: answers.ask, settle: answers.settle };
}

function start() {
  interpreter ??= started();
  return interpreter;
}

function profile(release) {
  if (!fetched.has(release)) {
    const wanted = unpacked(byRelease.get(release), "application/octet-stream").then((response) => response.arrayBuffer());
    wanted.catch(() => fetched.delete(release)); // so that the next question tries again
    fetched.set(release, wanted);
  }
  return fetched.get(release);
}

async function directory(release, { files, settle }) {
  const path = `/profiles/${release}`;
  if (!installed.has(release)) {
    const data = new Uint8Array(await profile(release));
    files.mkdirTree(path);
    let start = 0;
    for (const [name, size] of byRelease.get(release).parts) {
      files.writeFile(`${path}/${name}`, data.subarray(start, start + size));
      start += size;
    }
    settle(path);
    installed.add(release);
    fetched.set(release, null);
  }
  return path;
}

// Fetches profiles one after the other, so that the first is there soonest.
async function ahead(releases) {
  for (const release of releases) await profile(release)?.catch(() => {}); // who asks for it is told
}

// Lets a newer question in, if one waits.
const breath = () => new Promise((resolve) => setTimeout(resolve));

async function answer({ id, definition, filter, releases }) {
  newest = id;
  const starting = start();
  ahead(releases);
  const python = await starting;
  for (const release of releases) {
    const path = await directory(release, python);
    if (id !== newest) return;
    postMessage({ id, release, answer: JSON.parse(python.ask(path, definition, filter)) });
    await breath();
    if (id !== newest) return;
  }
  postMessage({ id, done: true });
}

onmessage = ({ data }) => answer(data).catch((error) => postMessage({ id: data.id, failed: String(error?.message ?? error) }));
